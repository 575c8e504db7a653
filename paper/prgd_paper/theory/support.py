"""The reference max-margin solution: the direction, the margin, the dual weights and the support."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.errors import NotSeparableError
from prgd.core.types import Array
from prgd.maxmargin import max_margin
from prgd.problem import Problem
from prgd.problem.accurate_bounds import accurate_lower, accurate_upper
from prgd.problem.certificate import Certificate, DualWeights
from prgd.rows.labels import Labels

EPS = float(np.finfo(np.float64).eps)
# A margin is a sum of products, so it is known to a few units in the last place of the largest row.
ROUNDING = 64.0 * EPS
ZERO_WEIGHT = 1e-13  # weights have sum 1: a smaller one is what the solver left of zero
TOL = 1e-14  # relative gap that the solver is asked for: a smaller one is below rounding on many sets
LongArray = npt.NDArray[np.longdouble]
# A row is a support vector if its margin is within this fraction of gamma_star, or within rounding.
SUPPORT_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class Reference:
    """The max-margin solution of `max_margin_reference`.

    Attributes
    ----------
    certificate : Certificate
        Both bounds on the margin, rounded outward, in the units of Z.
    w_star : ndarray of shape (d,)
        The direction of largest margin, of norm 1.
    dual_weights : ndarray of shape (n,)
        Weights p >= 0 of sum 1 with ``gamma_star w_star = Z.T @ p``, one of many if they are not unique;
        zero off the support. (The paper's alpha has sum ``1 / gamma_star``.)
    support : ndarray of int
        The rows whose margin is within ``support_tol`` of gamma_star, in order: the paper's I.
    support_tol : float
        In the units of Z.
    gamma_sub : float
        The smallest margin ``<w_star, z_i>`` off the support; infinite if every row supports.
    """

    certificate: Certificate
    w_star: Array
    dual_weights: Array
    support: npt.NDArray[np.intp]
    support_tol: float
    gamma_sub: float

    @property
    def gamma_star(self) -> float:
        """The largest margin, in the units of Z: the middle of the certified interval."""
        return 0.5 * (self.certificate.lower + self.certificate.upper)

    def __repr__(self) -> str:
        return (
            f"Reference(gamma_star={self.gamma_star:.9g}, {self.support.size} support vectors, "
            f"gap={self.certificate.gap:.1e})"
        )


def signed_rows(data: Any) -> Array:
    """Return the rows ``z_i = y_i x_i`` of a Dataset, a pair (X, y) or an array Z, dense in float64.

    Examples
    --------
    >>> signed_rows(([[1.0, 2.0], [3.0, 4.0]], ["no", "yes"]))
    array([[-1., -2.],
           [ 3.,  4.]])
    """
    from prgd.datasets import Dataset

    is_pair = isinstance(data, Dataset) or (isinstance(data, tuple) and len(data) == 2)
    X, y = data if is_pair else (data, None)
    Z = np.array(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    if Z.ndim != 2 or Z.size == 0:
        raise ValueError(f"Expected rows of shape (n, d) with n, d >= 1; got shape {Z.shape}.")
    if not np.isfinite(Z).all():
        raise ValueError("The rows must be finite; there is a NaN or infinite entry.")
    labels = Labels.read(y, None, len(Z))
    labels.check_two()
    return Z * labels.signs[:, None]


def max_margin_reference(data: Any) -> Reference:
    r"""Return the max-margin direction, exact to rounding, with its dual weights and support.

    .. math::

        \gamma^\star = \max_{\|w\| = 1} \min_i \langle w, z_i \rangle
                     = \min_{\alpha \ge 0, \sum_i \alpha_i = 1} \|Z^\top \alpha\|

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y) or Dataset
        For small and medium problems: the rows are held dense.

    Returns
    -------
    Reference

    Raises
    ------
    NotSeparableError
        When no direction has a positive margin; ``weights`` are Gordan's, p >= 0 of sum 1 with
        ``Z.T @ p = 0``.

    References
    ----------
    Section 3 (definition of w_star and gamma_star) and Assumption 5.4 of the paper.

    Examples
    --------
    >>> reference = max_margin_reference([[2.0, 1.0], [2.0, -1.0], [3.0, 0.0]])
    >>> round(reference.gamma_star, 12), reference.dual_weights.round(15).tolist(), reference.gamma_sub
    (2.0, [0.5, 0.5, 0.0], 3.0)
    """
    Z = signed_rows(data)
    norms = np.linalg.norm(Z, axis=1)
    longest = float(norms.max())
    if norms.min() == 0.0:
        raise _not_separable((np.arange(len(Z)) == norms.argmin()).astype(np.float64), 0.0)
    # The scale is a power of two: dividing by it rounds nothing, and small margins feel every rounding.
    scale = 2.0 ** math.frexp(longest)[1]
    Z = Z / scale
    solved = max_margin(Z, fit_intercept=False, tol=TOL, n_jobs=1)
    weights = solved.certificate.dual_weights
    p = np.full(len(Z), 1.0 / len(Z)) if weights is None else weights.dense(len(Z))
    upper = float(np.linalg.norm(Z.T @ p))
    if upper <= ROUNDING:
        raise _not_separable(p, upper * scale / longest)
    p = np.where(p > ZERO_WEIGHT, p, 0.0)
    p /= p.sum()
    active = np.flatnonzero(p)
    w, a = refined(Z, active)
    candidates = []
    # Refinement needs rows that are independent to rounding, and then its interval is the shorter one.
    if np.isfinite(w).all() and (a > 0.0).all():
        fine = np.zeros(len(Z))
        fine[active] = (a / a.sum()).astype(np.float64)
        candidates.append(_measured(Z, w.astype(np.float64), fine, scale))
    if not candidates or candidates[0].certificate.gap > TOL:
        candidates.append(_measured(Z, solved.w, p, scale))
    best = min(candidates, key=lambda found: found.certificate.upper - found.certificate.lower)
    # Bounds that differ by a factor of 3 or more are rounding: no direction has a positive margin.
    if best.certificate.cosine <= 1.0 / 3.0:
        raise _not_separable(best.dual_weights, upper * scale / longest)
    return best


def _not_separable(weights: Array, upper: float) -> NotSeparableError:
    return NotSeparableError(
        f"No direction separates the classes, to rounding: no margin exceeds {upper:.2g} of the largest row "
        "norm. The weights of this error prove it (Gordan): they average the rows to zero.",
        weights,
    )


def _measured(Z: Array, w: Array, p: Array, scale: float) -> Reference:
    """Return the solution with both its bounds, proven on the rows in units of ``scale``."""
    w_star = w / np.linalg.norm(w)
    direction = w_star.astype(np.longdouble)
    margins = (Z.astype(np.longdouble) @ direction) / np.sqrt(direction @ direction)
    problem, indices = Problem(Z, scale="none"), np.flatnonzero(p)
    certificate = Certificate().with_lower(*accurate_lower(problem, w_star, 0.0))
    weights = DualWeights(indices, p[indices])
    certificate = certificate.with_upper(accurate_upper(problem, weights), weights)
    lower, upper = certificate.lower, certificate.upper
    gamma_star = 0.5 * (lower + upper)
    support_tol = max(SUPPORT_SHARE * gamma_star, ROUNDING)
    off = margins > gamma_star + support_tol
    gamma_sub = float(margins[off].min()) if off.any() else math.inf
    return Reference(
        replace(certificate, lower=lower * scale, upper=upper * scale),
        w_star,
        p,
        np.flatnonzero(~off),
        support_tol * scale,
        gamma_sub * scale,
    )


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
        w, last = w + (Q @ (step - within) + outside).astype(np.longdouble), w
        a = a + solve_triangular(R, step - within).astype(np.longdouble)
        if (w == last).all():
            break
    return w, a
