"""The reference max-margin solution: the direction, the margin, the dual weights and the support."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.errors import NotSeparableError
from prgd.rows.base import read_labels
from prgd.theory.minimum_norm import ROUNDING, least_norm_in_hull, refined

# a row is a support vector when its margin is within this share of gamma_star, or within rounding
SUPPORT_SHARE = 1e-9


class KKT(NamedTuple):
    """How far each optimality condition is from holding exactly, relative to gamma_star."""

    stationarity: float  # ||gamma_star w_star - Z^T alpha||
    primal: float  # max(0, gamma_star - min_i <w_star, z_i>)
    dual: float  # max(0, -min alpha), and |sum alpha - 1|
    complementarity: float  # max_i alpha_i (<w_star, z_i> - gamma_star)


@dataclass(frozen=True, eq=False)
class Reference:
    """The max-margin solution of `max_margin_reference`.

    Attributes
    ----------
    w_star : ndarray of shape (d,)
        The direction of largest margin, of norm 1.
    gamma_star : float
        That margin, in the units of Z.
    alpha : ndarray of shape (n,)
        Dual weights, not negative, of sum 1, with ``gamma_star w_star = Z.T @ alpha``. One of many where
        they are not unique; zero off the support.
    support : ndarray of int
        The rows whose margin is within ``support_tol`` of gamma_star, in order: the paper's I.
    support_tol : float
        In the units of Z.
    gamma_sub : float
        The smallest margin ``<w_star, z_i>`` off the support; infinite where all rows support.
    kkt : KKT
        Residuals of the optimality conditions.
    gap : float
        ``(||Z^T alpha|| - min_i <w_star, z_i>) / gamma_star``: the primal-dual gap, in extended precision.
    """

    w_star: Array
    gamma_star: float
    alpha: Array
    support: npt.NDArray[np.intp]
    support_tol: float
    gamma_sub: float
    kkt: KKT
    gap: float

    def __repr__(self) -> str:
        return (
            f"Reference(gamma_star={self.gamma_star:.9g}, {self.support.size} support vectors, "
            f"gap={self.gap:.1e})"
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
    return Z * read_labels(y, len(Z))[0][:, None]


def max_margin_reference(data: Any) -> Reference:
    r"""Return the max-margin direction, exact to rounding, with its dual weights and support.

    .. math::

        \gamma^\star = \max_{\|w\| = 1} \min_i \langle w, z_i \rangle
                     = \min_{\alpha \ge 0, \sum_i \alpha_i = 1} \|Z^\top \alpha\|

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y) or Dataset
        For small and medium problems: the rows are held dense, and the cost grows with the cube of the
        number of support vectors.

    Returns
    -------
    Reference

    Raises
    ------
    NotSeparableError
        When no direction has a positive margin; ``weights`` are Gordan's, p >= 0 of sum 1 with
        ``Z.T @ p = 0``.

    Notes
    -----
    The paper scales its alpha so that ``w_star = sum alpha_i z_i``, of sum ``1 / gamma_star``; these have
    sum 1.

    References
    ----------
    Section 3 (definition of w_star and gamma_star) and Assumption 5.4 of the paper.

    Examples
    --------
    >>> reference = max_margin_reference([[2.0, 1.0], [2.0, -1.0], [3.0, 0.0]])
    >>> reference.gamma_star, reference.alpha.round(15).tolist(), reference.gamma_sub
    (2.0, [0.5, 0.5, 0.0], 3.0)
    """
    Z = signed_rows(data)
    longest = float(np.linalg.norm(Z, axis=1).max())
    if longest == 0.0:
        raise _not_separable(np.full(len(Z), 1.0 / len(Z)), 0.0)
    # a power of two: dividing by it rounds nothing, and small margins feel every rounding of the rows
    scale = 2.0 ** math.frexp(longest)[1]
    Z = Z / scale
    active = least_norm_in_hull(Z)
    alpha = np.zeros(len(Z))
    alpha[active.rows] = active.weights
    upper = float(np.linalg.norm(Z.T @ alpha))
    if upper <= ROUNDING:
        raise _not_separable(alpha, upper * scale / longest)
    best = _measured(Z, Z.T @ alpha, alpha)
    w, a = refined(Z, active.rows)
    # refinement needs rows that are independent to rounding, and then it wins
    if np.isfinite(w).all() and (a > 0.0).all():
        weights = np.zeros(len(Z))
        weights[active.rows] = (a / a.sum()).astype(np.float64)
        best = min(_measured(Z, w.astype(np.float64), weights), best, key=lambda found: found.gap)
    if best.gap >= 1.0:
        raise _not_separable(best.alpha, upper * scale / longest)
    return Reference(
        best.w_star,
        best.gamma_star * scale,
        best.alpha,
        best.support,
        best.support_tol * scale,
        best.gamma_sub * scale,
        best.kkt,
        best.gap,
    )


def _not_separable(weights: Array, upper: float) -> NotSeparableError:
    return NotSeparableError(
        f"No direction separates the classes, to rounding: no margin exceeds {upper:.2g} of the largest row "
        "norm. The weights of this error prove it (Gordan): they average the rows to zero.",
        weights,
    )


def _measured(Z: Array, w: Array, alpha: Array) -> Reference:
    """Return the solution with its residuals, all measured in extended precision."""
    long_Z, long_alpha = Z.astype(np.longdouble), alpha.astype(np.longdouble)
    w_star = w / np.linalg.norm(w)
    direction = w_star.astype(np.longdouble)
    margins = (long_Z @ direction) / np.sqrt(direction @ direction)
    dual = long_Z.T @ long_alpha
    lower, upper = float(margins.min()), float(np.sqrt(dual @ dual) / long_alpha.sum())
    gamma_star = 0.5 * (lower + upper)
    support_tol = max(SUPPORT_SHARE * gamma_star, ROUNDING)
    off = margins > gamma_star + support_tol
    size = abs(gamma_star)
    kkt = KKT(
        float(np.linalg.norm((gamma_star * direction - dual).astype(np.float64))) / size,
        max(0.0, gamma_star - lower) / size,
        max(0.0, -float(alpha.min()), abs(float(long_alpha.sum()) - 1.0)),
        float(np.max(alpha * np.abs(margins - gamma_star))) / size,
    )
    gamma_sub = float(margins[off].min()) if off.any() else math.inf
    return Reference(
        w_star, gamma_star, alpha, np.flatnonzero(~off), support_tol, gamma_sub, kkt, (upper - lower) / size
    )
