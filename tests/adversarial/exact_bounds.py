"""Exact margins and dual norms, by which the bounds of a hyperplane in any norm are judged."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
from exact_norms import exact_norms

from prgd.proofs.exact_simplex import partition_rows

DIGITS = 80
ROUNDING = mpmath.mpf("1e-60")


def fractions(X):
    return [[v if isinstance(v, Fraction) else Fraction(float(v)) for v in row] for row in np.atleast_2d(X)]


def exact_margin(X, codes, W, is_joint, with_intercept, weight=None):
    """Return the smallest margin of W at the best real intercepts, as a fraction."""
    rows, W = fractions(X), fractions(W)
    scores = [[sum(map(Fraction.__mul__, x, w), Fraction(0)) for w in W] for x in rows]
    counted = [i for i in range(len(rows)) if weight is None or weight[i] > 0.0]
    if not is_joint:
        scores = [[-s[0], s[0]] for s in scores]
    K = len(scores[0])
    g = {}
    for i in counted:
        for j in set(range(K)) - {codes[i]}:
            margin = scores[i][codes[i]] - scores[i][j]
            g[codes[i], j] = min(margin, g.get((codes[i], j), margin))
    half = 1 if is_joint else 2
    if not with_intercept:
        return min(g.values()) / half
    cycles = (c for size in range(2, K + 1) for c in itertools.permutations(range(K), size))
    return min(sum(g[c[i - 1], c[i]] for i in range(len(c))) / len(c) for c in cycles) / half


def exact_dual_vector(X, codes, weights, is_joint, with_intercept):
    """Return the sum of the rows of the dual weights, divided by their exact sums; None off the simplex."""
    rows, K = fractions(X), max(codes) + 1
    p = [Fraction(v) for v in (weights.integers or weights.values.tolist())]
    terms = weights.indices.tolist()
    if min(p) <= 0 or len(set(terms)) < len(terms):
        return None
    pairs = [divmod(t, K) for t in terms] if is_joint else [(t, 1 - codes[t]) for t in terms]
    weighted = list(zip(p, pairs, strict=True))
    out = [sum((v for v, (i, _) in weighted if codes[i] == k), Fraction(0)) for k in range(K)]
    into = [sum((v for v, (_, j) in weighted if j == k), Fraction(0)) for k in range(K)]
    if is_joint and with_intercept and out != into:
        return None
    u = [[Fraction(0)] * len(rows[0]) for _ in range(K)]
    for v, (i, j) in weighted:
        v = v / (2 * out[codes[i]] if with_intercept and not is_joint else sum(p))
        for c, x in enumerate(rows[i]):
            u[codes[i]][c] += v * x
            u[j][c] -= v * x
    return u if is_joint else u[1:]


def is_below(lower, X, codes, W, norm, is_joint, with_intercept, weight=None):
    """Say whether a lower bound of gamma(W) is true."""
    if lower == -math.inf:
        return True
    exact = exact_margin(X, codes, W, is_joint, with_intercept, weight)
    with mpmath.workdps(DIGITS):
        margin = mpmath.mpf(exact.numerator) / exact.denominator
        return mpmath.mpf(lower) * exact_norms(norm, fractions(W))[0] <= margin + abs(margin) * ROUNDING


def is_above(upper, X, codes, weights, norm, is_joint, with_intercept):
    """Say whether an upper bound is at least the dual norm of weights on the simplex."""
    u = exact_dual_vector(X, codes, weights, is_joint, with_intercept)
    with mpmath.workdps(DIGITS):
        return u is not None and mpmath.mpf(upper) >= exact_norms(norm, u)[1] * (1 - ROUNDING)


def exact_verdict(X, codes, is_joint, with_intercept):
    X = np.hstack([X, np.ones((len(X), 1))]) if with_intercept else X
    K = max(codes) + 1
    Z = np.where(codes == 1, 1.0, -1.0)[:, None] * X
    if is_joint:
        units = np.eye(K)[:, : K - 1]
        pairs = [(i, j) for i in range(len(X)) for j in range(K) if j != codes[i]]
        Z = np.array([np.outer(units[codes[i]] - units[j], X[i]).ravel() for i, j in pairs])
    boundary = partition_rows(Z)[0]
    return "SEPARABLE" if not boundary.any() else "NOT_SEPARABLE" if boundary.all() else "QUASI_SEPARABLE"
