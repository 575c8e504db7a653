r"""Vectors of a cone that has hardly more rows than coordinates, as in wide sparse data.

On r independent rows S of the r kept columns every margin can be chosen: ``v = S^-1 m``. The entry v_j is
``u . m`` with ``u = S^-T e_j``. If u has both signs, so has v_j; otherwise u proves that v_j has one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from prgd.core.types import Array, Indices
from prgd.proofs.lifted_rows import LiftedRows

_BATCH = 256  # columns whose combinations are held at a time
_ZERO = 1e-13  # weights below this fraction of the largest are rounding errors
_OVERSHOOT = 2.0  # multiple of the step at which the entry would be zero
_TINY = np.finfo(np.float64).tiny
_MAX_ENTRIES = 2**26  # entries of the dense matrix that is factorised


def basis_vectors(
    rows: LiftedRows, basis: Indices, base: Array, columns: Sequence[int]
) -> Iterator[tuple[int, Array, Array | None]]:
    """Yield for each column the weights u of the rows ``basis``, and a vector with the other sign of v_j.

    The vector has margins on these rows that are at least those of ``base``; None if u has one sign only.
    """
    from scipy.linalg import LinAlgWarning, lu_factor, lu_solve

    if basis.size**2 > _MAX_ENTRIES:
        return
    S = rows.sparse(basis, _MAX_ENTRIES)
    margins = np.abs(S @ base)[:, None]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # a singular matrix gives no vectors
        factors: Any = lu_factor(S.toarray(), check_finite=False)
        for start in range(0, len(columns), _BATCH):
            part = list(columns[start : start + _BATCH])
            unit = np.zeros((basis.size, len(part)))
            unit[part, np.arange(len(part))] = 1.0
            U = _refined(S.T, lambda right: lu_solve(factors, right, trans=1, check_finite=False), unit)
            U[np.abs(U) < _ZERO * np.abs(U).max(axis=0)] = 0.0
            # Margins grow in proportion to themselves, which keeps the vectors about as long as ``base``.
            against = np.maximum(-np.sign(base[part]) * U, 0.0) * margins
            squares = np.einsum("ik,ik->k", against, against)
            growth = margins * against * (_OVERSHOOT * np.abs(base[part]) / np.maximum(squares, _TINY))
            moves = _refined(S, lambda right: lu_solve(factors, right, check_finite=False), growth)
            for k, j in enumerate(part):
                t = base + moves[:, k]
                if np.isfinite(t).all() and np.isfinite(U[:, k]).all():
                    yield j, U[:, k], t if squares[k] > _TINY else None


def _refined(S: Any, solve: Callable[[Array], Array], right: Array) -> Array:
    """Return the solution of a system, corrected once by its residual."""
    x = solve(right)
    return np.asarray(x + solve(right - S @ x))
