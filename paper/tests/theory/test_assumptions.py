"""The assumptions report, on data whose answers are known."""

import math

import numpy as np
import pytest
from prgd_paper.theory.nondegeneracy import assumptions, interior_dual_weights
from prgd_paper.theory.samples import random_nondegenerate
from prgd_paper.theory.support import max_margin_reference

from prgd import datasets


@pytest.mark.parametrize(("n", "rank", "support"), [(None, 51, 16), (300, 51, 12)])
def test_digits(n, rank, support):
    """Rank 51 as the paper says; its rank 2 of the support vectors is read off a run of NGD, as it says.

    Sixteen and twelve are what `max_margin_reference` finds to a gap of 1e-15, Clarabel alike.
    """
    report = assumptions(datasets.digits(0, 1, n))
    assert (report.data_rank, report.n_support, report.support_rank) == (rank, support, support)
    assert report.reference.certificate.gap < 1e-14
    assert report.spanning.holds is False
    assert report.positive_dual.holds is True
    assert not report.is_nondegenerate
    text = str(report)
    assert "data rank 51" in text
    assert f"{support} support vectors of rank {support}" in text
    assert len(text.splitlines()) == 6


def test_digits_have_no_row_near_the_support_tolerance():
    """The number of support vectors is the same for every tolerance from 1e-12 to 1e-6 of gamma_star."""
    data = datasets.digits(0, 1)
    found = max_margin_reference(data)
    margins = (data.X * data.y[:, None]) @ found.w_star
    counts = [(margins <= found.gamma_star * (1 + share)).sum() for share in (1e-12, 1e-9, 1e-6)]
    assert counts == [16, 16, 16]


@pytest.mark.parametrize("seed", range(20))
def test_nondegenerate_by_construction(seed):
    data = random_nondegenerate(seed)
    report = assumptions(data)
    assert report.is_nondegenerate
    assert report.reference.gamma_star == pytest.approx(data.gamma_star, rel=1e-12)
    Z = data.X * data.y[:, None]
    best = report.reference
    np.testing.assert_allclose(Z.T @ report.dual_weights, best.gamma_star * best.w_star, atol=1e-13)
    assert report.dual_weights[report.reference.support].min() == pytest.approx(report.positive_dual.number)


def test_toy_and_the_paper_s_synthetic_sets():
    """The toy set is off the mean; Datasets I and II are on it, so Theorem 6.4 does not apply there."""
    assert assumptions(datasets.toy(0.3)).off_mean.holds is True
    for data in (datasets.synthetic_one(0), datasets.synthetic_two(0)):
        report = assumptions(data)
        assert report.is_nondegenerate
        assert report.off_mean.holds is False
        assert report.off_mean.number < 1e-15


@pytest.mark.parametrize("copies", [1, 2])  # one row has its weight for certain, equal ones by a program
def test_a_support_vector_of_weight_zero(copies):
    """w_star = e_1 needs only the first rows: the last has margin 1 too, with weight 0 for certain."""
    report = assumptions([[1.0, 0.0]] * copies + [[1.0, 1.0]])
    assert report.positive_dual.holds is False
    assert report.positive_dual.number == pytest.approx(0.0, abs=1e-12)
    assert report.spanning.holds is True
    assert report.dual_weights.sum() == pytest.approx(1.0)


def test_linear_programming_finds_positive_weights_where_the_solver_gave_zero():
    # a square around the ray: weights are not unique, and a corner solution has zeros
    Z = np.array([[1.0, a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)])
    reference = max_margin_reference(Z)
    assert (reference.dual_weights == 0.0).any()
    np.testing.assert_allclose(interior_dual_weights(Z, reference), 0.25, atol=1e-12)
    assert assumptions(Z).positive_dual.number == pytest.approx(0.25)


def test_not_separable_is_reported():
    report = assumptions([[1.0, 0.0], [-1.0, 0.0]])
    assert report.separable.holds is False
    assert [check.holds for check in report.checks[1:]] == [None, None, None]
    assert math.isnan(report.spanning.number)
    assert report.reference is None
    np.testing.assert_allclose(report.gordan_weights, [0.5, 0.5])
    assert "separable               no" in str(report)


def test_units_do_not_matter():
    small, large = (assumptions(random_nondegenerate(4).X * c) for c in (1.0, 1e5))
    assert [c.holds for c in small.checks] == [c.holds for c in large.checks]
