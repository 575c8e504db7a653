"""A run's best bounds with the margins of second directions, and without them: what the dual vector adds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from prgd.problem import Problem
from prgd.problem.certificate import certify, plain_lower
from prgd.problem.coding import Evaluation


class BestBounds:
    """The largest margins of w and of the second direction so far, the smallest upper bound, and passages.

    Margins are compared as they are; where the gap that they leave passes a level, the same two passes are
    certified, and the level counts as passed if the certified gap has passed it, too.

    Attributes
    ----------
    w, second, upper : float
        The largest margin of an iterate, that of a second direction, and the smallest dual norm.
    with_second, without_second : dict of float to int
        The first step with a certified gap of at most a level: by both margins, and by that of w alone.
        Both gaps have the same upper bound.
    """

    def __init__(self, problem: Problem, levels: Sequence[float]) -> None:
        self.levels = levels
        self.w = self.second = -math.inf
        self.upper = math.inf
        self.with_second: dict[float, int] = {}
        self.without_second: dict[float, int] = {}
        self._problem = problem
        self._at_w: Evaluation | None = None
        self._at_second: Evaluation | None = None
        self._at_upper: Evaluation | None = None

    def see(self, t: int, at: Evaluation) -> None:
        """Take the pass of step t into account."""
        if at.length > 0.0 and at.gamma > self.w:
            self.w, self._at_w = at.gamma, at
        if at.second_gamma > self.second:
            self.second, self._at_second = at.second_gamma, at
        if at.upper < self.upper:
            self.upper, self._at_upper = at.upper, at
        for found, lower in (
            (self.without_second, self.w),
            (self.with_second, max(self.w, self.second)),
        ):
            has_second = found is self.with_second
            for level in self.levels:
                is_near = self.upper - lower <= level * self.upper
                if is_near and level not in found and self.certified_gap(has_second) <= level:
                    found[level] = t

    def certified_gap(self, has_second: bool) -> float:
        """Return the certified relative gap, with or without the margins of second directions."""
        if self._at_upper is None:
            return math.inf
        problem, lower, upper = self._problem, -math.inf, certify(self._at_upper).upper
        if (at := self._at_w) is not None:
            lower = _lower(problem, at, is_second=False)
        if has_second and (at := self._at_second) is not None:
            lower = max(lower, _lower(problem, at, is_second=True))
        return (upper - lower) / upper


def _lower(problem: Problem, at: Evaluation, is_second: bool) -> float:
    unit = problem.unit_roundoff
    if is_second and at.v is not None:
        return plain_lower(problem, at.v, *at.second_margin, unit, problem.norm(at.v))
    return plain_lower(problem, at.w, at.smallest_margin, at.intercept, unit, at.length)
