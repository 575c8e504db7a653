"""Numba kernels: one fused pass over dense or CSR rows. Imported on first use, never with prgd.

Each kernel walks slices ``first..last`` of the rows, block by block: margins of a block, their
weights relative to the running largest (`absorb`), then the weighted sum of the same rows while
they are still in cache. Rows whose weight is below e^-50 of the largest seen (with sample weights, of the sum
so far) are skipped: 1e9 of them together stay below rounding.

The storage ``A`` is a tuple whose length says its kind: ``(X,)`` for rows, ``(X^T, X)`` for columns and
``(data, indices, indptr)`` for CSR. Numba takes the length of a tuple argument as a constant, so a kernel
compiles the branch of its own kind alone. Functions that only kernels call are not cached on disk: the
kernel's cache holds their code.
"""

import math
from typing import Any

import numpy as np

from prgd.rows._block_kernels import (
    add_rows,
    block_margins,
    csr_some_margins,
    csr_two_margins,
    dense_add,
    dense_margins,
    dense_two_margins,
    exact_jit,
    inner_exact_jit,
    inner_vector_jit,
    jit,
)
from prgd.rows.arrays import CSR, ROWS
from prgd.rows.tally import COUNT, MARGIN, MASS, SECOND, SHIFT, SLOPE_MASS, SLOPE_SHIFT

NEGLIGIBLE = -50.0
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
EXPONENTIAL, LOGISTIC = 0, 1  # the codes of `prgd.losses`
SPLITTER = 2.0**27 + 1.0  # the constant of `prgd.core.arithmetic.split`


@inner_exact_jit
def log_value(m: float) -> float:
    """Return log log(1 + e^-m) of the logistic loss, exact if the inner logarithm underflows."""
    if m > 37.0:
        return -m
    if m > 0.0:
        return math.log(math.log1p(math.exp(-m)))
    return math.log(-m + math.log1p(math.exp(m)))


@inner_exact_jit
def log_slope(m: float) -> float:
    """Return the logarithm of -l'(m) = 1 / (1 + e^m) of the logistic loss."""
    if m > 0.0:
        return -(m + math.log1p(math.exp(-m)))
    return -math.log1p(math.exp(m))


@inner_exact_jit
def _grow(out: Any, vector: Any, shift: float, slope_shift: float) -> None:
    """Move the sums of one group to larger shifts."""
    if shift > out[SHIFT]:
        out[MASS] *= math.exp(out[SHIFT] - shift)
        out[SHIFT] = shift
    if slope_shift > out[SLOPE_SHIFT]:
        factor = math.exp(out[SLOPE_SHIFT] - slope_shift)
        out[SLOPE_SHIFT] = slope_shift
        out[SLOPE_MASS] *= factor
        for j in range(vector.size):
            vector[j] *= factor


@inner_vector_jit
def exp_polynomial(r: float) -> float:
    """Return e^r for |r| <= log(2) / 2, by a Taylor polynomial of degree 13: its remainder is below 2^-57."""
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
    return q * r + 1.0


@inner_vector_jit
def exp_all(x: Any, size: int, bits: Any, scale: Any, out: Any) -> None:
    """Write e^x for x in [-700, 0], to 2 units in the last place, in a loop that compilers vectorise.

    e^x = 2^n e^r with |r| <= log(2) / 2; ``scale`` is a float64 view of ``bits``, where 2^n is built.
    """
    for i in range(size):
        n = math.floor(x[i] * LOG2_E + 0.5)
        r = (x[i] - n * LN2_HIGH) - n * LN2_LOW
        out[i] = exp_polynomial(r)
        bits[i] = (np.int64(n) + 1023) << 52
    for i in range(size):
        out[i] *= scale[i]


@inner_vector_jit
def absorb_plain(
    m: Any, y: Any, start: int, size: int, out: Any, vector: Any, c: Any, bits: Any, scale: Any
) -> bool:
    """Do what `absorb` does for the exponential loss without weights or classes, the most frequent case.

    The answer says whether any row of the block carries weight. ``m`` is overwritten.
    """
    margin = m[0]
    for i in range(1, size):
        margin = m[i] if m[i] < margin else margin
    out[COUNT] += size
    out[MARGIN] = min(out[MARGIN], margin)
    if -margin - out[SLOPE_SHIFT] <= NEGLIGIBLE:
        return False
    if -margin > out[SLOPE_SHIFT]:
        _grow(out, vector, -margin, -margin)
    shift, mass = out[SLOPE_SHIFT], 0.0
    for i in range(size):
        m[i] = max(-m[i] - shift, NEGLIGIBLE)
    exp_all(m, size, bits, scale, c)
    for i in range(size):
        c[i] = c[i] if m[i] > NEGLIGIBLE else 0.0
        mass += c[i]
        c[i] *= y[start + i]
    out[SLOPE_MASS] += mass
    return True


@inner_exact_jit
def absorb(
    m: Any, y: Any, s: Any, start: int, size: int, loss: int, scalars: Any, vectors: Any, c: Any
) -> None:
    """Add a block of margins to the sums; leave in ``c`` the factor of each row x_i of the block."""
    groups, low_0, low_1 = scalars.shape[0], NEGLIGIBLE, NEGLIGIBLE
    for g in range(groups):
        margin, largest = np.inf, 0.0
        for i in range(size):
            mine = groups == 1 or (y[start + i] < 0) == (g == 1)
            if mine and (s.size == 0 or s[start + i] > 0.0):
                margin = min(margin, m[i])
                largest = max(largest, 1.0 if s.size == 0 else s[start + i])
        if margin < np.inf:
            scalars[g, MARGIN] = min(scalars[g, MARGIN], margin)
            if loss == LOGISTIC:
                _grow(scalars[g], vectors[g], log_value(margin), log_slope(margin))
            else:
                _grow(scalars[g], vectors[g], -margin, -margin)
            if s.size > 0:  # the row of smallest margin may weigh 1e-300, and others carry all the mass
                mass = scalars[g, SLOPE_MASS]
                low = NEGLIGIBLE + math.log(mass) - math.log(largest) if mass > 0.0 else -np.inf
                low_0, low_1 = (low, low_1) if g == 0 else (low_0, low)
    for i in range(size):
        is_second = groups == 2 and y[start + i] < 0
        out, low = scalars[1 if is_second else 0], low_1 if is_second else low_0
        weight = 1.0 if s.size == 0 else s[start + i]
        out[COUNT] += weight
        c[i] = 0.0
        if weight > 0.0:
            exponent = -m[i]
            if loss == LOGISTIC:
                out[MASS] += weight * math.exp(log_value(m[i]) - out[SHIFT])
                exponent = log_slope(m[i])
            if exponent - out[SLOPE_SHIFT] > low:
                p = weight * math.exp(exponent - out[SLOPE_SHIFT])
                out[SLOPE_MASS] += p
                c[i] = p * y[start + i]


@inner_exact_jit
def _absorb_second(m: Any, y: Any, s: Any, start: int, size: int, scalars: Any) -> None:
    """Keep the smallest margin of each group along the second direction; one that is not finite is -inf."""
    for i in range(size):
        weight = 1.0
        if len(s) > 0:
            weight = 1.0 if s[0].size == 0 else s[0][start + i]
        g = 1 if scalars.shape[0] == 2 and y[start + i] < 0 else 0
        if weight > 0.0 and not scalars[g, SECOND] <= m[i] < np.inf:
            scalars[g, SECOND] = m[i] if -np.inf < m[i] < np.inf else -np.inf


@inner_exact_jit
def clear(scalars: Any) -> None:
    """Write the scalars of no rows to each group."""
    for g in range(scalars.shape[0]):
        scalars[g, SHIFT] = scalars[g, SLOPE_SHIFT] = -np.inf
        scalars[g, MASS] = scalars[g, SLOPE_MASS] = scalars[g, COUNT] = 0.0
        scalars[g, MARGIN] = np.inf
        if scalars.shape[1] > SECOND:
            scalars[g, SECOND] = np.inf


@jit
def tally_slices(
    A: Any, y: Any, s: Any, w: Any, v: Any, loss: int, block: int,
    bounds: Any, first: int, last: int, scalars: Any, vectors: Any,
) -> None:  # fmt: skip
    """Tally slices ``first..last`` of the storage A.

    ``scalars`` has shape (slices, groups, 6) and ``vectors`` (slices, groups, d); with two groups,
    rows of label +1 and -1 are summed apart. ``s`` is an empty tuple for one group, the exponential loss and
    no weights; otherwise it holds the weights, an empty array if all are 1. ``v`` is the second direction,
    an empty array if there is none, else a seventh scalar is found; CSR rows have it beside w, in an array of
    shape (d, 2). Whether there is a second direction is asked at run time: two kernels would take twice as
    long to compile.
    """
    m, c, chosen = np.empty(block), np.empty(block), np.empty(block, np.int64)
    bits = np.empty(block, np.int64)
    scale, second = bits.view(np.float64), np.empty(block)
    groups, has_weight, has_second = scalars.shape[1], True, v.size > 0
    for k in range(first, last):
        clear(scalars[k])
        vectors[k] = 0.0
        # Views are made once: Numba counts references, which costs as much as a short row.
        sums, sums_0, vectors_k = scalars[k], scalars[k, 0], vectors[k]
        vector_0, vector_1 = vectors[k, 0], vectors[k, groups - 1]
        for start in range(bounds[k], bounds[k + 1], block):
            size = min(block, bounds[k + 1] - start)
            # To hand on the tuple A counts references, which takes as long as a few short rows.
            if has_second:
                if len(A) == ROWS:
                    dense_two_margins(A[0], y, w, v, start, size, m, second)
                else:
                    csr_two_margins(A[0], A[1], A[2], y, v, start, size, m, second)
                _absorb_second(second, y, s, start, size, sums)
            elif len(A) == ROWS:
                dense_margins(A[0], y, w, start, size, m)
            else:
                block_margins(A, y, w, start, size, m)
            if len(s) == 0:
                has_weight = absorb_plain(m, y, start, size, sums_0, vector_0, c, bits, scale)
            else:
                absorb(m, y, s[0], start, size, loss, sums, vectors_k, c)
            for g in range(groups if has_weight else 0):
                # Rows of the group that carry weight; with a literal 0, `add_rows` would be compiled twice.
                count: Any = np.int64(0)
                for i in range(size):
                    if c[i] != 0.0 and (groups == 1 or (y[start + i] < 0) == (g == 1)):
                        chosen[count] = i
                        count += 1
                vector = vector_0 if g == 0 else vector_1
                if len(A) == ROWS:
                    dense_add(A[0], start, chosen, count, c, vector)
                else:
                    add_rows(A, start, chosen, count, c, vector)
        if loss == EXPONENTIAL:
            for g in range(groups):
                scalars[k, g, MASS] = scalars[k, g, SLOPE_MASS]


@jit
def margins(A: Any, y: Any, w: Any, block: int, first: int, last: int, out: Any) -> None:
    """Write ``m_i = y_i <w, x_i>`` for rows ``first..last``."""
    for start in range(first, last, block):
        size = min(block, last - start)
        block_margins(A, y, w, start, size, out[start : start + size])


@jit
def row_squares(A: Any, first: int, last: int, out: Any) -> None:
    """Write the squared norms of rows ``first..last``; NaN for a row with an entry that is NaN."""
    values = A[0]
    for i in range(first, last):
        total = 0.0
        if len(A) == CSR:
            for e in range(A[2][i], A[2][i + 1]):
                total += np.float64(values[e]) * values[e]
        else:  # an index of both axes: a compiler cannot unroll the sum over the entries of a view
            for j in range(values.shape[1]):
                total += np.float64(values[i, j]) * values[i, j]
        out[i] = total


@jit
def weighted_sum(A: Any, c: Any, block: int, first: int, last: int, vector: Any) -> None:
    """Add ``sum_i c_i x_i`` over rows ``first..last`` to ``vector``; rows with c_i = 0 are not read."""
    chosen, factors = np.empty(block, np.int64), np.empty(block)
    for start in range(first, last, block):
        count: Any = np.int64(0)
        for i in range(min(block, last - start)):
            factors[i] = c[start + i]
            if factors[i] != 0.0:
                chosen[count] = i
                count += 1
        add_rows(A, start, chosen, count, factors, vector)


@jit
def curvature_sum(A: Any, y: Any, c: Any, w: Any, block: int, first: int, last: int, vector: Any) -> float:
    """Add ``sum_i c_i <w, x_i> x_i`` over rows ``first..last`` to ``vector``; return the factors' sum."""
    chosen, factors, total = np.empty(block, np.int64), np.empty(block), 0.0
    for start in range(first, last, block):
        size, count = min(block, last - start), 0
        for i in range(size):
            chosen[count] = i
            count += c[start + i] != 0.0
        if count == 0:
            continue
        if len(A) == CSR:
            csr_some_margins(A[0], A[1], A[2], y, w, start, chosen, count, factors)
        else:
            block_margins(A, y, w, start, size, factors)
        for k in range(count):
            factors[chosen[k]] *= c[start + chosen[k]] * y[start + chosen[k]]
            total += factors[chosen[k]]
        add_rows(A, start, chosen, count, factors, vector)
    return total


# An error-free transformation is a formula whose value would be 0 in the algebra of real numbers, which a
# compiler that may reassociate or contract would remove: the functions below have no ``fastmath``.
@inner_exact_jit
def _add(total: float, low: float, size: float, x: float, w: Any) -> tuple[float, float, float]:
    """Add ``x w`` to the sum ``total + low``; ``size`` adds the absolute corrections, for the error bound.

    The formulas are those of `prgd.core.arithmetic.two_product` and `two_sum`; w comes with its two halves.
    """
    w, w_high, w_low = w
    product = x * w
    spread = SPLITTER * x
    x_high = spread - (spread - x)
    x_low = x - x_high
    error = x_low * w_low - (((product - x_high * w_high) - x_low * w_high) - x_high * w_low)
    new = total + product
    other = new - total
    correction = ((total - (new - other)) + (product - other)) + error
    return new, low + correction, size + abs(correction)


@exact_jit
def accurate_products(A: Any, w: Any, intercept: float, products: Any, rest: Any, corrections: Any) -> None:
    """Write both parts of ``<w, x_i> + intercept`` and the absolute corrections of all rows by Dot2.

    ``w`` is the vector with its high and low parts. A row is a loop of its own in both kinds of storage, so
    that the numbers are the same for dense and CSR rows, bit by bit.
    """
    v, high, low_part = w
    for i in range(products.size):
        total, low, size = intercept, 0.0, 0.0
        if len(A) == ROWS:
            for j in range(v.size):
                total, low, size = _add(total, low, size, A[0][i, j], (v[j], high[j], low_part[j]))
        else:
            for q in range(A[2][i], A[2][i + 1]):
                j = A[1][q]
                total, low, size = _add(total, low, size, A[0][q], (v[j], high[j], low_part[j]))
        products[i], rest[i], corrections[i] = total, low, size
