"""The minimal profile: how the solver runs on a machine that has NumPy and torch alone.

Numba and SciPy are dependencies of an ordinary installation. A machine that only fits rows of tensors on a
GPU may lack both, and `prgd.max_margin` still runs there. This is the only module that asks whether they are
present, and it has the replacements: the same steps, several times slower. Sparse rows need SciPy, and so
does the proof that data are not separable: without SciPy the status is STALLED instead of NOT_SEPARABLE.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from prgd.core.types import Array, Indices

HAS_NUMBA = find_spec("numba") is not None
HAS_SCIPY = find_spec("scipy") is not None

MIN_CURVATURE = 1e-300  # the curvature along a pair of equal rows, which would divide by zero


def descend(G: Array, group: Indices, p: Array, g: Array, tol: float, max_steps: int) -> tuple[int, float]:
    """Take the steps of `prgd.solvers.pairwise_descent.descend` in NumPy, each some ten times slower."""
    G = G[: p.size, : p.size]
    members = [np.flatnonzero(group == q) for q in np.unique(group)]
    diagonal, violation = np.diag(G).copy(), 0.0
    for step in range(max_steps):
        gain, pair, worst, square = 0.0, (-1, -1), 0.0, float(p @ g)
        for rows in members:
            i = rows[np.argmin(g[rows])]
            others = rows[(p[rows] > 0.0) & (g[rows] > g[i])]
            if others.size == 0:
                continue
            slope = g[others] - g[i]
            worst = max(worst, float(slope.max()))
            curvature = np.maximum(diagonal[i] + diagonal[others] - 2.0 * G[i, others], MIN_CURVATURE)
            move = np.minimum(slope / curvature, p[others])
            gains = move * (slope - 0.5 * curvature * move)
            k = int(np.argmax(gains))
            if gains[k] > gain:
                gain, pair = float(gains[k]), (int(i), int(others[k]))
        violation = worst / square if square > 0.0 else np.inf
        i, j = pair
        if i < 0 or worst <= tol * square:
            return step, violation if i >= 0 else 0.0
        length = (g[j] - g[i]) / max(diagonal[i] + diagonal[j] - 2.0 * G[i, j], MIN_CURVATURE)
        moved = min(float(length), float(p[j]))
        p[j] = 0.0 if moved == p[j] else p[j] - moved
        p[i] += moved
        g += moved * (G[i] - G[j])
    return max_steps, violation


def sparse_products(G: Array, Z: Any, old: int, threads: int) -> None:
    """Write the products of the CSR rows from ``old`` on with all rows into G, by SciPy."""
    new = Z.shape[0]
    G[old:new, :new] = (Z[old:] @ Z.T).toarray()


def definite_solver(H: Array) -> Callable[[Array], Array]:
    """Return ``b -> H^-1 b`` by NumPy's Cholesky factorisation; NumPy has no triangular solve."""
    inverse = np.linalg.inv(np.linalg.cholesky(H))
    return lambda b: np.asarray(inverse.T @ (inverse @ b))
