"""The certified solver: its parts by hand, its engines, its statuses."""

import pickle
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import grid
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.svm import SVC
from small_problems import planted

import prgd
from prgd import Status
from prgd.maxmargin import hard

# Of many columns the proof is by the interior point.
OVERLAPS = [(30, 4, np.asarray), (400, 4, np.asarray), (600, 60, np.asarray), (600, 60, sp.csr_array)]


def exact_gamma(X, y):
    """gamma_star through the origin by NNLS: min ||Z^T a, 1 - sum a||, a >= 0, has w = Z^T a."""
    Z = X * y[:, None]
    scale = np.abs(Z).max()
    A, right = np.vstack([Z.T / scale, np.ones(len(y))]), np.r_[np.zeros(Z.shape[1]), 1.0]
    a, _ = nnls(A, right, maxiter=100 * len(y))
    w = Z.T @ a
    return (Z @ w).min() / np.linalg.norm(w)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [(40, 3), (200, 20), (60, 100), (500, 50)])
def test_equals_nnls_through_the_origin(seed, shape):
    X, y = planted(*shape, 0.1, seed)
    result = prgd.max_margin(X, y, fit_intercept=False, tol=1e-8)
    assert result.status is Status.CERTIFIED
    assert result.gap <= 1e-8
    assert result.margin == pytest.approx(exact_gamma(X, y), rel=2e-8)
    check = result.check(X, y)
    assert check.is_valid
    assert check.certificate.gap <= 1.001e-8
    assert (y * (X @ result.coef)).min() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(12))
def test_the_solution_with_an_intercept_is_that_of_svc(seed):
    rng = np.random.default_rng(seed)
    # LIBSVM keeps its kernel in float32, so that its direction errs by about 6e-8 (max ||x|| / margin)^2:
    # a wide margin and rows near the origin leave it the digits to compare
    X, y = planted(int(rng.integers(20, 120)), int(rng.integers(2, 40)), 1.0, seed)
    X = X + 0.5 * rng.standard_normal(X.shape[1])
    svc = SVC(kernel="linear", C=1e10, tol=1e-8).fit(X, y)
    result = prgd.max_margin(X, y, tol=1e-12)
    length = np.linalg.norm(svc.coef_)
    found = result.coef / np.linalg.norm(result.coef)
    assert np.linalg.norm(found - svc.coef_[0] / length) <= 1e-5
    assert result.intercept == pytest.approx(svc.intercept_[0], abs=1e-4)
    assert result.margin >= (y * svc.decision_function(X)).min() / length - 1e-12


# Solvers, the number of classes, whether rows have weights, and how closely margins and coefficients agree.
MARGINS = [
    (partial(prgd.max_margin, tol=1e-9), 2, False, 1e-8, 1e-4),
    (partial(prgd.max_margin, norm="l1"), 2, False, 2e-6, 1e-4),
    (partial(prgd.max_margin, norm=3.0), 2, False, 2e-6, 1e-2),
    *((partial(prgd.max_margin, norm=n, multi_class="joint"), 3, False, 2e-6, 1e-2) for n in ("l2", "linf")),
    (partial(prgd.max_margin, norm="spectral", multi_class="joint"), 3, False, 2e-6, 1e-2),
    (partial(prgd.soft_margin, C=2.0), 2, True, 2e-6, 1e-4),
]


@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_every_engine_gives_the_same_answer(engine, fit_intercept, tmp_path):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 4)).astype(np.float32).astype(float)  # numbers that every engine holds
    for solve, K, is_weighted, rel, atol in MARGINS:
        y = (X @ np.random.default_rng(K).standard_normal((4, K))).argmax(axis=1)
        s = np.arange(200) % 4.0 if is_weighted else None
        reference = solve(prgd.rows.DenseRows(X, y, s), fit_intercept=fit_intercept)
        rows = grid.ENGINES[engine](X, y, s, tmp_path)
        result = solve(rows, fit_intercept=fit_intercept)
        assert result.status is Status.CERTIFIED
        assert result.check(rows).is_valid
        assert result.margin == pytest.approx(reference.margin, rel=rel)
        size = np.linalg.norm(reference.coef)
        np.testing.assert_allclose(result.coef / size, reference.coef / size, atol=atol)


def test_the_intercept_is_the_distance_of_hulls():
    X = np.array([[3.0, 0.0], [5.0, 1.0], [1.0, 0.0], [0.0, 9.0]])
    result = prgd.max_margin(X, [1, 1, -1, -1], tol=1e-10)
    # the nearest points of the hulls are (3, 0) and (1, 0)
    assert result.margin == pytest.approx(1.0)
    np.testing.assert_allclose(result.coef, [1.0, 0.0], atol=1e-6)
    assert result.intercept == pytest.approx(-2.0, abs=1e-6)
    np.testing.assert_array_equal(result.support, [0, 2])
    np.testing.assert_allclose(result.dual_coef.toarray(), [[0.5, 0.0, 0.5, 0.0]], atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("n", "d", "make"), OVERLAPS)
def test_overlap_is_proven(fit_intercept, n, d, make):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((n, d)), np.where(rng.random(n) < 0.5, 1, -1)
    result = prgd.max_margin(make(X), y, fit_intercept=fit_intercept)
    assert result.status is Status.NOT_SEPARABLE
    assert result.is_separable is False
    check = result.check(X, y)
    assert check.is_valid
    assert check.certificate.upper <= 1e-12 * np.linalg.norm(X, axis=1).max()


def test_a_gap_at_the_tolerance_stays_certified():
    """The bound of the returned weights, rounded once more, was 5e-5 of the tolerance too large here."""
    rng = np.random.default_rng(700)
    w = rng.standard_normal(6)
    w /= np.linalg.norm(w)
    y, X = np.where(np.arange(49) % 2 == 0, 1, -1), rng.standard_normal((49, 6))
    X += (np.abs(X @ w) * y - X @ w)[:, None] * w
    result = prgd.max_margin(X + 0.2 * y[:, None] * w, y, tol=1e-10)
    assert result.status is prgd.Status.CERTIFIED
    assert result.gap <= 1e-10


def test_tight_tolerances_are_reached_by_the_polish_and_others_without():
    X, y = planted(300, 30, 0.1, 4)
    assert prgd.max_margin(X, y, tol=1e-12).gap <= 1e-12
    assert prgd.max_margin(X, y, polish=False).gap <= 1e-6


def test_limit_on_passes_returns_the_interval():
    X, y = planted(8000, 40, seed=6)
    result = prgd.max_margin(X, y, max_passes=1, tol=1e-12)
    assert result.status is Status.MAX_PASSES
    assert result.margin <= result.upper_bound
    assert result.check(X, y).is_valid


def test_callback_and_verbose(capsys):
    X, y = planted(500, 20, 0.1, 7)
    seen = []
    result = prgd.max_margin(X, y, callback=seen.append, verbose=1)
    assert seen == result.history.rows
    assert capsys.readouterr().out.count("gamma_star") == len(seen)
    gaps = [entry.gap for entry in seen]
    assert gaps == sorted(gaps, reverse=True)
    assert seen[-1].passes == result.passes


def test_interrupt_returns_the_best_interval_if_there_is_any(monkeypatch):
    X, y = planted(2000, 40, seed=8)
    press = Mock(side_effect=KeyboardInterrupt)
    result = prgd.max_margin(X, y, callback=press, tol=1e-12)
    assert result.status is Status.INTERRUPTED
    assert result.check(X, y).is_valid
    monkeypatch.setattr(hard.HardMargin, "choose_rows", press)
    with pytest.raises(KeyboardInterrupt):
        prgd.max_margin(np.eye(2), [1, -1])


@pytest.mark.parametrize(("name", "value"), [("tol", 0.0), ("tol", -1.0), ("max_passes", 0)])
def test_parameters_are_checked(name, value):
    with pytest.raises(ValueError, match=name):
        prgd.max_margin(np.eye(2), [1, -1], **{name: value})


@pytest.mark.slow
def test_a_full_working_set_lets_idle_rows_go(monkeypatch):
    X, y = planted(20_000, 30, seed=9)
    free = prgd.max_margin(X, y, fit_intercept=False)
    monkeypatch.setattr(hard, "_MAX_ROWS", 100)
    result = prgd.max_margin(X, y, fit_intercept=False)
    assert result.gap <= 1e-6
    sizes, free_sizes = (r.history["working_set"].tolist() for r in (result, free))
    assert sizes != sorted(sizes)  # rows left
    assert free_sizes == sorted(free_sizes)
    assert max(sizes) < max(free_sizes)


def test_few_rows_and_rows_of_many_dimensions_are_taken_at_once():
    (entry,) = prgd.max_margin(*planted(200, 20, 0.1, 10)).history.rows
    assert entry.working_set == 200
    rng = np.random.default_rng(11)
    X = sp.random_array((400, 4000), density=0.02, rng=rng, format="csr")
    y = np.where(rng.random(400) < 0.5, 1, -1)
    result = prgd.max_margin(X, y, w0=np.ones(4000))  # without a warm start coordinate descent would solve it
    assert result.history["working_set"][0] == 400
    assert result.check(X, y).is_valid
    assert result.gap <= 1e-6


def test_support_beyond_the_working_set_is_certified_and_beyond_memory_bounded(monkeypatch):
    rng = np.random.default_rng(11)  # more dimensions than rows: nearly all rows carry weight
    X, y = rng.standard_normal((300, 1100)), np.where(rng.random(300) < 0.5, 1, -1)
    monkeypatch.setattr(hard, "_MAX_ROWS", 100)
    result = prgd.max_margin(X, y)
    assert result.status is Status.CERTIFIED
    assert result.support.size > 200
    assert result.check(X, y).is_valid
    monkeypatch.setattr(hard, "_MAX_GRAM_ROWS", 270)
    result = prgd.max_margin(X, y)
    assert result.status is Status.STALLED
    assert result.margin < result.upper_bound
    assert result.check(X, y).is_valid


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("margin", [1e-3, 1e-5, 1e-7, 1e-9, 1e-10, 1e-16])
def test_a_margin_at_rounding_is_not_called_overlap(margin, fit_intercept):
    # separable by the first feature, at last with a margin that no float64 sum of the others can see
    rng = np.random.default_rng(12)
    y = np.where(rng.random(200) < 0.5, 1, -1)
    X = np.column_stack([y * margin * (1 + rng.random(200)), rng.standard_normal((200, 5))])
    result = prgd.max_margin(X, y, fit_intercept=fit_intercept)
    assert result.status is Status.CERTIFIED
    assert result.is_separable
    assert result.upper_bound <= 100.0 * margin
    assert result.check(X, y).is_valid
    assert prgd.separability(X, y, fit_intercept=fit_intercept).is_separable


def test_results_are_pickled_replaced_saved_and_loaded(tmp_path):
    X, y = planted(400, 4, 0.1, 14)
    result = prgd.max_margin(X, y)
    assert result.dual_coef.shape == (1, 400)
    again = replace(pickle.loads(pickle.dumps(result)), passes=0.0)  # noqa: S301 - written here
    np.testing.assert_array_equal(again.dual_coef.toarray(), result.dual_coef.toarray())
    mine, theirs = again.check(X, y).certificate, result.check(X, y).certificate
    assert (mine.lower, mine.upper) == (theirs.lower, theirs.upper)
    result.save(tmp_path / "result.npz")
    again = prgd.Result.load(tmp_path / "result.npz")
    np.testing.assert_array_equal(again.coef, result.coef)
    np.testing.assert_array_equal(again.dual_weights, result.dual_weights)
    np.testing.assert_array_equal(again.history["gap"], result.history["gap"])
    assert again.status is result.status
    assert again.check(X, y).is_valid


def test_check_sees_a_wrong_certificate():
    X, y = planted(50, 4, 0.1, 10)
    result = prgd.max_margin(X, y)
    c = result.certificate
    wrong_weights = replace(c.dual_weights, values=-c.dual_weights.values)
    with pytest.raises(prgd.core.errors.CrossedBoundsError, match="exceeds the upper bound"):
        replace(c, lower=c.lower * 1.01)
    for changes in (
        {"lower": c.lower * 1.01, "upper": c.upper * 1.02},
        {"upper": c.upper * 0.99, "lower": c.lower * 0.98},
        {"dual_weights": wrong_weights},
    ):
        assert not replace(result, certificate=replace(c, **changes)).check(X, y).is_valid
    assert result.is_separable
    at = prgd.Problem(X, y, fit_intercept=True).at(result.coef)
    assert at.gamma == pytest.approx(result.margin, rel=1e-12)


def test_a_steep_spectrum_with_random_labels_is_certified_in_few_passes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 1100)) * np.arange(1, 1101.0) ** -1.2
    result = prgd.max_margin(X, rng.random(1000) < 0.5, max_passes=60)
    assert result.status is Status.CERTIFIED


def test_a_weight_that_rounding_leaves_does_not_bind_its_row(monkeypatch):
    Z, descend = np.random.default_rng(1).standard_normal((60, 100)) / 10.0, hard.descend
    Z[:, 0] = np.linspace(0.2, 0.9, 60)
    best = prgd.max_margin(Z, fit_intercept=False, tol=1e-14)
    support = best.certificate.dual_weights.indices

    def leaving_a_weight(idle, G, group, p, *others):
        found = descend(G, group, p, *others)
        p[idle] = max(p[idle], 1e-18)
        return found

    for idle in np.argsort(Z @ best.w)[support.size :][:3]:  # rows that are nearest to the margin
        monkeypatch.setattr(hard, "descend", partial(leaving_a_weight, idle))
        assert prgd.max_margin(Z, fit_intercept=False, tol=1e-14).status is Status.CERTIFIED
