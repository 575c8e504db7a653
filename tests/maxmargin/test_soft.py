"""The soft margin: by hand, against optima in exact arithmetic, its limits, engines and certificate."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from adversarial import oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

import prgd
from prgd import Result, Status
from prgd.maxmargin.soft import SoftMargin
from prgd.problem.certificate import DualWeights
from prgd.proofs.slacks import soft_lower, soft_upper
from prgd.rows.extended import ExtendedRows
from prgd.solvers.primal_newton import exact_step, soft_path

HALVES = np.array([0.5, 0.5])
both = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "origin"])


def overlapping(seed=0, n=80, d=5, distance=1.5):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3 == 0, 1, -1)
    return rng.standard_normal((n, d)) + np.outer(y, np.eye(d)[0]) * distance / 2, y


def terms(X, y, fit_intercept, K=0):
    """Rows ``y_i (x_i, 1)``, or ``(e_y - e_j) (x_i, 1)`` with the last intercept 0; and their rows of X."""
    columns = np.hstack([X, np.ones((len(X), 1))]) if fit_intercept else X
    if not K:
        return columns * y[:, None], np.arange(len(X))
    E, pairs = np.eye(K), [(i, k, j) for i, k in enumerate(y) for j in range(K) if j != k]
    Z = np.array([np.outer(E[k] - E[j], columns[i]).T.ravel() for i, k, j in pairs])  # intercepts last
    return Z[:, : K * X.shape[1] + (K - 1) * fit_intercept], np.array(pairs)[:, 0]


def exact_objective(Z, c, d):
    """The smallest ||w||^2 + sum_i c_i xi_i^2: all active sets are tried until the conditions of KKT hold.

    The first d columns of Z are those of w.
    """
    n = len(Z)
    Z, c = np.vectorize(Fraction, otypes=[object])(Z), np.vectorize(Fraction, otypes=[object])(c)
    ridge = np.diag([Fraction(int(j < d)) for j in range(Z.shape[1])])
    for size in range(n, -1, -1):
        for active in map(list, combinations(range(n), size)):
            A = Z[active].T * c[active]
            system, _ = oracle.to_integers(np.column_stack([ridge + A @ Z[active], A.sum(axis=1)]).tolist())
            solved = oracle.solve_square([row[:-1] for row in system], [row[-1] for row in system])
            if solved is None:
                continue
            v = np.array([Fraction(x, solved[1]) for x in solved[0]])
            slack = 1 - Z @ v
            if all((slack[k] >= 0) == (k in active) or slack[k] == 0 for k in range(n)):
                return (v[:d] ** 2).sum() + (c[active] * slack[active] ** 2).sum()
    raise AssertionError("no active set is that of the solution")


@settings(max_examples=60)
@given(
    st.integers(0, 10**6), st.integers(3, 6), st.integers(1, 2), st.sampled_from([0, 0, 2, 3]),
    st.booleans(), st.integers(-3, 6), st.sampled_from([0, 3, 1000]), st.booleans(),
)  # fmt: skip
def test_the_interval_holds_the_exact_optimum(seed, n, d, K, fit_intercept, exponent, offset, weighted):
    rng, n = np.random.default_rng(seed), min(n, 4) if K else n
    X = np.round(rng.standard_normal((n, d)), 2) + offset
    y = np.arange(n) % K if K else np.where(np.arange(n) < max(1, n // 2), 1, -1)
    C, s = 10.0**exponent, rng.integers(1, 4, n).astype(float) if weighted else None
    options = {"fit_intercept": fit_intercept, "multi_class": "joint" if K else None}
    result = prgd.soft_margin(X, y, C=C, sample_weight=s, tol=1e-9, **options)
    Z, rows = terms(X, y, fit_intercept, K)
    exact = exact_objective(Z, 2 * C * (np.ones(n) if s is None else s)[rows], d * max(K, 1))
    lower, upper = Fraction(result.margin), Fraction(result.upper_bound)
    assert lower**2 * exact <= 1 <= upper**2 * exact
    assert result.status is Status.CERTIFIED
    assert result.check(X, y, s).is_valid


def test_one_row_of_each_class_by_hand():
    # With x = 1 and -1, w minimises w^2 / 2 + 2 C (1 - w)^2, so w = 4 C / (1 + 4 C).
    result = prgd.soft_margin([[1.0], [-1.0]], [1, -1], C=1.0)
    assert result.coef == pytest.approx([0.8])
    assert result.intercept == pytest.approx(0.0, abs=1e-15)
    assert 0.5 / result.margin**2 == pytest.approx(0.5 * 0.64 + 2 * 0.04)
    assert result.is_separable is None


def test_exact_step_ends_on_the_right_piece():
    rng = np.random.default_rng(0)
    for _ in range(50):
        m, s, c = rng.standard_normal(20), rng.standard_normal(20), rng.uniform(0, 3, 20)
        t = exact_step(m, s, c, 0.3, 0.5, 1.0)
        slope = 0.3 + 0.5 * t - (c * s * np.maximum(1 - m - t * s, 0)).sum()
        assert abs(slope) <= 1e-12


@both
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e5])
def test_the_gradient_vanishes(fit_intercept, C):
    X, y = overlapping()
    result = prgd.soft_margin(X, y, C=C, fit_intercept=fit_intercept, tol=1e-12)
    slack = np.maximum(1 - y * (X @ result.coef + result.intercept), 0)
    gradient = result.coef - 2 * C * X.T @ (y * slack)
    assert np.linalg.norm(gradient) <= 1e-7 * np.linalg.norm(2 * C * X.T @ (y * slack))
    assert not fit_intercept or abs((y * slack).sum()) <= 1e-9 * slack.sum()


def test_the_price_is_that_of_liblinear():
    X, y = overlapping()
    X[3] = 0.0  # a row of zeros has a slack
    for C in (0.1, 10.0):
        result = prgd.soft_margin(X, y, C=C, fit_intercept=False)
        assert result.status is Status.CERTIFIED
        assert result.check(X, y).is_valid  # a warning would be an error here
        model = LinearSVC(C=C, dual=False, fit_intercept=False, tol=1e-10, max_iter=10**5).fit(X, y)
        np.testing.assert_allclose(result.coef, model.coef_[0], rtol=1e-5, atol=1e-8)


@both
def test_the_limit_of_large_C_meets_max_margin(fit_intercept):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 6))
    y = np.where(X[:, 0] > 0, 1, -1)
    X[:, 0] += 0.3 * y
    hard = prgd.max_margin(X, y, fit_intercept=fit_intercept, tol=1e-10)
    margins = [prgd.soft_margin(X, y, C=C, fit_intercept=fit_intercept).margin for C in (1e2, 1e4, 1e6, 1e8)]
    assert sorted(margins, reverse=True) == margins
    assert margins[-1] == pytest.approx(hard.margin, rel=1e-5)
    same = prgd.soft_margin(X, y, C=math.inf, fit_intercept=fit_intercept)
    assert (same.C, same.status) == (math.inf, Status.CERTIFIED)
    assert same.margin == pytest.approx(hard.margin, rel=1e-6)


@both
def test_weights_are_copies(fit_intercept):
    X, y = overlapping(2)
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    a = prgd.soft_margin(X, y, C=3.0, sample_weight=counts, fit_intercept=fit_intercept, tol=1e-10)
    b = prgd.soft_margin(
        np.repeat(X, counts, axis=0), np.repeat(y, counts), C=3.0, fit_intercept=fit_intercept, tol=1e-10
    )
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-9)
    assert a.intercept == pytest.approx(b.intercept, rel=1e-9)
    assert a.check(X, y, counts).is_valid
    assert counts[a.support].all()


@both
@pytest.mark.parametrize("shape", [(60, 400), (300, 300)], ids=["wide", "square"])
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e6])
@pytest.mark.parametrize("multi_class", [None, "joint"])
def test_many_columns_sparse_and_dense(fit_intercept, shape, C, multi_class):
    """Conjugate gradients, Gram matrices and extended rows give what fractions of a small problem give."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal(shape) * (rng.random(shape) < 0.1)
    y = rng.integers(0, 4, shape[0]) if multi_class else np.where(rng.random(shape[0]) < 0.4, 1, -1)
    options = {"C": C, "fit_intercept": fit_intercept, "multi_class": multi_class, "tol": 1e-8}
    dense, sparse = prgd.soft_margin(X, y, **options), prgd.soft_margin(sp.csr_array(X), y, **options)
    assert dense.status is sparse.status is Status.CERTIFIED
    assert dense.margin <= sparse.upper_bound
    assert sparse.margin <= dense.upper_bound
    assert sparse.check(X, y).is_valid


def test_ctrl_c_keeps_the_best_interval():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 20)), np.arange(200) % 2
    rounds = []

    def interrupt(entry):
        rounds.append(entry)
        if len(rounds) == 2:
            raise KeyboardInterrupt

    result = prgd.soft_margin(X, y, C=1e4, tol=1e-12, callback=interrupt)
    assert result.status is Status.INTERRUPTED
    assert result.margin <= prgd.soft_margin(X, y, C=1e4).upper_bound <= result.upper_bound * (1 + 1e-6)


def test_far_from_the_origin_the_interval_stays_true():
    X, y = overlapping()
    near = prgd.soft_margin(X, y, C=1.0)
    far = prgd.soft_margin(X + 2.0**26, y, C=1.0)  # the sum rounds entries by 1e-8
    assert far.status is Status.CERTIFIED
    assert far.margin == pytest.approx(near.margin, rel=1e-4)
    assert far.check(X + 2.0**26, y).is_valid


@both
def test_both_bounds_hold_for_any_hyperplane_and_weights(fit_intercept):
    X, y = overlapping()
    problem = prgd.Problem(X, y, fit_intercept=fit_intercept, scale="none")
    optimum = prgd.soft_margin(X, y, C=1.0, fit_intercept=fit_intercept, tol=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(20):
        w, b, p = rng.standard_normal(5), float(rng.standard_normal()), rng.random(len(y))
        weights = DualWeights.normalized(problem, np.arange(len(y)), p)
        for accurate in (False, True):
            assert soft_lower(problem, 1.0, w, b, 1e-6, accurate) <= optimum.upper_bound
            assert soft_upper(problem, 1.0, weights, 1e-6, accurate) >= optimum.margin


def test_what_is_printed_and_saved_names_the_soft_margin(tmp_path, capsys):
    X, y = overlapping()
    seen = []
    result = prgd.soft_margin(X, y, C=2.0, verbose=1, callback=seen.append)
    assert seen[-1].gap <= 1e-6
    assert " <= gamma_C <= " in capsys.readouterr().out
    result.save(tmp_path / "a.npz")
    for one in (result, Result.load(tmp_path / "a.npz")):
        lines = dict(line.split(": ", 1) for line in str(one).splitlines())
        assert lines["problem"].startswith("soft margin (squared hinge, C = 2) in the l2 norm, with an unpen")
        assert " <= gamma_C <= " in lines["margin"]
        assert lines["gamma_C"].startswith("1 / sqrt(2 F) for the smallest F = ||w||^2 / 2 + C (weigh")
        assert "gamma_star" not in f"{one} {one!r} {one.check(X, y)}"
        assert one.C == 2.0
        np.testing.assert_array_equal(one.coef, result.coef)
        assert one.check(X, y).is_valid
    slack = np.maximum(1.0 - y * (X @ result.coef + result.intercept), 0.0)
    F = 0.5 * result.coef @ result.coef + 2 * slack @ slack
    assert 1.0 / math.sqrt(2.0 * F) == pytest.approx(result.margin, rel=1e-9)
    hard = prgd.max_margin(*prgd.datasets.toy(0.3))
    assert "gamma_C" not in str(hard)
    assert str(hard).startswith("problem: largest margin in the l2 norm")


def test_a_check_without_the_weights_of_the_fit_asks_for_them():
    X, y = overlapping()
    weights = np.linspace(0.5, 2.0, len(y))
    result = prgd.soft_margin(X, y, C=1.0, sample_weight=weights)
    found = str(result.check(X, y))
    assert found.startswith("not confirmed: ")
    assert found.endswith(" the sample_weight of the fit, if there was one.")
    assert str(result.check(X, y, weights)).startswith("confirmed: ")


@pytest.mark.parametrize("options", [{}, {"C": None}])
def test_without_a_price_one_is_asked_for(options):
    with pytest.raises(TypeError, match=r"units of X. prgd.MaxMarginClassifier\(\).fit\(X, y\) finds one"):
        prgd.soft_margin(*overlapping(), **options)
    with pytest.raises(ValueError, match=r"C must be a positive number, or .* hard margin; got None"):
        prgd.MaxMarginClassifier(C=None).fit(*overlapping())


def test_a_path_of_C_ends_where_single_solves_do():
    X, y = overlapping()
    problem = prgd.Problem(X, y, fit_intercept=True, scale="none")
    prices = [1e-2, 1.0, 1e2, 1e4]
    for C, (w, b) in zip(prices, soft_path(problem, np.full(len(y), 2.0), prices, 1e-9), strict=True):
        alone = prgd.soft_margin(X, y, C=C, tol=1e-9)
        np.testing.assert_allclose(w, alone.coef, rtol=1e-6)
        assert b == pytest.approx(alone.intercept, rel=1e-6)
        warm = prgd.soft_margin(X, y, C=C, tol=1e-9, w0=w, intercept0=b)
        assert warm.passes <= alone.passes


def test_extended_rows_are_the_rows_with_a_column_each():
    X, y = overlapping(n=6, d=2)
    c = np.array([1.0, 4.0, 0.25, 1.0, 1.0, 1.0])
    rows = ExtendedRows(prgd.rows.DenseRows(X, y), c)
    whole = np.hstack([X, np.diag(y / np.sqrt(c))])
    np.testing.assert_allclose(rows.take(np.arange(6)).toarray(), whole)
    rng = np.random.default_rng(0)
    w, p = rng.standard_normal(8), rng.random(6)
    np.testing.assert_allclose(rows.times(w), whole @ w)
    np.testing.assert_allclose(rows.combine(p), whole.T @ p)


def test_a_price_that_underflows_is_refused():
    X, y = [[1.0], [2.0]], [0, 1]
    for s in ([1e-300] * 2, [1.0, 1e-230]):
        with pytest.raises(ValueError, match=r"C = 1e-90, times the sample weight 1e-\d+ of row [01]"):
            prgd.soft_margin(X, y, C=1e-90, sample_weight=s, w0=[1e-200], max_passes=1)
    result = prgd.soft_margin(X, y, C=1e-90, sample_weight=[1e90] * 2)
    with pytest.raises(ValueError, match="of row 1 must lie between"):
        result.check(X, y, [1e90, 1e-300])
    problem = prgd.Problem(X, y, sample_weight=[1e-320] * 2, fit_intercept=True, scale="none")
    with pytest.raises(ValueError, match="leave out the row"):
        soft_lower(problem, 1.0, np.zeros(1), 0.0, 1e-6)
    with pytest.raises(ValueError, match="leave out the row"):
        soft_upper(problem, 1.0, DualWeights(np.arange(2), HALVES), 1e-6)


def test_equal_rows_of_both_classes_are_certified():
    # Z^T p is 0, but its bound of rounding is not: compensated products are needed for a tight bound.
    result = prgd.soft_margin([[1.0, 1.0], [1.0, 1.0]], [0, 1], C=5e24)
    assert result.status is Status.CERTIFIED
    assert result.upper_bound == pytest.approx(math.sqrt(0.5e-25))
    assert result.margin <= math.sqrt(0.5e-25) <= result.upper_bound


def test_small_prices_keep_squares_finite():
    problem = prgd.Problem([[1e200], [-1e200]], [0, 1], fit_intercept=True, scale="none")
    assert soft_upper(problem, 1.0, DualWeights(np.arange(2), HALVES), 1e-6) >= 1e200
    assert soft_lower(problem, 1.0, np.array([1e-200]), 0.0, 1e-6) > 0.0


def test_the_start_is_checked():
    X, y = overlapping()
    assert prgd.soft_margin(X, y, C=1.0, intercept0=0.5).status is Status.CERTIFIED
    for fit_intercept, intercept0 in [(True, math.nan), (True, math.inf), (False, math.inf), (False, 0.5)]:
        with pytest.raises(ValueError, match="intercept0 must be a finite number"):
            prgd.soft_margin(X, y, C=1.0, fit_intercept=fit_intercept, intercept0=intercept0)
    with pytest.raises(ValueError, match="w0 must be finite, of shape"):
        prgd.soft_margin(X, y, C=1.0, w0=[1.0])


def test_sparse_rows_far_from_the_origin_do_not_divide_by_zero():
    X = 1e11 + np.array([[-0.53192, 0.17941], [-0.36473, 1.00774], [0.08253, -1.23361]])
    y = [0, 1, 1]
    result = prgd.soft_margin(sp.csr_array(X), y, C=1e9)
    exact = exact_objective(terms(X, np.array([-1, 1, 1]), True)[0], np.full(3, 2e9), 2)
    assert Fraction(result.margin) ** 2 * exact <= 1
    assert Fraction(result.upper_bound) ** 2 * exact >= 1
    assert result.gap <= 1e-3  # few sparse columns are centred, as dense ones are
    assert result.check(X, y).is_valid


def test_check_measures_a_bound_by_what_is_proven():
    X, y = overlapping()
    apart = X + 3.0 * np.outer(y, np.eye(5)[0])
    for rows, result in ((X, prgd.soft_margin(X, y, C=1.0)), (apart, prgd.max_margin(apart, y))):
        assert result.check(rows, y).is_valid
        changes = [{"lower": 1e9, "upper": upper} for upper in (math.inf, 1e300)]
        changes += [{**change, "dual_weights": None} for change in (*changes, {})]
        if rows is apart:
            changes.append({"lower": -1e300, "upper": 1e-3})
        else:
            raised = result.margin * (1 + 1e-7)
            changes.append({"lower": raised, "upper": raised * (1 + 1e-7)})
            assert not replace(result, C=2.0).check(X, y).is_valid
        for change in changes:
            forged = replace(result.certificate, **change)
            assert not replace(result, certificate=forged).check(rows, y).is_valid, change


@both
@pytest.mark.parametrize(("unit", "C"), [(1.0, 1e14), (1.0, 1e16), (1.0, 1e60), (1e20, 1.0), (1e60, 1e-118)])
def test_large_prices_of_few_columns_are_certified(fit_intercept, unit, C):
    X, y = overlapping(n=12, d=2)
    X = (X + 3.0 * np.outer(y, [1.0, 0.0])) * unit
    result = prgd.soft_margin(X, y, C=C, fit_intercept=fit_intercept)
    hard = prgd.max_margin(X, y, fit_intercept=fit_intercept)
    assert result.status is Status.CERTIFIED
    assert result.margin <= hard.upper_bound * (1 + 1e-2)
    assert result.check(X, y).is_valid


@both
def test_a_start_far_off_leaves_no_rounding_behind(fit_intercept):
    X, y = overlapping(d=2)
    near = prgd.soft_margin(X, y, C=1.0, fit_intercept=fit_intercept)
    far = prgd.soft_margin(X, y, C=1.0, fit_intercept=fit_intercept, w0=[1e20, 1.0])
    assert far.status is Status.CERTIFIED
    np.testing.assert_allclose(far.coef, near.coef, rtol=1e-3)


@pytest.mark.parametrize("C", [np.int64(2), np.float32(2), Fraction(2), 2])
def test_prices_of_all_number_types(C):
    X, y = overlapping()
    result = prgd.soft_margin(X, y, C=C)
    assert (type(result.C), result.C) == (float, 2.0)
    assert prgd.MaxMarginClassifier(C=C).fit(X, y).C_ == 2.0


@pytest.mark.parametrize("C", [math.nan, -math.inf, -1.0, 0, "1", 10**400, True, [1.0]])
def test_prices_that_are_none_are_refused(C):
    X, y = overlapping()
    for call in (lambda: prgd.soft_margin(X, y, C=C), lambda: prgd.MaxMarginClassifier(C=C).fit(X, y)):
        with pytest.raises(ValueError, match=r"C must be a positive number, or .* for the hard margin; got"):
            call()


def test_the_advice_for_squares_out_of_range_can_help():
    X, y = overlapping()
    for unit, C, words in (
        (1e142, 1e-284, "Multiply X by a constant, and divide C by the square of it"),
        (1.0, 1e150, "squares leave the floating range.*Choose a smaller C"),
        (1.0, 1e-150, "Choose a larger C"),
    ):
        with pytest.raises(ValueError, match=words):
            prgd.soft_margin(X * unit, y, C=C)


def test_many_slacks_of_dense_rows_need_no_working_set(monkeypatch):
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((1500, 260)), rng.standard_normal(260)
    y = np.where(X @ w + 10.0 * rng.standard_normal(1500) > 0.0, 1, -1)
    message = "Newton's method takes a hundredth of the time here"
    monkeypatch.setattr(SoftMargin, "_solve_extended", lambda *_: pytest.fail(message))
    result = prgd.soft_margin(X, y, C=1.0)
    assert result.status is Status.CERTIFIED
    assert len(result.support) > 520
