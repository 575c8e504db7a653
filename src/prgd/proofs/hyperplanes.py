"""Both bounds of a hyperplane's margin, proven again from their witnesses and the data alone.

Weights that nearly balance the rows of a problem prove that no hyperplane separates them.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from prgd.core.arithmetic import EPSILON, SMALLEST, UNIT_ROUNDOFF, nearest_floats
from prgd.core.types import Array, Indices, Intercept, RationalVector
from prgd.norms import L2, norm
from prgd.problem import Problem
from prgd.problem.accurate_bounds import accurate_margin, accurate_upper, is_on_simplex, weights_at
from prgd.problem.certificate import Certificate, DualWeights, over_length
from prgd.proofs.column_relations import column_structure
from prgd.proofs.directions import MAX_EXACT_ENTRIES, exact_lower
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.weights import prove_integer_weights, prove_weights
from prgd.rows.blocks import pair_rows


def prove_again(problem: Problem, stated: Certificate) -> tuple[Certificate, bool]:
    """Return the bounds that the witnesses of a certificate prove, and whether they confirm the stated ones.

    Rounding may take 1e-12 of the proven bounds, and 1e-9 of the upper one where the dual weights are
    computed from a w.
    """
    found = _lower_again(problem, stated)
    weights, tolerance = stated.dual_weights, 1e-12
    if weights is None and stated.w_upper is not None and stated.w_upper.shape == problem.shape:
        weights, tolerance = weights_at(problem, stated.w_upper), 1e-9
    if weights is not None and is_on_simplex(problem, weights):
        if stated.upper == 0.0 and proves_overlap(problem, weights):
            found = found.with_upper(0.0, weights)
        else:
            found = found.with_upper(accurate_upper(problem, weights), weights)
    # Rounding is measured by what is proven here: a stated bound, however large, excuses nothing.
    least = 64 * (problem.n_terms + math.prod(problem.shape)) * SMALLEST
    sizes = [size for size in (abs(found.lower), found.upper) if math.isfinite(size)]
    is_valid = found.lower >= stated.lower - 1e-12 * max(sizes, default=0.0) - least
    is_valid &= found.lower > 0.0 or stated.lower <= least  # no rounding makes a margin positive
    is_valid &= found.upper * (1.0 - tolerance) <= stated.upper + least
    return found, bool(is_valid and _agrees(problem, stated))


def _agrees(problem: Problem, stated: Certificate) -> bool:
    """Say whether numbers are the roundings of exact witnesses, and weights balance rows that overlap."""
    p, w = stated.dual_weights, np.append(np.asarray(stated.w), stated.intercept)
    values, integers = (w, ()) if p is None else (p.values, p.integers or ())
    balanced = 1e-4 * problem.max_norm * problem.norm.dual_ratio(problem.shape) + 1e-300
    exact: Any = [(w, stated.exact_w or ()), (values, [Fraction(k, sum(integers)) for k in integers])]
    return (
        (problem.fit_intercept or not np.any(stated.intercept))
        and (stated.upper > 0.0 or p is None or accurate_upper(problem, p) <= balanced)
        and all(np.allclose(v[: len(x)], nearest_floats(x), 1e-9, 1e-300) for v, x in exact)
    )


def _lower_again(problem: Problem, stated: Certificate) -> Certificate:
    """Return the lower bound that the hyperplane of a certificate proves."""
    found, exact, w = Certificate(), stated.exact_w, stated.w
    if w is None or w.shape != problem.shape or np.shape(stated.intercept) != problem.shape[:-1]:
        return found
    if exact is not None:
        return found.with_lower(rational_lower(problem, exact), w, stated.intercept, exact)
    if not norm(w) > 0.0:
        return found
    scale = int(np.frexp(np.abs(w).max())[1])  # a power of two keeps the digits of w and of products
    w, b = np.ldexp(w, -scale), np.ldexp(stated.intercept, -scale)
    if not np.isfinite(b).all():
        return found
    found = found.with_lower(_at_intercept(problem, w, b if problem.is_joint else float(b)), w, b)
    if found.lower < stated.lower:  # products beyond the floating range
        numbers = [*w.ravel().tolist(), *np.atleast_1d(b).tolist()]
        exact = tuple(map(Fraction, numbers if problem.is_joint or problem.fit_intercept else numbers[:-1]))
        found = found.with_lower(rational_lower(problem, exact), w, b)
    return found


def rational_lower(problem: Problem, exact: RationalVector) -> float:
    """Return a lower bound of the margin of a witness `Certificate.exact_w` in l2, -inf if none is proven."""
    if not problem.is_joint:
        rows = LiftedRows.of(problem)
        is_about = problem.norm == L2() and len(exact) == rows.width
        return exact_lower(rows, exact) if is_about else -math.inf
    K, d = problem.shape
    if problem.norm != L2() or len(exact) != K * (d + 1) or problem.n_terms * d > MAX_EXACT_ENTRIES:
        return -math.inf
    pairs = np.isfinite(problem.counted(problem.ask(problem.coding.margins_at(np.zeros((K, d))))))
    W, b = np.array(exact[: K * d], dtype=object).reshape(K, d), np.array(exact[K * d :], dtype=object)
    v = (*(W[:-1] - W[-1]).ravel(), *(b[: (K - 1) * problem.fit_intercept] - b[-1]))
    square = sum((x * x for x in exact[: K * d]), Fraction(0))
    return exact_lower(lifted_pairs(problem, np.flatnonzero(pairs)), v, square)


def _at_intercept(problem: Problem, w: Array, intercept: Intercept) -> float:
    """Return a lower bound of the margin of w at an intercept, which may be rounded to float64."""
    margins, errors = problem.ask(problem.coding.accurate_at(w, intercept))
    smallest = problem.smallest_of(margins - errors)
    lower = accurate_margin(problem, smallest, w, intercept)[0]
    room = 8.0 * UNIT_ROUNDOFF * float(np.abs(intercept).max(initial=0.0))
    return min(lower, over_length(problem, min(smallest) + room, w, problem.norm(w)))


def proves_overlap(problem: Problem, weights: DualWeights) -> bool:
    """Say whether weights near these balance the rows exactly, so that gamma_star is at most 0.

    False means that no proof was found: there may be none, or it is too expensive.
    """
    if problem.is_joint:
        rows = lifted_pairs(problem, weights.indices)
        weights = DualWeights(np.arange(weights.indices.size), weights.values, weights.integers)
    else:
        rows = LiftedRows.of(problem)
    if not (weights.indices.size and rows.fits_dense(4 * weights.indices.size)):
        return False
    p = weights.values
    if weights.integers is not None:
        known = column_structure(rows, weights.indices)
        relations = None if known is None else known.relations
        return prove_integer_weights(rows, weights.indices, weights.integers, relations) is not None
    # Weights below rounding may be zero in truth, and must be if the others balance alone.
    for level in (0.0, EPSILON):
        kept = np.flatnonzero(p > level * p.max(initial=0.0))
        known = column_structure(rows, weights.indices[kept])
        if known is not None and prove_weights(rows, weights.indices[kept], p[kept], known) is not None:
            return True
    return False


def lifted_pairs(problem: Problem, pairs: Indices) -> LiftedRows:
    """Return the rows ``(x_i, 1) (x) (e_y - e_j)`` of ascending pairs of a joint problem, exactly.

    The columns are those of W row by row, followed by the intercepts if there are some. Those of the last
    class are left out, since only differences between classes have margins.
    """
    from scipy.sparse import csr_array, hstack

    K, d = problem.shape
    rows, at = np.unique(pairs // K, return_inverse=True)
    own, other = problem.labels.pair_classes(pairs)
    Z = pair_rows(csr_array(problem.rows.take(rows))[at], own, other, K)[:, : (K - 1) * d]
    if problem.fit_intercept:
        ones = pair_rows(np.ones((pairs.size, 1)), own, other, K)
        Z = hstack([Z, ones[:, : K - 1]], format="csr")
    return LiftedRows(csr_array(Z), None, fit_intercept=False)


def overlap_in_words(n_rows: int, fit_intercept: bool) -> str:
    """Return in words how weights on some rows prove that no hyperplane separates the classes."""
    balance = "give both classes the same weighted mean" if fit_intercept else "average y_i x_i to zero"
    kind = "hyperplane" if fit_intercept else "hyperplane through the origin"
    return f"positive weights on {n_rows} rows {balance}, so no {kind} lies between the classes"
