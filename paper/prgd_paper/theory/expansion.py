r"""The path near its end: what ``w(lam) - gamma_star w_star / lam`` converges to, and how fast.

Margin rows are ``z_i = gamma_star w_star + y_i`` in l2, with ``y_i`` orthogonal to ``w_star``. On them
alone F splits: ``w = gamma_star w_star / lam + v(lam)`` with v the minimiser of ``LSE(-Y v) + (lam/2)
||v||^2``. Other rows change w by less than ``exp(-kappa / lam)``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array
from prgd_paper.theory.entropies import Reals, classes_of, minimise_soft_loss, newton_step, softmax_weights
from prgd_paper.theory.support import max_margin_reference


class Expansion(NamedTuple):
    r"""Coefficients of :math:`v(\lambda) = c + \lambda c_1 + \lambda^2 c_2 + O(\lambda^3)`, in longdouble.

    ``curvature`` is the smallest positive eigenvalue of the Hessian :math:`Y^\top D_c Y`, the unit in which
    lam is small. ``bend`` is :math:`H^+ T[c_1, c_1]` with T the third derivative: the corrected predictor
    errs by half of it times :math:`(\lambda - \lambda')^2`.
    """

    c: Reals
    c_1: Reals
    c_2: Reals
    bend: Reals
    curvature: float


def orthogonal_parts(Z: Any, w_star: Any) -> Reals:
    """Return ``y_i = z_i - <z_i, w_star> w_star`` in longdouble, for w_star of l2 norm 1."""
    fine, w = np.asarray(Z).astype(np.longdouble), np.asarray(w_star).astype(np.longdouble)
    return np.asarray(fine - np.outer(fine @ w, w) / (w @ w))


def centred_rows(Z: Any, p: Any, groups: Any = None) -> Reals:
    """Return the rows less their mean under p, in each class if there are groups."""
    found = np.array(Z)
    for mask in classes_of(len(p), groups):
        found[mask] -= (p[mask] @ found[mask]) / p[mask].sum()
    return found


def path_expansion(Y: Any, groups: Any = None) -> Expansion:
    r"""Return the coefficients of the path in l2, under strict complementarity.

    .. math::

        c = \arg\min \mathrm{LSE}(-Yv), \qquad c_1 = -H^+ c, \qquad
        c_2 = -H^+ \left(c_1 + \tfrac12 T[c_1, c_1]\right), \qquad H = Y^\top D_c Y

    Parameters
    ----------
    Y : array of shape (m, d)
        The orthogonal parts of the margin rows; 0 is a combination of all of them with positive weights.
    groups : array of shape (m,), optional
        The class of each row, if an intercept is fitted.

    Returns
    -------
    Expansion

    Examples
    --------
    >>> found = path_expansion(np.array([[1.0], [1.0], [-1.0]]))
    >>> round(float(found.c[0]), 6), round(float(found.c_1[0]), 6)  # log(2) / 2, and -c, since H = 1
    (0.346574, -0.346574)
    """
    Y = np.asarray(Y)
    c = minimise_soft_loss(Y.astype(np.float64), 0.0, np.zeros(Y.shape[1]), groups=groups)
    fine = Y.astype(np.longdouble)
    p = softmax_weights(-(fine @ c), groups=groups)
    centred = centred_rows(fine, p, groups)

    def solve(slope: Any) -> Any:
        found = newton_step(fine, p, 0.0, slope, groups=groups)
        for _ in range(3):  # refined: the residual is formed in longdouble
            rest = slope - centred.T @ (p * (centred @ found))
            found = found + newton_step(fine, p, 0.0, rest, groups=groups)
        return found

    c_1 = -solve(c)
    third = -(centred.T @ (p * (centred @ c_1) ** 2))
    bend = solve(third)
    s = np.linalg.svd((np.sqrt(p)[:, None] * centred).astype(np.float64), compute_uv=False)
    kept = s[s > s[0] * max(Y.shape) * float(np.finfo(np.float64).eps)]
    return Expansion(c, c_1, -solve(c_1) - 0.5 * bend, bend, float(kept[-1] ** 2) if kept.size else np.inf)


def drift(Y: Any, carries: Any) -> Array:
    r"""Return b of :math:`w(\lambda) = \gamma^\star w^\star / \lambda + b \log(1/\lambda) + \dots`.

    Without strict complementarity, b is the shortest vector with

    .. math:: \langle y_i, b \rangle = 0 \ (i \in S), \qquad \langle y_j, b \rangle \ge 1 \ (j \in T),

    S the margin rows that carry weight in some p_star and T those that carry none.

    Parameters
    ----------
    Y : array of shape (m, d), the orthogonal parts of the margin rows.
    carries : array of bool of shape (m,), whether a row is in S.

    Examples
    --------
    >>> drift([[1.0, 0.0], [-1.0, 0.0], [0.3, 2.0]], [True, True, False]).round(12).tolist()
    [0.0, 0.5]
    """
    rows = np.asarray(Y).astype(np.float64)
    in_s = np.asarray(carries, dtype=bool)
    if in_s.all():
        return np.zeros(rows.shape[1])
    _, s, Vt = np.linalg.svd(rows[in_s], full_matrices=False)
    V = Vt[s > s.max(initial=0.0) * max(rows.shape) * float(np.finfo(np.float64).eps)]
    rest = rows[~in_s] - (rows[~in_s] @ V.T) @ V
    reference = max_margin_reference(rest)
    return np.asarray(reference.w_star / reference.gamma_star)


def predictor(Z: Any, w: Reals, lam: float, rho: float, groups: Any = None) -> Reals:
    r"""Return the direction h of the predictor of a phase: rescaling corrected by one linear system.

    .. math::

        w^+ = \rho w - (\rho - 1) c' = w + (\rho - 1) h, \qquad
        h = w - c' = \lambda' (Z^\top D Z + \lambda' I)^{-1} w, \qquad \lambda' = \lambda / \rho

    On the path it is Newton's step for the new penalty.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
    w : ndarray of shape (d,)
    lam, rho : float
    groups : array of shape (n,), optional

    Examples
    --------
    >>> predictor(np.array([[2.0, 1.0], [2.0, -1.0]]), np.array([1.0, 0.0]), 2.0, 8.0).tolist()
    [1.0, 0.0]
    """
    Z = np.asarray(Z).astype(w.dtype)
    p, lam_next = softmax_weights(-(Z @ w), groups=groups), lam / rho
    centred = centred_rows(Z, p, groups)
    h = newton_step(Z, p, lam_next, lam_next * w, groups=groups)
    for _ in range(3):  # refined: the residual is formed in the precision of w
        rest = lam_next * (w - h) - centred.T @ (p * (centred @ h))
        h = h + newton_step(Z, p, lam_next, rest, groups=groups)
    return np.asarray(h)
