r"""Interior point of the self-dual problem whose solutions split rows into separated and boundary ones.

Some ``p >= 0`` and v satisfy ``Z^T p = 0``, ``s = Z v >= 0``, ``p s = 0`` and ``p + s > 0`` (Goldman and
Tucker): every row has either a positive weight or a positive margin. For each theta in (0, 1] the conditions

.. math:: s = Z v + \theta 1, \qquad Z^\top p = \theta Z^\top 1, \qquad p_i s_i = \theta,

have one solution with p and s positive. It is bounded, ``sum(p + s) = n (1 + theta)``, converges to such a
p and v as theta goes to 0, and is ``v = 0``, ``p = s = 1`` at theta = 1. Mehrotra's predictor and corrector
follow this path in 5 to 30 steps, each a product ``Z^T D Z`` and a factorisation in d dimensions.

References
----------
A. J. Goldman and A. W. Tucker (1956). Theory of linear programming.
Y. Ye, M. J. Todd, S. Mizuno (1994). An O(sqrt(n) L)-iteration homogeneous and self-dual linear programming
algorithm. Math. Oper. Res. 19(1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from prgd.core.types import Array
from prgd.solvers.interior_point import reach
from prgd.solvers.linear_systems import shifted_solver

_MAX_STEPS = 60
_STEP_FRACTION = 0.95  # fraction of the step to the boundary that is taken
_MIN_STEP = 1e-3  # shorter steps mean that rounding has stopped the progress
_MIN_CENTERING = 1e-4  # smallest fraction of the complementarity that a step keeps
_LAST_COMPLEMENTARITY = 1e-14  # mean of p_i s_i at which the path ends
_BLOCK_ENTRIES = 2**20  # entries of the block of weighted rows that is held at a time


class PathPoint(NamedTuple):
    """A point of the path: direction, margins, slacks and weights, all rounded like any float64 sum.

    Attributes
    ----------
    v : ndarray of shape (d,)
    margins : ndarray of shape (n,), the products ``Z v``.
    s : ndarray of shape (n,), positive; it exceeds the margins by about theta.
    p : ndarray of shape (n,), positive
    """

    v: Array
    margins: Array
    s: Array
    p: Array


def self_dual_path(Z: Array) -> Iterator[PathPoint]:
    """Yield points towards a strictly complementary solution, until rounding ends the progress.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Rows of norms near 1; zero columns and dependent columns are allowed.

    Examples
    --------
    The first two rows cancel, the third is separated from them:

    >>> *_, last = self_dual_path(np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 1.0]]))
    >>> last.p > last.s
    array([ True,  True, False])
    """
    n, d = Z.shape
    if d == 0:  # rows of zeros: all balance, and none is separated
        yield PathPoint(np.zeros(0), np.zeros(n), np.full(n, _LAST_COMPLEMENTARITY), np.ones(n))
        return
    point: PathPoint | None = PathPoint(np.zeros(d), np.zeros(n), np.ones(n), np.ones(n))
    for _ in range(_MAX_STEPS):
        if point is None or float(point.p @ point.s) <= n * _LAST_COMPLEMENTARITY:
            return
        # Rounding may end in numbers beyond the floating range, after which there is no next point.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            point = _next_point(Z, point)
        if point is not None:
            yield point


def _next_point(Z: Array, point: PathPoint) -> PathPoint | None:
    """Take one step of Mehrotra's predictor and corrector; None if rounding does not allow one."""
    v, margins, s, p = point
    move = _linearised_conditions(Z, margins, s, p)
    if move is None:
        return None
    # The predictor aims at p s = 0; how far its step reaches says how much of p s the corrector keeps.
    _, ds, dp = move(0.0, np.zeros(s.size))
    centering = max((1.0 - _step_to_boundary(point, ds, dp)) ** 3, _MIN_CENTERING)
    dv, ds, dp = move(centering, ds * dp)
    step = _STEP_FRACTION * _step_to_boundary(point, ds, dp)
    v, s, p = v + step * dv, s + step * ds, p + step * dp
    margins = Z @ v
    is_finite = np.isfinite(margins).all() and np.isfinite(p).all() and np.isfinite(s).all()
    return PathPoint(v, margins, s, p) if step >= _MIN_STEP and is_finite else None


def _linearised_conditions(
    Z: Array, margins: Array, s: Array, p: Array
) -> Callable[[float, Array], tuple[Array, Array, Array]] | None:
    """Linearise the three conditions of the path at a point; None if no shift makes the system definite.

    Returns
    -------
    callable
        ``move(centering, second_order)`` returns the changes of v, s and p that reduce ``p s`` and both
        residuals to the same fraction ``centering``, if the second-order terms are as given.
    """
    ratio, mu = p / s, float(p @ s) / s.size
    try:  # columns may be dependent
        solve = shifted_solver(_weighted_gram(Z, ratio), first=1)
    except np.linalg.LinAlgError:
        return None
    slack_residual, dual_residual = margins - s, Z.T @ p

    def move(centering: float, second_order: Array) -> tuple[Array, Array, Array]:
        right, kept = (centering * mu - second_order) / s - p, 1.0 - centering
        dv = solve(Z.T @ (right - ratio * (kept * slack_residual)) + kept * dual_residual)
        ds = Z @ dv + kept * slack_residual
        return dv, ds, right - ratio * ds

    return move


def _step_to_boundary(point: PathPoint, ds: Array, dp: Array) -> float:
    return min(float(reach(point.s, ds)), float(reach(point.p, dp)))


def _weighted_gram(Z: Array, weights: Array) -> Array:
    """Return ``Z^T diag(weights) Z``, summed over blocks of rows."""
    n, d = Z.shape
    step = max(1, _BLOCK_ENTRIES // d)
    H, roots = np.zeros((d, d)), np.sqrt(weights)
    for k in range(0, n, step):
        block = Z[k : k + step] * roots[k : k + step, None]
        H += block.T @ block
    return H
