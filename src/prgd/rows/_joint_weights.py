"""The weights of pairs of a block of rows: from products with the vectors of K classes to factors.

Only the kernels of ``_joint_kernels.py`` call these functions. The buffer ``S`` has shape (K, rows of a
block); ``rows`` are the indices of its rows, ``y`` the classes of all rows, and ``s`` their weights, empty if
all are 1. Loops over the rows of a block are such that compilers vectorise them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prgd.rows._compile import inner_exact_jit, inner_jit, inner_vector_jit, tiles
from prgd.rows._kernels import (
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    LOGISTIC,
    NEGLIGIBLE,
    _grow,
    exp_polynomial,
    log_slope,
    log_value,
)  # fmt: skip
from prgd.rows.tally import COUNT, MARGIN, MASS, SHIFT, SLOPE_MASS, SLOPE_SHIFT

power_of_two = tiles.power_of_two
FEW_ROWS = (
    8  # at most so many rows of a block are added one by one: a tile takes as long for 8 rows as for 60
)


@inner_jit
def clear(scalars: Any) -> None:
    """Write the scalars of no rows to each group."""
    for g in range(scalars.shape[0]):
        scalars[g, SHIFT] = scalars[g, SLOPE_SHIFT] = -np.inf
        scalars[g, MASS] = scalars[g, SLOPE_MASS] = scalars[g, COUNT] = 0.0
        scalars[g, MARGIN] = np.inf


@inner_vector_jit
def _exp(x: Any) -> Any:
    """Return e^x for x in [-700, 0], to 2 units in the last place; see `prgd.rows._kernels._exp`."""
    n = math.floor(x * LOG2_E + 0.5)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    return exp_polynomial(r) * power_of_two(np.int64(n))


@inner_vector_jit
def _decay(x: Any) -> Any:
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
        top[r] = S[0, r] if S[0, r] > S[1, r] else S[1, r]
    for k in range(2, S.shape[0]):
        for r in range(size):
            top[r] = S[k, r] if S[k, r] > top[r] else top[r]
    for r in range(size):
        gaps[r] = top[r] - gaps[r]


@inner_vector_jit
def _count(gaps: Any, s: Any, rows: Any, first: Any, size: int, out: Any) -> float:
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
    """Write ``s_r (-l'(s_r)) / sum_j exp(m - m_rj)`` over the largest slope; m is the smallest m_rj."""
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
def weigh(
    S: Any, y: Any, s: Any, rows: Any, size: int, loss: int,
    out: Any, vector: Any, top: Any, gaps: Any, total: Any, factor: Any,
) -> int:  # fmt: skip
    """Turn products into factors; return how many rows carry weight, which are moved to the front."""
    _smallest_margins(S, y, rows, size, top, gaps)
    margin = _count(gaps, s, rows, np.int64(0), size, out)
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
def weigh_class(
    S: Any, s: Any, rows: Any, first: int, size: int, k: int, sums: Any, vectors: Any, gaps: Any, total: Any
) -> int:
    """Turn the products of rows of class k into the weights of their pairs, apart for each other class.

    ``sums`` and ``vectors`` are those of the K groups of class k. If few rows carry weight, they are moved to
    the front, and their number is returned; else no row is moved.
    """
    for r in range(size):
        total[r] = 0.0
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
            total[r] += gaps[r]
            S[j, first + r] = gaps[r]
        out[SLOPE_MASS] += mass
    for r in range(size):
        S[k, first + r] = 0.0
    count = 0
    for r in range(size):
        count += total[r] > 0.0
    if count > FEW_ROWS:
        return size
    count = 0
    for r in range(size):
        if total[r] > 0.0:
            for j in range(S.shape[0]):
                S[j, first + count] = S[j, first + r]
            rows[first + count] = rows[first + r]
            count += 1
    return count
