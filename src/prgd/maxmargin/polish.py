"""Exact weights on the identified support: one factorisation of its Gram matrix.

On a face of the simplex the optimality conditions are linear: ``G x = E mu``, ``E^T x = s``, with one column
of E for each group. A step that would leave the face stops at its boundary, so that the norm never grows.
"""

from __future__ import annotations

import numpy as np

from prgd.losses import Array
from prgd.maxmargin.gram import WorkingSet


def face_minimum(G: Array, E: Array, sums: Array, start: Array) -> Array:
    """Return the minimiser of ``x^T G x`` on the affine hull of the face, the nearest to ``start``."""
    from scipy.linalg import cho_factor, cho_solve

    # E E^T is constant on the feasible set; with it G is definite where rows are affinely independent.
    # The small proximal term covers dependent rows (repeats, more rows than dimensions).
    size = float(np.diag(G).mean()) or 1.0
    H = G + size * (E @ E.T)
    ridge = 1e-13 * size * len(G)
    H[np.diag_indices_from(H)] += ridge
    factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    Y = cho_solve(factor, E, check_finite=False)
    x = start
    for _ in range(3):
        free = ridge * cho_solve(factor, x, check_finite=False)
        mu = np.linalg.solve(E.T @ Y, sums - E.T @ free)
        x = Y @ mu + free
    return x


def polish(working: WorkingSet, groups: int, p: Array, rounds: int = 50) -> Array:
    """Return weights on the support of ``p`` of smallest ``||Z^T p||``, or on a face of it.

    Rows leave as they block the step; none joins. The last solve is refined once with margins formed from the
    rows themselves, since ``G p`` loses the digits that cancel when the margin is small.
    """
    p = p.copy()
    for _ in range(rounds):
        face = np.flatnonzero(p > 0.0)
        E = (working.group[face, None] == np.arange(groups)).astype(np.float64)
        G = working.G[np.ix_(face, face)]
        try:
            x = face_minimum(G, E, E.T @ p[face], p[face])
        except np.linalg.LinAlgError:  # not definite to rounding: keep what there is
            return p
        if x.min() > 0.0:
            p[face] = x
            return p
        step = x - p[face]
        falling = step < 0.0
        ratio = p[face][falling] / -step[falling]
        share = float(ratio.min())
        moved = p[face] + share * step
        moved[np.flatnonzero(falling)[ratio <= share]] = 0.0
        p[face] = np.maximum(moved, 0.0)
    return p


def gordan(working: WorkingSet, p: Array) -> Array:
    """Move ``p`` by the least correction with ``Z^T p = 0``; sums stay where the rows allow it.

    Where the upper bound has almost vanished, this turns it into Gordan's proof, or shows by a negative weight
    that these rows do not give one.
    """
    face = np.flatnonzero(p > 0.0)
    Z = working.rows_of(face)
    E = (working.group[face, None] == np.unique(working.group)).astype(np.float64)
    A = np.vstack([Z.T, E.T * np.abs(Z).max()])
    x = p[face].copy()
    target = np.concatenate([np.zeros(Z.shape[1]), (E.T @ x) * np.abs(Z).max()])
    for _ in range(3):
        x += np.linalg.lstsq(A, target - A @ x, rcond=None)[0]
    found = np.zeros_like(p)
    found[face] = x
    return found
