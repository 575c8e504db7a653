"""Pivots on the face of the support, and weights that balance rows without a separator."""

import numpy as np
import pytest
from small_problems import flipped, planted

from prgd import Problem
from prgd.solvers.active_set import heaviest_weights, pivot_weights
from prgd.solvers.interior_point import interior_weights
from prgd.solvers.working_set import WorkingSet


def set_of(X, y, fit_intercept) -> WorkingSet:
    return WorkingSet.of(Problem(X, y, fit_intercept=fit_intercept, scale="none"))


def excess(working, p):
    """Return the margins less the mean margin of the weights in each group, relative to ``p^T G p``."""
    g = working.margins(working.combine(p))
    level = np.bincount(working.group, p * g, minlength=working.groups)
    return (g - level[working.group]) / (p @ g)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_pivots_end_at_the_optimum_from_a_guess(fit_intercept):
    working = set_of(*planted(80, 60), fit_intercept)
    p, _ = interior_weights(working, working.combine(np.full(80, 1 / 80)), 1e-9)
    support = np.flatnonzero(p)
    rng = np.random.default_rng(1)
    guess = p.copy()
    guess[rng.choice(support, 3, replace=False)] = 0.0  # three support vectors are missing
    guess[rng.choice(np.flatnonzero(p == 0.0), 3, replace=False)] = 0.01  # and three others not
    found = pivot_weights(working, guess, 1e-9)
    assert found is not None
    np.testing.assert_allclose(found, p, atol=1e-7)
    np.testing.assert_allclose(np.bincount(working.group, found), 1.0)
    assert excess(working, found).min() >= -1e-9
    assert np.abs(excess(working, found)[found > 0.0]).max() <= 1e-9


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_pivots_give_up_where_nothing_separates(fit_intercept):
    working = set_of(*flipped(200, 5, 20), fit_intercept)
    start = np.full(200, 1.0) / np.bincount(working.group)[working.group]
    assert pivot_weights(working, start, 1e-6) is None


def test_pivots_give_up_on_an_empty_class():
    working = set_of(*planted(30, 20), True)
    p = np.where(working.group == 0, 1.0, 0.0)
    assert pivot_weights(working, p / p.sum(), 1e-6) is None


def test_the_heaviest_weights_keep_both_classes():
    working = set_of(*planted(40, 3), True)
    p = np.random.default_rng(0).random(40)
    kept = heaviest_weights(working, p / np.bincount(working.group, p)[working.group], 6)
    assert np.count_nonzero(kept) == 6
    np.testing.assert_allclose(np.bincount(working.group, kept), 1.0)
    np.testing.assert_array_equal(heaviest_weights(working, kept, 6), kept)
