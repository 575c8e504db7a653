"""Normalized gradient descent with momentum that is restarted when the dual vector grows."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prgd.algorithms.base import FixedStep, MomentumState, State
from prgd.core.types import Array
from prgd.norms import L2
from prgd.problem import Problem


@dataclass(frozen=True, eq=False, kw_only=True)
class RestartedNGDState(MomentumState):
    """State of restarted NGD; ``phase - 1`` counts the restarts.

    Attributes
    ----------
    age : int
        Steps since the last restart.
    previous_age : int
        Steps between the two restarts before.
    previous_size : float
        The norm of the dual vector one step ago.
    """

    age: int = 0
    previous_age: int = 0
    previous_size: float = math.inf


@dataclass(frozen=True)
class RestartedNGD(FixedStep):
    r"""Nesterov's momentum on the normalized gradient, restarted when the norm of the dual vector grows.

    .. math::

        u_t = Z^\top p_t, \quad g_{t+1} = \frac{j}{j+3} (g_t + u_t), \quad
        w_{t+1} = w_t + \eta (g_{t+1} + u_t), \quad p_{t+1} = \mathrm{softmax}(-Z w_{t+1})

    from w = g = 0, where j counts the steps since the last restart. If ``||u_t|| > ||u_{t-1}||``, and j is at
    least the j of the restart before, g and j are set to 0.

    Along NGD the norm of u never grows (docs/note/note.md), so growth says that momentum has carried
    the steps too far. The limit of ``||u||`` is gamma_star, and near it ``||u||^2 - gamma_star^2`` is the
    square of the error of u: once that is below 1e-8, growth of the norm is rounding, and would restart at
    every other step. Phases that never become shorter keep the length that they had before. The direction
    of u, which `prgd.run` certifies beside that of w, then comes to w_star at a linear rate: this is
    measured, not proven.

    Parameters
    ----------
    eta : float, in units of ``problem.unit_in(L2())``.

    References
    ----------
    O'Donoghue and Candes (2015), Adaptive restart for accelerated gradient schemes. Their test on the
    gradient, ``<u, w_{t+1} - w_t> < 0``, never restarts here, since w grows along w_star without end.
    Momentum on the normalized gradient: Ji, Srebro and Telgarsky (2021), see `DualAcceleration`.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.digits(0, 1))
    >>> result = prgd.run(problem, RestartedNGD(), stop=prgd.any_of(prgd.Gap(1e-4), 1000))
    >>> result.status.name
    'CERTIFIED'
    """

    state_type: ClassVar[type[State]] = RestartedNGDState

    def init(self, problem: Problem, w0: Array) -> RestartedNGDState:
        """Start at ``w0`` without momentum."""
        return RestartedNGDState(t=0, at=problem.at(w0), phase=1, g=np.zeros(problem.shape))

    def step(self, problem: Problem, s: RestartedNGDState) -> RestartedNGDState:
        """Take one step with momentum, or without it after a restart."""
        u = s.at.dual_vector
        size = L2().dual(u)
        phase, g, age, previous_age = s.phase, s.g, s.age, s.previous_age
        if size > s.previous_size and age >= previous_age:
            phase, g, age, previous_age = phase + 1, np.zeros(problem.shape), 0, age
        g = age / (age + 3) * (g + u)
        at = problem.at(s.w + self.eta * problem.unit_in(L2()) * (g + u))
        return RestartedNGDState(
            t=s.t + 1, at=at, phase=phase, g=g, age=age + 1, previous_age=previous_age, previous_size=size
        )
