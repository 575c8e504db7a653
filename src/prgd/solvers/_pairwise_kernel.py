"""The compiled steps of `prgd.solvers.pairwise_descent`, imported on first use."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from prgd.solvers.minimal import MIN_CURVATURE

_EXACT_EVERY = 64  # steps after which p^T G p is summed again instead of updated


@nb.njit(nogil=True, fastmath={"contract"}, error_model="numpy")
def _product(p: Any, g: Any) -> float:
    total = 0.0
    for k in range(p.size):
        total += p[k] * g[k]
    return total


@nb.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def descend(
    G: Any, diagonal: Any, group: Any, p: Any, g: Any, tol: float, max_steps: int, unit: float
) -> tuple[int, float]:
    """Take the steps of `prgd.solvers.pairwise_descent.descend`.

    ``unit`` keeps the product of two slopes from underflow. Arrays are made by the caller: compiling NumPy's
    functions would take longer than the steps.
    """
    m = p.size
    violation, square = 0.0, 0.0
    for step in range(max_steps):
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
                curvature = max(diagonal[i] + diagonal[k] - 2.0 * G[i, k], MIN_CURVATURE)
                if unit * slope * slope > bar * curvature:  # otherwise no step of any length gains more
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
        curvature = max(diagonal[i] + diagonal[j] - 2.0 * G[i, j], MIN_CURVATURE)
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
    return max_steps, violation
