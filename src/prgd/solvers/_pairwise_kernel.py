"""The steps of `prgd.solvers.pairwise_descent`, compiled. Imported on first use, never with prgd."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

_exact = nb.njit(nogil=True, cache=True, fastmath={"contract"})


_EXACT_EVERY = 64  # steps between which p^T G p is updated, not summed


@_exact
def _product(p: Any, g: Any) -> float:
    total = 0.0
    for k in range(p.size):
        total += p[k] * g[k]
    return total


@_exact
def descend(G: Any, group: Any, p: Any, g: Any, tol: float, most: int) -> tuple[int, float]:
    """See `prgd.solvers.pairwise_descent.descend`; of G, the first ``p.size`` rows and columns count."""
    m = p.size
    diagonal = np.empty(m)  # that of G has a cache line for each entry
    for k in range(m):
        diagonal[k] = G[k, k]
    unit = 1.0 / max(diagonal.max(), 1e-300)  # a product of two slopes may underflow
    violation, square = 0.0, 0.0
    for step in range(most):
        if step % _EXACT_EVERY == 0:
            square = _product(p, g)
        i_0, i_1, low_0, low_1 = -1, -1, np.inf, np.inf
        for k in range(m):
            if group[k] == 0:
                if g[k] < low_0:
                    low_0, i_0 = g[k], k
            elif g[k] < low_1:
                low_1, i_1 = g[k], k
        gain, bar, best_i, best_j, worst = 0.0, 0.0, -1, -1, 0.0
        for k in range(m):
            if p[k] > 0.0:
                i, low = (i_0, low_0) if group[k] == 0 else (i_1, low_1)
                slope = g[k] - low
                worst = max(worst, slope)
                curvature = max(diagonal[i] + diagonal[k] - 2.0 * G[i, k], 1e-300)
                if unit * slope * slope > bar * curvature:  # else no step, of any length, gains more
                    move = min(slope / curvature, p[k])
                    found = move * (slope - 0.5 * curvature * move)
                    if found > gain:
                        gain, best_i, best_j = found, i, k
                        bar = 2.0 * unit * gain
        if worst <= tol * square:
            square = _product(p, g)
        violation = worst / square if square > 0.0 else np.inf
        if best_i < 0 or worst <= tol * square:
            return step, violation if best_i >= 0 else 0.0
        i, j = best_i, best_j
        slope = g[j] - g[i]
        curvature = max(diagonal[i] + diagonal[j] - 2.0 * G[i, j], 1e-300)
        move = slope / curvature
        if move >= p[j]:
            move = p[j]
            p[j] = 0.0
        else:
            p[j] -= move
        p[i] += move
        square += move * (curvature * move - 2.0 * slope)
        for k in range(m):
            g[k] += move * (G[i, k] - G[j, k])
    return most, violation
