"""Soft and joint margins far from the origin and of mixed sizes, and solves whose time is spent."""

import numpy as np
import pytest
from adversarial.soft_joint import try_soft_joint

import prgd
from prgd.maxmargin import exactly

FAR = np.array([[-0.0002], [-5e7], [1.0]])  # Rounding of margins exceeds the intercepts.


def mixed_rows(n=200, d=24, K=2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X * 10.0 ** rng.uniform(-8, 8, (n, 1)), np.argmax(X @ rng.standard_normal((d, K)), axis=1)


@pytest.mark.parametrize("norm", ["l2", "l1", "linf", "spectral", "nuclear"])
def test_check_confirms_a_joint_result_at_its_best_intercepts(norm):
    result = prgd.max_margin(FAR, [0, 1, 2], multi_class="joint", norm=norm)
    assert result.status.name == "CERTIFIED"
    assert result.check(FAR, [0, 1, 2]).is_valid


@pytest.mark.parametrize("index", range(40))
def test_soft_and_joint_margins_of_mixed_sizes(index):
    _, status, failures = try_soft_joint(np.random.default_rng([8, index]), index)
    assert not [failure for failure in failures if failure[0] != "beyond the budget"]
    assert status in ("CERTIFIED", "NOT_SEPARABLE", "QUASI_SEPARABLE")


@pytest.mark.parametrize("seconds", [1e-9, 0.05])
@pytest.mark.parametrize("norm", ["soft", "l2", "l1", "lp:3", "joint l2", "joint spectral"])
def test_the_interval_holds_when_the_seconds_are_spent(norm, seconds):
    X, y = mixed_rows(K=3 if "joint" in norm else 2)
    options = {"C": 1.0} if norm == "soft" else {"norm": norm.removeprefix("joint ")}
    options |= {"multi_class": "joint"} if "joint" in norm else {}
    solve = prgd.soft_margin if norm == "soft" else prgd.max_margin
    result = solve(X, y, max_seconds=seconds, **options)
    assert result.status.name == "MAX_SECONDS" or seconds > 1e-9
    assert result.upper_bound < np.inf
    assert result.check(X, y).is_valid


def test_a_batch_ends_when_the_seconds_are_spent():
    X, y = mixed_rows()
    batch = prgd.max_margin_batch(X, 2 * np.eye(2, dtype=int)[y] - 1, max_seconds=1e-9)
    assert {result.status.name for result in batch} == {"MAX_SECONDS"}


def test_exact_arithmetic_has_a_budget_by_default(monkeypatch):
    monkeypatch.setattr(exactly, "_SECONDS", 0.0)
    monkeypatch.setattr(exactly, "_SECONDS_PER_ENTRY", 1e-9)
    X, y = mixed_rows()
    assert prgd.max_margin(X, y).status.name == "STALLED"


def test_a_limit_on_seconds_must_be_positive():
    with pytest.raises(ValueError, match="max_seconds must be a finite number above 0; got 0"):
        prgd.max_margin([[1.0], [2.0]], [0, 1], max_seconds=0)
