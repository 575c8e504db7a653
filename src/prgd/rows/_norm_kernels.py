"""Numba kernels that check rows, write their norms and hash them. Imported on first use, never with prgd."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prgd.rows._compile import exact_jit, inner_exact_jit, inner_jit
from prgd.rows.arrays import CSR, ROWS

MAX_FLOAT = 1.7976931348623157e308
FAR = 2.0**600  # a power of two, so that scaling by it is exact
HALF, WIDTH = np.uint64(0xFFFFFFFF), np.uint64(32)  # masks and shifts of the halves of 64 bits


@exact_jit
def measure(A: Any, first: int, last: int, norms: Any) -> int:
    """Write the norm of rows ``first..last``; return the first row that is not finite, else -1."""
    for i in range(first, last):
        total = _row_square(A, i)
        if 1e-280 < total < 1e300:  # all entries are finite, and none that counts underflowed
            norms[i] = math.sqrt(total)
            continue
        largest, total = _row_size(A, i, 1.0)
        if not largest <= MAX_FLOAT or not total >= 0.0:
            return i
        # The squares left the floating range, and scaled entries have squares inside it.
        factor = FAR if largest < 1.0 else 1.0 / FAR
        _, total = _row_size(A, i, factor)
        norms[i] = math.sqrt(total) / factor
    return -1


@inner_jit
def _row_square(A: Any, i: int) -> float:
    """Return the sum of the squares of row i, as fast as it can be read."""
    if len(A) == CSR:
        return _square(A[0][A[2][i] : A[2][i + 1]])
    if len(A) == ROWS:
        return _square(A[0][i])
    return _square(A[1][i])


@inner_jit
def _square(values: Any) -> float:
    a, b, c, d = 0.0, 0.0, 0.0, 0.0  # four sums, since one would wait for each addition
    whole = values.size // 4 * 4
    for k in range(0, whole, 4):
        a += np.float64(values[k]) * values[k]
        b += np.float64(values[k + 1]) * values[k + 1]
        c += np.float64(values[k + 2]) * values[k + 2]
        d += np.float64(values[k + 3]) * values[k + 3]
    for k in range(whole, values.size):
        a += np.float64(values[k]) * values[k]
    return (a + b) + (c + d)


@inner_jit
def _row_size(A: Any, i: int, factor: float) -> tuple[float, float]:
    """Return the largest absolute entry of row i, times ``factor``, and the sum of (entry * factor)^2."""
    if len(A) == CSR:
        return _size(A[0][A[2][i] : A[2][i + 1]], factor)
    if len(A) == ROWS:
        return _size(A[0][i], factor)
    return _size(A[1][i], factor)


@inner_jit
def _size(values: Any, factor: float) -> tuple[float, float]:
    largest, total = 0.0, 0.0
    for k in range(values.size):
        value = abs(values[k] * factor)
        # NaN and infinity fail the comparison, so `largest` keeps them.
        largest = largest if value <= largest else value
        total += value * value
    return largest, total


@exact_jit
def hash_rows(A: Any, low: Any, high: Any, zero: Any, first: int, last: int, index: int) -> Any:
    """Return the sum of the hashes of rows ``first..last``; ``index`` is what row 0 counts as.

    ``low``, ``high`` are the keys of `prgd.rows.fingerprint`, and ``zero`` the products of a row of zeros.
    """
    total = np.uint64(0)
    for i in range(first, last):
        if len(A) == CSR:
            start, stop = A[2][i], A[2][i + 1]
            h = _sparse_hash(A[0][start:stop], A[1][start:stop], low, high)
        elif len(A) == ROWS:
            h = _dense_hash(A[0][i], low, high) - zero
        else:
            h = _dense_hash(A[1][i], low, high) - zero
        total += _mix(h ^ _mix(np.uint64(i + index + 1)))
    return total


@inner_exact_jit
def _dense_hash(values: Any, low: Any, high: Any) -> Any:
    h = np.uint64(0)
    for k in range(values.size):
        bits = np.float64(np.float64(values[k]) + 0.0).view(np.uint64)
        h += ((bits + low[k]) & HALF) * (((bits >> WIDTH) + high[k]) & HALF)
    return h


@inner_exact_jit
def _sparse_hash(values: Any, columns: Any, low: Any, high: Any) -> Any:
    h = np.uint64(0)
    for k in range(values.size):
        a, b = low[columns[k]], high[columns[k]]
        bits = np.float64(np.float64(values[k]) + 0.0).view(np.uint64)
        h += ((bits + a) & HALF) * (((bits >> WIDTH) + b) & HALF) - a * b
    return h


@inner_exact_jit
def _mix(x: Any) -> Any:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
