"""Interior point: the maximum margin over a working set of few dimensions.

Pairwise descent needs ever more steps as the margin shrinks against the row norms. Mehrotra's predictor and
corrector take 10 to 40 steps for any margin, each a product ``Z^T D Z`` and a factorisation in d dimensions.

References
----------
S. Mehrotra (1992). On the implementation of a primal-dual interior point method. SIAM J. Optim. 2(4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from prgd._types import Array, Mask
from prgd.norms import norm
from prgd.solvers.cholesky import definite_solver
from prgd.solvers.polish import polish_weights
from prgd.solvers.working_set import WorkingSet

Move = Callable[[float, Array], tuple[Array, Array, Array]]

_MAX_STEPS = 80
_STEP_FRACTION = 0.99  # fraction of the step to the boundary that is taken
_START_FRACTION = 0.1  # smallest margin g to aim at, in units of the mean size of the margins at the start
_MIN_TARGET = 1e-12  # smallest margin g to aim at, in units of the largest row norm
# If no w separates the rows, the multipliers diverge and p comes close to Gordan's weights: an upper bound
# below this, in units of the largest row norm, counts as zero.
_VANISHED = 1e-9


class InteriorPoint(NamedTuple):
    """A point of the interior-point method, and the bounds that it gives over the rows of the set.

    Attributes
    ----------
    w : ndarray of shape (d,)
        The direction.
    p : ndarray of shape (m,)
        Positive weights, of sum 1 (in each class, with an intercept).
    is_active : ndarray of bool, shape (m,)
        Rows whose weight is larger than their slack: the support, once the gap is small.
    upper, gap : float
        The norm ``||Z^T p||`` in units of the largest row norm, and its relative distance to the margin of w.
        Both are rounded like any float64 sum: they steer, and prove nothing.
    """

    w: Array
    p: Array
    is_active: Mask
    upper: float
    gap: float


def maximise_margin(Z: Array, signs: Array, fit_intercept: bool, start: Array, tol: float) -> InteriorPoint:
    r"""Maximise the margin of m rows until the relative gap over them is at most ``tol``.

    .. math:: \min \tfrac12 \|w\|^2 \quad \text{subject to} \quad \langle w, z_i \rangle + b y_i \ge g

    with g near the margin, so that ``||w||`` ends near 1; p are the multipliers, scaled.

    Parameters
    ----------
    Z : ndarray of shape (m, d)
    signs : ndarray of shape (m,), the labels as +1 and -1
    fit_intercept : bool
    start : ndarray of shape (d,), non-zero
        A direction, e.g. the answer for a smaller set.
    tol : float

    Returns
    -------
    InteriorPoint
        The best point seen; its gap is above ``tol`` if rounding ends the steps, or its bound vanishes.

    Examples
    --------
    >>> Z = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    >>> found = maximise_margin(Z, np.ones(3), False, np.ones(2), 1e-9)
    >>> found.p.round(6), found.is_active
    (array([0.2, 0.8, 0. ]), array([ True,  True, False]))
    """
    m, d = Z.shape
    A = Z / np.sqrt(np.einsum("ij,ij->i", Z, Z).max())
    if fit_intercept:
        A = np.column_stack([A, signs])
    groups = [signs > 0, signs < 0] if fit_intercept else [np.ones(m, bool)]
    quadratic = np.where(np.arange(A.shape[1]) < d, 1.0, 0.0)
    x = np.zeros(A.shape[1])
    x[:d] = start / norm(start)
    margins = A @ x
    if fit_intercept:
        x[d] = 0.5 * (margins[groups[1]].min() - margins[groups[0]].min())
        margins += x[d] * signs
    g = max(float(np.median(margins)), _START_FRACTION * float(np.abs(margins).mean()), _MIN_TARGET)
    s = np.maximum(margins - g, 0.5 * g)
    lam = 1.0 / (s * g * (1.0 / s).sum())
    best = _measure(A, groups, x, s, lam, d)
    for _ in range(_MAX_STEPS):
        if best.gap <= tol:
            break
        try:
            move = _linearised_conditions(A, quadratic, g, x, s, lam)
        except np.linalg.LinAlgError:  # the system is not definite to rounding
            break
        mu = float(s @ lam) / m
        # The predictor aims at mu = 0; how far its step reaches says how much of mu the corrector keeps.
        _, ds, dlam = move(0.0, np.zeros(m))
        reached = float((s + _reach(s, ds) * ds) @ (lam + _reach(lam, dlam) * dlam)) / m
        dx, ds, dlam = move(mu * (reached / mu) ** 3, ds * dlam)
        step = _STEP_FRACTION * min(_reach(s, ds), _reach(lam, dlam))
        x, s, lam = x + step * dx, s + step * ds, lam + step * dlam
        if not np.isfinite(lam).all():
            break
        now = _measure(A, groups, x, s, lam, d)
        if now.upper <= _VANISHED:
            return now
        best = now if now.gap < best.gap else best
    return best


def _linearised_conditions(A: Array, quadratic: Array, g: float, x: Array, s: Array, lam: Array) -> Move:
    """Linearise the KKT conditions at (x, s, lam): stationarity, primal feasibility, complementarity.

    Returns
    -------
    callable
        ``move(target, second_order)`` returns the changes of x, s and lam that bring ``s lam`` to the target
        if the second-order terms are as given.
    """
    ratio = lam / s
    H = A.T @ (ratio[:, None] * A)
    H[np.diag_indices_from(H)] += quadratic
    solve, dual_residual, primal_residual = definite_solver(H), A.T @ lam - quadratic * x, A @ x - s - g

    def move(target: float, second_order: Array) -> tuple[Array, Array, Array]:
        right = (target - second_order) / s - lam
        dx = solve(dual_residual + A.T @ (right - ratio * primal_residual))
        ds = A @ dx + primal_residual
        return dx, ds, right - ratio * ds

    return move


def _reach(v: Array, change: Array) -> float:
    """Return the largest step, at most 1, that keeps the positive vector v from turning negative."""
    steepest = float((change / v).min())
    return -1.0 / steepest if steepest < -1.0 else 1.0


def _measure(A: Array, groups: list[Mask], x: Array, s: Array, lam: Array, d: int) -> InteriorPoint:
    p = lam.copy()
    for group in groups:
        p[group] /= p[group].sum()
    w, Z = x[:d], A[:, :d]
    margins, length = Z @ w, norm(w)
    upper = norm(Z.T @ p) / len(groups)
    lower = sum(float(margins[group].min()) for group in groups) / (len(groups) * length)
    gap = max((upper - lower) / upper, 0.0) if upper > 0.0 else np.inf
    # Weights and slacks in units of the margin have no unit, so they can be compared.
    return InteriorPoint(w, p, p > s / (upper * length), upper, gap)


def interior_weights(working: WorkingSet, start: Array, tol: float) -> tuple[Array, Array] | None:
    """Return weights and direction of a working set by interior point, or None if its gap stays above tol.

    Once the support is identified, `polish_weights` makes its weights exact and all others zero.
    """
    signs = np.where(working.group == 0, 1.0, -1.0)
    found = maximise_margin(working.Z, signs, working.groups == 2, start, tol)
    if found.upper <= _VANISHED:
        return found.p, found.w
    if found.gap > tol:
        return None
    p = np.where(found.is_active, found.p, 0.0)
    sums = np.bincount(working.group, p, minlength=working.groups)
    if sums.min() > 0.0:
        p = polish_weights(working, p / sums[working.group])
        if norm(working.combine(p)) <= norm(working.combine(found.p)):
            return p, found.w
    return found.p, found.w
