"""The shortest vector of a hull in integers: the last resort for margins that float64 cannot see.

Wolfe's method in exact arithmetic: it solves on a face, lets the row of smallest margin join, and ends after
finitely many faces with the optimum itself. Columns with units from 1e-8 to 1e8, or margins of 1e-12 of the
row norms, make no difference to it; the number of dimensions does, since integers grow with it.

References
----------
Wolfe (1976), Finding the nearest point in a polytope; Bareiss (1968), Sylvester's identity and multistep
integer-preserving Gaussian elimination.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.core.types import Array, Indices

_MAX_FACES = 500  # faces that are solved on, at most


class ShortestVector(NamedTuple):
    """The optimum over some rows: their integer weights, of one sum in each group, and ``sum_i p_i z_i``."""

    weights: list[int]
    total: int
    vector: list[int]


def shortest_vector(Z: npt.NDArray[Any], group: Indices, start: Array) -> ShortestVector | None:
    """Return the shortest vector of the hull of integer rows, the hulls of two groups added if there are two.

    Parameters
    ----------
    Z : array of integers (objects) of shape (m, d)
    group : ndarray of int of shape (m,)
    start : ndarray of shape (m,)
        Weights to start from, not negative; those of an approximate solution save faces.

    Returns
    -------
    ShortestVector, or None if the faces are too many.

    Examples
    --------
    >>> Z = np.array([[2, 1], [2, -1], [5, 0]], dtype=object)
    >>> shortest_vector(Z, np.zeros(3, int), np.ones(3))
    ShortestVector(weights=[2, 2, 0], total=4, vector=[8, 0])
    """
    face, x = _first_face(Z, group, start)
    for _ in range(_MAX_FACES):
        y = _face_minimum(Z[face], group[face])
        if y is None:
            return None
        weights, total = y
        if min(weights) <= 0:
            face, x = _step_to_boundary(face, x, [Fraction(w, total) for w in weights])
            continue
        u = (np.array(weights, dtype=object)[:, None] * Z[face]).sum(axis=0)
        margins = Z @ u
        entering = _entering_row(margins, group, face)
        if entering is None:
            full = [0] * len(Z)
            for i, w in zip(face, weights, strict=True):
                full[i] = w
            return ShortestVector(full, total, [int(v) for v in u])
        face, x = [*face, entering], [*(Fraction(w, total) for w in weights), Fraction(0)]
    return None


def _first_face(Z: npt.NDArray[Any], group: Indices, start: Array) -> tuple[list[int], list[Fraction]]:
    """Return the rows that carry weight at the start, or the heaviest row of each group if they depend."""
    face, names = np.flatnonzero(start > 0.0).tolist(), set(group.tolist())
    has_all = set(group[face].tolist()) == names and len(face) <= Z.shape[1] + 2
    if has_all and _face_minimum(Z[face], group[face]) is not None:
        x = {i: Fraction(float(start[i])) for i in face}
        sums = {q: sum(x[i] for i in face if group[i] == q) for q in names}
        return face, [x[i] / sums[int(group[i])] for i in face]
    members = [np.flatnonzero(group == q) for q in np.unique(group)]
    return [int(m[np.argmax(start[m])]) for m in members], [Fraction(1)] * len(members)


def _face_minimum(Z: npt.NDArray[Any], group: Indices) -> tuple[list[int], int] | None:
    """Return integer weights, over a positive total, of the shortest vector of the affine hulls of a face.

    They solve ``G x = E mu`` and ``E^T x = 1``; None if the rows are affinely dependent.
    """
    groups = np.unique(group)
    m, k = len(Z), groups.size
    A = np.zeros((m + k, m + k + 1), dtype=object)
    A[:m, :m] = Z @ Z.T
    for q, name in enumerate(groups):
        members = group == name
        A[:m, m + q][members] = 1
        A[m + q, :m][members] = 1
        A[m + q, -1] = 1
    solved = solve_integer_system(A)
    if solved is None:
        return None
    numerators, denominator = solved
    sign = 1 if denominator > 0 else -1
    return [sign * int(v) for v in numerators[:m]], sign * denominator


def solve_integer_system(A: npt.NDArray[Any]) -> tuple[list[int], int] | None:
    """Return x as integers over a common denominator for the augmented system A, by Bareiss' elimination.

    Examples
    --------
    >>> solve_integer_system(np.array([[2, 1, 3], [1, 1, 2]], dtype=object))
    ([-1, -1], -1)
    """
    A, n, last = A.copy(), len(A), 1
    for k in range(n):
        pivots = [i for i in range(k, n) if A[i, k]]
        if not pivots:
            return None
        i = min(pivots, key=lambda i: abs(A[i, k]))
        A[[k, i]] = A[[i, k]]
        others = [i for i in range(n) if i != k]
        # Jordan's form of the elimination: all divisions leave no remainder.
        A[others] = (A[others] * A[k, k] - np.outer(A[others, k], A[k])) // last
        last = A[k, k]
    return [int(v) for v in A[:, -1]], int(last)


def _step_to_boundary(
    face: Sequence[int], x: Sequence[Fraction], y: Sequence[Fraction]
) -> tuple[list[int], list[Fraction]]:
    """Move from x towards y until a weight vanishes, and leave such rows out of the face."""
    step = min(a / (a - b) if a > b else Fraction(0) for a, b in zip(x, y, strict=True) if b <= 0)
    moved = [a + step * (b - a) for a, b in zip(x, y, strict=True)]
    kept = [k for k, value in enumerate(moved) if value > 0]
    return [face[k] for k in kept], [moved[k] for k in kept]


def _entering_row(margins: npt.NDArray[Any], group: Indices, face: Sequence[int]) -> int | None:
    """Return the row whose margin lies furthest below that of the face in its group; None at the optimum."""
    level = {int(group[i]): margins[i] for i in face}
    short = [margins[i] - level[int(group[i])] for i in range(len(margins))]
    i = min(range(len(short)), key=lambda i: short[i])
    return i if short[i] < 0 else None
