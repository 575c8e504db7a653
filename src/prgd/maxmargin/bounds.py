"""The bounds of a solve: rounded outward, with compensated products where rounding matters."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from prgd.core.arithmetic import BOUND_FACTOR, lowered, raised, rounding_factor, times_power
from prgd.core.types import Array, Indices
from prgd.norms import norm
from prgd.problem import Problem
from prgd.problem.accurate_bounds import accurate_margin, accurate_upper
from prgd.problem.certificate import Certificate, DualWeights, margin_error, margin_over_length
from prgd.problem.coding import balanced_intercept
from prgd.rows.queries import Smallest, TallyAt
from prgd.running.history import History, Status
from prgd.running.result import Result
from prgd.solvers.working_set import WorkingSet

# Rounding may take this fraction of the tolerance. Where it would take more, products are compensated.
_ROUNDING_FRACTION = 0.05
# Weights below such a fraction of the heaviest are left out, if the gap allows it: the first that it allows.
_IDLE_LEVELS = (1e-2, 1e-3, 1e-4, 1e-6, 1e-8)


class Round(NamedTuple):
    """One row of the history of `max_margin`: the bounds after a round, and what it took to get there."""

    passes: float
    margin: float
    upper_bound: float
    gap: float
    working_set: int
    seconds: float


def result_of_rounds(
    problem: Problem,
    status: Status,
    certificate: Certificate,
    rounds: list[Round],
    passes: float,
    algorithm: str,
    C: float = math.inf,
) -> Result:
    """Return the outcome of a solver whose history is its rounds."""
    return Result(
        w=np.asarray(certificate.w),
        status=status,
        t=len(rounds),
        certificate=certificate,
        history=History(rounds, Round._fields),
        passes=passes,
        algorithm=algorithm,
        C=C,
        **problem.facts | {"problem": problem.described(has_loss=False)},
    )


@dataclass(eq=False)
class Bounds:
    """The best bounds of a solve so far.

    Attributes
    ----------
    certificate : Certificate
        The proven bounds, with their witnesses.
    plain_lower, plain_upper : float
        The bounds as they were computed, without a bound on their rounding: they steer, and prove nothing.
    """

    problem: Problem
    tol: float
    certificate: Certificate = field(default_factory=Certificate)
    plain_lower: float = -math.inf
    plain_upper: float = math.inf

    @property
    def plain_gap(self) -> float:
        """The relative gap of the bounds that steer."""
        difference = self.plain_upper - self.plain_lower
        return difference / self.plain_upper if self.plain_upper > 0.0 else math.inf

    def matters(self, error: float, upper: float) -> bool:
        """Say whether an error in a margin is too large, if an upper bound is about this large."""
        return error > _ROUNDING_FRACTION * self.tol * upper

    def below(self, w: Array, smallest: tuple[Smallest, ...], near: float | None) -> None:
        """Keep the margin of w, at the best intercept, if it is the largest so far.

        ``near`` is the intercept at which compensated margins were computed; None if they are plain.
        """
        length, bounds = norm(w), [group.smallest for group in smallest]
        margin = sum(bounds) / len(bounds)
        if not 0.0 < length < math.inf:
            return
        self.plain_lower = max(self.plain_lower, margin / length)
        if near is None:
            d, error = self.problem.d, margin_error(self.problem, length)
            lower = margin_over_length(lowered(margin, 2) - error, length, d)
            self.certificate = self.certificate.with_lower(lower, w, balanced_intercept(bounds))
        else:
            self.certificate = self.certificate.with_lower(*accurate_margin(self.problem, bounds, w, near))

    def above(self, working: WorkingSet, p: Array, plain: float) -> None:
        """Keep the bound of weights p of a set, whose sum has the norm ``plain`` in the units of the set."""
        all_weights, support = p, np.flatnonzero(p > 0.0)
        upper = times_power(plain, working.exponent)
        self.plain_upper = min(self.plain_upper, upper)
        sums = np.bincount(working.group[support], p[support], minlength=working.groups)
        if not (sums.all() and upper < self.certificate.upper):
            return
        support = support[np.argsort(working.indices[support])]
        indices, p = working.indices[support], p[support]
        error = self._weights_error(support.size) + BOUND_FACTOR * float(np.abs(sums - 1.0).max())
        if self.matters(error * working.max_norm, plain) or support.size < np.count_nonzero(all_weights):
            weights = self._normalized(indices, p)
            bound = accurate_upper(self.problem, weights)
        else:
            weights = DualWeights(indices, p / working.groups)
            bound = raised(times_power(raised(plain + error * working.max_norm, 4), working.exponent))
        self.certificate = self.certificate.with_upper(bound, weights)

    def _weights_error(self, count: int) -> float:
        """Bound the error of a sum of so many weighted rows, in units of the largest row norm.

        The bound covers the rounding of the sum, and that of the weights when they are divided by their sums.
        """
        return BOUND_FACTOR * rounding_factor(4 * count + self.problem.d + 32)

    def _normalized(self, indices: Indices, p: Array) -> DualWeights:
        return DualWeights.normalized(self.problem, indices, p)

    def final(self, working: WorkingSet, has_idle_weights: bool = False) -> Certificate:
        """Return the certificate with weights that are divided by their sums, and the bound of these.

        Idle weights, small ones that the certified gap does not need, are left out if there may be any.
        """
        c, weights = self.certificate, self.certificate.dual_weights
        if weights is None or weights.integers is not None:
            return c
        exact = self._normalized(weights.indices, weights.values)
        error = times_power(self._weights_error(exact.values.size) * working.max_norm, working.exponent)
        plain = replace(c, upper=raised(c.upper + error), dual_weights=exact)
        # The rounding of the last sum must not take a gap that is certified above the tolerance again.
        if self.matters(error, c.upper) or c.gap <= self.tol < plain.gap:
            c = replace(plain, upper=accurate_upper(self.problem, exact))
        else:
            c = plain
        for level in _IDLE_LEVELS if has_idle_weights else ():
            kept = exact.values > level * exact.values.max()
            if not np.isin(
                self.problem.labels.at(exact.indices), self.problem.labels.at(exact.indices[kept])
            ).all():
                continue
            fewer = self._normalized(exact.indices[kept], exact.values[kept])
            shorter = replace(c, upper=accurate_upper(self.problem, fewer), dual_weights=fewer)
            if shorter.gap <= self.tol:
                return shorter
        return c


def mean_row(problem: Problem) -> Array:
    """Return the mean of the rows z_i; with an intercept, the sum of the means of both classes."""
    tally = problem.ask(TallyAt(np.zeros(problem.d), problem.loss, problem.fit_intercept, is_repeated=False))
    return np.asarray(tally.mean_rows.sum(axis=0))
