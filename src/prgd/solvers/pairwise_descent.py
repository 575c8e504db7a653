"""Pairwise descent: the shortest vector of a hull (or between two hulls) from its Gram matrix.

Minimise ``p^T G p / 2`` over weights p >= 0 whose sum in each group is fixed, by moving weight between
the two rows of a group that gain most (second-order choice, as LIBSVM's). ``g = G p`` holds the margins
``<u, z_i>`` of the rows at ``u = Z^T p``; they are equal on the support at the optimum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd._types import Array

_LEAST_CURVATURE = 1e-300


def descend(
    G: Array, group: Any, groups: int, p: Array, g: Array, tol: float, most: int
) -> tuple[int, float]:
    """Update p and g in place; return the steps taken and the violation left, relative to p^T G p.

    The violation is the largest ``g_j - g_i`` within a group, j carrying weight and i any row. It bounds
    the relative gap of the certificate over these rows. G may be larger: its first ``p.size`` rows and
    columns count. Compiled where Numba is there.
    """
    try:
        from prgd.solvers import _pairwise_kernel as _pairs_kernel
    except ImportError:
        return descend_plainly(G, group, groups, p, g, tol, most)
    steps, violation = _pairs_kernel.descend(G, group, p, g, tol, most)
    return int(steps), float(violation)


def descend_plainly(
    G: Array, group: Any, groups: int, p: Array, g: Array, tol: float, most: int
) -> tuple[int, float]:
    """`descend` in NumPy: the same steps, each some ten times slower."""
    G = G[: p.size, : p.size]
    members = [np.flatnonzero(group == q) for q in range(groups)]
    diagonal, violation = np.diag(G).copy(), 0.0
    for step in range(most):
        gain, pair, worst, square = 0.0, (-1, -1), 0.0, float(p @ g)
        for rows in members:
            i = rows[np.argmin(g[rows])]
            others = rows[(p[rows] > 0.0) & (g[rows] > g[i])]
            if others.size == 0:
                continue
            slope = g[others] - g[i]
            worst = max(worst, float(slope.max()))
            curvature = np.maximum(diagonal[i] + diagonal[others] - 2.0 * G[i, others], _LEAST_CURVATURE)
            move = np.minimum(slope / curvature, p[others])
            found = move * (slope - 0.5 * curvature * move)
            k = int(np.argmax(found))
            if found[k] > gain:
                gain, pair = float(found[k]), (int(i), int(others[k]))
        violation = worst / square if square > 0.0 else np.inf
        i, j = pair
        if i < 0 or worst <= tol * square:
            return step, violation if i >= 0 else 0.0
        move = (g[j] - g[i]) / max(diagonal[i] + diagonal[j] - 2.0 * G[i, j], _LEAST_CURVATURE)
        moved = min(float(move), float(p[j]))
        p[j] = 0.0 if moved == p[j] else p[j] - moved
        p[i] += moved
        g += moved * (G[i] - G[j])
    return most, violation
