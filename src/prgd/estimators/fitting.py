"""How a Model is fitted: hard margins, and soft ones with a chosen C where classes do not separate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from prgd.core.checks import checked_price, joint_hint
from prgd.core.errors import RowsLostError
from prgd.core.threads import single_blas
from prgd.core.types import Array, Indices
from prgd.estimators.model import Model
from prgd.maxmargin import Round, max_margin, max_margin_batch, soft_margin
from prgd.maxmargin.price import MAX_ROWS, choose_C
from prgd.norms import L2, as_norm
from prgd.problem.certificate import Certificate, quantity_of
from prgd.rows import Labels, Rows
from prgd.running.history import Status
from prgd.running.progress import progress_line
from prgd.running.result import Result

_TRUTH = np.array([False, True])  # the classes of one class against the rest


def problems_of(rows: Rows, sample_weight: Array | None = None, is_joint: bool = False) -> list[Rows]:
    """Return the rows of two classes, or of all jointly, or of each against the rest, with these weights."""
    labels = rows.labels
    weights = labels.sample_weight if sample_weight is None else sample_weight
    if labels.classes is None or not labels.is_joint or is_joint:
        if sample_weight is None:
            return [rows]
        return [rows.with_labels(Labels(labels.signs, weights, labels.classes, labels.codes))]
    signs = [np.where(labels.codes == k, 1, -1).astype(np.int8) for k in range(labels.classes.size)]
    return [rows.with_labels(Labels(y, weights, _TRUTH)) for y in signs]


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How `prgd.MaxMarginClassifier` and ``prgd fit`` make a `Model`: the parameters of the former.

    ``title`` is the label of a live line, empty for none.
    """

    C: float | str = math.inf
    fallback: str = "soft"
    norm: Any = "l2"
    multi_class: str = "ovr"
    fit_intercept: bool = True
    tol: float = 1e-6
    max_passes: int = 1000
    max_soft_passes: int = 100_000
    polish: bool = True
    n_jobs: int | None = None
    title: str = ""

    def __post_init__(self) -> None:
        if self.multi_class not in ("ovr", "joint"):
            hint = joint_hint(self.multi_class)
            raise ValueError(f"multi_class must be 'ovr' or 'joint'; got {self.multi_class!r}.{hint}")
        if self.fallback not in ("soft", "raise"):
            raise ValueError(f"fallback must be 'soft' or 'raise'; got {self.fallback!r}.")
        if self.C != "cv":
            object.__setattr__(self, "C", checked_price(self.C))

    @classmethod
    def of(cls, options: Any, **others: Any) -> Fitting:
        """Return the fit with the parameters that an estimator or a command line has, and with others."""
        own = {f.name: getattr(options, f.name) for f in fields(cls) if hasattr(options, f.name)}
        return cls(**own | others)

    def model(
        self, rows: Rows, X: Any = None, sample_weight: Array | None = None, starts: Sequence[Any] = ()
    ) -> Model:
        """Separate the classes; fit soft margins if C is finite or "cv", or if one class does not separate.

        Parameters
        ----------
        rows : Rows with their labels
        X : array or sparse matrix, optional
            The same rows, if they lie in one.
        sample_weight : array of shape (n,), optional
            The weights of soft margins.
        starts : sequence of arrays, optional
            A direction for each problem.
        """
        classes = np.array([-1, 1]) if (found := rows.labels.classes) is None else found
        is_joint = classes.size > 2 and self.multi_class == "joint"
        is_soft = math.inf != self.C
        if is_soft and as_norm(self.norm) != L2():
            raise ValueError(
                f"A finite C is for norm='l2', the norm of soft margins; got C={self.C} and "
                f"norm={self.norm!r}. Use C=inf."
            )
        with single_blas(float(rows.n * rows.d * min(rows.n, rows.d))):
            if is_soft:
                every = problems_of(rows, sample_weight, is_joint)
                return Model(classes, self._each(every, classes, self._price(rows, X, sample_weight), starts))
            if is_joint:
                results = self._each([rows], classes, math.inf, starts)
            elif X is None or starts or classes.size == 2 or not self.polish or as_norm(self.norm) != L2():
                results = self._each(problems_of(rows), classes, math.inf, starts)
            else:
                results = self._together(rows, X, classes.size)
            hard = Model(classes, results)
            if hard.is_separated or self.fallback != "soft" or results[-1].status is Status.INTERRUPTED:
                return hard
            C = replace(self, C="cv")._price(rows, X, sample_weight)
            soft = self._each(problems_of(rows, sample_weight), classes, C)
            return Model(classes, soft, results)

    def _price(self, rows: Rows, X: Any, sample_weight: Array | None) -> float:
        """Return C, or one that folds choose for all classes, whose scores are compared."""
        if not isinstance(self.C, str):
            return self.C
        return choose_C(*_some(rows, X, sample_weight), self.fit_intercept, self.n_jobs)

    def _together(self, rows: Rows, X: Any, K: int) -> tuple[Result, ...]:
        """Separate each class from the rest, all of them together."""
        batch = max_margin_batch(
            X,
            rows.labels.codes[:, None] == np.arange(K),
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_passes=self.max_passes,
            n_jobs=self.n_jobs,
            progress=self.title or False,
        )
        names = rows.feature_names
        return tuple(replace(result, classes=_TRUTH, feature_names=names) for result in batch.results)

    def _each(
        self, every: list[Rows], classes: Any, C: float, starts: Sequence[Any] = ()
    ) -> tuple[Result, ...]:
        """Solve one problem after the other; Ctrl-C keeps the bounds of the last one, if no other is left."""
        results: list[Result] = []
        for k, rows in enumerate(every):
            if results and results[-1].status is Status.INTERRUPTED:
                raise KeyboardInterrupt  # Some classes have not been begun, and nothing stands for them.
            name = f" {classes[k]}" if len(every) > 1 else ""
            results.append(self._solve(rows, C, starts[k] if len(starts) else None, name))
        return tuple(results)

    def _solve(self, rows: Rows, C: float, w0: Any, name: str) -> Result:
        """Solve for one C, with a live line; the error of lost rows says what was reached."""
        best = Certificate()
        with progress_line(f"{self.title}{name}" if self.title else False) as show:

            def tell(now: Round) -> None:
                nonlocal best
                # Bounds between two proofs are plainly computed, and may cross by a rounding.
                lower = min(now.margin, now.upper_bound)
                best = Certificate(lower, now.upper_bound, quantity=quantity_of(C))
                show(math.ceil(now.passes), best)

            options: Any = {"fit_intercept": self.fit_intercept, "tol": self.tol, "callback": tell, "w0": w0}
            options |= {"multi_class": "joint" if rows.labels.is_joint else None}
            try:
                if math.isfinite(C):
                    return soft_margin(rows, C=C, max_passes=self.max_soft_passes, **options)
                options |= {"max_passes": self.max_passes, "polish": self.polish, "norm": self.norm}
                return max_margin(rows, **options)
            except RowsLostError as error:
                error.args = (f"{error} So far {best}.",)
                raise


def _some(rows: Rows, X: Any, sample_weight: Array | None) -> tuple[Any, Indices, Array]:
    """Return the rows that choose C, the codes of their classes and their weights.

    They are all rows if they lie in an array, else some of them, evenly spread, each of which counts as more.
    """
    labels, n = rows.labels, rows.n
    indices = np.arange(n)
    if X is None:
        indices = np.unique(np.linspace(0, n - 1, min(n, MAX_ROWS)).astype(np.int64))
        X = rows.take(indices)
    codes = labels.codes_at(indices) if labels.is_joint else labels.at(indices) > 0
    weights = np.ones(indices.size) if sample_weight is None else sample_weight[indices]
    return X, codes.astype(np.int64), weights * (n / indices.size)
