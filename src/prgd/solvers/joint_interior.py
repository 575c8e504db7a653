r"""The joint multiclass program in l2 over a set of pairs (row, class), by interior point.

.. math:: \min \tfrac12 \|W\|_F^2 \quad \text{subject to} \quad
    \langle w_y - w_j, x \rangle + b_y - b_j \ge 1 \quad \text{for each pair}

The path is that of `prgd.solvers.interior_point`, in the coordinates of `prgd.solvers.joint_coordinates`: 10
to 30 steps, each of them ``d^2`` operations for a pair, and a factorisation in ``(K - 1) d`` dimensions, or
in as many as there are pairs. Wolfe's method sharpens what rounding left.

A working set (`prgd.maxmargin.any_norm`) pays only once all pairs cost several times the factorisation:
digits, 16,173 pairs in 576 dimensions, take half the time if all pairs are solved at once.
"""

import math
from typing import NamedTuple

import numpy as np

from prgd.core.types import Array, Indices, Mask
from prgd.problem.intercepts import best_intercept, smallest_mean_cycle
from prgd.rows.blocks import with_ones
from prgd.solvers.active_set import RowFaces
from prgd.solvers.interior_point import maximise_margin
from prgd.solvers.joint_coordinates import VANISHED, Pairs, coordinates_of, potentials

_TINY = 1e-12  # a direction shorter than this, for rows of norm 1, is rounding
_UNBALANCED = 1e-12  # weights of sum 1 that a class gains or loses by rounding
_PATIENCE = 6  # steps without a smaller gap after which rounding has ended the progress


class PairSolution(NamedTuple):
    """The joint program over a set of pairs; all numbers are rounded, and prove nothing.

    Attributes
    ----------
    W : ndarray of shape (K, d)
        The smallest margin of the pairs is 1. If not feasible: the best direction seen, of norm 1 at most.
    b : ndarray of shape (K,)
        The intercepts, of sum 0; zeros without intercepts.
    p : ndarray of shape (m,)
        Multipliers, not negative: W is near ``sum p (e_y - e_j) x^T``. With intercepts they leave each class
        as often as they enter it, up to rounding. If not feasible: weights of sum 1 whose combination is
        near zero (Farkas).
    gap : float
        Relative distance of the margin ``1 / ||W||`` to its upper bound by p; 1 if not feasible.
    is_feasible : bool
        Whether W satisfies all pairs. Margins below 1e-9 of the row norms count as zero.
    """

    W: Array
    b: Array
    p: Array
    gap: float
    is_feasible: bool


def solve_pairs(
    X: Array,
    codes: Indices,
    pairs_row: Indices,
    pairs_class: Indices,
    K: int,
    fit_intercept: bool,
    tol: float = 1e-9,
) -> PairSolution:
    """Solve the joint program over pairs until the relative gap is at most ``tol``.

    Parameters
    ----------
    X : ndarray of shape (rows, d)
    codes : ndarray of int of shape (rows,)
        The class of each row, from 0 to K - 1.
    pairs_row, pairs_class : ndarray of int of shape (m,)
        The row of each pair, and the class, not its own, that the row is compared with.
    K : int
    fit_intercept : bool
    tol : float

    Returns
    -------
    PairSolution
        Its gap is above ``tol`` if rounding ends the steps.

    Examples
    --------
    >>> X, codes = np.array([[0.0], [1.0], [4.0]]), np.array([0, 1, 2])
    >>> row, other = np.repeat([0, 1, 2], 2), np.array([1, 2, 0, 2, 0, 1])
    >>> found = solve_pairs(X, codes, row, other, 3, True)
    >>> found.W.round(6).ravel(), found.is_feasible
    (array([-1.555556,  0.444444,  1.111111]), True)
    """
    y, j = np.asarray(codes, np.int64)[pairs_row], np.asarray(pairs_class, np.int64)
    rows, row = np.unique(pairs_row, return_inverse=True)
    X, center, exponent = _moderate(np.asarray(X[rows], dtype=np.float64), fit_intercept)
    X = with_ones(X) if fit_intercept else X
    V, p, gap, is_feasible = _solve_components(Pairs(X, row, y, j, K, fit_intercept), tol)
    # Squares of extreme units leave the floating range.
    with np.errstate(over="ignore", under="ignore"):
        W, b = np.ldexp(V[:, : center.size], -exponent), np.zeros(K)
        p = np.ldexp(p, -2 * exponent) if is_feasible else p
    if fit_intercept:
        b = V[:, -1] - W @ center
        b -= b.mean()
    return PairSolution(W, b, p, gap, is_feasible)


def _solve_components(pairs: Pairs, tol: float) -> tuple[Array, Array, float, bool]:
    """Solve the program for each set of classes whose pairs have cycles; intercepts satisfy all other pairs.

    Multipliers leave each class as often as they enter it, so that those of a pair on no cycle are zero.
    """
    from scipy.sparse.csgraph import connected_components

    if not pairs.has_intercept or not pairs.size:
        return _solve(pairs, tol)
    leads = np.zeros((pairs.K, pairs.K), bool)
    leads[pairs.y, pairs.j] = True
    component = np.asarray(connected_components(leads, connection="strong")[1], dtype=np.int64)
    of_y, of_j = component[pairs.y], component[pairs.j]
    if (component == component[0]).all():
        return _solve(pairs, tol)
    W, p, gap = np.zeros((pairs.K, pairs.X.shape[1])), np.zeros(pairs.size), 0.0
    for name in np.unique(of_y[of_y == of_j]):
        (inner,), (classes,) = ((of_y == name) & (of_j == name)).nonzero(), (component == name).nonzero()
        place = np.cumsum(component == name) - 1
        rows, row = np.unique(pairs.row[inner], return_inverse=True)
        part = Pairs(pairs.X[rows], row, place[pairs.y[inner]], place[pairs.j[inner]], classes.size, True)
        V, weights, part_gap, is_feasible = _solve(part, tol)
        if not is_feasible:
            W[:], p[:] = 0.0, 0.0
        W[classes], p[inner], gap = V, weights, max(gap, part_gap)
        if not is_feasible:
            return W, p, gap, False
    W[:, -1] += _shifts(of_y, of_j, 1.0 - pairs.margins(W), pairs.K)[component]
    return W, p, gap, True


def _shifts(of_y: Indices, of_j: Indices, missing: Array, K: int) -> Array:
    """Return shifts of components whose differences are at least what pairs between them miss."""
    needed = np.full((K, K), -np.inf)
    outer = of_y != of_j
    np.maximum.at(needed, (of_y[outer], of_j[outer]), missing[outer])
    shifts = np.zeros(K)
    for _ in range(K):  # no path between components has more edges
        shifts = np.maximum(shifts, (needed + shifts).max(axis=1))
    return shifts


def _solve(pairs: Pairs, tol: float) -> tuple[Array, Array, float, bool]:
    """Solve the program for classes that are strongly connected, or without intercepts.

    Returns
    -------
    W, p, gap, is_feasible : as in `PairSolution`, with intercepts in the last column of W
    """
    if not pairs.size:
        return np.zeros((pairs.K, pairs.X.shape[1])), np.zeros(0), 0.0, True
    W, c = _first_direction(pairs)
    if not pairs.length(W) > 0.0:  # all rows are zero
        balanced = pairs.balanced(np.ones(pairs.size))
        p = np.ones(pairs.size) if balanced is None else balanced
        return W, p / p.sum(), 1.0, False
    at = coordinates_of(pairs)
    found = maximise_margin(at, np.ones(pairs.size), False, at.coordinates(W, c), tol, _PATIENCE)
    W, balanced = at.matrix(found.x), pairs.balanced(found.p)
    p = found.p if balanced is None else balanced / balanced.sum()
    best = bounds_of(pairs, W / pairs.length(W), p)
    if best.upper > VANISHED and best.gap > tol:
        best = polished(pairs, best, found.is_active, tol)
    if best.upper <= VANISHED or best.lower <= 0.0:
        return best.W / max(pairs.length(best.W), 1.0), best.p, 1.0, False
    return best.W / (best.lower * pairs.length(best.W)), best.p / best.upper**2, best.gap, True


def _first_direction(pairs: Pairs) -> tuple[Array, Array]:
    """Return a combination W of pairs, with intercepts that balance mean margins, and its coefficients.

    W is the sum of all ``(e_y - e_j) x^T``; if that vanishes, the one whose row is longest.
    """
    c = np.ones(pairs.size)
    W = pairs.combine(c)
    if not pairs.length(W) > _TINY * pairs.size:
        longest = np.argmax(np.einsum("ij,ij->i", pairs.X, pairs.X)[pairs.row])
        c = (np.arange(pairs.size) == longest).astype(np.float64)
        W = pairs.combine(c)
    if pairs.has_intercept:
        W[:, -1] = 0.0
        margins = pairs.margins(W)
        count, totals = pairs.flows(np.ones(pairs.size)), pairs.flows(margins)
        W[:, -1] = -potentials(count + count.T, totals.sum(axis=1) - totals.sum(axis=0))
    return W, c


def _moderate(X: Array, fit_intercept: bool) -> tuple[Array, Array, int]:
    """Return rows of norm at most 1, what was subtracted from them, and the power of two that divides them.

    With intercepts, the program does not change under translation: the mean is subtracted.
    """
    first = math.frexp(float(np.abs(X).max(initial=0.0)))[1]
    X = np.ldexp(X, -first)
    center = X.mean(axis=0) if fit_intercept and len(X) else np.zeros(X.shape[1])
    X -= center
    second = math.frexp(math.sqrt(np.einsum("ij,ij->i", X, X).max(initial=0.0)))[1]
    return np.ldexp(X, -second), np.ldexp(center, first), first + second


class JointBounds(NamedTuple):
    """A matrix W (with intercepts in its last column), weights p of sum 1, and the bounds that they give.

    Attributes
    ----------
    lower : float
        The smallest margin of W divided by its length.
    upper : float
        The length of the combination by p.
    """

    W: Array
    p: Array
    lower: float
    upper: float

    @property
    def gap(self) -> float:
        """Relative distance of the bounds."""
        return max((self.upper - self.lower) / self.upper, 0.0) if self.upper > 0.0 else 1.0


def bounds_of(pairs: Pairs, W: Array, p: Array) -> JointBounds:
    """Return W at its best intercepts and p, with their bounds."""
    length = float(pairs.length(W))
    if not length > 0.0:
        return JointBounds(W, p, -math.inf, float(pairs.bound(p)))
    W, _ = lowest_vertex(pairs, W)
    return JointBounds(W, p, float(pairs.margins(W).min()) / length, float(pairs.bound(p)))


def lowest_vertex(pairs: Pairs, W: Array) -> tuple[Array, Indices]:
    """Return W at the best intercepts, and the pairs of the vertex whose mean margin is smallest."""
    if not pairs.has_intercept:
        return W, np.array([np.argmin(pairs.margins(W))])
    K, W = pairs.K, W.copy()
    W[:, -1] = 0.0
    costs, vertex = lowest_cycle(pairs.margins(W), pairs.y, pairs.j, K)
    W[:, -1] = best_intercept(costs)[1]
    return W, vertex


def lowest_cycle(margins: Array, own: Indices, other: Indices, K: int) -> tuple[Array, Indices]:
    """Return the smallest margins between classes, and the terms along the cycle of smallest mean."""
    order = np.argsort(-margins, kind="stable")
    lowest = np.full((K, K), -1)
    lowest[own[order], other[order]] = order  # the last one written, of smallest margin, stays
    costs = np.where(lowest >= 0, margins[lowest], np.inf)
    _, cycle = smallest_mean_cycle(costs)
    return costs, lowest[cycle, np.roll(cycle, -1)]


class _PairFaces(RowFaces):
    """Faces of the polytope of pairs: combinations ``sum p (e_y - e_j) x^T`` with weights p of sum 1.

    With intercepts the weights leave each class as often as they enter it. Vertices are single pairs, or
    pairs along a cycle of classes in equal parts. The lowest vertex along W gives the smallest margin of W,
    at the best intercepts.
    """

    def __init__(self, pairs: Pairs, start: JointBounds, tol: float) -> None:
        super().__init__(self._without_intercepts(pairs, start.W), start.p, tol)
        self.pairs = pairs

    @staticmethod
    def _without_intercepts(pairs: Pairs, W: Array) -> Array:
        return (W[:, :-1] if pairs.has_intercept else W).ravel()

    def matrix(self, w: Array) -> Array:
        """Return W with intercepts of zero, if there are any."""
        W = w.reshape(self.pairs.K, -1)
        return np.column_stack([W, np.zeros(self.pairs.K)]) if self.pairs.has_intercept else W

    def combine(self, p: Array) -> Array:
        return self._without_intercepts(self.pairs, self.pairs.combine(p))

    def rows_of(self, face: Indices) -> tuple[Array, Array]:
        pairs = self.pairs
        Z = np.zeros((face.size, pairs.K, pairs.X.shape[1]))
        places, X = np.arange(face.size), pairs.X[pairs.row[face]]
        Z[places, pairs.y[face]] = X
        Z[places, pairs.j[face]] = -X
        if not pairs.has_intercept:
            return Z.reshape(face.size, -1), np.zeros((face.size, 0))
        return Z[:, :, :-1].reshape(face.size, -1), Z[:, :, -1]

    def lowest(self, w: Array) -> tuple[float, Indices]:
        W, vertex = lowest_vertex(self.pairs, self.matrix(w))
        return float(self.pairs.margins(W).min()), vertex


def polished(pairs: Pairs, start: JointBounds, is_face: Mask, tol: float) -> JointBounds:
    """Return better W and p by Wolfe's method, from a guess of the pairs that carry weight.

    The systems of the interior point have the square of the condition number of the rows: if the margin is
    below 1e-4 of their norms, rounding ends it at gaps of 1e-7, and below 1e-5 early.
    """
    faces = _PairFaces(pairs, start, tol)
    w, p = faces.solve(_first_weights(pairs, start, is_face))
    found = bounds_of(pairs, faces.matrix(w), p / p.sum())
    of_W = start if start.lower >= found.lower else found
    of_p = start if start.upper <= found.upper else found
    return JointBounds(of_W.W, of_p.p, of_W.lower, of_p.upper)


def _first_weights(pairs: Pairs, start: JointBounds, is_face: Mask) -> Array:
    """Return balanced weights near those of the start on the face, or the lowest vertex if there are none."""
    weights = np.where(is_face, start.p, 0.0)
    balanced = pairs.balanced(weights / weights.sum()) if weights.sum() > 0.0 else None
    if balanced is not None and balanced.sum() > 0.0:
        balanced = balanced / balanced.sum()
        if not pairs.has_intercept or np.abs(pairs.combine(balanced)[:, -1]).max() <= _UNBALANCED:
            return np.asarray(balanced)
    weights = np.zeros(pairs.size)
    weights[lowest_vertex(pairs, start.W)[1]] = 1.0
    return np.asarray(weights / weights.sum())
