"""The state of a solve and its moves: exact solves on a working set that grows with the rounds.

1. `choose_rows`: one pass computes the mean of the rows, and the rows of smallest margin along it form
   the working set. A problem with few rows, or with so many columns that most rows will carry weight,
   starts with all rows instead.
2. `solve_working_set`: pairwise descent on the Gram matrix of the set finds the shortest vector u of the hull
   of its rows (between the two hulls, with an intercept), more exactly as the gap closes. Once descent has
   cost as much as pivots would, these solve for the weights exactly, from the support that it has identified.
   If both fail, `polish` takes over: an interior point solves a set of few dimensions, and pivots end it. On
   a device the interior point solves every set, since steps of descent are too small for it.
3. `certify`: one pass over all rows measures the margin of u, and ``gamma(u) <= gamma_star <= ||u||``. Both
   ends are rounded outward; where rounding would matter, products are compensated. If u is nearly zero,
   `has_vanished` looks for weights that balance the rows, which prove that no hyperplane separates them.
4. `grow`: the rows that violate the margin of u most join the set, and step 2 follows, until the gap is
   certified.
5. `exactly.solve_exactly`: a small problem that rounding keeps from being certified is solved in integers.

Sparse rows of many columns are solved without a working set first (`prgd.maxmargin.sparse`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from prgd.core.arithmetic import EPSILON, times_power
from prgd.core.types import Array, Indices
from prgd.maxmargin.bounds import Bounds, Round, mean_row, result_of_rounds
from prgd.maxmargin.costs import (
    FIRST_STEPS,
    MAX_DEVICE_ENTRIES,
    MAX_ROWS_AT_ONCE,
    is_small,
    max_steps_of_descent,
    steps_worth_a_pivot,
)
from prgd.maxmargin.exactly import is_exactly_solvable
from prgd.maxmargin.sparse import solve_by_rows
from prgd.norms import moderate, norm
from prgd.problem import Problem
from prgd.problem.certificate import Certificate, margin_error
from prgd.problem.coding import balanced_intercept
from prgd.rows.queries import Smallest
from prgd.running.history import Status
from prgd.running.result import Result
from prgd.solvers import pairwise_descent
from prgd.solvers.balancing import balancing_weights
from prgd.solvers.coordinate_descent import suits
from prgd.solvers.gram_matrix import SMALL_MARGIN, ZERO_MARGIN
from prgd.solvers.interior_point import MAX_ROWS_PER_COLUMN, interior_weights
from prgd.solvers.polish import active_set_weights, pivot_weights, polish_weights, primal_direction
from prgd.solvers.working_set import WorkingSet, center_and_exponent, whole_set

_MIN_FIRST_ROWS, _MAX_FIRST_ROWS = 64, 256  # rows that start the working set
_MIN_NEW_ROWS = 64  # rows that join the working set in a round, at least
_MAX_ROWS = 5000  # above, rows that carry no weight and have large margins leave: a Gram matrix of 200 MB
_MAX_ROWS_WITHOUT_GRAM = 20_000  # the same limit if the interior point needs no Gram matrix
_MAX_GRAM_ROWS = 20_000  # rows of the largest Gram matrix, 3.2 GB; a larger support ends the solve
_HARDLY_FEWER = 0.9  # if this fraction of the rows would stay, all stay
_PATIENCE = 25  # rounds without progress that end a solve: rounding limits the gap of a tiny margin
_SHORT_PATIENCE = 4  # the same limit if the problem is small enough for exact arithmetic
_MAX_ROUNDS_BEFORE_EXACT = 60  # rounds after which a small problem goes to exact arithmetic anyway
_MIN_PROGRESS = 1e-3  # relative decrease of the gap that counts as progress
_INTERIOR_TOLERANCE = 1e-4  # gap at which the interior point has identified the support
_NEAR = 0.5  # relative violation below which the support of descent is nearly that of the solution
_FIRST_TOLERANCE = 0.1  # relative violation at which the first solve of a growing set stops
_DEVICE_TOLERANCE = 0.02  # the same on a device, where a step costs less than another round
_FEW_JOINING = 0.02  # fraction of the set, on a device, of rows that join before its last solve
_NEARLY_VIOLATED = 1.25  # on a device, rows whose margin is below so many times that of the set join


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
    is_exact : bool
        The last set was solved by pivots or by the interior point, so that few pivots solve a larger one.
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
    is_exact: bool = False
    on_device: bool = False

    def __post_init__(self) -> None:
        # A gap of 1 or more proves no positive margin: classes that overlap must not be certified.
        self.tol = min(self.tol, 1.0 - EPSILON)
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
        if is_small(problem, self.on_device):
            units = center_and_exponent(problem, None, self.on_device)
            self.working = whole_set(problem, threads, *units, self.on_device)
            return
        if w is None:
            w = mean_row(problem)
            self.passes += 1
        groups = 2 if problem.fit_intercept else 1
        w = moderate(w)
        max_rows = MAX_ROWS_AT_ONCE if self.on_device else _MAX_FIRST_ROWS
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
        # Rows outside the set, if there are any, may fall short of its margin by half of the tolerance.
        self.final_tol = (0.9 if is_whole else 0.4) * self.tol
        self.set_tol = self.final_tol if is_whole else _FIRST_TOLERANCE

    def solve_working_set(self) -> None:
        """Find the shortest vector of the hull of the set: by descent, and by pivots once these cost less."""
        self.violation, self.interior_w = np.inf, None
        # Few rows have joined a set that was solved exactly, so its support is a good guess.
        if not (self.is_exact and self._pivot()):
            self.is_exact = False
            if not self.skips_descent:
                self._descend()
        self.u = self.working.combine(self.p) / self.working.groups

    def _descend(self) -> None:
        """Descend until the violation is small enough, or pivots or the interior point would cost less."""
        working = self.working
        self.g = working.products(self.p)
        steps, taken, max_steps = FIRST_STEPS, 0, max_steps_of_descent(working, self.use_polish)
        while taken < max_steps:
            _, self.violation = pairwise_descent.descend(
                working.gram_buffer, working.group, self.p, self.g, self.set_tol, steps
            )
            taken += steps
            if self.violation <= self.set_tol:
                break
            worth = min(steps_worth_a_pivot(int(np.count_nonzero(self.p)), working.size), max_steps)
            if taken >= worth and self.violation <= _NEAR and self._pivot():
                break
            steps = min(max(taken, worth - taken), max_steps - taken)

    def _pivot(self) -> bool:
        """Try to solve the set exactly from the support of p."""
        # On a device the direction of the interior point is enough until the set is solved for good.
        is_left_out = not self.use_polish or (self.on_device and self.set_tol > self.final_tol)
        p = None if is_left_out else pivot_weights(self.working, self.p, self.set_tol)
        if p is not None:
            self.p, self.violation, self.is_exact, self.interior_w = p, self.set_tol, True, None
        return p is not None

    def polish(self) -> None:
        """Finish what descent left: by interior point, on the face of the support, or on the rows."""
        working, length = self.working, norm(self.u)
        if length <= EPSILON * working.max_norm:
            return  # the vector is zero to rounding
        is_tiny = length <= SMALL_MARGIN * working.max_norm
        # The Gram matrix, which the interior point needs for few rows, hides a tiny margin.
        is_seen = not is_tiny or working.size > MAX_ROWS_PER_COLUMN * working.dimensions
        has_interior = working.is_low_dimensional and (is_seen or self.on_device)
        try:
            tol = self.set_tol if self.on_device else min(self.set_tol, _INTERIOR_TOLERANCE)
            if has_interior and (found := interior_weights(working, self.u, tol, self.p)):
                self.p, self.interior_w = found
                self.violation, self.skips_descent = self.set_tol, True
                self._pivot()
            elif is_tiny and not self.on_device:
                self.p, self.violation = active_set_weights(working, self.p, self.set_tol), self.set_tol
            else:
                self.p = polish_weights(working, self.p)
        except np.linalg.LinAlgError:  # a factorisation did not converge, and what descent found stands
            return
        self.u = working.combine(self.p) / working.groups

    def has_vanished(self, upper: float) -> bool:
        """Say whether the upper bound is zero to rounding: then no margin may be left to find."""
        if upper > ZERO_MARGIN * self.working.max_norm:
            return False
        p = balancing_weights(self.working, self.p)
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
        smallest = problem.smallest(w, self.max_new_rows(), working.indices, near)
        self.bounds.below(w, smallest, near)
        return smallest

    def end_of_solve(self) -> Status | None:
        """Return why the solve ends after this round, or None."""
        gap, rounds = self.certificate.gap, self.rounds
        if gap <= self.tol:
            return Status.CERTIFIED
        if self.passes >= self.max_passes:
            return Status.MAX_PASSES
        has_exact_end = is_exactly_solvable(self.working)
        if has_exact_end and len(rounds) >= _MAX_ROUNDS_BEFORE_EXACT:
            return Status.STALLED
        patience = _SHORT_PATIENCE if has_exact_end else _PATIENCE
        # The negation holds while the gap is infinite, too.
        is_stalled = len(rounds) > patience and not gap < (1.0 - _MIN_PROGRESS) * rounds[-1 - patience].gap
        return Status.STALLED if is_stalled else None

    def grow(self, smallest: tuple[Smallest, ...], upper: float) -> Status | None:
        """Let the rows join that violate the margin of u most, or tighten the tolerance if none does."""
        working = self.working
        level = (1.0 - 0.5 * self.tol) * norm(self.u) * times_power(upper, working.exponent)
        joining = self.violators(smallest, level)
        if joining.size and self.on_device:  # rows that are nearly violated will be, and a round is expensive
            joining = self.violators(smallest, _NEARLY_VIOLATED * level)
        if joining.size:
            max_rows = _MAX_ROWS_WITHOUT_GRAM if self.skips_descent else _MAX_ROWS
            if self.on_device:
                max_rows = max(max_rows, MAX_DEVICE_ENTRIES // self.problem.d)
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
        return None

    def _drop_idle_rows(self, upper: float) -> None:
        """Remove the rows of large margin from the set."""
        mask = self.working.margins(self.u) < 2.0 * upper * norm(self.u)
        if not self.skips_descent:
            mask |= self.p > 0.0  # pairwise descent starts from p, so rows that carry weight must stay
        has_room = not self.on_device and mask.size < _HARDLY_FEWER * _MAX_GRAM_ROWS
        if has_room and np.count_nonzero(mask) > _HARDLY_FEWER * mask.size:
            return  # a copy of the Gram matrix without a few rows costs more than it saves
        self.p = self.p[mask]
        self.working.keep(mask)

    def max_new_rows(self) -> int:
        """Return how many rows may join: about as many as carry weight, on a device as the set has."""
        if self.on_device:
            return max(MAX_ROWS_AT_ONCE, self.working.size)
        return max(_MIN_NEW_ROWS, int(np.count_nonzero(self.p)))

    def violators(self, smallest: tuple[Smallest, ...], level: float) -> Indices:
        """Return the rows of smallest margin, at the best intercept, whose margin is below the level."""
        b, signs = balanced_intercept([group.smallest for group in smallest]), (1.0, -1.0)[: len(smallest)]
        margins = np.concatenate([q.margins + b * sign for q, sign in zip(smallest, signs, strict=True)])
        indices = np.concatenate([group.indices for group in smallest])
        order = np.argsort(margins, kind="stable")[: self.max_new_rows()]
        return np.asarray(indices[order[margins[order] < level]])

    def result(self, status: Status) -> Result:
        """Return the outcome, with weights whose sum is exact, and the bound of these."""
        if self.certificate.w is None:  # the vector of the set vanished before any w was measured
            w = mean_row(self.problem)
            w = moderate(w) if norm(w) > 0.0 else np.eye(1, self.problem.d)[0]
            self.measure(w, self.certificate.upper)
            self.passes += 2
        # An interior point leaves some weight on every row, unless pivots have solved the set after it.
        has_idle_weights = status is Status.CERTIFIED and self.skips_descent and not self.is_exact
        c = self.bounds.final(self.working, has_idle_weights)
        if status is Status.CERTIFIED and c.gap > self.tol:
            status = Status.STALLED  # at the rounding floor the returned weights prove a little less
        algorithm = f"max_margin(tol={self.tol!r})"
        return result_of_rounds(self.problem, status, c, self.rounds, self.passes, algorithm)
