"""R's pivoting in exact arithmetic against elimination in fractions."""

from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from scipy.sparse import csr_array
from separation.oracle import aliased_columns

from prgd.proofs import pivots as module
from prgd.proofs.elimination import Elimination, eliminated, residues, short_primes
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.pivots import combinations, filled_rows, pivot_columns, proportional_rows

PRIME = next(short_primes())


def exact_pivots(Z, order):
    """Return the columns that are independent of those before them, and the factors of the others."""
    order = list(order)
    aliased = aliased_columns(Z[:, order].tolist())
    factors = {order[j]: {order[c]: k for c, k in made.items()} for j, made in aliased.items()}
    return [j for j in order if j not in factors], factors


def designs(seed):
    rng = np.random.default_rng(seed)
    n, d = rng.integers(1, 14), rng.integers(1, 12)
    kind = seed % 5
    if kind == 0:  # low rank
        r = rng.integers(1, 5)
        return (rng.integers(-2, 3, (n, r)) @ rng.integers(-2, 3, (r, d))).astype(float)
    if kind == 1:  # factors with all their levels
        factors = [np.eye(levels)[rng.integers(0, levels, n)] for levels in (4, 3)]
        return np.hstack([*factors, np.ones((n, 1))])
    if kind == 2:  # sparse, with multiples of rows
        Z = rng.integers(-2, 3, (n, d)) * (rng.random((n, d)) < 0.3) * 1.0
        return np.vstack([Z, -3.0 * Z[::2], Z[::3] / 8.0])
    if kind == 3:  # decimals that are no binary fractions, and multiples of columns
        Z = np.round(rng.random((n, d)) * (rng.random((n, d)) < 0.4), 2)
        return np.hstack([Z, 4.0 * Z[:, ::2], Z[:, ::2]])
    return rng.standard_normal((n, d)) * 2.0 ** rng.integers(-300, 300, (n, 1))


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_pivots_are_those_of_fractions(seed, few, monkeypatch):
    if few:
        monkeypatch.setattr(module, "_MAX_ENTRIES", 0)
    rng = np.random.default_rng(seed)
    Z = designs(seed)
    if few:  # a row that alone tells two columns apart lies between those that are taken first
        Z = np.vstack([Z[:1].repeat(50, axis=0), Z, Z[-1:].repeat(50, axis=0)])
    order = rng.permutation(Z.shape[1])
    kept, factors = exact_pivots(Z, order)
    for X in (Z, csr_array(Z)):
        rows = LiftedRows(X, None, fit_intercept=False)
        found = pivot_columns(rows, order)
        assert found.kept == kept
        assert found.aliased == list(factors)
        assert len(found.rows) == len(kept)
        assert exact_pivots(Z[found.rows], kept)[0] == kept
        for j, expected in factors.items():
            assert combinations(rows, found, [j])[0] == expected


@pytest.mark.parametrize("shape", [(90, 70), (50, 100), (300, 600)])
def test_elimination_by_panels_is_that_by_single_columns(shape):
    rng = np.random.default_rng(0)
    matrix = rng.integers(-PRIME // 2, PRIME // 2, shape).astype(float)
    matrix[:, 40:45] = matrix[:, :5]
    matrix[:, 7] = 0.0
    matrix[30:40] = matrix[:10]
    single, (whole, kept) = Elimination(shape[0], PRIME), eliminated(matrix, PRIME)
    assert kept == [j for j in range(shape[1]) if single.add(matrix[:, [j]])[0]]
    assert len(kept) == min(shape[0] - 10, shape[1] - 6)
    unit = np.zeros((shape[0], len(kept)))
    unit[whole.pivots, np.arange(len(kept))] = 1.0
    assert np.array_equal(whole.reduce(matrix[:, kept]), unit)
    unit = [float(k == 2) for k in range(len(kept))]
    assert whole.reduce(matrix[:, [42]])[whole.pivots, 0].tolist() == unit


def test_columns_that_fill_some_rows():
    rng = np.random.default_rng(1)
    Z = rng.integers(-3, 4, (60, 40)).astype(float)
    rows, columns = rng.permutation(60)[:10], rng.permutation(40)[:10]
    Z[np.ix_(np.setdiff1d(np.arange(60), rows), columns)] = 0.0
    found = filled_rows(csr_array((Z.T != 0.0) * 1.0))
    assert sorted(found[0]) == sorted(columns)
    assert sorted(found[1]) == sorted(rows)


def test_long_combinations_are_proven_by_columns_that_fill_rows(monkeypatch):
    monkeypatch.setattr(module, "_MAX_TERMS", 3)
    monkeypatch.setattr(module, "MAX_TERMS", 20)
    rng = np.random.default_rng(2)
    corner = np.tril(rng.integers(1, 9, (20, 20))).astype(float)
    Z = np.zeros((30, 24))
    Z[:20, :20], Z[20:, 20:22] = corner, rng.integers(1, 9, (10, 2))
    Z[:, 22] = Z[:, :22].sum(axis=1)
    found = pivot_columns(LiftedRows(csr_array(Z), None, fit_intercept=False), range(24))
    assert found.aliased == [22, 23]


def test_primes_are_prime():
    found = [p for p, _ in zip(short_primes(), range(20), strict=False)]
    assert found[0] < 2**23
    assert all(all(p % q for q in range(2, 2900)) for p in found)
    assert sorted(set(found), reverse=True) == found


def test_residues_of_binary_fractions():
    near_one = 1.0 - np.arange(1, 200) * 2.0**-53  # their integers of 53 bits are next to 2**53
    values = np.array([0.1, -3.0, 2.0**-1074, 2.0**1000, 0.0, 1e300, *near_one])
    for prime in islice(short_primes(), 20):
        for value, residue in zip(values, residues(values, prime), strict=True):
            exact = Fraction(float(value))
            assert (int(residue) * exact.denominator - exact.numerator) % prime == 0
            assert abs(residue) <= prime / 2 + 1


def test_rows_that_are_multiples_in_floats_only_are_told_apart():
    Z = csr_array(np.array([[0.1, 0.2], [0.3, 0.6], [3.0, 6.0], [-0.2, -0.4], [0.0, 5.0], [0.0, 7.0]]))
    exact = [Fraction(float(a)) / Fraction(float(b)) for a, b in Z.toarray()[:4]]
    first = proportional_rows(Z).tolist()
    assert first == [*(exact.index(k) for k in exact), 4, 4]
    assert len(set(first[:4])) > 1 or len(set(exact)) == 1


def test_only_some_rows():
    rows = LiftedRows([[1.0, 1.0], [2.0, 2.0], [1.0, 0.0], [2.0, 2.0]], [1, -1, 1, -1], fit_intercept=True)
    assert pivot_columns(rows, [2, 0, 1]).kept == [2, 0, 1]
    found = pivot_columns(rows, [2, 0, 1], np.array([0, 1, 3]))
    assert (found.kept, found.aliased) == ([2, 0], [1])
    assert combinations(rows, found, [1])[0] == {0: 1}
    nothing = pivot_columns(rows, [2, 0, 1], np.empty(0, np.int64))
    assert (nothing.kept, nothing.aliased) == ([], [2, 0, 1])
    assert combinations(rows, nothing, [0])[0] == {}


def test_long_combinations_are_proven_by_relations_between_rows(monkeypatch):
    monkeypatch.setattr(module, "_MAX_TERMS", 3)
    rng = np.random.default_rng(2)
    Z = rng.integers(1, 9, (12, 20)).astype(float)
    Z[11] = Z[3] - 2.0 * Z[5]
    found = pivot_columns(LiftedRows(Z, None, fit_intercept=False), range(20))
    assert found.kept == exact_pivots(Z, range(20))[0] == list(range(11))


def test_no_proof_no_pivots(monkeypatch):
    monkeypatch.setattr(module, "_MAX_TERMS", 1)
    rng = np.random.default_rng(2)
    Z = rng.integers(1, 99, (12, 5)).astype(float)
    Z[:, 4] = Z[:, :4] @ np.array([1.0, 2.0, 4.0, -8.0])
    assert pivot_columns(LiftedRows(Z, None, fit_intercept=False), range(5)) is None
