"""Gram matrices ``G = Z Z^T`` of dense or CSR rows, extended as rows join."""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd.core.threads import each
from prgd.core.types import Array
from prgd.solvers import minimal

# A column that is filled in more than this fraction of the rows is cheaper in a dense product.
DENSE_FRACTION = 0.15
SMALL_MARGIN = 1e-4  # below this fraction of the largest row norm Gram matrices lose half of the digits
ZERO_MARGIN = 1e-6  # below this fraction of the largest row norm the upper bound may be zero
_MIN_DENSE_COLUMNS = 16  # fewer dense columns are not worth a product of their own
_FEW_NEW_ROWS = 8  # products of so few rows are taken one by one: sorting the columns would cost more


def extend_gram(G: Array, Z: Any, old: int, threads: int = 1) -> None:
    """Write the products of the rows of Z into G, of which the first ``old`` rows and columns are known."""
    new = Z.shape[0]
    if isinstance(Z, np.ndarray):
        dense_products(G, Z, old)
    elif new - old <= _FEW_NEW_ROWS:
        G[old:new, :new] = (Z @ Z[old:].toarray().T).T
    elif minimal.HAS_NUMBA:
        sparse_products(G, Z, old, threads)
    else:
        minimal.sparse_products(G, Z, old, threads)
    if old == 0 and isinstance(Z, np.ndarray):
        return  # BLAS computes D D^T as a symmetric matrix
    # The products with the rows before are copied to their transposed place: with the old rows at once.
    G[:old, old:new] = G[old:new, :old].T
    for i in range(old, new):
        G[old:i, i] = G[i, old:i]


def dense_products(G: Array, D: Array, old: int) -> None:
    """Write the products of the dense rows from ``old`` on with all rows into G."""
    if old == 0 and G.shape == (len(D), len(D)):
        np.matmul(D, D.T, out=G)
    else:
        G[old : len(D), : len(D)] = D[old:] @ D.T


def sparse_products(G: Array, Z: Any, old: int, threads: int) -> None:
    """Write the products of the CSR rows from ``old`` on with the rows before them into G.

    Products are summed column by column over the rows that have an entry there; columns with many entries
    are gathered in a dense matrix and multiplied by BLAS.
    """
    from prgd.solvers import _gram_kernel

    new, by_column = Z.shape[0], Z.tocsc()
    is_dense = np.diff(by_column.indptr) > DENSE_FRACTION * new
    if np.count_nonzero(is_dense) < _MIN_DENSE_COLUMNS:
        is_dense[:] = False
        G[old:new, :new] = 0.0
    else:
        dense_products(G, Z[:, np.flatnonzero(is_dense)].toarray(), old)
    rows = Z.data, Z.indices, Z.indptr
    columns = by_column.data, by_column.indices, by_column.indptr
    each(lambda k: _gram_kernel.fill(rows, columns, is_dense, old + k, threads, G), threads)
