"""Margin maximization as a two-player game with optimistic players."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prgd.algorithms.base import FirstOrder, FixedStep, MeanState, Moves, State
from prgd.core.types import Array
from prgd.norms import L2
from prgd.problem import Problem


class GameState(MeanState):
    """State of the game: the momentum is ``S = sum_s s u_s`` of the dual vectors u_s."""

    @property
    def mean(self) -> Array | None:
        """The mean dual vector ``S / A_t``."""
        t = self.t - 1
        return self.g / (t * (t + 1) / 2) if t > 0 else None


@dataclass(frozen=True)
class GameDynamics(FirstOrder, FixedStep):
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

    along = "dual_vector"
    state_type: ClassVar[type[State]] = GameState

    def init(self, problem: Problem, w0: Array) -> GameState:
        """Start at ``w0`` (the paper: 0)."""
        return GameState(t=0, at=problem.at(w0), g=np.zeros(problem.shape))

    def moves(self, problem: Problem, s: State, steps: int) -> Iterator[Moves]:
        """Yield rounds: ``S <- S + t u`` and ``w <- w + eta / 4 (t + 1) (S + (t + 1) u) / A_{t+1}``."""
        t = s.t + np.arange(steps, dtype=np.float64)
        along = self.eta * problem.unit_in(L2()) / 4.0 * (t + 1) / ((t + 1) * (t + 2) / 2)
        yield Moves(steps, along * (t + 1), keep=1.0, add=t, along=along)
