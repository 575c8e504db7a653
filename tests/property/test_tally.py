"""Merge is associative, has an identity and does not care about the order of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prgd
from prgd.losses import EXPONENTIAL, LOSSES
from prgd.rows import DenseRows, TallyAt
from prgd.rows.tally import COUNT, MARGIN, MASS, SLOPE_MASS, SLOPE_SHIFT, Tally, merge

finite = st.floats(-1e3, 1e3)


@st.composite
def tallies(draw):
    """A tally of one to five rows in two dimensions, by the engine itself."""
    n = draw(st.integers(1, 5))
    Z = np.array(draw(st.lists(st.tuples(finite, finite), min_size=n, max_size=n)))
    s = np.array(draw(st.lists(st.floats(0.0, 8.0), min_size=n, max_size=n)))
    s[0] += 1.0
    w = np.array(draw(st.tuples(st.floats(-10, 10), st.floats(-10, 10))))
    return DenseRows(Z, None, s).ask(TallyAt(w, EXPONENTIAL))


def assert_same(a, b):
    (a_scalars,), (b_scalars,) = a.scalars, b.scalars
    assert a_scalars[MARGIN] == b_scalars[MARGIN]
    assert a_scalars[COUNT] == pytest.approx(b_scalars[COUNT], rel=1e-14)
    assert a.log_sums == pytest.approx(b.log_sums, rel=1e-14, abs=1e-13)
    assert a_scalars[SLOPE_SHIFT] == b_scalars[SLOPE_SHIFT]
    assert a_scalars[SLOPE_MASS] == pytest.approx(b_scalars[SLOPE_MASS], rel=1e-13)
    # components may cancel: errors are relative to the largest term, at most 1e3 times the mass
    np.testing.assert_allclose(a.vector, b.vector, rtol=1e-13, atol=1e-12 * max(1.0, a_scalars[SLOPE_MASS]))


@given(tallies(), tallies(), tallies())
def test_merge_is_associative_and_commutative(a, b, c):
    assert_same(merge([merge([a, b]), c]), merge([a, merge([b, c])]))
    assert_same(merge([a, b]), merge([b, a]))
    assert_same(merge([a, b, c]), merge([merge([a, b]), c]))


@given(tallies())
def test_identity(a):
    for merged in (merge([a, Tally.identity(1, 2)]), merge([Tally.identity(1, 2), a])):
        assert_same(merged, a)
    nothing = merge([Tally.identity(1, 2), Tally.identity(1, 2)])
    assert (nothing.scalars[0, MASS], nothing.margins, nothing.log_sums) == (0.0, [np.inf], [-np.inf])
    assert not np.isnan(nothing.vector).any()


@given(st.integers(1, 70), st.integers(0, 10**6), st.sampled_from(["exponential", "logistic"]))
def test_order_and_grouping_of_rows_do_not_matter(n, seed, loss):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    w = rng.standard_normal(3) * 10 ** rng.uniform(-2, 2)
    whole = DenseRows(X).ask(TallyAt(w, LOSSES[loss]))
    order, cut = rng.permutation(n), rng.integers(0, n + 1)
    parts = [DenseRows(X[i]).ask(TallyAt(w, LOSSES[loss])) for i in (order[:cut], order[cut:]) if i.size]
    assert_same(merge(parts), whole)


@given(st.integers(0, 10**6), st.floats(-3, 3), st.sampled_from([True, False]))
def test_bounds_hold_and_margin_ignores_scale_and_order(seed, log_scale, fit_intercept):
    rng = np.random.default_rng(seed)
    data = prgd.datasets.synthetic_two(seed % 50)
    order = rng.permutation(len(data.y))
    problem = prgd.Problem(data.X, data.y, fit_intercept=fit_intercept)
    permuted = prgd.Problem(data.X[order], data.y[order], fit_intercept=fit_intercept)
    w = rng.standard_normal(2)
    assert problem.at(w).gamma == pytest.approx(problem.at(w * 10**log_scale).gamma, rel=1e-12, abs=1e-15)
    assert problem.at(w).gamma == pytest.approx(permuted.at(w).gamma, rel=1e-12, abs=1e-15)
    if not fit_intercept:
        assert problem.at(w).gamma <= data.gamma_star * (1 + 1e-12)
        assert problem.at(w).upper >= data.gamma_star * (1 - 1e-12)
    assert problem.at(w).gamma <= problem.at(w).upper * (1 + 1e-12)
    settle, soft = problem.at(w).gap_split
    assert settle >= -1e-12
    assert soft >= -1e-12
    assert settle + soft == pytest.approx(problem.at(w).upper - problem.at(w).gamma, abs=1e-13)
