r"""The squared-hinge soft margin by Newton's method on its primal, which is piecewise quadratic.

.. math:: F(w, b) = \tfrac12 \|w\|^2 + \tfrac12 \sum_i c_i \max(0, 1 - y_i (\langle w, x_i \rangle + b))^2

On the set of rows with a margin below 1 (the active rows) F is a quadratic function, whose minimum a linear
system gives. The step to it is followed by an exact line search, so F falls at every step; once the active
rows are those of the solution, one step ends the search. The dual weights are ``c_i`` times the slacks.

References
----------
Keerthi and DeCoste (2005), A modified finite Newton method for fast solution of large scale linear SVMs,
JMLR 6.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from prgd.core.types import Array
from prgd.problem import Problem
from prgd.problem.certificate import DualWeights
from prgd.problem.coding import balanced_intercept
from prgd.proofs.slacks import exact_step
from prgd.solvers.newton_systems import NewtonSystems

_MAX_PATH_STEPS = 50  # steps for each C of a path
_STILL = 1e-15  # relative change of F below which rounding decides


@dataclass(eq=False)
class Iterate:
    """A hyperplane, its margins and slacks, and what they say about F.

    Attributes
    ----------
    margins : ndarray of shape (n,)
        ``y_i (<w, x_i> + b)``, updated from step to step and so rounded: they steer, and prove nothing.
    alpha : ndarray of shape (n,)
        ``c_i`` times the slack: dual weights that balance the classes, if the problem has an intercept.
    dual_vector : ndarray of shape (d,)
        ``Z^T alpha``; the gradient of F is ``w - dual_vector``.
    """

    w: Array
    b: float
    margins: Array
    alpha: Array = field(default_factory=lambda: np.empty(0))
    dual_vector: Array = field(default_factory=lambda: np.empty(0))
    objective: float = math.inf
    lower: float = 0.0
    upper: float = math.inf

    @property
    def gap(self) -> float:
        """Relative gap between the margin of the extended rows and its bound, both plainly computed."""
        return 1.0 - self.lower / self.upper if self.upper < math.inf else math.inf


class PrimalNewton:
    """Newton's method for one problem; solutions for several C may follow each other.

    Parameters
    ----------
    problem : Problem
    c : ndarray of shape (n,)
        C times the sample weights, not negative.
    center : ndarray of shape (d,), optional
        What was subtracted from the rows as given.
    """

    systems: Any  # NewtonSystems, or those of classes jointly

    def __init__(self, problem: Problem, c: Array, center: Array | None = None) -> None:
        self.problem, self.c = problem, c
        self.center = np.zeros(problem.d) if center is None else center
        self.systems = NewtonSystems(problem, c)
        self.signs = self.systems.signs

    def proposal(self, at: Iterate) -> tuple[Array, Any, DualWeights]:
        """Return the hyperplane of an iterate, and the weights of its slacks."""
        indices = np.flatnonzero(at.alpha)
        return at.w, at.b - float(at.w @ self.center), DualWeights(indices, at.alpha[indices])

    def start(self, w: Array | None, b: float) -> Iterate:
        """Return the iterate at ``w``, by default 0, at the best intercept near ``b``; at 0 without one."""
        b = b if self.problem.fit_intercept else 0.0
        if w is None or not w.any():
            return self._completed(np.zeros(self.problem.d), b, b * self.signs)
        return self._completed(w, b, self.systems.times(w) + b * self.signs)

    def again(self, at: Iterate) -> Iterate:
        """Return the iterate with margins computed anew."""
        return self.start(at.w, at.b)

    def _completed(self, w: Array, b: float, margins: Array) -> Iterate:
        """Move b to its best place, and compute slacks, gradient and both bounds."""
        c = self.c
        if self.problem.fit_intercept:
            shift = exact_step(margins, self.signs, c, 0.0, 0.0, 0.0)
            b, margins = b + shift, margins + shift * self.signs
        alpha = c * np.maximum(1.0 - margins, 0.0)
        if self.problem.fit_intercept and not alpha.any():
            # Many intercepts are best, and the middle one leaves both classes room.
            shift = balanced_intercept(self.problem.smallest_of(margins))
            b, margins = b + shift, margins + shift * self.signs
        return measured(w, b, margins, alpha, self.systems.combine(alpha))

    def rescale(self, at: Iterate, factor: float) -> Iterate:
        """Multiply all weights c by a factor, and return the iterate of the same hyperplane."""
        self.c = self.c * factor
        self.systems.rescale(factor)
        # The best intercept of w does not depend on a factor of c.
        return measured(at.w, at.b, at.margins, factor * at.alpha, factor * at.dual_vector)

    def step(self, at: Iterate, forcing: float) -> Iterate:
        """Return the iterate after a Newton step, solved to the relative residual ``forcing``."""
        if at.alpha.any():
            direction, shift = self.systems.solve(at.w - at.dual_vector, at.alpha > 0.0, forcing)
        else:  # every margin is at least 1, and a shorter w has smaller ones
            direction, shift = -at.w, -at.b
        slopes = self.systems.times(direction) + shift * self.signs
        linear, square = float(at.w @ direction), float(direction @ direction)
        size = exact_step(at.margins, slopes, self.c, linear, square, 1.0)
        return self._completed(at.w + size * direction, at.b + size * shift, at.margins + size * slopes)

    def minimise(
        self, at: Iterate, tol: float, max_steps: int, is_spent: Callable[[Iterate], bool]
    ) -> Iterate:
        """Take steps until the plain gap is at most ``tol``, F no longer falls, or ``is_spent(at)``."""
        for _ in range(max_steps):
            if at.gap <= tol:
                break
            found = self.step(at, forcing=min(0.1, 0.3 * math.sqrt(max(at.gap, 0.0))))
            is_still = not found.objective < at.objective * (1.0 - _STILL)
            if found.objective <= at.objective or found.gap < at.gap:
                at = found
            if is_spent(at) or is_still:
                break
        return at

    def follow(
        self, at: Iterate, factors: Sequence[float], tol: float, max_reads: float = math.inf
    ) -> list[Iterate]:
        """Multiply c by one factor after the other; return the minima, each started from the one before."""
        found = []
        for factor in factors:
            at = self.rescale(at, factor)
            at = self.minimise(at, tol, _MAX_PATH_STEPS, lambda _: self.systems.reads >= max_reads)
            found.append(at)
        return found


def measured(w: Array, b: float, margins: Array, alpha: Array, dual_vector: Array) -> Iterate:
    """Return the iterate with the value of F and both bounds."""
    # sum_i alpha_i^2 / c_i equals sum_i alpha_i slack_i, and alpha_i is 0 where the slack is.
    total, squares = float(alpha.sum()), float(alpha @ (1.0 - margins))
    objective = 0.5 * (float(w @ w) + squares)
    lower = 1.0 / math.sqrt(2.0 * objective) if objective > 0.0 else math.inf
    upper = math.sqrt(float(dual_vector @ dual_vector) + squares) / total if total > 0.0 else math.inf
    return Iterate(w, b, margins, alpha, dual_vector, objective, lower, upper)


def soft_path(problem: Problem, weights: Array, C: Sequence[float], tol: float) -> list[tuple[Array, float]]:
    """Return the hyperplanes of ascending C, each started from the one before; nothing is proven of them."""
    newton, factors = PrimalNewton(problem, C[0] * weights), [1.0, *(b / a for a, b in pairwise(C))]
    return [(at.w, at.b) for at in newton.follow(newton.start(None, 0.0), factors, tol)]
