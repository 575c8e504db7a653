"""Vectors of a cone in float64: some with other signs of entries than at a point, and that of maximum margin.

Around each point of the cone an ellipsoid lies inside the cone (Dikin's, of the logarithmic barrier): a
function that has both signs there is found at once, from points on the way to the centre of the cone. Others
are pushed to the other sign by moves that stretch some margins and shrink others.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from prgd.core.threads import time_left
from prgd.core.types import Array, Indices
from prgd.norms import norm
from prgd.regression.cone import Cone
from prgd.solvers.interior_point import maximise_margin
from prgd.solvers.linear_systems import Columns

CENTERING_STEPS = 12  # Newton steps towards the centre of the cone, at most
_CENTERED = 0.1  # Newton decrement at which a point counts as the centre
_INSIDE = 0.97  # fraction of the ellipsoid's half-width that a function must be below to have both signs
_STRETCHES = (1.0, 30.0, 1000.0)  # relative growth of the margins that a stretching move asks for
_STEP_FRACTION = 0.95  # fraction of the step to the boundary of the cone that is taken
SIGN_GAP = 1e-10  # gap at which the maximum-margin direction is good enough for its signs
_ROUNDED_GAP = 1e-14  # a gap below this is rounding
MAX_ROUNDS = 30  # times that rows of smaller margin are added


def opposite_vectors(
    G: Array, t: Array, C: Array, signs: Indices
) -> tuple[dict[tuple[int, int], Array], dict[int, Array]]:
    """Look for vectors of the cone ``{t : G t > 0}`` in which functions have other signs than at t.

    Parameters
    ----------
    G : ndarray of shape (m, r)
    t : ndarray of shape (r,)
        A vector of the cone.
    C : ndarray of shape (k, r)
        The functions ``t -> C_k . t``.
    signs : ndarray of int of shape (k,)
        Their signs at t, 0 if they are zero there.

    Returns
    -------
    vectors : dict from function and sign to ndarray
        A vector for each function and each sign that it has not at t, if one was found.
    duals : dict from function to ndarray of shape (m,)
        For each other function weights of the rows whose combination is ``sign C_k``; if none is negative,
        the function has one sign on the cone.

    Examples
    --------
    On the cone of vectors with ``0 < t_0 < t_1`` the function t_0 has one sign, ``t_0 - t_1 / 2`` has both:

    >>> G, C = np.array([[1.0, 0.0], [-1.0, 1.0]]), np.array([[1.0, 0.0], [1.0, -0.5]])
    >>> vectors, duals = opposite_vectors(G, np.array([3.0, 4.0]), C, np.array([1, 1]))
    >>> list(vectors), {k: (np.abs(q) + q).round(6) / 2 for k, q in duals.items()}
    ([(1, -1)], {0: array([1., 0.])})
    """
    vectors: dict[tuple[int, int], Array] = {}
    duals: dict[int, Array] = {k: np.full(len(G), -1.0) for k in range(len(C))}
    missing = np.arange(len(C))
    t = t / np.mean(G @ t)
    for _ in range(CENTERING_STEPS):
        margins = G @ t
        scaled = G / margins[:, None]
        R = np.asarray(np.linalg.qr(scaled, mode="r"))
        if not (len(R) == R.shape[1] and np.isfinite(R).all() and R.diagonal().all()):
            break
        roots, found_inside = _inside(R, t, C[missing], signs[missing])
        vectors |= {(int(missing[k]), sign): vector for (k, sign), vector in found_inside.items()}
        is_inside = np.isin(np.arange(missing.size), [k for k, _ in found_inside])
        missing, weights = missing[~is_inside], scaled @ _solve(R, roots[:, ~is_inside])
        # Each of the others is a combination of rows. Moves that shrink margins of weights against the
        # missing sign, and stretch the rest, change it most.
        for stretch in _STRETCHES:
            if not missing.size or time_left() < 0.0:  # What is found by now is kept.
                break
            against = signs[missing] * weights >= 0.0
            inner = scaled.T @ np.where(against, -_STEP_FRACTION, stretch)
            moves = _solve(R, _solve(R, inner, "T"))
            shrinks = -(scaled @ moves).min(axis=0)  # a step of 1 makes a margin zero that shrinks by 1
            moved = t[:, None] + np.minimum(_STEP_FRACTION / np.maximum(shrinks, 1e-3), 1.0) * moves
            is_other = signs[missing] * np.einsum("kr,rk->k", C[missing], moved) < 0.0
            is_other &= (scaled @ moved > 0.0).all(axis=0)
            columns = zip(missing[is_other].tolist(), moved.T[is_other], strict=True)
            vectors |= {(k, -int(signs[k])): vector for k, vector in columns}
            missing, weights = missing[~is_other], weights[:, ~is_other]
        duals = {int(k): signs[k] * q / margins for k, q in zip(missing, weights.T, strict=True)}
        gradient = G.sum(axis=0) - scaled.sum(axis=0)
        root = _solve(R, gradient, "T")
        change, decrement = -_solve(R, root), norm(root)
        if not missing.size or not decrement > _CENTERED or time_left() < 0.0:
            break
        # Longer steps than self-concordance allows keep all margins positive, and lead to the centre sooner.
        fastest = float((-(scaled @ change)).max())
        t = t + max(1.0 / (1.0 + decrement), min(1.0, 0.9 / max(fastest, 0.9))) * change
    return vectors, duals


def _solve(R: Array, b: Array, trans: Any = "N") -> Array:
    """Return the solution of a triangular system, or of its transpose; numbers may become infinite."""
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(R, b, trans=trans, check_finite=False))


def _inside(R: Array, t: Array, C: Array, signs: Indices) -> tuple[Array, dict[tuple[int, int], Array]]:
    """Return ``R^-T C^T``, and vectors of missing signs inside the ellipsoid ``|R (v - t)| < 1``, if any."""
    roots = _solve(R, C.T, "T")
    moves = _solve(R, roots).T
    values, widths = C @ t, np.sqrt(np.einsum("rk,rk->k", roots, roots))
    steps = 0.5 * (np.abs(values) / widths + 1.0) / widths
    vectors = {
        (k, sign): t + sign * steps[k] * moves[k]
        for k in np.flatnonzero(np.abs(values) < _INSIDE * widths).tolist()
        for sign in {1, -1} - {int(signs[k])}
    }
    return roots, vectors


def max_margin_signs(cone: Cone, start: Array, index: Indices, columns: Sequence[int]) -> dict[int, str]:
    """Return "+", "-" or "0" for some entries of the maximum-margin direction, in the norm of v.

    An entry is "0" if the gap of the direction leaves its sign open, or rounding does. The gap is rounded
    like any float64 sum.

    Parameters
    ----------
    cone : Cone
    start : ndarray
        Coordinates of a vector of the cone.
    index : ndarray of int
        Separated rows to begin with.
    columns : integers
    """
    try:
        with np.errstate(all="ignore"):
            v, error = _direction(cone, start, index)
    except (np.linalg.LinAlgError, ValueError):  # numbers beyond the floating range
        return dict.fromkeys(columns, "0")
    return {j: ("+" if v[j] > 0.0 else "-") if abs(v[j]) > error else "0" for j in columns}


def _direction(cone: Cone, start: Array, index: Indices) -> tuple[Array, float]:
    """Return the direction of norm 1 and a bound of its distance from that of maximum margin."""
    v, basis = cone.functions @ start, cone.functions.toarray()
    Q, R = np.linalg.qr(basis / np.abs(basis).max(axis=0))  # an orthonormal basis of N, which rounding turns
    rounded = max(_ROUNDED_GAP, np.finfo(float).eps * float(np.linalg.cond(R)))
    error = 2.0
    for _ in range(MAX_ROUNDS):
        G = np.concatenate([Z @ Q for _, Z in cone.rows.blocks(index, as_stored=True)])
        G = np.ldexp(G, -int(np.frexp(np.abs(G).max())[1]))
        at = Columns(G, float(np.sqrt(np.einsum("ij,ij->i", G, G).max())))
        found = maximise_margin(at, np.ones(len(G)), False, Q.T @ v, SIGN_GAP)
        v = Q @ (found.x / norm(found.x))
        error = float(np.sqrt(2.0 * max(found.gap, rounded)))
        margins = cone.rows.margins(v)[cone.separated]
        worst = np.argsort(margins, kind="stable")[: 4 * cone.size]
        known = np.isin(cone.separated, index, assume_unique=True)
        is_worse = margins[worst] < (1.0 - SIGN_GAP) * margins[known].min()
        grown = np.union1d(index, cone.separated[worst[is_worse]])
        if grown.size == index.size:
            break
        index = grown
    return v, error
