"""The self-dual interior point: its partition against exact arithmetic, and the verdicts that rest on it."""

import numpy as np
import pytest
import scipy.sparse as sp
from small_problems import FAMILIES, INTEGER, flipped, problem, verdicts_of

from prgd.proofs.column_relations import column_structure
from prgd.proofs.exact_simplex import partition_rows
from prgd.proofs.lifted_rows import LiftedRows
from prgd.regression import separability
from prgd.separation import Verdict, proposals, search
from prgd.solvers.self_dual import self_dual_path


@pytest.fixture
def alone(monkeypatch):
    """Leave the interior point as the only method: no steps, no exact simplex method."""
    monkeypatch.setattr(search, "SMALL_ENTRIES", 0)
    monkeypatch.setattr(search, "STEPS", 1)
    monkeypatch.setattr(proposals, "EXACT_SECONDS", 0.0)


# ------------------------------------------------------------------------------------------------ the path


@pytest.mark.parametrize("seed", [k for k in range(90) if FAMILIES[k % len(FAMILIES)] in INTEGER])
def test_path_ends_at_the_partition(seed):
    _, X, y, _ = problem(seed)
    Z = X * (2 * y - 1)[:, None]
    *_, last = self_dual_path(Z / np.maximum(np.linalg.norm(Z, axis=1), 1.0)[:, None])
    assert (last.p > last.s).tolist() == partition_rows(Z)[0].tolist()


def test_path_is_bounded_and_centred():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((60, 4)) + 0.5
    Z /= np.linalg.norm(Z, axis=1)[:, None]
    points = list(self_dual_path(Z))
    assert len(points) < 30
    for point in points:
        theta = float((Z.T @ point.p) @ Z.sum(axis=0) / (Z.sum(axis=0) @ Z.sum(axis=0)))
        assert np.allclose(point.s, Z @ point.v + theta, atol=1e-9)
        assert np.allclose(Z.T @ point.p, theta * Z.sum(axis=0), atol=1e-9)
        assert min(point.p.min(), point.s.min()) > 0.0
        # <p, s> = theta (sum(p + s) - n theta), and p s is near theta
        assert point.p.sum() + point.s.sum() < 3.0 * len(Z)


def test_zero_and_dependent_columns_do_not_stop_the_path():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((50, 3)) * 0.5
    *_, last = self_dual_path(np.column_stack([Z, np.zeros(50), Z[:, 0] - Z[:, 1], Z[:, 2]]))
    assert (last.p > last.s).all()
    assert np.linalg.norm(Z.T @ last.p) < 1e-9


# --------------------------------------------------------------------------------------------- the verdicts


@pytest.mark.parametrize("count", [72, pytest.param(360, marks=pytest.mark.slow)])
def test_never_wrong_by_interior_point_alone(count, alone):
    words = verdicts_of(range(count))
    assert words["undecided"] <= count // 25  # rows within 1e-8 to 1e-12 of a hyperplane, on its wrong side
    assert min(words["separable"], words["quasi-separable"], words["not separable"]) > count // 8


@pytest.mark.parametrize(
    ("flips", "rare", "word"),
    [
        (0, 0, "separable"),
        (0, 3, "separable"),
        (60, 0, "not separable"),
        (60, 1, "quasi-separable"),
        (60, 4, "quasi-separable"),
    ],
)
def test_flipped_labels_and_rare_features(flips, rare, word, alone):
    X, y = flipped(600, 20, flips, rare=rare)
    for rows in (X, sp.csr_array(X)):
        found = separability(rows, y)
        assert found.verdict == word
        assert found.how.startswith("Found by interior point")
        assert found.check(X, y)
        if found.dual_weights is not None:
            assert found.residual < 1e-12
    if word == "quasi-separable":
        assert found.separated_rows.tolist() == np.flatnonzero(X[:, 20:].any(axis=1)).tolist()


def test_a_chain_of_features_that_occur_in_one_class_once_others_are_left_out(alone):
    # Feature k is non-zero in rows k - 1 and k, of both classes; without row k - 1 it separates row k.
    X, y = flipped(300, 3, 60)
    chain = np.eye(300)[:, :6] + np.eye(300, k=1)[:, :6]
    y[:6] = [1, -1, 1, -1, 1, -1]
    X = np.hstack([X, chain])
    found = separability(X, y)
    assert found.verdict == "quasi-separable"
    assert found.separated_rows.tolist() == list(range(6))
    assert found.check(X, y)


@pytest.mark.parametrize("rare", [0, 3])
def test_a_few_rows_are_enough_if_all_are_too_many(rare, alone, monkeypatch):
    monkeypatch.setattr(proposals, "INTERIOR_WORK", 2e5)
    X, y = flipped(5000, 10, 500, rare=rare)
    found = separability(X, y)
    assert found.verdict == ("quasi-separable" if rare else "not separable")
    assert found.how.startswith("Found by interior point")
    assert found.check(X, y)
    assert np.count_nonzero(found.dual_weights) < 2000


@pytest.mark.parametrize("gap", [1e-7, 1e-9, 1e-11])
def test_tiny_margins_are_seen_later_on_the_path(gap, alone):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 8))
    y = np.where(rng.random(400) < 0.5, -1, 1)
    X[:, 0] = y * (gap + np.where(rng.random(400) < 0.4, 0.0, np.abs(rng.standard_normal(400))))
    found = separability(X @ np.linalg.qr(rng.standard_normal((8, 8)))[0], y, fit_intercept=False)
    assert found.verdict == "separable"
    assert found.how.startswith("Found by interior point")


@pytest.mark.parametrize("limit", ["INTERIOR_WIDTH", "INTERIOR_WORK", "MAX_COPY_ENTRIES"])
def test_limits_of_the_interior_point(limit, alone, monkeypatch):
    monkeypatch.setattr(proposals, limit, 0)
    X, y = flipped(200, 4, 40)
    assert separability(X, y).verdict is Verdict.UNDECIDED


def test_numbers_beyond_the_range_of_the_scaling_are_left_to_others(alone):
    X, y = flipped(200, 4, 40)
    X[0] = 1e-320
    X[:, 0] *= 1e300
    found = separability(X, y)
    assert found.check(X, y)


@pytest.mark.slow
def test_many_columns_with_exact_relations():
    X, y = flipped(1000, 200, 250, rare=1)
    X = np.round(16.0 * X)
    X = np.column_stack([X, X[:, 3], X[:, 4] - 2.0 * X[:, 5]])
    found = separability(X, y)
    assert found.verdict == "quasi-separable"
    assert len(found.proof.relations) == 3
    assert found.separated_rows.size == 1
    assert found.check(X, y)


# ------------------------------------------------------------------------------------- columns of these rows


def test_columns_that_are_zero_need_no_elimination(monkeypatch):
    monkeypatch.setattr("prgd.proofs.column_relations.structure_of", None)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6)) * 10.0 ** rng.integers(-200, 200, 6)
    X[:40, [1, 4]] = 0.0
    rows = LiftedRows(X, np.arange(50) % 2, fit_intercept=True)
    known = column_structure(rows, np.arange(40))
    assert sorted(known.columns) == [0, 2, 3, 5, 6]
    assert known.others == [1, 4]
    assert known.relations == [{1: 1}, {4: 1}]
    assert known.null_vector([3, 5]) == (0, 3, 0, 0, 5, 0, 0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("d", [2, 4, 8])
def test_rows_of_subnormal_numbers_alone_are_decided_without_a_warning(d):
    rng = np.random.default_rng(d)
    X = (rng.random((600, d)) < 0.3).astype(float)
    y = np.where(X @ rng.integers(-3, 4, d) > 0, 1, -1)
    y[0] = -y[1]
    X = np.where(rng.random(X.shape) < 0.05, np.nextafter(X, np.inf), X)  # some zeros become 5e-324
    found = separability(X, y, fit_intercept=False)
    assert found.verdict == "not separable"
    assert found.check(X, y)
