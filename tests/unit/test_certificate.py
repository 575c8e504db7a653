"""Certificates by hand: outward rounding, exact witnesses, and what they look like in a file."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import prgd
from prgd.core.arithmetic import common_integers, lowered, raised
from prgd.core.errors import CrossedBoundsError, ZeroRowWarning
from prgd.maxmargin.exactly import IntegerFaces, shortest_vector
from prgd.problem.accurate_bounds import accurate_upper, certify_in_double
from prgd.problem.certificate import Certificate, DualWeights, certify, interval
from prgd.proofs.hyperplanes import proves_overlap

TINY = [[-2.9999999999999996, -9], [-3, 0], [0, 6], [3, 9], [-3, -9]], [-1, -1, -1, -1, 1]


def exact_norm_square(X, y, weights):
    """Square of the norm of sum p_i z_i, with p divided by its sums in both classes, in fractions."""
    p = [Fraction(v) for v in weights.values.tolist()]
    sums = {s: sum(q for q, i in zip(p, weights.indices, strict=True) if y[i] == s) for s in (1, -1)}
    scaled = [q * y[i] / (2 * sums[y[i]]) for q, i in zip(p, weights.indices, strict=True)]
    columns = [[Fraction(float(X[i][j])) for i in weights.indices] for j in range(len(X[0]))]
    return sum(sum(a * b for a, b in zip(scaled, column, strict=True)) ** 2 for column in columns)


def test_without_a_separator_there_is_no_gap_in_words():
    assert str(Certificate(-1.0, 2.0)).endswith("none: no iterate separates the classes so far)")
    assert str(Certificate(-1.0, 0.0)).endswith("(relative gap none: no hyperplane separates the classes)")
    assert str(Certificate(1.0, 2.0)) == "1 <= gamma_star <= 2 (relative gap 5.00e-01)"


def test_a_lower_bound_of_zero_but_for_underflow_is_printed_as_zero():
    X, y = [[1.0, 2.0], [0.0, 0.0], [3.0, 1.0]], [1, 1, -1]
    with pytest.warns(ZeroRowWarning):
        result = prgd.max_margin(X, y, fit_intercept=False)
    assert -1e-300 < result.margin < 0.0  # The certificate keeps its bits.
    assert "margin: 0 <= gamma_star <= 0 (relative gap none" in str(result)
    assert interval(-1e-307, 5e-324, digits=6) == "-1e-307 <= gamma_star <= 4.94066e-324"


def test_a_crossing_raises():
    with pytest.raises(CrossedBoundsError, match=r"2\.0 on gamma_star exceeds the upper bound 1\.0"):
        Certificate(2.0, 1.0)
    one = Certificate(1.0, 1.5, np.ones(2))
    with pytest.raises(CrossedBoundsError):
        one.with_upper(0.9)
    with pytest.raises(CrossedBoundsError):
        one.best(Certificate(1.6, 3.0, np.ones(2)))
    assert Certificate(1.0, 1.0).gap == 0.0


@pytest.mark.parametrize("value", [1.0, -1.0, 1e-320, -1e-320, 0.0, 1e300])
def test_rounding_goes_outward(value):
    assert lowered(value) < value < raised(value)
    assert raised(value) - lowered(value) <= 1e-15 * abs(value) + 1e-322


def test_common_integers_are_exact():
    A = np.array([[1e-300, -0.0, 3.0], [5e-324, 1e300, 0.1]])
    M, exponent = common_integers(A)
    for row, expected in zip(M.tolist(), A.tolist(), strict=True):
        assert [Fraction(v) * Fraction(2) ** exponent for v in row] == [Fraction(v) for v in expected]


@pytest.mark.parametrize("offset", [0.0, 1e8, 1e12])
def test_accurate_upper_is_above_the_exact_norm_by_little(offset):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 3)) + offset, np.where(np.arange(40) % 3, 1, -1)
    problem = prgd.Problem(X, y, fit_intercept=True)
    weights = DualWeights.normalized(problem, np.arange(40), rng.random(40))
    square = exact_norm_square(X, y, weights)
    bound = Fraction(accurate_upper(problem, weights))
    assert square <= bound**2 <= square * (1 + Fraction(1, 10**12))


def test_weights_need_not_have_sum_one():
    X, y = np.array([[1.0, 2.0], [-1.0, 0.5]]), np.array([1, -1])
    problem, indices = prgd.Problem(X, y), np.arange(2)
    a, b = (accurate_upper(problem, DualWeights(indices, s * np.array([0.3, 0.6]))) for s in (1.0, 1 / 3))
    assert a == pytest.approx(b, rel=1e-15)


@pytest.mark.parametrize(
    ("Z", "start", "weights", "vector"),
    [
        # By hand: the segment from (3, 1) to (3, -2) is nearest to the origin at (3, 0).
        ([[3, 1], [3, -2], [7, 0], [4, 5]], [1.0, 0.0, 0.0, 0.0], "2/3 1/3 0 0", [3, 0]),
        ([[1, 0], [-1, 1], [-1, -1]], [1.0, 1.0, 1.0], "1/2 1/4 1/4", [0, 0]),  # it vanishes
    ],
)
def test_the_shortest_vector_in_integers(Z, start, weights, vector):
    rows, classes = np.array(Z, dtype=object), np.zeros(len(Z), int)
    found = shortest_vector(IntegerFaces(rows, rows[:, :0], classes, classes), np.array(start))
    assert [Fraction(w, found.total) for w in found.weights] == list(map(Fraction, weights.split()))
    assert [Fraction(v, found.total) for v in found.vector] == vector


def test_exact_witnesses_are_saved(tmp_path):
    X, y = TINY
    result = prgd.max_margin(X, y)
    assert result.status is prgd.Status.CERTIFIED
    exact = Fraction(1, 3), Fraction(-2, 7), Fraction(0)
    c = replace(result.certificate, exact_w=exact, w_upper=np.arange(2.0))
    replace(result, certificate=c).save(tmp_path / "result.npz")
    loaded = prgd.Result.load(tmp_path / "result.npz").certificate
    assert loaded.exact_w == c.exact_w
    assert loaded.dual_weights.integers == c.dual_weights.integers
    assert (loaded.lower, loaded.upper) == (c.lower, c.upper)
    result.save(tmp_path / "result.npz")
    assert prgd.Result.load(tmp_path / "result.npz").check(X, y).is_valid


def test_a_run_does_not_call_a_tiny_margin_overlap():
    result = prgd.run(prgd.Problem([[1.0, 1e-13], [-1.0, 1e-13]]), prgd.NGD(), stop=50)
    assert result.status is prgd.Status.MAX_STEPS
    assert 0.0 < result.margin <= 1e-13 <= result.upper_bound


def test_a_run_proves_overlap_by_its_weights():
    problem = prgd.Problem([[1.0, 2.0], [1.0, 2.0]], [1, -1])
    result = prgd.run(problem, prgd.NGD(), stop=3)
    assert result.status is prgd.Status.NOT_SEPARABLE
    assert (result.t, result.upper_bound, result.gap) == (3, 0.0, math.inf)  # the run went on
    assert proves_overlap(problem, result.certificate.dual_weights)


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_check_confirms_a_run_with_weights(loss):
    data = prgd.datasets.synthetic_one(0)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(data.y))
    problem = prgd.Problem(data.X, data.y, loss=loss, sample_weight=weights)
    result = prgd.run(problem, prgd.NGD(), stop=40)
    assert result.check(data.X, data.y, weights).is_valid
    assert not result.check(data.X, -data.y, weights).is_valid


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_interval_in_double_is_that_of_the_pass(fit_intercept):
    data = prgd.datasets.synthetic_one(0)
    problem = prgd.Problem(data.X, data.y, fit_intercept=fit_intercept)
    w = np.array([3.0, 0.1])
    a, b = certify(problem.at(w)), certify_in_double(problem, w)
    assert (a.lower, a.upper) == pytest.approx((b.lower, b.upper), rel=1e-12)
    assert a.intercept == pytest.approx(b.intercept, rel=1e-12)


# Inputs that once gave a false bound, a crossing or a crash


def test_products_that_overflow_bound_nothing():
    Z = np.array([[1e306, -1e306]] * 301 + [[2e307, 1.7e308]])
    result = prgd.max_margin(Z, None, fit_intercept=False, w0=[10, -10], tol=0.3)
    assert result.margin <= 1.1043153e306
    problem = prgd.Problem(Z[300:], scale="none")
    with np.errstate(over="ignore", invalid="ignore"):
        found = prgd.run(problem, prgd.GD(eta=1e-320), w0=[10, -10], stop=1)
    assert found.margin <= 1.1043153e306


@pytest.mark.parametrize(
    ("X", "weights", "w0", "gamma_star"),
    [
        ([[1e-100, 0], [1e-100, 1e-101]], [1e-250] * 2, None, 1e-100),
        ([[1e3, 0], [1e-9, 1e-10], [1.1e-9, -1e-10]], [1, 1e-315, 1e-315], [1e9, 0], 1e-9),
    ],
)
def test_tiny_sample_weights_prove_no_more(X, weights, w0, gamma_star):
    result = prgd.run(prgd.Problem(X, sample_weight=weights), prgd.NGD(), w0, stop=3)
    assert result.margin <= gamma_star * 1.1
    assert result.upper_bound >= gamma_star


def test_rows_of_weight_zero_prove_nothing():
    X, y = [[1, 1], [1, -1], [-1, -1], [-1, 1]], [1, 1, 0, 0]
    assert not prgd.max_margin(X, y).check(X, y, sample_weight=[1, 0, 1, 0]).is_valid


def test_a_subnormal_start():
    Z = np.full((300, 2), 1e100)
    for result in (
        prgd.run(prgd.Problem(Z[:1]), prgd.NGD(), w0=[5e-324, 5e-324], stop=1),
        prgd.max_margin(Z, None, fit_intercept=False, w0=[5e-324] * 2),
    ):
        assert result.margin <= np.sqrt(2.0) * 1e100 <= result.upper_bound


def test_integer_data_whose_bound_vanishes():
    rng = np.random.default_rng(133)
    n = int(rng.integers(270, 800))
    X, y = np.round(rng.standard_normal((n, 2)) * rng.choice([1, 3, 10])), np.arange(n) % 2
    result = prgd.max_margin(X, y)
    assert result.status is prgd.Status.NOT_SEPARABLE
    assert result.check(X, y).is_valid


@pytest.mark.parametrize("Z", [[[1.5e308] * 4, [1.6e308] * 4], [[1.7976931348623157e308, 0, 0]] * 2])
def test_the_end_of_the_floating_range(Z):
    result = prgd.max_margin(Z, None, fit_intercept=False)
    assert result.margin <= result.upper_bound
    assert result.is_separable


def test_tiny_features_beside_a_constant_column():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((200, 49)) * 1e-180
    X, y = np.column_stack([np.ones(200), features]), np.where(features @ rng.standard_normal(49) > 0, 1, -1)
    result = prgd.max_margin(X, y)
    assert result.status is prgd.Status.CERTIFIED
    assert result.check(X, y).is_valid


def test_sums_without_a_bound_on_their_rounding_prove_nothing(monkeypatch):
    X, y = np.eye(3), np.arange(3)
    problem = prgd.Problem(X, y)
    monkeypatch.setattr(type(problem.rows), "joint_unit_roundoff", property(lambda rows: math.inf))
    at = problem.at(np.eye(3))
    assert certify(at).w is None
    assert certify(at).upper == math.inf
    result = prgd.run(problem, prgd.NGD(), stop=9)  # float64 certifies at steps 0, 1, 2, 4 and 8
    assert 0.0 < result.margin <= result.upper_bound < math.inf
    assert result.check(X, y).is_valid
