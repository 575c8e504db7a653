"""The steps of `prgd.maxmargin.pairs`, compiled. Imported on first use, never with prgd."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

_exact = nb.njit(nogil=True, cache=True, fastmath={"contract"})


@_exact
def descend(G: Any, group: Any, groups: int, p: Any, g: Any, tol: float, most: int) -> tuple[int, float]:
    """See `prgd.maxmargin.pairs.descend`."""
    m = p.size
    violation = 0.0
    for step in range(most):
        gain, best_i, best_j, worst, square = 0.0, -1, -1, 0.0, 0.0
        for k in range(m):
            square += p[k] * g[k]
        for q in range(groups):
            i = -1
            for k in range(m):
                if group[k] == q and (i < 0 or g[k] < g[i]):
                    i = k
            for k in range(m):
                if group[k] == q and p[k] > 0.0 and g[k] > g[i]:
                    slope = g[k] - g[i]
                    worst = max(worst, slope)
                    curvature = max(G[i, i] + G[k, k] - 2.0 * G[i, k], 1e-300)
                    move = min(slope / curvature, p[k])
                    found = move * (slope - 0.5 * curvature * move)
                    if found > gain:
                        gain, best_i, best_j = found, i, k
        violation = worst / square if square > 0.0 else np.inf
        if best_i < 0 or worst <= tol * square:
            return step, violation if best_i >= 0 else 0.0
        i, j = best_i, best_j
        curvature = max(G[i, i] + G[j, j] - 2.0 * G[i, j], 1e-300)
        move = (g[j] - g[i]) / curvature
        if move >= p[j]:
            move = p[j]
            p[j] = 0.0
        else:
            p[j] -= move
        p[i] += move
        for k in range(m):
            g[k] += move * (G[i, k] - G[j, k])
    return most, violation
