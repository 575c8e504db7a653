"""Newton's method for the logarithm of a mean of exponentials, with or without a penalty."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from prgd._types import Array


class Minimum(NamedTuple):
    """A minimiser, the value there and the Hessian, the penalty included."""

    x: Array
    value: float
    hessian: Array


def minimise_log_mean_exp(rows: Array, penalty: float, start: Array) -> Minimum:
    r"""Minimise :math:`\log \frac1n \sum_i e^{\langle x, r_i \rangle} + \frac\lambda2 \|x\|^2` to rounding.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Without a penalty they must surround 0 and span the space, or there is no minimiser.
    penalty : float, not negative.
    start : ndarray of shape (d,)

    Returns
    -------
    Minimum

    Examples
    --------
    >>> found = minimise_log_mean_exp(np.array([[1.0], [1.0], [-1.0]]), 0.0, np.zeros(1))
    >>> bool(abs(found.x[0] + 0.5 * math.log(2.0)) < 1e-15)
    True
    """

    def evaluate(x: Array) -> tuple[float, Array, Array]:
        exponent = rows @ x
        top = float(exponent.max())
        p = np.exp(exponent - top)
        value = top + math.log(float(p.mean())) + 0.5 * penalty * float(x @ x)
        p /= p.sum()
        mean = p @ rows
        hessian = (rows.T * p) @ rows - np.outer(mean, mean) + penalty * np.eye(x.size)
        return value, mean + penalty * x, hessian

    x = start
    value, slope, hessian = evaluate(x)
    for _ in range(500):
        if not slope.any():
            break
        step, size = np.linalg.solve(hessian, slope), 1.0
        while size > 1e-12:
            new = evaluate(x - size * step)
            # At the rounding floor of the value only the slope still shows progress.
            if new[0] < value or np.linalg.norm(new[1]) < np.linalg.norm(slope):
                break
            size *= 0.5
        else:
            break
        x, (value, slope, hessian) = x - size * step, new
    return Minimum(x, value, hessian)
