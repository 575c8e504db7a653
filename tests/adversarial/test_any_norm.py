"""Certificates in every norm and of joint classes against exact arithmetic, on sets made to break them."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from adversarial.exact_bounds import exact_verdict, is_above, is_below
from scipy.sparse import csr_array

import prgd
from prgd.maxmargin import overlap
from prgd.maxmargin.solve import Solve
from prgd.problem.accurate_bounds import (
    accurate_lower,
    accurate_upper,
    certify_in_double,
    is_on_simplex,
    weights_at,
)
from prgd.problem.certificate import DualWeights, certify
from prgd.rows import ChunkedRows, arrays
from prgd.running.history import Status
from prgd.solvers.terms import TermSet

VECTORS = ("l2", "l1", "linf", "lp:1.01", "lp:1.5", "lp:3", "lp:50")
MATRICES = ("spectral", "nuclear", "rows", "columns")


def hard_set(rng):
    """Return rows and classes: ties, duplicates, far from the origin, in extreme or mixed units."""
    K = int(rng.integers(2, 5))
    n, d = K * int(rng.integers(1, 4)) + 1, 2
    codes = np.append(np.arange(K), rng.integers(0, K, n - K))
    X = 3.0 * rng.standard_normal((K, d))[codes] + rng.choice([0.0, 0.1, 1.0]) * rng.standard_normal((n, d))
    changes = [
        lambda: X,
        lambda: rng.integers(-2, 3, (n, d)).astype(float),
        lambda: X[rng.integers(0, n, n)],
        lambda: X + 10.0 ** rng.integers(4, 13) * rng.choice([-1.0, 0.0, 1.0], d),
        lambda: X * 10.0 ** rng.integers(-200, 201),
        lambda: X * 10.0 ** rng.integers(-100, 101, d),
        lambda: X[:, :1] * [1.0, -2.0],
        lambda: X[:1] + 1e-9 * rng.standard_normal((n, d)),
    ]
    return changes[rng.integers(8)](), codes, K


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::prgd.core.errors.ZeroRowWarning")
@pytest.mark.parametrize("norm", [*VECTORS, *MATRICES])
def test_solver_on_hard_sets(norm):
    for seed in range(6):
        rng = np.random.default_rng([17, seed])
        X, codes, K = hard_set(rng)
        is_joint = K > 2 or norm in MATRICES or seed % 2 == 0
        with_intercept = bool(rng.integers(2))
        options = {"multi_class": "joint" if is_joint else None, "fit_intercept": with_intercept}
        result = prgd.max_margin(X, codes, norm=norm, tol=1e-6, **options)
        c = result.certificate
        facts = norm, is_joint, with_intercept
        assert is_below(c.lower, X, codes, c.w, *facts)
        assert result.check(X, codes).is_valid
        if result.status.name == "CERTIFIED":
            assert result.gap <= 1e-6
        if c.upper > 0.0:
            assert is_above(c.upper, X, codes, c.dual_weights, *facts)
            assert result.status.name in ("CERTIFIED", "STALLED")
        else:
            assert result.status.name == exact_verdict(X, codes, is_joint, with_intercept) != "SEPARABLE"


def problems_on_engines(rng, K, **options):
    """Return rows, classes and weights, and problems of the rows on all engines, with the rows as stored."""
    codes = np.arange(13) % K
    X = 4.0 * rng.standard_normal((K, 2))[codes] + 0.2 * rng.standard_normal((13, 2)) + [0.0, 1e5]
    weight = np.where(np.arange(13) % 5 == 4, 0.0, 10.0 ** rng.choice([-300.0, 0.0, 4.0], 13))
    X32 = X.astype(np.float32)
    kinds = [(X, form(X)) for form in (np.asarray, np.asfortranarray, csr_array, torch.tensor)] + [(X32, X32)]
    problems = [(data, prgd.Problem(rows, codes, sample_weight=weight, **options)) for data, rows in kinds]
    blocks = [(X[:6], codes[:6]), (X[6:], codes[6:])]
    chunks = ChunkedRows.from_blocks(blocks, sample_weight=weight)
    return X, codes, weight, [*problems, (X, prgd.Problem(chunks, **options))]


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["l2", "lp:1.01", "linf", "spectral", "columns"])
@pytest.mark.parametrize("with_intercept", [False, True])
def test_bounds_of_a_pass_on_every_engine(norm, with_intercept):
    rng, options = np.random.default_rng(5), {"norm": norm, "fit_intercept": with_intercept}
    X, codes, weight, problems = problems_on_engines(rng, 3, **options)
    best = prgd.max_margin(X, codes, multi_class="joint", **options)
    for data, problem in problems:
        for size in (1e-200, 1.0, 30.0, 1e100):
            at = problem.at(size / problem.max_norm * rng.standard_normal((3, 2)))
            facts = norm, True, with_intercept
            for found in (certify(at), certify_in_double(problem, at.w)):
                assert is_below(found.lower, data, codes, at.w, *facts, weight)
                assert found.upper >= best.margin * (1.0 - 1e-6)  # float32 rounds the rows
            lower = accurate_lower(problem, at.w, at.intercept)[0]
            assert is_below(lower, data, codes, at.w, *facts, weight)
            weights = weights_at(problem, at.w)
            assert is_on_simplex(problem, weights)
            assert is_above(accurate_upper(problem, weights), data, codes, weights, *facts)


@pytest.mark.parametrize("with_intercept", [False, True])
@pytest.mark.parametrize("norm", ["l2", "l1", "linf"])
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_both_ends_of_joint_problems_hold_far_from_the_origin(offset, norm, with_intercept):
    rng = np.random.default_rng(7)
    for trial in range(4):
        K, d = 3 + trial % 2, 2 + trial % 3
        codes = np.arange(12) % K
        X = rng.standard_normal((K, d))[codes] * 3.0 + 0.3 * rng.standard_normal((12, d)) + offset
        problem = prgd.Problem(X, codes, norm=norm, fit_intercept=with_intercept)
        W = rng.standard_normal((K, d))
        at = problem.at(np.sqrt(problem.unit) * 3.0 * (W - W.mean(axis=0)))
        found, weights = certify(at), weights_at(problem, at.w)
        lower, upper = accurate_lower(problem, at.w, at.intercept)[0], accurate_upper(problem, weights)
        for bound in (found.lower, certify_in_double(problem, at.w).lower, lower):
            assert is_below(bound, X, codes, at.w, norm, True, with_intercept)
        assert is_on_simplex(problem, weights)
        assert is_above(upper, X, codes, weights, norm, True, with_intercept)
        if offset == 0.0:
            assert upper <= found.upper <= upper * (1.0 + 1e-9)
            assert lower == pytest.approx(found.lower, rel=1e-9)


@pytest.mark.parametrize("norm", ["l2", "l1", "linf", "lp:1.5"])
@pytest.mark.parametrize("with_intercept", [False, True])
def test_a_second_direction_proves_its_margin_on_every_engine(norm, with_intercept):
    rng, facts, proven = np.random.default_rng(6), (norm, False, with_intercept), 0
    _, codes, weight, problems = problems_on_engines(rng, 2, norm=norm, fit_intercept=with_intercept)
    for data, problem in problems:
        for size in (1e-200, 1.0, 30.0, 1e100):
            w, v = rng.standard_normal((2, 2)) * [[size / problem.max_norm], [1.0]]
            plain, both = certify(problem.at(w)), certify(problem.at(w, v))
            assert (both.upper, both.lower) >= (plain.upper, plain.lower)
            assert is_below(both.lower, data, codes, both.w, *facts, weight)
            proven += np.array_equal(both.w, v)
    assert proven > 6  # v is the better one often


@pytest.mark.parametrize("v", [[math.nan, 1.0], [math.inf, 1.0], [0.0, 0.0], [1e308, 1e308], [-1.0, 0.0]])
def test_a_useless_second_direction_proves_nothing(v):
    problem = prgd.Problem([[3e5, 4e5], [1e5, -2e4], [2e5, 0.0]])
    w = np.array([1.0, 0.0])
    with np.errstate(all="ignore"):
        found = certify(problem.at(w, np.array(v)))
    assert found.w is not None
    assert np.array_equal(found.w, w)
    assert found.lower == certify(problem.at(w)).lower


def three_classes(n=12, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 3
    return 4.0 * np.eye(3)[codes] + 0.5 * rng.standard_normal((n, 3)), codes


def test_products_that_underflow_do_not_lower_the_upper_bound():
    # Weights 1e-300 times entries 2e-24 underflow to 0 in each of 400 columns.
    problem = prgd.Problem(np.full((4000, 400), 2e-24), sample_weight=np.full(4000, 1e-300))
    assert certify(problem.at(np.zeros(400))).upper >= math.sqrt(400) * 2e-24


def test_a_length_beyond_the_floating_range_bounds_nothing():
    problem = prgd.Problem([[1e-100, -3e-100], [1e-100, 1e-100]], norm="l1", scale="none")
    assert certify(problem.at([1.2e308, 1.2e308])).lower == -math.inf


def test_check_measures_a_hyperplane_in_the_norm_of_the_problem():
    X, y = np.array([[1.0, 1.0], [-1.0, -1.0]]), [1, -1]
    result = prgd.max_margin(X, y, norm="l1")  # the margin of (1, 1) is 1 in l1, and 1.41 in l2
    false = replace(result.certificate, lower=1.4, upper=1.5, w=np.ones(2))
    assert not replace(result, certificate=false).check(X, y).is_valid
    exact = replace(false, exact_w=(Fraction(1), Fraction(1), Fraction(0)))
    assert not replace(result, certificate=exact).check(X, y).is_valid


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_joint_runs_with_weights_of_zero(fit_intercept):
    X, codes = three_classes()
    weight = np.where(np.arange(12) % 4 == 3, 0.0, 1.0)
    problem = prgd.Problem(X, codes, sample_weight=weight, fit_intercept=fit_intercept)
    assert prgd.run(problem, prgd.NGD(), stop=10).check(X, codes, weight).is_valid


def test_terms_near_the_smallest_margin_of_joint_classes():
    X, codes = three_classes()
    problem = prgd.Problem(X, codes, fit_intercept=True)
    W = np.eye(3)
    near = problem.near(W, 1e-12)
    margins = problem.margins(W, np.zeros(3))
    assert {(codes[t // 3], t % 3) for t in near} == set(itertools.permutations(range(3), 2))
    assert all(margins.ravel()[t] == margins[codes == codes[t // 3], t % 3].min() for t in near)


def test_sample_weights_below_the_normal_range_with_intercepts():
    X, codes = three_classes()
    at = prgd.Problem(X, codes, sample_weight=np.full(12, 1e-310), fit_intercept=True).at(np.eye(3))
    assert np.isfinite(at.dual_vector).all()


@pytest.mark.parametrize("size", [1e100, 1e300])
def test_dual_weights_of_a_long_w_balance(size):
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((9, 3)), np.arange(9) % 3
    problem = prgd.Problem(X, codes, fit_intercept=True)
    W = size * rng.standard_normal((3, 3))
    weights = weights_at(problem, W)
    assert is_on_simplex(problem, weights)
    assert is_above(accurate_upper(problem, weights), X, codes, weights, "l2", True, True)


@pytest.mark.parametrize("norm", ["l2", "l1", "linf", "rows"])
def test_rows_near_the_end_of_the_floating_range(norm):
    X, codes = three_classes()
    for size in (1e306, 1.7e308):
        result = prgd.max_margin(X / np.abs(X).max() * size, codes, norm=norm, multi_class="joint")
        assert not math.isnan(result.margin)
        assert not math.isnan(result.upper_bound)
        assert result.status.name in ("CERTIFIED", "STALLED")


def test_check_refuses_what_was_changed():
    X, codes = three_classes()
    result = prgd.max_margin(X, codes, norm="linf", multi_class="joint")
    c, p = result.certificate, result.certificate.dual_weights

    def is_accepted(**changes):
        return replace(result, certificate=replace(c, **changes)).check(X, codes).is_valid

    assert is_accepted()
    assert not is_accepted(lower=c.lower * (1.0 + 1e-9), upper=2.0 * c.upper)
    assert not is_accepted(lower=0.5 * c.lower, upper=c.upper * (1.0 - 1e-9))
    assert not is_accepted(intercept=c.intercept + np.array([0.0, 0.1, 0.2]))
    assert not is_accepted(intercept=0.0)
    assert not is_accepted(intercept=np.zeros(4))
    assert not is_accepted(intercept=np.full(3, math.nan))
    assert not is_accepted(w=c.w[:, ::-1])
    for values in (p.values * np.linspace(1.0, 1.01, p.values.size), -p.values, p.values * math.nan):
        assert not is_accepted(dual_weights=DualWeights(p.indices, values))
    assert not is_accepted(dual_weights=DualWeights(p.indices[1:], p.values[1:]))
    assert not is_accepted(dual_weights=DualWeights(p.indices, p.values, (1,) * (p.values.size - 1)))


def test_check_grants_rounding_no_positive_margin():
    X, codes = three_classes()
    X[1] = X[0]
    problem = prgd.Problem(X, codes)
    result = prgd.run(problem, prgd.NGD(), stop=5)
    W = np.vstack([np.eye(3)[:1] * 1e-300, np.zeros((2, 3))]) + np.ones((3, 1)) * [1.0, 2.0, 3.0]
    lower, w, b = accurate_lower(problem, W, np.zeros(3))
    assert -1e-12 < lower <= 0.0
    false = replace(result.certificate, lower=1e-13, w=w, intercept=b)
    assert not replace(result, certificate=false).check(X, codes).is_valid


def test_some_pairs_do_not_prove_quasi_separability(monkeypatch):
    X, codes = np.array([[0.0], [0.0], [1.0], [-1.0]]), np.array([0, 1, 0, 0])
    problem = prgd.Problem(X, codes, multi_class="joint", fit_intercept=True)
    assert exact_verdict(X, codes, True, True) == "NOT_SEPARABLE"
    assert exact_verdict(X[:3], codes[:3], True, True) == "QUASI_SEPARABLE"
    working = TermSet(problem)
    working.add(working.all_terms()[:3])
    monkeypatch.setattr(overlap, "_MAX_ENTRIES", 0)
    assert overlap.prove_overlap(Solve(problem, 1e-6, 100), working) is Status.NOT_SEPARABLE


def test_two_joint_classes_count_the_roundings_of_their_slices(monkeypatch):
    monkeypatch.setattr(arrays, "JOINT_BYTES", 1)
    X = np.where(np.arange(80) % 2, 1.0, -1.0)[:, None] * np.ones(20_000)
    problem = prgd.Problem(X, np.arange(80) % 2, multi_class="joint")
    query = problem.coding.tally_at(np.zeros(problem.shape), problem.loss)
    assert problem.rows.sum_roundings >= np.diff(problem.rows._slices_of(query)).max()


def test_engines_hold_the_labels_of_two_joint_classes():
    # A device sums float32 rows of joint classes in float32, and says so if its labels are joint.
    X, codes = np.eye(4), np.arange(4) % 2
    for rows in (X, csr_array(X), torch.eye(4)):
        assert prgd.Problem(rows, codes, multi_class="joint").rows.labels.is_joint
