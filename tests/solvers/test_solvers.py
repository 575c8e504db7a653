"""The parts of the solver by hand: working set, Gram matrix, pairwise descent, pivots."""

import numpy as np
import pytest
import scipy.sparse as sp
from small_problems import flipped, planted

from prgd.problem import Problem
from prgd.rows import DenseRows, SparseRows
from prgd.solvers.active_set import DualActiveSet, heaviest_weights, pivot_weights
from prgd.solvers.working_set import WorkingSet, descend


@pytest.mark.parametrize("order", ["C", "F", "strided", "float32"])
def test_few_rows_are_taken_as_they_lie(order):
    rng = np.random.default_rng(14)  # square: rows and columns are not told apart by their number
    X, y = rng.standard_normal((20, 20)), np.where(rng.random(20) < 0.5, 1, -1)
    lying = {
        "C": np.ascontiguousarray(X),
        "F": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "float32": X.astype(np.float32),
    }[order]
    working = WorkingSet.of(Problem(DenseRows(lying, y), fit_intercept=True))
    Z = lying * y[:, None].astype(float)
    p, w = np.arange(20.0), np.arange(1.0, 21.0)
    np.testing.assert_allclose(working.G, Z @ Z.T, atol=1e-12)
    np.testing.assert_allclose(working.combine(p), Z.T @ p, rtol=1e-12)
    np.testing.assert_allclose(working.margins(w), Z @ w, rtol=1e-12)
    np.testing.assert_allclose(working.rows_of(np.array([1, 4])), Z[[1, 4]])
    assert working.is_low_dimensional
    np.testing.assert_array_equal(working.group, y < 0)


def test_the_gram_matrix_of_sparse_rows_grows_and_shrinks():
    rng = np.random.default_rng(12)
    A = rng.standard_normal((60, 200)) * (rng.random((60, 200)) < 0.05)
    working = WorkingSet(Problem(SparseRows(sp.csr_array(A))))
    for stop in (20, 23, 60):  # many rows, few, and more than there is room for
        working.add(np.arange(working.size, stop))
        np.testing.assert_allclose(working.G, A[:stop] @ A[:stop].T, atol=1e-13)
    assert sp.issparse(working.Z)
    mask = np.arange(60) % 2 == 0
    working.keep(mask)
    np.testing.assert_allclose(working.G, A[mask] @ A[mask].T, atol=1e-12)
    p = rng.random(30)
    np.testing.assert_allclose(working.combine(p), A[mask].T @ p, atol=1e-12)
    np.testing.assert_allclose(working.rows_of(np.array([1, 3])), A[[2, 6]])


@pytest.mark.kernels
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_dual_active_set_goes_on_as_rows_join(fit_intercept):
    X, y = planted(300, 12, seed=8)
    problem = Problem(X, y, fit_intercept=fit_intercept)
    working = WorkingSet.of(problem, np.arange(50))
    narrow = DualActiveSet(working)
    for stop in (50, 51, 120, 300):
        working.add(np.arange(working.size, stop))
        p = narrow.weights(working, 1e-9)
        u, y_first = working.combine(p), y[:stop]
        margins = working.margins(u)
        lowest = [margins[y_first == s].min() for s in (1, -1)] if fit_intercept else [margins.min()]
        assert sum(lowest) == pytest.approx(u @ u, rel=1e-6)  # equal bounds from both sides
    mirrored = WorkingSet.of(Problem(np.vstack([X, -X]), np.hstack([y, y])))
    narrow = DualActiveSet(mirrored)
    p = narrow.weights(mirrored, 1e-9)
    assert narrow.balances
    np.testing.assert_allclose(mirrored.combine(p), 0.0, atol=1e-12)


@pytest.mark.kernels
def test_pairwise_descent_on_a_segment():
    # the hull of (1, 0) and (0, 1): the shortest point is the middle
    G, group = np.eye(2), np.zeros(2, np.int64)
    p, g = np.array([1.0, 0.0]), np.array([1.0, 0.0])
    steps, violation = descend(G, group, p, g, 1e-12, 10)
    np.testing.assert_allclose(p, [0.5, 0.5])
    np.testing.assert_allclose(g, G @ p)
    assert (steps, violation) == (1, 0.0)


@pytest.mark.kernels
def test_pairwise_descent_keeps_sums_and_stops_at_the_limit():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((12, 3)) + 1.0
    group = np.repeat([0, 1], 6)
    p = np.zeros(12)
    p[[0, 6]] = 1.0
    g = Z @ (Z.T @ p)
    G = Z @ Z.T
    before = p @ g
    steps, violation = descend(G, group, p, g, 1e-15, 3)
    assert steps == 3
    assert violation > 1e-15
    assert p @ G @ p < before
    np.testing.assert_allclose([p[:6].sum(), p[6:].sum()], 1.0)


# Pivots on the face of the support, and weights that balance rows without a separator


def set_of(X, y, fit_intercept) -> WorkingSet:
    return WorkingSet.of(Problem(X, y, fit_intercept=fit_intercept, scale="none"))


def excess(working, p):
    """Return the margins less the mean margin of the weights in each group, relative to ``p^T G p``."""
    g = working.margins(working.combine(p))
    level = np.bincount(working.group, p * g, minlength=working.groups)
    return (g - level[working.group]) / (p @ g)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_pivots_end_at_the_optimum_from_a_guess(fit_intercept):
    working = set_of(*planted(80, 60), fit_intercept)
    p = DualActiveSet(working).weights(working, 1e-12)
    support = np.flatnonzero(p)
    rng = np.random.default_rng(1)
    guess = p.copy()
    guess[rng.choice(support, 3, replace=False)] = 0.0  # three support vectors are missing
    guess[rng.choice(np.flatnonzero(p == 0.0), 3, replace=False)] = 0.01  # and three others not
    found = pivot_weights(working, guess, 1e-9)
    assert found is not None
    np.testing.assert_allclose(found, p, atol=1e-7)
    np.testing.assert_allclose(np.bincount(working.group, found), 1.0)
    assert excess(working, found).min() >= -1e-9
    assert np.abs(excess(working, found)[found > 0.0]).max() <= 1e-9


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_pivots_give_up_where_nothing_separates_and_on_an_empty_class(fit_intercept):
    working = set_of(*flipped(200, 5, 20), fit_intercept)
    start = np.full(200, 1.0) / np.bincount(working.group)[working.group]
    assert pivot_weights(working, start, 1e-6) is None
    if fit_intercept:
        assert pivot_weights(working, np.where(working.group == 0, start, 0.0), 1e-6) is None


def test_the_heaviest_weights_keep_both_classes():
    working = set_of(*planted(40, 3), True)
    p = np.random.default_rng(0).random(40)
    kept = heaviest_weights(working, p / np.bincount(working.group, p)[working.group], 6)
    assert np.count_nonzero(kept) == 6
    np.testing.assert_allclose(np.bincount(working.group, kept), 1.0)
    np.testing.assert_array_equal(heaviest_weights(working, kept, 6), kept)
