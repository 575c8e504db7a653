"""Gradient flow in log t follows GD."""

from __future__ import annotations

import math

import numpy as np
import pytest
from prgd_paper.theory.orthogonal_dynamics import orthogonal
from prgd_paper.theory.sampled_runs import gradient_flow, iterates
from prgd_paper.theory.samples import random_nondegenerate
from prgd_paper.theory.support import signed_rows

from prgd.algorithms import GD
from prgd.problem import Problem


@pytest.mark.parametrize("seed", [0, 6])
def test_the_flow_is_where_gd_is_as_early_as_it_may_be(seed):
    data = random_nondegenerate(seed)
    problem = Problem(data.X, data.y, scale="none", n_jobs=1)
    W = iterates(problem, GD(0.5), [1_000, 4_000])
    (w,) = gradient_flow(signed_rows(data), W[0], 1_000, [math.log(4_000)], eta=0.5)
    change = np.linalg.norm(W[1] - W[0])
    assert np.linalg.norm(w - W[1]) < 1e-3 * change


def test_far_out_the_slope_along_w_star_is_one_over_gamma_star():
    """<w(t), w_star> grows like log(t) / gamma_star, up to t = 1e100."""
    data = random_nondegenerate(17)
    far = (
        gradient_flow(signed_rows(data), np.zeros(data.X.shape[1]), 1.0, np.log([1e50, 1e100])) @ data.w_star
    )
    assert (far[1] - far[0]) * data.gamma_star == pytest.approx(50 * np.log(10.0), rel=1e-3)


def test_the_flow_reaches_times_that_no_float_holds():
    """At log t = 1e6 the part of w beside the ray is v_star, on sets where GD is far from it at t = 1e100."""
    data = random_nondegenerate(3)  # P_perp(w) converges like t^-3e-5
    w = gradient_flow(signed_rows(data), np.zeros(data.X.shape[1]), 1.0, [1e6])[0]
    target = orthogonal(data)
    off = w - (w @ data.w_star) * data.w_star
    np.testing.assert_allclose(off, target.v_star, atol=1e-4)
