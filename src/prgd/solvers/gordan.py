"""No separator: Gordan's weights, from an upper bound that has almost vanished, and their proof.

A bound at rounding is no proof: rows may be separated by a margin of 1e-16 of their norm. `proofs` decides.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.norms import norm
from prgd.solvers.working_set import WorkingSet

_EPS = float(np.finfo(np.float64).eps)


def vanishing_weights(working: WorkingSet, groups: int, p: Array) -> Array | None:
    """Move ``p`` by the least correction to weights with ``Z^T p = 0`` to rounding.

    Sums stay where the rows allow it. None where a weight would be negative, or the sum stays larger than its
    rounding: a margin of 1e-13 is a margin, and so is one of 1e-9 beside rows of norm 1e9 that carry next to
    no weight.
    """
    face = np.flatnonzero(p > 0.0)
    Z = working.rows_of(face)
    E, size = working.membership(face, groups), np.abs(Z).max()
    A = np.vstack([Z.T, E.T * size])
    x = p[face].copy()
    target = np.concatenate([np.zeros(Z.shape[1]), (E.T @ x) * size])
    for _ in range(3):
        x += np.linalg.lstsq(A, target - A @ x, rcond=None)[0]
    if x.min() < 0.0:
        return None
    found = np.zeros_like(p)
    found[face] = x
    vanishes = norm(working.combine(found)) <= 4.0 * _EPS * float(found @ working.norms())
    return found if vanishes else None


def is_proven(working: WorkingSet, p: Array) -> bool:
    """Say whether weights near ``p`` prove that no hyperplane separates the rows that carry weight.

    False, too, where the proof would be dear, or the packages that it needs are not there.
    """
    # weights below rounding may well be zero in truth, and must be where the others balance alone
    faces = {tuple(np.flatnonzero(p > level * p.max())) for level in (_EPS, 0.0)}
    try:
        return any(_prove(working, p, np.array(face)) for face in sorted(faces, key=len))
    except ImportError:
        return False


def _prove(working: WorkingSet, p: Array, face: npt.NDArray[np.int64]) -> bool:
    from prgd.proofs.column_relations import column_structure
    from prgd.proofs.lifted_rows import LiftedRows
    from prgd.proofs.weights import prove_weights

    X, signs = working.Z[face], None
    if working.by_class:  # back to x_i = y_i z_i
        signs = 1.0 - 2.0 * working.group[face]
        X = X * signs[:, None] if isinstance(X, np.ndarray) else X.multiply(signs[:, None]).tocsr()
    rows, inside = LiftedRows(X, signs, fit_intercept=working.by_class), np.arange(face.size)
    known = column_structure(rows, inside)
    return known is not None and prove_weights(rows, inside, p[face], known) is not None
