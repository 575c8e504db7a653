"""The optimum of a small working set in integers, and what of it float64 can hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prgd.core.arithmetic import common_integers, nearest_float, root_up
from prgd.core.types import Array, Indices, RationalVector
from prgd.problem import Problem
from prgd.problem.certificate import DualWeights
from prgd.proofs.directions import exact_lower
from prgd.proofs.lifted_rows import LiftedRows
from prgd.running.history import Status
from prgd.solvers.exact_active_set import ShortestVector, shortest_vector
from prgd.solvers.working_set import WorkingSet

if TYPE_CHECKING:
    from prgd.maxmargin.moves import SolverState

_MAX_EXACT_ROUNDS = 20  # times that rows outside the set may join it in exact arithmetic
_MAX_DIMENSIONS = 24  # integers grow with the dimensions: beyond, a face takes more than about 0.1 s
_MAX_ENTRIES = 8192  # entries of the rows that are multiplied in integers
_WEIGHT_BITS = 64  # bits of the integer weights beyond the ratio of the row norms to the margin


@dataclass(frozen=True, eq=False)
class ExactOptimum:
    """The shortest vector over a working set.

    Attributes
    ----------
    upper : float
        Its length, rounded upward, in the units of the data.
    weights : DualWeights
        Weights that prove this bound.
    w : ndarray of shape (d,) or None
        The direction in float64; None if the shortest vector is zero.
    intercept : float
    level : float
        The margin of the rows that carry weight, along w.
    exact_w : vector of Fraction
        The direction and its best intercept (the direction alone without intercept), exactly.
    """

    upper: float
    weights: DualWeights
    w: Array | None
    intercept: float
    level: float
    exact_w: RationalVector


def solve_exactly(state: SolverState) -> Status | None:
    """Solve a small problem in integers; None if it is too large, or has no separator."""
    for _ in range(_MAX_EXACT_ROUNDS):
        found = exact_optimum(state.problem, state.working, state.p)
        if found is None:
            return None
        state.bounds.certificate = state.certificate.with_upper(found.upper, found.weights)
        if found.w is None:  # the shortest vector is zero, so no hyperplane separates
            return None
        smallest = state.problem.smallest(
            found.w, state.max_new_rows(), state.working.indices, found.intercept
        )
        state.passes += 1
        state.bounds.below(found.w, smallest, found.intercept)
        if state.certificate.gap <= state.tol:
            return Status.CERTIFIED
        joining = state.violators(smallest, found.level)
        if not joining.size:
            rows = LiftedRows.of(state.problem)
            exact = exact_lower(rows, found.exact_w), found.w, found.intercept, found.exact_w
            state.bounds.certificate = state.certificate.with_lower(*exact)
            return Status.CERTIFIED if state.certificate.gap <= state.tol else None
        state.working.add(joining)
        state.p = np.concatenate([state.p, np.zeros(joining.size)])
    return None


def is_exactly_solvable(working: WorkingSet) -> bool:
    """Say whether integers of the set are few enough to solve it in exact arithmetic."""
    d = working.dimensions
    return d <= _MAX_DIMENSIONS and working.size * d <= _MAX_ENTRIES


def exact_optimum(problem: Problem, working: WorkingSet, p: Array) -> ExactOptimum | None:
    """Solve a small working set exactly, from weights that are nearly optimal; None if it is too large."""
    if not is_exactly_solvable(working):
        return None
    order = np.argsort(working.indices)
    indices, group = working.indices[order], working.group[order]
    X = problem.rows.take(indices)
    X = X if isinstance(X, np.ndarray) else X.toarray()
    center = X[:1] if working.groups == 2 else np.zeros((1, X.shape[1]))
    M, exponent = common_integers(np.vstack([X, center]))
    signs = problem.labels.at(indices).astype(object)
    Z = (M[:-1] - M[-1]) * signs[:, None]
    found = shortest_vector(Z, group, p[order])
    if found is None:
        return None
    groups = working.groups
    size = max(abs(v) for v in found.vector)
    upper, weights = _weights(Z, group, found, indices, groups, exponent)
    if size == 0:
        return ExactOptimum(upper, weights, None, 0.0, 0.0, ())
    w = np.array([v / size for v in found.vector])
    margins = Z @ np.array(found.vector, dtype=object)
    smallest = [min(margins[group == q]) for q in range(groups)]
    offset = sum(a * b for a, b in zip(M[-1], found.vector, strict=True))
    unit = Fraction(2) ** exponent / size
    exact_w = [Fraction(v, size) for v in found.vector]
    if groups == 2:
        exact_w.append((Fraction(smallest[1] - smallest[0], 2) - offset) * unit)
    intercept, level = (
        nearest_float(exact_w[-1]) if groups == 2 else 0.0,
        nearest_float(Fraction(sum(smallest), groups) * unit),
    )
    return ExactOptimum(upper, weights, w, intercept, level, tuple(exact_w))


def _weights(
    Z: npt.NDArray[Any], group: Indices, found: ShortestVector, indices: Indices, groups: int, exponent: int
) -> tuple[float, DualWeights]:
    """Return the length of the shortest vector, rounded upward, and weights of exact sum that prove it."""
    square = sum(v * v for v in found.vector)
    # Rounding a weight moves the vector by as much as a row is long, so long rows need more bits.
    longest = max(int(abs(z)) for z in Z.ravel()) * found.total * groups * Z.shape[1]
    bits = _WEIGHT_BITS + (longest // max(math.isqrt(square), 1)).bit_length() if square else 0
    weights = [int(v) for v in found.weights]
    total = found.total
    if square:
        total = 1 << bits
        weights = [(w * total + found.total // 2) // found.total for w in weights]
        for q in range(groups):
            members = np.flatnonzero(group == q).tolist()
            heaviest = max(members, key=lambda i: weights[i])
            weights[heaviest] += total - sum(weights[i] for i in members)
    u = [sum(w * int(z) for w, z in zip(weights, column, strict=True) if w) for column in Z.T]
    length = root_up(Fraction(sum(v * v for v in u), (groups * total) ** 2) * Fraction(4) ** exponent)
    carried = [i for i, w in enumerate(weights) if w]
    values = np.array([weights[i] / (groups * total) for i in carried])
    return length, DualWeights(indices[carried], values, tuple(weights[i] for i in carried))
