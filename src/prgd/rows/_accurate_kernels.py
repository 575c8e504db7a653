"""Numba kernel for products in twice the precision of float64. Imported on first use, never with prgd.

No function here may have ``fastmath``: an error-free transformation is a formula whose value would be 0 in
the algebra of real numbers, and a compiler that may reassociate or contract would remove it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd.rows._compile import exact_jit, inner_exact_jit
from prgd.rows.arrays import COLUMNS, ROWS

SPLITTER = 2.0**27 + 1.0  # the constant of `prgd.core.arithmetic.split`


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
def accurate_products(
    A: Any, w: Any, intercept: float, first: int, last: int, products: Any, corrections: Any
) -> None:
    """Write ``<w, x_i> + intercept`` and the absolute corrections of rows ``first..last`` by Dot2.

    ``w`` is the vector with its high and low parts. A row is a loop of its own in every kind of storage, so
    that the numbers are the same for all of them, bit by bit.
    """
    v, high, low_part = w
    for i in range(first, last):
        total, low, size = intercept, 0.0, 0.0
        if len(A) == ROWS:
            for j in range(v.size):
                x = np.float64(A[0][i, j])
                total, low, size = _add(total, low, size, x, (v[j], high[j], low_part[j]))
        elif len(A) == COLUMNS:
            for j in range(v.size):
                x = np.float64(A[0][j, i])
                total, low, size = _add(total, low, size, x, (v[j], high[j], low_part[j]))
        else:
            for q in range(A[2][i], A[2][i + 1]):
                j, x = A[1][q], np.float64(A[0][q])
                total, low, size = _add(total, low, size, x, (v[j], high[j], low_part[j]))
        products[i], corrections[i] = total + low, size
