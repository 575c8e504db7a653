r"""Tally: the associative summary of any set of rows at w, and how Tallies merge.

For the exponential loss, ``grad L / L = -Z^T p`` with ``p = softmax(-Zw)``: an online softmax over the
rows that reads each of them once. Blocks, threads, file chunks, GPU tiles and cluster partitions all
return a Tally, and the same `merge` ends the pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prgd.core.threads import lazy
from prgd.core.types import Array

SHIFT, MASS, SLOPE_SHIFT, SLOPE_MASS, MARGIN, COUNT, SECOND = range(7)


@dataclass(frozen=True, eq=False)
class Tally:
    r"""Sums over a set of rows, apart for each group of them, each relative to its largest term.

    Rows form one group, or one for each class if the problem has an intercept.

    Attributes
    ----------
    scalars : ndarray of shape (groups, 6), or (groups, 7) if the pass has a second direction v
        For each group ``shift, mass, slope_shift, slope_mass, margin, count, second``:

        - ``sum_i s_i l(m_i) = mass * exp(shift)``, with ``shift`` the largest ``log l(m_i)``;
        - ``slope_shift`` and ``slope_mass`` are the same for ``-l'(m_i)``, and equal to ``shift, mass`` for
          the exponential loss;
        - ``margin`` is the smallest ``m_i = <w, z_i>`` among rows of positive weight;
        - ``count`` is the sum of the sample weights ``s_i``;
        - ``second`` is the smallest ``<v, z_i>`` among rows of positive weight.
    vector : ndarray of shape (groups, d)
        ``sum_i s_i (-l'(m_i)) z_i = vector * exp(slope_shift)``.
    """

    scalars: Array
    vector: Array

    @classmethod
    def identity(cls, groups: int, d: int) -> Tally:
        """Return the Tally of no rows."""
        scalars = np.array([[-math.inf, 0.0, -math.inf, 0.0, math.inf, 0.0]] * groups)
        return cls(scalars, np.zeros((groups, d)))

    @lazy
    def _numbers(self) -> list[list[float]]:
        # Python's own floats: arithmetic on single numbers of an array takes ten times as long.
        numbers: list[list[float]] = self.scalars.tolist()
        return numbers

    @property
    def margins(self) -> list[float]:
        """Smallest margin of each group."""
        return [group[MARGIN] for group in self._numbers]

    @property
    def second_margins(self) -> list[float]:
        """Smallest margin of each group along the second direction of the pass."""
        return [group[SECOND] for group in self._numbers]

    @property
    def count(self) -> float:
        """Sum of the sample weights of all groups."""
        return sum(group[COUNT] for group in self._numbers)

    @property
    def log_sums(self) -> list[float]:
        """``log sum_i s_i l(m_i)`` of each group."""
        return [
            group[SHIFT] + math.log(group[MASS]) if group[MASS] > 0.0 else -math.inf
            for group in self._numbers
        ]

    @property
    def mean_rows(self) -> Array:
        """``Z^T p`` of each group, p proportional to ``s_i (-l'(m_i))``: points of the hulls of the rows."""
        return self.vector / self.scalars[:, SLOPE_MASS, None]

    @property
    def smallest_mass(self) -> float:
        """The smallest ``slope_mass`` of a group with rows: the sum of its weights over the largest one."""
        return min((group[SLOPE_MASS] for group in self._numbers if group[COUNT] > 0.0), default=0.0)

    @property
    def slope_over_value(self) -> float:
        """``sum s_i (-l') / sum s_i l`` of the first group: 1 for the exponential loss."""
        shift, mass, slope_shift, slope_mass = self._numbers[0][: SLOPE_MASS + 1]
        return math.exp(slope_shift - shift) * slope_mass / mass


def merge_slices(scalars: Array, vectors: Array) -> Tally:
    """Return the Tally of slices, from scalars of shape (slices, groups, 6 or 7) and vectors.

    The order of the slices is the caller's, so that results do not depend on timing. ``vectors`` is
    overwritten.
    """
    if len(scalars) == 1:
        return Tally(scalars[0], vectors[0])
    merged = np.empty(scalars.shape[1:])
    for shift, mass in ((SHIFT, MASS), (SLOPE_SHIFT, SLOPE_MASS)):
        merged[:, shift], factors = _factors(scalars[:, :, shift])
        merged[:, mass] = (factors * scalars[:, :, mass]).sum(axis=0)
    merged[:, MARGIN], merged[:, COUNT] = scalars[:, :, MARGIN].min(axis=0), scalars[:, :, COUNT].sum(axis=0)
    merged[:, SECOND:] = scalars[:, :, SECOND:].min(axis=0)
    # The vectors have the factors of the slopes. They are added slice by slice and in place, since with many
    # columns they are most of the memory of a pass.
    total = np.zeros(vectors.shape[1:])
    for factor, vector in zip(factors, vectors, strict=True):
        if factor.any():
            if (factor != 1.0).any():
                vector *= factor[:, None]
            total += vector
    return Tally(merged, total)


def _factors(shifts: Array) -> tuple[Array, Array]:
    """Return the largest shift of each group, and ``exp(shift - largest)`` for each slice and group."""
    largest = shifts.max(axis=0)
    # exp(-inf + inf) is NaN: a Tally of no rows has factor 0. A shift of +inf stays NaN: the run diverged.
    safe = np.where(largest == -math.inf, 0.0, largest)
    with np.errstate(invalid="ignore"):
        return largest, np.exp(shifts - safe)


def merge(tallies: Sequence[Tally]) -> Tally:
    """Return the Tally of all sets of rows together.

    Examples
    --------
    >>> a = Tally(np.array([[-3.0, 1.0, -3.0, 1.0, 3.0, 1.0]]), np.array([[1.0, 0.0]]))
    >>> merge([a, Tally.identity(1, 2)]).margins
    [3.0]
    >>> merge([a, a]).count
    2.0
    """
    if len(tallies) == 1:
        return tallies[0]
    return merge_slices(np.stack([t.scalars for t in tallies]), np.stack([t.vector for t in tallies]))
