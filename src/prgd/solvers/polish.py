"""Exact weights on the identified support: one factorisation of its Gram matrix, or of its rows.

On a face of the simplex the optimality conditions are linear: ``G x = E mu``, ``E^T x = s``, with one column
of E for each group. A step that would leave the face stops at its boundary, so that the norm never grows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd._types import Array
from prgd.arithmetic import EPSILON
from prgd.namespace import add_to_diagonal, like, to_host
from prgd.norms import norm
from prgd.rows.blocks import row_squares
from prgd.solvers.cholesky import definite_solver
from prgd.solvers.working_set import WorkingSet

_RIDGE = 1e-13  # proximal term for each row, as a fraction of the mean squared row norm
_RANK_TOLERANCE = 1e-15  # singular values below this fraction of the largest count as zero
_ROUNDING_FACTOR = 4.0  # a sum below so many EPSILON of the norms of its terms is zero to rounding
_JOINING_FRACTION = 1e-3  # fraction of the heaviest weight that a joining row starts with


def face_minimum(G: Any, E: Array, sums: Array, start: Array) -> Array:
    """Return the minimiser of ``x^T G x`` on the affine hull of the face that is nearest to ``start``.

    The Gram matrix may be a tensor on a device; the other arrays, and the answer, are NumPy's.
    """
    # E E^T is constant on the feasible set; with it G is definite if the rows are affinely independent.
    # The small proximal term covers dependent rows (repeated rows, or more rows than dimensions).
    size = float(G.diagonal().mean()) or 1.0
    columns = like(G, E)
    H = G + size * (columns @ columns.T)
    ridge = _RIDGE * size * len(G)
    add_to_diagonal(H, ridge)
    solve = definite_solver(H)
    Y, x = to_host(solve(columns)), start
    for _ in range(3):
        free = ridge * to_host(solve(like(G, x)))
        mu = np.linalg.solve(E.T @ Y, sums - E.T @ free)
        x = Y @ mu + free
    return x


def _face_minimum_by_rows(Z: Array, E: Array, start: Array) -> Array:
    """Solve `face_minimum` from the rows themselves, by orthogonal factors.

    The Gram matrix squares the condition number: below a margin of 1e-4 of the row norms its products keep
    less than half of the digits.
    """
    # Moving weight from the first row of a group to another of its rows keeps the sums.
    first = np.argmax(E, axis=0)[np.argmax(E, axis=1)]
    moving = np.flatnonzero(first != np.arange(len(E)))
    if moving.size == 0:
        return start
    differences = Z[moving] - Z[first[moving]]
    move = np.linalg.lstsq(differences.T, -(Z.T @ start), rcond=_RANK_TOLERANCE)[0]
    x = start.copy()
    x[moving] += move
    np.subtract.at(x, first[moving], move)
    return x


def polish_weights(working: WorkingSet, p: Array, *, by_rows: bool = False, rounds: int = 8) -> Array:
    """Return weights on the support of ``p`` of smallest ``||Z^T p||``, or on a face of it.

    Rows leave the support as they block the step; none joins. ``by_rows`` works on the rows instead of their
    Gram matrix: this is more expensive, and accurate for tiny margins.
    """
    p = p.copy()
    for _ in range(rounds):
        face = np.flatnonzero(p > 0.0)
        E = working.membership(face)
        try:
            if by_rows:
                x = _face_minimum_by_rows(working.rows_of(face), E, p[face])
            else:
                x = face_minimum(working.gram_of(face), E, E.T @ p[face], p[face])
        except np.linalg.LinAlgError:  # the system is not definite to rounding
            return p
        if x.min() > 0.0:
            p[face] = x
            return p
        step = x - p[face]
        falling = step < 0.0
        ratio = p[face][falling] / -step[falling]
        length = min(float(ratio.min()), 1.0)
        moved = p[face] + length * step
        moved[np.flatnonzero(falling)[ratio <= length]] = 0.0
        p[face] = np.maximum(moved, 0.0)
    return p


def primal_direction(working: WorkingSet, p: Array) -> Array:
    """Return the shortest w with margin 1 on all rows that carry weight (at the best intercept).

    At the optimum w is ``u / ||u||^2`` with ``u = Z^T p``. That sum loses digits by cancellation: an error
    of 1e-16 in u is a relative error of ``1e-16 (max ||z|| / gamma)^2`` in the margins. Solving for w keeps
    the digits.
    """
    face = np.flatnonzero(p > 0.0)
    Z, group = working.rows_of(face), working.group[face]
    # The rows of a group have the margin of its first row; the first rows have margin 1 each on average,
    # and the intercept makes their margins equal.
    first = np.array([np.flatnonzero(group == q)[0] for q in range(working.groups)])
    others = np.setdiff1d(np.arange(face.size), first)
    A = np.vstack([Z[first].sum(axis=0), Z[others] - Z[first[group[others]]]])
    target = np.zeros(len(A))
    target[0] = working.groups
    w = np.linalg.lstsq(A, target, rcond=_RANK_TOLERANCE)[0]
    return np.asarray(w + np.linalg.lstsq(A, target - A @ w, rcond=_RANK_TOLERANCE)[0])


def active_set_weights(working: WorkingSet, p: Array, tol: float, max_rounds: int = 1000) -> Array:
    """Return the weights of the shortest vector over the set, by Wolfe's method on the rows.

    The method solves on the face, lets the row of smallest margin join, and solves again, until no margin
    lies more than ``tol`` below the margins of the face.
    """
    length = np.inf
    for _ in range(max_rounds):
        p = polish_weights(working, p, by_rows=True, rounds=len(p))
        # Each round shortens the vector; if it does not, rounding decides and the faces would cycle.
        before, length = length, norm(working.combine(p))
        if not length < before:
            break
        g = working.margins(primal_direction(working, p))
        has_joined = False
        for q in range(working.groups):
            members = np.flatnonzero(working.group == q)
            low = members[np.argmin(g[members])]
            heavy = members[np.argmax(p[members])]
            if g[low] < g[heavy] - tol and p[low] == 0.0:
                moved = _JOINING_FRACTION * p[heavy]
                p[low], p[heavy] = moved, p[heavy] - moved
                has_joined = True
        if not has_joined:
            break
    return p


def vanishing_weights(working: WorkingSet, p: Array) -> Array | None:
    """Move ``p`` by the smallest correction to weights with ``Z^T p = 0`` to rounding.

    Sums of groups are kept if the rows allow it. The answer is None if a weight would be negative, or if the
    sum stays larger than its rounding: a margin of 1e-13 is a margin, and so is one of 1e-9 beside rows of
    norm 1e9 that carry hardly any weight.
    """
    face = np.flatnonzero(p > 0.0)
    Z = working.rows_of(face)
    E, size = working.membership(face), np.abs(Z).max()
    A = np.vstack([Z.T, E.T * size])
    x = p[face].copy()
    target = np.concatenate([np.zeros(Z.shape[1]), (E.T @ x) * size])
    for _ in range(3):
        x += np.linalg.lstsq(A, target - A @ x, rcond=None)[0]
    if x.min() < 0.0:
        return None
    found = np.zeros_like(p)
    found[face] = x
    rounding = _ROUNDING_FACTOR * EPSILON * float(found @ np.sqrt(row_squares(working.Z)))
    return found if norm(working.combine(found)) <= rounding else None
