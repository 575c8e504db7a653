"""Bounds by compensated or exact sums, where those of one pass (`prgd.problem.certificate`) are too wide.

`accurate_lower` computes margins again, `accurate_upper` the dual norm of the sum of rows that carry weight.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from prgd.core.arithmetic import (
    BOUND_FACTOR,
    EPSILON,
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
from prgd.core.types import Array, Intercept, Signs
from prgd.norms import L2, norm
from prgd.problem import Problem
from prgd.problem.certificate import Certificate, DualWeights, over_length, plain_lower, term_size, upper_near
from prgd.problem.intercepts import is_balanced, refined_intercept

_LANE_ENTRIES = 2**14  # entries of the rows that a compensated sum takes at once
_EXACT_ENTRIES = 2**12  # entries that may be summed as integers, if compensated sums are not accurate enough
_SMALL_ERROR = 1e-9  # relative error of a compensated sum that is accurate enough


def is_on_simplex(problem: Problem, weights: DualWeights) -> bool:
    """Say whether weights are positive, belong to rows of the data, and have sum 1 (1/2 in each class)."""
    indices, count = weights.indices, problem.n_terms
    if not indices.size or indices.min() < 0 or indices.max() >= count or (np.diff(indices) <= 0).any():
        return False
    sample_weight, rows = problem.labels.sample_weight, problem.coding.rows_of(indices)
    if sample_weight.size and not sample_weight[rows].all():  # rows of weight 0 are not there
        return False
    # Where the weights are integers, the values are their roundings, some of them perhaps zero.
    is_exact = weights.integers is not None
    p = np.array(weights.integers, dtype=object) if is_exact else weights.values
    if p.size != indices.size or not (p > 0).all():
        return False
    if problem.is_joint:
        own, against = problem.labels.pair_classes(indices)
        # Weights that balance exactly are rounded to a grid; the bound divides them by their sum.
        if (own == against).any() or not (is_exact or abs(math.fsum(p) - 1.0) <= 1e-9):
            return False
        return not problem.fit_intercept or is_balanced(indices, p, own, problem.shape[0])
    signs = problem.labels.at(indices) if problem.fit_intercept else np.ones(p.size)
    groups = [p[signs > 0], p[signs < 0]] if problem.fit_intercept else [p]
    if is_exact:
        return len({sum(group.tolist()) for group in groups}) == 1
    return all(abs(math.fsum(group) * len(groups) - 1.0) <= 1e-12 for group in groups)


def _joint_upper(problem: Problem, weights: DualWeights) -> float:
    """Return an upper bound of the dual norm of ``sum_ij p_ij (e_y - e_j) x_i^T``, class by class."""
    pairs, K = weights.indices, problem.shape[0]
    rows, place = np.unique(pairs // K, return_inverse=True)
    X, (own, against) = problem.rows.take(rows), problem.labels.pair_classes(pairs)
    exact = weights.integers is not None
    p = np.array(weights.integers, dtype=object) if exact else weights.values
    scale = sum(weights.integers or ())
    u, error = np.zeros(problem.shape), np.zeros(problem.shape)
    for k in range(K):
        mine = np.flatnonzero((own == k) | (against == k))
        if mine.size:
            factors = np.where(own[mine] == k, p[mine], -p[mine])
            Z = X[place[mine]]
            u[k], error[k] = _exact_sum(Z, factors, scale) if exact else _joint_sum(Z, factors)
    total = raised(problem.norm.dual_above(u) + problem.norm.dual_of_bounds(error))
    return total if exact else raised(total / lowered(math.fsum(p), 2))


def _joint_sum(X: Any, factors: Array) -> tuple[Array, Array]:
    """Return ``X^T c`` and a bound on the error of each entry; in integers if products overflow."""
    found = _rounded(*compensated_combination(X, factors))
    if np.isfinite(found[1]).all() or math.prod(X.shape) > _EXACT_ENTRIES:
        return found
    integers, exponent = common_integers(factors)
    return _exact_sum(X, integers, Fraction(2) ** -exponent)


def _exact_sum(X: Any, factors: Any, scale: int | Fraction) -> tuple[Array, Array]:
    """Return ``X^T c / scale`` for integers c, rounded once, and a bound on the error of each entry."""
    matrix, exponent = common_integers(X if isinstance(X, np.ndarray) else X.toarray())
    unit = Fraction(2) ** exponent / scale
    u = np.array([float(int(v) * unit) for v in (matrix * factors[:, None]).sum(axis=0)])
    return u, 2.0 * UNIT_ROUNDOFF * np.abs(u) + SMALLEST


def accurate_upper(problem: Problem, weights: DualWeights) -> float:
    """Return an upper bound of ``||Z^T p||_*``, by compensated sums over the rows that carry weight.

    The weights are divided by their sums, exactly; integers are summed without rounding.
    """
    if problem.is_joint:
        return _joint_upper(problem, weights)
    p, Z = weights.values, problem.take(weights.indices)
    signs = problem.labels.at(weights.indices) if problem.fit_intercept else None
    if weights.integers is not None:
        return _exact_upper(problem, Z, np.array(weights.integers, dtype=object), signs)
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
        return _exact_upper(problem, Z, common_integers(p)[0], signs)
    # The norms of two classes are those of the absolute values, and grow with each of them.
    return raised(problem.norm.dual_above(np.abs(total) + error) / scale)


def _exact_upper(problem: Problem, Z: Any, integers: Any, signs: Signs | None) -> float:
    """Return ``||Z^T p||_*`` for weights proportional to integers (in each class), rounded upward."""
    matrix, exponent = common_integers(Z if isinstance(Z, np.ndarray) else Z.toarray())
    groups = [slice(None)] if signs is None else [signs > 0, signs < 0]
    sums = [int(integers[group].sum()) for group in groups]
    vectors = [(matrix[group] * integers[group][:, None]).sum(axis=0) for group in groups]
    others = [math.prod(sums) // total for total in sums]
    u = sum(vector * other for vector, other in zip(vectors, others, strict=True))
    unit = Fraction(2) ** exponent / (len(groups) * math.prod(sums))
    if problem.norm == L2():
        return root_up(sum(int(v) ** 2 for v in u) * unit**2)
    return problem.norm.dual_above(np.array([raised(abs(float(int(v) * unit))) for v in u]))


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


def certify_in_double(problem: Problem, w: Array) -> Certificate:
    """Return the interval at w by passes in float64, on rows whose Tally is summed in float32."""
    found, weights = margin_in_double(problem, w), weights_at(problem, w)
    if problem.is_joint and problem.fit_intercept:  # weights that balance exactly
        return found.with_upper(accurate_upper(problem, weights), w_upper=w)
    # The weights have sum 1 to the rounding of a sum of n terms, and n terms are added for every column.
    count = problem.n_terms
    error = rounding_factor(4 * count + problem.d + 64) * term_size(problem)
    u = problem.combine(weights.dense(count))
    return found.with_upper(
        raised(upper_near(problem, u, problem.norm.dual(u), error), problem.d + 8), w_upper=w
    )


def margin_in_double(problem: Problem, w: Array) -> Certificate:
    """Return the lower bound that the margin of w proves, by a pass in float64."""
    if norm(w) == 0.0:
        return Certificate()
    margins = problem.ask(problem.coding.margins_at(w))
    margin, intercept = problem.coding.best(problem.smallest_of(margins))
    return Certificate().with_lower(plain_lower(problem, w, margin, intercept), w, intercept)


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
    if problem.is_joint and problem.fit_intercept:
        margin, intercept = refined_intercept(np.reshape(smallest, np.shape(intercept) * 2), intercept)
    else:
        margin, shift = problem.coding.best(smallest)
        margin, intercept = lowered(margin, 4), intercept + shift
    if margin > 0.0:
        return lowered(margin / problem.norm.above(w)), w, intercept
    return over_length(problem, margin, w, problem.norm(w)), w, intercept


def weights_at(problem: Problem, w: Array) -> DualWeights:
    """Return the dual weights at w as numbers, by one pass."""
    terms, p = np.arange(problem.n_terms), problem.dual_weights(w)
    try:
        return DualWeights.normalized(problem, terms, p)
    except ValueError:
        # At a long w the weights of pairs that classes need for their balance underflow; those of 0 do not.
        return DualWeights.normalized(problem, terms, p + EPSILON * problem.dual_weights(np.zeros_like(w)))
