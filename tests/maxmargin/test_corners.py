"""Corners that used to be slow: overlapping classes, large supports, and weights of an interior point."""

import numpy as np
import pytest
from small_problems import flipped, planted

import prgd
from prgd import Status
from prgd.maxmargin import hard


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("columns", ["plain", "repeated", "constant", "units"])
def test_flipped_labels_are_proven_in_a_few_rounds(columns, fit_intercept):
    X, y = flipped(600, 40, 30)
    if columns == "repeated":
        X = np.hstack([X, X[:, :10], 2.0 * X[:, 3:5]])
    elif columns == "constant":
        X = np.hstack([X, np.ones((600, 1)), np.zeros((600, 2))])
    elif columns == "units":
        X = X * 10.0 ** np.linspace(-3, 3, 40)
    result = prgd.max_margin(X, y, fit_intercept=fit_intercept)
    assert result.status is Status.NOT_SEPARABLE
    assert result.upper_bound == 0.0
    assert len(result.history) <= 4
    assert result.check(X, y).is_valid


def test_overlap_needs_no_singular_values(monkeypatch):
    """Wolfe's method on the rows and corrections by singular values took seconds on 2000 x 200 rows."""
    for module, name in ((hard, "active_set_weights"), (np.linalg, "lstsq")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("the proof took the slow way"))
    for seed in range(3):
        X, y = flipped(500, 50, 25, seed)
        assert prgd.max_margin(X, y).status is Status.NOT_SEPARABLE


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("n", "d"), [(300, 100), (120, 200), (400, 12)])
def test_the_support_is_solved_by_pivots(monkeypatch, n, d, fit_intercept):
    X, y = planted(n, d, 0.1)
    result = prgd.max_margin(X, y, fit_intercept=fit_intercept)
    assert result.status is Status.CERTIFIED
    # Every row that carries weight has the smallest margin, to the accuracy of the gap.
    margins = y * (X @ result.coef + result.intercept) / np.linalg.norm(result.coef)
    assert (margins[result.support] <= result.upper_bound * (1.0 + 1e-4)).all()
    assert result.support.size <= d + 1
    monkeypatch.setattr(hard, "active_set_weights", lambda *_: pytest.fail("Wolfe's method was started"))
    if d >= 100:
        again = prgd.max_margin(X, y, fit_intercept=fit_intercept)
        assert again.support.tolist() == result.support.tolist()


def test_weights_of_repeated_rows_are_left_out_if_the_gap_allows_it():
    X, y = planted(150, 30, 0.1)
    single = prgd.max_margin(X, y)
    result = prgd.max_margin(np.vstack([X] * 3), np.tile(y, 3))
    assert result.status is Status.CERTIFIED
    assert set(result.support % 150) <= set(single.support)
    assert result.margin == pytest.approx(single.margin, rel=1e-6)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("tol", [1.0, 10.0, 1e300])
def test_a_loose_tolerance_certifies_no_overlap(tol, fit_intercept):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.choice([-1, 1], 40)
    options = {"fit_intercept": fit_intercept, "tol": tol}
    assert prgd.max_margin(X, y, **options).status is Status.NOT_SEPARABLE
    assert prgd.max_margin_batch(X, y[:, None], **options)[0].status is Status.NOT_SEPARABLE
    separable = prgd.max_margin(*planted(40, 3), **options)
    assert separable.status is Status.CERTIFIED
    assert separable.margin > 0.0
