"""Exact weights on the identified support: one factorisation of its Gram matrix.

On a face of the simplex the optimality conditions are linear: ``G x = E mu``, ``E^T x = s``, with one column
of E for each group. A step that would leave the face stops at its boundary, so that the norm never grows.
"""

from __future__ import annotations

import numpy as np

from prgd._types import Array
from prgd.norms import norm
from prgd.solvers.cholesky import definite_solver
from prgd.solvers.working_set import WorkingSet


def face_minimum(G: Array, E: Array, sums: Array, start: Array) -> Array:
    """Return the minimiser of ``x^T G x`` on the affine hull of the face, the nearest to ``start``."""
    # E E^T is constant on the feasible set; with it G is definite where rows are affinely independent.
    # The small proximal term covers dependent rows (repeats, more rows than dimensions).
    size = float(np.diag(G).mean()) or 1.0
    H = G + size * (E @ E.T)
    ridge = 1e-13 * size * len(G)
    H[np.diag_indices_from(H)] += ridge
    solve = definite_solver(H)
    Y = solve(E)
    x = start
    for _ in range(3):
        free = ridge * solve(x)
        mu = np.linalg.solve(E.T @ Y, sums - E.T @ free)
        x = Y @ mu + free
    return x


def _face_minimum_by_rows(Z: Array, E: Array, start: Array) -> Array:
    """`face_minimum` from the rows themselves, by orthogonal factors.

    The Gram matrix squares the condition number: below a margin of 1e-4 of the row norms its products keep
    less than half of the digits.
    """
    # directions that keep the sums: each row of a group against its first
    first = np.argmax(E, axis=0)[np.argmax(E, axis=1)]
    moving = np.flatnonzero(first != np.arange(len(E)))
    if moving.size == 0:
        return start
    differences = Z[moving] - Z[first[moving]]
    move = np.linalg.lstsq(differences.T, -(Z.T @ start), rcond=1e-15)[0]
    x = start.copy()
    x[moving] += move
    np.subtract.at(x, first[moving], move)
    return x


def polish(working: WorkingSet, groups: int, p: Array, *, by_rows: bool = False, rounds: int = 8) -> Array:
    """Return weights on the support of ``p`` of smallest ``||Z^T p||``, or on a face of it.

    Rows leave as they block the step; none joins. ``by_rows`` works on the rows instead of their Gram matrix:
    dearer, and right where the margin is tiny.
    """
    p = p.copy()
    for _ in range(rounds):
        face = np.flatnonzero(p > 0.0)
        E = working.membership(face, groups)
        try:
            if by_rows:
                x = _face_minimum_by_rows(working.rows_of(face), E, p[face])
            else:
                x = face_minimum(working.products_of(face), E, E.T @ p[face], p[face])
        except np.linalg.LinAlgError:  # not definite to rounding: keep what there is
            return p
        if x.min() > 0.0:
            p[face] = x
            return p
        step = x - p[face]
        falling = step < 0.0
        ratio = p[face][falling] / -step[falling]
        share = min(float(ratio.min()), 1.0)
        moved = p[face] + share * step
        moved[np.flatnonzero(falling)[ratio <= share]] = 0.0
        p[face] = np.maximum(moved, 0.0)
    return p


def primal(working: WorkingSet, groups: int, p: Array) -> Array:
    """Return the shortest w with margin 1 on all rows that carry weight (at the best intercept).

    At the optimum it is ``u / ||u||^2`` with ``u = Z^T p``. That sum loses digits that cancel: an error of
    1e-16 in u is one of ``1e-16 (max ||z|| / gamma)^2`` in the margins, relative. Solving for w keeps them.
    """
    face = np.flatnonzero(p > 0.0)
    Z, group = working.rows_of(face), working.group[face]
    # rows of a group against their first; the firsts together have margin 1 each, whatever b is
    first = np.array([np.flatnonzero(group == q)[0] for q in range(groups)])
    others = np.setdiff1d(np.arange(face.size), first)
    A = np.vstack([Z[first].sum(axis=0), Z[others] - Z[first[group[others]]]])
    target = np.zeros(len(A))
    target[0] = groups
    w = np.linalg.lstsq(A, target, rcond=1e-15)[0]
    return np.asarray(w + np.linalg.lstsq(A, target - A @ w, rcond=1e-15)[0])


def active_set(working: WorkingSet, groups: int, p: Array, tol: float, most: int = 1000) -> Array:
    """Return the weights of the shortest vector over the set, by Wolfe's method on the rows.

    Solve on the face, let the row of smallest margin join, solve again, until no margin lies more than
    ``tol`` below those of the face.
    """
    length = np.inf
    for _ in range(most):
        p = polish(working, groups, p, by_rows=True, rounds=len(p))
        # each round shortens the vector, or rounding decides and the faces would only cycle
        before, length = length, norm(working.combine(p))
        if not length < before:
            break
        g = working.margins(primal(working, groups, p))
        joined = False
        for q in range(groups):
            members = np.flatnonzero(working.group == q)
            low = members[np.argmin(g[members])]
            heavy = members[np.argmax(p[members])]
            if g[low] < g[heavy] - tol and p[low] == 0.0:
                share = 1e-3 * p[heavy]
                p[low], p[heavy] = share, p[heavy] - share
                joined = True
        if not joined:
            break
    return p
