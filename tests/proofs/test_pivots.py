"""R's pivoting in exact arithmetic against elimination in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from prgd.proofs import pivots as module
from prgd.proofs.elimination import short_primes
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.pivots import pivot_columns, relation

PRIME = next(short_primes())


def exact_pivots(Z, order):
    """Return the columns that are independent of those before them, and the factors of the others."""
    basis, kept, factors = [], [], {}
    for j in order:
        column = [Fraction(float(z)) for z in Z[:, j]]
        combination = {}
        for own, row, vector in basis:
            if column[row]:
                k = column[row] / vector[row]
                column = [a - k * b for a, b in zip(column, vector, strict=True)]
                for c, value in own.items():
                    combination[c] = combination.get(c, Fraction(0)) + k * value
        rows = [i for i, value in enumerate(column) if value]
        if rows:
            basis.append(({j: Fraction(1)} | {c: -k for c, k in combination.items()}, rows[0], column))
            kept.append(j)
        else:
            factors[j] = {c: k for c, k in combination.items() if k}
    return kept, factors


def designs(seed):
    rng = np.random.default_rng(seed)
    n, d = rng.integers(1, 14), rng.integers(1, 12)
    kind = seed % 5
    if kind == 0:  # low rank
        r = rng.integers(1, 5)
        return (rng.integers(-2, 3, (n, r)) @ rng.integers(-2, 3, (r, d))).astype(float)
    if kind == 1:  # factors with all their levels
        return np.hstack(
            [np.eye(4)[rng.integers(0, 4, n)], np.eye(3)[rng.integers(0, 3, n)], np.ones((n, 1))]
        )
    if kind == 2:  # sparse, with multiples of rows
        Z = rng.integers(-2, 3, (n, d)) * (rng.random((n, d)) < 0.3) * 1.0
        return np.vstack([Z, -3.0 * Z[::2], Z[::3] / 8.0])
    if kind == 3:  # decimals that are no binary fractions, and multiples of columns
        Z = np.round(rng.random((n, d)) * (rng.random((n, d)) < 0.4), 2)
        return np.hstack([Z, 4.0 * Z[:, ::2], Z[:, ::2]])
    return rng.standard_normal((n, d)) * 2.0 ** rng.integers(-300, 300, (n, 1))


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("seed", range(60))
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
            assert relation(rows, found, j) == expected
