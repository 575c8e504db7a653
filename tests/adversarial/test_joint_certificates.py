"""Certificates of joint problems against exact arithmetic, at offsets where float64 alone would be false."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import prgd
from prgd.problem.accurate_bounds import (
    accurate_lower,
    accurate_upper,
    certify_in_double,
    is_on_simplex,
    weights_at,
)
from prgd.problem.certificate import certify

NORMS = ("l2", "l1", "linf")


def exact_margin(X, codes, W, with_intercept):
    """Return the exact smallest margin of W at the best intercepts: the smallest mean of a cycle."""
    K = len(W)
    rows = [[Fraction(float(v)) for v in x] for x in X]
    weights = [[Fraction(float(v)) for v in w] for w in W]
    scores = [[sum((a * b for a, b in zip(x, w, strict=True)), Fraction(0)) for w in weights] for x in rows]
    g = {
        (k, j): min(s[k] - s[j] for s, c in zip(scores, codes, strict=True) if c == k)
        for k in range(K)
        for j in range(K)
        if j != k
    }
    if not with_intercept:
        return min(g.values())
    cycles = (c for size in range(2, K + 1) for c in itertools.permutations(range(K), size))
    return min(sum(g[c[i], c[(i + 1) % len(c)]] for i in range(len(c))) / len(c) for c in cycles)


def exact_dual_vector(problem, X, codes, weights):
    """Return the dual vector of weights in exact arithmetic, divided by their exact sum."""
    K, d = problem.shape
    u = [[Fraction(0)] * d for _ in range(K)]
    for pair, p in zip(weights.indices.tolist(), weights.values.tolist(), strict=True):
        i, j = divmod(pair, K)
        for c in range(d):
            term = Fraction(p) * Fraction(float(X[i, c]))
            u[codes[i]][c] += term
            u[j][c] -= term
    total = sum(Fraction(p) for p in weights.values.tolist())
    return [v / total for row in u for v in row]


def at_most(value, vector, norm):
    """Say whether ``value`` is at least the dual norm of an exact vector."""
    if norm == "l2":
        return value >= 0 and Fraction(value) ** 2 >= sum(v * v for v in vector)
    return Fraction(value) >= (max(map(abs, vector)) if norm == "l1" else sum(map(abs, vector)))


def times_length(value, W, norm):
    """Return ``value ||W||``, rounded toward 0 by less than 1e-15 of it for l2."""
    entries = [abs(Fraction(float(v))) for v in W.ravel()]
    if norm == "l2":
        square = Fraction(value) ** 2 * sum(v * v for v in entries)
        return square if value > 0 else -square  # compared with the square of the margin
    return Fraction(value) * (sum(entries) if norm == "l1" else max(entries))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_both_ends_hold_in_exact_arithmetic(offset, norm, fit_intercept):
    rng = np.random.default_rng(7)
    for trial in range(4):
        K, d = 3 + trial % 2, 2 + trial % 3
        codes = np.arange(12) % K
        X = rng.standard_normal((K, d))[codes] * 3.0 + 0.3 * rng.standard_normal((12, d)) + offset
        problem = prgd.Problem(X, codes, norm=norm, fit_intercept=fit_intercept)
        W = rng.standard_normal((K, d))
        W -= W.mean(axis=0)
        at = problem.at(np.sqrt(problem.unit) * 3.0 * W)
        weights = weights_at(problem, at.w)
        assert is_on_simplex(problem, weights)
        accurate = accurate_lower(problem, at.w, at.intercept)
        margin = exact_margin(X, codes, at.w, fit_intercept)
        found = certify(at), certify_in_double(problem, at.w)
        for lower in (found[0].lower, found[1].lower, accurate[0]):
            bound = times_length(lower, at.w, norm)
            exact = margin * abs(margin) if norm == "l2" else margin
            assert bound <= exact
        u = exact_dual_vector(problem, X, codes, weights)
        upper = accurate_upper(problem, weights)
        assert at_most(upper, u, norm)
        if offset == 0.0:
            assert upper <= found[0].upper <= upper * (1.0 + 1e-9)
            assert accurate[0] == pytest.approx(found[0].lower, rel=1e-9)


@pytest.mark.no_cover  # The tests of algorithms run the same lines.
@pytest.mark.parametrize("norm", [*NORMS, "lp:3", "spectral", "nuclear", "rows", "columns"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_upper_bounds_of_iterates_are_above_the_certified_margin(fit_intercept, norm):
    rng = np.random.default_rng(3)
    codes = np.arange(40) % 4
    X = rng.standard_normal((4, 5))[codes] * 2.0 + 0.4 * rng.standard_normal((40, 5))
    problem = prgd.Problem(X, codes, norm=norm, fit_intercept=fit_intercept)
    best = prgd.run(problem, prgd.algorithms.SteepestDescent(), stop=300)
    assert 0.0 < best.margin <= best.upper_bound
    for _ in range(5):
        found = certify(problem.at(rng.standard_normal(problem.shape) * np.sqrt(problem.unit)))
        assert found.upper >= best.margin
        assert found.lower <= best.upper_bound
    assert best.check(X, codes).is_valid
