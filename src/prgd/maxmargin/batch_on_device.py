"""Many label sets over rows on a device: one interior point for all, and its bounds by products on the device.

The interior point works on the Gram matrix, with a system for each label set (`Products`). Its directions and
weights are then measured on the rows as given, in float64, by a product for all label sets: the sums are those
of a pass, in another order, so that the bounds on their rounding are the same. What these bounds do not
certify is left to `prgd.max_margin`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prgd._types import Array, Indices
from prgd.history import Status
from prgd.maxmargin.label_sets import Block, LabelSet, SharedProducts
from prgd.maxmargin.moves import Round, SolverState
from prgd.namespace import is_out_of_memory, like, namespace, to_host
from prgd.problem import NO_ROWS, Problem
from prgd.result import Result
from prgd.rows.queries import Smallest
from prgd.solvers.interior_point import Products, maximise_margin

_MAX_ROWS = 8192  # rows of the largest Gram matrix that is factorised for each label set
_MATRICES = 6  # matrices of the size of the Gram matrix that a label set takes in a step
_MEMORY_FRACTION = 0.5  # fraction of the free memory of the device that is used
_DEFAULT_MEMORY = 2**30  # bytes that are used where the device does not tell
_INNER_TOLERANCE = 0.3  # fraction of the tolerance to which the interior point goes


def solve_on_device(
    problem: Problem, block: Block, tol: float, tell: Callable[[int], None]
) -> dict[int, Result]:
    """Return the results of the label sets that one interior point certifies to ``tol``."""
    found: dict[int, Result] = {}
    if problem.n > _MAX_ROWS:
        return found
    try:
        shared = SharedProducts.of(problem)
        for part in _parts(len(block.Y), problem.n, shared.G):
            found |= _solve_part(problem, block, shared, part, tol)
            tell(int(part[-1]) + 1)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    return found


def _parts(count: int, n: int, G: Any) -> list[Indices]:
    """Cut the label sets so that the systems of a part fit into the memory of the device."""
    free = _DEFAULT_MEMORY
    if G.is_cuda:
        free = namespace(G).cuda.mem_get_info(G.device)[0]
    size = max(1, int(_MEMORY_FRACTION * free) // (_MATRICES * 8 * n * n))
    return np.array_split(np.arange(count), -(-count // size))


def _solve_part(
    problem: Problem, block: Block, shared: SharedProducts, part: Indices, tol: float
) -> dict[int, Result]:
    G, xp, groups = shared.G, namespace(shared.G), 2 if problem.fit_intercept else 1
    signs = like(G, block.Y[part].astype(np.float64))
    size = float(xp.sqrt(G.diagonal().max())) or 1.0
    is_plus = signs > 0
    counts = [side.sum(-1, keepdims=True) for side in (is_plus, signs < 0)]
    if groups == 1:
        counts = [counts[0] + counts[1]] * 2
    start = xp.where(is_plus, 1.0 / counts[0], 1.0 / counts[1]) * signs.abs()
    at = Products(G, size, signs)
    best = maximise_margin(at, signs, problem.fit_intercept, start, _INNER_TOLERANCE * tol)
    # Rows outside the support have weights that are tiny, and not zero.
    active = _normalized(xp.where(best.is_active, best.p, 0.0), signs, groups)
    weights = [_normalized(best.p, signs, groups), active]
    X = (
        shared.X
        if shared.center is None and not shared.exponent
        else problem.rows.gather(np.arange(problem.n))
    )
    directions = [(signs * best.x) @ shared.X, (signs * weights[0]) @ shared.X]
    smallest = [_smallest(v @ X.T, signs, groups) for v in directions]
    lengths = [xp.linalg.vector_norm(v, dim=1) for v in directions]
    margins = [s.sum(-1) / length for s, length in zip(smallest, lengths, strict=True)]
    uppers = [xp.linalg.vector_norm((signs * p) @ X, dim=1) / groups for p in weights]
    is_dual = margins[1] > margins[0]
    lower = xp.where(is_dual, margins[1], margins[0]) / groups
    is_sparse = (uppers[1] - lower) <= 0.9 * tol * uppers[1]
    w, low = (to_host(xp.where(is_dual[:, None], b, a)) for a, b in (directions, smallest))
    p = to_host(xp.where(is_sparse[:, None], weights[1], weights[0]))
    plain = to_host(xp.where(is_sparse, uppers[1], uppers[0]))
    found = {}
    for i, k in enumerate(part.tolist()):
        result = _certified(
            problem.with_labels(block.labels(k)), shared, tol, w[i], low[i], p[i], float(plain[i])
        )
        if result is not None:
            found[k] = result
    return found


def _normalized(p: Any, signs: Any, groups: int) -> Any:
    """Return weights of sum 1 (in each class, with an intercept)."""
    xp = namespace(p)
    if groups == 1:
        return p / p.sum(-1, keepdims=True)
    plus = xp.where(signs > 0, p, 0.0).sum(-1, keepdims=True)
    minus = xp.where(signs < 0, p, 0.0).sum(-1, keepdims=True)
    return p / xp.where(signs > 0, plus, minus)


def _smallest(products: Any, signs: Any, groups: int) -> Any:
    """Return the smallest margin (of each class, with an intercept) of every label set."""
    xp, margins = namespace(products), products * signs
    sides = [signs > 0, signs < 0] if groups == 2 else [signs != 0]
    return xp.stack([xp.where(side, margins, xp.inf).amin(-1) for side in sides], -1)


def _certified(
    problem: Problem, shared: SharedProducts, tol: float, w: Array, low: Array, p: Array, plain: float
) -> Result | None:
    """Return the result that a direction and weights prove, or None if its gap is above ``tol``."""
    state = SolverState(problem, 1, tol, 1, True, lambda entry: None)
    state.working, state.passes = LabelSet(problem, shared), 1.0
    smallest = tuple(Smallest(float(value), np.empty(0), NO_ROWS) for value in low)
    state.bounds.below(w, smallest, None)
    state.bounds.above(state.working, p[state.working.indices], plain)
    c = state.certificate
    state.rounds.append(Round(1.0, c.lower, c.upper, c.gap, state.working.size, 0.0))
    if not (c.lower > 0.0 and c.gap <= tol):
        return None
    result = state.result(Status.CERTIFIED)
    return result if result.status is Status.CERTIFIED else None
