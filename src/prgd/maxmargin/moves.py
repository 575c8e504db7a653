"""The state of a solve and its moves: exact solves on a working set that grows with the rounds.

1. `choose_rows`: one pass computes the mean of the rows, and the rows of smallest margin along it form
   the working set. A problem with few rows, or with so many columns that most rows will carry weight,
   starts with all rows instead.
2. `solve_working_set`: pairwise descent on the Gram matrix of the set finds the shortest vector u of the hull
   of its rows (between the two hulls, with an intercept), more exactly as the gap closes. If descent is slow,
   `polish` takes over: an interior point solves a set of few dimensions, or the weights are solved for
   exactly on the identified support.
3. `certify`: one pass over all rows measures the margin of u, and ``gamma(u) <= gamma_star <= ||u||``. Both
   ends are rounded outward; where rounding would matter, products are compensated.
4. `grow`: the rows that violate the margin of u most join the set, and step 2 follows, until the gap is
   certified.
5. `solve_exactly`: a small problem that rounding keeps from being certified is solved in integers.

Sparse rows of many columns are solved without a working set first (`prgd.maxmargin.sparse`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from prgd._types import Array, Indices
from prgd.arithmetic import EPSILON, LARGEST, times_power
from prgd.certificate import Certificate, margin_error
from prgd.history import History, Status
from prgd.maxmargin.bounds import Bounds
from prgd.maxmargin.exactly import exact_optimum, is_exactly_solvable
from prgd.maxmargin.sparse import solve_by_rows
from prgd.norms import moderate, norm
from prgd.problem import Problem, balanced_intercept
from prgd.proofs.directions import exact_lower
from prgd.proofs.lifted_rows import LiftedRows
from prgd.result import Result
from prgd.rows.queries import Smallest, TallyAt
from prgd.solvers import pairwise_descent
from prgd.solvers.coordinate_descent import suits
from prgd.solvers.interior_point import interior_weights
from prgd.solvers.polish import active_set_weights, polish_weights, primal_direction, vanishing_weights
from prgd.solvers.working_set import WorkingSet, row_to_subtract, whole_set

# A problem with at most so many rows starts with all of them, if their entries and products are not too many.
_FEW_ROWS, _FEW_ENTRIES, _FEW_PRODUCTS = 256, 2**23, 10**9
# With so many columns for each row most rows will carry weight, so more rows are taken at once.
_MANY_COLUMNS, _MAX_ROWS_AT_ONCE = 10, 2048
# On a device the interior point takes all rows at once if they are not many more than columns.
_MAX_ROWS_PER_COLUMN, _MAX_DEVICE_ENTRIES = 8, 2**28
_MIN_FIRST_ROWS, _MAX_FIRST_ROWS = 64, 256  # rows that start the working set
_MIN_NEW_ROWS = 64  # rows that join the working set in a round, at least
# Above so many rows, rows that carry no weight and have large margins leave: a Gram matrix of 200 MB.
_MAX_ROWS = 5000
_MAX_ROWS_WITHOUT_GRAM = 20_000  # the same limit if the interior point needs no Gram matrix
_MAX_GRAM_ROWS = 20_000  # rows of the largest Gram matrix, 3.2 GB; a larger support ends the solve
_SMALL_MARGIN = 1e-4  # below this fraction of the largest row norm Gram matrices lose half of the digits
_ZERO_MARGIN = 1e-6  # below this fraction of the largest row norm the bound may vanish altogether
_PATIENCE = 25  # rounds without progress that end a solve: rounding limits the gap of a tiny margin
_SHORT_PATIENCE = 4  # the same limit if the problem is small enough for exact arithmetic
_MAX_ROUNDS_BEFORE_EXACT = 60  # rounds after which a small problem goes to exact arithmetic anyway
_MAX_EXACT_ROUNDS = 20  # times that rows outside the set may join it in exact arithmetic
_MIN_PROGRESS = 1e-3  # relative decrease of the gap that counts as progress
_FIRST_TOLERANCE = 0.1  # relative violation at which the first solve of a growing set stops
_DEVICE_TOLERANCE = 0.02  # the same on a device, where a step costs less than another round
_FEW_JOINING = 0.02  # fraction of the set, on a device, of rows that join before its last solve
_NEARLY_VIOLATED = 1.25  # on a device, rows whose margin is below so many times that of the set join
_ROUNDING_FRACTION = (
    0.05  # rounding may take this fraction of the tolerance; beyond, products are compensated
)
_FAR_FROM_ORIGIN = 16.0  # rows whose distance from the origin exceeds their spread so many times are centred
_MODERATE = 1e100  # row norms between 1/_MODERATE and _MODERATE have products in the floating range


class Round(NamedTuple):
    """One row of the history of `max_margin`: the bounds after a round, and what it took to get there."""

    passes: float
    margin: float
    upper_bound: float
    gap: float
    working_set: int
    seconds: float


@dataclass(eq=False)
class SolverState:
    """The state of a solve; its methods are the moves that the docstring of the module describes.

    Attributes
    ----------
    bounds : Bounds
        The best bounds so far, with their witnesses.
    p : ndarray of shape (m,)
        Weights of the rows of the working set, of sum 1 in each group.
    g : ndarray of shape (m,)
        ``<Z^T p, z_i>`` for the rows of the set, which pairwise descent keeps up to date.
    u : ndarray of shape (d,)
        ``Z^T p`` divided by the number of groups; its norm is an upper bound. After `certify` u is the
        direction that was measured, which may be a more accurate one of the same length.
    violation : float
        The largest difference of margins that `solve_working_set` left, relative to ``||u||^2``.
    set_tol, final_tol : float
        The violation at which the solve of the set stops, and the value to which it falls with the gap.
    interior_w : ndarray of shape (d,) or None
        The direction of the interior point, if it has solved the set.
    skips_descent : bool
        Pairwise descent was slow and the interior point has taken over.
    on_device : bool
        The working set is a tensor on the device of the rows. Steps of descent are too small for a device:
        the interior point solves the set from the start, and the set grows in larger parts.
    """

    problem: Problem
    threads: int
    tol: float
    max_passes: int
    use_polish: bool
    tell: Callable[[Round], None]
    bounds: Bounds = field(init=False)
    passes: float = 0.0
    rounds: list[Round] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    working: WorkingSet = field(init=False)
    p: Array = field(init=False)
    g: Array = field(init=False)
    u: Array = field(init=False)
    violation: float = np.inf
    set_tol: float = _FIRST_TOLERANCE
    final_tol: float = 0.0
    interior_w: Array | None = None
    skips_descent: bool = False
    on_device: bool = False

    def __post_init__(self) -> None:
        self.bounds = Bounds(self.problem, self.tol)
        self.skips_descent = self.on_device

    @property
    def certificate(self) -> Certificate:
        """The best bounds so far."""
        return self.bounds.certificate

    def run(self, w0: Array | None) -> Status:
        """Make the moves until one of them ends the solve."""
        if w0 is None and self.use_polish and suits(self.problem):
            if (status := solve_by_rows(self)) is not None:
                return status
            w0 = self.certificate.w if self.certificate.lower > 0.0 else None
        self.choose_rows(w0)
        self.start()
        while True:
            self.solve_working_set()
            if self.use_polish and self.violation > self.set_tol:
                self.polish()
            upper = norm(self.u)
            self.bounds.above(self.working, self.p, upper)
            if self.has_vanished(upper):
                return Status.STALLED
            smallest = self.certify(upper)
            if (status := self.end_of_solve() or self.grow(smallest, upper)) is not None:
                return status

    def choose_rows(self, w: Array | None) -> None:
        """Start the working set with all rows, or with those of smallest margin along w or their mean."""
        problem, threads = self.problem, self.threads
        if _is_small(problem, self.on_device):
            self.working = whole_set(
                problem, threads, *center_and_exponent(problem, None, self.on_device), self.on_device
            )
            return
        if w is None:
            w = _mean(problem)
            self.passes += 1
        groups = 2 if problem.fit_intercept else 1
        w = moderate(w)
        max_rows = _MAX_ROWS_AT_ONCE if self.on_device else _MAX_FIRST_ROWS
        count = min(max(_MIN_FIRST_ROWS, 2 * problem.d), max_rows) // groups
        smallest = problem.smallest(w, count)
        self.passes += 1
        self.bounds.below(w, smallest, None)
        first = np.concatenate([group.indices for group in smallest])
        units = center_and_exponent(problem, np.sort(first), self.on_device)
        self.working = WorkingSet(problem, threads, *units, self.on_device)
        self.working.add(first)

    def start(self) -> None:
        """Put all weight on the shortest row of each group, and choose the tolerances.

        The interior point of a device starts with equal weights instead.
        """
        working, is_whole = self.working, self.working.size == self.problem.n
        if self.on_device:
            self.p = 1.0 / np.bincount(working.group)[working.group]
        else:
            self.p, squares = np.zeros(working.size), np.diag(working.G)
            for group in range(working.groups):
                members = np.flatnonzero(working.group == group)
                self.p[members[np.argmin(squares[members])]] = 1.0
            self.g = working.G @ self.p
        # Rows outside the set, if there are any, may fall short of its margin by half of the tolerance.
        self.final_tol = (0.9 if is_whole else 0.4) * self.tol
        self.set_tol = self.final_tol if is_whole else _FIRST_TOLERANCE

    def solve_working_set(self) -> None:
        """Find the shortest vector of the hull of the set by pairwise descent, as far as it gets."""
        working, self.violation, self.interior_w = self.working, np.inf, None
        if not self.skips_descent:
            max_steps = 2000 + 20 * working.size
            _, self.violation = pairwise_descent.descend(
                working.gram_buffer, working.group, self.p, self.g, self.set_tol, max_steps
            )
        self.u = working.combine(self.p) / working.groups

    def polish(self) -> None:
        """Finish what descent left: on the rows, by interior point, or on the face of the support."""
        working = self.working
        try:
            if norm(self.u) <= _SMALL_MARGIN * working.max_norm and not self.on_device:
                self.p, self.violation = active_set_weights(working, self.p, self.set_tol), self.set_tol
            elif working.is_low_dimensional and (
                found := interior_weights(working, self.u, self.set_tol, self.p)
            ):
                self.p, self.interior_w = found
                self.violation, self.skips_descent = self.set_tol, True
            else:
                self.p = polish_weights(working, self.p)
        except np.linalg.LinAlgError:  # a factorisation did not converge, and what descent found stands
            return
        self.u = working.combine(self.p) / working.groups

    def has_vanished(self, upper: float) -> bool:
        """Say whether the upper bound is zero to rounding: then no margin may be left to find."""
        if upper > _ZERO_MARGIN * self.working.max_norm:
            return False
        p = vanishing_weights(self.working, self.p)
        if p is None:
            return False
        self.p = p
        self.bounds.above(self.working, p, norm(self.working.combine(p)) / self.working.groups)
        return True

    def certify(self, upper: float) -> tuple[Smallest, ...]:
        """Measure the margin of u over all rows by one pass; return the rows of smallest margin outside."""
        problem, working = self.problem, self.working
        # The margins of Z^T p have errors of EPSILON max||z||^2, which must be small against tol ||u||^2.
        is_inaccurate = EPSILON * working.max_norm**2 > 0.1 * self.tol * upper**2
        has_direction = self.on_device and self.interior_w is not None
        if self.use_polish and is_inaccurate and self.violation <= _FIRST_TOLERANCE and not has_direction:
            self.u = self._primal_direction(upper)
        elif self.interior_w is not None:
            self.u = self.interior_w * (upper / norm(self.interior_w))
        self.u = moderate(self.u)
        smallest = self.measure(self.u, times_power(upper, working.exponent))
        self.passes += 1 + working.size / problem.n
        c, seconds = self.certificate, time.perf_counter() - self.started
        self.rounds.append(Round(self.passes, c.lower, c.upper, c.gap, working.size, seconds))
        self.tell(self.rounds[-1])
        return smallest

    def _primal_direction(self, upper: float) -> Array:
        try:
            return primal_direction(self.working, self.p) * upper**2
        except np.linalg.LinAlgError:  # the singular value decomposition did not converge
            return self.u

    def measure(self, w: Array, upper: float) -> tuple[Smallest, ...]:
        """Bound the margin of w by one pass, compensated if its rounding matters against an upper bound."""
        problem, working = self.problem, self.working
        near = None
        if self.bounds.matters(margin_error(problem, 1.0), upper):
            near = 0.0 if working.center is None else -float(w @ working.center)
        smallest = problem.smallest(w, self._max_new_rows(), working.indices, near)
        self.bounds.below(w, smallest, near)
        return smallest

    def end_of_solve(self) -> Status | None:
        """Return why the solve ends after this round, or None."""
        gap, rounds = self.certificate.gap, self.rounds
        if gap <= self.tol:
            return Status.CERTIFIED
        if self.passes >= self.max_passes:
            return Status.MAX_PASSES
        is_small = is_exactly_solvable(self.working)
        if is_small and len(rounds) >= _MAX_ROUNDS_BEFORE_EXACT:
            return Status.STALLED
        patience = _SHORT_PATIENCE if is_small else _PATIENCE
        # The negation holds while the gap is infinite, too.
        is_stalled = len(rounds) > patience and not gap < (1.0 - _MIN_PROGRESS) * rounds[-1 - patience].gap
        return Status.STALLED if is_stalled else None

    def grow(self, smallest: tuple[Smallest, ...], upper: float) -> Status | None:
        """Let the rows join that violate the margin of u most, or tighten the tolerance if none does."""
        working = self.working
        level = (1.0 - 0.5 * self.tol) * norm(self.u) * times_power(upper, working.exponent)
        joining = self._violators(smallest, level)
        if joining.size and self.on_device:  # rows that are nearly violated will be, and a round is expensive
            joining = self._violators(smallest, _NEARLY_VIOLATED * level)
        if joining.size:
            max_rows = _MAX_ROWS_WITHOUT_GRAM if self.skips_descent else _MAX_ROWS
            if self.on_device:
                max_rows = max(max_rows, _MAX_DEVICE_ENTRIES // self.problem.d)
            if working.size + joining.size > max_rows:
                self._drop_idle_rows(upper)
            if not self.skips_descent and working.size + joining.size > _MAX_GRAM_ROWS:
                return Status.STALLED
            working.add(joining)
            self.p = np.concatenate([self.p, np.zeros(joining.size)])
            fraction = _DEVICE_TOLERANCE if self.on_device else _FIRST_TOLERANCE
            # The last few rows do not change the set much, so that it may be solved for good.
            is_last = self.on_device and joining.size < _FEW_JOINING * working.size
            loose = fraction * min(1.0, self.bounds.plain_gap)
            self.set_tol = self.final_tol if is_last else max(self.final_tol, loose)
        elif self.set_tol > self.final_tol:
            # No row outside the set violates the margin, so the set must be solved more exactly.
            self.set_tol = self.final_tol
        else:
            # The final tolerance was not enough to certify the gap.
            self.set_tol *= 0.25
        if not self.skips_descent:
            self.g = working.margins(working.combine(self.p))
        return None

    def _drop_idle_rows(self, upper: float) -> None:
        """Remove the rows of large margin from the set."""
        mask = self.working.margins(self.u) < 2.0 * upper * norm(self.u)
        if not self.skips_descent:
            mask |= self.p > 0.0  # pairwise descent starts from p, so rows that carry weight must stay
        self.p = self.p[mask]
        self.working.keep(mask)

    def _max_new_rows(self) -> int:
        """Return how many rows may join: about as many as carry weight, on a device as the set has."""
        if self.on_device:
            return max(_MAX_ROWS_AT_ONCE, self.working.size)
        return max(_MIN_NEW_ROWS, int(np.count_nonzero(self.p)))

    def _violators(self, smallest: tuple[Smallest, ...], level: float) -> Indices:
        """Return the rows of smallest margin, at the best intercept, whose margin is below the level."""
        b, signs = _intercept(smallest), (1.0, -1.0)[: len(smallest)]
        margins = np.concatenate([q.margins + b * sign for q, sign in zip(smallest, signs, strict=True)])
        indices = np.concatenate([group.indices for group in smallest])
        order = np.argsort(margins, kind="stable")[: self._max_new_rows()]
        return np.asarray(indices[order[margins[order] < level]])

    def solve_exactly(self) -> Status | None:
        """Solve a small problem in integers; None if it is too large, or has no separator."""
        for _ in range(_MAX_EXACT_ROUNDS):
            found = exact_optimum(self.problem, self.working, self.p)
            if found is None:
                return None
            self.bounds.certificate = self.certificate.with_upper(found.upper, found.weights)
            if found.w is None:  # the shortest vector is zero, so no hyperplane separates
                return None
            smallest = self.problem.smallest(
                found.w, self._max_new_rows(), self.working.indices, found.intercept
            )
            self.passes += 1
            self.bounds.below(found.w, smallest, found.intercept)
            if self.certificate.gap <= self.tol:
                return Status.CERTIFIED
            joining = self._violators(smallest, found.level)
            if not joining.size:
                rows = LiftedRows.of(self.problem)
                exact = exact_lower(rows, found.exact_w), found.w, found.intercept, found.exact_w
                self.bounds.certificate = self.certificate.with_lower(*exact)
                return Status.CERTIFIED if self.certificate.gap <= self.tol else None
            self.working.add(joining)
            self.p = np.concatenate([self.p, np.zeros(joining.size)])
        return None

    def result(self, status: Status) -> Result:
        """Return the outcome, with weights whose sum is exact, and the bound of these."""
        if self.certificate.w is None:  # the vector of the set vanished before any w was measured
            w = _mean(self.problem)
            w = moderate(w) if norm(w) > 0.0 else np.eye(1, self.problem.d)[0]
            self.measure(w, self.certificate.upper)
            self.passes += 2
        problem, c = self.problem, self.bounds.final(self.working)
        if status is Status.CERTIFIED and c.gap > self.tol:
            status = Status.STALLED  # at the rounding floor the returned weights prove a little less
        return Result(
            w=np.asarray(c.w),
            status=status,
            t=len(self.rounds),
            certificate=c,
            history=History(self.rounds, Round._fields),
            passes=self.passes,
            algorithm=f"max_margin(tol={self.tol!r})",
            **problem.facts,
        )


def _intercept(smallest: tuple[Smallest, ...]) -> float:
    return balanced_intercept([group.smallest for group in smallest])


def center_and_exponent(
    problem: Problem, indices: Indices | None = None, on_device: bool = False
) -> tuple[Array | None, int]:
    """Return what is subtracted from the rows of the set, and the power of two that divides them."""
    center, size = row_to_subtract(problem, indices, on_device)
    is_moderate = 1.0 / _MODERATE < size < _MODERATE or size == 0.0
    return center, 0 if is_moderate else math.frexp(min(size, LARGEST))[1]


def _mean(problem: Problem) -> Array:
    """Return the mean of the rows z_i; with an intercept, the sum of the means of both classes."""
    tally = problem.ask(TallyAt(np.zeros(problem.d), problem.loss, problem.fit_intercept, is_repeated=False))
    return np.asarray(tally.mean_rows.sum(axis=0))


def _is_small(problem: Problem, on_device: bool) -> bool:
    """Say whether the products of all rows cost less than the passes that find the rows that matter."""
    n, d = problem.n, problem.d
    if on_device:
        return n <= max(_MAX_ROWS_AT_ONCE, _MAX_ROWS_PER_COLUMN * d) and n * d <= _MAX_DEVICE_ENTRIES
    if n > (_FEW_ROWS if d < _MANY_COLUMNS * n else _MAX_ROWS_AT_ONCE):
        return False
    if problem.rows.is_sparse:
        return True
    return problem.rows.is_in_arrays and n * d <= _FEW_ENTRIES and n * n * d <= _FEW_PRODUCTS
