r"""The squared-hinge soft margin over a Gram matrix, by Newton's method: :math:`w = \sum_i \beta_i x_i`.

.. math:: F(\beta, b) = \tfrac12 \beta^\top G \beta
    + \tfrac12 c \sum_i \max(0, 1 - y_i ((G \beta)_i + b))^2

On the rows with a margin below 1 (the active rows, S) F is a quadratic function, whose minimum solves
:math:`(G_{SS} + I / c) \beta_S + b = y_S` with coefficients of sum 0, and no others. A step goes there as
long as fewer rows change sides with each step; else an exact line search towards it follows, as in
`prgd.solvers.primal_newton`, by which F falls. One Gram matrix serves all label sets, and so does the inverse
P of ``G + I / c``. With N for the other rows, :math:`(G_{SS} + I / c)^{-1} = P_{SS} - P_{SN} P_{NN}^{-1}
P_{NS}`: a system costs the cube of the smaller set.
"""

from typing import NamedTuple

import numpy as np

from prgd.core.arithmetic import add_to_diagonal
from prgd.core.types import Array, Indices, Mask
from prgd.proofs.slacks import exact_step
from prgd.solvers.linear_systems import definite_solver

_MAX_STEPS = 60


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
        n, used = y.size, np.ones(y.size, bool) if is_used is None else is_used
        at = at or GramIterate(np.zeros(n), 0.0, np.zeros(n))
        right, fewest, last = np.stack([y, np.ones(n)], axis=1), n, np.inf
        solved = None if self.inverse is None else self.inverse @ right

        def active(now: GramIterate) -> Mask:
            return np.asarray((y * (now.products + now.b) < 1.0) & used)

        for _ in range(_MAX_STEPS):
            is_active = active(at)
            goal = self._minimum(np.flatnonzero(is_active), right, solved, fit_intercept)
            changed = int(np.count_nonzero(active(goal) != is_active))
            is_whole = changed < fewest
            at, fewest = goal if is_whole else self._towards(at, goal, y, used), min(fewest, changed)
            slacks = np.maximum(1.0 - y * (at.products + at.b), 0.0) * used
            now = 0.5 * float(at.beta @ at.products + self.c * (slacks @ slacks))
            is_still = abs(last - now) <= tol * now if is_whole else not now < last * (1.0 - tol)
            if not changed or is_still:
                break
            last = now
        return at

    def _towards(self, at: GramIterate, goal: GramIterate, y: Array, used: Mask) -> GramIterate:
        """Return the point of smallest F on the line to a goal."""
        change, moved, shift = goal.beta - at.beta, goal.products - at.products, goal.b - at.b
        linear, square = float(at.beta @ moved), float(change @ moved)
        margins, slopes = y * (at.products + at.b), y * (moved + shift)
        size = exact_step(margins, slopes, self.c * used.astype(np.float64), linear, square, 1.0)
        return GramIterate(at.beta + size * change, at.b + size * shift, at.products + size * moved)

    def _minimum(self, face: Indices, right: Array, solved: Array | None, fit_intercept: bool) -> GramIterate:
        """Return the minimum of the quadratic function of these active rows, for the columns y and 1."""
        n, is_shared = len(right), solved is not None and 2 * face.size >= len(right)
        beta, products, b = np.zeros((n, 2)), right.copy(), 0.0
        if solved is None or not is_shared:
            H = self.G[np.ix_(face, face)]
            add_to_diagonal(H, 1.0 / self.c)
            beta[face] = definite_solver(H)(right[face]) if face.size else 0.0
        elif self.inverse is not None:
            rest = np.setdiff1d(np.arange(n), face, assume_unique=True)
            rows = self.inverse[rest]
            products[rest] -= definite_solver(rows[:, rest])(solved[rest]) if rest.size else 0.0
            beta[face] = solved[face] + rows[:, face].T @ (products[rest] - right[rest])
        if fit_intercept and face.size:
            b = float(beta[:, 0].sum() / beta[:, 1].sum())
        weights = np.array([1.0, -b])
        beta, products = beta @ weights, products @ weights
        return GramIterate(beta, b, products - beta / self.c if is_shared else self.G @ beta)
