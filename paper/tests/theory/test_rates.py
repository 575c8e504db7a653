"""fit_rate on synthetic curves: clean, noisy, with plateaus, with few points."""

import math

import numpy as np
import pytest
from prgd_paper.theory.rates import fit_rate

EVERY = np.arange(2, 3000)
SPREAD = np.unique(np.geomspace(2, 1e6, 400).astype(int))


def noisy(t, error, noise, seed=0):
    return error * np.exp(noise * np.random.default_rng(seed).standard_normal(t.size))


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.05])
@pytest.mark.parametrize(
    ("rate", "constant", "curve"),
    [
        ("1/log t", 2.0, lambda t: 2.0 / (np.log(t) + 1.0)),
        ("1/log t", 0.1, lambda t: 0.1 / (np.log(t) - 0.3)),
        ("t^-a", 0.5, lambda t: 7.0 * t**-0.5),
        ("t^-a", 2.0, lambda t: t**-2.0),
        ("e^-ct", 1e-3, lambda t: np.exp(-1e-3 * t)),
    ],
)
def test_chooses_the_model(rate, constant, curve, noise):
    t = SPREAD if rate != "e^-ct" else EVERY
    t = t.astype(float)
    found = fit_rate(t, noisy(t, curve(t), noise))
    assert found.rate == rate
    assert found.constant == pytest.approx(constant, rel=0.05 if noise else 1e-3)
    low, high = found.interval
    assert low <= found.constant <= high
    assert rate in str(found)


def test_coverage_of_the_interval():
    t = SPREAD.astype(float)
    inside = 0
    for seed in range(40):
        low, high = fit_rate(t, noisy(t, t**-1.0, 0.2, seed)).interval
        inside += low <= 1.0 <= high
        assert high - low < 0.05
    assert inside >= 34  # 38 expected; 33 or fewer has probability below 2 %


ROUNDING = 1e-16 * np.random.default_rng(1).standard_normal(EVERY.size)  # zeros and negative ones included


@pytest.mark.parametrize(
    ("error", "c"),
    [(np.exp(-0.02 * EVERY) + ROUNDING, 0.02), (np.where(EVERY < 1000, np.exp(-0.03 * EVERY), 0.0), 0.03)],
)
def test_a_plateau_of_rounding_or_of_zeros_is_left_out(error, c):
    found = fit_rate(EVERY, error)
    assert found.rate == "e^-ct"
    assert found.constant == pytest.approx(c, rel=1e-3)
    assert found.window[1] < max(math.log(1e16) / c, 1000.0)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (np.full(EVERY.size, 0.1), "explains 0%"),
        (noisy(EVERY, np.full(EVERY.size, 0.1), 0.3), "explains"),
        (EVERY**0.3, "may be 0"),
        (1.0 / EVERY + 0.01, "only"),
    ],
)
def test_undecided(error, reason):
    found = fit_rate(EVERY, error)
    assert found.rate == "undecided"
    assert math.isnan(found.constant)
    assert reason in found.reason
    assert reason in str(found)


def test_a_window_too_short_to_tell():
    t = np.arange(1e5, 1e5 + 20)
    assert fit_rate(t, 1.0 / t, (1e5, 2e5)).rate == "undecided"


@pytest.mark.parametrize("n", [0, 1, 3, 7])
def test_too_few_points(n):
    t = np.arange(2.0, 2.0 + n)
    found = fit_rate(t, 1.0 / t, (0, 1000))
    assert found.rate == "undecided"
    assert "too few" in found.reason
    assert fit_rate(t, 1.0 / t).rate == "undecided"


def test_no_positive_error_is_too_few():
    assert fit_rate(EVERY, -1.0 / EVERY).n == 0


def test_window_is_used_and_stated():
    t = EVERY.astype(float)
    error = np.where(t < 500, np.exp(-0.01 * t), np.exp(-5.0) * (500 / t) ** 2)
    assert fit_rate(t, error, (2, 499)).rate == "e^-ct"
    late = fit_rate(t, error, (500, 3000))
    assert (late.rate, late.window) == ("t^-a", (500.0, 2999.0))
