"""The proofs one by one: weights, directions, relations between columns, and exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from small_problems import problem

from prgd.core.arithmetic import SMALLEST, exact_dot
from prgd.proofs import directions
from prgd.proofs.column_relations import column_structure, rows_obeying, structure_of
from prgd.proofs.directions import smallest_margin
from prgd.proofs.exact_simplex import partition_rows
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.modular import IntegerMatrix, independent_rows, solve_rational, vanishes
from prgd.proofs.weights import Proof, absorbs_residual, completed_weights, refined_weights, weights_prove


@pytest.mark.parametrize("seed", range(20))
def test_no_weights_are_accepted_for_separable_rows(seed):
    rng = np.random.default_rng(seed)
    gap = 10.0 ** -rng.integers(1, 15)
    X, w = rng.standard_normal((40, 4)), rng.standard_normal(4)
    w /= np.linalg.norm(w)
    Z = X + np.outer(gap - X @ w, w)
    if smallest_margin(LiftedRows(Z, None, fit_intercept=False), w).margin <= 0.0:
        pytest.skip("rounding has moved a row to the other side")
    _, _, directions = np.linalg.svd(Z.T, full_matrices=True)
    for p in (np.full(40, 1.0), np.abs(directions[-1]), rng.random(40)):
        p = p + 1e-3
        assert not absorbs_residual(Z, p)
        assert not absorbs_residual(Z, refined_weights(Z, p))


def test_absorbing_needs_full_rank_and_positive_weights():
    Z = np.array([[1.0, 2.0], [-1.0, -2.0], [0.5, 1.0]])
    assert not absorbs_residual(Z, np.array([1.0, 2.0, 2.0]))  # rank 1
    assert absorbs_residual(Z[:, :1], np.array([1.0, 2.0, 2.0]))
    assert not absorbs_residual(Z[:, :1], np.array([1.0, 0.0, 2.0]))
    assert not absorbs_residual(Z[:1], np.ones(1))
    assert absorbs_residual(np.empty((3, 0)), np.ones(3))
    assert not absorbs_residual(np.zeros((3, 1)), np.ones(3))

    assert not absorbs_residual(np.array([[1e300], [1e-300], [-1e300]]), np.ones(3))
    assert refined_weights(np.zeros((3, 1)), np.ones(3)).tolist() == [1.0] * 3
    assert refined_weights(np.array([[1e300], [1e-300]]), np.ones(2)).tolist() == [1.0] * 2
    assert refined_weights(np.array([[1.0], [2.0]]), np.ones(2)).tolist() == [1.0] * 2


@pytest.mark.parametrize("seed", range(30))
def test_margins_near_zero_get_their_true_sign(seed):
    rng = np.random.default_rng(seed)
    X, v = rng.standard_normal((12, 6)), rng.standard_normal(6)
    X[:, 5] = -(X[:, :5] @ v[:5]) / v[5]  # zero but for rounding
    rows = LiftedRows(X, None, fit_intercept=False)
    direction = [Fraction(float(x)) for x in v]
    true = [exact_dot(x, direction) for x in X]
    found = smallest_margin(rows, v)
    assert (found.margin > 0.0) == (min(true) > 0)
    assert found.margin <= min(true)
    good = np.array([i for i, m in enumerate(true) if m > 0], np.int64)
    if good.size:
        some = smallest_margin(rows, v, index=good)
        assert 0.0 < some.margin <= min(true[i] for i in good)


def test_margins_of_directions_beyond_the_floating_range():
    rows = LiftedRows([[1.0, 1.0], [0.0, 1.0]], None, fit_intercept=False)
    tiny = (Fraction(1), Fraction(1, 2**1200))
    found = smallest_margin(rows, np.array([1.0, 0.0]), tiny)
    assert found == (SMALLEST, 2)
    huge = (Fraction(2**1200), Fraction(2**1201))
    assert smallest_margin(rows, np.array([np.inf, np.inf]), huge).margin == np.finfo(float).max
    negative = (Fraction(-(2**1200)), Fraction(-1))
    assert smallest_margin(rows, np.array([-np.inf, -1.0]), negative).margin == -np.inf


def test_exact_margins_have_a_budget(monkeypatch):
    monkeypatch.setattr(directions, "MAX_EXACT_ENTRIES", 1)
    rows = LiftedRows([[1.0, -1.0], [2.0, -2.0]], None, fit_intercept=False)
    assert smallest_margin(rows, np.ones(2)).margin == -np.inf


def test_exact_weights_that_do_not_span_need_relations():
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    rows = LiftedRows(X, None, fit_intercept=False)
    p = np.array([0.5, 0.5, 0.0, 0.0])
    proof = Proof(weights={0: 1, 1: 1}, relations=({1: Fraction(1)},))
    assert weights_prove(rows, np.array([0, 1]), p, Proof(weights={0: 1, 1: 1}))
    assert weights_prove(rows, np.array([0, 1, 2]), p, proof)
    assert not weights_prove(rows, np.array([0, 1, 2]), p, Proof(weights={0: 1, 1: 1}))
    assert not weights_prove(rows, np.array([0, 1, 2, 3]), p, proof)
    assert not weights_prove(rows, np.array([0, 1]), p, Proof(weights={0: 1, 1: 2}))
    assert not weights_prove(rows, np.array([0, 1]), p, Proof(weights={0: -1, 1: -1}))
    assert not weights_prove(rows, np.array([0]), p, proof)


def test_relations_between_columns():
    rng = np.random.default_rng(0)
    X = rng.integers(-5, 6, (200, 3)).astype(float)
    X = np.column_stack([X, X[:, 0] - 3.0 * X[:, 1], np.zeros(200)])
    X[150, 4] = 1.0  # not among the rows that are looked at first
    rows = LiftedRows(X, None, fit_intercept=False)
    known = column_structure(rows, np.arange(200))
    assert len(known.columns) == 4
    assert rows_obeying(rows, known.relations, np.arange(200)).size == 200
    few = column_structure(rows, np.arange(150))
    assert len(few.columns) == 3
    assert rows_obeying(rows, few.relations, np.arange(200)).tolist() == [i for i in range(200) if i != 150]
    # irrational ones would need long numbers: they are given up, and found where none are wanted
    Z = rng.standard_normal((6, 3)) @ rng.integers(-3, 4, (3, 5))
    assert structure_of(Z, range(5), 0).relations is None or len(structure_of(Z, range(5), 0).columns) == 5


def test_relations_with_long_numbers_do_not_repeat_the_same_rows_forever(monkeypatch):
    # 16 rows in 17 columns, 20 copies of each: the relation between the columns needs more than 8 primes
    X = np.repeat(np.random.default_rng(0).standard_normal((16, 17)), 20, axis=0)
    calls = []

    def counted(*given):
        calls.append(len(given[0]))
        assert len(calls) < 10
        return structure_of(*given)

    monkeypatch.setattr("prgd.proofs.column_relations.structure_of", counted)
    known = column_structure(LiftedRows(X, None, fit_intercept=False), np.arange(320))
    assert (len(known.columns), known.relations) == (16, None)
    assert calls[-1] == 320
    assert calls == sorted(set(calls))


def test_completed_weights_balance_exactly():
    rng = np.random.default_rng(0)
    half = rng.standard_normal((4, 10))
    Z = np.vstack([half, -half])  # wide: four pairs that cancel
    known = structure_of(Z, range(10), 0)
    assert known.relations is None
    whole = completed_weights(Z, known, np.ones(8))
    assert vanishes(Z.T, whole).all()
    assert completed_weights(half, structure_of(half, range(10), 0), np.ones(4)) is None


# --------------------------------------------------------------------------------------- exact arithmetic


@pytest.mark.parametrize("seed", range(10))
def test_zero_tests_agree_with_fractions(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((6, 4)) * 2.0 ** rng.integers(-200, 200, (6, 4))
    k = [int(x) for x in rng.integers(-(10**9), 10**9, 4)]
    A[:3, 3] = 0.0
    A[0, :3] = 0.0
    A[1, :3] = [k[1], -k[0], 0.0]
    true = [sum(Fraction(float(a)) * c for a, c in zip(row, k, strict=True)) == 0 for row in A]
    assert vanishes(A, k).tolist() == true
    assert true[:2] == [True, True]
    matrix = IntegerMatrix.from_floats(A, by_columns=True)
    powers = [[Fraction(2) ** int(r + c) for c in matrix.columns] for r in matrix.rows]
    back = matrix.integers() * np.array(powers)
    assert (back == np.vectorize(Fraction)(A)).all()


@pytest.mark.parametrize("seed", range(5))
def test_linear_systems_are_solved_exactly(seed):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((5, 5)), rng.standard_normal((5, 2))
    (x,) = solve_rational(A, B, [[3, -1]])
    for row, right in zip(A, B, strict=True):
        assert exact_dot(row, x) == exact_dot(right, [Fraction(3), Fraction(-1)])
    assert solve_rational(A, B, [[3, -1]], max_digits=3) is None
    A[4] = 2.0 * A[0]
    assert solve_rational(A, B, [[3, -1]]) is None


def test_rank_is_bounded_from_below():
    assert len(independent_rows(np.outer([1.0, 2.0], [0.1, 0.7]))) == 1
    assert len(independent_rows(np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0]]))) == 2


@pytest.mark.parametrize("seed", range(20))
def test_partition_is_strictly_complementary(seed):
    _, X, y, _ = problem(seed)
    Z = X * (2 * y - 1)[:, None]
    boundary, weights, direction = partition_rows(Z)
    margins = [exact_dot(z, direction) for z in Z]
    for on, p, m in zip(boundary, weights, margins, strict=True):
        assert (p > 0 and m == 0) if on else (p == 0 and m > 0)
    assert vanishes(Z.T, weights).all()


def test_partition_gives_up_when_told():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((40, 6))
    assert partition_rows(Z, max_pivots=6) is None
    assert partition_rows(Z, order=range(39, -1, -1))[0].all()
