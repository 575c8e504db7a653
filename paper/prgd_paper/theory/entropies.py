r"""Rényi entropies of the dual weights, and Newton's method for the logarithm of a sum of exponentials.

Dual weights are ``p_i ~ q_i exp(a_i)`` with logarithmic weights ``a = -Zw`` and sample weights q (1 if none
are given). With an intercept each class has a softmax of its own, and every entropy is the mean of both
classes'.

Weights are normalised after they are exponentiated: ``exp(a - LSE(a))`` rounds a number of the size of the
margins, and breaks the identities of docs/note/note.md by 2e-6 at margins of 2e5.

Newton's systems are solved in float64 by the singular values of ``D^(1/2) Z``, whose squares are the
Hessian's eigenvalues: a penalty far below ``eps ||Hessian||`` is still seen. Gradients are in extended
precision at the end, so that the minimiser is, too (iterative refinement).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.checks import check_integer
from prgd.core.types import Array, Mask

Reals = npt.NDArray[Any]  # float64, or longdouble where rounding must be smaller
NEAR_ONE = 1e-2  # orders of entropies this near to Shannon's are computed as corrections to it


def classes_of(n: int, groups: Any = None) -> Iterator[Mask]:
    """Yield a mask of the rows of each class; of all rows if there are no groups."""
    if groups is None:
        yield np.ones(n, dtype=bool)
        return
    for name in np.unique(groups):
        yield np.asarray(groups) == name


def softmax_weights(log_weights: Any, sample_weight: Any = None, groups: Any = None) -> Reals:
    r"""Return the dual weights of sum 1, :math:`p_i \propto q_i e^{a_i}`, of equal sums in each group.

    Parameters
    ----------
    log_weights : array of shape (n,), -Zw for the weights at w; longdouble stays longdouble.
    sample_weight : array of shape (n,), optional
    groups : array of shape (n,), optional
        The class of each row, if an intercept is fitted.

    Examples
    --------
    >>> softmax_weights([0.0, np.log(3.0)]).round(12).tolist()
    [0.25, 0.75]
    """
    a, q, masks = _counted(log_weights, sample_weight, groups)
    p = np.zeros_like(a)
    for mask in masks:
        mass = q[mask] * np.exp(a[mask] - a[mask].max())
        p[mask] = mass / (mass.sum() * len(masks))
    return p


def _counted(log_weights: Any, sample_weight: Any, groups: Any) -> tuple[Reals, Reals, list[Mask]]:
    """Return floats (longdouble if they were), sample weights, and the rows of each class that count.

    Rows of sample weight 0 do not count, not even as the largest.
    """
    a = np.asarray(log_weights)
    a = a if a.dtype == np.longdouble else a.astype(np.float64)
    q = np.ones_like(a) if sample_weight is None else np.asarray(sample_weight, dtype=a.dtype)
    return a, q, [mask & (q > 0.0) for mask in classes_of(a.size, groups)]


def log_sum_exp(log_weights: Any, sample_weight: Any = None, groups: Any = None) -> Any:
    r"""Return :math:`\log \sum_i q_i e^{a_i}`, the mean over groups.

    Examples
    --------
    >>> bool(log_sum_exp([1e5, 1e5]) == 1e5 + np.log(2.0))
    True
    """
    a, q, masks = _counted(log_weights, sample_weight, groups)
    tops = [a[mask].max() + np.log((q[mask] * np.exp(a[mask] - a[mask].max())).sum()) for mask in masks]
    return sum(tops) / len(tops)


def renyi_entropy(log_weights: Any, order: float = 1.0, sample_weight: Any = None, groups: Any = None) -> Any:
    r"""Return the Rényi entropy of the dual weights, Shannon's for order 1.

    .. math::

        H_r(p) = \frac{1}{1 - r} \log \sum_i p_i^r, \qquad H_1 = -\sum_i p_i \log p_i, \qquad
        H_\infty = -\log \max_i p_i

    With sample weights q it is :math:`-D_r(p \| q) = \frac{1}{1 - r} \log \sum_i q_i (p_i / q_i)^r`.

    Parameters
    ----------
    log_weights : array of shape (n,), -Zw for the weights at w.
    order : float, positive; infinity for the entropy of the largest weight.
    sample_weight, groups : arrays of shape (n,), optional

    Examples
    --------
    >>> uniform = np.zeros(8)
    >>> [round(float(renyi_entropy(uniform, r) / np.log(2.0)), 12) for r in (0.5, 1.0, 8.0, np.inf)]
    [3.0, 3.0, 3.0, 3.0]
    >>> bool(renyi_entropy([0.0, 1.0], 2.0) > renyi_entropy([0.0, 1.0], 8.0))
    True
    """
    if not order > 0.0:
        raise ValueError(f"The order of an entropy must be positive; got {order!r}.")
    a, q, masks = _counted(log_weights, sample_weight, groups)
    return sum(_entropy(a[mask], order, q[mask]) for mask in masks) / len(masks)


def _entropy(a: Reals, order: float, q: Reals) -> Any:
    below = a - a.max()
    mass = q * np.exp(below)
    total = mass.sum()
    if order == 1.0:
        return np.log(total) - (mass * below).sum() / total
    if math.isinf(order):
        return np.log(total)
    if abs(order - 1.0) < NEAR_ONE:  # a logarithm of nearly 1 is divided by nearly 0
        moved = mass / total * np.expm1((order - 1.0) * (below - np.log(total)))
        return np.log1p(moved.sum()) / (1.0 - order)
    # sum q (p/q)^r = sum q e^(r below) / total^r: only ratios to the largest weight are formed.
    return (np.log((q * np.exp(order * below)).sum()) - order * np.log(total)) / (1.0 - order)


def entropy_excess(log_weights: Any, sample_weight: Any = None, groups: Any = None) -> Any:
    r"""Return :math:`\Delta = H_1 - H_\infty`, by which the mean margin exceeds the smallest.

    .. math:: \Delta = \sum_i p_i (\max_j a_j - a_i) = \langle w, Z^\top p \rangle - \min_i \langle w, z_i
        \rangle \qquad (a = -Zw)

    Summed as it stands on the right, nothing cancels (E8 of docs/note/note.md).

    Parameters
    ----------
    log_weights : array of shape (n,)
    sample_weight, groups : arrays of shape (n,), optional

    Examples
    --------
    >>> a = np.array([0.0, -1.0, -4.0])
    >>> bool(abs(entropy_excess(a) - (renyi_entropy(a) - renyi_entropy(a, np.inf))) < 1e-15)
    True
    """
    a, _, masks = _counted(log_weights, sample_weight, groups)
    p = softmax_weights(a, sample_weight, groups)
    return sum((p[mask] * (a[mask].max() - a[mask])).sum() for mask in masks)


def entropy_excess_bound(n: int, sample_weight: Any = None, groups: Any = None) -> float:
    r"""Return the largest Delta of n rows, attained by one row of weight 1 and n - 1 equal others.

    .. math:: \Delta \le W\!\left(\frac{n - 1}{e}\right) < \log n, \qquad
        \Delta \le W\!\left(\frac{Q - q_{\min}}{e\, q_{\min}}\right), \quad Q = \sum_i q_i

    W is Lambert's function. It is attained where the others' margins are larger by :math:`1 + \Delta` (E8 of
    docs/note/note.md). With groups it is the mean of the groups' bounds.

    Parameters
    ----------
    n : int, the number of rows.
    sample_weight : array of shape (n,), optional, positive.
    groups : array of shape (n,), optional

    Examples
    --------
    >>> bound = entropy_excess_bound(5)
    >>> margins = np.array([0.0, *[1.0 + bound] * 4])
    >>> round(bound, 6), round(float(entropy_excess(-margins)), 6), round(math.log(5.0), 6)
    (0.717825, 0.717825, 1.609438)
    """
    from scipy.special import lambertw

    check_integer("n", n, minimum=1)
    q = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if q.shape != (n,) or not (q > 0.0).all():
        raise ValueError(f"Expected {n} positive sample weights; got {q.shape} of minimum {q.min():.3g}.")
    found = []
    for mask in classes_of(n, groups):
        others = (q[mask].sum() - q[mask].min()) / q[mask].min()
        found.append(float(lambertw(others / math.e).real))
    return sum(found) / len(found)


NEAR = 1e-4  # a step that moves margins apart by less than this is in the region of quadratic convergence
PATIENCE = 3  # steps in a row that do not halve the last one, after which rounding is reached
LIGHT = 1e-34  # rows of smaller weight change the Hessian by less than the rounding of its square root


def minimise_soft_loss(
    Z: Array, lam: float, start: Reals, *, form: Array | None = None, groups: Any = None
) -> Reals:
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
    ndarray of shape (d,), longdouble

    Examples
    --------
    >>> Z = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
    >>> minimise_soft_loss(Z, 1e-9, np.zeros(2)).astype(float).round(4).tolist()  # 1 / lam, log(2) / 2
    [1000000000.0, 0.3466]
    """
    x: Reals = np.asarray(start)
    for dtype in (np.float64, np.longdouble):
        x = _descend(Z.astype(dtype), lam, x.astype(dtype), form, groups)
    return x


def _descend(Z: Any, lam: float, x: Any, form: Array | None, groups: Any, max_steps: int = 300) -> Reals:
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
                return np.asarray(best)
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
    return np.asarray(best)


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
