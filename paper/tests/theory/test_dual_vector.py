"""Statements E1 and E2 about the dual vector of NGD, and what would refute them."""

import math
from itertools import islice

import numpy as np
import pytest
from prgd_paper.theory.claims.dual_vector import measure
from prgd_paper.theory.dual_vector import diameter, divergence, dual_run, largest_step, linear_rate
from prgd_paper.theory.samples import path_problem

import prgd
from prgd.algorithms.base import states

TOY = prgd.datasets.toy(0.3)


def test_steps_beyond_the_bound_are_noticed():
    problem = prgd.Problem(*TOY, scale="none")
    p = np.array([0.25, 0.5, 0.25])
    good = dual_run(problem, p, largest_step(TOY.X * TOY.y[:, None]), 50)
    assert not good.worst.is_violated
    assert good.growth <= 0.0
    assert dual_run(problem, p, 40.0, 50).growth > 0.0  # far too long steps let the norm grow


def test_every_p_of_the_simplex_gives_a_bound():
    rng, problem = np.random.default_rng(0), prgd.Problem(*prgd.datasets.synthetic_one(0, 20), scale="none")
    for _ in range(10):
        assert not dual_run(problem, rng.dirichlet(np.ones(20)), 1.0, 60).worst.is_violated


@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize("mode", ["l2", "l2 with an intercept", "l_1.5"])
def test_e1_holds_on_each_kind_of_problem(mode, seed):
    found = measure(seed, mode, steps=60, max_size=20)
    assert found is None or not (found.worst.is_violated or found.growth > 0.0)


def test_the_rate_of_the_toy_set_is_that_of_its_error():
    Z = TOY.X * TOY.y[:, None]
    c = linear_rate(Z, TOY.w_star, np.arange(3), 1.0)
    problem = prgd.Problem(Z, scale="none")
    target = TOY.gamma_star * TOY.w_star
    errors = [np.linalg.norm(s.at.dual_vector - target) for s in islice(states(problem, prgd.NGD()), 6, 10)]
    np.testing.assert_allclose(np.diff(np.log(errors)), -c, rtol=1e-3)


def test_rows_near_the_margin_limit_the_rate():
    Z = np.array([[1.0, 1.0], [1.0, -1.0], [1.0 + 1e-3, 0.5]])
    assert linear_rate(Z, np.array([1.0, 0.0]), np.array([0, 1]), 0.5) == pytest.approx(0.5e-3)


def test_diameter_and_divergence_by_class():
    drawn = path_problem(0, 30)
    pairs = np.linalg.norm(drawn.Z[:, None] - drawn.Z[None], axis=2)
    same = drawn.signs[:, None] == drawn.signs[None]
    assert diameter(drawn.Z) == pytest.approx(pairs.max())
    assert diameter(drawn.Z, groups=drawn.signs) == pytest.approx(pairs[same].max())
    assert divergence(np.array([0.5, 0.0, 0.5]), [1, 1, 0]) == pytest.approx(0.5 * math.log(2.0))
