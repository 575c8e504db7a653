"""Hard margins of two classes in l2: exact solves on a working set that grows with the rounds.

1. `HardMargin.choose_rows`: one pass computes the mean of the rows, and the rows of smallest margin along it
   form the working set. A problem with few rows, or with so many columns that most rows will carry weight,
   starts with all rows instead.
2. `HardMargin.propose`: a dual active set solves rows of few columns, and takes all rows at once if they are
   small. Of many columns, pairwise descent on the Gram matrix of the set finds the shortest vector u of the
   hull of its rows (between the two hulls, with an intercept), more exactly as the gap closes. Once descent
   has cost as much as pivots would, these solve for the weights exactly, from the support that it has
   identified. If both fail, `_polish` takes over: pivots from the support of soft margins, which Newton's
   method finds, or Wolfe's method on the rows, which sees tiny margins. If u is nearly zero, weights near p
   may prove that no hyperplane separates the rows.
3. `prgd.maxmargin.solve.Solve` certifies u by one pass: ``gamma(u) <= gamma_star <= ||u||``.
4. `HardMargin.learn`: the rows that violate the margin of u most join the set, and step 2 follows, until the
   gap is certified.
5. `prgd.maxmargin.exactly`: a small problem that rounding keeps from being certified is solved in integers.

Sparse rows of many columns are solved without a working set first (`prgd.solvers.coordinate_descent`).
`Host` and `Device` say what depends on where the rows lie. Steps of pairwise descent are too small for a
device: there the interior point solves every set, and the set grows in larger parts.
"""

import numpy as np

from prgd.core.arithmetic import EPSILON, times_power
from prgd.core.threads import check_time
from prgd.core.types import Array
from prgd.maxmargin.overlap import prove_overlap
from prgd.maxmargin.solve import RoundProposal, Solve
from prgd.norms import moderate, norm
from prgd.problem import Problem
from prgd.rows.queries import Smallest
from prgd.running.history import Status
from prgd.solvers.active_set import (
    DualActiveSet,
    active_set_weights,
    is_exactly_solvable,
    pivot_weights,
    primal_direction,
)
from prgd.solvers.costs import NS_CALL, NS_CUBE, NS_SQUARE, NS_STEP, NS_WEIGHT
from prgd.solvers.gram_newton import GramIterate, GramNewton
from prgd.solvers.interior_point import interior_weights
from prgd.solvers.terms import mean_term, violators
from prgd.solvers.working_set import SMALL_MARGIN, ZERO_MARGIN, DeviceSet, WorkingSet, descend

# A problem with at most so many rows starts with all of them, if their entries and products are not too many.
_FEW_ROWS, _FEW_ENTRIES, _FEW_PRODUCTS = 256, 2**23, 10**9
# With so many columns for each row most rows will carry weight, so more rows are taken at once.
_MANY_COLUMNS, _MAX_ROWS_AT_ONCE = 10, 2048
# On a device the interior point takes all rows at once if they are not many more than columns.
_MAX_DEVICE_ROWS_PER_COLUMN, _MAX_DEVICE_ENTRIES = 8, 2**28
_FEW_COLUMNS, _FEW_NARROW_ENTRIES = 256, 2**18  # a dual active set solves rows of so few columns
_MANY_ROWS = 2  # rows for each column with which a dual active set solves rows of more columns
_MIN_FIRST_ROWS, _MAX_FIRST_ROWS = 64, 256  # rows that start the working set
_MIN_NEW_ROWS = 64  # rows that join the working set in a round, at least
_MAX_ROWS = 5000  # above, rows that carry no weight and have large margins leave: a Gram matrix of 200 MB
_MAX_DEVICE_ROWS = 20_000  # the same limit on a device, where the interior point needs no Gram matrix
_MAX_GRAM_ROWS = 20_000  # rows of the largest Gram matrix, 3.2 GB; a larger support ends the solve
_HARDLY_FEWER = 0.9  # if this fraction of the rows would stay, all stay
_PATIENCE = 25  # rounds without progress that end a solve: rounding limits the gap of a tiny margin
_SHORT_PATIENCE = 4  # the same limit if the problem is small enough for exact arithmetic
_MAX_ROUNDS_BEFORE_EXACT = 60  # rounds after which a small problem goes to exact arithmetic anyway
_NEAR = 0.5  # relative violation below which the support of descent is nearly that of the solution
_BALANCED = 1e-2  # p nearly balances the rows if no sum exceeds this fraction of the entries of its column
_ROUNDED = 1e-14  # the same fraction if rounding alone keeps p from balancing the rows
_SEARCHED = 8  # times the rows of the set that a search may take: as expensive as a few of its solves
_PRICES = 1e5, 1e8  # prices of slacks at which the soft margin has nearly the support of the hard one
_MAX_NEWTON_ROWS = 4096  # rows of the largest set that Newton's method solves in a second or two
_FIRST_STEPS = 500  # steps of descent before the support is looked at
_PIVOT_ROUNDS = 3  # how many factorisations pivots usually take
_ACCURATE = 0.1  # relative violation below which a more accurate direction is worth its price


class Host:
    """Rows that are solved in the memory of the host.

    Attributes
    ----------
    first_tolerance : float
        Relative violation at which the first solve of a growing set stops.
    nearly_violated : float
        Rows whose margin is below so many times that of the set join, if one is below it.
    few_joining : float
        Fraction of the set: if fewer rows join, the set is solved for good next.
    descends : bool
        Pairwise descent solves the sets; else the interior point does.
    """

    sets: type[WorkingSet] = WorkingSet
    first_tolerance, nearly_violated, few_joining, descends = 0.1, 1.0, 0.0, True
    max_first_rows = _MAX_FIRST_ROWS

    def is_small(self, problem: Problem) -> bool:
        """Say whether the products of all rows cost less than the passes that find the rows that matter."""
        n, d = problem.n, problem.d
        if d <= _FEW_COLUMNS and n * d <= _FEW_NARROW_ENTRIES and problem.rows.is_in_arrays:
            return True
        if n > (_FEW_ROWS if d < _MANY_COLUMNS * n else _MAX_ROWS_AT_ONCE):
            return False
        if problem.rows.is_sparse:
            return True
        return problem.rows.is_in_arrays and n * d <= _FEW_ENTRIES and n * n * d <= _FEW_PRODUCTS

    def max_rows(self, problem: Problem) -> int:
        """Return how many rows a set may have before those of large margin leave."""
        return _MAX_ROWS

    def max_new_rows(self, p: Array) -> int:
        """Return how many rows may join a set of weights p: about as many as carry weight."""
        return max(_MIN_NEW_ROWS, int(np.count_nonzero(p)))

    def first_weights(self, working: WorkingSet) -> Array:
        """Put all weight on the shortest row of each group."""
        p, squares = np.zeros(working.size), np.diag(working.G)
        for group in range(working.groups):
            members = np.flatnonzero(working.group == group)
            p[members[np.argmin(squares[members])]] = 1.0
        return p


class Device(Host):
    """Rows that are solved on the device where they lie."""

    sets = DeviceSet
    first_tolerance, nearly_violated, few_joining, descends = 0.02, 1.25, 0.02, False
    max_first_rows = _MAX_ROWS_AT_ONCE

    def is_small(self, problem: Problem) -> bool:
        """Say whether the interior point takes all rows at once."""
        n, d = problem.n, problem.d
        max_rows = max(_MAX_ROWS_AT_ONCE, _MAX_DEVICE_ROWS_PER_COLUMN * d)
        return n <= max_rows and n * d <= _MAX_DEVICE_ENTRIES

    def max_rows(self, problem: Problem) -> int:
        """Return how many rows a set may have before those of large margin leave."""
        return max(_MAX_DEVICE_ROWS, _MAX_DEVICE_ENTRIES // problem.d)

    def max_new_rows(self, p: Array) -> int:
        """Return how many rows may join a set of weights p: as many as the set has."""
        return max(_MAX_ROWS_AT_ONCE, p.size)

    def first_weights(self, working: WorkingSet) -> Array:
        """Give all rows of a group the same weight."""
        return np.asarray(1.0 / np.bincount(working.group)[working.group])


class HardMargin:
    """A working set and its weights; the docstring of the module says how they are found.

    Attributes
    ----------
    p : ndarray of shape (m,)
        Weights of the rows of the working set, of sum 1 in each group.
    u : ndarray of shape (d,)
        ``Z^T p`` divided by the number of groups; its norm is an upper bound.
    violation : float
        The largest difference of margins that the solve of the set left, relative to ``||u||^2``.
    set_tol, final_tol : float
        The violation at which the solve of the set stops, and the value to which it falls with the gap.
    interior_w : ndarray of shape (d,) or None
        The direction of the interior point, if it has solved the set.
    is_exact : bool
        The last set was solved by pivots or by the interior point, so that few pivots solve a larger one.
    narrow : DualActiveSet or None
        What solves a set of few columns instead of descent.
    may_search : bool
        A search for a verdict on all rows was not tried yet.
    takes_newton : bool
        Soft margins lead to the support where descent does not, and did not fail yet.
    """

    def __init__(
        self, solve: Solve, threads: int, polish: bool, place: Host, working: WorkingSet | None = None
    ) -> None:
        self.solve, self.problem, self.threads, self.use_polish = solve, solve.problem, threads, polish
        self.place, self.is_exact = place, False
        self.takes_newton = self.may_search = place.descends
        self.violation = np.inf
        self.interior_w: Array | None = None
        self.given = working

    @property
    def is_exactly_solvable(self) -> bool:
        """Whether integers of the set are few enough to solve it in exact arithmetic."""
        return is_exactly_solvable(self.problem, self.working.size)

    @property
    def patience(self) -> int:
        """Rounds without progress that end a solve."""
        return _SHORT_PATIENCE if self.is_exactly_solvable else _PATIENCE

    def choose_rows(self, w: Array | None) -> None:
        """Start with a given set, with all rows, or with those of smallest margin along w or their mean."""
        problem, place = self.problem, self.place
        if self.given is not None:
            self.working = self.given
        elif place.is_small(problem):
            self.working = place.sets.of(problem, None, self.threads)
        else:
            if w is None:
                w = mean_term(problem)
                self.solve.count(1.0)
            groups = 2 if problem.fit_intercept else 1
            count = min(max(_MIN_FIRST_ROWS, 2 * problem.d), place.max_first_rows)
            smallest = self.solve.measure(moderate(w), count // groups)
            first = np.concatenate([group.indices for group in smallest])
            self.working = place.sets.of(problem, first, self.threads)
        is_whole = self.working.size == problem.n
        # Rows of few columns are solved without a Gram matrix and first weights.
        is_narrow = place.descends and problem.d <= max(_FEW_COLUMNS, problem.n // _MANY_ROWS)
        is_narrow &= self.working.is_low_dimensional
        self.narrow = DualActiveSet(self.working) if is_narrow else None
        self.p = np.zeros(self.working.size) if is_narrow else place.first_weights(self.working)
        # Rows outside the set, if there are any, may fall short of its margin by half of the tolerance.
        self.final_tol = (0.9 if is_whole else 0.4) * self.solve.tol
        self.set_tol = self.final_tol if is_whole else Host.first_tolerance

    def propose(self) -> RoundProposal | Status | None:
        """Find the shortest vector of the hull of the set: by descent, and by pivots once these cost less."""
        working = self.working
        self.violation, self.interior_w = np.inf, None
        # Few rows have joined a set that was solved exactly, so its support is a good guess.
        if not (self.is_exact and self._pivot()):
            self.is_exact = False
            if self.narrow is not None:
                self._solve_columns(self.narrow)
            elif self.place.descends:
                self._descend()
        self.u = working.combine(self.p) / working.groups
        if self.use_polish and self.violation > self.set_tol:
            self._polish()
        upper = norm(self.u)
        imbalance = self._imbalance(upper) if self.solve.certificate.lower <= 0.0 else np.inf
        # A search for a verdict on all rows costs not much more than the solves of the set then.
        is_large = working.is_low_dimensional and self.problem.n <= _SEARCHED * working.size
        searches = imbalance < np.inf and is_large and self.may_search
        if imbalance <= _BALANCED or searches:
            self.solve.bound_above(working, self.p, upper)
            self.may_search &= not searches
            if (status := prove_overlap(self.solve, by_search=searches)) is not None:
                return status
        if imbalance <= _ROUNDED:  # further rows do not change weights that balance these
            return Status.STALLED
        w = moderate(self._direction(upper))
        near = 0.0 if working.center is None else -float(w @ working.center)
        is_spread = not self.place.descends and not self.is_exact
        return RoundProposal(w, self.place.max_new_rows(self.p), near, self.p, upper, is_spread=is_spread)

    def _solve_columns(self, narrow: DualActiveSet) -> None:
        """Solve a set of few columns by a dual active set, and by pivots if its weights are not the best."""
        working, self.p = self.working, narrow.weights(self.working, 0.1 * self.final_tol)
        g = working.margins(working.combine(self.p))
        square, lowest = float(self.p @ g), [g[working.group == q].min() for q in range(working.groups)]
        self.violation = (square - sum(lowest)) / square if square > 0.0 else np.inf
        if self.set_tol < self.violation <= _NEAR:
            self._pivot()

    def _descend(self) -> None:
        """Descend until the violation is small enough, or pivots solve the set for less."""
        working, g = self.working, self.working.products(self.p)
        steps, taken, max_steps = _FIRST_STEPS, 0, 2000 + 20 * working.size
        while taken < max_steps:
            check_time()
            _, self.violation = descend(working.gram_buffer, working.group, self.p, g, self.set_tol, steps)
            taken += steps
            if self.violation <= self.set_tol:
                break
            worth = min(_steps_worth_a_pivot(int(np.count_nonzero(self.p)), working.size), max_steps)
            if taken >= worth and self.violation <= _NEAR and self._pivot():
                break
            steps = min(max(taken, worth - taken), max_steps - taken)

    def _pivot(self) -> bool:
        """Try to solve the set exactly from the support of p."""
        # On a device the direction of the interior point is enough until the set is solved for good.
        is_left_out = not self.use_polish or (not self.place.descends and self.set_tol > self.final_tol)
        p = None if is_left_out else pivot_weights(self.working, self.p, self.set_tol)
        if p is not None:
            self.p, self.violation, self.is_exact, self.interior_w = p, self.set_tol, True, None
        return p is not None

    def _polish(self) -> None:
        """Finish what descent left: by soft margins, or on the rows; on a device, by interior point."""
        working, length, place = self.working, norm(self.u), self.place
        if length <= EPSILON * working.max_norm:
            return  # the vector is zero to rounding
        # The Gram matrix hides a tiny margin.
        is_seen = self.takes_newton and length > SMALL_MARGIN * working.max_norm
        try:
            if not place.descends:
                self.p, self.interior_w = interior_weights(working, self.u, self.set_tol, self.p)
                self.violation = self.set_tol
                self._pivot()
            elif not (is_seen and working.size <= _MAX_NEWTON_ROWS and self._newton()):
                self.p, self.violation = active_set_weights(working, self.p, self.set_tol), self.set_tol
        except np.linalg.LinAlgError:  # a factorisation did not converge, and what descent found stands
            return
        self.u = working.combine(self.p) / working.groups

    def _newton(self) -> bool:
        """Try to solve the set exactly from the support of soft margins, which Newton's method finds."""
        working, y = self.working, np.where(self.working.group == 0, 1.0, -1.0)
        G, at = working.G * y * y[:, None], GramIterate(0.0 * y, 0.0, 0.0 * y)
        for price in _PRICES:
            at = GramNewton(G, price / float(np.diag(G).mean())).minimise(y, working.groups == 2, at=at)
        slacks = np.maximum(1.0 - y * (at.products + at.b), 0.0)
        sums = slacks @ working.membership(np.arange(y.size))
        before, self.p = self.p, slacks / sums[working.group] if sums.all() else self.p
        self.takes_newton = self._pivot()
        self.p = self.p if self.takes_newton else before
        return self.takes_newton

    def _imbalance(self, upper: float) -> float:
        """Return the largest entry of u in units of its column; of many columns, the length in units of rows.

        The answer is infinite if that length is far from zero.
        """
        working = self.working
        if upper > ZERO_MARGIN * working.max_norm:
            return np.inf
        if not (working.is_low_dimensional and upper > 0.0):
            return upper and upper / working.max_norm
        face = np.flatnonzero(self.p)
        sizes = self.p[face] @ np.abs(working.rows_of(face))
        return float((np.abs(self.u) / np.where(sizes > 0.0, sizes, 1.0)).max())

    def _direction(self, upper: float) -> Array:
        """Return u, or a more accurate direction of the same length."""
        # The margins of Z^T p have errors of EPSILON max||z||^2, which must be small against tol ||u||^2.
        # Python's powers raise an error beyond the floating range, where NumPy's are infinite.
        is_inaccurate = EPSILON * np.square(self.working.max_norm) > 0.1 * self.solve.tol * np.square(upper)
        has_direction = not self.place.descends and self.interior_w is not None
        if self.use_polish and is_inaccurate and self.violation <= _ACCURATE and not has_direction:
            try:
                return primal_direction(self.working, self.p) * upper * upper
            except np.linalg.LinAlgError:  # the singular value decomposition did not converge
                return self.u
        return self.u if self.interior_w is None else self.interior_w * (upper / norm(self.interior_w))

    def learn(self, found: RoundProposal, smallest: tuple[Smallest, ...]) -> Status | None:
        """Let the rows join that violate the margin of w most, or tighten the tolerance if none does."""
        working, place, w = self.working, self.place, np.asarray(found.w)
        if self.is_exactly_solvable and len(self.solve.rounds) >= _MAX_ROUNDS_BEFORE_EXACT:
            return Status.STALLED
        level = (1.0 - 0.5 * self.solve.tol) * norm(w) * times_power(found.upper, working.exponent)
        joining = violators(self.problem, smallest, level, found.max_rows)
        if joining.size and place.nearly_violated > 1.0:  # rows that are nearly violated will be
            joining = violators(self.problem, smallest, place.nearly_violated * level, found.max_rows)
        if joining.size:
            if working.size + joining.size > place.max_rows(self.problem):
                self._drop_idle_rows(w, found.upper)
            if place.descends and working.size + joining.size > _MAX_GRAM_ROWS:
                return Status.STALLED
            working.add(joining)
            self.p = np.concatenate([self.p, np.zeros(joining.size)])
            # The last few rows do not change the set much, so that it may be solved for good.
            is_last = joining.size < place.few_joining * working.size
            loose = place.first_tolerance * min(1.0, self.solve.certificate.gap)
            self.set_tol = self.final_tol if is_last else max(self.final_tol, loose)
        elif self.set_tol > self.final_tol:
            # No row outside the set violates the margin, so the set must be solved more exactly.
            self.set_tol = self.final_tol
        else:
            # The final tolerance was not enough to certify the gap.
            self.set_tol *= 0.25
        return None

    def _drop_idle_rows(self, w: Array, upper: float) -> None:
        """Remove the rows of large margin from the set."""
        mask = self.working.margins(w) < 2.0 * upper * norm(w)
        if self.place.descends:
            mask |= self.p > 0.0  # pairwise descent starts from p, so rows that carry weight must stay
        has_room = self.place.descends and mask.size < _HARDLY_FEWER * _MAX_GRAM_ROWS
        if has_room and np.count_nonzero(mask) > _HARDLY_FEWER * mask.size:
            return  # a copy of the Gram matrix without a few rows costs more than it saves
        self.p = self.p[mask]
        self.working.keep(mask)
        self.narrow = self.narrow and DualActiveSet(self.working)


def _steps_worth_a_pivot(support: int, m: int) -> int:
    """Return how many steps of descent on m rows take about as long as pivots on a support."""
    pivot = NS_CUBE * support**3 + NS_SQUARE * (support**2 + m**2) + NS_CALL
    return int(_PIVOT_ROUNDS * pivot / (NS_STEP * m + NS_WEIGHT * support))
