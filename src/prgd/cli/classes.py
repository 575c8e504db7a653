"""The problems of ``prgd fit``: one for two classes, else one for each class against the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.cli.common import RowsOptions, class_text
from prgd.cli.data import load_labelled, open_data
from prgd.rows import Rows, as_rows
from prgd.rows.labels import label_array


@dataclass(frozen=True)
class Problems:
    """Rows with the labels of two classes, or of one class against the rest, made one after another.

    Attributes
    ----------
    name : str
        The name of the data.
    classes : ndarray
    makers : sequence of callables
        Each returns the rows of a problem.
    """

    name: str
    classes: npt.NDArray[Any]
    makers: Sequence[Callable[[], Rows]]

    @classmethod
    def of(cls, name: str, rows: Rows) -> Problems:
        """Return the single problem of rows that hold their labels; -1 and 1 are those of rows y_i x_i."""
        classes = rows.labels.classes
        return cls(name, np.array([-1, 1]) if classes is None else classes, [lambda: rows])

    @classmethod
    def open(cls, data: str, options: RowsOptions) -> Problems:
        """Return the problems of what DATA names."""
        if options.out_of_core:
            return cls.of(*open_data(data, options))
        found = load_labelled(data, options)
        make = partial(as_rows, found.X, n_threads=options.threads, feature_names=found.feature_names)
        y = None if found.y is None else label_array(found.y)
        classes = np.empty(0) if y is None else np.unique(y)
        if classes.size <= 2:
            return cls.of(found.name, make(y))
        _check_classes(classes, len(found.y))
        return cls(found.name, classes, [partial(make, y == label) for label in classes])

    def __iter__(self) -> Iterator[Rows]:
        return (make() for make in self.makers)

    @property
    def engine(self) -> str:
        """The name of the engine that holds the rows."""
        return type(self.makers[0]()).__name__

    @property
    def titles(self) -> list[str]:
        """What each problem separates, for a progress line."""
        return [class_text(c) for c in self.classes.tolist()] if len(self.makers) > 1 else [""]


def _check_classes(classes: npt.NDArray[Any], n: int) -> None:
    """Raise ``ValueError`` for labels that are measurements or row numbers rather than classes."""
    has_fractions = classes.dtype.kind == "f" and not (classes == np.round(classes)).all()
    if has_fractions or classes.size == n:
        shown = ", ".join(class_text(c) for c in classes[:3].tolist())
        what = "numbers with fractions" if has_fractions else "a different label in each row"
        raise ValueError(
            f"The labels must be classes; got {classes.size:,} values, {what} ({shown}, ...). Name the "
            "column of the classes with --label."
        )
