"""The maximum-margin direction of a cone, which gradient descent and vanishing ridge follow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prgd.core.types import Array, Indices
from prgd.norms import norm
from prgd.separation.cone import Cone
from prgd.solvers.coordinates import Columns
from prgd.solvers.interior_point import maximise_margin

LEANING_GAP = 1e-10  # gap at which the maximum-margin direction is good enough for its signs
_ROUNDED_GAP = 1e-14  # a gap below this is rounding
MAX_ROUNDS = 30  # times that rows of smaller margin are added


def leaning_signs(cone: Cone, start: Array, index: Indices, columns: Sequence[int]) -> dict[int, str]:
    """Return "+", "-" or "0" for some entries of the maximum-margin direction, in the norm of v.

    An entry is "0" if the gap of the direction leaves its sign open, or rounding does. The gap is rounded
    like any float64 sum.

    Parameters
    ----------
    cone : Cone
    start : ndarray
        Coordinates of a vector of the cone.
    index : ndarray of int
        Separated rows to begin with.
    columns : integers
    """
    try:
        with np.errstate(all="ignore"):
            v, error = _direction(cone, start, index)
    except (np.linalg.LinAlgError, ValueError):  # numbers beyond the floating range
        return dict.fromkeys(columns, "0")
    return {j: ("+" if v[j] > 0.0 else "-") if abs(v[j]) > error else "0" for j in columns}


def _direction(cone: Cone, start: Array, index: Indices) -> tuple[Array, float]:
    """Return the direction of norm 1 and a bound of its distance from that of maximum margin."""
    if cone.basis is None:
        v, Q, rounded = start, np.eye(cone.size), _ROUNDED_GAP
    else:
        sizes = np.abs(cone.basis).max(axis=1, keepdims=True)
        v = start @ cone.basis
        Q, R = np.linalg.qr((cone.basis / sizes).T)  # an orthonormal basis of N, which rounding turns
        rounded = max(_ROUNDED_GAP, np.finfo(float).eps * float(np.linalg.cond(R)))
    error = 2.0
    for _ in range(MAX_ROUNDS):
        G = np.concatenate([Z @ Q for _, Z in cone.rows.blocks(index, as_stored=True)])
        G = np.ldexp(G, -int(np.frexp(np.abs(G).max())[1]))
        at = Columns(G, float(np.sqrt(np.einsum("ij,ij->i", G, G).max())))
        found = maximise_margin(at, np.ones(len(G)), False, Q.T @ v, LEANING_GAP)
        v = Q @ (found.x / norm(found.x))
        error = float(np.sqrt(2.0 * max(found.gap, rounded)))
        margins = cone.rows.margins(v)[cone.separated]
        worst = np.argsort(margins, kind="stable")[: 4 * cone.size]
        known = np.isin(cone.separated, index, assume_unique=True)
        is_worse = margins[worst] < (1.0 - LEANING_GAP) * margins[known].min()
        grown = np.union1d(index, cone.separated[worst[is_worse]])
        if grown.size == index.size:
            break
        index = grown
    return v, error
