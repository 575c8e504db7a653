"""The rate of the dual vector of NGD, the weight of idle rows far below double precision, and real sets."""

import math
from itertools import islice

import mpmath
import numpy as np
import pytest
from prgd_paper.theory.dual_vector import diameter, divergence, largest_step, linear_rate
from prgd_paper.theory.entropies import classes_of
from prgd_paper.theory.gradient_checks import real_problem
from prgd_paper.theory.sampled_runs import states
from prgd_paper.theory.samples import path_problem

import prgd

TOY = prgd.datasets.toy(0.3)


def in_many_digits(problem, eta, steps):
    """Return ``||u_t - gamma_star w_star||`` of the last steps of NGD, in 60 digits."""
    Z, target = (
        mpmath.matrix(problem.Z.tolist()),
        mpmath.matrix((problem.gamma_star * problem.w_star).tolist()),
    )
    w, errors = mpmath.zeros(Z.cols, 1), []
    for _ in range(steps):
        mass = [mpmath.exp(-m) for m in Z * w]
        u = Z.T * mpmath.matrix(mass) / mpmath.fsum(mass)
        errors.append(mpmath.norm(u - target))
        w += eta * u
    return errors


@pytest.mark.slow
def test_the_rate_of_theorem_3_far_below_double_precision(monkeypatch):
    """An error of 1e-20 still falls at the rate that the solution predicts."""
    monkeypatch.setattr(mpmath.mp, "dps", 60)
    problem = path_problem(17, 12)
    eta = largest_step(problem.Z)
    c = linear_rate(problem.Z, problem.w_star, problem.carrying, eta)
    errors = in_many_digits(problem, eta, int(46.0 / c))
    assert errors[-1] < mpmath.mpf(10) ** -18
    assert float(mpmath.log(errors[-11] / errors[-1])) / 10.0 == pytest.approx(c, rel=0.01)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_idle_rows_weigh_what_theorem_13_says_at_1e_64(fit_intercept, monkeypatch):
    """Rows (1/2, 1, 0), (1/2, -1, 0), (1/2, 3/10, 1), b = e_3: the sum over idle rows is lam s (1 + o(1))."""
    monkeypatch.setattr(mpmath.mp, "dps", 60)
    ratios = []
    for lam in (mpmath.mpf(10) ** -32, mpmath.mpf(10) ** -64):
        # v = (x, y) is stationary on the margin rows. With an intercept the second class has the first two
        # alone, and each class the mass 1/2.
        def slope(x, y, lam=lam):
            m = [mpmath.exp(-v) for v in (x, -x, 0.3 * x + y)]
            p, q = [v / mpmath.fsum(m) for v in m], [v / (m[0] + m[1]) for v in m[:2]]
            half = mpmath.mpf(1) / 2 if fit_intercept else mpmath.mpf(1)
            other = (1 - half) * (q[0] - q[1])
            return [half * (p[0] - p[1] + mpmath.mpf("0.3") * p[2]) + other - lam * x, half * p[2] - lam * y]

        s = mpmath.log(1 / lam)
        _, y = mpmath.findroot(slope, (0, s - mpmath.log(s)), tol=1e-110)
        ratios.append(lam * y / (lam * s))  # the mass of the idle row, from the second equation
    assert 0.9 < ratios[0] < ratios[1] < 1


def test_real_sets_are_solved_to_rounding():
    for fit in (False, True):
        found = real_problem(prgd.datasets.digits(0, 1, 60), fit)
        margins = found.Z @ found.w_star
        on = [margins[mask] for mask in classes_of(len(margins), found.groups)]
        assert np.mean([part.min() for part in on]) == pytest.approx(found.gamma_star, rel=1e-13)
        assert sum((part < part.min() + 1e-12).sum() for part in on) == len(found.carrying)


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
