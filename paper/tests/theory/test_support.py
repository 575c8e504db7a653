"""The reference max-margin solution: its KKT conditions to rounding, and closed forms."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from prgd_paper.theory.support import max_margin_reference, signed_rows

from prgd import NotSeparableError, datasets

CASES = range(50)


def planted(seed: int) -> np.ndarray:
    """Rows separable by construction; two in three have duplicates, collinear rows or a thin span."""
    rng = np.random.default_rng(seed)
    n, d = (int(rng.integers(2, 201)) for _ in range(2))
    Z = rng.standard_normal((n, d)) / math.sqrt(d)
    w = rng.standard_normal(d)
    w /= np.linalg.norm(w)
    margins = Z @ w
    Z += np.outer(np.abs(margins) + rng.uniform(0.05, 0.5, n) - margins, w)
    if seed % 3:
        half = n // 2
        Z[:half] = Z[rng.integers(half, n, half)]  # duplicates
        Z[: half // 2] *= rng.uniform(0.5, 2.0, (half // 2, 1))  # collinear rows
    if seed % 5 == 4:  # a thin span: the rows lie in a subspace that holds w
        basis = np.linalg.qr(np.column_stack([w, rng.standard_normal((d, max(1, d // 3)))]))[0]
        Z = Z @ basis @ basis.T
    return Z


@pytest.mark.parametrize("seed", CASES)
def test_is_exact_to_rounding(seed):
    Z = planted(seed)
    found = max_margin_reference(Z)
    assert found.certificate.gap <= 1e-12
    long_Z, long_p = Z.astype(np.longdouble), found.dual_weights.astype(np.longdouble)
    stationarity = (found.gamma_star * found.w_star - long_Z.T @ long_p).astype(float)
    slack = (long_Z @ found.w_star).astype(float) - found.gamma_star
    assert np.linalg.norm(stationarity) <= 1e-12 * found.gamma_star
    assert slack.min() >= -1e-12 * found.gamma_star
    assert np.abs(found.dual_weights * slack).max() <= 1e-12 * found.gamma_star
    assert found.dual_weights.min() >= 0.0
    assert found.dual_weights.sum() == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(Z.T @ found.dual_weights, found.gamma_star * found.w_star, atol=1e-13)
    assert set(np.flatnonzero(found.dual_weights)) <= set(found.support)
    margins = Z @ found.w_star
    assert (margins[found.support] <= found.gamma_star + found.support_tol).all()
    assert np.delete(margins, found.support).min(initial=math.inf) == pytest.approx(found.gamma_sub)


@pytest.mark.parametrize("gamma_star", [1e-6, 0.03, 0.3, 0.999])
def test_toy_in_closed_form(gamma_star):
    data = datasets.toy(gamma_star)
    found = max_margin_reference(data)
    assert found.gamma_star == pytest.approx(gamma_star, rel=1e-12)
    np.testing.assert_allclose(found.w_star, data.w_star, atol=1e-9)
    assert found.support.tolist() == [0, 1, 2]
    assert found.gamma_sub == math.inf
    assert found.dual_weights[1] == pytest.approx(0.5, abs=1e-12)
    assert "3 support vectors" in repr(found)


def test_units_are_those_of_the_data():
    small, large = (max_margin_reference(planted(7) * c) for c in (1.0, 1e6))
    for name in ("gamma_star", "gamma_sub", "support_tol"):
        assert getattr(large, name) == pytest.approx(1e6 * getattr(small, name), rel=1e-12)
    np.testing.assert_allclose(large.w_star, small.w_star, atol=1e-14)


def test_nearly_equal_rows_are_still_exact():
    Z = np.array([[0.3, 0.5], [0.3, 0.5 + 1e-9], [0.3, -0.4], [0.3 + 1e-12, -0.4]])
    assert max_margin_reference(Z).certificate.gap <= 1e-12


def test_tiny_margins_of_raw_data():
    """The margin is 1e-8 of the largest row norm: the gap is still far below it."""
    assert max_margin_reference(datasets.cancer()).certificate.gap < 1e-9


@pytest.mark.parametrize("seed", range(60))
def test_lattice_rows_have_exact_ties(seed):
    """Small integers: many ties, dependent rows and zero weights; every third has a margin of 1e-7."""
    rng = np.random.default_rng(seed)
    Z = rng.integers(-2, 4, size=(rng.integers(1, 30), rng.integers(1, 9))).astype(float)
    Z[:, 0] = rng.integers(1, 3, size=len(Z)) * (1e-6 if seed % 3 == 0 else 1.0)
    found = max_margin_reference(Z)
    assert found.certificate.gap <= (1e-12 if seed % 3 else 1e-9)
    assert found.dual_weights.min() >= 0.0


@pytest.mark.parametrize("gamma", [1e-13, 2e-14, 1e-15])
def test_at_the_rounding_floor_the_gap_is_honest(gamma):
    """Margins of 1e-13 of the row norm are found or refused, never claimed without their gap."""
    for seed in range(20):
        Z = np.random.default_rng(seed).standard_normal((40, 6))
        Z[:, 0] = gamma * (1.0 + np.abs(Z[:, 0]))
        weights, lower = np.zeros(40), -1e-18
        try:
            found = max_margin_reference(Z)
            lower += found.gamma_star * (1.0 - found.certificate.gap)
            margin = float((Z.astype(np.longdouble) @ found.w_star).min())
        except NotSeparableError as error:
            weights, margin = error.weights, 0.0
        assert margin >= lower
        assert np.linalg.norm(Z.T @ weights) < 1e-12


def test_signed_rows_reads_all_kinds_of_data():
    X, y = np.array([[1.0, 2.0], [3.0, 4.0]]), [0, 1]
    expected = [[-1.0, -2.0], [3.0, 4.0]]
    for data in ((X, y), (sp.csr_array(X), y), datasets.Dataset(X, np.array([0.0, 1.0]), "two")):
        assert signed_rows(data).tolist() == expected
    assert signed_rows(sp.csr_array(X)).tolist() == X.tolist()
