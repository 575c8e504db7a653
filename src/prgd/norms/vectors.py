"""Euclidean norms and the scaling of arrays, without overflow or underflow."""

from __future__ import annotations

import math
import sys

import numpy as np

from prgd._types import Array
from prgd.arithmetic import SMALLEST, UNIT_ROUNDOFF, raised, times_power

# Below and above these, w.w has lost digits to under- or overflow.
_SMALL, _LARGE = sys.float_info.min / sys.float_info.epsilon, sys.float_info.max

_ONE_THREAD = 2**13  # vectors of so many entries are multiplied by BLAS on one thread
_MANY_THREADS = 2**20  # from so many entries on, several threads pay
_MAX_EXPONENT = 60  # vectors with entries between 2^-60 and 2^60 are moderate


def norm(v: Array) -> float:
    """Return the Euclidean norm of an array of any shape, scaled if ``v.v`` would leave the floating range.

    Examples
    --------
    >>> round(norm(np.array([3e200, 4e200])) / 1e200, 12)
    5.0
    """
    if v.ndim != 1:
        v = v.ravel()
    with np.errstate(over="ignore"):
        square = _square(v)
    if _SMALL < square <= _LARGE:
        return math.sqrt(square)
    largest = largest_entry(v)
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(_square(v / largest))


def _square(v: Array) -> float:
    """Return ``v.v`` on one thread: BLAS wakes others for long vectors, and waits if they are busy."""
    if not _ONE_THREAD < v.size <= _MANY_THREADS:
        return float(v.dot(v))
    parts = (v[k : k + _ONE_THREAD] for k in range(0, v.size, _ONE_THREAD))
    return sum(float(part.dot(part)) for part in parts)


def moderate(v: Array) -> Array:
    """Return v divided by a power of two, if its products could lose digits to under- or overflow."""
    exponent = math.frexp(float(np.abs(v).max(initial=0.0)))[1]
    return np.ldexp(v, -exponent) if abs(exponent) > _MAX_EXPONENT else v


def rescale(v: Array, R: float) -> Array:
    """Return ``R v / ||v||``."""
    return (v / norm(v)) * R


def project_ball(v: Array, R: float) -> Array:
    """Return the point of the ball of radius ``R`` around 0 nearest to ``v``."""
    return v if norm(v) <= R else rescale(v, R)


def raised_norm(v: Array) -> float:
    """Return a number that is at least ``||v||_2``, and larger by a few units in the last place at most."""
    largest = largest_entry(v)
    if not 0.0 < largest < math.inf:
        return largest
    # Scaling by a power of two keeps the squares in the floating range; `math.fsum` rounds once.
    exponent = math.frexp(largest)[1]
    scaled = np.ldexp(v, -exponent)
    # Six units cover the rounding of squares, their sum, the product and the underflows; two more the root.
    square = math.fsum((scaled * scaled).ravel().tolist()) * (1.0 + 6.0 * UNIT_ROUNDOFF) + v.size * SMALLEST
    return times_power(math.sqrt(square) * (1.0 + 4.0 * UNIT_ROUNDOFF), exponent) + SMALLEST


def raised_sum(v: Array) -> float:
    """Return a number that is at least ``sum_i |v_i|``, and larger by a few units in the last place at most.

    Examples
    --------
    >>> raised_sum(np.array([1.0, -1e-17])) > 1.0
    True
    """
    try:
        return raised(math.fsum(np.abs(v).ravel().tolist()))
    except OverflowError:
        return math.inf


def largest_entry(v: Array) -> float:
    """Return ``max_i |v_i|``, 0 if v is empty."""
    return float(np.abs(v).max(initial=0.0))
