"""The point of least norm in the convex hull of some rows, by an active set and refined to rounding.

The dual of the max-margin problem: ``gamma_star w_star`` is that point. Nothing here is shared with the
library's own solvers, so that it can be their oracle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.losses import Array

EPS = float(np.finfo(np.float64).eps)
# a margin is a sum of products, so it is known to a few units in the last place of the largest row
ROUNDING = 64.0 * EPS
LongArray = npt.NDArray[np.longdouble]


class ActiveSet(NamedTuple):
    """Rows (indices of Z) and positive weights of sum 1 with ``Z[rows].T @ weights`` of least norm."""

    rows: npt.NDArray[np.intp]
    weights: Array


def least_norm_in_hull(Z: Array) -> ActiveSet:
    r"""Return the weights of the point of least norm in the convex hull of the rows.

    Wolfe's active-set method. A set S of affinely independent rows has the least norm on its affine hull
    at the least-squares solution a of :math:`[Z_S^\top; 1^\top]\, a = (0, 1)`, scaled to sum 1; its QR
    factors are updated as rows come and go.

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
    from scipy.linalg import qr, qr_delete, qr_insert, solve_triangular

    lifted = np.concatenate([Z, np.ones((len(Z), 1))], axis=1)
    rows = [int(np.argmin(np.einsum("ij,ij->i", Z, Z)))]
    weights = np.ones(1)
    Q, R = qr(lifted[rows].T, mode="economic")
    seen: set[frozenset[int]] = set()
    while True:
        u = Z[rows].T @ weights
        size = float(np.linalg.norm(u))
        margins = Z @ u
        enters = int(np.argmin(margins))
        # a set that comes back means that rounding decides: no strict progress is left
        done = size <= ROUNDING or size * size - margins[enters] <= ROUNDING * size
        if done or enters in rows or frozenset(rows) in seen or len(rows) > Z.shape[1]:
            return ActiveSet(np.array(rows), weights)
        seen.add(frozenset(rows))
        rows.append(enters)
        weights = np.append(weights, 0.0)
        Q, R = qr_insert(Q, R, lifted[enters], len(rows) - 1, which="col")
        while True:
            # the least-squares solution by QR: Q^T (0, 1) is the last row of Q
            target = solve_triangular(R, Q[-1])
            target = target / target.sum()
            falls = np.flatnonzero(target <= 0.0)
            if not falls.size:
                weights = target
                break
            share = weights[falls] / (weights[falls] - target[falls])
            leaves = int(falls[np.argmin(share)])
            weights = weights + share.min() * (target - weights)
            weights = np.delete(np.maximum(weights, 0.0), leaves)
            weights = weights / weights.sum()
            del rows[leaves]
            Q, R = qr_delete(Q, R, leaves, which="col")
            # from square factors it returns whole ones
            Q, R = Q[:, : len(rows)], R[: len(rows)]


def refined(Z: Array, rows: npt.NDArray[np.intp]) -> tuple[LongArray, LongArray]:
    r"""Solve ``min ||w||, Z_S w = 1`` and ``Z_S^T a = w`` in extended precision.

    Iterative refinement: residuals in ``longdouble``, corrections by the QR factors of Z_S^T.

    Parameters
    ----------
    Z : ndarray of shape (n, d).
    rows : indices of linearly independent rows S.

    Returns
    -------
    w : of shape (d,), with ``||w|| = 1 / gamma``.
    a : of shape (len(rows),), with ``sum(a) = ||w||^2``.

    Examples
    --------
    >>> w, a = refined(np.array([[2.0, 1.0], [2.0, -1.0]]), np.array([0, 1]))
    >>> w.tolist(), a.tolist()
    ([0.5, 0.0], [0.125, 0.125])
    """
    from scipy.linalg import solve_triangular

    active = Z[rows].astype(np.longdouble)
    Q, R = np.linalg.qr(Z[rows].T)
    w, a = np.zeros(Z.shape[1], np.longdouble), np.zeros(len(rows), np.longdouble)
    for _ in range(6):
        residual = (1.0 - active @ w).astype(np.float64)
        w = w + (Q @ solve_triangular(R, residual, trans="T")).astype(np.longdouble)
    for _ in range(6):
        residual = (w - active.T @ a).astype(np.float64)
        a = a + solve_triangular(R, Q.T @ residual).astype(np.longdouble)
    return w, a
