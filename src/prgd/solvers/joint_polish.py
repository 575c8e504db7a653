r"""The joint multiclass program on an identified face of pairs, by orthogonal factors.

Pairs of the face have margin 1, and multipliers on them alone make up W:

.. math:: Z w + E b = 1, \qquad w = Z^\top p, \qquad E^\top p = 0.

The interior point solves systems in ``Z^T D Z``, whose condition number is the square of that of Z: if the
margin is below 1e-4 of the row norms, rounding ends it at gaps near 1e-7. The rows themselves keep the digits.
"""

from __future__ import annotations

import numpy as np

from prgd._types import Array, Indices, Mask
from prgd.solvers.joint_coordinates import Pairs

_RANK_TOLERANCE = 1e-14  # singular values below this fraction of the largest count as zero
_MAX_ENTRIES = 2**24  # entries of the rows of a face
_MAX_FACES = 6
_MIN_SHARE = 1e-9  # a negative multiplier below this fraction of the largest is rounding


def polished(pairs: Pairs, W: Array, p: Array, is_face: Mask, tol: float) -> tuple[Array, Array, float]:
    """Return better W and multipliers, and their gap, if solving on the face improves either.

    Pairs of negative multiplier leave the face, and pairs whose margin is below 1 join it, for some rounds.

    Parameters
    ----------
    pairs : Pairs
    W : ndarray, with smallest margin 1; its last column has the intercepts, if there are any.
    p : ndarray of shape (m,), multipliers
    is_face : mask of shape (m,)
    tol : float, the gap to reach
    """
    best_W, best_p = W, p
    lower, upper = 1.0 / pairs.length(W), pairs.bound(p / p.sum())
    for _ in range(_MAX_FACES):
        face = np.flatnonzero(is_face)
        if not 0 < face.size * W.size <= _MAX_ENTRIES or upper - lower <= tol * upper:
            break
        try:
            W, p = _solve_face(pairs, face, p)
        except np.linalg.LinAlgError:  # the singular values did not converge
            break
        margins, weights = pairs.margins(W), np.maximum(p, 0.0)
        is_short, is_negative = margins < 1.0 - tol, p < -_MIN_SHARE * p.max()
        weights = weights / weights.sum()
        if margins.min() > lower * pairs.length(W):
            best_W, lower = W / margins.min(), margins.min() / pairs.length(W)
        if pairs.bound(weights) < upper and (balanced := pairs.balanced(weights)) is not None:
            best_p, upper = balanced, pairs.bound(weights)
        if not (is_short | is_negative).any():
            break
        is_face, p = (is_face | is_short) & ~is_negative, np.maximum(p, 0.0)
    return best_W, best_p * (1.0 / (upper**2 * best_p.sum())), max(float((upper - lower) / upper), 0.0)


def _solve_face(pairs: Pairs, face: Indices, p: Array) -> tuple[Array, Array]:
    """Return the shortest W with margin 1 on the face, and multipliers on the face that are near p."""
    Z, E = _rows_of(pairs, face)
    # Combinations of the pairs in which the intercepts cancel: the null space of E^T.
    left, values, _ = np.linalg.svd(E, full_matrices=True)
    rank = int(np.count_nonzero(values > _RANK_TOLERANCE * len(E))) if E.size else 0
    N = left[:, rank:]
    B, ones = N.T @ Z, np.ones(face.size)
    w = _least_squares(B, N.T @ ones)
    b = np.linalg.lstsq(E, ones - Z @ w)[0] if E.size else np.zeros(0)
    start = p[face]
    target = np.append(w - start @ Z, -(start @ E))
    result = np.zeros(p.size)
    result[face] = start + _least_squares(np.hstack([Z, E]).T, target)
    W = w.reshape(pairs.K, -1)
    return np.column_stack([W, b]) if E.size else W, result


def _least_squares(A: Array, target: Array) -> Array:
    """Return the shortest solution of least squares, refined once."""
    x = np.linalg.lstsq(A, target, rcond=_RANK_TOLERANCE)[0]
    return np.asarray(x + np.linalg.lstsq(A, target - A @ x, rcond=_RANK_TOLERANCE)[0])


def _rows_of(pairs: Pairs, face: Indices) -> tuple[Array, Array]:
    """Return ``(e_y - e_j) x^T`` as a row for each pair of the face, and ``e_y - e_j`` if there are intercepts."""
    d = pairs.X.shape[1]
    Z, places, X = np.zeros((face.size, pairs.K, d)), np.arange(face.size), pairs.X[pairs.row[face]]
    Z[places, pairs.y[face]] = X
    Z[places, pairs.j[face]] = -X
    if not pairs.has_intercept:
        return Z.reshape(face.size, -1), np.zeros((face.size, 0))
    return Z[:, :, :-1].reshape(face.size, -1), Z[:, :, -1]
