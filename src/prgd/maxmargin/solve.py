"""The certified solver: exact solves on a working set that grows, as precise as the gap asks for.

1. One pass for the mean of the rows, in whose direction their margins order them. (Few rows, or rows of so
   many dimensions that most will carry weight, form the working set at once.)
2. The rows of smallest margin form the working set; pairwise descent on their Gram matrix finds the shortest
   vector u of their hull (between the two hulls, with an intercept), ever more exactly as the gap closes.
3. One pass over all rows measures the margin of u: ``gamma(u) <= gamma_star <= ||u||``. Rows that u
   serves worst join the set, and 2 follows, until the gap is certified.
4. Where descent is slow, an interior point solves the set (`interior`), if its dimensions are few, and the
   weights are solved for exactly on the identified support (`polish`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.certificate import Certificate, DualWeights
from prgd.checks import check_integer, check_positive
from prgd.norms import norm
from prgd.problem import Problem
from prgd.result import History, Result, Status
from prgd.rows.arrays import ArrayRows
from prgd.rows.queries import Smallest, TallyAt
from prgd.solvers import pairwise_descent as pairs
from prgd.solvers.gordan import is_proven, vanishing_weights
from prgd.solvers.interior_point import interior
from prgd.solvers.polish import active_set, polish, primal
from prgd.solvers.working_set import WorkingSet, all_rows
from prgd.threads import default_threads

_FEW_ROWS, _FEW_ENTRIES, _FEW_PRODUCTS = 256, 2**23, 10**9  # all rows are taken at once
_MANY_DIMENSIONS, _MOST_AT_ONCE = 10, 2048  # so many for each row: most rows will carry weight
_SMALL_MARGIN = 1e-4  # of the largest row norm: below it Gram matrices lose half of the digits
_PATIENCE = 25  # rounds without progress: the rounding floor of a tiny margin
_EPS = float(np.finfo(np.float64).eps)
_MOST_ROWS = 5000  # of the working set before idle rows go: a Gram matrix of 200 MB
_MOST_FLAT_ROWS = 20_000  # where no Gram matrix is needed
_MOST_GRAM_ROWS = 20_000  # that carry weight, or nearly: a Gram matrix of 3.2 GB


class Round(NamedTuple):
    """One row of the history of `max_margin`: the bounds after a round, and what it took to get there."""

    passes: float
    margin: float
    upper_bound: float
    gap: float
    working_set: int
    seconds: float


@dataclass
class _Best:
    """The best bounds so far and what proves them."""

    problem: Problem
    lower: float = -np.inf
    upper: float = np.inf
    w: Array = field(default_factory=lambda: np.zeros(0))
    b: float = 0.0
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    p: Array = field(default_factory=lambda: np.zeros(0))
    passes: float = 0.0
    history: list[Round] = field(default_factory=list)

    @property
    def gap(self) -> float:
        return max(0.0, (self.upper - self.lower) / self.upper) if self.upper > 0.0 else np.inf

    def see_w(self, w: Array, worst: tuple[Smallest, ...]) -> float:
        """Take ``w`` if its margin is the best; return the intercept that it goes with."""
        b, smallest = 0.0, sum(group.smallest for group in worst) / len(worst)
        if self.problem.fit_intercept:
            plus, minus = worst
            b = 0.5 * (minus.smallest - plus.smallest)
        length = norm(w)
        if length > 0.0 and smallest / length > self.lower:
            self.lower, self.w, self.b = smallest / length, w, b
        return b

    def see_p(self, upper: float, rows: npt.NDArray[np.int64], p: Array) -> None:
        if upper < self.upper:
            carried = p > 0.0
            self.upper, self.rows, self.p = upper, rows[carried], p[carried]


def max_margin(
    X: Any,
    y: Any = None,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_passes: int = 1000,
    polish: bool = True,
    callback: Callable[[Round], None] | None = None,
    verbose: int = 0,
    n_threads: int | None = None,
    w0: Any = None,
) -> Result:
    r"""Return the maximum-margin separator with a certified relative gap of at most ``tol``.

    .. math:: \gamma^\star = \max_{\|w\| = 1, b} \min_i y_i (\langle w, x_i \rangle + b)

    Parameters
    ----------
    X : array, sparse matrix or Rows
        Dense, CSR, memory-mapped or chunked; float32 or float64.
    y : array of shape (n,), optional
        Labels of two classes; ``None`` where X holds an engine or rows z_i.
    fit_intercept : bool
        A true, unpenalised intercept (the distance between the two hulls), as SVC has.
    tol : float
        Relative gap ``(upper_bound - margin) / upper_bound`` to certify.
    max_passes : int
        Readings of the data after which the best certified interval is returned.
    polish : bool
        Solve exactly on the identified support where descent is slow.
    callback : callable, optional
        Called with each entry of the history.
    verbose : int
        1 prints each entry.
    n_threads : int, optional
    w0 : array of shape (d,), optional
        A warm start, e.g. the ``coef`` of an earlier result: it orders the rows, instead of a few passes.

    Returns
    -------
    Result

    Examples
    --------
    >>> import prgd
    >>> data = prgd.datasets.synthetic_two(0)
    >>> result = prgd.max_margin(data.X, data.y, fit_intercept=False)
    >>> result.status.name, round(result.margin / data.gamma_star, 6)
    ('CERTIFIED', 1.0)
    >>> result.check(data.X, data.y).is_valid
    True
    """
    check_positive("tol", tol)
    check_integer("max_passes", max_passes, minimum=1)
    problem = Problem(X, y, fit_intercept=fit_intercept, n_threads=n_threads)
    start = None if w0 is None else _check_start(w0, problem.d)
    best = _Best(problem)
    started = time.perf_counter()

    def tell(working: int) -> None:
        seconds = time.perf_counter() - started
        entry = Round(best.passes, best.lower, best.upper, best.gap, working, seconds)
        best.history.append(entry)
        if verbose:
            print(_line(entry))
        if callback is not None:
            callback(entry)

    make = all_rows if _is_small(problem) else WorkingSet
    working = make(problem, n_threads or default_threads())
    try:
        status = _solve(problem, best, working, tol, max_passes, polish, tell, start)
    except KeyboardInterrupt:
        if best.w.size == 0 or best.p.size == 0:  # one of the bounds is missing
            raise
        status = Status.INTERRUPTED
    return _result(problem, best, working, status, tol)


def _check_start(w0: Any, d: int) -> Array:
    w = np.array(w0, dtype=np.float64)
    if w.shape != (d,) or not np.isfinite(w).all():
        raise ValueError(f"w0 must be a finite vector of shape ({d},); got shape {w.shape}.")
    return w


def _line(entry: Round) -> str:
    return (
        f"passes {entry.passes:6.1f}  rows {entry.working_set:6.0f}  "
        f"{entry.margin:.9g} <= gamma_star <= {entry.upper_bound:.9g}  gap {entry.gap:.2e}"
    )


def _solve(
    problem: Problem,
    best: _Best,
    working: WorkingSet,
    tol: float,
    max_passes: int,
    use_polish: bool,
    tell: Callable[[int], None],
    w: Array | None,
) -> Status:
    groups = 2 if problem.fit_intercept else 1
    if working.size == 0:
        if w is None:
            w = _mean(problem)
            best.passes += 1
        worst = problem.smallest(w, _first_rows(problem))
        best.passes += 1
        best.see_w(w, worst)
        working.add(np.concatenate([group.indices for group in worst]))
    p = _start(working, groups)
    g = working.G @ p
    # rows outside may still fall short by 0.5 tol, where there are any
    final_tol = (0.9 if working.size == problem.n else 0.4) * tol
    violation_tol, descent_is_slow = final_tol if working.size == problem.n else 0.1, False
    while True:
        direction, violation = None, np.inf
        if not descent_is_slow:
            _, violation = pairs.descend(
                working.table, working.group, groups, p, g, violation_tol, 2000 + 20 * working.size
            )
        u = working.combine(p) / groups
        if use_polish and violation > violation_tol:
            if norm(u) <= _SMALL_MARGIN * problem.max_norm:
                p, violation = active_set(working, groups, p, violation_tol), violation_tol
            elif working.is_flat and (found := _interior(working, groups, u, violation_tol)) is not None:
                p, direction = found
                violation, descent_is_slow = violation_tol, True
            else:
                p = polish(working, groups, p)
            u = working.combine(p) / groups
        upper = norm(u)
        best.see_p(upper, working.indices, p / groups)
        if upper <= 1e-6 * problem.max_norm and (none := vanishing_weights(working, groups, p)) is not None:
            best.see_p(norm(working.combine(none)) / groups, working.indices, none / groups)
            if best.w.size == 0:  # some w is better than none
                best.see_w(w := _mean(problem), problem.smallest(w, 1, working.indices))
                best.passes += 2
            return Status.NOT_SEPARABLE if is_proven(working, none) else Status.STALLED
        if use_polish and _EPS * problem.max_norm**2 > 0.1 * tol * upper**2 and violation <= 0.1:
            u = primal(working, groups, p) * upper**2
        elif direction is not None:
            u = direction * (upper / norm(direction))
        most = max(64, int(np.count_nonzero(p)))  # rows that join: about as many as carry weight
        worst = problem.smallest(u, most, working.indices)
        best.passes += 1 + working.size / problem.n
        b = best.see_w(u, worst)
        tell(working.size)
        if best.gap <= tol:
            return Status.CERTIFIED
        if best.passes >= max_passes:
            return Status.MAX_PASSES
        if len(best.history) > _PATIENCE and best.gap > 0.999 * best.history[-1 - _PATIENCE].gap:
            return Status.STALLED
        outside = _violators(worst, b, (1.0 - 0.5 * tol) * upper**2, most)
        if outside.size:
            if working.size + outside.size > (_MOST_FLAT_ROWS if descent_is_slow else _MOST_ROWS):
                mask = working.margins(u) < 2.0 * upper**2
                if not descent_is_slow:  # which starts from p
                    mask |= p > 0.0
                p = p[mask]
                working.keep(mask)
            if not descent_is_slow and working.size + outside.size > _MOST_GRAM_ROWS:
                return Status.STALLED
            working.add(outside)
            p = np.concatenate([p, np.zeros(outside.size)])
        g = np.empty(0) if descent_is_slow else working.margins(working.combine(p))
        if outside.size:
            violation_tol = max(final_tol, min(0.1, 0.1 * best.gap))
        else:  # that was not enough, or its time has come
            violation_tol = 0.25 * violation_tol if violation_tol <= final_tol else final_tol


def _mean(problem: Problem) -> Array:
    """Return the mean of the rows z_i; with an intercept, the sum of the means of both classes."""
    tally = problem.ask(TallyAt(np.zeros(problem.d), problem.loss, problem.fit_intercept))
    return np.asarray(tally.mean_rows.sum(axis=0))


def _is_small(problem: Problem) -> bool:
    """Tell whether the products of all rows cost less than passes that find out which matter."""
    n, d = problem.n, problem.d
    if n > (_FEW_ROWS if d < _MANY_DIMENSIONS * n else _MOST_AT_ONCE):
        return False
    if problem.rows.is_sparse:
        return True
    return isinstance(problem.rows, ArrayRows) and n * d <= _FEW_ENTRIES and n * n * d <= _FEW_PRODUCTS


def _first_rows(problem: Problem) -> int:
    """Return how many rows, of each class with an intercept, start the working set."""
    return min(max(64, 2 * problem.d), 256) // (2 if problem.fit_intercept else 1)


def _start(working: WorkingSet, groups: int) -> Array:
    """Put all weight on the shortest row of each group."""
    p, squares = np.zeros(working.size), np.diag(working.G)
    for group in range(groups):
        members = np.flatnonzero(working.group == group)
        p[members[np.argmin(squares[members])]] = 1.0
    return p


def _interior(working: WorkingSet, groups: int, start: Array, tol: float) -> tuple[Array, Array] | None:
    """Return weights and direction of the set by interior point, None where that fails.

    Once the support shows, the polish makes its weights exact and all others zero.
    """
    signs = np.where(working.group == 0, 1.0, -1.0)
    found = interior(working.Z, signs, groups == 2, start, tol)
    if found.vanishes:
        return found.p, found.w
    if found.gap > tol:
        return None
    p = np.where(found.is_active, found.p, 0.0)
    sums = np.bincount(working.group, p, minlength=groups)
    if sums.min() > 0.0:
        p = polish(working, groups, p / sums[working.group])
        if norm(working.combine(p)) <= norm(working.combine(found.p)):
            return p, found.w
    return found.p, found.w


def _violators(worst: tuple[Smallest, ...], b: float, level: float, most: int) -> npt.NDArray[np.int64]:
    """Return the ``most`` rows of smallest margin at intercept b, if below the level."""
    signs = (1.0, -1.0)[: len(worst)]
    margins = np.concatenate([group.margins + b * sign for group, sign in zip(worst, signs, strict=True)])
    indices = np.concatenate([group.indices for group in worst])
    order = np.argsort(margins, kind="stable")[:most]
    return indices[order[margins[order] < level]]


def _result(problem: Problem, best: _Best, working: WorkingSet, status: Status, tol: float) -> Result:
    order = np.argsort(best.rows)
    support, values = best.rows[order], best.p[order]
    signs = problem.signs(support) if problem.fit_intercept else np.ones(support.size, np.int8)
    values = _exact_sums(values, signs, problem.fit_intercept)
    upper = norm(working.combine_rows(support, values))  # of the weights as returned
    if best.w.size == 0:  # no w but 0 was seen: all rows are zero, or the same with an intercept
        best.w, best.lower = np.zeros(problem.d), 0.0
    certificate = Certificate(best.lower, upper, best.w, best.b, DualWeights(support, values))
    if status is Status.CERTIFIED and certificate.gap > tol:
        status = Status.STALLED  # at the rounding floor the returned weights prove a little less
    return Result(
        w=best.w,
        status=status,
        t=len(best.history),
        certificate=certificate,
        history=History(best.history, Round._fields),
        passes=best.passes,
        algorithm=f"max_margin(tol={tol!r})",
        problem=repr(problem),
        n=problem.n,
        fit_intercept=problem.fit_intercept,
        classes=problem.classes,
    )


def _exact_sums(p: Array, signs: npt.NDArray[np.int8], by_class: bool) -> Array:
    """Scale weights so that they sum to 1 (1/2 in each class) to rounding."""
    p = p.copy()
    if not by_class:
        p /= p.sum()
        return p
    for sign in (1, -1):
        p[signs == sign] *= 0.5 / p[signs == sign].sum()
    return p
