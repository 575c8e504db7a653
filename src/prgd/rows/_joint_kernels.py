"""Numba kernels of all classes jointly: from products of a block to the factors of its rows.

``S`` of shape (classes, rows) holds the products of the rows with the vectors of the classes, and then the
factors of the rows in the sums of the classes. ``s`` are the sample weights, empty if all are 1, and
``scalars`` those of a Tally of no rows, one for each group. Imported on first use, never with prgd.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prgd.rows._block_kernels import inner_vector_jit, jit
from prgd.rows._kernels import EXPONENTIAL, NEGLIGIBLE, absorb, absorb_plain, exp_all
from prgd.rows.tally import MARGIN, MASS, SHIFT, SLOPE_MASS, SLOPE_SHIFT


@inner_vector_jit
def _absorb(m: Any, s: Any, loss: int, scalars: Any, c: Any, bits: Any) -> None:
    """Write the scalars and the factors of rows with the margins ``m``, which are overwritten."""
    if s.size == 0 and loss == EXPONENTIAL:
        absorb_plain(m, np.ones(m.size), 0, m.size, scalars[0], m[:0], c, bits, bits.view(np.float64))
    else:
        absorb(m, np.ones(m.size), s, 0, m.size, loss, scalars, np.empty((1, 0)), c)
    if loss == EXPONENTIAL:
        scalars[0, SHIFT], scalars[0, MASS] = scalars[0, SLOPE_SHIFT], scalars[0, SLOPE_MASS]


@jit
def weigh_pairs(S: Any, y: Any, s: Any, loss: int, scalars: Any) -> None:
    """Sum all pairs of a row and another class than its own, ``y``, in one group.

    A product or margin that is not finite, of a row that has weight, makes every number NaN.
    """
    K, n = S.shape
    low, top, total, c = np.empty(n), np.full(n, -np.inf), np.empty(n), np.empty(n)
    bits, margin, check = np.empty(n, np.int64), np.inf, 0.0
    for i in range(n):
        low[i] = S[y[i], i]
        total[i] = low[i] * 0.0
        S[y[i], i] = -np.finfo(np.float64).max
    for k in range(K):
        for i in range(n):
            total[i] += S[k, i] * 0.0
            top[i] = S[k, i] if S[k, i] > top[i] else top[i]
    for i in range(n):
        low[i] -= top[i]
        if s.size == 0 or s[i] > 0.0:
            margin = min(margin, low[i])
            check += total[i] + low[i] * 0.0  # NaN unless all of them are finite
    for k in range(K):
        for i in range(n):
            S[k, i] = S[k, i] - top[i] if S[k, i] - top[i] > NEGLIGIBLE else NEGLIGIBLE
        exp_all(S[k], n, bits, bits.view(np.float64), c)
        for i in range(n):
            S[k, i] = c[i] if S[k, i] > NEGLIGIBLE else 0.0
            total[i] += S[k, i]
    for i in range(n):
        low[i] -= math.log(total[i])  # the soft margin
    _absorb(low, s, loss, scalars, c, bits)
    scalars[0, MARGIN] = margin  # the smallest margin is that of pairs, not the soft one
    scalars[0] += check
    for i in range(n):
        total[i] = -c[i] / total[i]
    for k in range(K):
        for i in range(n):
            S[k, i] *= total[i]
    for i in range(n):
        S[y[i], i] = c[i]


@jit
def weigh_classes(S: Any, ends: Any, s: Any, scalars: Any) -> None:
    """Sum the pairs of each two classes in a group; rows of class k end before row ``ends[k]``.

    A margin that is not finite makes every number of its group NaN.
    """
    K, n = S.shape
    low, c, bits, start = np.empty(n), np.empty(n), np.empty(n, np.int64), 0
    for own in range(K):
        size, mine = ends[own] - start, S[own, start : ends[own]].copy()
        for k in range(K):
            S[own, start : ends[own]] = 0.0
            if k == own or size == 0:
                continue
            group, check = scalars[own * K + k : own * K + k + 1], 0.0
            for i in range(size):
                low[i] = mine[i] - S[k, start + i]
                check += low[i] * 0.0
            _absorb(low[:size], s[start : ends[own]], EXPONENTIAL, group, c, bits)
            group += check
            S[k, start : ends[own]] = c[:size]
        start = ends[own]
