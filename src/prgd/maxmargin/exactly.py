"""The optimum of a small working set in integers, and what of it float64 can hold.

References
----------
E. H. Bareiss (1968). Sylvester's identity and multistep integer-preserving Gaussian elimination. Mathematics
of Computation 22.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.core.arithmetic import common_integers, nearest_float, root_up
from prgd.core.types import Array, Indices, RationalVector
from prgd.maxmargin.solve import RoundProposal, Solve, violators
from prgd.problem import Problem
from prgd.problem.certificate import DualWeights
from prgd.proofs.directions import exact_lower
from prgd.proofs.lifted_rows import LiftedRows
from prgd.rows.queries import Smallest
from prgd.running.history import Status
from prgd.solvers.active_set import Faces, wolfe
from prgd.solvers.working_set import WorkingSet

_MAX_EXACT_ROUNDS = 20  # times that rows outside the set may join it in exact arithmetic
_MIN_NEW_ROWS = 64  # rows that join the set in a round, at least


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


class ExactMargin:
    """The optimum of the set in integers, to which rows outside the set join; there are few such rounds."""

    patience = math.inf

    def __init__(self, solve: Solve, working: WorkingSet, p: Array) -> None:
        self.solve, self.working, self.p, self._rounds = solve, working, p, 0

    def propose(self) -> RoundProposal | None:
        """Solve the set; None if it is too large."""
        found = exact_optimum(self.solve.problem, self.working, self.p)
        self._rounds += 1
        if found is None or self._rounds > _MAX_EXACT_ROUNDS:
            return None
        self._level, self._exact_w = found.level, found.exact_w
        max_rows = max(_MIN_NEW_ROWS, int(np.count_nonzero(self.p)))
        return RoundProposal(found.w, max_rows, found.intercept, found.weights, found.upper, is_rough=True)

    def learn(self, found: RoundProposal, smallest: tuple[Smallest, ...]) -> Status | None:
        """Let rows join that violate the margin; if none does, prove that of the exact direction."""
        joining = violators(smallest, self._level, found.max_rows)
        if not joining.size:
            lower = exact_lower(LiftedRows.of(self.solve.problem), self._exact_w)
            self.solve.separate(lower, np.asarray(found.w), found.near, self._exact_w)
            return Status.CERTIFIED if self.solve.is_certified else Status.STALLED
        self.working.add(joining)
        self.p = np.concatenate([self.p, np.zeros(joining.size)])
        return None


def exact_optimum(problem: Problem, working: WorkingSet, p: Array) -> ExactOptimum | None:
    """Solve a small working set exactly, from weights that are nearly optimal; None if it is too large."""
    if not working.is_exactly_solvable:
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
    square = Fraction(sum(v * v for v in found.vector), (groups * found.total) ** 2)
    upper, carried = root_up(square * Fraction(4) ** exponent), np.flatnonzero(found.weights)
    integers = tuple(found.weights[i] for i in carried)
    values = np.array([w / (groups * found.total) for w in integers])
    weights = DualWeights(indices[carried], values, integers)
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
    intercept = nearest_float(exact_w[-1]) if groups == 2 else 0.0
    level = nearest_float(Fraction(sum(smallest), groups) * unit)
    return ExactOptimum(upper, weights, w, intercept, level, tuple(exact_w))


class ShortestVector(NamedTuple):
    """The optimum over some rows: their integer weights, of one sum in each group, and ``sum_i p_i z_i``."""

    weights: list[int]
    total: int
    vector: list[int]


class _IntegerFaces(Faces):
    """Faces in exact arithmetic: the last resort for margins that float64 cannot see.

    Columns with units from 1e-8 to 1e8, or margins of 1e-12 of the row norms, make no difference; the number
    of dimensions does, since integers grow with it.
    """

    half = Fraction(1, 2)

    def __init__(self, Z: npt.NDArray[Any], group: Indices) -> None:
        self.Z, self.group, self.groups = Z, group, np.unique(group)

    def combine(self, p: Any) -> Any:
        return sum(w * z for w, z in zip(p, self.Z, strict=True) if w)

    def minimum(self, face: Indices, p: Any) -> Any:
        """Solve ``G x = E mu`` and ``E^T x = 1``; None if the rows are affinely dependent."""
        Z, m, k = self.Z[face], face.size, self.groups.size
        A = np.zeros((m + k, m + k + 1), dtype=object)
        A[:m, :m] = Z @ Z.T
        for q, name in enumerate(self.groups):
            members = self.group[face] == name
            A[:m, m + q][members] = 1
            A[m + q, :m][members] = 1
            A[m + q, -1] = 1
        solved = solve_integer_system(A)
        return None if solved is None else np.array([Fraction(v, solved[1]) for v in solved[0][:m]])

    def lowest_vertex(self, face: Indices, p: Any) -> Any:
        """Move all weight of a group to the row that lies furthest below the face; None at the optimum."""
        found = self.integers(p)
        margins = self.Z @ np.array(found.vector, dtype=object)
        level = {int(self.group[i]): margins[i] for i in face}
        short = [margin - level[int(q)] for margin, q in zip(margins, self.group, strict=True)]
        i = min(range(len(short)), key=lambda i: short[i])
        if short[i] >= 0:
            return None
        vertex = p.copy()
        vertex[self.group == self.group[i]] = Fraction(0)
        vertex[i] = Fraction(1)
        return vertex

    def integers(self, p: Any) -> ShortestVector:
        """Return fractions over their common denominator."""
        total = math.lcm(*(w.denominator for w in p))
        weights = [int(w * total) for w in p]
        return ShortestVector(weights, total, [int(v) for v in self.combine(weights)])


def shortest_vector(Z: npt.NDArray[Any], group: Indices, start: Array) -> ShortestVector | None:
    """Return the shortest vector of the hull of integer rows, the hulls of two groups added if there are two.

    Parameters
    ----------
    Z : array of integers (objects) of shape (m, d)
    group : ndarray of int of shape (m,)
    start : ndarray of shape (m,)
        Weights to start from, not negative; those of an approximate solution save faces.

    Returns
    -------
    ShortestVector, or None if the faces are too many.

    Examples
    --------
    >>> Z = np.array([[2, 1], [2, -1], [5, 0]], dtype=object)
    >>> shortest_vector(Z, np.zeros(3, int), np.ones(3))
    ShortestVector(weights=[1, 1, 0], total=2, vector=[4, 0])
    """
    faces, p = _IntegerFaces(Z, group), np.array([Fraction(float(v)) for v in start])
    members = [np.flatnonzero(group == q) for q in faces.groups]
    (face,) = (start > 0.0).nonzero()
    has_all = all(start[rows].any() for rows in members) and face.size <= Z.shape[1] + 2
    if not has_all or faces.minimum(face, p[face]) is None:
        p[:] = Fraction(0)
        p[[rows[np.argmax(start[rows])] for rows in members]] = Fraction(1)
    for rows in members:
        p[rows] = p[rows] / p[rows].sum()
    found = wolfe(faces, p)
    return None if found is None else faces.integers(found)


def solve_integer_system(A: npt.NDArray[Any]) -> tuple[list[int], int] | None:
    """Return x as integers over a common denominator for the augmented system A, by Bareiss' elimination.

    Examples
    --------
    >>> solve_integer_system(np.array([[2, 1, 3], [1, 1, 2]], dtype=object))
    ([-1, -1], -1)
    """
    A, n, last = A.copy(), len(A), 1
    for k in range(n):
        pivots = [i for i in range(k, n) if A[i, k]]
        if not pivots:
            return None
        i = min(pivots, key=lambda i: abs(A[i, k]))
        A[[k, i]] = A[[i, k]]
        others = [i for i in range(n) if i != k]
        # Jordan's form of the elimination: all divisions leave no remainder.
        A[others] = (A[others] * A[k, k] - np.outer(A[others, k], A[k])) // last
        last = A[k, k]
    return [int(v) for v in A[:, -1]], int(last)
