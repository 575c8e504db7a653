r"""Certificates: ``gamma(w) <= gamma_star <= ||Z^T p||_*`` for every w and every p of the simplex.

The lower bound is the definition of gamma_star. For the upper one, p is not negative and has sum 1, so for
every w ``min_i <w, z_i> / ||w|| <= <w, Z^T p> / ||w|| <= ||Z^T p||_*``.

Both ends are rounded outward, so that they hold in exact arithmetic on the data as given: `certify` by
bounds on the rounding of a pass, `prgd.problem.accurate_bounds` by compensated sums (docs/certificates.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from prgd.core.arithmetic import (
    BOUND_FACTOR,
    LARGEST,
    SMALLEST,
    UNIT_ROUNDOFF,
    lowered,
    raised,
    rounding_factor,
)
from prgd.core.errors import CrossedBoundsError
from prgd.core.types import Array, Indices, Intercept, RationalVector
from prgd.norms import L2
from prgd.problem import Problem
from prgd.problem.coding import Evaluation

NO_SEPARATOR = "no iterate separates the classes so far"  # why there is a lower bound, and no relative gap
HARD, SOFT = "gamma_star", "gamma_C"  # what is bounded: the largest margin, or that of extended rows
_SMALLEST_NORMAL = 2.0**-1022
_SMALLEST_LENGTH = 2.0**-960  # a shorter w may have subnormal entries


@dataclass(frozen=True, eq=False)
class DualWeights:
    """Weights p on the simplex, given by their positive entries (``indices`` ascending).

    Attributes
    ----------
    indices : ndarray of int
        Rows; of a joint problem of K classes pairs, ``i K + j`` for row i against class j.
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
    def normalized(cls, problem: Problem, indices: Indices, p: Array) -> DualWeights:
        """Divide p by its sum; with an intercept, by twice the sum of its class.

        Pairs of a joint problem with intercepts balance exactly.

        Examples
        --------
        >>> problem = Problem(np.eye(3))
        >>> DualWeights.normalized(problem, np.arange(3), np.array([1.0, 0.0, 3.0])).values
        array([0.25, 0.75])
        """
        carried = np.flatnonzero(p)
        p = problem.coding.normalized(indices[carried], p[carried])
        kept = np.flatnonzero(p)
        return cls(indices[carried[kept]], p[kept])

    def dense(self, n: int) -> Array:
        """Return p as one number for each of n terms."""
        p = np.zeros(n)
        p[self.indices] = self.values
        return p


@dataclass(frozen=True, eq=False)
class Certificate:
    r"""The best interval for ``gamma_star`` seen so far, with the witnesses that prove both ends.

    .. math:: \gamma(w) \le \gamma^\star \le \|Z^\top p\|_*, \qquad p \ge 0,\ \textstyle\sum_i p_i = 1

    Attributes
    ----------
    lower, upper : float
        At most ``gamma(w)`` at its best intercept, and at least ``||Z^T p||_*``, in the units of the data as
        given: both are rounded outward.
    w : ndarray of shape (d,) or (K, d), or None
        The witness of ``lower``.
    intercept : float or ndarray of shape (K,)
        The best intercept of w, rounded to float64.
    exact_w : vector of Fraction or None
        The witness ``(w, b)`` itself (w without an intercept, W and b of classes jointly) where float64 is
        not accurate enough; ``w`` and ``intercept`` are its roundings then. Of a soft margin, that of the
        extended rows.
    dual_weights : DualWeights or None
        The witness p of ``upper``, if the solver has it as numbers.
    w_upper : ndarray of shape (d,) or (K, d), or None
        The witness of ``upper`` otherwise: ``p = problem.dual_weights(w_upper)``. Both are None if p is an
        average kept by the algorithm itself.
    quantity : {"gamma_star", "gamma_C"}
        What is bounded: the largest margin, or that of the extended rows of `prgd.soft_margin`.

    Raises
    ------
    CrossedBoundsError
        If lower exceeds upper: one of them is false then.
    """

    lower: float = -math.inf
    upper: float = math.inf
    w: Array | None = None
    intercept: Intercept = 0.0
    dual_weights: DualWeights | None = None
    w_upper: Array | None = None
    exact_w: RationalVector | None = None
    quantity: str = HARD

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
        self, lower: float, w: Array, intercept: Intercept = 0.0, exact_w: RationalVector | None = None
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
        none = NO_SEPARATOR if self.upper > 0.0 else "no hyperplane separates the classes"
        gap = f"{self.gap:.2e}" if self.lower > 0.0 else f"none: {none}"
        return f"{interval(self.lower, self.upper, self.quantity)} (relative gap {gap})"


class Check(NamedTuple):
    """Both bounds computed again from the data, and whether they confirm the result."""

    certificate: Certificate
    is_valid: bool

    def __str__(self) -> str:
        bounds = interval(self.certificate.lower, self.certificate.upper, self.certificate.quantity)
        if self.is_valid:
            return f"confirmed: {bounds}"
        return (
            f"not confirmed: {bounds}. Pass X and y of the fit, with the rows in their order, and the "
            "sample_weight of the fit, if there was one."
        )


def quantity_of(C: float) -> str:
    """Return the name of what is bounded for a price C of slacks, which is infinite for a hard margin."""
    return HARD if math.isinf(C) else SOFT


def interval(lower: float, upper: float, quantity: str = HARD, digits: int = 9) -> str:
    """Return ``lower <= gamma_star <= upper`` as text.

    Examples
    --------
    >>> interval(0.25, 0.5), interval(-1e-322, 0.0)
    ('0.25 <= gamma_star <= 0.5', '0 <= gamma_star <= 0')
    """
    return f"{shown_lower(lower):.{digits}g} <= {quantity} <= {upper:.{digits}g}"


def shown_lower(lower: float) -> float:
    """Return a lower bound as it is printed: 0 for what only the rounding of tiny products takes below 0."""
    return 0.0 if -_SMALLEST_NORMAL < lower < 0.0 else lower


def certify(at: Evaluation) -> Certificate:
    """Return the interval that one pass proves: its sums, and a bound on their rounding.

    Sums whose rounding has no bound (`Rows.joint_unit_roundoff`) prove nothing.
    """
    problem, length = at.problem, at.length
    if math.isinf(problem.unit_roundoff):
        return Certificate()
    lower, w, intercept, unit = -math.inf, None, at.intercept, problem.unit_roundoff
    if length > 0.0:
        w = at.w
        lower = plain_lower(problem, w, at.smallest_margin, intercept, unit, length)
    if (v := at.v) is not None:
        (margin, beside), length = at.second_margin, problem.norm(v)
        # The rounding error of the bound is computed only if the margin itself is larger.
        if margin > lower * length:
            bound = plain_lower(problem, v, margin, beside, unit, length)
            if bound > lower:
                lower, w, intercept = bound, v, beside
    error = dual_vector_error(problem, at.tally.smallest_mass)
    error += at.weights_error * term_size(problem)
    upper = upper_near(problem, at.dual_vector, at.upper, error)
    return Certificate(lower, upper, w, intercept, w_upper=at.w)


def plain_lower(
    problem: Problem,
    w: Array,
    margin: float,
    intercept: Intercept,
    unit: float = UNIT_ROUNDOFF,
    length: float | None = None,
) -> float:
    """Return a lower bound of ``gamma(w)`` from the smallest margin that a pass found at an intercept.

    ``length`` is ``||w||`` in the norm of the problem if it is known already.
    """
    length = problem.norm(w) if length is None else length
    is_plain = isinstance(problem.norm, L2) and not problem.is_joint
    reach = length if is_plain else problem.coding.reach(w)
    error = margin_error(problem, reach, unit)
    if problem.is_joint:  # two products are subtracted, and two intercepts added
        size = reach * problem.max_norm + 2.0 * float(np.abs(intercept).max(initial=0.0))
        error = BOUND_FACTOR * (error + 8.0 * UNIT_ROUNDOFF * size)
    return over_length(problem, lowered(margin, 2) - error, w, length)


def certify_all(
    problem: Problem, margins: Array, lengths: Array, dual_norms: Array, masses: Array
) -> tuple[Array, Array]:
    """Return both ends of `certify` for many steps of one problem, in l2 and for two classes.

    ``margins`` and ``lengths`` of any shape are those of some w; ``masses`` are the smallest sums of weights.
    """
    with np.errstate(all="ignore"):  # what is not finite is replaced
        error = np.where(
            lengths * problem.max_norm < 0.5 * LARGEST, _margin_error(problem, lengths), math.inf
        )
        below, rounding = lowered(margins, 2) - error, rounding_factor(math.prod(problem.shape) + 8)
        lower = lowered(below / (lengths * np.where(below > 0.0, 1.0 + rounding, 1.0 - rounding)))
        lower[~((lengths > _SMALLEST_LENGTH) & (lengths < math.inf))] = -math.inf
        upper = raised(dual_norms * (1.0 + rounding) + _dual_vector_error(problem, masses))
        upper[~(masses > 0.0)] = math.inf
    return np.nan_to_num(lower, nan=-math.inf, posinf=-math.inf, neginf=-math.inf), upper


def over_length(problem: Problem, margin: float, w: Array, length: float) -> float:
    """Return a number that is at most ``margin / ||w||``; ``length`` is that norm, rounded."""
    if not _SMALLEST_LENGTH < length < math.inf:  # the norm of a subnormal vector has no relative accuracy
        return -math.inf
    if problem.norm == L2():
        error = rounding_factor(w.size + 8)
        return lowered(margin / (length * (1.0 + error if margin > 0.0 else 1.0 - error)))
    return lowered(margin / (problem.norm.above(w) if margin > 0.0 else 0.999 * length))


def upper_near(problem: Problem, u: Array, size: float, error: float) -> float:
    """Return an upper bound of the dual norm of every vector within a Euclidean distance of u.

    ``size`` is the dual norm of u, rounded.
    """
    if problem.norm == L2():
        return raised(size * (1.0 + rounding_factor(u.size + 8)) + error)
    return raised(problem.norm.dual_above(u) + raised(problem.norm.dual_ratio(u.shape) * error, 4))


def term_size(problem: Problem) -> float:
    """Return a number that no Euclidean norm of a term exceeds: a pair has two vectors of a row."""
    return problem.max_norm * (2.0 if problem.is_joint else 1.0)


def margin_error(problem: Problem, length: float, unit: float = UNIT_ROUNDOFF) -> float:
    """Bound the rounding of a margin ``<w, z_i>`` that a pass computes, for any row and any w of a length."""
    if not length * problem.max_norm < 0.5 * LARGEST:  # the products may overflow, and a margin be anything
        return math.inf
    return float(_margin_error(problem, length, unit))


def _margin_error(problem: Problem, length: Any, unit: float = UNIT_ROUNDOFF) -> Any:
    # A sum of d products, in any order; the further terms cover the norms and the length, which are rounded.
    relative, underflow = rounding_factor(problem.d + 8, unit), (problem.d + 1) * _underflow(unit)
    if unit > UNIT_ROUNDOFF:  # w itself is rounded, and its entries may underflow
        underflow *= 1.0 + problem.max_norm
    return BOUND_FACTOR * (relative * (length * problem.max_norm) + underflow)


def _underflow(unit: float) -> float:
    """Return the absolute error of a product that underflows, in float64 or in float32."""
    return SMALLEST if unit == UNIT_ROUNDOFF else 2.0**-126


def dual_vector_error(problem: Problem, mass: float) -> float:
    """Bound the norm of the rounding of the dual vector ``sum_i c_i z_i / sum_i c_i`` of a pass.

    The weights c_i are the numbers that the pass computed, whatever they are. Underflows are divided by their
    sum, which is at least ``mass`` (in each class).
    """
    return float(_dual_vector_error(problem, mass)) if mass > 0.0 else math.inf


def _dual_vector_error(problem: Problem, mass: Any) -> Any:
    unit, size = problem.unit_roundoff, term_size(problem)
    roundings, terms = 2 * problem.rows.sum_roundings + problem.d + 16, problem.n
    if problem.is_joint:  # the weight of a row in its own class is summed over the pairs, apart from theirs
        roundings, terms = roundings + 2 * problem.shape[0], terms * problem.shape[0]
    # An underflow is one of a product of a row, or of a weight, which counts for the entries of its row.
    entries = raised(math.sqrt(math.prod(problem.shape)))
    underflow = 4 * (terms + problem.d) * entries * (1.0 + size) * _underflow(unit)
    return BOUND_FACTOR * (rounding_factor(roundings, unit) * size + underflow / mass)
