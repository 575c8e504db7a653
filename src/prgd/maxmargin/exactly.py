"""The optimum of a small working set in integers, and what of it float64 can hold.

References
----------
E. H. Bareiss (1968). Sylvester's identity and multistep integer-preserving Gaussian elimination. Mathematics
of Computation 22.
"""

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.core.arithmetic import common_integers, nearest_float, root_up
from prgd.core.threads import check_time, limited, time_left
from prgd.core.types import Array, Indices, RationalVector
from prgd.maxmargin.overlap import prove_overlap
from prgd.maxmargin.solve import RoundMethod, RoundProposal, Solve
from prgd.norms import L2
from prgd.problem import Problem
from prgd.problem.certificate import DualWeights
from prgd.proofs.hyperplanes import rational_lower
from prgd.rows.queries import Smallest
from prgd.running.history import Status
from prgd.running.progress import tell_stage
from prgd.solvers.active_set import Faces, is_exactly_solvable, wolfe
from prgd.solvers.joint_interior import lowest_cycle
from prgd.solvers.terms import TermSet, violators
from prgd.solvers.working_set import WorkingSet

_MAX_EXACT_ROUNDS = 20  # times that rows outside the set may join it in exact arithmetic
_SECONDS, _SECONDS_PER_ENTRY = 10.0, 1e-5  # what exact arithmetic may take
_MIN_NEW_ROWS = 64  # rows that join the set in a round, at least


def prove_exactly(solve: Solve, working: WorkingSet | TermSet, method: RoundMethod | None = None) -> Status:
    """Try exact proofs if rounding ended the solve: of the optimum, or that no hyperplane separates.

    The seconds are limited in proportion to the data. If the search for a verdict finds a hyperplane, the
    rounds of ``method`` go on from there.
    """
    problem, terms = solve.problem, working if isinstance(working, TermSet) else None
    weights, p = solve.certificate.dual_weights, np.zeros(working.size)
    if weights is not None:
        _, at, among = np.intersect1d(working.indices, weights.indices, return_indices=True)
        p[at] = weights.values[among]
    exact = ExactMargin(solve, working, p)
    tell_stage("exact arithmetic")
    with limited(_SECONDS + _SECONDS_PER_ENTRY * problem.n_terms * problem.d):
        for by_search in (False, True):
            if solve.certificate.lower <= 0.0:
                if (status := prove_overlap(solve, terms, by_search)) is not None:
                    return status
                if by_search and method is not None and solve.certificate.lower > 0.0:
                    solve.repeat(method)  # the margin is positive, and tiny
            if problem.norm == L2() and not solve.is_certified:
                with limited(time_left() * (1.0 if by_search else 0.5)):  # the search gets the other half
                    solve.repeat(exact)
    return Status.CERTIFIED if solve.is_certified else Status.STALLED


class ExactMargin:
    """The optimum of the set in integers, to which terms outside the set join; there are few such rounds."""

    patience = math.inf

    def __init__(self, solve: Solve, working: WorkingSet | TermSet, p: Array) -> None:
        self.solve, self.working, self.p, self._rounds = solve, working, p, 0

    def propose(self) -> RoundProposal | None:
        """Solve the set; None if it is too large."""
        found = exact_optimum(self.solve.problem, self.working.indices, self.p)
        self._rounds += 1
        if found is None or self._rounds > _MAX_EXACT_ROUNDS:
            return None
        proposal, self._level, self._exact_w = found
        return proposal

    def learn(self, found: RoundProposal, smallest: tuple[Smallest, ...]) -> Status | None:
        """Let terms join that violate the margin; if none does, prove that of the exact direction."""
        joining = violators(self.solve.problem, smallest, self._level, found.max_rows)
        if not joining.size:
            lower = rational_lower(self.solve.problem, self._exact_w)
            self.solve.separate(lower, np.asarray(found.w), found.near, self._exact_w)
            return Status.CERTIFIED if self.solve.is_certified else Status.STALLED
        self.working.add(joining)
        self.p = np.concatenate([self.p, np.zeros(joining.size)])
        return None


def exact_optimum(
    problem: Problem, indices: Indices, p: Array
) -> tuple[RoundProposal, float, RationalVector] | None:
    """Solve a small set of terms exactly, from weights that are nearly optimal; None if it is too large.

    Returns
    -------
    tuple of RoundProposal, float and vector of Fraction
        The weights and the direction, the margin of the terms that carry weight along it, and the witness
        `Certificate.exact_w`.
    """
    if not is_exactly_solvable(problem, indices.size):
        return None
    order = np.argsort(indices)
    indices = indices[order]
    rows, place = np.unique(problem.coding.rows_of(indices), return_inverse=True)
    X = problem.rows.take(rows)
    X = X if isinstance(X, np.ndarray) else X.toarray()
    M, exponent = common_integers(np.vstack([X, problem.fit_intercept * X[:1]]))
    M, center = (M[:-1] - M[-1])[place], M[-1]
    if problem.is_joint:
        own, other = problem.labels.pair_classes(indices)
        units = np.eye(problem.shape[0], dtype=np.int64)
        signs = (units[own] - units[other]).astype(object)
    else:
        own = (problem.labels.at(indices) > 0).astype(np.int64)
        other, signs = 1 - own, (2 * own - 1)[:, None].astype(object)
    E = signs[:, : problem.fit_intercept * max(signs.shape[1] - 1, 1)]
    faces = IntegerFaces((signs[:, :, None] * M[:, None]).reshape(indices.size, -1), E, own, other)
    found = shortest_vector(faces, p[order])
    if found is None:
        return None
    square, carried = sum(v * v for v in found.vector), np.flatnonzero(found.weights)
    integers = tuple(found.weights[i] for i in carried)
    weights = DualWeights(indices[carried], np.array([v / found.total for v in integers]), integers)
    upper = root_up(Fraction(square, found.total**2) * Fraction(4) ** exponent)
    if square == 0:
        return RoundProposal(None, 0, 0.0, weights, upper), 0.0, ()
    size = max(abs(v) for v in found.vector)
    unit, W = Fraction(2) ** exponent / size, np.array(found.vector, dtype=object).reshape(-1, center.size)
    shifts = [found.total * v for v in faces.b] + [0] * (len(W) - len(faces.b))
    b = [(shift - offset) * unit for shift, offset in zip(shifts, W @ center, strict=True)]
    intercept = np.array([nearest_float(v) for v in b]) if problem.is_joint else nearest_float(b[0])
    exact_w = [Fraction(v, size) for v in found.vector] + b * (problem.fit_intercept or problem.is_joint)
    w, max_rows = np.array([v / size for v in found.vector]), max(_MIN_NEW_ROWS, int(np.count_nonzero(p)))
    proposal = RoundProposal(w.reshape(problem.shape), max_rows, intercept, weights, upper, is_rough=True)
    return proposal, nearest_float(square * unit / found.total), tuple(exact_w)


class ShortestVector(NamedTuple):
    """The optimum over some terms: their integer weights of a sum, and ``sum_i p_i z_i``."""

    weights: list[int]
    total: int
    vector: list[int]


class IntegerFaces(Faces):
    """Faces in exact arithmetic: the last resort for margins that float64 cannot see.

    Columns with units from 1e-8 to 1e8, or margins of 1e-12 of the row norms, make no difference; the number
    of dimensions does, since integers grow with it.

    Attributes
    ----------
    Z, E : arrays of integers (objects) of shape (m, D) and (m, k)
        The terms, and the coefficients of intercepts in them: weights p balance, ``E^T p = 0``.
    own, other : ndarray of int of shape (m,)
        The classes that a term compares.
    b : list of Fraction
        The intercepts at which the terms of the last face have equal margins.
    """

    half = Fraction(1, 2)

    def __init__(self, Z: npt.NDArray[Any], E: Any, own: Indices, other: Indices) -> None:
        self.Z, self.E, self.own, self.other, self.b = Z, E, own, other, list[Fraction]()

    def combine(self, p: Any) -> Any:
        """Return the vector of weights p."""
        return sum(w * z for w, z in zip(p, self.Z, strict=True) if w)

    def minimum(self, face: Indices, p: Any) -> Any:
        """Solve ``G x + E b = level``, ``E^T x = 0`` and ``sum x = 1``."""
        Z, E = self.Z[face], np.column_stack([np.full(face.size, 1, dtype=object), self.E[face]])
        m, k = E.shape
        A = np.zeros((m + k, m + k + 1), dtype=object)
        A[:m, :m], A[:m, m:-1], A[m:, :m], A[m, -1] = Z @ Z.T, E, E.T, 1
        x = solve_integer_system(A, [*p, *[Fraction(0)] * k])
        self.b = x[m + 1 :]
        return np.array(x[:m])

    def lowest_vertex(self, face: Indices, p: Any) -> Any:
        """Return the vertex that lies furthest below the face; None at the optimum."""
        found = self.integers(p)
        vector = np.array(found.vector, dtype=object)
        excess = self.Z @ vector - Fraction(vector @ vector, found.total)
        if self.b:
            excess = excess + found.total * (self.E @ np.array(self.b, dtype=object))
        largest = max(map(abs, excess)) or 1
        vertex = self.vertex((excess / largest).astype(np.float64))
        return vertex if vertex @ excess < 0 else None

    def vertex(self, margins: Array) -> Any:
        """Return the weights of the vertex of smallest mean margin, along a cycle of classes."""
        lowest = np.array([np.argmin(margins)])
        if self.E.shape[1]:
            # Margins that no cycle of a negative mean can have would take the digits of the others.
            K = int(self.own.max()) + 1
            margins = np.minimum(margins, -K * margins.min())
            lowest = lowest_cycle(margins, self.own, self.other, max(K, int(self.other.max()) + 1))[1]
        found = np.full(margins.size, Fraction(0))
        found[lowest] = Fraction(1, lowest.size)
        return found

    def integers(self, p: Any) -> ShortestVector:
        """Return fractions over their common denominator."""
        total = math.lcm(*(w.denominator for w in p))
        weights = [int(w * total) for w in p]
        return ShortestVector(weights, total, [int(v) for v in self.combine(weights)])


def shortest_vector(faces: IntegerFaces, start: Array) -> ShortestVector | None:
    """Return the shortest vector of the polytope, from weights of an approximate solution, which save faces.

    None if the faces are too many.

    Examples
    --------
    >>> Z = np.array([[2, 1], [2, -1], [5, 0]], dtype=object)
    >>> faces = IntegerFaces(Z, Z[:, :0], np.zeros(3, int), np.ones(3, int))
    >>> shortest_vector(faces, np.ones(3))
    ShortestVector(weights=[1, 1, 0], total=2, vector=[4, 0])
    """
    p = np.array([Fraction(float(v)) for v in start])
    if faces.E.shape[1] == 1:  # the sums of two classes are equal to rounding only
        for members in (faces.own == 0, faces.own == 1):
            p[members] = p[members] / (p[members].sum() or 1)
    is_near = 0 < np.count_nonzero(start) <= faces.Z.shape[1] + 2 and not (faces.E.T @ p).any()
    p = p / p.sum() if is_near else faces.vertex(-start)
    found = wolfe(faces, p)
    return None if found is None else faces.integers(found)


def solve_integer_system(A: npt.NDArray[Any], start: Any) -> list[Any]:
    """Return the solution of the consistent augmented system A, by Bareiss' elimination.

    Unknowns whose columns depend on those before keep their numbers of ``start``.

    Examples
    --------
    >>> solve_integer_system(np.array([[2, 1, 3], [1, 1, 2]], dtype=object), [0, 0])
    [Fraction(1, 1), Fraction(1, 1)]
    """
    A, n, last, basis, x = A.copy(), len(A), 1, list[int](), list(start)
    for column in range(n):
        check_time()
        k = len(basis)
        pivots = [i for i in range(k, n) if A[i, column]]
        if not pivots:
            continue
        i = min(pivots, key=lambda i: abs(A[i, column]))
        A[[k, i]] = A[[i, k]]
        others = [i for i in range(n) if i != k]
        # Jordan's form of the elimination: all divisions leave no remainder.
        A[others] = (A[others] * A[k, column] - np.outer(A[others, column], A[k])) // last
        last = A[k, column]
        basis.append(column)
    free = [j for j in range(n) if j not in basis]
    for row, column in zip(A, basis, strict=False):
        x[column] = Fraction(row[-1] - sum(row[j] * x[j] for j in free)) / last
    return x
