"""Coordinate descent on sparse rows: kernels against plain NumPy, and weights against the working set."""

import numpy as np
import pytest
import scipy.sparse as sp

import prgd
from prgd.problem import Problem
from prgd.rows import SparseRows
from prgd.running.history import Status
from prgd.solvers.coordinate_descent import CoordinateDescent, row_weights, suits

pytestmark = pytest.mark.filterwarnings("ignore::prgd.core.errors.ZeroRowWarning")


def text(seed, n=300, d=900, words=12):
    """Return rows of a few words each, drawn by Zipf's law: separable, since columns are many."""
    rng = np.random.default_rng(seed)
    common = 1.0 / np.arange(3, d + 3)
    columns = rng.choice(d, (n, words), p=common / common.sum())
    values = rng.uniform(0.2, 1.0, n * words)
    X = sp.csr_array((values, (np.repeat(np.arange(n), words), columns.ravel())), shape=(n, d))
    return X, np.where(X @ rng.standard_normal(d) > 0.0, 1.0, -1.0)


def descent_of(X, y, fit_intercept, C=np.inf, **options):
    problem = Problem(SparseRows(X, y, **options), fit_intercept=fit_intercept, scale="none")
    return CoordinateDescent(problem, *problem.rows.csr_arrays, C)


def plain_sweep(Z, y, diagonal, a, rows, b, penalty, C):
    """Take the steps of a sweep in NumPy, in this order of the rows."""
    a, w, balance = a.copy(), Z.T @ a, float(y @ a)
    for i in rows:
        slope = Z[i] @ w + y[i] * (b + penalty * balance) + a[i] / (2.0 * C) - 1.0
        change = max(a[i] - slope / diagonal[i], 0.0) - a[i]
        a[i] += change
        w, balance = w + change * Z[i], balance + change * y[i]
    return a, w, b + penalty * balance


@pytest.mark.kernels
@pytest.mark.parametrize(("dtype", "C"), [(np.float32, np.inf), (np.float64, np.inf), (np.float64, 2.0)])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_sweep_takes_the_steps_of_plain_numpy(fit_intercept, dtype, C):
    X, y = text(0, 40, 60, 6)
    X = X.astype(dtype)
    descent = descent_of(X, y, fit_intercept, C)
    Z = X.toarray().astype(np.float64) * y[:, None]
    for _ in range(3):
        before, b = descent.a.copy(), descent.state[0]
        descent.choose_rows(np.inf)  # no row is left out, so the array of rows keeps the order of the sweep
        descent.sweep(1, 1e-9, np.inf)
        a, w, b = plain_sweep(Z, y, descent.diagonal, before, descent.rows, b, descent.state[1], C)
        np.testing.assert_allclose(descent.a, a, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(descent.w, w, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(descent.state[0], b, rtol=1e-9, atol=1e-12)
        assert sorted(descent.rows) == list(range(40))


@pytest.mark.kernels
def test_a_sweep_leaves_out_rows_of_large_margin():
    descent = descent_of(sp.csr_array(np.diag([1.0, 4.0, 2.0])[[0, 0, 1, 2]]), None, False)
    descent.margins[:] = 0.0
    descent.w[:] = [9.0, 0.0, 0.5]
    descent.state[3] = 1.0  # the level: rows without weight leave if their margin exceeds 2
    descent.sweep(1, 1e-9, np.inf)
    assert descent.active == 2
    assert sorted(descent.rows[:2]) == [2, 3]
    np.testing.assert_allclose(descent.a, [0.0, 0.0, 1 / 16, 0.0])


@pytest.mark.kernels
@pytest.mark.parametrize("C", [np.inf, 2.0])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_conjugate_gradients_equalise_the_margins(fit_intercept, C):
    X, y = text(1, 30, 80, 8)
    descent = descent_of(X, y, fit_intercept, C)
    descent.a[:] = 1.0
    descent.solve_face(True, 1e-12)
    Z, sums = X.toarray() * y[:, None], y[:, None] * fit_intercept
    system = np.block([[Z @ Z.T + np.eye(30) / 2 / C, sums], [sums.T, np.full((1, 1), 1.0 - fit_intercept)]])
    exact, b = np.split(np.linalg.solve(system, np.append(np.ones(30), 0.0)), [30])
    if exact.min() > 0.0:
        np.testing.assert_allclose(descent.a, exact, rtol=1e-8)
        np.testing.assert_allclose(descent.state[0], b[0], atol=1e-8)
    assert descent.a.min() >= 0.0
    np.testing.assert_allclose(descent.w, Z.T @ descent.a, atol=1e-10)


@pytest.mark.kernels
def test_gathered_rows_are_the_rows():
    X, y = text(2, 20, 50, 5)
    found = descent_of(X, y, False)._gathered(np.array([3, 4, 19]))
    gathered = sp.csr_array((found[0], found[1].astype(int), found[2].astype(int)), shape=(3, 50))
    np.testing.assert_array_equal(gathered.toarray(), X.toarray()[[3, 4, 19]])


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("seed", "C"), [(0, np.inf), (1, np.inf), (2, 1e5), (3, 100.0), (4, 1.0), (5, 0.01)])
def test_bounds_agree_with_those_of_other_methods(seed, C, fit_intercept):
    X, y = text(10 + seed, 300 + 40 * seed)
    options = {"C": C, "fit_intercept": fit_intercept}
    result = prgd.soft_margin(X, y, **options)
    other = prgd.soft_margin(X, y, **options, w0=np.ones(X.shape[1]), tol=1e-9)
    assert len(result.history.rows) == 1  # coordinate descent alone
    assert result.status is other.status is Status.CERTIFIED
    assert result.check(X, y).is_valid
    assert result.margin <= other.upper_bound
    assert other.margin <= result.upper_bound
    if not fit_intercept:  # rows y_i x_i without labels
        plain = prgd.soft_margin(sp.csr_array(sp.diags_array(y) @ X), **options)
        assert abs(plain.margin - result.margin) <= 2e-6 * result.margin


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_weights_bound_the_margin_at_every_stage(fit_intercept):
    X, y = text(20)
    problem = Problem(SparseRows(X, y), fit_intercept=fit_intercept, scale="none")
    best = prgd.max_margin(X, y, fit_intercept=fit_intercept)
    for tol in (1e-1, 1e-3, 1e-5, 1e-7):
        found = row_weights(problem, tol, 1000)
        p = found.weights.dense(problem.n)
        groups = [y > 0, y < 0] if fit_intercept else [y != 0]
        np.testing.assert_allclose([p[group].sum() for group in groups], 1.0 / len(groups), rtol=1e-12)
        upper = np.linalg.norm(X.T @ (y * p))
        assert best.margin <= upper * (1 + 1e-12)
        margin = np.mean([(y * (X @ found.w))[group].min() for group in groups])
        assert margin >= (1.0 - tol) * upper * np.linalg.norm(found.w) * (1 - 1e-12)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("indices", [np.int32, np.int64])
def test_rows_of_weight_zero_do_not_count(indices, fit_intercept):
    X, y = text(30, 330)
    weight = np.ones(330)
    weight[::11] = 0.0
    flipped = np.where(weight > 0.0, y, -y)
    X = sp.csr_array((X.data, X.indices.astype(indices), X.indptr.astype(indices)), shape=X.shape)
    rows = SparseRows(X.astype(np.float32), flipped, weight)
    result = prgd.max_margin(rows, fit_intercept=fit_intercept)
    kept = np.flatnonzero(weight)
    other = prgd.max_margin(X.astype(np.float32)[kept], y[kept], fit_intercept=fit_intercept)
    assert result.status is other.status is Status.CERTIFIED
    assert not np.isin(result.support, np.flatnonzero(weight == 0.0)).any()
    assert abs(result.margin - other.margin) <= 2e-6 * other.margin


def test_repeated_and_empty_rows():
    X, y = text(40)
    doubled = sp.csr_array(sp.vstack([X, X[:100], sp.csr_array((3, X.shape[1]))]))
    labels = np.concatenate([y, y[:100], np.ones(3)])
    result = prgd.max_margin(doubled, labels)
    assert result.status is Status.CERTIFIED
    assert result.check(doubled, labels).is_valid
    through_origin = prgd.max_margin(doubled, labels, fit_intercept=False)
    assert through_origin.status in (Status.NOT_SEPARABLE, Status.QUASI_SEPARABLE)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", [pytest.param("QUASI_SEPARABLE", marks=pytest.mark.slow), "NOT_SEPARABLE"])
def test_text_without_a_separator_ends_with_a_proof(name, fit_intercept):
    X, y = text(60, 600, 120)
    if name == "QUASI_SEPARABLE":  # two contradictions
        X, y = text(61, 260, 500, 4)
        X, y = sp.csr_array(sp.vstack([X, X[:2]])), np.append(y, -y[:2])
    else:
        y[np.random.default_rng(62).choice(600, 200, replace=False)] *= -1.0
    result = prgd.max_margin(X, y, fit_intercept=fit_intercept)
    assert result.status is Status[name]
    assert result.upper_bound == 0.0
    assert result.check(X, y).is_valid


def test_passes_are_limited():
    X, y = text(70)
    result = prgd.max_margin(X, y, max_passes=5)
    assert result.status is Status.MAX_PASSES
    assert result.margin <= prgd.max_margin(X, y).upper_bound <= result.upper_bound * (1 + 1e-12)


@pytest.mark.parametrize(("d", "C", "is_found"), [(30, 100.0, False), (30, 0.01, True), (900, 100.0, True)])
def test_slow_sweeps_over_more_rows_than_columns_leave_the_problem_to_newton(d, C, is_found):
    X, y = text(80, d=d)
    y[:60] *= -1.0
    problem = Problem(SparseRows(X, y), scale="none")
    assert (row_weights(problem, 1e-6, 1000, C) is not None) is is_found


def test_which_rows_suit():
    X, y = text(90)
    assert suits(Problem(X, y))
    assert not suits(Problem(X.toarray(), y))
    assert not suits(Problem(X[:200], y[:200]))  # few rows
    assert not suits(Problem(X[:, 400:410], y, fit_intercept=True))  # few columns
    assert not suits(Problem(X[:, :20], y, fit_intercept=True))  # entries in most columns
    assert not suits(Problem(X * 1e60, y))
