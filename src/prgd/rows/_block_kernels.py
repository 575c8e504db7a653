"""Products of a block of rows with vectors, for each kind of storage. Imported on first use, never with prgd.

Margins are ``y_i <w, x_i>`` of rows ``start..start + size``; a sum adds ``c_i x_i`` over the chosen rows of
the block. Margins along two directions take each entry of X once, and those along w are the same bit by bit
as without the other direction.

``fastmath`` names only flags that keep infinities and NaN alive (no ``nnan``, no ``ninf``). Functions that
only kernels call are not cached on disk: the kernel's cache holds their code.
"""

from typing import Any

import numba as nb
import numpy as np

from prgd.rows import _compiling  # noqa: F401 - says on a terminal that kernels are compiled
from prgd.rows.arrays import ROWS

SAFE = {"reassoc", "contract", "nsz", "arcp"}
# Divisions are as in NumPy: Python's checks for zero would be compiled into every one of them.
jit = nb.njit(nogil=True, cache=True, fastmath=SAFE, error_model="numpy")
exact_jit = nb.njit(nogil=True, cache=True, error_model="numpy")
inner_jit = nb.njit(nogil=True, fastmath=SAFE, error_model="numpy")
inline_jit = nb.njit(nogil=True, fastmath=SAFE, error_model="numpy", inline="always")
inner_vector_jit = nb.njit(nogil=True, fastmath={"contract"}, error_model="numpy")
inner_exact_jit = nb.njit(nogil=True, error_model="numpy")


@inner_jit
def dense_margins(X: Any, y: Any, w: Any, start: int, size: int, m: Any) -> None:
    # One row is read at a time: several streams at once were slower if a row is a power of two long.
    for i in range(size):
        total = 0.0
        for j in range(w.size):
            total += X[start + i, j] * w[j]
        m[i] = y[start + i] * total


@inner_jit
def dense_two_margins(X: Any, y: Any, w: Any, v: Any, start: int, size: int, m: Any, second: Any) -> None:
    for i in range(size):
        total, along_v = 0.0, 0.0
        for j in range(w.size):
            total += X[start + i, j] * w[j]
            along_v += X[start + i, j] * v[j]
        m[i], second[i] = y[start + i] * total, y[start + i] * along_v


@inner_jit
def dense_add(X: Any, start: int, chosen: Any, count: int, c: Any, vector: Any) -> None:
    # Four rows are added at a time, which needs a quarter of the loads and stores of `vector`.
    k = 0
    while k + 4 <= count:
        a0, a1, a2, a3 = chosen[k], chosen[k + 1], chosen[k + 2], chosen[k + 3]
        c0, c1, c2, c3 = c[a0], c[a1], c[a2], c[a3]
        i0, i1, i2, i3 = start + a0, start + a1, start + a2, start + a3
        for j in range(vector.size):
            vector[j] += (c0 * X[i0, j] + c1 * X[i1, j]) + (c2 * X[i2, j] + c3 * X[i3, j])
        k += 4
    while k < count:
        i0, c0 = start + chosen[k], c[chosen[k]]
        for j in range(vector.size):
            vector[j] += c0 * X[i0, j]
        k += 1


# Indices are unsigned: signed ones may count from the end, and testing each of them took half of the time.
@inline_jit
def _csr_dot(data: Any, indices: Any, first: Any, last: Any, w: Any) -> float:
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    t0, t1, t2, t3, q = 0.0, 0.0, 0.0, 0.0, first
    for _ in range((last - first) // four):
        t0 += data[q] * w[np.uint64(indices[q])]
        t1 += data[q + one] * w[np.uint64(indices[q + one])]
        t2 += data[q + two] * w[np.uint64(indices[q + two])]
        t3 += data[q + three] * w[np.uint64(indices[q + three])]
        q += four
    for rest in range(q, last):
        t0 += data[rest] * w[np.uint64(indices[rest])]
    return (t0 + t1) + (t2 + t3)


@inline_jit
def _csr_scatter(data: Any, indices: Any, first: Any, last: Any, c: float, vector: Any) -> None:
    # Four loads come before four stores: no column comes twice in a row, which the compiler cannot know.
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    q = first
    for _ in range((last - first) // four):
        j0, j1 = np.uint64(indices[q]), np.uint64(indices[q + one])
        j2, j3 = np.uint64(indices[q + two]), np.uint64(indices[q + three])
        v0, v1 = vector[j0] + c * data[q], vector[j1] + c * data[q + one]
        v2, v3 = vector[j2] + c * data[q + two], vector[j3] + c * data[q + three]
        vector[j0], vector[j1], vector[j2], vector[j3] = v0, v1, v2, v3
        q += four
    for rest in range(q, last):
        vector[np.uint64(indices[rest])] += c * data[rest]


@inner_vector_jit
def _csr_margins(data: Any, indices: Any, indptr: Any, y: Any, w: Any, start: int, size: int, m: Any) -> None:
    for i in range(start, start + size):
        m[i - start] = y[i] * _csr_dot(data, indices, np.uint64(indptr[i]), np.uint64(indptr[i + 1]), w)


@inner_vector_jit
def csr_two_margins(
    data: Any, indices: Any, indptr: Any, y: Any, pairs: Any, start: int, size: int, m: Any, second: Any
) -> None:
    # Both numbers of a column lie side by side in `pairs`, so that the second comes with the first.
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    for i in range(start, start + size):
        q, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        t0, t1, t2, t3, v0, v1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for _ in range((last - q) // four):
            j0, j1 = np.uint64(indices[q]), np.uint64(indices[q + one])
            j2, j3 = np.uint64(indices[q + two]), np.uint64(indices[q + three])
            t0 += data[q] * pairs[j0, 0]
            t1 += data[q + one] * pairs[j1, 0]
            t2 += data[q + two] * pairs[j2, 0]
            t3 += data[q + three] * pairs[j3, 0]
            v0 += data[q] * pairs[j0, 1]
            v1 += data[q + one] * pairs[j1, 1]
            v0 += data[q + two] * pairs[j2, 1]
            v1 += data[q + three] * pairs[j3, 1]
            q += four
        for rest in range(q, last):
            j0 = np.uint64(indices[rest])
            t0 += data[rest] * pairs[j0, 0]
            v0 += data[rest] * pairs[j0, 1]
        m[i - start], second[i - start] = y[i] * ((t0 + t1) + (t2 + t3)), y[i] * (v0 + v1)


@inner_vector_jit
def csr_some_margins(
    data: Any, indices: Any, indptr: Any, y: Any, w: Any, start: int, chosen: Any, count: int, m: Any
) -> None:
    for k in range(count):
        i = start + chosen[k]
        m[chosen[k]] = y[i] * _csr_dot(data, indices, np.uint64(indptr[i]), np.uint64(indptr[i + 1]), w)


@inner_vector_jit
def _csr_add(
    data: Any, indices: Any, indptr: Any, start: int, chosen: Any, count: int, c: Any, vector: Any
) -> None:
    for k in range(count):
        i = start + chosen[k]
        _csr_scatter(data, indices, np.uint64(indptr[i]), np.uint64(indptr[i + 1]), c[chosen[k]], vector)


@inner_jit
def block_margins(A: Any, y: Any, w: Any, start: int, size: int, m: Any) -> None:
    """Write the margins of a block of rows along w."""
    if len(A) == ROWS:
        dense_margins(A[0], y, w, start, size, m)
    else:
        _csr_margins(A[0], A[1], A[2], y, w, start, size, m)


@inner_jit
def add_rows(A: Any, start: int, chosen: Any, count: int, c: Any, vector: Any) -> None:
    """Add ``c_i x_i`` over the chosen rows of a block."""
    if len(A) == ROWS:
        dense_add(A[0], start, chosen, count, c, vector)
    else:
        _csr_add(A[0], A[1], A[2], start, chosen, count, c, vector)
