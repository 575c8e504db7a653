"""How a Model is fitted: hard margins, and soft ones with a chosen C where classes do not separate."""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from prgd.core.checks import checked_price, joint_hint
from prgd.core.errors import RowsLostError, ZeroRowWarning
from prgd.core.threads import single_blas
from prgd.core.types import Array, Indices
from prgd.estimators.model import Model
from prgd.maxmargin import Round, max_margin, max_margin_batch, soft_margin
from prgd.norms import L2, as_norm
from prgd.problem import Problem
from prgd.problem.certificate import Certificate, quantity_of
from prgd.rows import Labels, Rows
from prgd.running.history import Status
from prgd.running.progress import progress_line
from prgd.running.result import Result
from prgd.solvers.primal_newton import soft_path

FOLDS = 5
# C times the mean squared distance of the rows from their mean, which does not depend on units.
GRID = tuple(10.0 ** (k / 2) for k in range(-4, 15))
MAX_ROWS = 20_000  # distinct rows that choose C; of more, a part is taken
_MAX_EXPONENT = 930  # largest power of two among the C that are tried: C times a square stays in range
_BLOCK_ROWS = 4096  # rows that are hashed together
_TRUTH = np.array([False, True])  # the classes of one class against the rest
_TOL = 1e-3  # relative gap of the fits that choose C


def against_rest(rows: Rows, sample_weight: Array | None = None) -> list[Rows]:
    """Return the rows of two classes, or those of each class against the rest, with these weights."""
    labels = rows.labels
    weights = labels.sample_weight if sample_weight is None else sample_weight
    if labels.classes is None or not labels.is_joint:
        if sample_weight is None:
            return [rows]
        return [rows.with_labels(Labels(labels.signs, weights, labels.classes))]
    signs = [np.where(labels.codes == k, 1, -1).astype(np.int8) for k in range(labels.classes.size)]
    return [rows.with_labels(Labels(y, weights, _TRUTH)) for y in signs]


def has_soft(norm: Any, is_joint: bool) -> bool:
    """Say whether a finite C is for problems of this norm."""
    return as_norm(norm) == L2() and not is_joint


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How `prgd.MaxMarginClassifier` and ``prgd fit`` make a `Model`: the parameters of the former.

    ``title`` is the label of a live line, empty for none.
    """

    C: float = math.inf
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
        object.__setattr__(self, "C", checked_price(self.C))

    @classmethod
    def of(cls, options: Any, **others: Any) -> Fitting:
        """Return the fit with the parameters that an estimator or a command line has, and with others."""
        own = {f.name: getattr(options, f.name) for f in fields(cls) if hasattr(options, f.name)}
        return cls(**own | others)

    def model(
        self, rows: Rows, X: Any = None, sample_weight: Array | None = None, starts: Sequence[Any] = ()
    ) -> Model:
        """Separate the classes; fit soft margins if C is finite, or if one class does not separate.

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
        found = rows.labels.classes
        classes = np.array([-1, 1]) if found is None else found
        is_joint = classes.size > 2 and self.multi_class == "joint"
        if math.isfinite(self.C) and not has_soft(self.norm, is_joint):
            raise ValueError(
                "A finite C is for norm='l2' and multi_class='ovr': soft margins are those of one class "
                f"against the rest in l2; got C={self.C:g}, norm={self.norm!r} and "
                f"multi_class={self.multi_class!r}. Use C=inf."
            )
        with single_blas(float(rows.n * rows.d * min(rows.n, rows.d))):
            if math.isfinite(self.C):
                return Model(classes, self._each(against_rest(rows, sample_weight), classes, self.C, starts))
            if is_joint:
                results = self._each([rows], classes, math.inf, starts)
            elif X is None or starts or classes.size == 2 or not self.polish or as_norm(self.norm) != L2():
                results = self._each(against_rest(rows), classes, math.inf, starts)
            else:
                results = self._together(rows, X, classes.size)
            hard = Model(classes, results)
            if hard.is_separated or self.fallback != "soft" or results[-1].status is Status.INTERRUPTED:
                return hard
            C = choose_C(*_some(rows, X, sample_weight), self.fit_intercept, self.n_jobs)
            # One C for all classes, whose scores are compared.
            soft = self._each(against_rest(rows, sample_weight), classes, C)
            return Model(classes, soft, results)

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
        return tuple(replace(result, classes=_TRUTH, feature_names=names) for result in batch)

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
            try:
                if math.isfinite(C):
                    return soft_margin(rows, C=C, max_passes=self.max_soft_passes, **options)
                options |= {"max_passes": self.max_passes, "polish": self.polish, "norm": self.norm}
                return max_margin(rows, multi_class="joint" if rows.labels.is_joint else None, **options)
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


def choose_C(X: Any, codes: Indices, s: Array, fit_intercept: bool, n_jobs: int | None = None) -> float:
    """Return the C of smallest error on held-out folds, for all problems of one class against the rest.

    ``s`` are the weights of the rows.

    Rows that are equal lie in the same fold, and a fold depends on what rows hold, not on their order. So
    weights and copies of rows lead to the same C, and nothing is random. Errors are averaged with those of
    the next C on either side, since a single one is noisy; of equal ones that of the smallest C is taken.
    """
    fold, counts = _folds(row_hashes(X), codes)
    unit = _unit(X, s)
    if counts < 2:
        return unit
    kept = fold >= 0
    scale = float(s.sum() / s[kept].sum())  # each of fewer rows counts as much more
    prices, errors = [unit * scale * f for f in GRID], np.zeros(len(GRID))
    options = {"fit_intercept": fit_intercept, "n_jobs": n_jobs, "scale": "none"}
    for k in range(min(FOLDS, counts)):
        train, test = np.flatnonzero(kept & (fold != k)), np.flatnonzero(fold == k)
        errors += _errors(X, codes, s, train, test, prices, options)
    ends = np.pad(errors, 1, mode="edge")
    smooth = 0.25 * ends[:-2] + 0.5 * errors + 0.25 * ends[2:]
    # Sums of weights are rounded: errors that differ by less are equal.
    return float(unit * GRID[int(np.argmax(smooth <= smooth.min() + 1e-9 * float(s.sum())))])


def _errors(
    X: Any, codes: Indices, s: Array, train: Indices, test: Indices, prices: list[float], options: Any
) -> Array:
    """Return the weight of the held-out rows that are taken for another class, for each of the prices."""
    targets = [1] if codes.max() == 1 else range(codes.max() + 1)
    scores = np.zeros((len(prices), test.size, len(targets)))
    rows, held = X[train], X[test]
    for j, target in enumerate(targets):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZeroRowWarning)
            problem = Problem(rows, codes[train] == target, **options)
        ws, bs = zip(*soft_path(problem, s[train], prices, _TOL), strict=True)
        scores[:, :, j] = (held @ np.stack(ws, axis=1) + np.array(bs)).T
    is_one = len(targets) == 1
    found = (scores[:, :, 0] > 0.0).astype(int) if is_one else scores.argmax(axis=2)
    return np.asarray(((found != codes[test]) * s[test]).sum(axis=1))


def row_hashes(X: Any) -> Indices:
    """Return a number for each row that depends on its entries alone, sparse or dense."""
    from scipy.sparse import csr_array  # slow to load

    hashes: list[int] = []
    for start in range(0, X.shape[0], _BLOCK_ROWS):
        block = csr_array(X[start : start + _BLOCK_ROWS], dtype=np.float64, copy=True)
        block.sum_duplicates()
        block.eliminate_zeros()
        columns, values = block.indices.astype(np.int64), block.data
        for a, b in pairwise(block.indptr.tolist()):
            hashes.append(zlib.crc32(columns[a:b].tobytes() + values[a:b].tobytes()))
    return np.array(hashes, dtype=np.int64)


def _folds(hashes: Indices, codes: Indices) -> tuple[Indices, int]:
    """Return the fold of each row, -1 for rows left out, and the distinct rows of the smallest class.

    Distinct rows of a class are dealt out one after the other, in the order of their hashes.
    """
    fold, smallest = np.full(hashes.size, -1), hashes.size
    total = sum(np.unique(hashes[codes == code]).size for code in np.unique(codes))
    for code in np.unique(codes):
        mine = np.flatnonzero(codes == code)
        distinct, place = np.unique(hashes[mine], return_inverse=True)
        count = distinct.size if total <= MAX_ROWS else max(2, distinct.size * MAX_ROWS // total)
        smallest = min(smallest, count)
        fold[mine] = np.where(place < count, place % FOLDS, -1)
    if smallest < FOLDS:
        fold[fold >= smallest] %= max(smallest, 1)
    return fold, smallest


def _unit(X: Any, s: Array) -> float:
    """Return the C that has no units: 1 by the mean squared distance of the rows from their mean.

    It is divided by the mean weight if that is below 1. Larger weights are copies of rows, which the error on
    held-out rows weighs against the length of w.
    """
    (spread, exponent), weight = _spread(X, s), float(s[s > 0.0].mean())
    # Powers of two are counted apart: squares of the rows may lie outside of the floating range.
    (a, first), (b, second) = math.frexp(spread), math.frexp(min(1.0, weight))
    power = -(first + second + 2 * exponent)
    if abs(power) > _MAX_EXPONENT:
        raise ValueError(
            f"Rows lie about {math.ldexp(math.sqrt(spread), exponent):.3g} from their mean, and the mean "
            f"weight is {weight:.3g}: the C of a soft margin, which is divided by the square of the one "
            "and by the other, leaves the floating range. Rescale X, e.g. by StandardScaler, or the weights."
        )
    return math.ldexp(1.0 / (a * b), power)


def _spread(X: Any, s: Array) -> tuple[float, int]:
    """Return the mean squared distance m of the rows from their mean, and e, as ``m * 4**e``.

    The mean is subtracted before squares are taken, which would cancel far from the origin.
    """
    largest = float(abs(X).max())
    if largest == 0.0:
        return 1.0, 0
    exponent, total = math.frexp(largest)[1], float(s.sum())
    if hasattr(X, "indptr"):
        values, columns = np.ldexp(X.data.astype(np.float64), -exponent), X.indices
        weights = np.repeat(s, np.diff(X.indptr))
        mean = np.bincount(columns, weights * values, X.shape[1]) / total
        stored = np.bincount(columns, weights, X.shape[1])
        is_full = np.bincount(columns, minlength=X.shape[1]) == X.shape[0]
        zeros = np.where(is_full, 0.0, np.maximum(total - stored, 0.0))  # the weight of entries not stored
        spread = float(weights @ (values - mean[columns]) ** 2 + zeros @ mean**2) / total
    else:
        X = np.ldexp(X.astype(np.float64), -exponent)
        spread = float((s @ (X - (s @ X) / total) ** 2).sum()) / total
    return (spread, exponent) if spread > 0.0 else (1.0, 0)
