r"""Certificates: ``gamma(w) <= gamma_star <= ||Z^T p||_*`` for every w and every p of the simplex.

The lower bound is the definition of gamma_star. For the upper one, p is not negative and has sum 1, so for
every w ``min_i <w, z_i> / ||w|| <= <w, Z^T p> / ||w|| <= ||Z^T p||_*``.

Both ends are rounded outward, so that they hold in exact arithmetic on the data as given. `certify` takes
the sums of a pass and adds a bound on their rounding. Where that bound is too wide, `accurate_lower` and
`accurate_upper` compute both ends again with compensated products (docs/certificates.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from prgd._types import Array, Indices, RationalVector, Signs
from prgd.arithmetic import (
    BOUND_FACTOR,
    LARGEST,
    SMALLEST,
    UNIT_ROUNDOFF,
    common_integers,
    compensated_bound,
    lowered,
    raised,
    root_up,
    rounding_factor,
    two_product,
    two_sum,
)
from prgd.errors import CrossedBoundsError
from prgd.norms import norm, raised_norm
from prgd.problem import Evaluation, Problem, balanced_intercept
from prgd.rows import AccurateAt, MarginsAt

_LANE_ENTRIES = 2**14  # entries of the rows that a compensated sum takes at once
_EXACT_ENTRIES = 2**12  # entries that may be summed as integers, if compensated sums are not accurate enough
_SMALLEST_LENGTH = 2.0**-960  # a shorter w may have subnormal entries
_SMALL_ERROR = 1e-9  # relative error of a compensated sum that is accurate enough


@dataclass(frozen=True, eq=False)
class DualWeights:
    """Weights p on the simplex, given by their positive entries (``indices`` ascending).

    Attributes
    ----------
    indices : ndarray of int
    values : ndarray of float
        Weights of sum 1 (of 1/2 in each class, with an intercept), to rounding. What is proven holds for
        these numbers divided by their exact sums.
    integers : tuple of int, or None
        The exact weights, up to a common factor, where float64 is not accurate enough; ``values`` are
        their roundings then.
    """

    indices: Indices
    values: Array
    integers: tuple[int, ...] | None = None

    @classmethod
    def normalized(cls, indices: Indices, p: Array, signs: Signs | None = None) -> DualWeights:
        """Divide p by its sum; if ``signs`` are given, by twice the sum of its class.

        Examples
        --------
        >>> DualWeights.normalized(np.arange(3), np.array([1.0, 0.0, 3.0])).values
        array([0.25, 0.75])
        """
        p = p.copy()
        groups = [slice(None)] if signs is None else [signs > 0, signs < 0]
        for group in groups:
            p[group] /= p[group].sum() * len(groups)
        carried = np.flatnonzero(p)
        return cls(indices[carried], p[carried])

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
        At most ``gamma(w)`` at its best intercept, and at least ``||Z^T p||_*``, in the units of the data as
        given: both are rounded outward.
    w : ndarray of shape (d,) or None
        The witness of ``lower``.
    intercept : float
        The best intercept of w, rounded to float64.
    exact_w : vector of Fraction or None
        The witness ``(w, b)`` itself (w without an intercept) where float64 is not accurate enough; ``w`` and
        ``intercept`` are its roundings then.
    dual_weights : DualWeights or None
        The witness p of ``upper``, if the solver has it as numbers.
    w_upper : ndarray of shape (d,) or None
        The witness of ``upper`` otherwise: ``p = problem.dual_weights(w_upper)``. Both are None if p is an
        average kept by the algorithm itself.

    Raises
    ------
    CrossedBoundsError
        If lower exceeds upper: one of them is false then.
    """

    lower: float = -math.inf
    upper: float = math.inf
    w: Array | None = None
    intercept: float = 0.0
    dual_weights: DualWeights | None = None
    w_upper: Array | None = None
    exact_w: RationalVector | None = None

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise CrossedBoundsError(self.lower, self.upper)

    @property
    def gap(self) -> float:
        """Relative gap ``(upper - lower) / upper``; infinite while a bound is missing or upper is 0."""
        if self.upper <= 0.0 or math.isinf(self.upper):
            return math.inf
        return (self.upper - self.lower) / self.upper

    @property
    def cosine(self) -> float:
        """A lower bound on the cosine between w and the direction of largest margin: ``lower / upper`` (l2).

        It is -1, which says nothing, unless ``lower`` is positive: see docs/certificates.md for the proof.
        Multiples of w that are rounded to float64, e.g. ``Result.coef``, meet it too.
        """
        if not (self.lower > 0.0 and self.upper < math.inf):
            return -1.0
        # A vector whose entries are rounded three times turns by at most 4 units.
        found = lowered(self.lower / self.upper) - 8.0 * UNIT_ROUNDOFF
        return found if found > 0.0 else -1.0

    def with_lower(
        self, lower: float, w: Array, intercept: float = 0.0, exact_w: RationalVector | None = None
    ) -> Certificate:
        """Return this certificate with the margin of ``w``, if it is larger."""
        if lower > self.lower:
            return replace(self, lower=lower, w=w, intercept=intercept, exact_w=exact_w)
        return self

    def with_upper(
        self, upper: float, dual_weights: DualWeights | None = None, w_upper: Array | None = None
    ) -> Certificate:
        """Return this certificate with another upper bound and its witness, if it is smaller."""
        if upper < self.upper:
            return replace(self, upper=upper, dual_weights=dual_weights, w_upper=w_upper)
        return self

    def best(self, other: Certificate) -> Certificate:
        """Return the better of both ends."""
        found = self
        if other.w is not None:
            found = self.with_lower(other.lower, other.w, other.intercept, other.exact_w)
        return found.with_upper(other.upper, other.dual_weights, other.w_upper)

    def __str__(self) -> str:
        return f"{self.lower:.9g} <= gamma_star <= {self.upper:.9g} (relative gap {self.gap:.2e})"


def certify(at: Evaluation) -> Certificate:
    """Return the interval that one pass proves: its sums, and a bound on their rounding."""
    problem, length = at.problem, at.length
    lower, w = -math.inf, None
    if length > 0.0:
        margin = lowered(at.smallest_margin, 2) - margin_error(problem, length, problem.rows.unit_roundoff)
        lower, w = margin_over_length(margin, length, problem.d), at.w
    error = dual_vector_error(problem, at.tally.smallest_mass)
    upper = at.upper * (1.0 + rounding_factor(problem.d + 8)) + error
    return Certificate(lower, raised(upper), w, at.intercept, w_upper=at.w)


def certify_in_double(problem: Problem, w: Array) -> Certificate:
    """Return the interval at w by passes in float64, on rows whose Tally is summed in float32."""
    smallest, length = problem.smallest_of(problem.ask(MarginsAt(w))), norm(w)
    margin = lowered(sum(smallest) / len(smallest), 2) - margin_error(problem, length)
    found = Certificate()
    if length > 0.0:
        lower = margin_over_length(margin, length, problem.d)
        found = found.with_lower(lower, w, balanced_intercept(smallest))
    # The weights have sum 1 to the rounding of a sum of n terms, and n terms are added for every column.
    error = rounding_factor(4 * problem.n + problem.d + 64) * problem.max_norm
    return found.with_upper(
        raised(norm(problem.combine(problem.dual_weights(w))) + error, problem.d + 8), w_upper=w
    )


def margin_error(problem: Problem, length: float, unit: float = UNIT_ROUNDOFF) -> float:
    """Bound the rounding of a margin ``<w, z_i>`` that a pass computes, for any row and any w of a length."""
    # A sum of d products, in any order; the further terms cover the norms and the length, which are rounded.
    relative = rounding_factor(problem.d + 8, unit)
    size = length * problem.max_norm
    if not size < 0.5 * LARGEST:  # the products may overflow, and a margin be anything
        return math.inf
    underflow = (problem.d + 1) * _underflow(unit)
    if unit > UNIT_ROUNDOFF:  # w itself is rounded, and its entries may underflow
        underflow *= 1.0 + problem.max_norm
    return BOUND_FACTOR * (relative * size + underflow)


def _underflow(unit: float) -> float:
    """Return the absolute error of a product that underflows, in float64 or in float32."""
    return SMALLEST if unit == UNIT_ROUNDOFF else 2.0**-126


def dual_vector_error(problem: Problem, mass: float) -> float:
    """Bound the norm of the rounding of the dual vector ``sum_i c_i z_i / sum_i c_i`` of a pass.

    The weights c_i are the numbers that the pass computed, whatever they are. Underflows are divided by their
    sum, which is at least ``mass`` (in each class).
    """
    rows = problem.rows
    relative = rounding_factor(2 * rows.sum_roundings + problem.d + 16, rows.unit_roundoff)
    underflow = 4 * (problem.n + problem.d) * _underflow(rows.unit_roundoff)
    return BOUND_FACTOR * (relative * problem.max_norm + underflow / mass) if mass > 0.0 else math.inf


def margin_over_length(margin: float, length: float, d: int) -> float:
    """Return a number that is at most ``margin / ||w||``, where ``length`` is the rounded norm of w."""
    if not _SMALLEST_LENGTH < length < math.inf:  # the norm of a subnormal vector has no relative accuracy
        return -math.inf
    error = rounding_factor(d + 8)
    return lowered(margin / (length * (1.0 + error if margin > 0.0 else 1.0 - error)))


def accurate_lower(problem: Problem, w: Array, intercept: float) -> tuple[float, Array, float]:
    """Return a lower bound of ``gamma(w)``, w, and its best intercept, by a pass of compensated products.

    Parameters
    ----------
    intercept : float
        A number near the best intercept. Margins are computed at this intercept, which keeps their digits.
    """
    margins, errors = problem.ask(AccurateAt(w, intercept if problem.fit_intercept else 0.0))
    return accurate_margin(problem.smallest_of(margins - errors), w, intercept)


def accurate_margin(smallest: Sequence[float], w: Array, intercept: float) -> tuple[float, Array, float]:
    """Return a lower bound of ``gamma(w)``, w, and its best intercept, from the margins of groups.

    The margins were computed at ``intercept``, a number near the best one.
    """
    margin = lowered(sum(smallest) / len(smallest), 4)
    if len(smallest) == 2:
        intercept += 0.5 * (smallest[1] - smallest[0])
    if margin > 0.0:
        return lowered(margin / raised_norm(w)), w, intercept
    return margin_over_length(margin, norm(w), w.size), w, intercept


def is_on_simplex(problem: Problem, weights: DualWeights) -> bool:
    """Say whether weights are positive, belong to rows of the data, and have sum 1 (1/2 in each class)."""
    indices, p = weights.indices, weights.values
    if not indices.size or indices.min() < 0 or indices.max() >= problem.n or (np.diff(indices) <= 0).any():
        return False
    sample_weight = problem.labels.sample_weight
    if sample_weight.size and not sample_weight[indices].all():  # rows of weight 0 are not there
        return False
    signs = problem.labels.at(indices) if problem.fit_intercept else np.ones(p.size)
    groups = [signs > 0, signs < 0] if problem.fit_intercept else [signs > 0]
    exact = weights.integers
    if exact is not None:  # the values are roundings, some of them perhaps zero
        if len(exact) != p.size:
            return False
        totals = [sum(k for k, mine in zip(exact, group.tolist(), strict=True) if mine) for group in groups]
        return min(exact) > 0 and len(set(totals)) == 1
    sums = [math.fsum(p[group]) * len(groups) for group in groups]
    return bool(p.min() > 0.0 and all(abs(total - 1.0) <= 1e-12 for total in sums))


def accurate_upper(problem: Problem, weights: DualWeights) -> float:
    """Return an upper bound of ``||Z^T p||_2``, by compensated sums over the rows that carry weight.

    The weights are divided by their sums, exactly; integers are summed without rounding.
    """
    p, Z = weights.values, problem.take(weights.indices)
    signs = problem.labels.at(weights.indices) if problem.fit_intercept else None
    if weights.integers is not None:
        return _exact_upper(Z, np.array(weights.integers, dtype=object), signs)
    if signs is None:
        total, error = _rounded(*compensated_combination(Z, p))
        scale = lowered(math.fsum(p), 2)
    else:
        # With S the sums of the weights of the classes, and V those of their rows, far from the origin long
        # vectors that cancel: 2 S_- Z^T p = (S_- / S_+) V_+ + V_-.
        sums = [int(common_integers(p)[0][signs == sign].sum()) for sign in (1, -1)]
        ratio = Fraction(sums[1], sums[0])
        high = float(ratio)
        plus, minus = (compensated_combination(Z[signs == sign], p[signs == sign]) for sign in (1, -1))
        total, error = _rounded(*_added(_scaled(plus, high, float(ratio - Fraction(high))), minus))
        scale = lowered(2.0 * math.fsum(p[signs < 0]), 4)
    if not norm(error) <= _SMALL_ERROR * norm(total) and Z.shape[0] * Z.shape[1] <= _EXACT_ENTRIES:
        return _exact_upper(Z, common_integers(p)[0], signs)
    return raised(raised_norm(np.abs(total) + error) / scale)


def _exact_upper(Z: Any, integers: Any, signs: Signs | None) -> float:
    """Return ``||Z^T p||_2`` for weights proportional to integers (in each class), rounded upward."""
    matrix, exponent = common_integers(Z if isinstance(Z, np.ndarray) else Z.toarray())
    groups = [slice(None)] if signs is None else [signs > 0, signs < 0]
    sums = [int(integers[group].sum()) for group in groups]
    vectors = [(matrix[group] * integers[group][:, None]).sum(axis=0) for group in groups]
    others = [math.prod(sums) // total for total in sums]
    u = sum(vector * other for vector, other in zip(vectors, others, strict=True))
    square = Fraction(sum(int(v) ** 2 for v in u), (len(groups) * math.prod(sums)) ** 2)
    return root_up(square * Fraction(4) ** exponent)


Sums = tuple[Array, Array, Array]  # the high and the low part of sums, and bounds on their errors


def compensated_combination(Z: Any, p: Array) -> Sums:
    """Return ``Z^T p`` in two parts and a bound on their error, by compensated sums of many rows at once."""
    m, d = Z.shape
    lanes = max(1, min(m, _LANE_ENTRIES // d))
    high, low, corrections = np.zeros((3, lanes, d))
    with np.errstate(over="ignore", invalid="ignore"):  # `compensated_bound` finds what is not finite
        for first in range(0, m, lanes):
            rows = Z[first : first + lanes]
            rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
            used = slice(0, len(rows))
            product, product_error = two_product(rows, p[first : first + lanes, None])
            high[used], sum_error = two_sum(high[used], product)
            low[used] += sum_error + product_error
            corrections[used] += np.abs(sum_error) + np.abs(product_error)
        total, rest, size = high[0], low[0], corrections[0]
        for k in range(1, lanes):
            total, sum_error = two_sum(total, high[k])
            rest, size = rest + (low[k] + sum_error), size + (corrections[k] + np.abs(sum_error))
        # The two parts are not added here, so the bound has no part for the rounding of their sum.
        return total, rest, compensated_bound(2 * (m + lanes), 0.0 * (total + rest), size)


def _scaled(sums: Sums, high: float, low: float) -> Sums:
    """Multiply sums by a number in two parts, whose own error is below u^2."""
    product, error = two_product(sums[0], high)
    rest = error + (sums[0] * low + sums[1] * high)
    size = np.abs(sums[0]) + np.abs(sums[1])
    bound = sums[2] + 16.0 * UNIT_ROUNDOFF**2 * size + 8.0 * UNIT_ROUNDOFF * np.abs(sums[1])
    return product, rest, BOUND_FACTOR * abs(high) * bound + 16.0 * SMALLEST


def _added(a: Sums, b: Sums) -> Sums:
    total, error = two_sum(a[0], b[0])
    rest = error + (a[1] + b[1])
    size = np.abs(error) + np.abs(a[1]) + np.abs(b[1])
    return total, rest, BOUND_FACTOR * (a[2] + b[2] + 4.0 * UNIT_ROUNDOFF * size)


def _rounded(high: Array, low: Array, error: Array) -> tuple[Array, Array]:
    """Add both parts of sums, and bound the error of the rounded sum."""
    with np.errstate(invalid="ignore"):
        total = high + low
        return total, BOUND_FACTOR * (error + UNIT_ROUNDOFF * np.abs(total)) + SMALLEST


def weights_at(problem: Problem, w: Array) -> DualWeights:
    """Return the dual weights at w as numbers, by one pass."""
    p = problem.dual_weights(w)
    signs = problem.labels.signs if problem.fit_intercept else None
    return DualWeights.normalized(np.arange(problem.n), p, signs)
