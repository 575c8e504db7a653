"""Goldman and Tucker's partition of the rows, by a simplex method in integers."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.threads import check_time
from prgd.core.types import Array, Mask, RationalVector
from prgd.proofs.modular import IntegerMatrix


class _Tableau:
    """The solutions of ``Z^T p = 0`` as ``p_basis + T p_others = 0``, in integers over one denominator.

    Beside the n columns of p stand those of the identity, which become the dual v, and one column of
    right-hand sides. All right-hand sides are zero, so any choice of pivots is feasible; positive random
    numbers stand in for them, to choose pivots that do not cycle.
    """

    def __init__(self, Z: npt.NDArray[Any], order: Sequence[int]) -> None:
        self.n, d = Z.shape
        self.T = np.hstack([Z.T, np.eye(d, d + 1, dtype=np.int64).astype(object)])
        self.denominator = 1
        self.basis = [-1] * d
        self.pivots = 0
        for j in order:
            unused = [k for k in range(d) if self.basis[k] < 0 and self.T[k, j]]
            if unused:
                self.pivot(unused[0], j)
        kept = [k for k in range(d) if self.basis[k] >= 0]
        self.T, self.basis = self.T[kept], [self.basis[k] for k in kept]
        sides = np.random.default_rng(0).integers(2**20, 2**21, len(kept))
        self.T[:, -1] = [self.denominator * int(side) for side in sides]

    def pivot(self, k: int, j: int) -> None:
        """Make p_j basic in row k, by Edmonds' steps, whose divisions leave no remainder."""
        check_time()
        row = self.T[k] if self.T[k, j] > 0 else -self.T[k]
        pivot = row[j]
        self.T = (self.T * pivot - np.outer(self.T[:, j], row)) // self.denominator
        self.T[k] = row
        self.denominator = pivot
        self.basis[k] = j
        self.pivots += 1

    def ray(self, j: int) -> list[int]:
        """Return the direction in which all weights change as p_j grows."""
        ray = [0] * self.n
        ray[j] = self.denominator
        for k, basic in enumerate(self.basis):
            ray[basic] = -self.T[k, j]
        return ray


def partition_rows(
    Z: Array, order: Sequence[int] | None = None, max_pivots: int | None = None
) -> tuple[Mask, list[int], RationalVector] | None:
    r"""Split the rows into those that some v separates and those that none can, in exact arithmetic.

    The simplex method on

    .. math:: \max \sum_{i \in U} p_i, \quad Z^\top p = 0, \quad p_U \ge 0,

    starts from ``U`` = all rows. If the program is unbounded along some ray, the rows of that ray lie on the
    boundary: their weights become free (a multiple of the weights so far makes them positive again) and they
    leave U. If it is optimal, its dual v has margins ``>= 1`` on U and 0 on the boundary.

    Parameters
    ----------
    Z : ndarray of shape (n, d), finite floats
    order : integers, optional
        Rows in the order in which they should enter the first basis.
    max_pivots : int, optional

    Returns
    -------
    boundary : ndarray of bool of shape (n,)
        Rows that have margin 0 for every v with ``Z v >= 0``.
    weights : list of n integers
        Dual weights p, positive on the boundary rows and 0 on the others, with ``Z^T p = 0``.
    direction : vector of d fractions
        A v with ``Z v >= 0`` that is positive on all the other rows.

    The answer is None after ``max_pivots``.

    References
    ----------
    Goldman and Tucker (1956), Theory of linear programming.

    Examples
    --------
    >>> Z = np.array([[1.0, 0.0], [-1.0, 0.0], [3.0, 1.0]])
    >>> boundary, weights, direction = partition_rows(Z)
    >>> boundary.tolist(), weights, [str(v) for v in direction]
    ([True, True, False], [1, 1, 0], ['0', '1'])
    """
    n = len(Z)
    matrix = IntegerMatrix.from_floats(Z, by_columns=True)
    tableau = _Tableau(matrix.integers(), range(n) if order is None else order)
    free = np.zeros(n, np.bool_)  # the boundary rows known so far
    weights = [0] * n
    while True:
        check_time()
        if max_pivots is not None and tableau.pivots > max_pivots:
            return None
        costly = [k for k, j in enumerate(tableau.basis) if not free[j]]
        dual = tableau.T[costly].sum(axis=0) if costly else np.zeros(tableau.T.shape[1], object)
        gain = tableau.denominator - dual[:n]
        gain[free] = 0
        gain[tableau.basis] = 0
        candidates = np.flatnonzero(gain > 0)
        if not candidates.size:
            break
        j = int(candidates[np.argmax(gain[candidates])])
        blocking = [k for k in costly if tableau.T[k, j] > 0]
        if blocking:
            # The basic weight that falls to zero first as p_j grows leaves the basis.
            tableau.pivot(min(blocking, key=lambda k: Fraction(tableau.T[k, -1], tableau.T[k, j])), j)
            continue
        ray = tableau.ray(j)
        # The ray is added to so large a multiple of the weights that every positive weight stays positive.
        # A weight that is nearly cancelled would make the next multiple larger, and digits would add up.
        times = max((-64 * q // p + 1 for p, q in zip(weights, ray, strict=True) if p > 0), default=0)
        weights = [q + max(times, 0) * p for p, q in zip(weights, ray, strict=True)]
        # The entering column is zero in the rows that still count, so no free weight ever has to enter.
        free = np.array([p > 0 for p in weights])
    # p and v belong to the rows and columns as given, not as divided by powers of two.
    lift = matrix.rows.max(initial=0) - matrix.rows
    weights = [p << int(s) for p, s in zip(weights, lift, strict=True)]
    common = math.gcd(*weights) or 1
    direction = tuple(
        Fraction(dual[n + j], tableau.denominator) * Fraction(2) ** -int(s)
        for j, s in enumerate(matrix.columns)
    )
    return free, [p // common for p in weights], direction
