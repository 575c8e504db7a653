"""`Solve`: a problem, its certificate, rounds and passes. Methods propose; `Solve` certifies and decides.

In a round a method solves its working set and proposes weights p of the set and a direction w. The weights
bound ``gamma_star`` from above. One pass over all rows measures the margin of w, which bounds it from below,
and finds the rows of smallest margin outside the set, from which the method learns. Both ends are rounded
outward; where rounding would matter, products are compensated.
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from prgd.core.arithmetic import BOUND_FACTOR, EPSILON, raised, rounding_factor, times_power
from prgd.core.checks import check_positive
from prgd.core.threads import TimeSpentError, check_time, limited
from prgd.core.types import Array, Indices, Intercept, RationalVector
from prgd.norms import L2, moderate, norm
from prgd.problem.accurate_bounds import accurate_lower, accurate_margin, accurate_upper, margin_in_double
from prgd.problem.certificate import (
    HARD,
    Certificate,
    DualWeights,
    certify,
    interval,
    margin_error,
    plain_lower,
    quantity_of,
)
from prgd.problem.problem import NO_ROWS, Problem
from prgd.proofs.slacks import rational_soft_lower, soft_lower, soft_upper
from prgd.rows.queries import Smallest
from prgd.running.history import History, Round, Status
from prgd.running.result import Result
from prgd.solvers.terms import mean_term
from prgd.solvers.working_set import WorkingSet

# Rounding may take this fraction of the tolerance. Where it would take more, products are compensated.
_ROUNDING_FRACTION = 0.05
_MIN_PROGRESS = 1e-3  # relative decrease of the gap that counts as progress
_ROOM = 2.0**-40  # fraction of the largest row norm by which a bound at or below 0 is lowered
# Weights below such a fraction of the heaviest are left out, if the gap allows it: the first that it allows.
_IDLE_LEVELS = (1e-2, 1e-3, 1e-4, 1e-6, 1e-8)

Pending = Callable[[], tuple[Array, float, DualWeights]]  # a hyperplane (w, b), and weights of rows


def reporter(
    callback: Callable[[Round], None] | None, verbose: int, quantity: str = HARD
) -> Callable[[Round], None]:
    """Return a function that prints a round if ``verbose``, and hands it to the callback."""

    def report(entry: Round) -> None:
        if verbose:
            print(
                f"passes {entry.passes:6.1f}  rows {entry.working_set:6.0f}  "
                f"{interval(entry.margin, entry.upper_bound, quantity)}  gap {entry.gap:.2e}"
            )
        if callback is not None:
            callback(entry)

    return report


class RoundProposal(NamedTuple):
    """What a method proposes in a round.

    Attributes
    ----------
    w : ndarray or None
        The direction to measure; None if the vector of the weights has vanished, which ends the solve.
    max_rows : int
        How many rows of smallest margin outside the set a pass returns, for each group.
    near : float or ndarray of shape (K,)
        A number near the best intercept, at which compensated margins are computed.
    p : ndarray, or DualWeights that prove ``upper``
        Weights of the terms of the set.
    upper : float
        The norm of the vector of p, in units of the set, as it was summed; NaN if it is not known.
    is_rough : bool
        Plain products are known to be too inaccurate to measure w.
    is_spread : bool
        The weights are those of an interior point, which leaves some weight on every term.
    """

    w: Array | None
    max_rows: int
    near: Intercept
    p: Array | DualWeights
    upper: float = math.nan
    is_rough: bool = False
    is_spread: bool = False


class RoundMethod(Protocol):
    """How the working set is chosen and solved."""

    working: Any  # the rows, or the terms, of the set

    @property
    def patience(self) -> float:
        """Rounds without progress that end the solve."""

    def propose(self) -> RoundProposal | Status | None:
        """Solve the set; return a status to end the solve, None if the set is not solved."""

    def learn(self, found: RoundProposal, smallest: tuple[Smallest, ...]) -> Status | None:
        """Change the set by what the pass found outside of it; return a status to end the solve."""


@dataclass(eq=False)
class Solve:
    """A solve, and the best bounds so far; C is finite for a soft margin.

    Attributes
    ----------
    certificate : Certificate
        The proven bounds, with their witnesses.
    passes : float
        Passes over the rows so far, fractions for parts of them.
    """

    problem: Problem
    tol: float
    max_passes: float
    report: Callable[[Round], None] = lambda entry: None
    C: float = math.inf
    max_seconds: float = math.inf
    passes: float = 0.0
    rounds: list[Round] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    certificate: Certificate = field(init=False)
    pending: Pending | None = None  # what would prove plain bounds, if the solve ended now
    _plain_weights: DualWeights | None = None  # weights of the certificate that have sum 1 to rounding only
    _is_spread: bool = False

    def __post_init__(self) -> None:
        if self.max_seconds != math.inf:
            check_positive("max_seconds", self.max_seconds)
        # A gap of 1 or more proves no positive margin: classes that overlap must not be certified.
        self.tol = min(self.tol, 1.0 - EPSILON)
        self.certificate = Certificate(quantity=quantity_of(self.C))

    @property
    def is_certified(self) -> bool:
        """Whether the gap is proven to be at most the tolerance."""
        return self.certificate.gap <= self.tol

    def run(self, find: Callable[[], Status]) -> Result:
        """Return the result of ``find()``, which says why the solve ended.

        After Ctrl-C, and at the end of ``max_seconds``, that is the best so far.
        """
        status = Status.MAX_SECONDS
        try:
            with suppress(TimeSpentError), limited(self.max_seconds):
                status = find()
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        if status in (Status.MAX_SECONDS, Status.INTERRUPTED) and self.pending is not None:
            self.prove(*self.pending())
        if status is Status.MAX_SECONDS and self.is_certified:
            status = Status.CERTIFIED
        if status is Status.INTERRUPTED and self.certificate.dual_weights is None:
            raise KeyboardInterrupt  # there is no interval to return
        return self.result(status)

    def repeat(self, method: RoundMethod) -> Status:
        """Take rounds of a method until one of them ends the solve."""
        while True:
            check_time()
            # A proposal beyond the floating range proves nothing, so its overflow needs no warning.
            with np.errstate(over="ignore", invalid="ignore"):
                found = method.propose()
            if not isinstance(found, RoundProposal):
                return found or Status.STALLED
            has_bound = self.bound(method.working, found)
            self._is_spread = found.is_spread
            if found.w is None or not has_bound:
                return Status.STALLED
            smallest = self.measure(found.w, found.max_rows, method.working, found.near, found.is_rough)
            self.record(method.working.size)
            status = self._end(method.patience) or method.learn(found, smallest)
            if status is not None:
                return status

    def count(self, passes: float) -> None:
        """Count passes over the rows that a method has made, fractions for parts of them."""
        self.passes += passes

    def _end(self, patience: float) -> Status | None:
        """Return why the solve ends after this round, or None."""
        if self.is_certified:
            return Status.CERTIFIED
        if self.passes >= self.max_passes:
            return Status.MAX_PASSES
        if len(self.rounds) <= patience:
            return None
        # The negation holds while the gap is infinite, too.
        before = self.rounds[-1 - int(patience)].gap
        return Status.STALLED if not self.certificate.gap < (1.0 - _MIN_PROGRESS) * before else None

    def record(
        self, size: int, plain: tuple[float, float, float] | None = None, pending: Pending | None = None
    ) -> None:
        """Append a round, of the proven bounds and gap unless plain ones are given, and report it.

        ``pending`` is what would prove plain bounds: it is proven only if the solve is interrupted.
        """
        self.pending = pending
        c, seconds = self.certificate, time.perf_counter() - self.started
        bounds = (c.lower, c.upper, c.gap) if plain is None else plain
        self.rounds.append(Round(self.passes, *bounds, size, seconds))
        self.report(self.rounds[-1])

    def measure(
        self, w: Array, max_rows: int, working: Any = None, near: Intercept = 0.0, is_rough: bool = False
    ) -> tuple[Smallest, ...]:
        """Bound the margin of w by one pass, compensated if its rounding matters against the upper bound.

        Returns
        -------
        tuple of Smallest
            The terms of smallest margin outside the set, of each group.
        """
        problem = self.problem
        is_rough = is_rough or self._matters(
            margin_error(problem, problem.coding.reach(w)), self.certificate.upper * problem.norm(w)
        )
        without = NO_ROWS if working is None else working.indices
        smallest = problem.smallest(w, max_rows, without, near if is_rough else None)
        self.passes += 1.0 if working is None else 1.0 + working.size / problem.n_terms
        self.bound_below(w, [group.smallest for group in smallest], near if is_rough else None)
        return smallest

    def bound_below(self, w: Array, bounds: list[float], near: Intercept | None = None) -> None:
        """Keep the margin of w, from the smallest ones of groups, if it is the largest so far.

        ``near`` is the intercept at which compensated margins were computed; None if they are plain.
        """
        if near is None:
            margin, b = self.problem.coding.best(bounds)
            lower = plain_lower(self.problem, w, margin, b), w, b
        else:
            lower = accurate_margin(self.problem, bounds, w, near)
        self.certificate = self.certificate.with_lower(*lower)

    def separate(self, lower: float, w: Array, b: Intercept, exact_w: RationalVector | None = None) -> None:
        """Keep a hyperplane with a proven margin, unless a larger one is known."""
        if lower >= self.certificate.lower:
            c = self.certificate
            self.certificate = replace(c, lower=lower, w=w, intercept=b, exact_w=exact_w)

    def overlap(self, weights: DualWeights) -> None:
        """Keep weights that are proven to balance the rows: the largest margin is at most 0."""
        self.certificate = self.certificate.with_upper(0.0, weights)

    def _matters(self, error: float, upper: float) -> bool:
        """Say whether an error in a margin is too large, if an upper bound is about this large."""
        return error > _ROUNDING_FRACTION * self.tol * upper

    def bound(self, working: Any, found: RoundProposal) -> bool:
        """Keep the bound of proposed weights, if it is the smallest so far; say whether they prove any."""
        if isinstance(found.p, DualWeights):
            self.certificate = self.certificate.with_upper(found.upper, found.p)
        elif isinstance(working, WorkingSet):
            self.bound_above(working, found.p, found.upper)
        else:
            order = np.argsort(working.indices)
            weights = self._normalized(working.indices[order], found.p[order])
            if weights is None:
                return False
            self.certificate = self.certificate.with_upper(accurate_upper(self.problem, weights), weights)
        return True

    def bound_above(self, working: WorkingSet, p: Array, plain: float) -> None:
        """Keep the bound of weights p of a set, whose sum has the norm ``plain`` in the units of the set."""
        all_weights, support = p, np.flatnonzero(p > 0.0)
        sums = np.bincount(working.group[support], p[support], minlength=working.groups)
        if not (sums.all() and times_power(plain, working.exponent) < self.certificate.upper):
            return
        support = support[np.argsort(working.indices[support])]
        indices, p = working.indices[support], p[support]
        error = self._weights_error(support.size) + BOUND_FACTOR * float(np.abs(sums - 1.0).max())
        if self._matters(error * working.max_norm, plain) or support.size < np.count_nonzero(all_weights):
            weights = DualWeights.normalized(self.problem, indices, p)
            bound = accurate_upper(self.problem, weights)
        else:
            weights = self._plain_weights = DualWeights(indices, p / working.groups)
            bound = raised(times_power(raised(plain + error * working.max_norm, 4), working.exponent))
        self.certificate = self.certificate.with_upper(bound, weights)

    def _weights_error(self, count: int) -> float:
        """Bound the error of a sum of so many weighted rows, in units of the largest row norm.

        The bound covers the rounding of the sum, and that of the weights when they are divided by their sums.
        """
        return BOUND_FACTOR * rounding_factor(4 * count + self.problem.d + 32)

    def _normalized(self, terms: Indices, p: Array) -> DualWeights | None:
        """Return weights of ascending terms on the simplex; None if they lack a class that must have some."""
        is_two = self.problem.fit_intercept and not self.problem.is_joint
        if not terms.size or (is_two and abs(int(self.problem.labels.at(terms).sum())) == terms.size):
            return None
        try:
            return DualWeights.normalized(self.problem, terms, p)
        except ValueError:  # these pairs cannot balance
            return None

    def prove(self, w: Array, b: float, weights: DualWeights, exact: RationalVector | None = None) -> None:
        """Prove both bounds, of a hyperplane and weights of rows; keep the better ones."""
        if weights.integers is None:
            weights = self._normalized(weights.indices, weights.values) or weights
        upper = soft_upper(self.problem, self.C, weights, self.tol)
        self.certificate = self.certificate.with_upper(upper, weights)
        if math.isinf(self.C):
            self.measure(w, 1)  # at the best intercept
        else:
            lower = soft_lower(self.problem, self.C, w, b, self.tol)
            self.certificate = self.certificate.with_lower(lower, w, b)
            self.count(1.0)
        if exact is not None:
            lower = rational_soft_lower(self.problem, self.C, exact)
            self.certificate = self.certificate.with_lower(lower, w, b, exact)
        self.count(1.0)
        self.record(weights.indices.size)

    def result(self, status: Status) -> Result:
        """Return the outcome, with weights whose sum is exact, and the bound of these."""
        if math.isinf(self.C):
            self._finish(status)
            if status is Status.CERTIFIED and not self.is_certified:
                status = Status.STALLED  # at the rounding floor the returned weights prove a little less
        name = "max_margin(" if math.isinf(self.C) else f"soft_margin(C={self.C!r}, "
        return Result(
            w=np.asarray(self.certificate.w),
            status=status,
            t=len(self.rounds),
            certificate=self.certificate,
            history=History(self.rounds, Round._fields),
            passes=self.passes,
            algorithm=f"{name}tol={self.tol!r})",
            C=self.C,
            **self.problem.facts | {"problem": self.problem.described(has_loss=False)},
        )

    def _finish(self, status: Status) -> None:
        """Divide weights by their sums, leave idle ones out, and measure a w if there is none."""
        problem, c = self.problem, self.certificate
        if c.upper == math.inf:  # no round was complete: all terms together bound the margin, too
            c = c.best(certify(problem.at(np.zeros(problem.shape))))
            self.passes += 1.0
        is_plain = problem.norm == L2() and not problem.is_joint
        w, b = c.w, c.intercept
        if w is None:  # the vector of the set vanished, or time was spent, before any w was measured
            w, b = mean_term(problem), np.zeros(problem.shape[0]) if problem.is_joint else 0.0
            w = moderate(w) if norm(w) > 0.0 else np.eye(1, w.size)[0].reshape(w.shape)
            self.passes += 1.0
        if c.w is None and status is Status.MAX_SECONDS:  # no time is left for compensated sums
            c = c.best(margin_in_double(problem, w))
        is_near_zero = c.exact_w is None and c.lower > -EPSILON * problem.max_norm
        if c.w is None or (c.lower <= 0.0 and (is_near_zero or not is_plain)):
            # A margin near zero has no relative accuracy: the bound leaves room for the rounding of the
            # intercepts.
            lower, w, b = accurate_lower(problem, w, b)
            lower = min(lower, accurate_lower(problem, w, b)[0])  # `Result.check` computes it at b
            self.passes += 2.0
            room = 0.0 if is_plain else _ROOM * problem.max_norm
            c = replace(c, lower=lower - room, w=w, intercept=b)
        weights = c.dual_weights
        if weights is not None and weights is self._plain_weights:
            weights = DualWeights.normalized(problem, weights.indices, weights.values)
            error = self._weights_error(weights.values.size) * problem.max_norm
            plain = replace(c, upper=raised(c.upper + error), dual_weights=weights)
            # A gap that is already certified must not exceed the tolerance because of the last rounding.
            if self._matters(error, c.upper) or c.gap <= self.tol < plain.gap:
                plain = replace(plain, upper=accurate_upper(problem, weights))
            c = plain
        self.certificate = self._without_idle_weights(c) if self._is_spread and c.gap <= self.tol else c

    def _without_idle_weights(self, c: Certificate) -> Certificate:
        """Return the certificate without weights so small that the certified gap does not need them."""
        weights = c.dual_weights
        if weights is None:
            return c
        for level in _IDLE_LEVELS:
            kept = weights.values > level * weights.values.max()
            fewer = None if kept.all() else self._normalized(weights.indices[kept], weights.values[kept])
            if fewer is not None:
                shorter = replace(c, upper=accurate_upper(self.problem, fewer), dual_weights=fewer)
                if shorter.gap <= self.tol:
                    return shorter
        return c
