"""The certified cosine: what it says, and that exact solutions meet it."""

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from adversarial import oracle
from hypothesis import given
from hypothesis import strategies as st

import prgd
from prgd.proofs.slacks import soft_cosine

positive = st.floats(1e-300, 1e300)


@given(positive, positive)
def test_the_cosine_of_an_interval_lies_below_its_ratio(a, b):
    lower, upper = min(a, b), max(a, b)
    cosine = prgd.Certificate(lower, upper).cosine
    assert cosine == -1.0 or 0.0 < cosine < 1.0
    assert cosine < 0.0 or Fraction(cosine) <= Fraction(lower) / Fraction(upper)
    assert cosine > 0.0 or lower / upper < 1e-14


@given(positive, st.floats(1.0, 2.0), st.floats(1.0, 2.0))
def test_a_narrower_interval_has_a_larger_cosine(lower, ratio, more):
    narrow = prgd.Certificate(lower, lower * ratio)
    wide = prgd.Certificate(lower, lower * ratio * more)
    assert narrow.cosine >= wide.cosine
    assert narrow.cosine >= 1.0 - narrow.gap - 1e-14


@pytest.mark.parametrize(
    ("lower", "upper"), [(-1.0, 1.0), (0.0, 1.0), (-math.inf, 1.0), (1.0, math.inf), (-1.0, 0.0), (0.0, 0.0)]
)
def test_no_separator_no_cosine(lower, upper):
    """0 would be false: of the row 1, w = -1 has the margin -1, and the cosine -1 to w_star = 1."""
    certificate = prgd.Certificate(lower, upper, np.ones(2))
    assert certificate.cosine == -1.0
    assert soft_cosine(certificate) == -1.0


def test_a_wrong_start_has_no_cosine():
    result = prgd.run(prgd.Problem([[1.0], [-1.0]], [1, -1]), prgd.NGD(), w0=[-1.0], stop=0)
    assert result.margin == pytest.approx(-1.0)
    assert result.cosine == -1.0


def test_other_norms_have_no_cosine():
    result = prgd.max_margin([[0.0, 1.0], [2.0, 1.0], [5.0, -1.0]], [0, 0, 1])
    assert 0.999 < result.cosine < 1.0
    assert "cosine to the exact w: at least 1 - " in str(result)
    other = replace(result, norm="l1")
    assert other.cosine == -1.0
    assert other.cosine_in_words == "not known"
    assert "cosine" not in str(other)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("tol", [0.5, 1e-2, 1e-6])
@pytest.mark.parametrize("seed", range(4))
def test_rough_solutions_meet_their_cosine(seed, tol, fit_intercept):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 3))
    y = np.where(X @ [1.0, -1.0, 0.5] + (0.3 if fit_intercept else 0.0) > 0.0, 1, -1)
    exact = oracle.solve(X, y, fit_intercept=fit_intercept)
    assert exact.verdict == oracle.SEPARABLE
    problem = prgd.Problem(X, y, fit_intercept=fit_intercept)
    for result in (
        prgd.max_margin(X, y, fit_intercept=fit_intercept, tol=tol),
        prgd.run(problem, prgd.NGD(), stop=prgd.any_of(prgd.Gap(tol), 3000)),
    ):
        assert exact.is_cosine(result.cosine, result.coef)
        assert not exact.is_cosine(1.0, result.coef) or result.cosine > 1.0 - 1e-12


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("root", [0.25, 1.0, 8.0])  # of 2 C: its inverse extends the rows
@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-8])
@pytest.mark.parametrize("seed", range(3))
def test_soft_margins_meet_their_cosine(seed, tol, root, fit_intercept):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-8, 9, (9, 2)) / 4.0, np.array([1, -1] * 4 + [1])
    exact = oracle.solve(np.hstack([X, np.diag(y / root)]), y, fit_intercept=fit_intercept)
    result = prgd.soft_margin(X, y, C=0.5 * root**2, fit_intercept=fit_intercept, tol=tol)
    best = replace(exact, direction=exact.direction[:2])
    assert best.is_cosine(result.cosine, result.coef)
    assert result.cosine == -1.0 or 0.0 < result.cosine <= 1.0
    if tol == 1e-8 and any(best.direction):
        assert result.cosine > 0.999


def test_a_soft_margin_bounds_the_angle_of_w_itself():
    """The interval is about w and the slacks: where slacks are long, w may be far off in spite of it."""
    certificate = prgd.Certificate(0.999, 1.0, np.array([0.01, 0.0]))
    assert certificate.cosine > 0.99
    assert soft_cosine(certificate) == -1.0
    # A w of the whole length 1 / lower has no slacks: both bounds are the same.
    hard = prgd.Certificate(0.5, 0.8, np.array([2.0, 0.0]))
    assert soft_cosine(hard) == pytest.approx(hard.cosine)
    assert soft_cosine(hard) <= hard.cosine


def test_cosines_of_estimators():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = (X[:, 0] > 0.0).astype(int) + (X[:, 1] > 0.0) * (X[:, 0] > 0.0)
    two = prgd.MaxMarginClassifier(tol=1e-10).fit(X, y > 0)
    assert two.cosine_.shape == (1,)
    assert two.cosine_[0] == two.results_[0].cosine > 1.0 - 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", prgd.NotSeparableWarning)
        several = prgd.MaxMarginClassifier().fit(X, y)
    assert math.isfinite(several.C_)
    assert several.margin_.max() > 0.0 >= several.margin_.min()
    # Rows of coef_ are soft margins: the cosine is to the exact one of the same C, not to a hard margin.
    exact = prgd.soft_margin(X, y == 1, C=several.C_, tol=1e-12).coef
    along = several.coef_[1] @ exact / np.linalg.norm(exact) / np.linalg.norm(several.coef_[1])
    assert 0.999 < several.cosine_[1] <= along + 1e-12
    assert several.cosine_.tolist() == [result.cosine for result in several.results_]
    by_steps = prgd.PRGDClassifier(tol=0.1).fit(X, y > 0)
    assert 0.0 < by_steps.cosine_[0] < 1.0
