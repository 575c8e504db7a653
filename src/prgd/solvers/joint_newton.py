r"""The joint soft margin of K classes by Newton's method on its primal, over all pairs (row, class).

.. math:: F(W, b) = \tfrac12 \|W\|_F^2 + \tfrac12 \sum_{i, j \ne y_i} c_i
    \max(0, 1 - \langle w_{y_i} - w_j, x_i \rangle - b_{y_i} + b_j)^2

It is the method of `prgd.solvers.primal_newton`. A matrix has the intercepts in its last column, which has no
weight in the objective. Systems of few columns are factorised, in the coordinates of
`prgd.solvers.joint_coordinates`; others are solved by conjugate gradients, preconditioned by the diagonal.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from prgd.core.arithmetic import EPSILON
from prgd.core.types import Array
from prgd.norms import norm
from prgd.problem import Problem
from prgd.problem.certificate import DualWeights
from prgd.proofs.slacks import exact_step
from prgd.rows.blocks import is_sparse, with_ones
from prgd.solvers.joint_coordinates import PairColumns, Pairs
from prgd.solvers.linear_systems import conjugate_gradients
from prgd.solvers.primal_newton import Iterate, PrimalNewton, measured
from prgd.solvers.terms import TermSet

_FEW_COLUMNS = 1200  # systems over so few entries of W are factorised
_MAX_PRODUCTS = 1000  # steps of conjugate gradients in a system, at most


class _JointSystems:
    """Newton's systems over pairs; ``weight`` is 1 for entries of W, and 0 for the intercepts."""

    def __init__(self, pairs: Pairs, weight: Array) -> None:
        self.pairs, self.weight, self.reads = pairs, weight, 0.0
        self.columns = None if is_sparse(pairs.X) else PairColumns(pairs)

    def times(self, V: Array) -> Array:
        """Return the margins of all pairs."""
        self.reads += 1.0
        return self.pairs.margins(V)

    def combine(self, alpha: Array) -> Array:
        """Return ``sum alpha (e_y - e_j) x^T``."""
        self.reads += 1.0
        return self.pairs.combine(alpha)

    def solve(self, gradient: Array, D: Array, forcing: float) -> Array:
        """Return Newton's direction for the weights D of the active pairs, which are 0 for others."""
        if self.columns is not None and gradient[1:].size <= _FEW_COLUMNS:
            self.reads += 1.0
            return self.columns.matrix(self.columns.solver(D)(-gradient[:-1].ravel()))
        shape, end = gradient.shape, (max(forcing, EPSILON) * norm(gradient)) ** 2
        pairs, D = self.pairs.part(D > 0.0), D[D > 0.0]
        diagonal = (self.weight + pairs.squares(D)).ravel()
        inverse = 1.0 / np.where(diagonal > 0.0, diagonal, 1.0)

        def times(q: Array) -> Array:
            self.reads += 2.0 * pairs.X.shape[0] / self.pairs.X.shape[0]
            Q = q.reshape(shape)
            return np.asarray((self.weight * Q + pairs.combine(D * pairs.margins(Q))).ravel())

        def has_ended(_: int, r: Array, __: float) -> bool:
            return float(r @ r) <= end

        r = -gradient.ravel()
        found = conjugate_gradients(times, 0.0 * r, r, has_ended, _MAX_PRODUCTS, inverse.__mul__)[0]
        return found.reshape(shape)


class JointNewton(PrimalNewton):
    """Newton's method for one joint problem, whose rows are held in memory.

    Parameters
    ----------
    problem : Problem of classes jointly
    c : ndarray of shape (n,)
        2 C times the sample weights, not negative.
    """

    def __init__(self, problem: Problem, c: Array) -> None:
        terms, K, d = TermSet(problem), *problem.shape
        terms.add(terms.all_terms())
        self.problem, self.indices, self.exponent = problem, terms.indices, terms.exponent
        self.center = np.zeros(d) if terms.center is None else np.ldexp(terms.center, terms.exponent)
        # In units in which rows are divided by a power of two, C is multiplied by its square.
        self.c = np.ldexp(c[terms.indices // K], 2 * terms.exponent)
        at = terms.terms(np.inf)
        X = at.X.toarray() if is_sparse(at.X) and (K - 1) * (d + 1) <= _FEW_COLUMNS else at.X
        X = with_ones(X) if problem.fit_intercept else X
        weight = np.ones((K, X.shape[1]))
        weight[:, d:] = 0.0
        y, j = np.asarray(at.plus), np.asarray(at.minus)
        self.systems = _JointSystems(Pairs(X, at.row, y, j, K, problem.fit_intercept), weight)

    def start(self, w: Array | None, b: Any) -> Iterate:
        """Return the iterate at W and its intercepts, by default 0."""
        V, d = np.zeros(self.systems.weight.shape), self.problem.d
        if w is not None:
            V[:, :d], V[:, d:] = np.ldexp(w, self.exponent), np.reshape(b, (-1, 1))
        return self._at(V - V.mean(axis=0))

    def again(self, at: Iterate) -> Iterate:
        """Return the iterate with margins computed anew."""
        return self._at(at.w)

    def rescale(self, at: Iterate, factor: float) -> Iterate:
        """Multiply all weights c by a factor, and return the iterate of the same W."""
        self.c = self.c * factor
        return self._at(at.w, at.margins)

    def proposal(self, at: Iterate) -> tuple[Array, Any, DualWeights]:
        """Return W and the intercepts in units of the data, and the weights of the slacks."""
        W = np.ldexp(at.w[:, : self.problem.d], -self.exponent)
        b = at.w[:, -1] - W @ self.center if self.problem.fit_intercept else np.zeros(len(W))
        return W, b, DualWeights(self.indices, at.alpha)

    def _at(self, V: Array, margins: Array | None = None) -> Iterate:
        """Return the iterate at V, with both bounds; what is not balanced yet is added to the upper one."""
        margins = self.systems.times(V) if margins is None else margins
        alpha, d = self.c * np.maximum(1.0 - margins, 0.0), self.problem.d
        U = self.systems.combine(alpha)
        at = measured(V[:, :d].ravel(), 0.0, margins, alpha, U[:, :d].ravel())
        missing = float(np.abs(U[:, d:]).sum()) / (float(alpha.sum()) or 1.0)
        return replace(at, w=V, dual_vector=U, upper=at.upper + missing)

    def step(self, at: Iterate, forcing: float) -> Iterate:
        """Return the iterate after a Newton step, solved to the relative residual ``forcing``."""
        systems, active, direction = self.systems, at.alpha > 0.0, -at.w
        W = systems.weight * at.w
        if active.any():
            direction = systems.solve(W - at.dual_vector, np.where(active, self.c, 0.0), forcing)
        slopes, moved = systems.times(direction), systems.weight * direction
        linear, square = float(np.vdot(W, moved)), float(np.vdot(moved, moved))
        size = exact_step(at.margins, slopes, self.c, linear, square, 1.0)
        return self._at(at.w + size * direction, at.margins + size * slopes)
