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

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array
from prgd.proofs.gram_matrices import disjoint_columns, gram, gram_factor, times_weights
from prgd.solvers.interior_point import linearised, reach
from prgd.solvers.linear_systems import Columns, Solver, conjugate_gradients, shifted_solver

_MAX_STEPS = 60
_STEP_FRACTION = 0.95  # fraction of the step to the boundary that is taken
_MIN_STEP = 1e-3  # shorter steps mean that rounding has stopped the progress
_MIN_CENTERING = 1e-4  # smallest fraction of the complementarity that a step keeps
_LAST_COMPLEMENTARITY = 1e-14  # mean of p_i s_i at which the path ends
_MAX_DENSE = 3000  # columns of a sparse system that are left to factorise as a dense matrix
_SHIFTS = (1e-13, 1e-10)  # fractions of the largest diagonal entry that make a sparse system definite
_RESIDUAL = 1e-9  # relative residual at which conjugate gradients end
_MAX_GRADIENTS = 500  # their steps, at most


class SelfDualPoint(NamedTuple):
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


def self_dual_path(Z: Any) -> Iterator[SelfDualPoint]:
    """Yield points towards a strictly complementary solution, until rounding ends the progress.

    Parameters
    ----------
    Z : ndarray or CSR array of shape (n, d)
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
        yield SelfDualPoint(np.zeros(0), np.zeros(n), np.full(n, _LAST_COMPLEMENTARITY), np.ones(n))
        return
    point: SelfDualPoint | None = SelfDualPoint(np.zeros(d), np.zeros(n), np.ones(n), np.ones(n))
    for _ in range(_MAX_STEPS):
        if point is None or float(point.p @ point.s) <= n * _LAST_COMPLEMENTARITY:
            return
        # Rounding may end in numbers beyond the floating range, after which there is no next point.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            point = _next_point(Z, point)
        if point is not None:
            yield point


def _next_point(Z: Any, point: SelfDualPoint) -> SelfDualPoint | None:
    """Take one step of Mehrotra's predictor and corrector; None if rounding does not allow one."""
    v, margins, s, p = point
    try:
        move = linearised(_Homogeneous(Z, 1.0), s, p, margins - s, Z.T @ p)
    except np.linalg.LinAlgError:  # no shift makes the system definite
        return None
    # The predictor aims at p s = 0; how far its step reaches says how much of p s the corrector keeps.
    _, _, ds, dp = move(0.0, 0.0)
    centering = max((1.0 - _step_to_boundary(point, ds, dp)) ** 3, _MIN_CENTERING)
    # Both residuals are reduced to the same fraction as p s.
    dv, _, ds, dp = move(centering * float(p @ s) / s.size, ds * dp, 1.0 - centering)
    step = _STEP_FRACTION * _step_to_boundary(point, ds, dp)
    v, s, p = v + step * dv, s + step * ds, p + step * dp
    margins = Z @ v
    is_finite = np.isfinite(margins).all() and np.isfinite(p).all() and np.isfinite(s).all()
    return SelfDualPoint(v, margins, s, p) if step >= _MIN_STEP and is_finite else None


class _Homogeneous(Columns):
    """Directions without a length to minimise; columns may be dependent."""

    def solver(self, D: Array) -> Solver:
        """Factorise ``Z^T D Z``."""
        H = gram(times_weights(self.Z, np.sqrt(D)))
        return shifted_solver(H, first=1) if isinstance(H, np.ndarray) else _sparse_solver(H)


def _sparse_solver(H: Any) -> Solver:
    """Factorise a sparse matrix if what is left of it is small, else solve by conjugate gradients."""
    first, diagonal = disjoint_columns(H), H.diagonal()
    if len(diagonal) - first.size <= _MAX_DENSE:
        for shift in _SHIFTS:
            factor = gram_factor(H, first, shift * diagonal.max())
            if factor is not None:
                return factor.solve
    scale = 1.0 / np.where(diagonal > 0.0, diagonal, 1.0)

    def by_gradients(b: Array) -> Array:
        end, start = _RESIDUAL**2 * float(b @ (scale * b)), np.zeros_like(b)
        has_ended = lambda _, __, square: square <= end  # noqa: E731
        return conjugate_gradients(H.dot, start, b, has_ended, _MAX_GRADIENTS, scale.__mul__)[0]

    return by_gradients


def _step_to_boundary(point: SelfDualPoint, ds: Array, dp: Array) -> float:
    return min(float(reach(point.s, ds)), float(reach(point.p, dp)))
