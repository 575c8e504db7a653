r"""Both ends of the soft margin's interval, proven on the data as given.

The soft margin with the squared hinge is the hard margin of the rows extended by :math:`e_i / \sqrt{c_i}`,
c_i being 2 C times the sample weight. So for every w, b, and slacks :math:`\xi_i \ge 1 - y_i (\langle w, x_i
\rangle + b)` that are not negative, and for all dual weights p (not negative, of sum 1, 1/2 in each class
with an intercept),

.. math::
    \frac{1}{\sqrt{\|w\|^2 + \sum_i c_i \xi_i^2}} \le \gamma_C \le \sqrt{\|Z^\top p\|^2 + \sum_i p_i^2 / c_i}.

Of K classes jointly the terms are pairs of a row and another class, each with a slack of its own. Slacks are
rounded upward, and so are all sums.
"""

import math

import numpy as np

from prgd.core.arithmetic import (
    BOUND_FACTOR,
    SMALLEST,
    UNIT_ROUNDOFF,
    lowered,
    nearest_floats,
    raised,
    rounding_factor,
    times_power,
)
from prgd.core.types import Array, Intercept, Mask, RationalVector
from prgd.norms import norm
from prgd.problem import Problem
from prgd.problem.accurate_bounds import accurate_upper, is_on_simplex
from prgd.problem.certificate import SOFT, Certificate, DualWeights, margin_error
from prgd.proofs.hyperplanes import rational_lower
from prgd.rows import Combine
from prgd.rows.extended import ExtendedRows

_ROUNDING_FRACTION = 0.05  # fraction of the tolerance beyond which rounding asks for compensated products
_MAX_SEARCH = 60  # evaluations of the slope in a line search, which needs about five
_SMALLEST_C = 1e-290  # smaller c_i are rounded badly or to 0, and larger ones than the inverse to infinity


def soft_weights(problem: Problem, C: float) -> Array:
    """Return ``c_i``, 2 C times the sample weight of each row, rounded to float64 with all its digits."""
    if math.isinf(C):
        return np.full(problem.n, np.inf)
    sample_weight = problem.labels.sample_weight
    s = sample_weight if sample_weight.size else np.ones(1)  # the weight of all rows
    with np.errstate(over="ignore"):
        c: Array = 2.0 * C * s
    in_range = (c >= _SMALLEST_C) & (c <= 1.0 / _SMALLEST_C)
    if not (in_range | (s == 0.0)).all():
        i = int(np.argmin(in_range | (s == 0.0)))
        raise ValueError(
            f"2 C, for C = {C:.3g}, times the sample weight {s[i]:.3g} of row {i} must lie between "
            f"{_SMALLEST_C:g} and {1.0 / _SMALLEST_C:g}, where products keep their digits; leave "
            "out the row, or rescale the weights."
        )
    return c if sample_weight.size else np.full(problem.n, c[0])


_NEAR = 2.0**-40  # fraction of an intercept by which the best one may differ from it


def slacks_above(margins: Array, errors: Array | float) -> Array:
    """Return numbers that are at least ``max(0, 1 - m_i)``, where m_i is within ``errors`` of ``margins``."""
    # Two roundings of numbers of size 1 + |m| + error; zero stays zero.
    slack = (1.0 - margins) + errors
    room = 4.0 * UNIT_ROUNDOFF * (1.0 + np.abs(margins) + errors)
    return np.maximum(slack + BOUND_FACTOR * room, 0.0)


def exact_step(margins: Array, slopes: Array, c: Array, linear: float, square: float, start: float) -> float:
    r"""Return the t that minimises the squared-hinge loss along a line, whose slope is piecewise linear in t.

    .. math:: t \, linear + \tfrac12 t^2 square + \tfrac12 \sum_i c_i \max(0, 1 - m_i - t s_i)^2

    Newton's method on the slope, inside a bracket, ends on the right piece after a few evaluations.

    Examples
    --------
    >>> exact_step(np.zeros(2), np.array([1.0, 2.0]), np.ones(2), 0.0, 1.0, 1.0)
    0.5
    """
    room, weighted = 1.0 - margins, c * slopes
    low, high, t = -math.inf, math.inf, start
    piece: Mask | None = None
    for _ in range(_MAX_SEARCH):
        slack = room - t * slopes
        is_active = slack > 0.0
        # Two evaluations on one piece, where the slope is linear: the last t is its root.
        if piece is not None and (is_active == piece).all():
            return t
        active = weighted * is_active
        slope = linear + t * square - float(active @ slack)
        curvature = square + float(active @ slopes)
        if slope == 0.0 or curvature <= 0.0:
            return t
        low, high = (t, high) if slope < 0.0 else (low, t)
        following, piece = t - slope / curvature, is_active
        if not low < following < high:
            if math.isinf(low) or math.isinf(high):
                return following
            following, piece = 0.5 * (low + high), None  # the middle of the bracket is no root of a piece
            if following in (low, high):
                return following
        t = following
    return t


def _of_terms(problem: Problem, c: Array, *found: Array) -> list[Array]:
    """Return c and what was found, of terms of positive weight: of rows, or of rows against other classes."""
    counted = c > 0.0
    if problem.is_joint:
        K = problem.shape[0]
        counted = counted[:, None] & (problem.labels.codes[:, None] != np.arange(K))
        c = np.broadcast_to(c[:, None], counted.shape)
    elif counted.all():
        return [c, *found]
    return [numbers[counted] for numbers in (c, *found)]


def soft_lower(
    problem: Problem, C: float, w: Array, b: Intercept, tol: float, accurate: bool = False
) -> float:
    """Return a lower bound of the soft margin, from w and its best intercept near b, by one or two passes.

    Of classes jointly the intercepts are taken as they are.

    Plain products are enough unless their rounding could take more than a fraction of ``tol``; ``accurate``
    asks for compensated ones at once.
    """
    weights, b = soft_weights(problem, C), b if problem.fit_intercept else 0.0
    coding, reach = problem.coding, problem.coding.reach(w)
    if not accurate:
        margins, error = problem.ask(coding.margins_at(w)), margin_error(problem, reach)
        if problem.fit_intercept:
            error += 4.0 * UNIT_ROUNDOFF * (float(np.abs(b).max()) + reach * problem.max_norm)
            margins = coding.at_intercept(margins, b)
        c, margins = _of_terms(problem, weights, margins)
        if error < 1.0:
            slack = slacks_above(margins, error)
            length = length_above(w.ravel(), np.sqrt(c) * slack)
            # The error moves the objective by about the sum of c_i slack_i error.
            if float(c @ slack) * error <= _ROUNDING_FRACTION * tol * length * length:
                return lowered(1.0 / length) if length > 0.0 else 0.0
    c, margins, errors = _of_terms(problem, weights, *problem.ask(coding.accurate_at(w, b)))
    if problem.fit_intercept and not problem.is_joint:
        # The best intercept lies between float64 numbers far from the origin.
        signs = problem.labels.signs[weights > 0.0].astype(np.float64)
        shift, room = exact_step(margins, signs, c, 0.0, 0.0, 0.0), _NEAR * abs(float(b))
        margins = margins + min(max(shift, -room), room) * signs
    slack = slacks_above(margins, errors)
    length = length_above(w.ravel(), np.sqrt(c) * slack)
    return lowered(1.0 / length) if 0.0 < length < math.inf else 0.0


def extended_problem(problem: Problem, C: float) -> Problem:
    """Return the hard problem of the extended rows, whose own entries are rounded: norms by a few units."""
    rows = ExtendedRows(problem.rows, soft_weights(problem, C))
    return Problem(rows, fit_intercept=problem.fit_intercept, scale="none")


def rational_soft_lower(problem: Problem, C: float, exact: RationalVector) -> float:
    """Return a lower bound of the soft margin, from a witness for the extended rows that is not rounded."""
    return lowered(rational_lower(extended_problem(problem, C), exact), 8)


def length_above(*parts: Array) -> float:
    """Return a number that is at least the norm of all parts together.

    Each entry may be the rounded result of three operations on exact numbers.
    """
    largest = max(float(np.abs(part).max(initial=0.0)) for part in parts)
    if not 0.0 < largest < math.inf:
        return largest
    # Scaling by a power of two keeps the squares in the floating range.
    exponent, terms = math.frexp(largest)[1], sum(part.size for part in parts)
    scaled = [np.ldexp(part, -exponent) for part in parts]
    square = sum(float(part @ part) for part in scaled)
    square = square * (1.0 + BOUND_FACTOR * rounding_factor(terms + 16)) + 2 * terms * SMALLEST
    return raised(times_power(raised(math.sqrt(square), 2), exponent), 2)


def soft_upper(problem: Problem, C: float, weights: DualWeights, tol: float, accurate: bool = False) -> float:
    """Return an upper bound of the soft margin, from dual weights divided by their exact sums."""
    p, c = weights.values, soft_weights(problem, C)[problem.coding.rows_of(weights.indices)]
    if problem.is_joint:  # weights of sum 1 that balance exactly
        if not is_on_simplex(problem, weights) or weights.integers is not None:
            return math.inf
        own = raised(length_above(p / np.sqrt(c)) / lowered(math.fsum(p), 2))
        return length_above(np.array([accurate_upper(problem, weights), own]))
    if weights.integers is not None:
        return raised(accurate_upper(extended_problem(problem, C), weights), 8)
    signs = problem.labels.at(weights.indices) if problem.fit_intercept else None
    groups = [slice(None)] if signs is None else [signs > 0, signs < 0]
    sums = [len(groups) * math.fsum(p[group]) for group in groups]
    if not ((c > 0.0).all() and min(sums) > 0.0):
        return math.inf
    # Sums of 1 are those of weights that were divided by their sums, within a few roundings of each.
    relative = BOUND_FACTOR * (rounding_factor(4 * p.size + problem.d + 32) + max(abs(s - 1.0) for s in sums))
    own = raised(length_above(p / np.sqrt(c)) / lowered(min(sums), 2))
    if not accurate:
        vector = problem.rows.ask(Combine(weights.indices, p), problem.labels)
        error, length = relative * problem.max_norm, length_above(vector)
        bound = length_above(np.array([raised(length + error), own]))
        # The square of the bound has grown by about twice this product.
        if error * (length + error) <= _ROUNDING_FRACTION * tol * bound * bound:
            return bound
    return length_above(np.array([accurate_upper(problem, weights), own]))


def prove_soft_again(problem: Problem, C: float, stated: Certificate) -> Certificate:
    """Return the bounds that the witnesses of a certificate prove, with compensated products."""
    found, w, p = Certificate(quantity=SOFT), stated.w, stated.dual_weights
    if w is not None and w.shape == problem.shape:
        b = stated.intercept
        found = found.with_lower(soft_lower(problem, C, w, b, 0.0, accurate=True), w, b)
        if stated.exact_w is not None and not problem.is_joint:
            exact, d = stated.exact_w, problem.d  # w, the slacks and the intercept, at any scale
            v = np.append(w, [b] * problem.fit_intercept)
            x = nearest_floats((*exact[:d], *exact[-1:])[: v.size])
            if np.allclose(v * norm(x), x * norm(v), 1e-6, 1e-9 * norm(x) * norm(v)):
                found = found.with_lower(rational_soft_lower(problem, C, exact), w, b, exact)
    if p is not None and is_on_simplex(problem, p):
        found = found.with_upper(soft_upper(problem, C, p, 0.0, accurate=True), p)
    return found


def soft_cosine(stated: Certificate) -> float:
    r"""Return a lower bound on the cosine between w and that of the soft margin, -1 if nothing is proven.

    With v = (w, sqrt(c_i) xi_i), and v_star that of the optimum, the shortest vector of a convex set,
    :math:`\|v - v_*\|^2 \le \|v\|^2 - \|v_*\|^2 \le lower^{-2} - upper^{-2}`. So the sine of the angle is at
    most the root of the right-hand side divided by ``||w||``.
    """
    if stated.w is None or not 0.0 < stated.lower <= stated.upper < math.inf:
        return -1.0
    length = norm(stated.w) * (1.0 - rounding_factor(stated.w.size + 8))
    fraction = lowered(stated.lower * length, 2)  # fraction of the length of v that lies in w
    if not fraction > 0.0:
        return -1.0
    ratio = lowered(stated.lower / stated.upper)
    square = lowered(1.0 - raised((1.0 - ratio) * (1.0 + ratio) / (fraction * fraction), 6), 2)
    return lowered(math.sqrt(square), 2) if square > 0.0 else -1.0
