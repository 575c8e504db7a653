"""Numba kernels of all classes jointly: one fused pass over dense or CSR rows. Imported on first use.

As in ``_kernels.py``, a kernel walks slices of the rows block by block: the products of a block with the K
vectors of W, the weights of its pairs, and the weighted sums of the same rows while they are in cache. The
buffer ``S`` holds a number for each class and row of the block: first the products, at last the factors of
x_r in the sum of each class.

Pairs whose weight is below e^-50 of the largest of their row, and rows whose weight is below that of the
largest seen, are left out, as in the kernels of two classes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import config

from prgd.rows import _tiles
from prgd.rows._kernels import (
    EXPONENTIAL, LN2_HIGH, LN2_LOW, LOG2_E, LOGISTIC, NEGLIGIBLE,
    _grow, inner_exact_jit, inner_jit, inner_vector_jit, jit, log_slope, log_value,
)  # fmt: skip
from prgd.rows._tiles import (
    CLASSES, COLUMNS, LANES, PAIR, power_of_two, sparse_products, sparse_sums, transpose,
)  # fmt: skip
from prgd.rows.arrays import CSR
from prgd.rows.arrays import COLUMNS as BY_COLUMNS
from prgd.rows.labels import frozen
from prgd.tally import COUNT, MARGIN, MASS, SHIFT, SLOPE_MASS, SLOPE_SHIFT

_FEW_ROWS = 8  # so few rows of a block are added one by one: a tile takes as long for 8 rows as for 60

_BLOCK_BYTES, _SORTED_BLOCK_BYTES = 2**17, 2**19  # buffers of a block stay in the second-level cache
IS_COMPILED = not config.DISABLE_JIT  # Python cannot run the tiles


def arranged(A: Any, W: Any) -> Any:
    """Return W of shape (K, d) as the kernel takes it for the storage A."""
    if len(A) != CSR:
        return frozen(np.ascontiguousarray(W))
    K, d = W.shape
    padded = np.zeros((d, -(-K // LANES) * LANES))
    padded[:, :K] = W.T
    return frozen(padded)


def block_of(K: int, d: int, by_class: bool) -> int:
    """Return the number of rows of a block; with groups of classes, each class should have many of them."""
    size = (_SORTED_BLOCK_BYTES if by_class else _BLOCK_BYTES) // (8 * (d + K))
    return min(max(size // PAIR, 2), 64) * PAIR


_products_1, _products_2, _products_3, _products_4, _products_5 = (
    _tiles.product_tile(k) for k in range(1, CLASSES + 1)
)
_sums_1, _sums_2, _sums_3, _sums_4, _sums_5 = (_tiles.sum_tile(k, COLUMNS) for k in range(1, CLASSES + 1))
_rest_1, _rest_2, _rest_3, _rest_4, _rest_5 = (_tiles.sum_tile(k, 1) for k in range(1, CLASSES + 1))


@inner_jit
def _tile_of(left: int) -> int:
    """Return how many of the classes that are left the next tile takes: two tiles of 3 beat 5 and 1."""
    return 3 if left == 6 else min(left, CLASSES)


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
    """Write the products of ``count`` rows, a multiple of PAIR, with the vectors of all classes."""
    X = A[-1]
    step = 64 * min(-(-d * PAIR * X.itemsize // 64), 2 * d) // d if K <= CLASSES else 64
    if len(A) == BY_COLUMNS:
        step = 0
    for r in range(0, count, PAIR):
        k = 0
        while k < K:
            size, at = _tile_of(K - k), ahead + r + (PAIR // 2 if k else 0)
            if size == 5:
                _products_5(XT, r, stride, W, k, d, S, X, at, step)
            elif size == 4:
                _products_4(XT, r, stride, W, k, d, S, X, at, step)
            elif size == 3:
                _products_3(XT, r, stride, W, k, d, S, X, at, step)
            elif size == 2:
                _products_2(XT, r, stride, W, k, d, S, X, at, step)
            else:
                _products_1(XT, r, stride, W, k, d, S, X, at, step)
            k += size


@inner_jit
def _add(XT: Any, stride: int, first: int, last: int, C: Any, K: int, d: int, V: Any) -> None:
    """Add the rows ``first..last`` of the buffer, a multiple of LANES, times their factors to V."""
    even = d // COLUMNS * COLUMNS
    k = 0
    while k < K:
        size = _tile_of(K - k)
        for j in range(0, even, COLUMNS):
            if size == 5:
                _sums_5(XT, j, C, k, stride, first, last, V, d)
            elif size == 4:
                _sums_4(XT, j, C, k, stride, first, last, V, d)
            elif size == 3:
                _sums_3(XT, j, C, k, stride, first, last, V, d)
            elif size == 2:
                _sums_2(XT, j, C, k, stride, first, last, V, d)
            else:
                _sums_1(XT, j, C, k, stride, first, last, V, d)
        for j in range(even, d):
            if size == 5:
                _rest_5(XT, j, C, k, stride, first, last, V, d)
            elif size == 4:
                _rest_4(XT, j, C, k, stride, first, last, V, d)
            elif size == 3:
                _rest_3(XT, j, C, k, stride, first, last, V, d)
            elif size == 2:
                _rest_2(XT, j, C, k, stride, first, last, V, d)
            else:
                _rest_1(XT, j, C, k, stride, first, last, V, d)
        k += size


@inner_jit
def _add_few(A: Any, rows: Any, first: int, last: int, C: Any, V: Any) -> None:
    """Add rows one by one to the vectors of the classes in which they have a factor."""
    X = A[-1]
    d = X.shape[1]
    for r in range(first, last):
        i = rows[r]
        for k in range(C.shape[0]):
            c = C[k, r]
            if c != 0.0:
                for j in range(d):
                    V[k * d + j] += c * X[i, j]


@inner_vector_jit
def _exp(x: float) -> float:
    """Return e^x for x in [-700, 0], to 2 units in the last place; see `prgd.rows._kernels._exp`."""
    n = math.floor(x * LOG2_E + 0.5)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    q = 1.0 / 6227020800.0
    q = q * r + 1.0 / 479001600.0
    q = q * r + 1.0 / 39916800.0
    q = q * r + 1.0 / 3628800.0
    q = q * r + 1.0 / 362880.0
    q = q * r + 1.0 / 40320.0
    q = q * r + 1.0 / 5040.0
    q = q * r + 1.0 / 720.0
    q = q * r + 1.0 / 120.0
    q = q * r + 1.0 / 24.0
    q = q * r + 1.0 / 6.0
    q = q * r + 0.5
    q = q * r + 1.0
    return (q * r + 1.0) * power_of_two(np.int64(n))


@inner_vector_jit
def _decay(x: float) -> float:
    """Return e^x for x <= 0, and 0 if that is negligible; NaN stays NaN."""
    low = NEGLIGIBLE if x < NEGLIGIBLE else x
    e = _exp(0.0 if low > 0.0 else low)  # rows that do not count may have any exponent
    return 0.0 if x <= NEGLIGIBLE else e


@inner_vector_jit
def _smallest_margins(S: Any, y: Any, rows: Any, size: int, top: Any, gaps: Any) -> None:
    """Write the largest product of each row with another class, and how much it exceeds that with its own.

    The gaps are minus the smallest margins. The product of a row with its own class becomes -inf.
    """
    for r in range(size):
        gaps[r] = S[y[rows[r]], r]
        S[y[rows[r]], r] = -np.inf
    for r in range(size):
        top[r] = S[0, r]
    for k in range(1, S.shape[0]):
        for r in range(size):
            top[r] = S[k, r] if S[k, r] > top[r] else top[r]
    for r in range(size):
        gaps[r] = top[r] - gaps[r]


@inner_vector_jit
def _count(gaps: Any, s: Any, rows: Any, first: int, size: int, out: Any) -> float:
    """Count rows in ``out``; return the smallest margin of those that count, NaN if one is not finite."""
    largest, check, count = -np.inf, 0.0, float(size)
    if s.size == 0:
        for r in range(size):
            largest = gaps[r] if gaps[r] > largest else largest
            check += gaps[r] - gaps[r]
    else:
        count = 0.0
        for r in range(size):
            weight = s[rows[first + r]]
            count += weight
            if weight > 0.0:
                largest = gaps[r] if gaps[r] > largest else largest
                check += gaps[r] - gaps[r]
    margin = -largest if check == 0.0 else np.nan
    out[COUNT] += count
    out[MARGIN] = out[MARGIN] if margin >= out[MARGIN] else margin
    return margin


@inner_vector_jit
def _select(S: Any, s: Any, rows: Any, size: int, top: Any, gaps: Any, reference: float) -> int:
    """Move the rows whose weight is not negligible to the front; return their number.

    If they are most of the block, none is moved, and its size is returned.
    """
    # A soft margin is below the smallest margin, by at most the logarithm of the number of classes.
    count, low = 0, NEGLIGIBLE - math.log(S.shape[0])
    for r in range(size):
        count += gaps[r] - reference > low
    if 2 * count > size:
        return size
    count = 0
    for r in range(size):
        if gaps[r] - reference > low and (s.size == 0 or s[rows[r]] > 0.0):
            for k in range(S.shape[0]):
                S[k, count] = S[k, r]
            top[count], gaps[count], rows[count] = top[r], gaps[r], rows[r]
            count += 1
    return count


@inner_vector_jit
def _exponential_factors(
    s: Any, rows: Any, size: int, gaps: Any, total: Any, reference: float, out: Any, vector: Any, factor: Any
) -> None:
    """Write ``s_r exp(gap_r - shift)``; the shift grows to the largest ``log sum_j exp(-m_rj)``."""
    for r in range(size):
        factor[r] = _decay(gaps[r] - reference)
    peak, mass = 0.0, 0.0
    if s.size:
        for r in range(size):
            factor[r] = factor[r] if s[rows[r]] > 0.0 else 0.0
    for r in range(size):
        largest = factor[r] * total[r]
        peak = largest if largest > peak else peak
    if peak > 0.0:
        _grow(out, vector, reference + math.log(peak), reference + math.log(peak))
    scale = math.exp(reference - out[SLOPE_SHIFT])
    for r in range(size):
        factor[r] *= scale
    if s.size:
        for r in range(size):
            factor[r] *= s[rows[r]]
    for r in range(size):
        mass += factor[r] * total[r]
    out[SLOPE_MASS] += mass


@inner_exact_jit
def _logistic_factors(
    s: Any, rows: Any, size: int, gaps: Any, total: Any, out: Any, vector: Any, factor: Any
) -> None:
    """Write ``s_r (-l'(s_r)) / sum_j exp(m - m_rj)`` relative to the largest slope; m is the smallest m_rj."""
    value, slope = -np.inf, -np.inf
    for r in range(size):
        gaps[r] = -gaps[r] - math.log(total[r])  # the soft margin s_r
        factor[r] = log_slope(gaps[r])
        if s.size == 0 or s[rows[r]] > 0.0:
            value, slope = max(value, log_value(gaps[r])), max(slope, factor[r])
    _grow(out, vector, value, slope)
    for r in range(size):
        weight = 1.0 if s.size == 0 else s[rows[r]]
        if weight > 0.0:
            out[MASS] += weight * math.exp(log_value(gaps[r]) - out[SHIFT])
            term = weight * math.exp(factor[r] - out[SLOPE_SHIFT])
            out[SLOPE_MASS] += term
            factor[r] = term / total[r]
        else:
            factor[r] = 0.0


@inner_vector_jit
def _weigh(
    S: Any, y: Any, s: Any, rows: Any, size: int, loss: int,
    out: Any, vector: Any, top: Any, gaps: Any, total: Any, factor: Any,
) -> int:  # fmt: skip
    """Turn products into factors; return how many rows carry weight, which are moved to the front."""
    _smallest_margins(S, y, rows, size, top, gaps)
    margin = _count(gaps, s, rows, 0, size, out)
    if margin != margin:
        for i in range(out.size):
            out[i] = np.nan
    if not margin < np.inf:
        return 0
    reference = max(out[SLOPE_SHIFT], log_slope(margin) if loss == LOGISTIC else -margin)
    size = _select(S, s, rows, size, top, gaps, reference)
    if size == 0:
        return 0
    for r in range(size):
        total[r] = 0.0
    for k in range(S.shape[0]):
        for r in range(size):
            e = _decay(S[k, r] - top[r])
            S[k, r] = e
            total[r] += e
    if loss == LOGISTIC:
        _logistic_factors(s, rows, size, gaps, total, out, vector, factor)
    else:
        _exponential_factors(s, rows, size, gaps, total, reference, out, vector, factor)
    for k in range(S.shape[0]):
        for r in range(size):
            S[k, r] *= -factor[r]
    for r in range(size):
        S[y[rows[r]], r] = factor[r] * total[r]
    return size


@inner_vector_jit
def _weigh_class(
    S: Any, s: Any, rows: Any, first: int, size: int, k: int, sums: Any, vectors: Any, gaps: Any
) -> bool:
    """Turn the products of rows of class k into the weights of their pairs, apart for each other class.

    ``sums`` and ``vectors`` are those of the K groups of class k. The answer says whether any row carries
    weight.
    """
    has_weight = False
    for j in range(S.shape[0]):
        out = sums[j]
        if j == k:
            continue
        for r in range(size):
            gaps[r] = S[j, first + r] - S[k, first + r]
        margin = _count(gaps, s, rows, first, size, out)
        if margin != margin:
            for i in range(out.size):
                out[i] = np.nan
        if not (margin < np.inf and -margin - out[SLOPE_SHIFT] > NEGLIGIBLE):
            for r in range(size):
                S[j, first + r] = 0.0
            continue
        _grow(out, vectors[j], -margin, -margin)
        shift, mass = out[SLOPE_SHIFT], 0.0
        for r in range(size):
            gaps[r] = _decay(gaps[r] - shift)
        if s.size:
            for r in range(size):
                gaps[r] = gaps[r] * s[rows[first + r]] if s[rows[first + r]] > 0.0 else 0.0
        for r in range(size):
            mass += gaps[r]
            S[j, first + r] = gaps[r]
        out[SLOPE_MASS] += mass
        has_weight = True
    for r in range(size):
        S[k, first + r] = 0.0
    return has_weight


@inner_jit
def _sort_block(y: Any, start: int, size: int, rows: Any, cuts: Any) -> int:
    """Order the rows of a block by class, each class padded to LANES rows; return the padded size.

    The rows of class k are at ``cuts[k, 0]..cuts[k, 1]``; what pads them repeats one of them.
    """
    place = 0
    for k in range(cuts.shape[0]):
        cuts[k, 0] = place
        for i in range(start, start + size):
            rows[place] = i
            place += y[i] == k
        cuts[k, 1] = place
        place = _pad(rows, cuts[k, 0], place, LANES)
    return place


@inner_jit
def _pad(rows: Any, first: int, last: int, multiple: int) -> int:
    """Repeat the last of the rows ``first..last`` until their number is a multiple; return the new end."""
    end = first + -(-(last - first) // multiple) * multiple
    for r in range(last, end):
        rows[r] = rows[last - 1]
    return end


@inner_jit
def _identity(scalars: Any) -> None:
    """Write the scalars of no rows to each group."""
    for g in range(scalars.shape[0]):
        scalars[g, SHIFT] = scalars[g, SLOPE_SHIFT] = -np.inf
        scalars[g, MASS] = scalars[g, SLOPE_MASS] = scalars[g, COUNT] = 0.0
        scalars[g, MARGIN] = np.inf


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
    elif count <= _FEW_ROWS:
        _add_few(A, rows, first, first + count, C, V)
    else:
        end = _pad(rows, first, first + count, LANES)
        for k in range(K):
            for r in range(first + count, end):
                C[k, r] = 0.0
        if not is_packed:
            _pack(A, rows, end, d, XT, stride)
        _add(XT, stride, first, end, S, K, d, V)


@jit
def joint_slices(
    A: Any, y: Any, s: Any, W: Any, K: int, d: int, loss: int, block: int,
    bounds: Any, first: int, last: int, scalars: Any, vectors: Any,
) -> None:  # fmt: skip
    """Tally slices ``first..last`` of the storage A with the vectors of K classes.

    ``scalars`` has shape (slices, groups, 6) with one group or K^2, and ``vectors`` (slices, 1 or K, K, d): the
    sums of each class, or for each class those of its pairs with every class. For CSR rows, W is transposed
    and padded with zeros to shape (d, width), with a multiple of LANES for the width, and so are the vectors.
    """
    by_class = scalars.shape[1] > 1
    stride = block + PAIR + (K * LANES if by_class else 0) + 8  # a power of two would use few sets of a cache
    C, XT = np.empty((K, stride)), np.empty(max(d * stride, W.size) if len(A) != CSR else W.size // d)
    S, W = C.reshape(K * stride), W.reshape(W.size)
    top, gaps, total, factor = np.empty(stride), np.empty(stride), np.empty(stride), np.empty(stride)
    rows, cuts = np.empty(stride, np.int64), np.empty((K, 2), np.int64)
    for p in range(first, last):
        _identity(scalars[p])
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
            _multiply(A, rows, _pad(rows, 0, count, PAIR), W, K, d, XT, stride, S, start + size)
            if by_class:
                for k in range(K):
                    a, size = cuts[k, 0], cuts[k, 1] - cuts[k, 0]
                    if size == 0:
                        continue
                    sums = scalars[p, k * K : k * K + K]
                    groups = vectors[p, k].T if len(A) == CSR else vectors[p, k]
                    if _weigh_class(C, s, rows, a, size, k, sums, groups, gaps):
                        _add_rows(A, rows, a, size, C, S, d, XT, True, vectors[p, k].reshape(W.size))
            else:
                count = _weigh(C, y, s, rows, size, loss, out, vector, top, gaps, total, factor)
                if count > 0:
                    _add_rows(A, rows, 0, count, C, S, d, XT, count == size, vector)
        if loss == EXPONENTIAL:
            for g in range(scalars.shape[1]):
                scalars[p, g, SHIFT], scalars[p, g, MASS] = scalars[p, g, SLOPE_SHIFT], scalars[p, g, SLOPE_MASS]
