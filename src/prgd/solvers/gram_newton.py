r"""The squared-hinge soft margin over a Gram matrix, by Newton's method: :math:`w = \sum_i \beta_i x_i`.

.. math:: F(\beta, b) = \tfrac12 \beta^\top G \beta
    + \tfrac12 c \sum_i \max(0, 1 - y_i ((G \beta)_i + b))^2

On the rows with a margin below 1 (the active rows, S) F is a quadratic function, whose minimum solves
:math:`(G_{SS} + I / c) \beta_S + b = y_S` with coefficients of sum 0, and no others. The step to it is
followed by an exact line search, as in `prgd.solvers.primal_newton`. One Gram matrix serves all label sets,
and so does the inverse P of ``G + I / c``. With N for the other rows,
:math:`(G_{SS} + I / c)^{-1} = P_{SS} - P_{SN} P_{NN}^{-1} P_{NS}`: a system costs the cube of
the smaller set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prgd.core.arithmetic import add_to_diagonal
from prgd.core.types import Array, Indices, Mask
from prgd.proofs.slacks import exact_step
from prgd.solvers.linear_systems import definite_solver

_MAX_STEPS = 60
_WHOLE = 1e-9  # a step that differs from 1 by less goes all the way


class GramIterate(NamedTuple):
    """Coefficients beta of the rows, the intercept b, and the products ``G beta``."""

    beta: Array
    b: float
    products: Array


class GramNewton:
    """Newton's method at one price.

    Parameters
    ----------
    G : ndarray of shape (n, n)
        The products of the rows.
    c : float
        The price of squared slacks.
    is_shared : bool
        Many label sets follow, which are worth an inverse of ``G + I / c``.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1.0, 1.0, -1.0, 1.0])
    >>> found = GramNewton(X @ X.T, 1.0).minimise(y, True)
    >>> (found.beta @ X).round(6), round(found.b, 6)
    (array([0.333333]), -0.5)
    """

    def __init__(self, G: Array, c: float, is_shared: bool = False) -> None:
        self.G, self.c = G, c
        self.inverse: Array | None = None
        if is_shared:
            H = G.copy()
            add_to_diagonal(H, 1.0 / c)
            self.inverse = np.ascontiguousarray(definite_solver(H)(np.eye(len(G), order="F")))

    def minimise(
        self,
        y: Array,
        fit_intercept: bool,
        is_used: Mask | None = None,
        at: GramIterate | None = None,
        tol: float = 0.0,
    ) -> GramIterate:
        """Return the minimum for labels y of +1 and -1 over the rows that are used, by default all.

        ``at`` is where to start, e.g. the minimum at another price. With ``tol`` the steps end once F falls
        by less than this fraction of it; else once the active rows are those of the solution.
        """
        n, c = y.size, self.c
        beta, b, products = at or GramIterate(np.zeros(n), 0.0, np.zeros(n))
        price, last = np.full(n, c) if is_used is None else c * is_used.astype(np.float64), np.inf
        for _ in range(_MAX_STEPS):
            margins = y * (products + b)
            is_active = (margins < 1.0) & (price > 0.0)
            face = np.flatnonzero(is_active)
            target, b_target = np.zeros(n), 0.0
            if face.size:
                own, constant = self._solve(face, np.stack([y[face], np.ones(face.size)], axis=1)).T
                b_target = float(own.sum() / constant.sum()) if fit_intercept else 0.0
                target[face] = own - b_target * constant
            change, shift = target - beta, b_target - b
            moved = self.G @ target - products
            linear, square = float(beta @ moved), float(change @ moved)
            size = exact_step(margins, y * (moved + shift), price, linear, square, 1.0)
            beta, b, products = beta + size * change, b + size * shift, products + size * moved
            slacks = np.maximum(1.0 - y * (products + b), 0.0)
            now = 0.5 * float(beta @ products) + 0.5 * float(price @ slacks**2)
            is_same = abs(size - 1.0) <= _WHOLE and bool(((slacks * price > 0.0) == is_active).all())
            if is_same or not now < last * (1.0 - tol):
                break
            last = now
        return GramIterate(beta, b, products)

    def _solve(self, face: Indices, right: Array) -> Array:
        """Solve the system of the rows of a face, for columns on the right."""
        if self.inverse is None or 2 * face.size < len(self.G):
            H = self.G[np.ix_(face, face)]
            add_to_diagonal(H, 1.0 / self.c)
            return np.asarray(definite_solver(H)(right))
        whole = np.zeros((len(self.G), right.shape[1]))
        whole[face] = right
        rest = np.setdiff1d(np.arange(len(self.G)), face, assume_unique=True)
        found = self.inverse @ whole
        if rest.size:
            whole[rest] = -definite_solver(self.inverse[np.ix_(rest, rest)])(found[rest])
            found = self.inverse @ whole
        return np.asarray(found[face])
