"""The compiled kernels of `prgd.solvers.gram_matrix`, imported on first use."""

from __future__ import annotations

from typing import Any

import numba as nb

_exact = nb.njit(nogil=True, cache=True, fastmath={"contract"})
_TILE = 32  # rows and columns of a tile of the transposition: two tiles fit in the first-level cache


@_exact
def spread(data: Any, indices: Any, indptr: Any, place: Any, D: Any) -> None:
    """Write the entries of the columns that have a place into D, which holds zeros."""
    for i in range(indptr.size - 1):
        for e in range(indptr[i], indptr[i + 1]):
            if place[indices[e]] >= 0:
                D[i, place[indices[e]]] = data[e]


@_exact
def fill(rows: Any, columns: Any, place: Any, first: int, stride: int, G: Any) -> None:
    """Add ``<z_i, z_j>``, j <= i, over the columns without a place, for every ``stride``-th i from ``first``.

    ``rows`` and ``columns`` are the same matrix as CSR and as CSC: (data, indices, indptr).
    """
    data, indices, indptr = rows
    column_data, column_rows, column_indptr = columns
    for i in range(first, indptr.size - 1, stride):
        for e in range(indptr[i], indptr[i + 1]):
            c, z = indices[e], data[e]
            if place[c] >= 0:
                continue
            for f in range(column_indptr[c], column_indptr[c + 1]):
                j = column_rows[f]
                if j > i:
                    break
                G[i, j] += z * column_data[f]


@_exact
def mirror(G: Any, old: int, new: int) -> None:
    """Copy the products below the diagonal, in rows ``old`` to ``new``, to their transposed place."""
    for a in range(0, new, _TILE):
        for b in range(max(a, old // _TILE * _TILE), new, _TILE):
            for i in range(max(b, old), min(b + _TILE, new)):
                for j in range(a, min(a + _TILE, i)):
                    G[j, i] = G[i, j]
