"""The point of smallest norm in the convex hull of some rows, by an active set, refined to rounding.

The dual of the max-margin problem: ``gamma_star w_star`` is that point. Nothing here is shared with the
library's own solvers, so that it can be their oracle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.core.types import Array

EPS = float(np.finfo(np.float64).eps)
# A margin is a sum of products, so it is known to a few units in the last place of the largest row.
ROUNDING = 64.0 * EPS
ZERO_WEIGHT = 4.0 * EPS  # weights have sum 1, so a weight of at most this is zero to rounding
TINY = float(np.finfo(np.float64).tiny)
LongArray = npt.NDArray[np.longdouble]


class ActiveSet(NamedTuple):
    """Rows (indices of Z) and positive weights of sum 1 with ``Z[rows].T @ weights`` of smallest norm."""

    rows: npt.NDArray[np.intp]
    weights: Array


def least_norm_in_hull(Z: Array) -> ActiveSet:
    r"""Return the weights of the point of smallest norm in the convex hull of the rows.

    The method is Wolfe's active set. The affine hull of independent rows S has its point of smallest norm
    at the least-squares solution a of :math:`[Z_S^\top; 1^\top]\, a = (0, 1)`, scaled to sum 1; its QR
    factors are updated as rows enter and leave.

    Parameters
    ----------
    Z : ndarray of shape (n, d), rows of norm at most about 1.

    Returns
    -------
    ActiveSet

    References
    ----------
    Wolfe (1976), Finding the nearest point in a polytope.

    Examples
    --------
    >>> least_norm_in_hull(np.array([[1.0, 1.0], [1.0, -1.0], [3.0, 0.0]])).weights
    array([0.5, 0.5])
    """
    from scipy.linalg import qr, qr_delete, qr_insert

    lifted = np.concatenate([Z, np.ones((len(Z), 1))], axis=1)
    rows = [int(np.argmin(np.einsum("ij,ij->i", Z, Z)))]
    weights = np.ones(1)
    Q, R = qr(lifted[rows].T, mode="economic")
    seen: set[frozenset[int]] = set()
    while True:
        found = ActiveSet(np.array(rows), weights)
        enters, is_fine = _violated(Z, found)
        # Each set has a smaller norm than the one before. A set that comes back means that rounding decides.
        if enters is None or enters in rows or frozenset(rows) in seen:
            return found
        seen.add(frozenset(rows))
        try:
            Q, R = qr_insert(Q, R, lifted[enters], len(rows), which="col")
            rows, weights = [*rows, enters], np.append(weights, 0.0)
            while True:
                target = _affine_weights(Z, rows, Q, R, is_fine)
                falls = np.flatnonzero(target <= ZERO_WEIGHT)
                if not falls.size:
                    weights = target
                    break
                if rows[-1] == enters and weights[-1] == 0.0 and target[-1] <= ZERO_WEIGHT:
                    return found  # A row that enters gains weight in exact arithmetic: rounding decides.
                share = weights[falls] / (weights[falls] - np.minimum(target[falls], 0.0) + TINY)
                leaves = int(falls[np.argmin(share)])
                weights = weights + min(float(share.min()), 1.0) * (target - weights)
                weights = np.delete(np.maximum(weights, 0.0), leaves)
                weights = weights / weights.sum()
                del rows[leaves]
                Q, R = qr_delete(Q, R, leaves, which="col")
                # qr_delete returns full factors if it was given square ones: cut them to economic size.
                Q, R = Q[:, : len(rows)], R[: len(rows)]
        except np.linalg.LinAlgError:  # The rows are linearly dependent to rounding.
            return found


def _affine_weights(Z: Array, rows: list[int], Q: Array, R: Array, is_fine: bool) -> Array:
    """Return the weights of smallest norm on the affine hull, refined if double precision is too coarse."""
    from scipy.linalg import solve_triangular

    if is_fine:
        _, a = refined(Z, np.array(rows))
        if np.isfinite(a).all() and a.sum() > 0.0:
            return np.asarray(a / a.sum(), dtype=np.float64)
    # The least-squares solution is R^-1 Q^T (0, 1), and Q^T (0, 1) is the last row of Q.
    target = solve_triangular(R, Q[-1])
    return np.asarray(target / target.sum())


def _violated(Z: Array, found: ActiveSet) -> tuple[int | None, bool]:
    """Return the row of smallest margin if that is below the active rows', and whether it was close."""
    u = Z[found.rows].T @ found.weights
    size = float(np.linalg.norm(u))
    if size <= ROUNDING or len(found.rows) > Z.shape[1]:
        return None, False
    margins = Z @ u
    lowest = int(np.argmin(margins))
    # u is a combination of rows, so its error is a rounding error of the rows, however short u is.
    if size * size - margins[lowest] > ROUNDING:
        return lowest, False
    w, _ = refined(Z, found.rows)
    if np.isnan(w).any():
        return None, True
    fine_margins = Z.astype(np.longdouble) @ w
    lowest = int(np.argmin(fine_margins))
    noise = 4.0 * EPS + 64.0 * float(np.finfo(np.longdouble).eps) / size
    return (lowest if fine_margins[lowest] < 1.0 - noise else None), True


def refined(Z: Array, rows: npt.NDArray[np.intp]) -> tuple[LongArray, LongArray]:
    r"""Solve ``min ||w||, Z_S w = 1`` and ``Z_S^T a = w`` in extended precision.

    Iterative refinement of both equations at once (Bjorck): residuals in ``longdouble``, corrections by
    the QR factors of Z_S^T.

    Parameters
    ----------
    Z : ndarray of shape (n, d).
    rows : indices of linearly independent rows S; the results are NaN if S is dependent to rounding.

    Returns
    -------
    w : of shape (d,), with ``||w|| = 1 / gamma``.
    a : of shape (len(rows),), with ``sum(a) = ||w||^2``.

    Examples
    --------
    >>> w, a = refined(np.array([[2.0, 1.0], [2.0, -1.0]]), np.array([0, 1]))
    >>> w.astype(float).round(18), a.astype(float)
    (array([0.5, 0. ]), array([0.125, 0.125]))
    """
    from scipy.linalg import solve_triangular

    active = Z[rows].astype(np.longdouble)
    Q, R = np.linalg.qr(Z[rows].T)
    w, a = np.zeros(Z.shape[1], np.longdouble), np.zeros(len(rows), np.longdouble)
    diagonal = np.abs(np.diag(R))
    if len(rows) > Z.shape[1] or diagonal.min() <= EPS * diagonal.max():
        return w * np.nan, a * np.nan
    for _ in range(10):
        short = (1.0 - active @ w).astype(np.float64)
        outside = (active.T @ a - w).astype(np.float64)
        within = Q.T @ outside
        step = solve_triangular(R, short, trans="T")
        w = w + (Q @ (step - within) + outside).astype(np.longdouble)
        a = a + solve_triangular(R, step - within).astype(np.longdouble)
    return w, a
