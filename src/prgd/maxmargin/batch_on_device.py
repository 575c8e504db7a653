"""Many label sets over rows on a device: one interior point for all, and bounds by products on the device.

The interior point works on the Gram matrix, with a system for each label set (`Products`). Its directions and
weights are then measured on the rows as given, in float64, by products for all label sets: the sums are those
of a pass, in another order, so that the bounds on their rounding are the same. What these bounds do not
certify is left to `prgd.max_margin`.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from prgd.core.arithmetic import is_out_of_memory, like, namespace, to_host
from prgd.core.types import Array, Indices
from prgd.maxmargin.label_sets import LabelledRows, SharedProducts
from prgd.maxmargin.solve import Solve
from prgd.problem import Problem
from prgd.running.history import Status
from prgd.running.result import Result
from prgd.solvers.interior_point import groups_of, maximise_margin, normalized, smallest_in
from prgd.solvers.linear_systems import Products

_MAX_ROWS = 8192  # rows of the largest Gram matrix that is factorised for each label set
_MATRICES = 6  # matrices of the size of the Gram matrix that a label set takes in a step
_MEMORY_FRACTION = 0.5  # fraction of the free memory of the device that is used
_DEFAULT_MEMORY = 2**30  # bytes that are used where the device does not tell
_INNER_TOLERANCE = 0.3  # fraction of the tolerance to which the interior point goes
_WHOLE_TOLERANCE = 0.9  # fraction of the tolerance that bounds may take before they are rounded outward


def solve_on_device(
    problem: Problem, block: LabelledRows, tol: float, tell: Callable[[int], None], end: float
) -> dict[int, Result]:
    """Return the results of the label sets that one interior point certifies to ``tol``."""
    found: dict[int, Result] = {}
    if problem.n > _MAX_ROWS:
        return found
    try:
        shared = SharedProducts.of(problem)
        for part in _parts(len(block.Y), problem.n, shared.G):
            if time.perf_counter() >= end:
                break
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
        cuda, at = namespace(G).cuda, G.device
        # Memory that torch has reserved and does not use is not free for other programs, but for torch.
        free = cuda.mem_get_info(at)[0] + cuda.memory_reserved(at) - cuda.memory_allocated(at)
    size = max(1, int(_MEMORY_FRACTION * free) // (_MATRICES * 8 * n * n))
    return np.array_split(np.arange(count), -(-count // size))


def _solve_part(
    problem: Problem, block: LabelledRows, shared: SharedProducts, part: Indices, tol: float
) -> dict[int, Result]:
    G, xp = shared.G, namespace(shared.G)
    signs = like(G, block.Y[part].astype(np.float64))
    groups = groups_of(signs, problem.fit_intercept)
    size = float(xp.sqrt(G.diagonal().max())) or 1.0
    start, at = normalized(signs.abs(), groups), Products(G, size, signs)
    best = maximise_margin(at, signs, problem.fit_intercept, start, _INNER_TOLERANCE * tol)
    # Rows outside the support have weights that are tiny, and not zero.
    active = normalized(xp.where(best.is_active, best.p, 0.0), groups)
    proposals = _measured(problem, shared, signs, tol, best.x, best.p, active)
    found = {}
    for i, k in enumerate(part.tolist()):
        w, low, p, plain = (v[i] for v in proposals)
        result = _certified(problem.with_labels(block.labels(k)), shared, tol, w, low, p, float(plain))
        if result is not None:
            found[k] = result
    return found


def _measured(
    problem: Problem, shared: SharedProducts, signs: Any, tol: float, x: Any, p: Any, active: Any
) -> tuple[Array, ...]:
    """Measure directions and weights of all label sets, and choose the better ones.

    Margins are those of the rows as given, dual vectors those of the rows that the solver works on, as in
    `prgd.maxmargin.hard`.

    Returns
    -------
    w : ndarray of shape (label sets, d)
        ``Z^T x`` or ``Z^T p``, whichever has the larger margin.
    low : ndarray of shape (label sets, groups)
        Its smallest margins.
    weights : ndarray of shape (label sets, n)
        The ``active`` weights if they prove the tolerance, else p.
    plain : ndarray of shape (label sets,)
        The norm ``||Z^T p||`` of these weights, divided by the number of groups, in units of the solver.
    """
    xp, X, groups = namespace(signs), shared.X, groups_of(signs, problem.fit_intercept)
    directions = [(signs * x) @ X, (signs * p) @ X]
    uppers = [xp.linalg.vector_norm((signs * weights) @ X, dim=1) / len(groups) for weights in (p, active)]
    if shared.center is not None or shared.exponent:
        X = problem.rows.gather(np.arange(problem.n))
    products = [signs * (w @ X.T) for w in directions]
    smallest = [xp.concatenate([smallest_in(v, group) for group in groups], -1) for v in products]
    margins = [
        low.mean(-1) / xp.linalg.vector_norm(w, dim=1) for w, low in zip(directions, smallest, strict=True)
    ]
    is_dual = margins[1] > margins[0]
    lower = xp.where(is_dual, margins[1], margins[0])
    level = 2.0**shared.exponent * uppers[1]
    is_enough = level - lower <= _WHOLE_TOLERANCE * tol * level
    choices = (is_dual, directions), (is_dual, smallest), (is_enough, (p, active))
    chosen = [xp.where(choice[:, None], after, before) for choice, (before, after) in choices]
    return (*map(to_host, chosen), to_host(xp.where(is_enough, uppers[1], uppers[0])))


def _certified(
    problem: Problem, shared: SharedProducts, tol: float, w: Array, low: Array, p: Array, plain: float
) -> Result | None:
    """Return the result that a direction and weights prove, or None if its gap is above ``tol``."""
    solve, working = Solve(problem, tol, 1), shared.label_set(problem)
    solve.count(1.0)
    solve.bound_below(w, low.tolist())
    solve.bound_above(working, p[working.indices], plain)
    solve.record(working.size)
    if not (solve.certificate.lower > 0.0 and solve.is_certified):
        return None
    result = solve.result(Status.CERTIFIED)
    return result if result.status is Status.CERTIFIED else None
