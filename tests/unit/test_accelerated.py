"""Accelerated PRGD: its start, its phases, and what Theorem E13 says of them."""

import math

import numpy as np
import pytest
from prgd_paper.theory.entropies import minimise_soft_loss
from prgd_paper.theory.path_point import PathPoint
from prgd_paper.theory.schedule_bound import margin_error_bound
from prgd_paper.theory.support import max_margin_reference

import prgd
from prgd.algorithms import AcceleratedPRGD
from prgd.algorithms.accelerated_prgd import curvature_bound, entropy_bound, phase_steps, smallest_penalty
from prgd.algorithms.base import states

TWO = prgd.Problem(np.eye(2))  # rows (1, 0) and (0, 1): at w = 0, u = (1/2, 1/2)


def pairs(X, y, weights, fit_intercept):
    """Return rows whose LSE is k times that of the problem, and k: all z_i, or all x_i - x_j of classes."""
    copies = np.repeat(np.arange(len(y)), weights)  # weight 3 is three copies
    X, y = X[copies], y[copies]
    if not fit_intercept:
        return X * y[:, None], 1.0
    return (X[y > 0][:, None] - X[y < 0]).reshape(-1, X.shape[1]), 2.0


def excess_bound(Z, lam, w):
    """F(w) - min F, where F at Newton's minimiser less its duality gap stands for the minimum."""
    end = PathPoint(Z, minimise_soft_loss(Z, lam, w).astype(np.float64))
    return float(PathPoint(Z, w).objective(lam) - (end.objective(lam) - end.duality_gap(lam)))


def test_steps_by_hand():
    algorithm = AcceleratedPRGD(rho=2.0)
    s = algorithm.init(TWO, np.zeros(2))
    # The duality gap ||u||^2 / (2 lam) is 3 log 2 at lam, and rows are sqrt(1/2) away from their mean.
    lam, L_s = 0.5 / (6.0 * math.log(2.0)), 0.5
    assert (s.lam, s.L_s) == (pytest.approx(lam), pytest.approx(L_s))
    assert s.steps_left == math.ceil(math.sqrt(1.0 + L_s / lam) * math.log(6.0)) == 5
    x, q = 0.5 / (L_s + lam), math.sqrt(lam / (L_s + lam))
    s = algorithm.step(TWO, s)
    np.testing.assert_allclose([s.x, s.w], np.outer([x, x * (1.0 + (1.0 - q) / (1.0 + q))], [1.0, 1.0]))
    for _ in range(3):
        s = algorithm.step(TWO, s)
    assert (s.phase, s.steps_left) == (2, 1)
    end = s.w + (s.at.dual_vector - s.lam * s.w) / (L_s + lam)
    s = algorithm.step(TWO, s)
    np.testing.assert_allclose([s.w, s.x], [2.0 * end, 2.0 * end])
    assert (s.t, s.phase, s.lam) == (5, 3, pytest.approx(lam / 2.0))
    assert s.R_k == pytest.approx(2.0 * np.linalg.norm(end))
    assert s.steps_left == phase_steps(lam / 2.0, L_s, 2.0)


@pytest.mark.no_cover  # The other tests of phases run the same lines.
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rho", [1.3, 2.0, 8.0])
def test_phases_end_within_log_n_of_the_minimum(intercept, weighted, rho):
    data = prgd.datasets.digits(0, 4, 12)
    X, y = np.asarray(data.X), np.asarray(data.y)
    weights = np.arange(len(y)) % 3 if weighted else np.ones(len(y), int)  # some are 0
    problem = prgd.Problem(X, y, sample_weight=weights, fit_intercept=intercept)
    Z, k = pairs(X, y, weights, intercept)
    gamma_star = max_margin_reference(Z).gamma_star / k

    algorithm = AcceleratedPRGD(rho)
    s = algorithm.init(problem, np.zeros(problem.d))
    log_n = entropy_bound(s.at)
    for _ in range(1500):
        before, s = s, algorithm.step(problem, s)
        if s.phase > before.phase:
            assert -1e-9 <= excess_bound(Z, k * before.lam, s.w / rho) / k <= log_n
            assert 1.0 - s.at.gamma / gamma_star <= margin_error_bound(before.lam, gamma_star, log_n)
    assert s.phase > 4


def test_entropy_bound(intercept):
    X, y, q = np.arange(10.0).reshape(5, 2), np.array([1, 1, 1, -1, -1]), np.array([2.0, 4.0, 0.0, 3.0, 5.0])
    problem = prgd.Problem(X, y, sample_weight=q, fit_intercept=intercept)
    expected = 0.5 * (math.log(6.0 / 2.0) + math.log(8.0 / 2.0)) if intercept else math.log(14.0 / 2.0)
    assert entropy_bound(problem.at(np.zeros(2))) == pytest.approx(expected)
    assert entropy_bound(prgd.Problem([[1.0]]).at(np.zeros(1))) == math.log(2.0)


def test_curvature_bound(data, intercept):
    """It bounds the second derivative at random w, and an offset of both classes does not change it."""
    rng = np.random.default_rng(0)
    problem = prgd.Problem(data.X, data.y, fit_intercept=intercept)
    L_s = curvature_bound(problem.at(np.zeros(problem.d)))
    assert L_s <= problem.max_norm**2
    Z, groups = data.X * data.y[:, None], [data.y > 0, data.y < 0] if intercept else [data.y != 0]
    for _ in range(50):
        p = problem.dual_weights(rng.standard_normal(problem.d) * rng.uniform(0.0, 5.0))
        covariances = [np.cov(Z[group].T, aweights=p[group], bias=True) for group in groups]
        assert np.linalg.norm(np.mean(covariances, axis=0), 2) <= L_s
    if intercept:
        moved = prgd.Problem(data.X + 1e6, data.y, fit_intercept=True)
        assert curvature_bound(moved.at(np.zeros(problem.d))) == pytest.approx(L_s, rel=1e-6)


def test_the_first_penalty_is_the_smallest_with_that_gap(data):
    problem, rng = prgd.Problem(data.X, data.y), np.random.default_rng(1)
    for _ in range(20):
        at, excess = problem.at(rng.standard_normal(7) * rng.uniform(0.0, 1.0)), 3.0
        lam = smallest_penalty(at, excess)

        def gap(lam, at=at):
            return np.sum((at.dual_vector - lam * at.w) ** 2) / (2.0 * lam)

        if lam is None:
            assert all(gap(lam) > excess for lam in np.geomspace(1e-9, 1e9, 500))
        else:
            assert gap(lam) == pytest.approx(excess)
            assert gap(0.99 * lam) > excess


def test_a_start_on_the_path_is_continued(data):
    problem = prgd.Problem(data.X, data.y)
    first = prgd.run(problem, AcceleratedPRGD(), stop=1500)
    end = AcceleratedPRGD().init(problem, first.w)
    np.testing.assert_array_equal(end.w, first.w)
    assert end.lam < 10.0 * first.state["lam"]
    # a long w that points elsewhere is shortened
    astray = AcceleratedPRGD().init(problem, 1e6 * np.eye(problem.d)[0])
    assert astray.at.length == pytest.approx(1.5 * entropy_bound(astray.at) / problem.max_norm)


def test_it_stays_where_rounding_begins():
    """Equal rows have no curvature, so a phase is two steps, and the norm doubles until rounding ends it."""
    problem = prgd.Problem([[3.0, 4.0], [3.0, 4.0]])
    last = next(s for s in states(problem, AcceleratedPRGD()) if s.t == 400)
    assert 1e11 < last.at.length * problem.max_norm < 1e13
    assert last.at.gamma == pytest.approx(5.0, rel=1e-15)
    passes = problem.passes
    after = AcceleratedPRGD().step(problem, last)
    assert (after.at, after.t, problem.passes) == (last.at, 401, passes)


def test_no_separator():
    opposite = prgd.Problem([[1.0, 2.0], [1.0, 2.0]], [1, -1])
    assert prgd.run(opposite, AcceleratedPRGD(), stop=9).status is prgd.Status.NOT_SEPARABLE
    rng = np.random.default_rng(2)
    overlapping = prgd.Problem(rng.standard_normal((60, 3)), np.where(rng.random(60) < 0.5, -1, 1))
    result = prgd.run(overlapping, AcceleratedPRGD(), stop=300)
    assert result.certificate.lower < 0.0
    assert np.isfinite(result.w).all()
    thin = prgd.Problem([[1.0, 1e-155], [-1.0, 1e-155]])  # ||u||^2 is nearly 0 in floating point
    assert np.isfinite(prgd.run(thin, AcceleratedPRGD(), stop=9).w).all()
