"""The parts of the solver by hand: working set, Gram matrix, pairwise descent, polish."""

import numpy as np
import pytest
import scipy.sparse as sp

from prgd.problem import Problem
from prgd.rows import DenseRows, SparseRows
from prgd.solvers.active_set import polish_weights
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


@pytest.mark.kernels
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_gram_of_sparse_rows_is_the_same_with_any_threads(share, threads):
    rng = np.random.default_rng(12)
    A = rng.standard_normal((60, 200)) * (rng.random((60, 200)) < 0.05)
    A[:, :20] = rng.standard_normal((60, 20)) * (rng.random((60, 20)) < share)  # columns for BLAS
    working = WorkingSet(Problem(SparseRows(sp.csr_array(A))), threads)
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


def test_polish_solves_a_face_exactly_and_drops_what_blocks():
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((6, 40)) + 0.5
    Z = np.vstack([Z, Z[0]])  # a repeated row: the weights are not unique
    working = WorkingSet(Problem(DenseRows(Z)))
    working.add(np.arange(7))
    p = polish_weights(working, np.full(7, 1 / 7))
    g = working.G @ p
    assert p.min() >= 0.0
    assert p.sum() == pytest.approx(1.0)
    assert np.ptp(g[p > 0]) <= 1e-9 * (p @ g)


def test_polish_keeps_what_there_is_where_nothing_can_be_factored():
    working = WorkingSet(Problem(DenseRows(np.eye(2))))
    working.add(np.arange(2))
    working._buffer, working._known = -np.eye(2) * 10, 2
    p = np.array([0.25, 0.75])
    np.testing.assert_array_equal(polish_weights(working, p), p)
