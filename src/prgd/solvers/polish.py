"""Exact weights on the identified support: a few factorisations of its Gram matrix, or of its rows.

On a face of the simplex the optimality conditions are linear: ``G x = E mu``, ``E^T x = s``, with one column
of E for each group. `pivot_weights` lets all rows at once leave the face whose weight is negative, and all join
whose margin is too small; from a good guess of the support three to five rounds end at the optimum. The other
methods take steps that stop at the boundary of the face, so that the norm never grows.

References
----------
J. Judice and F. Pires (1994). A block principal pivoting algorithm for large-scale strictly monotone linear
complementarity problems. Computers & Operations Research 21(5).
"""

from __future__ import annotations

import numpy as np

from prgd._types import Array
from prgd.arithmetic import EPSILON
from prgd.norms import norm
from prgd.rows.blocks import row_squares
from prgd.solvers.cholesky import definite_solver
from prgd.solvers.working_set import WorkingSet

_RIDGE = 1e-13  # proximal term for each row, as a fraction of the mean squared row norm
_RANK_TOLERANCE = 1e-15  # singular values below this fraction of the largest count as zero
_ROUNDING_FACTOR = 4.0  # a sum below so many EPSILON of the norms of its terms is zero to rounding
_JOINING_FRACTION = 1e-3  # fraction of the heaviest weight that a joining row starts with
_REFINEMENTS = 3  # times that a correction of weights is corrected
_HEAVY_ROWS = 2  # rows for each dimension that are tried alone as a proof that no margin is left
_MAX_PIVOTS = 16  # rounds of block pivoting
_PIVOT_PATIENCE = 3  # rounds that may leave as many rows on the wrong side as the best round before
_MAX_WRONG = 0.4  # fraction of the face: if more rows are on the wrong side, the support is not identified


def face_minimum(G: Array, E: Array, sums: Array, start: Array) -> Array:
    """Return the minimiser of ``x^T G x`` on the affine hull of the face that is nearest to ``start``."""
    # E E^T is constant on the feasible set; with it G is definite if the rows are affinely independent.
    # The small proximal term covers dependent rows (repeated rows, or more rows than dimensions).
    size = float(np.diag(G).mean()) or 1.0
    H = G + size * (E @ E.T)
    ridge = _RIDGE * size * len(G)
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
    ndarray of shape (m,), or None if the rounds do not converge: the guess is poor, or the face is degenerate.
    """
    is_face, fewest, patience = p > 0.0, p.size, _PIVOT_PATIENCE
    for _ in range(_MAX_PIVOTS):
        face = np.flatnonzero(is_face)
        E = working.membership(face)
        if face.size > working.dimensions + working.groups or not E.any(axis=0).all():
            return None
        try:
            x = face_minimum(working.gram_of(face), E, np.ones(working.groups), p[face])
        except np.linalg.LinAlgError:  # the system is not definite to rounding
            return None
        p = np.zeros(p.size)
        p[face] = x
        g = working.margins(working.combine(p))
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
    """Move ``p`` by a small correction to weights with ``Z^T p = 0`` to rounding.

    Sums of groups are kept if the rows allow it. The answer is None if a weight would be negative, or if the
    sum stays larger than its rounding: a margin of 1e-13 is a margin, and so is one of 1e-9 beside rows of
    norm 1e9 that carry hardly any weight.
    """
    support = np.flatnonzero(p > 0.0)
    # If the heaviest rows balance alone, their proof is shorter than that of all rows of an interior point.
    count = _HEAVY_ROWS * (working.dimensions + working.groups)
    heaviest = np.sort(support[np.argsort(-p[support], kind="stable")[:count]])
    lengths = np.sqrt(row_squares(working.Z))
    attempts = ((heaviest, _relative_correction), (support, _relative_correction), (support, _smallest_correction))
    for face, correct in attempts[heaviest.size == support.size :]:
        Z, E = working.rows_of(face), working.membership(face)
        if not E.any(axis=0).all():
            continue
        size = np.abs(Z).max()
        target = np.concatenate([np.zeros(Z.shape[1]), np.full(working.groups, size)])
        x = correct(np.vstack([Z.T, E.T * size]), target, p[face])
        if x is None or x.min() < 0.0:
            continue
        found = np.zeros_like(p)
        found[face] = x
        if norm(working.combine(found)) <= _ROUNDING_FACTOR * EPSILON * float(found @ lengths):
            return found
    return None


def _relative_correction(A: Array, target: Array, start: Array) -> Array | None:
    """Return the solution of ``A x = target`` whose entries change least, each relative to its start."""
    B, x = A * start, start
    scale = np.sqrt(row_squares(B))
    scale[scale == 0.0] = 1.0
    B /= scale[:, None]
    H = B @ B.T
    H[np.diag_indices_from(H)] += _RIDGE * len(H)
    try:
        solve = definite_solver(H)
    except np.linalg.LinAlgError:
        return None
    for _ in range(_REFINEMENTS):
        x = x + start * (B.T @ solve((target - A @ x) / scale))
    return x


def _smallest_correction(A: Array, target: Array, x: Array) -> Array:
    """Return the solution of ``A x = target`` that is nearest to the start x, by singular values."""
    for _ in range(_REFINEMENTS):
        x = x + np.linalg.lstsq(A, target - A @ x, rcond=None)[0]
    return x
