"""The problems of ``prgd fit``: one for two classes, else one for each class against the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd._types import Array, Indices
from prgd.cli.common import RowsOptions, class_text, kind_of
from prgd.cli.data import load_labelled, open_data
from prgd.rows import Rows, as_rows
from prgd.rows.labels import label_array

MAX_ROWS = 20_000  # rows in memory at a time, from which a C is chosen


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
    some : callable
        Returns X and the codes of the classes of some rows, from which a C is chosen.
    feature_means : ndarray or None
        The means that stand for missing values, if ``--missing mean`` asked for them.
    """

    name: str
    classes: npt.NDArray[Any]
    makers: Sequence[Callable[[], Rows]]
    some: Callable[[], tuple[Any, Indices]]
    feature_means: Array | None = None

    @classmethod
    def of(cls, name: str, rows: Rows) -> Problems:
        """Return the single problem of rows that hold their labels; -1 and 1 are those of rows y_i x_i."""
        classes = rows.labels.classes
        classes = np.array([-1, 1]) if classes is None else classes
        return cls(name, classes, [lambda: rows], partial(_some, rows))

    @classmethod
    def open(cls, data: str, options: RowsOptions) -> Problems:
        """Return the problems of what DATA names."""
        if options.out_of_core:
            return cls.of(*open_data(data, options))
        found = load_labelled(data, options)
        make = partial(as_rows, found.X, n_threads=options.threads, feature_names=found.feature_names)
        y = None if found.y is None else label_array(found.y)
        if y is None or np.unique(y).size <= 2:
            return replace(cls.of(found.name, make(y)), feature_means=found.feature_means)
        classes, codes = np.unique(y, return_inverse=True)
        _check_classes(classes, len(y))
        makers = [partial(make, codes == k) for k in range(classes.size)]
        return cls(found.name, classes, makers, lambda: (found.X, codes), found.feature_means)

    def __iter__(self) -> Iterator[Rows]:
        return (make() for make in self.makers)

    @property
    def engine(self) -> str:
        """How the rows are held, in words."""
        return kind_of(self.makers[0]())

    @property
    def titles(self) -> list[str]:
        """What each problem separates, for a progress line."""
        return [class_text(c) for c in self.classes.tolist()] if len(self.makers) > 1 else [""]

    def choose_C(self, fit_intercept: bool) -> float:
        """Return the C of `prgd.MaxMarginClassifier` where classes do not separate."""
        from prgd.estimators._choice import choose_C  # scikit-learn is slow to load

        X, codes = self.some()
        targets = [1] if len(self.makers) == 1 else list(range(len(self.makers)))
        total = self.makers[0]().n
        weights = None if total == len(codes) else np.full(len(codes), total / len(codes))
        return choose_C(X, codes, targets, weights, {"fit_intercept": fit_intercept})


def _some(rows: Rows) -> tuple[Any, Indices]:
    """Return some rows, evenly spread, and the codes of their classes: 1 for positive labels, else 0."""
    indices = np.unique(np.linspace(0, rows.n - 1, min(rows.n, MAX_ROWS)).astype(np.int64))
    return rows.take(indices), (rows.labels.at(indices) > 0).astype(np.int64)


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
