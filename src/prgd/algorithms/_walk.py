"""The Numba kernel of `prgd.algorithms.base`: many steps in one call. Imported on first use.

A pass is the kernel of `prgd.rows`, so a step here has the sums of a step by `Problem.at`, bit by bit.
"""

import math
from typing import Any

import numpy as np

from prgd.algorithms.base import LENGTH, LOG_LOSS, PROJECTED, RESCALED, SECOND_LENGTH, UPPER
from prgd.core.arithmetic import EPSILON, LARGEST
from prgd.rows._block_kernels import exact_jit, inner_exact_jit
from prgd.rows._kernels import EXPONENTIAL, tally_slices
from prgd.rows.tally import COUNT, MASS, SHIFT, SLOPE_MASS, SLOPE_SHIFT

GRADIENT, NORMALIZED_GRADIENT, DUAL_VECTOR = range(3)  # what a step is along
ETA, KEEP, ADD, ALONG, RADIUS, KIND = range(6)  # columns of a table of steps: the fields of `Moves`
SMALL = 2.0**-1022 / EPSILON  # smaller squares lose digits
LARGEST_LOG_LOSS = 700.0  # beyond it the gradient leaves the floating range


@inner_exact_jit
def length(v: Any) -> float:
    """Return the Euclidean norm as `prgd.norms.norm` does, by the same BLAS function."""
    square = np.dot(v, v)
    if SMALL < square <= LARGEST:
        return math.sqrt(square)
    largest = 0.0
    for x in v:
        largest = abs(x) if not abs(x) <= largest else largest  # NaN stays
    if largest == 0.0 or not largest < np.inf:
        return largest
    scaled = v / largest
    return largest * math.sqrt(np.dot(scaled, scaled))


@inner_exact_jit
def look(scalars: Any, vectors: Any, w: Any, v: Any, dual_vector: Any, numbers: Any) -> None:
    """Write the dual vector of a Tally, and log L, ||w||, the dual vector's norm and ||v||."""
    groups, total, count = scalars.shape[0], 0.0, 0.0
    dual_vector[:] = 0.0
    for g in range(groups):
        total += (scalars[g, SHIFT] + math.log(scalars[g, MASS])) / groups
        count += scalars[g, COUNT]
        for j in range(dual_vector.size):
            dual_vector[j] += vectors[g, j] / scalars[g, SLOPE_MASS] / groups
    numbers[LOG_LOSS] = total + math.log(1.0 * groups) - math.log(count)
    numbers[LENGTH], numbers[UPPER], numbers[SECOND_LENGTH] = length(w), length(dual_vector), length(v)


@inner_exact_jit
def move(w: Any, g: Any, u: Any, step: Any) -> None:
    """Take one step along u, with the momentum g."""
    if step[KIND] == RESCALED:
        size = length(w)
        for j in range(w.size):
            w[j] = w[j] / size * step[RADIUS]
        return
    for j in range(w.size):
        if g.size > 0:
            g[j] = step[KEEP] * g[j] + step[ADD] * u[j]
            w[j] += step[ALONG] * g[j]
        w[j] += step[ETA] * u[j]
    if step[KIND] == PROJECTED:
        size = length(w)
        if size > step[RADIUS]:
            for j in range(w.size):
                w[j] = w[j] / size * step[RADIUS]


@exact_jit
def walk(
    A: Any, y: Any, s: Any, loss: int, block: int, bounds: Any, along: int, table: Any, wants: Any,
    w: Any, same_w: Any, v: Any, same_v: Any, g: Any, scalars: Any, vectors: Any, paths: Any, numbers: Any,
) -> int:  # fmt: skip
    """Take the steps of a table from w, whose Tally is the first of ``scalars`` and ``vectors``.

    ``same_w`` and ``same_v`` are read-only views of w and v, as a pass takes them. The Tally of each step and
    its numbers are written, and w, v and g of each step to ``paths``. ``wants`` says at which steps a pass
    has the second direction v. Returns how many steps were taken: fewer than asked for if w or its loss is
    not finite after the last of them, or if a gradient would leave the floating range.
    """
    first: Any = np.int64(0)  # with literal numbers a pass would be compiled once more
    last: Any = np.int64(1)
    dual_vector, u = np.empty(w.size), np.empty(w.size)
    look(scalars[0], vectors[0], w, v, dual_vector, numbers[0])
    for k in range(len(table)):
        sums, now, slope, value = scalars[k, 0], numbers[k], 1.0, 1.0
        if along != DUAL_VECTOR and loss != EXPONENTIAL:
            slope = math.exp(sums[SLOPE_SHIFT] - sums[SHIFT]) * sums[SLOPE_MASS] / sums[MASS]
        if along == GRADIENT:
            if now[LOG_LOSS] >= LARGEST_LOG_LOSS:
                return k
            value = math.exp(now[LOG_LOSS])
        for j in range(w.size):
            u[j] = value * (slope * dual_vector[j])
            v[j] = dual_vector[j] / now[UPPER] if 0.0 < now[UPPER] < np.inf else 0.0
        move(w, g, u, table[k])
        paths[0, k], paths[1, k], paths[2, k, : g.size] = w, v, g
        second = same_v if wants[k] else same_v[:0]
        tally_slices(
            A, y, s, same_w, second, loss, block, bounds, first, last,
            scalars[k + 1 : k + 2], vectors[k + 1 : k + 2],
        )  # fmt: skip
        look(scalars[k + 1], vectors[k + 1], w, v, dual_vector, numbers[k + 1])
        if not (-np.inf < numbers[k + 1, LOG_LOSS] < np.inf and numbers[k + 1, LENGTH] < np.inf):
            return k + 1
    return len(table)
