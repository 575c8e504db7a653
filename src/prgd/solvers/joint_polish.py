r"""Wolfe's method for the joint multiclass program: the shortest vector of a polytope, by orthogonal factors.

The polytope has the combinations ``sum p (e_y - e_j) x^T`` with weights p of sum 1, which leave each class as
often as they enter it if there are intercepts. Its vertices are single pairs, or pairs along a cycle of
classes in equal parts. The lowest vertex along W gives the smallest margin of W, at the best intercepts.

The systems of the interior point have the square of the condition number of the rows: if the margin is below
1e-4 of their norms, rounding ends it at gaps of 1e-7, and below 1e-5 early. The rows keep the digits.

References
----------
P. Wolfe (1976). Finding the nearest point in a polytope. Mathematical Programming 11.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from prgd.core.types import Array, Indices, Mask
from prgd.problem.intercepts import best_intercept, smallest_mean_cycle
from prgd.solvers.joint_coordinates import Pairs

_RANK_TOLERANCE = 1e-14  # singular values below this fraction of the largest count as zero
_UNBALANCED = 1e-12  # weights of sum 1 that a class gains or loses by rounding
_MAX_ENTRIES = 2**24  # entries of the rows of a face
_MIN_FACES, _MAX_FACES, _MAX_WORK = 8, 600, 1e10  # faces that are solved on, and their operations together


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
    margins = pairs.margins(W)
    order = np.argsort(-margins, kind="stable")
    lowest = np.full((K, K), -1)
    lowest[pairs.y[order], pairs.j[order]] = order  # the last one written, of smallest margin, stays
    costs = np.where(lowest >= 0, margins[lowest], np.inf)
    _, cycle = smallest_mean_cycle(costs)
    W[:, -1] = best_intercept(costs)[1]
    return W, lowest[cycle, np.roll(cycle, -1)]


def polished(pairs: Pairs, start: JointBounds, is_face: Mask, tol: float) -> JointBounds:
    """Return better W and p by Wolfe's method, from a guess of the pairs that carry weight.

    The method solves on the face, from which pairs leave as they block the step. Once none does, the weights
    move towards the lowest vertex, whose pairs join the face. The combination is shorter after each vertex.
    """
    best, p, work, last = start, _first_weights(pairs, start, is_face), 0.0, math.inf
    for k in range(_MAX_FACES):
        face = np.flatnonzero(p)
        work += face.size**2 * start.W.size
        if face.size * start.W.size > _MAX_ENTRIES or (work > _MAX_WORK and k >= _MIN_FACES):
            break
        Z, E = _rows_of(pairs, face)
        try:
            x = _face_minimum(Z, E, p[face])
            if x.min() <= 0.0:
                p[face] = _step_to_boundary(p[face], x)
                continue
            p[face], W = x, _face_direction(pairs, Z, E)
        except np.linalg.LinAlgError:  # the singular values did not converge
            break
        best = _better(best, bounds_of(pairs, W, p / p.sum()))
        U = pairs.combine(p)
        length = float(pairs.length(U))
        if best.gap <= tol or not length < last:  # if a vertex did not help, rounding decides
            break
        last = length
        _, joining = lowest_vertex(pairs, W)
        p = _towards(pairs, p, joining)
    return best


def _better(a: JointBounds, b: JointBounds) -> JointBounds:
    """Return the W and the p of two points whose bounds are better."""
    of_W, of_p = (a if a.lower >= b.lower else b), (a if a.upper <= b.upper else b)
    return JointBounds(of_W.W, of_p.p, of_W.lower, of_p.upper)


def _first_weights(pairs: Pairs, start: JointBounds, is_face: Mask) -> Array:
    """Return balanced weights near those of the start on the face, or the lowest vertex if there are none."""
    weights = np.where(is_face, start.p, 0.0)
    if weights.sum() > 0.0 and (balanced := pairs.balanced(weights / weights.sum())) is not None:
        balanced = balanced / balanced.sum()
        if not pairs.has_intercept or np.abs(pairs.combine(balanced)[:, -1]).max() <= _UNBALANCED:
            return np.asarray(balanced)
    weights = np.zeros(pairs.size)
    weights[lowest_vertex(pairs, start.W)[1]] = 1.0
    return np.asarray(weights / weights.sum())


def _towards(pairs: Pairs, p: Array, joining: Indices) -> Array:
    """Return the weights of the shortest combination between p and a vertex."""
    vertex = np.zeros(p.size)
    vertex[joining] = 1.0 / joining.size
    change = pairs.combine(vertex - p)
    U = pairs.combine(p)
    if pairs.has_intercept:
        U, change = U[:, :-1], change[:, :-1]
    square = float(np.vdot(change, change))
    step = -float(np.vdot(U, change)) / square if square > 0.0 else 0.0
    step = min(max(step, 0.0), 0.5)
    return (1.0 - step) * p + step * vertex


def _step_to_boundary(p: Array, x: Array) -> Array:
    """Return the point between p and x at which the first weights vanish."""
    (falling,) = (x <= 0.0).nonzero()
    ratio = p[falling] / (p - x)[falling]
    moved = np.maximum(p + ratio.min() * (x - p), 0.0)
    moved[falling[ratio <= ratio.min()]] = 0.0
    return np.asarray(moved)


def _face_minimum(Z: Array, E: Array, p: Array) -> Array:
    """Return the weights of least ``||Z^T x||`` on the face, with the sums of p, that are nearest to p."""
    N = _null_space(np.column_stack([E, np.ones(len(E))]))
    return np.asarray(p + N @ _least_squares((N.T @ Z).T, -(p @ Z)))


def _face_direction(pairs: Pairs, Z: Array, E: Array) -> Array:
    """Return the shortest W whose margins on the face are 1 at some intercepts, which are left at zero."""
    N = _null_space(E)
    W = _least_squares(N.T @ Z, N.sum(axis=0)).reshape(pairs.K, -1)
    return np.column_stack([W, np.zeros(pairs.K)]) if pairs.has_intercept else W


def _null_space(E: Array) -> Array:
    """Return an orthonormal basis of the vectors v with ``E^T v = 0``."""
    left, values, _ = np.linalg.svd(E, full_matrices=True)
    return np.asarray(left[:, np.count_nonzero(values > _RANK_TOLERANCE * len(E)) :])


def _least_squares(A: Array, target: Array) -> Array:
    """Return the shortest solution of least squares, refined once."""
    x = np.linalg.lstsq(A, target, rcond=_RANK_TOLERANCE)[0]
    return np.asarray(x + np.linalg.lstsq(A, target - A @ x, rcond=_RANK_TOLERANCE)[0])


def _rows_of(pairs: Pairs, face: Indices) -> tuple[Array, Array]:
    """Return ``(e_y - e_j) x^T`` as a row for each pair, and ``e_y - e_j`` if there are intercepts."""
    Z = np.zeros((face.size, pairs.K, pairs.X.shape[1]))
    places, X = np.arange(face.size), pairs.X[pairs.row[face]]
    Z[places, pairs.y[face]] = X
    Z[places, pairs.j[face]] = -X
    if not pairs.has_intercept:
        return Z.reshape(face.size, -1), np.zeros((face.size, 0))
    return Z[:, :, :-1].reshape(face.size, -1), Z[:, :, -1]
