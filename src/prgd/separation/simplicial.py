r"""Vectors of a cone that has hardly more rows than coordinates, as in wide sparse data.

On r independent rows S of the r kept columns every margin can be chosen: ``v = S^-1 m``. The entry v_j is
``u . m`` with ``u = S^-T e_j``. If u has both signs, so has v_j; otherwise u is a combination that proves one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from prgd._types import Array, Indices
from prgd.proofs.lifted_rows import LiftedRows

_BATCH = 256  # columns whose combinations are held at a time
_ZERO = 1e-13  # weights below this fraction of the largest are rounding errors
_OVERSHOOT = 2.0  # multiple of the step at which the entry would be zero
_REFINEMENTS = 2  # times that the solution of a system is corrected by its residual


def opposite_vectors(
    rows: LiftedRows, basis: Indices, base: Array, columns: Sequence[int]
) -> Iterator[tuple[int, Array, Array | None]]:
    """Yield for each column the weights u of the rows ``basis``, and a vector with the other sign of v_j.

    The vector has margins on these rows that are at least those of ``base``; None if u has one sign only.
    """
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    copy = rows.sparse(basis, 2**63)
    S = csc_array(copy)
    try:
        solver: Any = splu(S)
    except RuntimeError:  # S is singular in float64
        return
    for start in range(0, len(columns), _BATCH):
        part = list(columns[start : start + _BATCH])
        unit = np.zeros((len(S.indptr) - 1, len(part)))
        unit[part, np.arange(len(part))] = 1.0
        U = _solved(S.T, lambda right: solver.solve(right, trans="T"), unit)
        U[np.abs(U) < _ZERO * np.abs(U).max(axis=0)] = 0.0
        signs = np.sign(base[part])
        against = np.maximum(-signs * U, 0.0)
        squares = np.einsum("ik,ik->k", against, against)
        with np.errstate(divide="ignore", invalid="ignore"):
            growth = against * np.where(squares > 0.0, _OVERSHOOT * np.abs(base[part]) / squares, 0.0)
        moves = _solved(S, solver.solve, growth)
        for k, j in enumerate(part):
            yield j, U[:, k], base + moves[:, k] if squares[k] > 0.0 else None


def _solved(S: Any, solve: Any, right: Array) -> Array:
    """Return the solution of a sparse system, corrected by its residuals."""
    x = solve(right)
    for _ in range(_REFINEMENTS):
        x = x + solve(right - S @ x)
    return np.asarray(x)
