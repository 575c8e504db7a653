"""Gordan's weights, which prove that there is no separator, from an upper bound that has almost vanished.

A bound at rounding level is no proof: rows may be separated by a margin of 1e-16 of their norm. `prgd.proofs`
decides.
"""

from __future__ import annotations

import numpy as np

from prgd._types import Array, Indices
from prgd.arithmetic import EPSILON
from prgd.norms import norm
from prgd.proofs.column_relations import column_structure
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.weights import prove_weights
from prgd.rows.blocks import row_squares, times_signs
from prgd.solvers import minimal
from prgd.solvers.working_set import WorkingSet

_ROUNDING_FACTOR = 4.0  # a sum below so many EPSILON of the norms of its terms is zero to rounding


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


def prove_no_separator(working: WorkingSet, p: Array) -> bool:
    """Say whether weights near ``p`` prove that no hyperplane separates the rows that carry weight.

    False means that no proof was found: the proof may be too expensive, or SciPy missing.
    """
    if not minimal.HAS_SCIPY:
        return False
    # Weights below rounding may be zero in truth, and must be if the others balance alone.
    faces = {tuple(np.flatnonzero(p > level * p.max())) for level in (EPSILON, 0.0)}
    return any(_prove(working, p, np.array(face)) for face in sorted(faces, key=len))


def _prove(working: WorkingSet, p: Array, face: Indices) -> bool:
    X, signs, has_intercept = working.Z[face], None, working.groups == 2
    if has_intercept:  # the proof takes x_i = y_i z_i
        signs = np.where(working.group[face] == 0, 1, -1).astype(np.int8)
        X = times_signs(X, signs)
    rows, inside = LiftedRows(X, signs, fit_intercept=has_intercept), np.arange(face.size)
    known = column_structure(rows, inside)
    return known is not None and prove_weights(rows, inside, p[face], known) is not None
