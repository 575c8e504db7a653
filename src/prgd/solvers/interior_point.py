"""Interior point: the maximum margin over a working set of few dimensions.

Pairwise descent needs ever more steps as the margin shrinks against the row norms. Mehrotra's predictor and
corrector take 10 to 40 steps whatever the margin, each a product ``Z^T D Z`` and one factorisation in d
dimensions.

References
----------
S. Mehrotra (1992). On the implementation of a primal-dual interior point method. SIAM J. Optim. 2(4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from prgd._types import Array
from prgd.norms import norm
from prgd.solvers.cholesky import definite_solver

_MOST_STEPS = 80
_SHARE = 0.99  # of the way to the boundary
_VANISHED = 1e-9  # an upper bound, in units of the largest row norm


@dataclass(frozen=True, eq=False)
class Interior:
    """What the steps reached.

    Attributes
    ----------
    p : ndarray of shape (m,)
        Positive weights, of sum 1 (in each class, with an intercept).
    is_active : ndarray of bool, shape (m,)
        Rows whose weight outgrew their slack: the support, once the gap is small.
    w : ndarray of shape (d,)
    gap : float
        Relative gap between the bound of p and the margin of w, over these rows.
    upper : float
        The bound of p, in units of the largest row norm.
    """

    p: Array
    is_active: np.ndarray[tuple[int], np.dtype[np.bool_]]
    w: Array
    gap: float
    upper: float

    @property
    def vanishes(self) -> bool:
        """Whether p is close to Gordan's weights: the multipliers diverge where no w separates the rows."""
        return self.upper <= _VANISHED


@dataclass(frozen=True, eq=False)
class _Conditions:
    """The conditions of optimality, linear at a point: multipliers balance, slacks agree, s lam is even."""

    A: Array
    s: Array
    lam: Array
    dual_residual: Array
    primal_residual: Array
    solve: Callable[[Array], Array]

    @classmethod
    def linearised(cls, A: Array, quadratic: Array, g: float, x: Array, s: Array, lam: Array) -> _Conditions:
        H = A.T @ ((lam / s)[:, None] * A)
        H[np.diag_indices_from(H)] += quadratic
        return cls(A, s, lam, A.T @ lam - quadratic * x, A @ x - s - g, definite_solver(H))

    def move(self, target: float, change: Array) -> tuple[Array, Array, Array]:
        """Return changes of x, s and lam that bring ``s lam`` to target; ``change`` is beyond first order."""
        ratio = self.lam / self.s
        right = (target - change) / self.s - self.lam
        dx = self.solve(self.dual_residual + self.A.T @ (right - ratio * self.primal_residual))
        ds = self.A @ dx + self.primal_residual
        return dx, ds, right - ratio * ds


def interior(Z: Array, signs: Array, fit_intercept: bool, start: Array, tol: float) -> Interior:
    r"""Maximise the margin of m rows until the relative gap over them is at most ``tol``.

    .. math:: \min \tfrac12 \|w\|^2 \quad \text{subject to} \quad \langle w, z_i \rangle + b y_i \ge g

    with g near the margin, so that ``||w||`` ends near 1; p are its multipliers, scaled.

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
    Interior
        The best point seen; its gap is above ``tol`` where rounding ends the steps, or its bound vanishes.

    Examples
    --------
    >>> Z = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    >>> found = interior(Z, np.ones(3), False, np.ones(2), 1e-9)
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
    g = max(float(np.median(margins)), 1e-12)
    s = np.maximum(margins - g, 0.5 * g)
    lam = 1.0 / (s * g * (1.0 / s).sum())
    best = _measure(A, groups, x, s, lam, d)
    for _ in range(_MOST_STEPS):
        if best.gap <= tol:
            break
        try:
            at = _Conditions.linearised(A, quadratic, g, x, s, lam)
        except np.linalg.LinAlgError:  # not definite to rounding
            break
        mu = float(s @ lam) / m
        # aim at 0 first; how far that goes says how much of mu to keep
        _, ds, dlam = at.move(0.0, np.zeros(m))
        reached = float((s + _reach(s, ds) * ds) @ (lam + _reach(lam, dlam) * dlam)) / m
        dx, ds, dlam = at.move(mu * (reached / mu) ** 3, ds * dlam)
        step = _SHARE * min(_reach(s, ds), _reach(lam, dlam))
        x, s, lam = x + step * dx, s + step * ds, lam + step * dlam
        if not np.isfinite(lam).all():
            break
        now = _measure(A, groups, x, s, lam, d)
        if now.vanishes:
            return now
        best = now if now.gap < best.gap else best
    return best


def _reach(v: Array, change: Array) -> float:
    """Return the largest step, up to 1, that keeps v from turning negative."""
    steepest = float((change / v).min())  # v is positive
    return -1.0 / steepest if steepest < -1.0 else 1.0


def _measure(
    A: Array, groups: list[np.ndarray[tuple[int], np.dtype[np.bool_]]], x: Array, s: Array, lam: Array, d: int
) -> Interior:
    p = lam.copy()
    for group in groups:
        p[group] /= p[group].sum()
    margins = A[:, :d] @ x[:d]
    upper = norm(A[:, :d].T @ p) / len(groups)
    lower = sum(float(margins[group].min()) for group in groups) / (len(groups) * norm(x[:d]))
    # both have no unit: the slack in units of the margin
    is_active = p > s / (upper * norm(x[:d]))
    gap = (upper - lower) / upper if upper > 0.0 else np.inf
    return Interior(p, is_active, x[:d], gap, upper)
