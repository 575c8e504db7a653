r"""Tally: the associative summary of any set of rows at w, and how two of them merge.

For the exponential loss, ``grad L / L = -Z^T p`` with ``p = softmax(-Zw)``: an online softmax over the
rows that reads each of them once. Blocks, threads, file chunks, GPU tiles and cluster partitions all
return a Tally, and the same `merge` ends the pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from prgd._types import Array


@dataclass(frozen=True, eq=False)
class Tally:
    r"""Sums over a set of rows, each kept relative to its largest term.

    Attributes
    ----------
    shift, mass : float
        ``sum_i s_i l(m_i) = mass * exp(shift)``, with ``shift`` the largest ``log l(m_i)``.
    slope_shift, slope_mass : float
        The same for ``-l'(m_i)``; equal to ``shift, mass`` for the exponential loss.
    vector : ndarray of shape (d,)
        ``sum_i s_i (-l'(m_i)) z_i = vector * exp(slope_shift)``.
    margin : float
        Smallest ``m_i = <w, z_i>`` among rows of positive weight.
    count : float
        Sum of the sample weights ``s_i``.
    """

    shift: float
    mass: float
    slope_shift: float
    slope_mass: float
    vector: Array
    margin: float
    count: float

    @classmethod
    def identity(cls, d: int) -> Tally:
        """Return the Tally of no rows."""
        return cls(-math.inf, 0.0, -math.inf, 0.0, np.zeros(d), math.inf, 0.0)

    @property
    def log_sum(self) -> float:
        """``log sum_i s_i l(m_i)``."""
        return self.shift + math.log(self.mass) if self.mass > 0.0 else -math.inf

    @property
    def mean_row(self) -> Array:
        """``Z^T p`` with p proportional to ``s_i (-l'(m_i))``: a point of the hull of the rows."""
        return self.vector / self.slope_mass

    @property
    def slope_over_value(self) -> float:
        """``sum s_i (-l') / sum s_i l``: 1 for the exponential loss, below 1 for the logistic."""
        return math.exp(self.slope_shift - self.shift) * self.slope_mass / self.mass


def _factors(a: float, b: float) -> tuple[float, float, float]:
    # exp(-inf + inf) is NaN: a Tally of no rows has factor 0
    shift = max(a, b)
    if shift == -math.inf:
        return shift, 0.0, 0.0
    return shift, math.exp(a - shift), math.exp(b - shift)


def _combine(fa: float, a: Array, fb: float, b: Array) -> Array:
    # the larger shift has factor 1: one product and one sum, since d may be large
    total = fb * b if fa == 1.0 else fa * a
    total += a if fa == 1.0 else b
    return total


def merge(a: Tally, b: Tally) -> Tally:
    """Return the Tally of both sets of rows.

    Examples
    --------
    >>> a = Tally(-3.0, 1.0, -3.0, 1.0, np.array([1.0, 0.0]), 3.0, 1.0)
    >>> merge(a, Tally.identity(2)).margin
    3.0
    >>> merge(a, a).mass
    2.0
    """
    shift, fa, fb = _factors(a.shift, b.shift)
    slope_shift, ga, gb = _factors(a.slope_shift, b.slope_shift)
    return Tally(
        shift,
        fa * a.mass + fb * b.mass,
        slope_shift,
        ga * a.slope_mass + gb * b.slope_mass,
        _combine(ga, a.vector, gb, b.vector),
        min(a.margin, b.margin),
        a.count + b.count,
    )


def merge_all(tallies: Iterable[Tally]) -> Tally:
    """Merge from left to right; the order is the caller's, so that results do not depend on timing."""
    return reduce(merge, tallies)
