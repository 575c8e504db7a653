"""The bound on the steps of accelerated PRGD: its parts, its closed form, and the rho that it asks for."""

import math

import numpy as np
import pytest
from prgd_paper.theory.schedule_bound import margin_error_bound, steps_bound, target_penalty
from prgd_paper.theory.support import max_margin_reference

from prgd.algorithms import AcceleratedPRGD
from prgd.algorithms.accelerated_prgd import entropy_bound
from prgd.algorithms.base import states
from prgd.datasets import digits
from prgd.problem import Problem


def constant(rho):
    """The factor of sqrt(L_s / lam_eps) in the bound."""
    return rho * math.log(4.0 * rho - 2.0) / (math.sqrt(rho) - 1.0)


@pytest.mark.parametrize("eps", [1.0, 0.3, 1e-2, 1e-6])
def test_the_penalty_that_is_needed(eps):
    lam = target_penalty(eps, 0.2, 3.0)
    assert margin_error_bound(lam, 0.2, 3.0) == pytest.approx(eps)
    assert margin_error_bound(1.0, 0.2, 3.0) == 1.0


def test_the_margin_is_bounded_at_random_w():
    """gamma(w)^2 >= gamma_star^2 - 4 lam log n wherever F_lam is within log n of its minimum."""
    rng, tightest = np.random.default_rng(0), math.inf
    Z = rng.standard_normal((20, 3)) + 2.0 * np.eye(3)[0]
    Z *= np.sign(Z[:, :1])
    reference, log_n = max_margin_reference(Z), math.log(20.0)
    for _ in range(3000):
        lam = reference.gamma_star**2 / log_n * 10.0 ** rng.uniform(-4.0, 0.0)
        w = reference.w_star * reference.gamma_star / lam * rng.uniform(0.2, 2.0)
        w = w + rng.standard_normal(3) * np.linalg.norm(w) * 10.0 ** rng.uniform(-4.0, 0.0)
        least = log_n - reference.gamma_star**2 / (2.0 * lam)  # at least the minimum
        if np.logaddexp.reduce(-Z @ w) + 0.5 * lam * w @ w <= least + log_n:
            gamma = (Z @ w).min() / np.linalg.norm(w)
            assert gamma**2 >= reference.gamma_star**2 - 4.0 * lam * log_n
            tightest = min(tightest, (reference.gamma_star**2 - gamma**2) / (4.0 * lam * log_n))
    assert tightest < 1.0


@pytest.mark.parametrize("rho", [1.2, 2.0, 5.0])
@pytest.mark.parametrize("eps", [0.5, 1e-2, 1e-5])
def test_the_closed_form(rho, eps):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        gamma_star, log_n = 10.0 ** rng.uniform(-4.0, 0.0), rng.uniform(math.log(2.0), 15.0)
        first, L_s = rng.uniform(gamma_star, 1.0), rng.uniform(0.0, 1.0)
        lam = first**2 / ((4.0 * rho - 2.0) * log_n)
        needed = target_penalty(eps, gamma_star, log_n)
        phases = 1 + max(math.ceil(math.log(lam / needed, rho)), 0)
        closed = constant(rho) * math.sqrt(L_s / needed) + phases * (math.log(4.0 * rho - 2.0) + 1.0)
        assert steps_bound(eps, gamma_star, lam=lam, L_s=L_s, log_n=log_n, rho=rho) <= closed


def test_the_default_rho_is_the_best_to_one_part_in_a_thousand():
    grid = np.linspace(1.1, 10.0, 2000)
    assert constant(AcceleratedPRGD().rho) < 1.001 * min(map(constant, grid))
    assert constant(2.0) * math.sqrt(2.0) == pytest.approx(12.24, abs=0.01)


def test_a_run_within_its_bound():
    problem, algorithm = Problem(*digits(0, 4, 12)), AcceleratedPRGD()
    walk = states(problem, algorithm)
    s = next(walk)
    gamma_star = max_margin_reference(digits(0, 4, 12)).gamma_star
    known = {"lam": s.lam, "L_s": s.L_s, "log_n": entropy_bound(s.at), "rho": algorithm.rho}
    for eps in (1e-1, 1e-2, 1e-3):
        s = next(s for s in walk if s.at.gamma >= (1.0 - eps) * gamma_star)
        assert s.t <= steps_bound(eps, gamma_star, **known)
