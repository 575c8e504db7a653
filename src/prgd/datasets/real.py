"""The paper's real sets that ship with scikit-learn: pairs of digits, and breast cancer."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from prgd.core.types import Array
from prgd.datasets.base import Dataset


def digits(a: int, b: int, n: int | None = None) -> Dataset:
    """Return scikit-learn's 8 x 8 images of the digits ``a`` and ``b``, in file order.

    Rows are divided by the largest norm among those selected, so that all norms are at most 1, as
    the paper assumes.

    Parameters
    ----------
    a, b : int
        Two different digits; ``a`` gets the label -1 and ``b`` +1.
    n : int, optional
        Keep the first n rows; by default all. The paper uses 300.

    Returns
    -------
    Dataset
        Rows of shape (n, 64).

    Raises
    ------
    ValueError
        If a and b are not two digits, or n exceeds the number of their rows.

    References
    ----------
    Section 7.1 of the paper, digit-01 and digit-04.

    Examples
    --------
    >>> digits(0, 1)
    Dataset('digit-01', 360 x 64, dense float64)
    """
    if a == b or a not in range(10) or b not in range(10):
        raise ValueError(f"digits needs two different digits from 0 to 9; got {a!r} and {b!r}.")
    X, target = _all_digits()
    selected = np.flatnonzero((target == a) | (target == b))
    if n is not None and not 2 <= n <= selected.size:
        raise ValueError(
            f"n must lie between 2 and {selected.size}, the rows of digits {a} and {b}; got {n}."
            " Leave it out for all of them."
        )
    selected = selected[:n]
    rows = X[selected]
    rows = rows / np.linalg.norm(rows, axis=1).max()
    return Dataset(rows, np.where(target[selected] == b, 1.0, -1.0), f"digit-{a}{b}")


def _all_digits() -> tuple[Array, Array]:
    """Return the rows and targets of scikit-learn's `load_digits`, from its file alone.

    Importing scikit-learn would take longer than all else that a first `prgd fit digits:0,1` does.
    """
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("The digits come with scikit-learn: pip install scikit-learn.")
    table = np.loadtxt(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    return table[:, :-1], table[:, -1]


def cancer() -> Dataset:
    """Return scikit-learn's breast cancer set with its raw features.

    The paper calls it non-separable. All 569 rows are in fact separable, even through the origin,
    but by a margin so small that few runs will find it.

    Returns
    -------
    Dataset
        Rows of shape (569, 30); the label is +1 for benign and -1 for malignant.

    References
    ----------
    Section 7.2 of the paper, Cancer.

    Examples
    --------
    >>> dataset = cancer()
    >>> int((dataset.y == 1).sum())
    357
    """
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    names = tuple(found.feature_names.tolist())
    return Dataset(found.data, np.where(found.target == 1, 1.0, -1.0), "cancer", feature_names=names)
