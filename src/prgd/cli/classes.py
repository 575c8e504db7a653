"""The problems of ``prgd fit``: one for two classes, else one for each class against the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.cli.common import RowsOptions, class_text
from prgd.cli.data import load_data, open_data
from prgd.datasets import Dataset
from prgd.rows import Rows, as_rows
from prgd.rows.labels import label_array


class Problems:
    """The problems of a fit: rows with the labels of two classes, or of one class against the rest.

    Attributes
    ----------
    name : str
        The name of the data.
    classes : ndarray
        Empty if the rows are y_i x_i already.
    """

    def __init__(
        self, name: str, classes: npt.NDArray[Any], rows: Rows | None, dataset: Dataset | None
    ) -> None:
        self.name, self.classes, self._rows, self._dataset = name, classes, rows, dataset

    @classmethod
    def of(cls, name: str, rows: Rows) -> Problems:
        """Return the single problem of rows that hold their labels."""
        classes = rows.labels.classes
        return cls(name, np.array([-1, 1]) if classes is None else classes, rows, None)

    @classmethod
    def open(cls, data: str, options: RowsOptions) -> Problems:
        """Return the problems of what DATA names."""
        if options.out_of_core:
            return cls.of(*open_data(data, options))
        dataset = load_data(data, options)
        classes = np.unique(label_array(dataset.y))
        if classes.size <= 2:
            return cls.of(dataset.name, as_rows(dataset.X, dataset.y, None, options.threads))
        _check_classes(classes, len(dataset.y))
        return cls(dataset.name, classes, None, dataset)

    def __iter__(self) -> Iterator[Rows]:
        if self._rows is not None:
            yield self._rows
        elif self._dataset is not None:
            for label in self.classes:
                yield as_rows(self._dataset.X, self._dataset.y == label)

    @property
    def engine(self) -> str:
        """The name of the engine that holds the rows."""
        return type(next(iter(self))).__name__

    @property
    def titles(self) -> list[str]:
        """What each problem separates, for a progress line."""
        return [""] if self._rows is not None else [class_text(c) for c in self.classes.tolist()]


def _check_classes(classes: npt.NDArray[Any], n: int) -> None:
    """Raise ``ValueError`` for labels that are measurements or row numbers rather than classes."""
    has_fractions = classes.dtype.kind == "f" and not (classes == np.round(classes)).all()
    if has_fractions or classes.size == n:
        shown = ", ".join(class_text(c) for c in classes[:3].tolist())
        what = "numbers with fractions" if has_fractions else "a different label in each row"
        raise ValueError(
            f"The labels must be classes; got {classes.size:,} values, {what} ({shown}, ...). Name the "
            "column that holds the classes with --label."
        )
