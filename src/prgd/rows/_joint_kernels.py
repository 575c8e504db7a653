"""Numba kernels of all classes jointly: one fused pass over dense or CSR rows. Imported on first use.

As in ``_kernels.py``, a kernel walks slices of the rows block by block: the products of a block with the K
vectors of W, the weights of its pairs, and the weighted sums of the same rows while they are in cache. The
buffer ``S`` holds a number for each class and row of the block: first the products, at last the factors of
x_r in the sum of each class.

Pairs whose weight is below e^-50 of the largest of their row, and rows whose weight is below that of the
largest seen, are left out, as in the kernels of two classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd.rows._compile import inner_jit, jit, tiles
from prgd.rows._joint_weights import FEW_ROWS, clear, weigh, weigh_class
from prgd.rows._kernels import EXPONENTIAL
from prgd.rows._tiles import COLUMNS, LANES, PAIR
from prgd.rows.arrays import COLUMNS as BY_COLUMNS
from prgd.rows.arrays import CSR
from prgd.rows.labels import frozen
from prgd.rows.tally import MASS, SHIFT, SLOPE_MASS, SLOPE_SHIFT

_BLOCK_BYTES, _SORTED_BLOCK_BYTES = 2**17, 2**19  # buffers of a block stay in the second-level cache


def arranged(A: Any, W: Any) -> Any:
    """Return W of shape (K, d) as the kernel takes it, padded with zeros: for CSR rows, it is transposed."""
    W, multiple = (W.T, LANES) if len(A) == CSR else (W, COLUMNS)
    padded = np.zeros((len(W), -(-W.shape[1] // multiple) * multiple))
    padded[:, : W.shape[1]] = W
    return frozen(padded)


def block_of(K: int, d: int, by_class: bool) -> int:
    """Return the number of rows of a block; with groups of classes, each class should have many of them."""
    size = (_SORTED_BLOCK_BYTES if by_class else _BLOCK_BYTES) // (8 * (d + K))
    return min(max(size // PAIR, 2), 64) * PAIR


transpose, sparse_products, sparse_sums = tiles.transpose, tiles.sparse_products, tiles.sparse_sums
# Ten classes take two tiles of 5; every further size of a tile would take time to compile.
_products_5, _products_2, _products_1 = (tiles.product_tile(k) for k in (5, 2, 1))
_sums_5, _sums_2, _sums_1 = (tiles.sum_tile(k, COLUMNS) for k in (5, 2, 1))


@inner_jit
def _pack(A: Any, rows: Any, count: int, d: int, XT: Any, stride: int) -> None:
    """Copy rows, a multiple of LANES, to the transposed buffer."""
    X = A[-1]
    if len(A) == BY_COLUMNS:
        for j in range(d):
            for r in range(count):
                XT[j * stride + r] = A[0][j, rows[r]]
    elif d < LANES or X.strides[1] != X.itemsize:
        for r in range(count):
            for j in range(d):
                XT[j * stride + r] = X[rows[r], j]
    else:
        for r in range(0, count, LANES):
            for j in range(0, d - LANES + 1, LANES):
                transpose(X, rows, r, j, XT, stride)
            if d % LANES:  # the last columns overlap with those before
                transpose(X, rows, r, d - LANES, XT, stride)


@inner_jit
def _products(A: Any, XT: Any, stride: int, count: int, W: Any, K: int, d: int, S: Any, ahead: int) -> None:
    """Write the products of ``count`` rows, a multiple of PAIR, with the vectors of all classes.

    Meanwhile the rows from ``ahead`` on are brought into the cache: PAIR rows of float64 have 2 lines of it
    for every column, and a tile of 5 classes asks for one of them.
    """
    X = A[-1]
    step = 0 if len(A) == BY_COLUMNS else 64 if K > 5 else 128
    for r in range(0, count, PAIR):
        k = 0
        while k < K:
            at = ahead + r + (PAIR // 2 if k >= 5 else 0)
            if K - k >= 5:
                _products_5(XT, r, stride, W, W.size // K, k, d, S, X, at, step)
                k += 5
            elif K - k >= 2:
                _products_2(XT, r, stride, W, W.size // K, k, d, S, X, at, step)
                k += 2
            else:
                _products_1(XT, r, stride, W, W.size // K, k, d, S, X, at, step)
                k += 1


@inner_jit
def _add(XT: Any, stride: int, first: int, last: int, C: Any, K: int, d: int, V: Any) -> None:
    """Add the rows ``first..last`` of the buffer, a multiple of LANES, times their factors to V.

    V has d columns, a multiple of COLUMNS.
    """
    k = 0
    while k < K:
        size = 5 if K - k >= 5 else 2 if K - k >= 2 else 1
        for j in range(0, d, COLUMNS):
            if size == 5:
                _sums_5(XT, j, C, k, stride, first, last, V, d)
            elif size == 2:
                _sums_2(XT, j, C, k, stride, first, last, V, d)
            else:
                _sums_1(XT, j, C, k, stride, first, last, V, d)
        k += size


@inner_jit
def _add_few(A: Any, rows: Any, first: int, last: int, C: Any, V: Any) -> None:
    """Add rows one by one to the vectors of the classes in which they have a factor."""
    X, K = A[-1], C.shape[0]
    for r in range(first, last):
        i = rows[r]
        for k in range(K):
            c, at = C[k, r], k * (V.size // K)
            if c != 0.0:
                for j in range(X.shape[1]):
                    V[at + j] += c * X[i, j]


@inner_jit
def _sort_block(y: Any, start: int, size: int, rows: Any, cuts: Any) -> Any:
    """Order the rows of a block by class, each class padded to LANES rows; return the padded size.

    The rows of class k are at ``cuts[k, 0]..cuts[k, 1]``; what pads them repeats one of them.
    """
    cuts[:] = 0
    for i in range(start, start + size):
        cuts[y[i], 1] += 1
    place: Any = np.int64(0)
    for k in range(cuts.shape[0]):
        count = cuts[k, 1]
        cuts[k, 0] = cuts[k, 1] = place
        place += -(-count // LANES) * LANES
    for i in range(start, start + size):
        rows[cuts[y[i], 1]] = i
        cuts[y[i], 1] += 1
    for k in range(cuts.shape[0]):
        _pad(rows, cuts[k, 0], cuts[k, 1], np.int64(LANES))
    return place


@inner_jit
def _pad(rows: Any, first: int, last: int, multiple: Any) -> Any:
    """Repeat the last of the rows ``first..last`` until their number is a multiple; return the new end."""
    end = first + -(-(last - first) // multiple) * multiple
    for r in range(last, end):
        rows[r] = rows[last - 1]
    return end


@inner_jit
def _multiply(
    A: Any, rows: Any, count: int, W: Any, K: int, d: int, XT: Any, stride: int, S: Any, ahead: int
) -> None:
    """Write the products of ``count`` rows, a multiple of PAIR, with the vectors of all classes to S."""
    if len(A) == CSR:
        width = W.size // d
        for r in range(count):
            start, stop = A[2][rows[r]], A[2][rows[r] + 1]
            for k in range(0, width, LANES):
                sparse_products(A[0], A[1], start, stop, W, width, k, XT)
            for k in range(K):
                S[k * stride + r] = XT[k]
    else:
        _pack(A, rows, count, d, XT, stride)
        _products(A, XT, stride, count, W, K, d, S, ahead)


@inner_jit
def _add_rows(
    A: Any, rows: Any, first: int, count: int, C: Any, S: Any, d: int, XT: Any, is_packed: bool, V: Any
) -> None:
    """Add rows times their factors C to V; S is C as a flat array."""
    K, stride = C.shape
    if len(A) == CSR:
        width = V.size // d
        for r in range(first, first + count):
            start, stop, weight = A[2][rows[r]], A[2][rows[r] + 1], 0.0
            for k in range(width):
                XT[k] = C[k, r] if k < K else 0.0
                weight = max(weight, abs(XT[k]))
            for k in range(0, width if weight != 0.0 else 0, LANES):
                sparse_sums(A[0], A[1], start, stop, XT, k, V, width)
    elif count <= FEW_ROWS:
        _add_few(A, rows, first, first + count, C, V)
    else:
        end = _pad(rows, first, first + count, np.int64(LANES))
        for k in range(K):
            for r in range(first + count, end):
                C[k, r] = 0.0
        if not is_packed:
            _pack(A, rows, end, d, XT, stride)
        _add(XT, stride, first, end, S, K, V.size // K, V)


@jit
def joint_slices(
    A: Any, y: Any, s: Any, W: Any, K: int, d: int, loss: int, block: int,
    bounds: Any, first: int, last: int, scalars: Any, vectors: Any,
) -> None:  # fmt: skip
    """Tally slices ``first..last`` of the storage A with the vectors of K classes.

    ``scalars`` has shape (slices, groups, 6) with one group or K^2, ``vectors`` (slices, 1 or K, *W.shape):
    the sums of each class, or for each class those of its pairs with every class. `arranged` gives W.
    """
    by_class = scalars.shape[1] > 1
    stride = block + PAIR + (K * LANES if by_class else 0) + 8  # a power of two would use few sets of a cache
    C, XT = np.empty((K, stride)), np.zeros(W.shape[1] * (1 if len(A) == CSR else stride))
    S, W = C.reshape(K * stride), W.reshape(W.size)
    top, gaps, total, factor = np.empty(stride), np.empty(stride), np.empty(stride), np.empty(stride)
    rows, cuts = np.empty(stride, np.int64), np.empty((K, 2), np.int64)
    zero: Any = np.int64(0)  # functions would be compiled apart for a literal 0
    for p in range(first, last):
        clear(scalars[p])
        vectors[p] = 0.0
        out, vector = scalars[p, 0], vectors[p, 0].reshape(W.size)
        for start in range(bounds[p], bounds[p + 1], block):
            size = min(block, bounds[p + 1] - start)
            if by_class:
                count = _sort_block(y, start, size, rows, cuts)
            else:
                count = size
                for r in range(size):
                    rows[r] = start + r
            _multiply(A, rows, _pad(rows, zero, count, np.int64(PAIR)), W, K, d, XT, stride, S, start + size)
            if by_class:
                for k in range(K):
                    a, size = cuts[k, 0], cuts[k, 1] - cuts[k, 0]
                    if size == 0:
                        continue
                    sums = scalars[p, k * K : k * K + K]
                    groups = vectors[p, k].T if len(A) == CSR else vectors[p, k]
                    count = weigh_class(C, s, rows, a, size, k, sums, groups, gaps, total)
                    if count > 0:
                        V = vectors[p, k].reshape(W.size)
                        _add_rows(A, rows, a, count, C, S, d, XT, count > 0, V)
            else:
                count = weigh(C, y, s, rows, size, loss, out, vector, top, gaps, total, factor)
                if count > 0:
                    _add_rows(A, rows, zero, count, C, S, d, XT, count == size, vector)
        if loss == EXPONENTIAL:
            for g in range(scalars.shape[1]):
                scalars[p, g, SHIFT], scalars[p, g, MASS] = (
                    scalars[p, g, SLOPE_SHIFT],
                    scalars[p, g, SLOPE_MASS],
                )


@jit
def joint_margins(
    A: Any, y: Any, W: Any, b: Any, K: int, d: int, block: int, first: int, last: int, out: Any
) -> None:
    """Write ``<w_y - w_j, x_i> + b_y - b_j`` for rows ``first..last`` and all classes, inf for j = y."""
    stride = block + PAIR + 8
    S, XT = np.empty(K * stride), np.zeros(W.shape[1] * (1 if len(A) == CSR else stride))
    rows, W = np.empty(stride, np.int64), W.reshape(W.size)
    zero: Any = np.int64(0)
    for start in range(first, last, block):
        size = min(block, last - start)
        for r in range(size):
            rows[r] = start + r
        _multiply(A, rows, _pad(rows, zero, size, np.int64(PAIR)), W, K, d, XT, stride, S, start + size)
        for r in range(size):
            i, own = start + r, y[start + r]
            product = S[own * stride + r] + b[own]
            for k in range(K):
                out[i, k] = product - (S[k * stride + r] + b[k])
            out[i, own] = np.inf
