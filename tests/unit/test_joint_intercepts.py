"""Intercepts of joint problems: balancing, the best intercepts, weights that balance exactly."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prgd.problem.intercepts import balance, best_intercept, circulation, is_balanced


def matrix(seed: int, K: int, scale: float) -> np.ndarray:
    found = scale * np.random.default_rng(seed).standard_normal((K, K))
    np.fill_diagonal(found, math.inf)
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 10), st.sampled_from([1e-3, 1.0, 30.0, 1e3]))
def test_balanced_flows_leave_and_enter_every_class_alike(seed, K, scale):
    log_sums = -matrix(seed, K, scale)
    found = balance(log_sums)
    assert found.flows.sum() == pytest.approx(1.0)
    assert found.imbalance <= 1e-14 * (K + scale * 10)
    # It is the smallest value: other intercepts give at least as much.
    other = found.intercept + np.random.default_rng(seed).standard_normal(K)
    exponents = log_sums + (other[None, :] - other[:, None])
    assert found.log_loss <= np.logaddexp.reduce(exponents, axis=None) + 1e-12 * (1 + scale)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.sampled_from([1e-8, 1.0, 1e8]))
def test_the_best_intercept_reaches_the_smallest_mean_of_a_cycle(seed, K, scale):
    g = matrix(seed, K, scale)
    cycles = (c for size in range(2, K + 1) for c in itertools.permutations(range(K), size))
    means = [np.mean([g[c[i], c[(i + 1) % len(c)]] for i in range(len(c))]) for c in cycles]
    margin, b = best_intercept(g)
    assert margin == pytest.approx(min(means), rel=1e-12, abs=1e-12 * scale)
    assert (g + (b[:, None] - b)).min() == margin


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.sampled_from([1e-16, 1e-9, 0.1]))
def test_a_circulation_balances_exactly_and_is_near(seed, K, noise):
    rng = np.random.default_rng(seed)
    own = np.repeat(np.arange(K), K).astype(np.int32)
    pairs = np.arange(K * K) * K + np.tile(np.arange(K), K)  # row k * K + j of class k, against j
    p = np.zeros((K, K))
    for _ in range(4):  # a sum of cycles balances
        cycle = rng.permutation(K)[: rng.integers(2, K + 1)]
        p[cycle, np.roll(cycle, -1)] += rng.random()
    p /= p.sum()
    kept = np.flatnonzero(p)
    noisy = p.ravel()[kept] * (1.0 + noise * rng.standard_normal(kept.size))
    noisy = np.abs(noisy)
    found = circulation(pairs[kept], noisy, own[kept], K)
    assert is_balanced(pairs[kept], found, own[kept], K)
    assert np.abs(found - noisy).sum() <= 3 * K * noise + 1e-12


def test_weights_that_no_pair_can_balance_are_an_error():
    with pytest.raises(ValueError, match="cannot balance"):
        circulation(np.array([1]), np.array([1.0]), np.array([0], np.int32), 3)
