"""Norm and projection that neither overflow nor underflow."""

from __future__ import annotations

import math
import sys

import numpy as np

from prgd._types import Array

# below and above these, w.w has lost digits to under- or overflow
_SMALL, _LARGE = sys.float_info.min / sys.float_info.epsilon, sys.float_info.max


def norm(v: Array) -> float:
    """Return the Euclidean norm, by a scaled sum where ``v.v`` would leave the floating range.

    Examples
    --------
    >>> round(norm(np.array([3e200, 4e200])) / 1e200, 12)
    5.0
    """
    with np.errstate(over="ignore"):
        square = float(v.dot(v))
    if _SMALL < square <= _LARGE:
        return math.sqrt(square)
    largest = float(np.abs(v).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    scaled = v / largest
    return largest * math.sqrt(float(scaled.dot(scaled)))


def rescale(v: Array, R: float) -> Array:
    """Return ``R v / ||v||``."""
    return (v / norm(v)) * R


def project_ball(v: Array, R: float) -> Array:
    """Return the point of the ball of radius ``R`` around 0 nearest to ``v``."""
    return v if norm(v) <= R else rescale(v, R)
