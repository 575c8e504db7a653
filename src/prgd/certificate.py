r"""Certificates: ``gamma(w) <= gamma_star <= ||Z^T p||`` for every w and every p of the simplex."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from prgd._types import Array


@dataclass(frozen=True, eq=False)
class Certificate:
    """The best interval for ``gamma_star`` seen so far, with the points that prove it.

    Attributes
    ----------
    lower, upper : float
        ``lower = gamma(w_lower)`` and ``upper = ||Z^T p||`` with ``p = problem.weights(w_upper)``.
        Both in the units of the data as given.
    w_lower, w_upper : ndarray or None
        The two witnesses. ``w_upper`` is None when p is an average kept by the algorithm itself.
    """

    lower: float = -math.inf
    upper: float = math.inf
    w_lower: Array | None = None
    w_upper: Array | None = None

    @property
    def gap(self) -> float:
        """Relative gap ``(upper - lower) / upper``; infinite while a bound is missing or upper is 0."""
        if self.upper <= 0.0 or math.isinf(self.upper):
            return math.inf
        # the bounds may cross by a rounding error at the optimum
        return max(0.0, (self.upper - self.lower) / self.upper)

    def tightened(self, lower: float, upper: float, w: Array) -> Certificate:
        """Return this certificate with the bounds found at ``w``, where they are better."""
        best = self
        if lower > best.lower:
            best = replace(best, lower=lower, w_lower=w)
        if upper < best.upper:
            best = replace(best, upper=upper, w_upper=w)
        return best

    def bounded(self, upper: float) -> Certificate:
        """Return this certificate with an upper bound that an algorithm's own average proves."""
        return replace(self, upper=upper, w_upper=None) if upper < self.upper else self

    def __str__(self) -> str:
        return f"{self.lower:.9g} <= gamma_star <= {self.upper:.9g} (relative gap {self.gap:.2e})"
