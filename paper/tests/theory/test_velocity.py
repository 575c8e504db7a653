"""The centripetal velocity, by hand, on many points at once, on a grid, and the toy's attractor."""

import math

import numpy as np
import pytest
from prgd_paper.theory import velocity

import prgd
from prgd import datasets


def test_decompose_by_hand():
    along, off = velocity.decompose([3.0, 4.0, 5.0], [0.0, 0.6, 0.8])
    assert along == pytest.approx(6.4)
    np.testing.assert_allclose(off, [3.0, 4.0 - 3.84, 5.0 - 5.12])
    many_along, many_off = velocity.decompose([[3.0, 4.0, 5.0]] * 2, [0.0, 0.6, 0.8])
    np.testing.assert_allclose(many_along, [along, along])
    np.testing.assert_allclose(many_off, [off, off])


def test_decompose_leaves_nothing_along_far_out():
    w_star = np.full(7, 1.0) / math.sqrt(7.0)
    w = 1e12 * w_star + np.eye(7)[0] - w_star / math.sqrt(7.0)
    _, off = velocity.decompose(w, w_star)
    assert abs(off @ w_star) <= 1e-15 * np.linalg.norm(off)


@pytest.mark.parametrize("angle", [1e-12, 1e-8, 1e-3, 1.0, 3.0])
def test_direction_error_keeps_small_angles(angle):
    w = 7.0 * np.array([math.cos(angle), math.sin(angle)])
    assert velocity.direction_error(w, [1.0, 0.0]) == pytest.approx(2.0 * math.sin(angle / 2.0), rel=1e-12)
    assert velocity.direction_error([w, w], [1.0, 0.0]).shape == (2,)


@pytest.mark.parametrize("gamma_star", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("w_2", [-3.0, 0.2, 1.0, 30.0])
def test_velocity_on_the_toy_by_hand(gamma_star, w_2):
    # Step II of Appendix A.1: the second entry of -grad L / L
    s = math.sqrt(1.0 - gamma_star**2)
    e = math.exp(2.0 * s * w_2)
    expected = -math.copysign(1.0, w_2) * s * (2.0 - e) / (2.0 + e)
    data = datasets.toy(gamma_star)
    problem = prgd.Problem(data.X, data.y)
    w = np.array([4.0, w_2])
    assert velocity.centripetal_velocity(problem, w, data.w_star) == pytest.approx(expected, rel=1e-12)
    assert velocity.centripetal_velocities(data, w, data.w_star)[0] == pytest.approx(expected, rel=1e-12)


def test_velocity_is_not_defined_on_the_ray():
    data = datasets.toy(0.3)
    with pytest.raises(ValueError, match="not defined on the max-margin ray"):
        velocity.centripetal_velocity(prgd.Problem(data.X, data.y), np.array([5.0, 0.0]), data.w_star)
    assert math.isnan(velocity.centripetal_velocities(data, [[5.0, 0.0]], data.w_star)[0])


def test_field_is_what_the_points_say():
    data = datasets.toy(0.6)
    x, y = np.linspace(-1.0, 5.0, 7), np.linspace(-2.0, 2.0, 5)
    field = velocity.velocity_field(data, data.w_star, x, y)
    assert field.direction.shape == (5, 7, 2)
    np.testing.assert_allclose(np.linalg.norm(field.direction, axis=2), 1.0)
    w = np.array([x[6], y[1]])
    assert field.velocity[1, 6] == pytest.approx(velocity.centripetal_velocities(data, w, data.w_star)[0])
    gradient = prgd.Problem(data.X, data.y).at(w).normalized_gradient
    np.testing.assert_allclose(field.direction[1, 6], -gradient / np.linalg.norm(gradient))
    assert np.isnan(field.velocity[2]).all()  # y = 0 is the ray


@pytest.mark.parametrize("gamma_star", [0.05, 0.3, 0.69, 0.7, 0.95])
def test_attractor_keeps_ngd(gamma_star):
    data, zone = datasets.toy(gamma_star), velocity.toy_attractor(gamma_star)
    on_the_line = velocity.centripetal_velocities(data, [3.0, zone.line], data.w_star)[0]
    assert on_the_line == pytest.approx(0.0, abs=1e-12)
    problem = prgd.Problem(data.X, data.y, scale="none")
    result = prgd.run(problem, prgd.NGD(), stop=1)
    assert bool(zone.lower <= result.w[1] <= zone.upper) is zone.reached_at_once
    assert zone.reached_at_once is (gamma_star <= math.sqrt(1.0 - 0.75 * math.log(2.0)))
    result = prgd.run(problem, prgd.NGD(), resume=result, stop=200)
    for t in range(201, 210):
        result = prgd.run(problem, prgd.NGD(), resume=result, stop=t)
        assert zone.lower <= result.w[1] <= zone.upper
