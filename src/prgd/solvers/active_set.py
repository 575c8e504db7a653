"""Active sets: exact weights on the identified support, by Wolfe's method and by block pivoting.

On a face of the simplex the optimality conditions are linear. `wolfe` solves on a face; weights that turn
negative stop the step at the boundary, where they leave. Then the lowest vertex joins, until none lies lower
than the face. The norm never grows. `Faces` say which polytope it is, and in which arithmetic it is solved.

`DualActiveSet` solves sets of few columns. Its rows join one by one, the one of smallest margin first, and
weights that vanish on the way leave (Goldfarb and Idnani). It needs no Gram matrix and no first weights.

In `pivot_weights` all rows of negative weight leave the face at once, and all rows that violate its margin
join it; from a good guess of the support three to five rounds end at the optimum.

References
----------
P. Wolfe (1976). Finding the nearest point in a polytope. Mathematical Programming 11.
D. Goldfarb and A. Idnani (1983). A numerically stable dual method for solving strictly convex quadratic
programs. Mathematical Programming 27.
J. Judice and F. Pires (1994). A block principal pivoting algorithm for large-scale strictly monotone linear
complementarity problems. Computers & Operations Research 21(5).
"""

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

import numpy as np

from prgd.core.arithmetic import add_to_diagonal, like, to_host
from prgd.core.threads import check_time
from prgd.core.types import Array, Indices
from prgd.norms import norm
from prgd.problem import Problem
from prgd.solvers.linear_systems import definite_solver
from prgd.solvers.working_set import WorkingSet

_ROUNDED_WEIGHT = 4e-15  # fraction of the largest weight below which moves of descent may have left a weight
_RIDGE = 1e-13  # proximal term for each row, as a fraction of the mean squared row norm
_RANK_TOLERANCE = 1e-15  # singular values below this fraction of the largest count as zero
_MIN_FACES, _MAX_FACES = 20, 1000  # faces of Wolfe's method
_MAX_WORK = 1e10  # operations of all faces together
_MAX_ENTRIES = 2**24  # entries of the rows of a face
_LIGHT = 1e-4  # weights below this fraction of the heaviest are left out of too large a face first
_ROUNDED_BALANCE = 1e-12  # fraction of the largest weight below which balancing weights are rounding
_PENALTY = 1e4  # factor of the column that penalises an intercept, in units of the largest row norm
_MAX_CALLS = 30  # calls of the dual active set, of about as many steps as there are columns, at most
# Integers grow with the dimensions: beyond 24 a face takes more than about 0.1 s, which joint problems, whose
# programs keep fewer digits, are worth.
_MAX_EXACT_DIMENSIONS, _MAX_EXACT_ENTRIES = {True: 64, False: 24}, {True: 2**15, False: 2**13}
_MAX_PIVOTS = 16  # rounds of block pivoting
_PIVOT_PATIENCE = 3  # rounds that may leave as many rows on the wrong side as the best round before
_MAX_WRONG = 0.4  # fraction of the face: if more rows are on the wrong side, the support is not identified


def is_exactly_solvable(problem: Problem, size: int) -> bool:
    """Say whether integers of so many terms are few enough to solve them in exact arithmetic."""
    dimensions = math.prod(problem.shape)
    limits = _MAX_EXACT_DIMENSIONS[problem.is_joint], _MAX_EXACT_ENTRIES[problem.is_joint]
    return dimensions <= limits[0] and size * dimensions <= limits[1]


class Faces(ABC):
    """The faces of a polytope whose shortest vector is sought; ``half`` is 1/2 in their arithmetic."""

    half: Any = 0.5

    @abstractmethod
    def minimum(self, face: Indices, p: Any) -> Any:
        """Return the weights of the shortest vector of the affine hull of a face, with the sums of p.

        None ends the search.
        """

    @abstractmethod
    def lowest_vertex(self, face: Indices, p: Any) -> Any:
        """Return the weights of a vertex that lies lower than the vector of p, the shortest one of a face.

        None ends the search: there is no such vertex, or none that helps.
        """

    @abstractmethod
    def combine(self, p: Any) -> Any:
        """Return the vector of weights p."""

    def towards(self, p: Any, vertex: Any) -> Any:
        """Return the weights of the shortest vector between p and a vertex, at most half of the way."""
        u, change = self.combine(p), self.combine(vertex - p)
        square = change @ change
        step = -(u @ change) / square if square > 0 else 0
        return p + min(max(step, 0), self.half) * (vertex - p)


def wolfe(faces: Faces, p: Any) -> Any:
    """Return the weights of the shortest vector, from weights p that are not negative; None if that fails."""
    p = p.copy()
    for _ in range(_MAX_FACES):
        check_time()
        (face,) = (p > 0).nonzero()
        x = faces.minimum(face, p[face])
        if x is None:
            return None
        if x.min() <= 0:
            p[face] = _step_to_boundary(p[face], x)
            continue
        p[face] = x
        vertex = faces.lowest_vertex(face, p)
        if vertex is None:
            return p
        p = faces.towards(p, vertex)
    return None


def _step_to_boundary(p: Any, x: Any) -> Any:
    """Return the point between p and x, some of whose weights are not positive, at which the first vanish."""
    (falling,) = (x <= 0).nonzero()
    ratio = p[falling] / (p - x)[falling]
    moved = np.maximum(p + ratio.min() * (x - p), 0)
    moved[falling[ratio <= ratio.min()]] = 0
    return moved


class RowFaces(Faces):
    """Faces by orthogonal factors of their rows, until the relative gap is at most ``tol``.

    The Gram matrix squares the condition number: below a margin of 1e-4 of the row norms its products keep
    less than half of the digits. The rows keep the digits.

    Attributes
    ----------
    w, p : ndarray
        The direction of largest margin, and the weights of the shortest vector, that were found.
    """

    def __init__(self, w: Array, p: Array, tol: float) -> None:
        self.w, self.p, self.tol = w, p, tol
        self._lower, self._upper, self._last, self._work, self._count = -np.inf, np.inf, np.inf, 0.0, 0

    def solve(self, p: Array) -> tuple[Array, Array]:
        """Return the best direction and weights that Wolfe's method finds from weights p."""
        # Singular values that did not converge, and numbers that left the floating range, end the search.
        with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
            wolfe(self, p)
        return self.w, self.p

    @abstractmethod
    def rows_of(self, face: Indices) -> tuple[Array, Array]:
        """Return the rows of a face, and a column E for each intercept: ``E^T p`` vanishes."""

    @abstractmethod
    def lowest(self, w: Array) -> tuple[float, Indices]:
        """Return the smallest margin of w at the best intercepts, and the rows of the vertex that has it."""

    def minimum(self, face: Indices, p: Array) -> Array | None:
        """Return the weights of the shortest vector that are nearest to p."""
        Z, E = self._rows = self.rows_of(face)
        self._work, self._count = self._work + Z.size * len(Z), self._count + 1
        if Z.size > _MAX_ENTRIES or (self._work > _MAX_WORK and self._count > _MIN_FACES):
            return None
        N = _null_space(np.column_stack([E, np.ones(len(E))]))
        return np.asarray(p + N @ _least_squares((N.T @ Z).T, -(p @ Z)))

    def lowest_vertex(self, face: Indices, p: Array) -> Array | None:
        """Return the lowest vertex along the direction of the face, unless the gap is small enough."""
        w, length, total = equal_margins(*self._rows), norm(p[face] @ self._rows[0]), float(p.sum())
        margin, joining = self.lowest(w)
        if (lower := margin / norm(w) if norm(w) > 0.0 else -np.inf) > self._lower:
            self.w, self._lower = w, lower
        if length / total < self._upper:
            self.p, self._upper = p.copy(), length / total
        # If the last vertex did not make the vector shorter, rounding decides.
        if self._upper - self._lower <= self.tol * self._upper or not length < self._last:
            return None
        self._last, vertex = length, np.zeros(p.size)
        vertex[joining] = total / joining.size
        return vertex


def _null_space(E: Array) -> Array:
    """Return an orthonormal basis of the vectors v with ``E^T v = 0``."""
    left, values, _ = np.linalg.svd(E, full_matrices=True)
    return np.asarray(left[:, np.count_nonzero(values > _RANK_TOLERANCE * len(E)) :])


def _least_squares(A: Array, target: Array) -> Array:
    """Return the shortest solution of least squares, refined once."""
    x = np.linalg.lstsq(A, target, rcond=_RANK_TOLERANCE)[0]
    return np.asarray(x + np.linalg.lstsq(A, target - A @ x, rcond=_RANK_TOLERANCE)[0])


def equal_margins(Z: Array, E: Array) -> Array:
    """Return the shortest w with ``Z w + E b = 1`` for some intercepts b.

    At the optimum w is ``u / ||u||^2`` with ``u = Z^T p``. That sum loses digits by cancellation: an error
    of 1e-16 in u is a relative error of ``1e-16 (max ||z|| / gamma)^2`` in the margins. Solving for w keeps
    the digits.
    """
    if not E.shape[1]:
        return _least_squares(Z, np.ones(len(Z)))
    N = _null_space(E)
    return _least_squares(N.T @ Z, N.sum(axis=0))


class _SetFaces(RowFaces):
    """Faces of the hull of a working set, or between the hulls of its two groups."""

    def __init__(self, working: WorkingSet, p: Array, tol: float) -> None:
        super().__init__(np.empty(0), p, tol)
        self.working = working
        self.members = [np.flatnonzero(working.group == q) for q in range(working.groups)]

    def combine(self, p: Array) -> Array:
        return self.working.combine(p)

    def rows_of(self, face: Indices) -> tuple[Array, Array]:
        return self.working.rows_of(face), _signs(self.working, face)

    def lowest(self, w: Array) -> tuple[float, Indices]:
        margins = self.working.margins(w)
        rows = np.array([members[np.argmin(margins[members])] for members in self.members])
        return float(margins[rows].mean()), rows


def _signs(working: WorkingSet, face: Indices) -> Array:
    """Return the coefficients of the intercept in the margins of a face, as a column; none without one."""
    return np.where(working.group[face, None] == 0, 1.0, -1.0)[:, : working.groups - 1]


class DualActiveSet:
    """The shortest vector over a set of few columns, from an active set that goes on as rows join.

    With an intercept the rows have one column more, which penalises it: the weights are nearly the best ones.

    Attributes
    ----------
    balances : bool
        The weights balance the rows to rounding.
    """

    def __init__(self, working: WorkingSet) -> None:
        d = working.dimensions + working.groups - 1
        self._size, self._count, self.balances = working.largest_norm, 0, False
        self._arrays = np.empty(d + 1, np.int64), np.empty(d + 1), *np.empty((2, d, d)), np.zeros((4, d))

    def weights(self, working: WorkingSet, tol: float) -> Array:
        """Return the weights of the set, which may have more rows than before."""
        from prgd.solvers import _kernels

        every, p = np.arange(working.size), np.zeros(working.size)
        Z = np.hstack([working.rows_of(every) / self._size, _PENALTY * _signs(working, every)])
        chosen, a, *_, work = self._arrays
        if self.balances:  # such weights are no start
            self._count, work[0] = 0, 0.0
        for _ in range(_MAX_CALLS):
            check_time()
            steps = Z.shape[1] + 10
            self._count, end = _kernels.nearest_point(Z, tol, steps, self._count, *self._arrays)
            if end != 1:
                break
        self.balances = end == 2
        p[chosen[: self._count]] = a[: self._count]
        if self.balances:
            p[p <= _ROUNDED_BALANCE * p.max()] = 0.0
        sums = np.bincount(working.group, p, minlength=working.groups)
        return np.asarray(p / np.where(sums > 0.0, sums, 1.0)[working.group])


def active_set_weights(working: WorkingSet, p: Array, tol: float) -> Array:
    """Return the weights of the shortest vector over the set, by Wolfe's method on the rows."""
    start = heaviest_weights(working, p, working.dimensions + working.groups)
    return _SetFaces(working, p, tol).solve(start)[1]


def primal_direction(working: WorkingSet, p: Array) -> Array:
    """Return the shortest w with margin 1 on all rows that carry weight (at the best intercept)."""
    face = np.flatnonzero(p > _ROUNDED_WEIGHT * p.max())
    return equal_margins(working.rows_of(face), _signs(working, face))


def face_minimum(G: Any, E: Array, sums: Array, start: Array) -> Array:
    """Return the minimiser of ``x^T G x`` on the affine hull of the face that is nearest to ``start``.

    The sums ``E^T x`` of groups are given. The Gram matrix may be a tensor on a device; the other arrays, and
    the answer, are NumPy's.
    """
    # E E^T is constant on the feasible set; with it G is definite if the rows are affinely independent.
    # The small proximal term covers dependent rows (repeated rows, or more rows than dimensions).
    size = float(G.diagonal().mean()) or 1.0
    columns = like(G, E)
    H = G + size * (columns @ columns.T)
    ridge = _RIDGE * size * len(G)
    add_to_diagonal(H, ridge)
    solve = definite_solver(H)
    Y, x = to_host(solve(columns)), start
    for _ in range(3):
        free = ridge * to_host(solve(like(G, x)))
        x = Y @ np.linalg.solve(E.T @ Y, sums - E.T @ free) + free
    return x


def pivot_weights(working: WorkingSet, p: Array, tol: float) -> Array | None:
    """Return the weights of the shortest vector over the set, from a guess p of their support.

    Each round solves on the face, and exchanges all rows that are on the wrong side: negative weights, and
    margins more than ``tol`` (relative to the squared length of the vector) below those of the face.

    Returns
    -------
    ndarray of shape (m,), or None if the rounds do not converge: the guess is poor, or the face degenerate.
    """
    max_face = working.dimensions + working.groups  # a larger face has dependent rows
    is_face, fewest, patience = heaviest_weights(working, p, max_face) > 0.0, p.size, _PIVOT_PATIENCE
    for _ in range(_MAX_PIVOTS):
        face = np.flatnonzero(is_face)
        E = working.membership(face)
        if face.size > max_face or not E.any(axis=0).all():
            return None
        try:
            x = face_minimum(working.gram_of(face), E, np.ones(working.groups), p[face])
        except np.linalg.LinAlgError:  # the system is not definite to rounding
            return None
        p = np.zeros(p.size)
        p[face] = x
        g = working.products(p)
        allowed, level = tol * float(p @ g), E.T @ (x * g[face])
        excess = g - level[working.group]
        wrong = np.where(is_face, p < 0.0, excess < -allowed)
        count = int(np.count_nonzero(wrong))
        if count == 0:
            return p if np.abs(excess[face]).max() <= allowed else None
        patience = _PIVOT_PATIENCE if count < fewest else patience - 1
        if patience == 0 or count > _MAX_WRONG * face.size + 4:
            return None
        fewest = min(fewest, count)
        is_face ^= wrong
    return None


def heaviest_weights(working: WorkingSet, p: Array, count: int) -> Array:
    """Return p with the heaviest weights alone, of sum 1 in each group: a face has at most so many rows."""
    if np.count_nonzero(p) <= count:
        return p
    kept = np.zeros(p.size)
    for q in range(working.groups):
        members = np.flatnonzero(working.group == q)
        first = members[np.argsort(-p[members], kind="stable")[: count // working.groups]]
        first = first[p[first] > _LIGHT * p[first[0]]]
        kept[first] = p[first] / p[first].sum()
    return kept
