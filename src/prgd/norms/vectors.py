"""Euclidean norms and the scaling of arrays, without overflow or underflow."""

from __future__ import annotations

import math
import sys

import numpy as np

from prgd.core.arithmetic import BOUND_FACTOR, SMALLEST, UNIT_ROUNDOFF, rounding_factor, times_power
from prgd.core.types import Array

# Below and above these, w.w has lost digits to under- or overflow.
_SMALL, _LARGE = sys.float_info.min / sys.float_info.epsilon, sys.float_info.max

_ONE_THREAD = 2**13  # vectors of so many entries are multiplied by BLAS on one thread
_MANY_THREADS = 2**20  # from so many entries on, several threads pay
_BLOCK = 8  # numbers that are added before their sums are
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
    exponent = math.frexp(largest_entry(v))[1]
    return np.ldexp(v, -exponent) if abs(exponent) > _MAX_EXPONENT else v


def rescale(v: Array, R: float) -> Array:
    r"""Return ``R v / ||v||``.

    .. math:: v \mapsto R\, v / \|v\|
    """
    return (v / norm(v)) * R


def project_ball(v: Array, R: float) -> Array:
    r"""Return the point of the ball of radius ``R`` around 0 nearest to ``v``.

    .. math:: \mathrm{Proj}_{B(0, R)}\, v = v \min(1, R / \|v\|)
    """
    return v if norm(v) <= R else rescale(v, R)


def raised_norm(v: Array) -> float:
    """Return a number that is at least ``||v||_2``, and larger by a few units in the last place at most."""
    largest = largest_entry(v)
    if not 0.0 < largest < math.inf:
        return largest
    # Scaling by a power of two keeps the squares in the floating range; `math.fsum` rounds once.
    exponent = math.frexp(largest)[1]
    scaled = np.ldexp(v, -exponent)
    # Six units cover the rounding of the squares, their sum and this line; two more cover the next.
    square = math.fsum((scaled * scaled).ravel().tolist()) * (1.0 + 6.0 * UNIT_ROUNDOFF) + v.size * SMALLEST
    return times_power(math.sqrt(square) * (1.0 + 2.0 * UNIT_ROUNDOFF), exponent) + SMALLEST


def raised_sums(v: Array) -> Array:
    """Return a number that is at least the sum of ``|v_i|`` for each vector v along the last axis.

    Blocks of 8 numbers are added, then blocks of 8 sums, and so on. A number passes through 8 roundings for
    each level, so that the relative excess is about 1e-14 for a million numbers.

    Examples
    --------
    >>> float(raised_sums(np.array([1.0, -1e-17]))) > 1.0
    True
    """
    sums, levels = np.abs(v), 1
    with np.errstate(over="ignore"):
        while sums.shape[-1] > _BLOCK:
            sums = np.add.reduceat(sums, np.arange(0, sums.shape[-1], _BLOCK), axis=-1)
            levels += 1
        raised: Array = sums.sum(axis=-1) * (1.0 + BOUND_FACTOR * rounding_factor(_BLOCK * levels))
    return raised


def raised_norms(v: Array) -> Array:
    """Return a number that is at least ``||v||_2`` for each vector v along the last axis; see `raised_sums`.

    `raised_norm` is nearer to the norm of a single vector, and takes longer.
    """
    largest = largest_entry(v)
    if not 0.0 < largest < math.inf:
        return np.full(v.shape[:-1], largest)
    exponent = math.frexp(largest)[1]
    # An entry may underflow when it is scaled, and when it is squared; four roundings follow.
    squares = raised_sums(np.ldexp(v, -exponent) ** 2) + v.shape[-1] * SMALLEST
    raised: Array = np.ldexp(np.sqrt(squares) * (1.0 + 8.0 * UNIT_ROUNDOFF), exponent) + SMALLEST
    return raised


def largest_entry(v: Array) -> float:
    """Return ``max_i |v_i|``, 0 if v is empty."""
    return float(np.abs(v).max(initial=0.0))
