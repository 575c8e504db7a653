"""Exact weights on the identified support: a few factorisations of its Gram matrix, or of its rows.

On a face of the simplex the optimality conditions are linear: ``G x = E mu``, ``E^T x = s``, with one column
of E for each group. In `pivot_weights` all rows of negative weight leave the face at once, and all rows that
violate its margin join it; from a good guess of the support three to five rounds end at the optimum. The
other methods take steps that stop at the boundary of the face, so that the norm never grows.

References
----------
J. Judice and F. Pires (1994). A block principal pivoting algorithm for large-scale strictly monotone linear
complementarity problems. Computers & Operations Research 21(5).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd.core.namespace import add_to_diagonal, like, to_host
from prgd.core.types import Array
from prgd.norms import norm
from prgd.solvers.cholesky import definite_solver
from prgd.solvers.working_set import WorkingSet

_RIDGE = 1e-13  # proximal term for each row, as a fraction of the mean squared row norm
_RANK_TOLERANCE = 1e-15  # singular values below this fraction of the largest count as zero
_JOINING_FRACTION = 1e-3  # fraction of the heaviest weight that a joining row starts with
_MIN_FACES, _MAX_FACES, _MAX_FACE_WORK = 20, 1000, 2e9  # faces of Wolfe's method, and their d^3 together
_NEGLIGIBLE = 1e-4  # weights below this fraction of the heaviest are left out of too large a face first
_MAX_PIVOTS = 16  # rounds of block pivoting
_PIVOT_PATIENCE = 3  # rounds that may leave as many rows on the wrong side as the best round before
_MAX_WRONG = 0.4  # fraction of the face: if more rows are on the wrong side, the support is not identified


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


def pivot_weights(working: WorkingSet, p: Array, tol: float) -> Array | None:
    """Return the weights of the shortest vector over the set, from a guess p of their support.

    Each round solves on the face, and exchanges all rows that are on the wrong side: negative weights, and
    margins more than ``tol`` (relative to the squared length of the vector) below those of the face.

    Returns
    -------
    ndarray of shape (m,), or None if the rounds do not converge: the guess is poor, or the face degenerate.
    """
    max_face = working.dimensions + working.groups  # a larger face has dependent rows
    is_face, fewest, patience = heaviest_weights(working, p, max_face) > 0.0, p.size, _PIVOT_PATIENCE
    for _ in range(_MAX_PIVOTS):
        face = np.flatnonzero(is_face)
        E = working.membership(face)
        if face.size > max_face or not E.any(axis=0).all():
            return None
        try:
            x = face_minimum(working.gram_of(face), E, np.ones(working.groups), p[face])
        except np.linalg.LinAlgError:  # the system is not definite to rounding
            return None
        p = np.zeros(p.size)
        p[face] = x
        g = working.products(p)
        allowed, level = tol * float(p @ g), E.T @ (x * g[face])
        excess = g - level[working.group]
        wrong = np.where(is_face, p < 0.0, excess < -allowed)
        count = int(np.count_nonzero(wrong))
        if count == 0:
            return p if np.abs(excess[face]).max() <= allowed else None
        patience = _PIVOT_PATIENCE if count < fewest else patience - 1
        if patience == 0 or count > _MAX_WRONG * face.size + 4:
            return None
        fewest = min(fewest, count)
        is_face ^= wrong
    return None


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


def active_set_weights(working: WorkingSet, p: Array, tol: float) -> Array:
    """Return the weights of the shortest vector over the set, by Wolfe's method on the rows.

    The method solves on the face, lets the row of smallest margin join, and solves again, until no margin
    lies more than ``tol`` below the margins of the face.
    """
    length, d = np.inf, working.dimensions
    p = heaviest_weights(working, p, d + working.groups)
    # Singular values of the face cost about d^3 in each round.
    max_rounds = int(np.clip(_MAX_FACE_WORK / d**3, _MIN_FACES, _MAX_FACES))
    for _ in range(max_rounds):
        p = polish_weights(working, p, by_rows=True, rounds=min(len(p), max_rounds))
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


def heaviest_weights(working: WorkingSet, p: Array, count: int) -> Array:
    """Return p with the heaviest weights alone, of sum 1 in each group: a face has at most so many rows."""
    if np.count_nonzero(p) <= count:
        return p
    kept = np.zeros(p.size)
    for q in range(working.groups):
        members = np.flatnonzero(working.group == q)
        first = members[np.argsort(-p[members], kind="stable")[: count // working.groups]]
        first = first[p[first] > _NEGLIGIBLE * p[first[0]]]
        kept[first] = p[first] / p[first].sum()
    return kept
