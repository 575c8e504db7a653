"""Second directions, schedules and entropies on inputs that made them state something false."""

import math

import numpy as np
import pytest
from prgd_paper.theory.entropies import entropy_excess, log_sum_exp, renyi_entropy, softmax_weights
from prgd_paper.theory.path_point import PathPoint
from scipy.sparse import csr_array

import prgd
from prgd.algorithms import ProgressiveNewton
from prgd.problem.certificate import certify


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 1), ()])
def test_a_second_direction_has_the_shape_of_w(shape):
    with pytest.raises(ValueError, match="v must have shape"):
        prgd.Problem([[3.0, 4.0]]).at(np.zeros(2), np.ones(shape))


def test_a_second_direction_in_float32_is_measured_in_float64():
    rng = np.random.default_rng(0)
    for _ in range(40):
        v = rng.standard_normal(30).astype(np.float32)
        problem = prgd.Problem(np.outer([1.0, 2.0], v.astype(np.float64)))  # the margin of v is ||v||
        lower = certify(problem.at(np.zeros(30), v)).lower
        exact = sum(int(x * 2**60) ** 2 for x in v.astype(np.float64).tolist())
        assert int(lower * 2**60) ** 2 <= exact


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_rows_of_all_the_mass_count_beside_tiny_sample_weights(fit_intercept):
    # The first row of each class has the smallest margin and a weight of 1e-300; the other has all the mass.
    X = np.array([[1.0, 0.0], [61.0, 1.0], [-1.0, 0.0], [-61.0, 2.0]])
    y, weight = [1, 1, -1, -1], np.array([1e-300, 1.0, 1e-300, 1.0])
    for rows in (X, np.asfortranarray(X), csr_array(X)):
        problem = prgd.Problem(rows, y, sample_weight=weight, fit_intercept=fit_intercept)
        at = problem.at(np.array([1.0, 0.0]))
        assert math.isclose(at.log_loss, -61.0)
        assert np.allclose(at.dual_vector, [61.0, -0.5])


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 8])
def test_a_joint_run_resumed_at_any_step_counts_the_same_passes(steps):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((9, 2)), np.arange(9) % 3

    def run(**options):
        return prgd.run(prgd.Problem(X, y), prgd.NGD(), **options)

    whole, resumed = run(stop=9), run(stop=9, resume=run(stop=steps))
    assert resumed.passes == whole.passes
    assert (resumed.margin, resumed.upper_bound) == (whole.margin, whole.upper_bound)


@pytest.mark.parametrize("unit", [1e-145, 1e-100, 1e100, 1e145])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_newton_steps_do_not_depend_on_the_unit_of_the_rows(unit, fit_intercept):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(8) % 2, 1, -1)
    X = (rng.standard_normal((8, 3)) + 3.0 * y[:, None]) * unit
    problem = prgd.Problem(X, y, fit_intercept=fit_intercept)
    assert prgd.run(problem, ProgressiveNewton(), stop=40).gap < 1e-6


@pytest.mark.parametrize("first", [5.0, 1000.0])
def test_entropies_leave_out_rows_of_weight_zero(first):
    a, q, groups = np.array([first, 0.0, -1.0]), np.array([0.0, 1.0, 2.0]), np.zeros(3)
    assert softmax_weights(a, q)[0] == 0.0
    for f in (softmax_weights, log_sum_exp, renyi_entropy, entropy_excess):
        kept = f(a[1:], sample_weight=q[1:])
        assert np.array_equal(np.ravel(f(a, sample_weight=q))[-np.size(kept) :], np.ravel(kept))
    point = PathPoint(-a[:, None], np.ones(1), groups=groups, sample_weight=q)
    assert point.smallest_margin == 0.0


@pytest.mark.parametrize("order", [1.0 - 1e-12, 1.0 + 1e-15, 1.0 + 1e-9, 1.0 + 1e-5])
def test_entropies_of_orders_near_one_do_not_cancel(order):
    a, q = np.array([0.0, 1.0, 5.0]), np.array([1.0, 3.0, 1e-3])
    assert abs(renyi_entropy(a, order, q) - renyi_entropy(a, 1.0, q)) <= 10.0 * abs(order - 1.0) + 1e-14
