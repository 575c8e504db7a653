"""Gathered rows: dense float64 arrays, SciPy CSR arrays, or float64 tensors on the device of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prgd.core.namespace import like, namespace, to_host
from prgd.core.types import Array, Indices, Signs


def is_sparse(block: Any) -> bool:
    """Say whether gathered rows are CSR."""
    return hasattr(block, "indptr")


def stack_blocks(blocks: Sequence[Any]) -> Any:
    """Put gathered rows below each other: dense if all are, else CSR."""
    if not any(is_sparse(block) for block in blocks):
        return namespace(blocks[0]).vstack(list(blocks))
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack([csr_array(block) for block in blocks]))


def times_signs(block: Any, signs: Signs) -> Any:
    """Turn gathered rows x_i into z_i = y_i x_i, in place."""
    if not is_sparse(block):
        block *= like(block, signs)[:, None]
    else:
        block.data *= np.repeat(signs, np.diff(block.indptr))
    return block


def row_norms(block: Any) -> Array:
    """Return the norms of gathered rows, also if their squares leave the floating range.

    The norm of a row with an entry that is infinite or NaN is one of these.

    Examples
    --------
    >>> row_norms(np.array([[3e-200, 4e-200], [3.0, 4.0], [3e300, 4e300]]))
    array([5.e-200, 5.e+000, 5.e+300])
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = row_squares(block)
        norms = np.sqrt(squares)
        # Entries that count are scaled by a power of two so that their squares lie in the floating range.
        for is_outside, factor in ((squares < 1e-280, 2.0**600), (~(squares < 1e300), 2.0**-600)):
            if is_outside.any():
                norms[is_outside] = np.sqrt(row_squares(block[is_outside] * factor)) / factor
    return norms


def non_finite_entry(block: Any) -> tuple[int, int] | None:
    """Return the row and column of the first entry that is NaN or infinite, None if all are finite."""
    at = np.flatnonzero(~np.isfinite(block if isinstance(block, np.ndarray) else block.data))[:1]
    if at.size == 0:
        return None
    if isinstance(block, np.ndarray):
        row, column = divmod(int(at[0]), block.shape[1])
        return row, column
    return int(np.searchsorted(block.indptr, at[0], side="right")) - 1, int(block.indices[at[0]])


def divide_by_power(block: Any, exponent: int) -> None:
    """Divide gathered rows by ``2**exponent``, in place."""
    values = block.data if is_sparse(block) else block
    for part in (exponent // 2, exponent - exponent // 2):  # each power is in the floating range
        values *= 2.0**-part


def row_squares(block: Any) -> Array:
    """Return the squared norms of gathered rows."""
    if isinstance(block, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", block, block))
    if not is_sparse(block):
        return to_host(namespace(block).linalg.vector_norm(block, dim=1) ** 2)
    # A number after the last one lets an empty row at the end have a start, as reduceat wants.
    sums = np.add.reduceat(np.append(block.data**2, 0.0), block.indptr[:-1])
    return np.where(np.diff(block.indptr) > 0, sums, 0.0)


def pair_rows(X: Any, plus: Indices, minus: Indices, K: int) -> Any:
    """Return ``x_t (x) (e_plus - e_minus)`` for each of the rows x_t, exactly; W is read row by row.

    Examples
    --------
    >>> pair_rows(np.array([[1.0, 2.0]]), np.array([2]), np.array([0]), 3).toarray()
    array([[-1., -2.,  0.,  0.,  1.,  2.]])
    """
    from scipy.sparse import csr_array

    X = csr_array(X)
    counts, d = np.diff(X.indptr), int(X.shape[1])
    first, second = (
        csr_array((X.data, X.indices + np.repeat(k * d, counts), X.indptr), shape=(X.shape[0], K * d))
        for k in (plus, minus)
    )
    return csr_array(first - second)
