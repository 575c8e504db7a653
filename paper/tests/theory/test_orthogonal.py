"""The loss beside the ray, its minimiser, where GD and NGD come to rest, and gradient flow in log t."""

import math

import numpy as np
import pytest
from prgd_paper.theory.orthogonal_dynamics import follow, gd_limit, orthogonal
from prgd_paper.theory.path import regularization_path
from prgd_paper.theory.sampled_runs import gradient_flow, iterates
from prgd_paper.theory.samples import random_nondegenerate
from prgd_paper.theory.support import signed_rows

import prgd
from prgd import datasets

SEEDS = range(15)


@pytest.mark.parametrize("gamma_star", [0.05, 0.3, 0.9])
def test_toy_in_closed_form(gamma_star):
    """v_star = log 2 / (2 s) e_2 and L_perp(v_star) = 2 sqrt(2) / 3."""
    found = orthogonal(datasets.toy(gamma_star))
    s = math.sqrt(1 - gamma_star**2)
    np.testing.assert_allclose(found.v_star, [0.0, math.log(2) / (2 * s)], atol=1e-14 / s)
    assert math.exp(found.log_loss_star) == pytest.approx(2 * math.sqrt(2) / 3, rel=1e-14)
    assert found.curvature == pytest.approx((s**2, s**2), rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_v_star_is_the_minimiser(seed):
    found = orthogonal(random_nondegenerate(seed))
    assert np.linalg.norm(found.gradient(found.v_star)) < 1e-14
    assert abs(found.v_star @ found.geometry.reference.w_star) < 1e-12 * (1 + np.linalg.norm(found.v_star))
    assert found.log_loss(found.v_star) == pytest.approx(found.log_loss_star, abs=1e-14)
    assert found.log_loss_star <= 0.0
    rng = np.random.default_rng(seed)
    for _ in range(20):
        step = found.geometry.basis @ rng.standard_normal(found.geometry.basis.shape[1])
        assert found.loss(found.v_star + step) > found.loss(found.v_star)


@pytest.mark.parametrize("seed", SEEDS)
def test_gd_limit_solves_its_equations(seed):
    data = random_nondegenerate(seed)
    eta = 0.7
    found, limit = orthogonal(data), gd_limit(data, eta)
    g = found.geometry
    weights = eta / g.n * np.exp(-(g.Z[g.is_support] @ limit.w_tilde))
    np.testing.assert_allclose(g.Z[g.is_support].T @ weights, limit.slope, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(limit.slope * g.reference.gamma_star, g.reference.w_star, atol=1e-14)
    off = limit.w_tilde - limit.along * g.reference.w_star
    np.testing.assert_allclose(off, found.v_star, atol=1e-10)


@pytest.mark.slow
def test_gd_and_ngd_and_the_path_come_to_the_same_point():
    data = random_nondegenerate(46)
    target = orthogonal(data)
    problem = prgd.Problem(data.X, data.y, scale="none")
    gd = follow(problem, prgd.GD(), target, [100, 1000, 10_000, 30_000])
    ngd = follow(problem, prgd.NGD(), target, [10, 100, 1000])
    assert (np.diff(gd.distance) < 0).all()
    assert gd.distance[-1] < 1e-3
    assert (np.diff(gd.gd_distance) < 0).all()
    assert gd.gd_distance[-1] < 0.02
    assert ngd.distance[-1] < 1e-8
    assert np.isnan(ngd.gd_distance).all()
    path = regularization_path(data, np.geomspace(1, 1e-8, 9))
    off = path.w[-1] - (path.w[-1] @ data.w_star) * data.w_star
    np.testing.assert_allclose(off, target.v_star, atol=1e-5)


@pytest.mark.slow
def test_what_theorem_c7_prints_diverges():
    """w(t) - w_star log t moves by (1 / gamma_star - 1) log 10 a decade along w_star."""
    data = datasets.toy(0.3)
    trace = follow(prgd.Problem(*data, scale="none"), prgd.GD(), orthogonal(data), [10_000, 100_000])
    printed = trace.along - np.log(trace.t)
    assert printed[1] - printed[0] == pytest.approx((1 / 0.3 - 1) * math.log(10), rel=1e-3)
    corrected = trace.along - np.log(trace.t) / 0.3
    assert abs(corrected[1] - corrected[0]) < 0.01


@pytest.mark.slow
def test_step_in_units_of_the_problem():
    """scale='max' divides eta by the largest row norm squared; the limit follows."""
    data = datasets.toy(0.3)
    problem = prgd.Problem(3.0 * data.X, data.y)
    trace = follow(problem, prgd.GD(), orthogonal((3.0 * data.X, data.y)), [30_000])
    assert trace.gd_distance[0] < 1e-2


def test_trace_columns():
    data = datasets.toy(0.6)
    trace = follow(prgd.Problem(*data), prgd.NGD(), orthogonal(data), [1, 5])
    np.testing.assert_allclose(np.hypot(trace.along, trace.off), np.linalg.norm(trace.w, axis=1))
    np.testing.assert_allclose(trace.along, 0.6 * trace.t)


def test_rank_one_data_have_nothing_beside_the_ray():
    found = orthogonal([[0.5, 0.0], [1.0, 0.0]])
    assert found.v_star.tolist() == [0.0, 0.0]
    assert found.log_loss_star == 0.0


def test_support_that_does_not_span():
    """v_star exists in the span of the support; GD's limit does not without it."""
    Z = [[0.3, 0.4, 0.0], [0.3, -0.2, 0.0], [0.6, 0.0, 0.5]]
    found = orthogonal(Z)
    assert found.v_star[2] == pytest.approx(0.0, abs=1e-15)
    trace = follow(prgd.Problem(Z), prgd.GD(), found, [5])
    assert np.isnan(trace.gd_distance).all()


@pytest.mark.parametrize("seed", [0, 6])
def test_the_flow_is_where_gd_is_as_early_as_it_may_be(seed):
    data = random_nondegenerate(seed)
    problem = prgd.Problem(data.X, data.y, scale="none", n_jobs=1)
    W = iterates(problem, prgd.GD(0.5), [1_000, 4_000])
    (w,) = gradient_flow(signed_rows(data), W[0], 1_000, [math.log(4_000)], eta=0.5)
    change = np.linalg.norm(W[1] - W[0])
    assert np.linalg.norm(w - W[1]) < 1e-3 * change


def test_the_flow_reaches_times_that_no_float_holds():
    """At log t = 1e6 the part of w beside the ray is v_star, on sets where GD is far from it at t = 1e100.

    The part along w_star grows like log(t) / gamma_star.
    """
    data = random_nondegenerate(3)  # P_perp(w) converges like t^-3e-5
    before, w = gradient_flow(signed_rows(data), np.zeros(data.X.shape[1]), 1.0, [9e5, 1e6])
    assert ((w - before) @ data.w_star) * data.gamma_star == pytest.approx(1e5, rel=1e-3)
    target = orthogonal(data)
    off = w - (w @ data.w_star) * data.w_star
    np.testing.assert_allclose(off, target.v_star, atol=1e-4)
