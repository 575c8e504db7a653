"""Weights that balance the rows, ``Z^T p = 0``: what proves that no hyperplane separates them.

An iterative method comes near such weights, and a small correction makes the sum vanish to rounding. What is
proven by the weights is left to `prgd.proofs`.
"""

from __future__ import annotations

import numpy as np

from prgd.core.arithmetic import EPSILON
from prgd.core.namespace import add_to_diagonal
from prgd.core.types import Array, Indices
from prgd.norms import norm
from prgd.problem import Problem
from prgd.rows.blocks import row_squares
from prgd.solvers.interior_point import MAX_ROWS_PER_COLUMN, interior_weights
from prgd.solvers.linear_systems import definite_solver
from prgd.solvers.working_set import WorkingSet

_ROUNDING_FACTOR = 4.0  # a sum below so many EPSILON of the norms of its terms is zero to rounding
_REFINEMENTS = 3  # times that a correction of weights is corrected
_HEAVY_ROWS = 2  # rows for each dimension that are tried alone as a proof that no margin is left
_LIGHT = 1e-4  # weights below this fraction of the heaviest are tried as zeros
_DEPENDENT = 1e-6  # a column depends on those before it if its distance from them is below this fraction
_RIDGE = 1e-13  # added to the diagonal of a scaled system, for dependent columns
_SCALED_TOLERANCE = 1e-2  # gap of scaled rows at which the interior point has found a separator of them


def balancing_weights(working: WorkingSet, p: Array) -> Array | None:
    """Return weights with ``Z^T p = 0`` to rounding, from weights p that nearly balance the rows.

    A sum of 1e-9 of the largest row norm may still be large in columns of small entries. So if p cannot be
    corrected, the interior point starts again on scaled columns and rows, which balance if these do.
    """
    found = vanishing_weights(working, p)
    is_tall = working.size > MAX_ROWS_PER_COLUMN * (working.dimensions + 1)
    if found is not None or not (working.is_low_dimensional and is_tall):
        return found
    Z = working.rows_of(np.arange(working.size))
    if working.groups == 2:
        Z = np.column_stack([Z, np.where(working.group == 0, 1.0, -1.0)])
    Z = Z / _or_one(np.abs(Z).max(axis=0))
    lengths = _or_one(np.sqrt(row_squares(Z)))
    scaled = WorkingSet.of(Problem(Z / lengths[:, None], scale="none", fit_intercept=False))
    mean = scaled.combine(np.full(len(Z), 1.0 / len(Z)))
    start = mean if norm(mean) > EPSILON else scaled.rows_of(np.arange(1))[0]
    solved = interior_weights(scaled, start, _SCALED_TOLERANCE) if norm(start) > 0.0 else None
    if solved is None:
        return None
    p = solved[0] / lengths
    sums = np.bincount(working.group, p, minlength=working.groups)
    return vanishing_weights(working, p / sums[working.group]) if sums.min() > 0.0 else None


def _or_one(sizes: Array) -> Array:
    """Return sizes to divide by: 1 in the place of 0."""
    return np.where(sizes > 0.0, sizes, 1.0)


def vanishing_weights(working: WorkingSet, p: Array) -> Array | None:
    """Move ``p`` by a small correction to weights with ``Z^T p = 0`` to rounding.

    Sums of groups are kept if the rows allow it. The answer is None if a weight would be negative, or if the
    sum stays larger than its rounding: a margin of 1e-13 is a margin, and so is one of 1e-9 beside rows of
    norm 1e9 that carry hardly any weight.
    """
    support = np.flatnonzero(p > 0.0)
    lengths = np.sqrt(row_squares(working.Z))
    attempts = [(face, _relative_correction) for face in _faces(working, p, support)]
    for face, correct in [*attempts, (support, _smallest_correction)]:
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


def _faces(working: WorkingSet, p: Array, support: Indices) -> list[Indices]:
    """Return the rows that carry weight, and the heaviest of them: first those that make the better proof.

    The heaviest make a shorter proof, but only if they span what all rows do. If they do not, all come first;
    they do not balance if some of them can be separated, and then the heaviest may.
    """
    few = _HEAVY_ROWS * (working.dimensions + working.groups)
    heavy = int(np.count_nonzero(p > _LIGHT * p.max()))
    order = support[np.argsort(-p[support], kind="stable")]
    faces = [np.sort(order[:count]) for count in sorted({few, heavy}) if few <= count < support.size]
    if not faces:
        return [support]
    ranks = [_rank(working.rows_of(face) * np.sqrt(p[face, None])) for face in (faces[0], support)]
    return [*faces, support] if ranks[0] == ranks[1] else [support, *faces]


def _rank(Z: Array) -> int:
    """Return the number of columns of Z that do not depend on those before them, up to rounding."""
    Z = Z / _or_one(np.sqrt(row_squares(Z.T)))
    return int(np.count_nonzero(np.abs(np.diag(np.linalg.qr(Z, mode="r"))) > _DEPENDENT))


def _relative_correction(A: Array, target: Array, start: Array) -> Array | None:
    """Return the solution of ``A x = target`` whose entries change least, each relative to its start."""
    B, x = A * start, start
    scale = _or_one(np.sqrt(row_squares(B)))
    B /= scale[:, None]
    H = B @ B.T
    add_to_diagonal(H, _RIDGE * len(H))
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
