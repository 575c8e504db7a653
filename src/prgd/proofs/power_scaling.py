"""Scaling of rows and columns by powers of two, which is exact and changes the sign of no margin."""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd.core.types import Array, Indices

# Entries and weights above 2**-400 are far from underflow, so that products of two of them split exactly.
_FAR_FROM_UNDERFLOW = 2.0**-400


def balance_weighted(Z: Array, p: Array) -> tuple[Array, Array] | None:
    """Scale columns, and rows against their weights, by powers of two, so that ``Z^T p`` keeps its zeros.

    The answer is None if the scaling is not exact, or leaves entries near underflow.
    """
    with np.errstate(over="ignore", under="ignore"):
        columns = np.frexp(np.abs(Z * p[:, None]).max(axis=0, initial=0.0))[1]
        scaled = np.ldexp(Z, -columns)
        rows = np.frexp(np.abs(scaled).max(axis=1, initial=0.0))[1]
        scaled = np.ldexp(scaled, -rows[:, None])
        back = np.ldexp(np.ldexp(scaled, rows[:, None]), columns)
        weights = np.ldexp(p, rows)
        shift = int(np.frexp(weights.max())[1])
        weights = np.ldexp(weights, -shift)
        exact = np.array_equal(back, Z) and np.array_equal(np.ldexp(np.ldexp(weights, shift), -rows), p)
    smallest = min(float(weights.min()), float(np.abs(scaled[scaled != 0.0]).min(initial=1.0)))
    return (scaled, weights) if exact and smallest > _FAR_FROM_UNDERFLOW else None


def balance_sparse(Z: Any, *, by_columns: bool = True) -> tuple[Any, Indices, Indices]:
    """Return ``2**r_i Z_ij 2**c_j`` of a CSR array, with rows (and columns) of similar size, and r and c."""
    n, d = Z.shape
    row_of = np.repeat(np.arange(n), np.diff(Z.indptr))
    data = np.array(Z.data)
    rows, columns = np.zeros(n, np.int64), np.zeros(d, np.int64)
    for groups, powers in ((Z.indices, columns), (row_of, rows)) if by_columns else ((row_of, rows),):
        # The largest entry goes to [1/2, 1) first, so that no square leaves the floating range.
        largest = np.zeros(powers.size)
        np.maximum.at(largest, groups, np.abs(data))
        powers -= np.frexp(largest)[1]
        squares = np.zeros(powers.size)
        np.add.at(squares, groups, np.ldexp(data, powers[groups]) ** 2)
        if powers is columns:
            squares /= np.maximum(np.bincount(groups, minlength=d), 1)
        powers -= np.round(0.5 * np.log2(np.where(squares > 0.0, squares, 1.0))).astype(np.int64)
        data = np.ldexp(data, powers[groups])
    return type(Z)((data, Z.indices, Z.indptr), shape=Z.shape), rows, columns


def balance_dense(Z: Array) -> tuple[Array, Indices, Indices]:
    """Return ``2**r_i Z_ij 2**c_j`` of a dense array, scaled as by `balance_sparse`, and r and c.

    Examples
    --------
    >>> balance_dense(np.array([[4.0, 0.0], [8.0, 1e-3]]))[1:]
    (array([ 1, -1]), array([-3, 10]))
    """
    columns = _powers_to_unit(Z, 0, np.count_nonzero(Z, axis=0))
    scaled = np.ldexp(Z, columns)
    rows = _powers_to_unit(scaled, 1, 1)
    return np.ldexp(scaled, rows[:, None], out=scaled), rows, columns


def _powers_to_unit(Z: Array, axis: int, counts: Any) -> Indices:
    """Return the powers of two that bring sums of squares along an axis, over ``counts``, near 1."""
    # The largest entry goes to [1/2, 1) first, so that no square leaves the floating range.
    largest = np.maximum(Z.max(axis=axis, initial=0.0), -Z.min(axis=axis, initial=0.0))
    powers: Indices = -np.frexp(largest)[1].astype(np.int64)
    scaled = np.ldexp(Z, np.expand_dims(powers, axis))
    squares = np.einsum("ij,ij->j" if axis == 0 else "ij,ij->i", scaled, scaled) / np.maximum(counts, 1)
    powers -= np.round(0.5 * np.log2(np.where(squares > 0.0, squares, 1.0))).astype(np.int64)
    return powers
