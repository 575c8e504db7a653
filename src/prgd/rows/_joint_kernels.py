"""Numba kernel of all classes jointly: one fused pass over dense or CSR rows. Imported on first use.

As in ``_kernels.py``, the kernel walks slices of the rows block by block: the products of a block with the K
vectors of W, the weights of its pairs, and the weighted sums of the same rows while they are in cache. A
block of dense rows is copied to a buffer first, in float64 and C order. ``S`` and ``F`` have a number for
each class and row of the block: products, and the factors of the rows in the sums of the classes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prgd.rows._block_kernels import inner_jit, inner_vector_jit, jit
from prgd.rows._kernels import EXPONENTIAL, NEGLIGIBLE, absorb, absorb_plain, clear, exp_all
from prgd.rows.arrays import COLUMNS, CSR
from prgd.rows.tally import COUNT, MARGIN, MASS, SHIFT, SLOPE_MASS, SLOPE_SHIFT

ROW_TILE = 4  # rows of a block that are multiplied together, with two classes: their sums stay in registers


@inner_jit
def _pack(A: Any, rows: Any, size: int, B: Any) -> Any:
    """Copy dense rows to the buffer, then zeros up to a multiple of `ROW_TILE`, as a block is; return it."""
    if len(A) == COLUMNS:
        for j in range(B.shape[1]):
            for r in range(size):
                B[r, j] = A[0][j, rows[r]]
    else:
        for r in range(size):
            i = rows[r]
            for j in range(B.shape[1]):
                B[r, j] = A[0][i, j]
    padded = -(-size // ROW_TILE) * ROW_TILE
    B[size:padded] = 0.0
    return padded


@inner_jit
def _products(B: Any, padded: int, W: Any, S: Any) -> None:
    """Write the products of packed rows with W of shape (K, d)."""
    for r in range(0, padded, ROW_TILE):
        for k in range(0, W.shape[0], 2):
            n = min(k + 1, W.shape[0] - 1)
            a0, a1, a2, a3, b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(W.shape[1]):
                v, w = W[k, j], W[n, j]
                x0, x1, x2, x3 = B[r, j], B[r + 1, j], B[r + 2, j], B[r + 3, j]
                a0 += x0 * v
                a1 += x1 * v
                a2 += x2 * v
                a3 += x3 * v
                b0 += x0 * w
                b1 += x1 * w
                b2 += x2 * w
                b3 += x3 * w
            S[k, r], S[k, r + 1], S[k, r + 2], S[k, r + 3] = a0, a1, a2, a3
            S[n, r], S[n, r + 1], S[n, r + 2], S[n, r + 3] = b0, b1, b2, b3


@inner_jit
def _add(B: Any, padded: int, F: Any, V: Any) -> None:
    """Add packed rows times their factors to V of shape (K, d); rows without weight are left out."""
    for r in range(0, padded, ROW_TILE):
        for k in range(V.shape[0]):
            c0, c1, c2, c3 = F[k, r], F[k, r + 1], F[k, r + 2], F[k, r + 3]
            if c0 != 0.0 or c1 != 0.0 or c2 != 0.0 or c3 != 0.0:
                for j in range(V.shape[1]):
                    V[k, j] += (c0 * B[r, j] + c1 * B[r + 1, j]) + (c2 * B[r + 2, j] + c3 * B[r + 3, j])


@inner_vector_jit
def _sparse_products(A: Any, rows: Any, size: int, W: Any, S: Any, sums: Any) -> None:
    """Write the products of CSR rows with W of shape (d, K)."""
    for r in range(size):
        sums[:] = 0.0
        for q in range(A[2][rows[r]], A[2][rows[r] + 1]):
            x, j = A[0][q], np.uint64(A[1][q])  # no index counts from the end
            for k in range(sums.size):
                sums[k] += x * W[j, k]
        S[:, r] = sums


@inner_vector_jit
def _sparse_add(A: Any, rows: Any, size: int, F: Any, V: Any, factors: Any) -> None:
    """Add CSR rows times their factors to V of shape (d, K)."""
    for r in range(size):
        factors[:] = F[:, r]
        if (factors != 0.0).any():
            for q in range(A[2][rows[r]], A[2][rows[r] + 1]):
                x, j = (
                    A[0][q],
                    np.uint64(A[1][q]),
                )  # signed ones may count from the end, which would be tested
                for k in range(factors.size):
                    V[j, k] += x * factors[k]


@inner_vector_jit
def _smallest_margins(S: Any, y: Any, start: int, size: int, top: Any, low: Any) -> None:
    """Write the largest product of each row with another class, and its smallest margin.

    The product of a row with its own class becomes -inf.
    """
    for r in range(size):
        low[r], top[r] = S[y[start + r], r], -np.inf
        S[y[start + r], r] = -np.inf
    for k in range(S.shape[0]):
        for r in range(size):
            top[r] = S[k, r] if S[k, r] > top[r] else top[r]
    for r in range(size):
        low[r] -= top[r]


@inner_vector_jit
def _relative_weights(S: Any, size: int, F: Any, total: Any, bits: Any, scale: Any) -> None:
    """Write ``exp(low - m_rk)`` for each pair, and their sum in place of the largest products."""
    K, stride = S.shape
    for k in range(K):
        for r in range(size):
            S[k, r] = S[k, r] - total[r] if S[k, r] - total[r] > NEGLIGIBLE else NEGLIGIBLE
    total[:size] = 0.0
    exp_all(S.reshape(K * stride), K * stride, bits, scale, F.reshape(K * stride))
    for k in range(K):
        for r in range(size):
            F[k, r] = F[k, r] if S[k, r] > NEGLIGIBLE else 0.0
            total[r] += F[k, r]


@inner_vector_jit
def _see(out: Any, m: Any, s: Any, start: int, size: int) -> float:
    """Return the smallest margin of rows that have weight; one that is not finite makes every number NaN."""
    smallest = np.inf
    for r in range(size):
        if s.size == 0 or s[start + r] > 0.0:
            smallest = m[r] if m[r] < smallest else smallest
            if not -np.inf < m[r] < np.inf:
                out[:] = np.nan
    out[MARGIN] = smallest if smallest < out[MARGIN] else out[MARGIN]
    return smallest


@inner_vector_jit
def _weigh(
    S: Any, F: Any, y: Any, s: Any, signs: Any, start: int, size: int, loss: int, scalars: Any, vector: Any,
    low: Any, total: Any, c: Any, bits: Any, scale: Any,
) -> bool:  # fmt: skip
    """Turn products into factors; return whether any row carries weight. All pairs are in one group."""
    _smallest_margins(S, y, start, size, total, low)
    margin, sums = _see(scalars[0], low, s, start, size), scalars[0]
    # A soft margin is below the smallest margin, by at most the logarithm of the number of classes.
    far = NEGLIGIBLE - math.log(S.shape[0])
    if s.size == 0 and loss == EXPONENTIAL and -margin - sums[SLOPE_SHIFT] < far:
        sums[COUNT] += size
        return False
    _relative_weights(S, size, F, total, bits, scale)
    for r in range(size):
        low[r] -= math.log(total[r])
    margin = sums[MARGIN]
    absorb(low, signs, s, start, size, loss, scalars, vector, c)
    sums[MARGIN] = margin  # the margin of pairs, not of soft margins
    for r in range(size):
        total[r] = -c[r] / total[r]
    for k in range(S.shape[0]):
        for r in range(size):
            F[k, r] *= total[r]
    for r in range(size):
        F[y[start + r], r] = c[r]
    return True


@inner_vector_jit
def _weigh_class(
    S: Any, F: Any, own: int, s: Any, signs: Any, start: int, size: int, scalars: Any, vectors: Any,
    low: Any, c: Any, bits: Any, scale: Any,
) -> bool:  # fmt: skip
    """Turn the products of rows of class ``own`` into factors, with a group for each other class."""
    is_weighed = False
    F[:] = 0.0
    for k in range(S.shape[0]):
        if k == own:
            continue
        group = scalars[k : k + 1]
        for r in range(size):
            low[r] = S[own, r] - S[k, r]
        _see(group[0], low, s, start, size)
        has_weight = True
        if s.size == 0:
            has_weight = absorb_plain(low, signs, start, size, group[0], vectors[k], c, bits, scale)
        else:
            absorb(low, signs, s, start, size, EXPONENTIAL, group, vectors[k : k + 1], c)
        if has_weight:
            F[k, :size] = c[:size]
            is_weighed = True
    return is_weighed


@jit
def joint_slices(
    A: Any, rows: Any, y: Any, s: Any, signs: Any, W: Any, loss: int, block: int,
    bounds: Any, first: int, last: int, scalars: Any, vectors: Any,
) -> None:  # fmt: skip
    """Tally slices ``first..last`` of the storage A with the vectors of K classes.

    ``rows`` are the rows in the order in which they are read; the classes ``y``, the weights ``s`` (empty if
    all are 1) and ``signs``, all +1, have that order too. W has shape (K, d), for CSR rows (d, K).
    ``scalars`` has shape (slices, groups, 6) with one group or K^2, ``vectors`` (slices, 1 or K, *W.shape):
    the sums of each class, or for each class, whose rows come together, those of its pairs with every class.
    """
    K, d = (W.shape[1], W.shape[0]) if len(A) == CSR else W.shape
    S, F, B = np.zeros((K, block)), np.zeros((K, block)), np.empty((0 if len(A) == CSR else block, d))
    low, total, c, bits = np.empty(block), np.empty(block), np.empty(block), np.empty(K * block, np.int64)
    scale, sums, by_class, padded = bits.view(np.float64), np.empty(K), scalars.shape[1] > 1, 0
    for p in range(first, last):
        clear(scalars[p])
        vectors[p] = 0.0
        start = bounds[p]
        while start < bounds[p + 1]:
            own, size = y[start], min(block, bounds[p + 1] - start)
            while by_class and y[start + size - 1] != own:
                size -= 1
            chosen = rows[start : start + size]
            if len(A) == CSR:
                _sparse_products(A, chosen, size, W, S, sums)
            else:
                padded = _pack(A, chosen, size, B)
                _products(B, padded, W, S)
            V = vectors[p, own if by_class else 0]
            if by_class:
                has_weight = _weigh_class(
                    S, F, own, s, signs, start, size, scalars[p, own * K : own * K + K],
                    V.T if len(A) == CSR else V, low, c, bits, scale,
                )  # fmt: skip
            else:
                has_weight = _weigh(
                    S, F, y, s, signs, start, size, loss, scalars[p], V.reshape((1, V.size)),
                    low, total, c, bits, scale,
                )  # fmt: skip
                F[:, size:padded] = 0.0
            if has_weight and len(A) == CSR:
                _sparse_add(A, chosen, size, F, V, sums)
            elif has_weight:
                _add(B, padded, F, V)
            start += size
        if loss == EXPONENTIAL:
            for g in range(scalars.shape[1]):
                scalars[p, g, SHIFT] = scalars[p, g, SLOPE_SHIFT]
                scalars[p, g, MASS] = scalars[p, g, SLOPE_MASS]
