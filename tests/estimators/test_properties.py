"""How the solution of `max_margin` must move when the data move, and that it is SVC's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group
from sklearn.svm import SVC

import prgd
from prgd import Status

TOL = 1e-10
# the direction is known to about the square root of the gap
SAME = {"rtol": 0.0, "atol": 5e-5}

problems = st.builds(
    lambda seed, n, d: problem(seed, n, d),
    seed=st.integers(0, 10**6),
    n=st.integers(8, 60),
    d=st.integers(2, 12),
)
intercepts = st.booleans()
seeds = st.integers(0, 10**6)
few = settings(max_examples=40)


def problem(seed, n, d, push=0.2):
    """Rows on both sides of a hyperplane through the origin, pushed away from it."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(d)
    w /= np.linalg.norm(w)
    y = np.where(np.arange(n) % 2 == 0, 1, -1)
    X = rng.standard_normal((n, d))
    X += (np.abs(X @ w) * y - X @ w)[:, None] * w
    return X + push * y[:, None] * w, y


def solved(X, y, fit_intercept):
    result = prgd.max_margin(X, y, fit_intercept=fit_intercept, tol=TOL)
    assert result.status is Status.CERTIFIED
    return result


def assert_same(a, b, scale=1.0, turn=None):
    """``b`` has ``scale`` times the margin of ``a``, and its direction turned by ``turn``."""
    assert b.margin == pytest.approx(scale * a.margin, rel=1e-8)
    direction = a.coef if turn is None else a.coef @ turn
    np.testing.assert_allclose(b.coef * b.margin, direction * a.margin, **SAME)
    assert b.intercept * b.margin / scale == pytest.approx(a.intercept * a.margin, abs=SAME["atol"] * 10)


@few
@given(problems, intercepts, seeds)
def test_rotation_turns_the_solution(data, fit_intercept, seed):
    X, y = data
    Q = ortho_group.rvs(X.shape[1], random_state=seed)
    assert_same(solved(X, y, fit_intercept), solved(X @ Q, y, fit_intercept), turn=Q)


@few
@given(problems, intercepts, st.floats(-30, 30))
def test_scaling_scales_the_margin(data, fit_intercept, exponent):
    X, y = data
    scale = 10.0**exponent
    a, b = solved(X, y, fit_intercept), solved(X * scale, y, fit_intercept)
    assert_same(a, b, scale=scale)
    np.testing.assert_allclose(b.coef * scale, a.coef, rtol=0, atol=1e-4 * np.linalg.norm(a.coef))


@few
@given(problems, intercepts, seeds)
def test_the_order_of_rows_and_columns_does_not_matter(data, fit_intercept, seed):
    X, y = data
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(y)), rng.permutation(X.shape[1])
    a, b = solved(X, y, fit_intercept), solved(X[rows][:, columns], y[rows], fit_intercept)
    assert_same(a, b, turn=np.eye(X.shape[1])[:, columns])
    np.testing.assert_allclose(b.dual_coef.toarray()[0].sum(), a.dual_coef.toarray()[0].sum())


@few
@given(problems, intercepts)
def test_the_other_labels_give_the_other_sign(data, fit_intercept):
    X, y = data
    a, b = solved(X, y, fit_intercept), solved(X, -y, fit_intercept)
    assert b.margin == pytest.approx(a.margin, rel=1e-8)
    np.testing.assert_allclose(b.coef * b.margin, -a.coef * a.margin, **SAME)
    assert b.intercept * b.margin == pytest.approx(-a.intercept * a.margin, abs=5e-4)


@few
@given(problems, st.floats(-100, 100))
def test_a_shift_moves_only_the_intercept(data, shift):
    X, y = data
    a, b = solved(X, y, True), solved(X + shift, y, True)
    assert b.margin == pytest.approx(a.margin, rel=1e-7)
    np.testing.assert_allclose(b.coef * b.margin, a.coef * a.margin, **SAME)
    moved = a.intercept - shift * a.coef.sum()
    assert b.intercept * b.margin == pytest.approx(moved * a.margin, abs=5e-4 * max(1.0, abs(shift)))


@few
@given(problems, intercepts, seeds)
def test_a_row_far_from_the_margin_changes_nothing(data, fit_intercept, seed):
    X, y = data
    a = solved(X, y, fit_intercept)
    rng = np.random.default_rng(seed)
    w = a.coef / np.linalg.norm(a.coef)
    label = rng.choice([-1, 1])
    along = 5.0 - a.intercept * a.margin * label  # a distance of 5 from the hyperplane, on its own side
    across = rng.standard_normal(X.shape[1])
    far = label * along * w + across - (across @ w) * w
    b = solved(np.vstack([X, far]), np.append(y, label), fit_intercept)
    assert_same(a, b)
    assert len(y) not in b.support


@few
@given(problems, intercepts, seeds)
def test_repeating_a_row_changes_nothing(data, fit_intercept, seed):
    X, y = data
    a = solved(X, y, fit_intercept)
    rng = np.random.default_rng(seed)
    again = np.concatenate([rng.choice(len(y), 3), rng.choice(a.support, 3)])
    b = solved(np.vstack([X, X[again]]), np.append(y, y[again]), fit_intercept)
    assert_same(a, b)


@few
@given(problems, intercepts)
def test_a_row_less_never_lowers_the_margin(data, fit_intercept):
    X, y = data
    a = solved(X, y, fit_intercept)
    b = solved(X[2:], y[2:], fit_intercept)
    assert b.upper_bound >= a.margin * (1 - 1e-12)


@few
@given(problems, intercepts)
@pytest.mark.filterwarnings("ignore::prgd.ZeroRowWarning")
def test_sparse_equals_dense(data, fit_intercept):
    X, y = data
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    dense = prgd.max_margin(X, y, fit_intercept=fit_intercept, tol=TOL)
    sparse = prgd.max_margin(sp.csr_array(X), y, fit_intercept=fit_intercept, tol=TOL)
    assert sparse.status is dense.status
    if dense.status is Status.CERTIFIED:
        assert_same(dense, sparse)


@pytest.mark.parametrize("seed", range(30))
def test_the_solution_with_an_intercept_is_that_of_svc(seed):
    rng = np.random.default_rng(seed)
    # LIBSVM keeps its kernel in float32, so that its direction errs by about 6e-8 (max ||x|| / margin)^2:
    # a wide margin and rows near the origin leave it the digits to compare
    X, y = problem(seed, int(rng.integers(20, 120)), int(rng.integers(2, 40)), push=1.0)
    X = X + 0.5 * rng.standard_normal(X.shape[1])
    svc = SVC(kernel="linear", C=1e10, tol=1e-8).fit(X, y)
    result = prgd.max_margin(X, y, tol=1e-12)
    length = np.linalg.norm(svc.coef_)
    found = result.coef / np.linalg.norm(result.coef)
    assert np.linalg.norm(found - svc.coef_[0] / length) <= 1e-5
    assert result.intercept == pytest.approx(svc.intercept_[0], abs=1e-4)
    assert result.margin >= (y * svc.decision_function(X)).min() / length - 1e-12
