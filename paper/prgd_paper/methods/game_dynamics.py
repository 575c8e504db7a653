"""Margin maximization as a two-player game with optimistic players."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prgd.algorithms.base import FixedStep, State
from prgd.core.types import Array
from prgd.norms import L2
from prgd.problem import Problem


@dataclass(frozen=True, eq=False, kw_only=True)
class GameState(State):
    """State of the game: ``S = sum_s s u_s`` and the mean ``S / A_t`` of the dual vectors u_s."""

    S: Array
    dual_vector: Array

    @property
    def own_upper(self) -> float:
        """The dual norm of the mean dual vector: a mean of points of the hull is one of its points."""
        problem = self.at.problem
        if problem.is_joint and problem.fit_intercept:  # The weights of each step balance to rounding only.
            return math.inf
        norm = problem.norm
        # The loop adds what rounding may do to a Euclidean norm; other norms bound their own.
        return norm.dual(self.dual_vector) if norm == L2() else norm.dual_above(self.dual_vector)


@dataclass(frozen=True)
class GameDynamics(FixedStep):
    r"""Weighted regret minimisation by both players, an O(1 / t^2) method.

    With weights s = 1, 2, ..., t of sum :math:`A_t = t (t + 1) / 2`:

    .. math::

        w_t = (S_{t-1} + t\, u_{t-1}) / A_t, \quad W_t = W_{t-1} + t\, w_t, \quad
        p_t = \mathrm{softmax}(-Z W_t / 4), \quad u_t = Z^\top p_t, \quad S_t = S_{t-1} + t\, u_t

    The iterate kept here is ``w = W_t / 4``, the point at which p_t is taken; it has the direction of
    the output W_t. The mean dual vector ``S_t / A_t`` certifies an upper bound of its own.

    The reference shows the rate 1 / t^2 for Nesterov's accelerated gradient descent on log L too. That
    recursion, with momentum t / (t + 1), is `DualAcceleration`, and has no file of its own.

    Parameters
    ----------
    eta : float, in units of ``problem.unit_in(L2())``; 1 is the paper's 1 / 4 for rows of norm at most 1.

    References
    ----------
    Wang, Hanashiro, Guha and Abernethy (2022), On accelerated perceptrons and beyond.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.synthetic_one(0))
    >>> prgd.run(problem, GameDynamics(), stop=1000).certificate.gap < 1e-3
    True
    """

    state_type: ClassVar[type[State]] = GameState

    def init(self, problem: Problem, w0: Array) -> GameState:
        """Start at ``w0`` (the paper: 0)."""
        at = problem.at(w0)
        return GameState(t=0, at=at, S=np.zeros(problem.shape), dual_vector=at.dual_vector)

    def step(self, problem: Problem, s: GameState) -> GameState:
        """Play one round."""
        t, u = s.t, s.at.dual_vector
        S = s.S + t * u
        mean = S / (t * (t + 1) / 2) if t else s.dual_vector
        w_next = (S + (t + 1) * u) / ((t + 1) * (t + 2) / 2)
        w = s.w + self.eta * problem.unit_in(L2()) / 4.0 * (t + 1) * w_next
        return GameState(t=t + 1, at=problem.at(w), S=S, dual_vector=mean)
