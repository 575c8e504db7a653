"""Norms as values, and vector operations that neither overflow nor underflow.

The margin of w is measured in a norm, and the upper bound of a certificate in its dual norm:
``min_i <w, z_i> / ||w|| <= gamma_star <= ||Z^T p||_*``.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from prgd._types import Array
from prgd.values import parse

# Below and above these, w.w has lost digits to under- or overflow.
_SMALL, _LARGE = sys.float_info.min / sys.float_info.epsilon, sys.float_info.max


_ONE_THREAD = 2**13  # vectors of so many entries are multiplied by BLAS on one thread
_MANY_THREADS = 2**20  # from so many entries on, several threads pay
_MAX_EXPONENT = 60  # vectors with entries between 2^-60 and 2^60 are moderate


def norm(v: Array) -> float:
    """Return the Euclidean norm, by a scaled sum if ``v.v`` would leave the floating range.

    Examples
    --------
    >>> round(norm(np.array([3e200, 4e200])) / 1e200, 12)
    5.0
    """
    with np.errstate(over="ignore"):
        square = _square(v)
    if _SMALL < square <= _LARGE:
        return math.sqrt(square)
    largest = float(np.abs(v).max(initial=0.0))
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


class Norm(Protocol):
    """What a problem asks of the norm in which its margin is measured."""

    name: ClassVar[str]

    def __call__(self, w: Array) -> float:
        """Return ``||w||``."""

    def dual(self, u: Array) -> float:
        """Return the dual norm, the largest ``<u, w>`` over ``||w|| <= 1``."""

    def steepest(self, u: Array) -> Array:
        """Return a w of norm 1 with ``<u, w> = dual(u)``: the direction of steepest ascent."""

    def rescale(self, w: Array, R: float) -> Array:
        """Return the multiple of w whose norm is R."""

    def project(self, w: Array, R: float) -> Array:
        """Return a point of the ball of radius R near w, and w itself if it lies inside."""


@dataclass(frozen=True)
class L2:
    """The Euclidean norm, its own dual.

    Examples
    --------
    >>> L2()(np.array([3.0, 4.0])), L2().steepest(np.array([0.0, 2.0]))
    (5.0, array([0., 1.]))
    """

    name: ClassVar[str] = "l2"

    def __call__(self, w: Array) -> float:
        """Return ``||w||_2``."""
        return norm(w)

    def dual(self, u: Array) -> float:
        """Return ``||u||_2``."""
        return norm(u)

    def steepest(self, u: Array) -> Array:
        """Return ``u / ||u||_2``."""
        return rescale(u, 1.0)

    def rescale(self, w: Array, R: float) -> Array:
        """Return ``R w / ||w||_2``."""
        return rescale(w, R)

    def project(self, w: Array, R: float) -> Array:
        """Return the point of the ball nearest to w."""
        return project_ball(w, R)


NORMS: dict[str, Norm] = {L2.name: L2()}


def as_norm(value: Norm | str) -> Norm:
    """Return the norm itself, or the one of that name.

    Examples
    --------
    >>> as_norm("l2")
    L2()
    """
    if isinstance(value, str):
        found: Norm = parse(value, NORMS, "norm")
        return found
    return value
