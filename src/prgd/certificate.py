r"""Certificates: ``gamma(w) <= gamma_star <= ||Z^T p||_*`` for every w and every p of the simplex.

The lower bound is the definition of gamma_star. For the upper one, p is not negative and has sum 1, so for
every w ``min_i <w, z_i> / ||w|| <= <w, Z^T p> / ||w|| <= ||Z^T p||_*``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from prgd._types import Array, Indices


@dataclass(frozen=True, eq=False)
class DualWeights:
    """Weights p on the simplex, given by their positive entries (``indices`` ascending)."""

    indices: Indices
    values: Array

    def dense(self, n: int) -> Array:
        """Return p as one number for each of n rows."""
        p = np.zeros(n)
        p[self.indices] = self.values
        return p


@dataclass(frozen=True, eq=False)
class Certificate:
    """The best interval for ``gamma_star`` seen so far, with the witnesses that prove both ends.

    Attributes
    ----------
    lower, upper : float
        ``lower = gamma(w)`` at its intercept, and ``upper = ||Z^T p||_*``, in the units of the data as given.
    w : ndarray of shape (d,) or None
        The witness of ``lower``.
    intercept : float
        The intercept that goes with w.
    dual_weights : DualWeights or None
        The witness p of ``upper``, if the solver has it as numbers.
    w_upper : ndarray of shape (d,) or None
        The witness of ``upper`` otherwise: ``p = problem.dual_weights(w_upper)``. Both are None if p is an
        average kept by the algorithm itself.
    """

    lower: float = -math.inf
    upper: float = math.inf
    w: Array | None = None
    intercept: float = 0.0
    dual_weights: DualWeights | None = None
    w_upper: Array | None = None

    @property
    def gap(self) -> float:
        """Relative gap ``(upper - lower) / upper``; infinite while a bound is missing or upper is 0."""
        if self.upper <= 0.0 or math.isinf(self.upper):
            return math.inf
        # The bounds may cross by a rounding error at the optimum.
        return max((self.upper - self.lower) / self.upper, 0.0)  # in this order NaN stays NaN

    @property
    def cosine(self) -> float:
        """``lower / upper``: a lower bound on the cosine between w and the maximum-margin direction (l2)."""
        return min(max(self.lower / self.upper, -1.0), 1.0) if 0.0 < self.upper < math.inf else -1.0

    def with_lower(self, lower: float, w: Array, intercept: float = 0.0) -> Certificate:
        """Return this certificate with the margin of ``w``, if it is larger."""
        if lower > self.lower:
            return Certificate(lower, self.upper, w, intercept, self.dual_weights, self.w_upper)
        return self

    def with_upper(
        self, upper: float, dual_weights: DualWeights | None = None, w_upper: Array | None = None
    ) -> Certificate:
        """Return this certificate with another upper bound and its witness, if it is smaller."""
        if upper < self.upper:
            return Certificate(self.lower, upper, self.w, self.intercept, dual_weights, w_upper)
        return self

    def best(self, other: Certificate) -> Certificate:
        """Return the better of both ends."""
        found = self if other.w is None else self.with_lower(other.lower, other.w, other.intercept)
        return found.with_upper(other.upper, other.dual_weights, other.w_upper)

    def __str__(self) -> str:
        return f"{self.lower:.9g} <= gamma_star <= {self.upper:.9g} (relative gap {self.gap:.2e})"
