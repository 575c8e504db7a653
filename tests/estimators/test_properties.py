"""How the solution of `max_margin` must move when the data move, and that it is SVC's."""

from typing import NamedTuple

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
few = settings(max_examples=15)


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


class Moved(NamedTuple):
    """Data after a move: the margin is ``scale`` times as large, w is turned, and x becomes x + shift."""

    X: np.ndarray
    y: np.ndarray
    scale: float = 1.0
    turn: np.ndarray | float = 1.0
    shift: float = 0.0


def rotation(X, y, a, rng):
    Q = ortho_group.rvs(X.shape[1], random_state=rng)
    return Moved(X @ Q, y, turn=Q)


def scaling(X, y, a, rng):
    scale = 10.0 ** rng.uniform(-30, 30)
    return Moved(X * scale, y, scale)


def other_order(X, y, a, rng):
    rows, columns = rng.permutation(len(y)), rng.permutation(X.shape[1])
    return Moved(X[rows][:, columns], y[rows], turn=np.eye(X.shape[1])[:, columns])


def other_labels(X, y, a, rng):
    return Moved(X, -y, turn=-1.0)


def shift(X, y, a, rng):
    by = rng.uniform(-100, 100) * a.fit_intercept  # Without an intercept the solution depends on the origin.
    return Moved(X + by, y, shift=by)


def a_row_far_from_the_margin(X, y, a, rng):
    w, label = a.coef / np.linalg.norm(a.coef), rng.choice([-1, 1])
    along = 5.0 - a.intercept * a.margin * label  # a distance of 5 from the hyperplane, on its own side
    across = rng.standard_normal(X.shape[1])
    far = label * along * w + across - (across @ w) * w
    return Moved(np.vstack([X, far]), np.append(y, label))


def repeated_rows(X, y, a, rng):
    again = np.concatenate([rng.choice(len(y), 3), rng.choice(a.support, 3)])
    return Moved(np.vstack([X, X[again]]), np.append(y, y[again]))


MOVES = [rotation, scaling, other_order, other_labels, shift, a_row_far_from_the_margin, repeated_rows]


@pytest.mark.parametrize("move", MOVES)
@few
@given(problems, intercepts, seeds)
def test_the_solution_moves_with_the_data(move, data, fit_intercept, seed):
    X, y = data
    a = solved(X, y, fit_intercept)
    moved = move(X, y, a, np.random.default_rng(seed))
    b, sign = solved(moved.X, moved.y, fit_intercept), -1.0 if move is other_labels else 1.0
    assert b.margin == pytest.approx(moved.scale * a.margin, rel=1e-7 if moved.shift else 1e-8)
    direction = a.coef @ moved.turn if np.ndim(moved.turn) else a.coef * moved.turn
    np.testing.assert_allclose(b.coef * b.margin, direction * a.margin, **SAME)
    intercept = sign * (a.intercept - moved.shift * a.coef.sum()) * a.margin
    slack = 10 * SAME["atol"] * max(1.0, abs(moved.shift))
    assert b.intercept * b.margin / moved.scale == pytest.approx(intercept, abs=slack)
    assert move is not a_row_far_from_the_margin or len(y) not in b.support


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
        assert sparse.margin == pytest.approx(dense.margin, rel=1e-8)
        np.testing.assert_allclose(sparse.coef * sparse.margin, dense.coef * dense.margin, **SAME)


@pytest.mark.parametrize("seed", range(12))
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
