"""The compiled kernel of `prgd.solvers.gram_matrix`, imported on first use."""

from __future__ import annotations

from typing import Any

import numba as nb

_exact = nb.njit(nogil=True, cache=True, fastmath={"contract"})


@_exact
def fill(rows: Any, columns: Any, is_done: Any, first: int, stride: int, G: Any) -> None:
    """Add ``<z_i, z_j>``, j <= i, over the columns not done, for every ``stride``-th i from ``first``.

    ``rows`` and ``columns`` are the same matrix as CSR and as CSC: (data, indices, indptr).
    """
    data, indices, indptr = rows
    column_data, column_rows, column_indptr = columns
    for i in range(first, indptr.size - 1, stride):
        for e in range(indptr[i], indptr[i + 1]):
            c, z = indices[e], data[e]
            if is_done[c]:
                continue
            for f in range(column_indptr[c], column_indptr[c + 1]):
                j = column_rows[f]
                if j > i:
                    break
                G[i, j] += z * column_data[f]
