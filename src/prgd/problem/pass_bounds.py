"""Bounds that a pass proves: its sums, and bounds on their rounding.

`certify` takes the Tally of a step. If its bounds are too wide, `accurate_lower` computes the margins again
with compensated products, and `prgd.problem.dual_bounds.accurate_upper` the dual vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from prgd.core.arithmetic import (
    BOUND_FACTOR,
    EPSILON,
    LARGEST,
    SMALLEST,
    UNIT_ROUNDOFF,
    lowered,
    raised,
    rounding_factor,
)
from prgd.core.types import Array, Intercept
from prgd.norms import L2, norm
from prgd.problem import Problem
from prgd.problem.certificate import Certificate, DualWeights
from prgd.problem.dual_bounds import accurate_upper
from prgd.problem.evaluation import Evaluation

_SMALLEST_LENGTH = 2.0**-960  # a shorter w may have subnormal entries


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
    upper = _upper_of(problem, at.dual_vector, at.upper, error)
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


def over_length(problem: Problem, margin: float, w: Array, length: float) -> float:
    """Return a number that is at most ``margin / ||w||``; ``length`` is that norm, rounded."""
    if problem.norm == L2():
        return margin_over_length(margin, length, w.size)
    if not _SMALLEST_LENGTH < length < math.inf:
        return -math.inf
    return lowered(margin / (problem.norm.above(w) if margin > 0.0 else 0.999 * length))


def _upper_of(problem: Problem, u: Array, size: float, error: float) -> float:
    """Return an upper bound of the dual norm of every vector within a Euclidean distance of u.

    ``size`` is the dual norm of u, rounded.
    """
    if problem.norm == L2():
        return raised(size * (1.0 + rounding_factor(u.size + 8)) + error)
    return raised(problem.norm.dual_above(u) + raised(problem.norm.dual_ratio(u.shape) * error, 4))


def certify_in_double(problem: Problem, w: Array) -> Certificate:
    """Return the interval at w by passes in float64, on rows whose Tally is summed in float32."""
    found, weights = margin_in_double(problem, w), weights_at(problem, w)
    if problem.is_joint and problem.fit_intercept:  # weights that balance exactly
        return found.with_upper(accurate_upper(problem, weights), w_upper=w)
    # The weights have sum 1 to the rounding of a sum of n terms, and n terms are added for every column.
    count = problem.coding.n_terms
    error = rounding_factor(4 * count + problem.d + 64) * term_size(problem)
    u = problem.combine(weights.dense(count))
    return found.with_upper(
        raised(_upper_of(problem, u, problem.norm.dual(u), error), problem.d + 8), w_upper=w
    )


def margin_in_double(problem: Problem, w: Array) -> Certificate:
    """Return the lower bound that the margin of w proves, by a pass in float64."""
    if norm(w) == 0.0:
        return Certificate()
    margins = problem.ask(problem.coding.margins_at(w))
    margin, intercept = problem.coding.best(problem.smallest_of(margins))
    return Certificate().with_lower(plain_lower(problem, w, margin, intercept), w, intercept)


def term_size(problem: Problem) -> float:
    """Return a number that no Euclidean norm of a term exceeds: a pair has two vectors of a row."""
    return problem.max_norm * (2.0 if problem.is_joint else 1.0)


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
    unit, size = problem.unit_roundoff, term_size(problem)
    roundings, terms = 2 * problem.rows.sum_roundings + problem.d + 16, problem.n
    if problem.is_joint:  # the weight of a row in its own class is summed over the pairs, apart from theirs
        roundings, terms = roundings + 2 * problem.shape[0], terms * problem.shape[0]
    # An underflow is one of a product of a row, or of a weight, which counts for the entries of its row.
    entries = raised(math.sqrt(math.prod(problem.shape)))
    underflow = 4 * (terms + problem.d) * entries * (1.0 + size) * _underflow(unit)
    return (
        BOUND_FACTOR * (rounding_factor(roundings, unit) * size + underflow / mass)
        if mass > 0.0
        else math.inf
    )


def margin_over_length(margin: float, length: float, d: int) -> float:
    """Return a number that is at most ``margin / ||w||``, where ``length`` is the rounded norm of w."""
    if not _SMALLEST_LENGTH < length < math.inf:  # the norm of a subnormal vector has no relative accuracy
        return -math.inf
    error = rounding_factor(d + 8)
    return lowered(margin / (length * (1.0 + error if margin > 0.0 else 1.0 - error)))


def accurate_lower(problem: Problem, w: Array, intercept: Intercept) -> tuple[float, Array, Intercept]:
    """Return a lower bound of ``gamma(w)``, w, and its best intercept, by a pass of compensated products.

    Parameters
    ----------
    intercept : float or ndarray of shape (K,)
        Numbers near the best intercept. Margins are computed at this intercept, which keeps their digits.
    """
    margins, errors = problem.ask(problem.coding.accurate_at(w, intercept))
    return accurate_margin(problem, problem.smallest_of(margins - errors), w, intercept)


def accurate_margin(
    problem: Problem, smallest: Sequence[float], w: Array, intercept: Intercept
) -> tuple[float, Array, Intercept]:
    """Return a lower bound of ``gamma(w)``, w, and its best intercept, from the margins of groups.

    The margins were computed at ``intercept``, a number near the best one.
    """
    found, shift = problem.coding.best(smallest)
    if problem.fit_intercept:
        intercept = intercept + shift
    sizes = [abs(margin) for margin in smallest if math.isfinite(margin)]
    margin = lowered(found, 4) - 8.0 * UNIT_ROUNDOFF * (max(sizes, default=0.0) if problem.is_joint else 0.0)
    if margin > 0.0:
        return lowered(margin / problem.norm.above(w)), w, intercept
    return over_length(problem, margin, w, problem.norm(w)), w, intercept


def weights_at(problem: Problem, w: Array) -> DualWeights:
    """Return the dual weights at w as numbers, by one pass."""
    terms, p = np.arange(problem.coding.n_terms), problem.dual_weights(w)
    try:
        return DualWeights.normalized(problem, terms, p)
    except ValueError:
        # At a long w the weights of pairs that classes need for their balance underflow; those of 0 do not.
        return DualWeights.normalized(problem, terms, p + EPSILON * problem.dual_weights(np.zeros_like(w)))
