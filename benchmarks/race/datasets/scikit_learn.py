"""Separable sets that ship with scikit-learn."""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from typing import Any

import numpy as np
from benchmark_utils.shapes import BaseDataset


class Dataset(BaseDataset):
    name = "scikit-learn"
    parameters = {"which": ["iris_setosa", "wine_0", "digits_01", "digits_04", "digits_0_rest"]}

    def get_data(self) -> dict[str, Any]:
        from sklearn import datasets

        if self.which.startswith("digits"):
            X, target = datasets.load_digits(return_X_y=True)
            if self.which != "digits_0_rest":
                other = int(self.which[-1])
                X, target = X[np.isin(target, (0, other))], target[np.isin(target, (0, other))]
        else:
            load = datasets.load_iris if self.which.startswith("iris") else datasets.load_wine
            X, target = load(return_X_y=True)
            X = (X - X.mean(axis=0)) / X.std(axis=0)
        return {"X": X, "y": np.where(target == 0, 1.0, -1.0)}

    def fingerprint(self) -> str:
        import sklearn

        return sklearn.__version__
