"""The problems of ``prgd fit``: one of two classes, one of each class against the rest, or a joint one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.cli.common import RowsOptions, class_text
from prgd.cli.data import check_classes, load_labelled, open_data
from prgd.core.types import Array, Indices
from prgd.rows import Labels, Rows, as_rows
from prgd.rows.labels import label_array

MAX_ROWS = 20_000  # rows in memory at a time, from which a C is chosen


@dataclass(frozen=True)
class Problems:
    """Rows with the labels of two classes, of one class against the rest, made one after another, or of all.

    Attributes
    ----------
    name : str
        The name of the data.
    classes : ndarray
    makers : sequence of callables
        Each returns the rows of a problem.
    some : callable
        Returns X and the codes of the classes of some rows, from which a C is chosen.
    joint : Rows or None
        The rows with the labels of more than two classes, if these are to be separated jointly.
    feature_means : ndarray or None
        The means that stand for missing values, if ``--missing mean`` asked for them.
    """

    name: str
    classes: npt.NDArray[Any]
    makers: Sequence[Callable[[], Rows]]
    some: Callable[[], tuple[Any, Indices]]
    joint: Rows | None = None
    feature_means: Array | None = None

    @classmethod
    def of(cls, name: str, rows: Rows, is_joint: bool) -> Problems:
        """Return the problems of rows that hold their labels; -1 and 1 are those of rows y_i x_i."""
        classes = rows.labels.classes
        some = partial(_some, rows)
        if classes is None or classes.size == 2:
            return cls(name, np.array([-1, 1]) if classes is None else classes, [lambda: rows], some)
        makers = [partial(_against_rest, rows, k) for k in range(classes.size)]
        return cls(name, classes, makers, some, rows if is_joint else None)

    @classmethod
    def open(cls, data: str, options: RowsOptions, is_joint: bool) -> Problems:
        """Return the problems of what DATA names."""
        if options.out_of_core:
            return cls.of(*open_data(data, options), is_joint)
        found = load_labelled(data, options)
        y = None if found.y is None else label_array(found.y)
        rows = as_rows(found.X, y, n_jobs=options.threads, feature_names=found.feature_names)
        check_classes(rows)
        problems = replace(cls.of(found.name, rows, is_joint), feature_means=found.feature_means)
        if len(problems.makers) == 1:
            return problems
        return replace(problems, some=lambda: (found.X, rows.labels.codes.astype(np.int64)))

    @property
    def separations(self) -> Iterator[tuple[Rows, str]]:
        """The rows to separate, and what they separate, for a progress line."""
        return self.against_rest if self.joint is None else iter([(self.joint, "")])

    @property
    def against_rest(self) -> Iterator[tuple[Rows, str]]:
        """The rows of two classes, or those of each class against the rest."""
        names = [class_text(c) for c in self.classes.tolist()] if len(self.makers) > 1 else [""]
        return ((make(), name) for make, name in zip(self.makers, names, strict=True))

    @property
    def rows(self) -> Rows:
        """The rows, whatever their labels are."""
        return self.makers[0]() if self.joint is None else self.joint

    def choose_C(self, fit_intercept: bool) -> float:
        """Return the C of `prgd.MaxMarginClassifier` where classes do not separate."""
        from prgd.estimators._choice import choose_C  # scikit-learn is slow to load

        X, codes = self.some()
        targets = [1] if len(self.makers) == 1 else list(range(len(self.makers)))
        total = self.rows.n
        weights = None if total == len(codes) else np.full(len(codes), total / len(codes))
        return choose_C(X, codes, targets, weights, {"fit_intercept": fit_intercept})


def _against_rest(rows: Rows, k: int) -> Rows:
    """Return the rows with the labels of the k-th class against the rest."""
    signs = np.where(rows.labels.codes == k, 1, -1).astype(np.int8)
    return rows.with_labels(Labels(signs, rows.labels.sample_weight, np.array([False, True])))


def _some(rows: Rows) -> tuple[Any, Indices]:
    """Return some rows, evenly spread, and the codes of their classes: of two, 1 for positive labels."""
    indices = np.unique(np.linspace(0, rows.n - 1, min(rows.n, MAX_ROWS)).astype(np.int64))
    labels = rows.labels
    codes = labels.codes_at(indices) if labels.is_joint else labels.at(indices) > 0
    return rows.take(indices), codes.astype(np.int64)
