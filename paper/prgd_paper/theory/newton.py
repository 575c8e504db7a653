r"""Newton's method for the logarithm of a sum of exponentials, with or without a penalty, to rounding.

Systems are solved in float64 by the singular values of ``D^(1/2) Z``, whose squares are the Hessian's
eigenvalues: a penalty far below ``eps ||Hessian||`` is still seen. Gradients are in extended precision at the
end, so that the minimiser is, too (iterative refinement).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array
from prgd_paper.theory.entropies import Reals, classes_of, log_sum_exp, softmax_weights

NEAR = 1e-4  # a step that moves margins apart by less than this is in the region of quadratic convergence
PATIENCE = 3  # steps in a row that do not halve the last one, after which rounding is reached
LIGHT = 1e-34  # rows of smaller weight change the Hessian by less than the rounding of its square root


class Minimum(NamedTuple):
    """A minimiser, the value there and the Hessian, the penalty included."""

    x: Array
    value: float
    hessian: Array


class SoftMinimum(NamedTuple):
    """A minimiser in extended precision, and Newton's decrement there: twice the excess of the value."""

    x: Reals
    decrement: float


def minimise_log_mean_exp(rows: Array, penalty: float, start: Array) -> Minimum:
    r"""Minimise :math:`\log \frac1n \sum_i e^{\langle x, r_i \rangle} + \frac\lambda2 \|x\|^2` to rounding.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Without a penalty they must surround 0 and span the space, or there is no minimiser.
    penalty : float, not negative.
    start : ndarray of shape (d,)

    Returns
    -------
    Minimum

    Examples
    --------
    >>> found = minimise_log_mean_exp(np.array([[1.0], [1.0], [-1.0]]), 0.0, np.zeros(1))
    >>> bool(abs(found.x[0] + 0.5 * math.log(2.0)) < 1e-15)
    True
    """
    x = minimise_soft_loss(-rows, penalty, start).x.astype(np.float64)
    exponent = rows @ x
    p = softmax_weights(exponent)
    value = float(log_sum_exp(exponent)) - math.log(len(rows)) + 0.5 * penalty * float(x @ x)
    mean = p @ rows
    hessian = (rows.T * p) @ rows - np.outer(mean, mean) + penalty * np.eye(x.size)
    return Minimum(x, value, hessian)


def minimise_soft_loss(
    Z: Array, lam: float, start: Reals, *, form: Array | None = None, groups: Any = None
) -> SoftMinimum:
    r"""Minimise :math:`\mathrm{LSE}(-Zx) + \frac\lambda2 q(x)` in extended precision.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
    lam : float, not negative. At 0 the rows must surround 0, and the step of smallest norm is taken.
    start : ndarray of shape (d,)
    form : ndarray t of shape (d,), optional
        ``q(x) = <t, x>^2``; ``||x||^2`` by default.
    groups : array of shape (n,), optional
        The class of each row: LSE is the mean of the classes' then.

    Returns
    -------
    SoftMinimum

    Examples
    --------
    >>> Z = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
    >>> found = minimise_soft_loss(Z, 1e-9, np.zeros(2))
    >>> found.x.astype(float).round(4).tolist()  # 1 / lam along w_star, and log(2) / 2
    [1000000000.0, 0.3466]
    """
    x: Reals = np.asarray(start)
    decrement = math.inf
    for dtype in (np.float64, np.longdouble):
        fine = Z.astype(dtype)
        x, decrement = _descend(fine, lam, x.astype(dtype), form, groups)
    return SoftMinimum(x, decrement)


def _descend(
    Z: Any, lam: float, x: Any, form: Array | None, groups: Any, max_steps: int = 300
) -> tuple[Reals, float]:
    """Take Newton steps in the precision of x until the decrement does not fall any more."""
    t = None if form is None else form.astype(x.dtype)

    def value_at(x: Any, margins: Any) -> Any:
        return log_sum_exp(-margins, groups=groups) + 0.5 * lam * (x @ x if t is None else (t @ x) ** 2)

    margins = Z @ x
    value, smallest, best, failures = value_at(x, margins), math.inf, x, 0
    for _ in range(max_steps):
        p = softmax_weights(-margins, groups=groups)
        slope = lam * (x if t is None else (t @ x) * t) - Z.T @ p
        step = newton_step(Z, p, lam, slope, form, groups)
        along = Z @ step
        decrement, stretch = abs(float(slope @ step)), _stretch(along, p)
        noise = 64.0 * float(np.finfo(x.dtype).eps) * max(1.0, float(np.abs(margins).max()))
        is_seen = decrement > 16.0 * noise  # whether the value shows what the step gains
        error = max(stretch, math.sqrt(decrement))  # the step may lengthen x and move no margins apart
        if not is_seen or error < NEAR:
            failures = 0 if error < 0.5 * smallest else failures + 1
            if error < smallest:
                smallest, best = error, x
            if failures > PATIENCE or error == 0.0:
                return best, decrement
        # The loss is quasi-self-concordant: steps of this size descend where the value is rounded away.
        size = math.log1p(stretch) / stretch if not is_seen and stretch > 0.1 else 1.0
        while is_seen and size > 1e-12:
            new = value_at(x - size * step, margins - size * along)
            if new <= value - 0.1 * size * decrement:
                break
            size *= 0.5
        x = x - size * step
        margins = Z @ x
        value = value_at(x, margins)
    return best, math.inf


def _stretch(along: Any, p: Any) -> float:
    """Return by how much a step moves margins apart, among rows that carry weight."""
    heavy = along[p > LIGHT]
    return float(heavy.max() - heavy.min()) if heavy.size else 0.0


def next_start(
    Z: Array, lam: float, last: float, x: Reals, *, form: Array | None = None, groups: Any = None
) -> Reals:
    """Return a start at lam: the minimiser x at the penalty ``last``, rescaled and corrected.

    It is rescaled alone where that is better.

    Rescaling multiplies the distances between margins, too. Rows of weight of order lam (zero in the limit)
    then have far too little weight, which Newton's method mends slowly and the value does not show.

    Examples
    --------
    >>> next_start(np.array([[2.0, 1.0], [2.0, -1.0]]), 0.25, 2.0, np.array([1.0, 0.0])).tolist()
    [8.0, 0.0]
    """
    rescaled = x * (last / lam)
    if not x.any():
        return rescaled
    fine, t = Z.astype(x.dtype), None if form is None else form.astype(x.dtype)
    p = softmax_weights(-(fine @ x), groups=groups)
    slope = lam * (x if t is None else (t @ x) * t) - fine.T @ p
    corrected = x - newton_step(fine, p, lam, slope, form, groups)
    values = [
        log_sum_exp(-(fine @ y), groups=groups) + 0.5 * lam * (y @ y if t is None else (t @ y) ** 2)
        for y in (corrected, rescaled)
    ]
    return corrected if values[0] <= values[1] + 0.1 else rescaled


def newton_step(
    Z: Any, p: Any, lam: float, slope: Any, form: Array | None = None, groups: Any = None
) -> Reals:
    r"""Return ``(Z^T D Z + lam q'')^-1 slope`` with ``D = diag(p) - p p^T`` in each group, in float64.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
    p : ndarray of shape (n,), the dual weights.
    lam : float
    slope : ndarray of shape (d,)
    form, groups : as in `minimise_soft_loss`.

    Examples
    --------
    >>> newton_step(np.array([[1.0, 1.0], [1.0, -1.0]]), np.full(2, 0.5), 0.5, np.ones(2)).round(3).tolist()
    [2.0, 0.667]
    """
    root = _centred(Z, p, groups)
    g = slope.astype(np.float64)
    if form is not None:
        root = np.vstack([root, math.sqrt(lam) * form])
    _, s, Vt = np.linalg.svd(root, full_matrices=False)
    inside = Vt @ g
    if form is None and lam > 0.0:
        step = Vt.T @ (inside / (s**2 + lam)) + (g - Vt.T @ inside) / lam
    else:
        kept = s > s[0] * max(root.shape) * float(np.finfo(np.float64).eps)
        step = Vt[kept].T @ (inside[kept] / s[kept] ** 2)
    return np.asarray(step.astype(slope.dtype))


def _centred(Z: Any, p: Any, groups: Any) -> Array:
    """Return the rows that carry weight, less the mean of their group, times the root of their weight."""
    parts = []
    for mask in classes_of(len(p), groups):
        weight = p[mask]
        heavy = weight > LIGHT * weight.max()
        rows = Z[mask][heavy]
        mean = (weight[heavy] @ rows) / weight[heavy].sum()
        parts.append((np.sqrt(weight[heavy])[:, None] * (rows - mean)).astype(np.float64))
    return np.vstack(parts)
