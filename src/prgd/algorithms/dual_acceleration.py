"""Nesterov acceleration of the dual problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prgd.algorithms.base import FirstOrder, FixedStep, MomentumState, Moves, State
from prgd.core.types import Array
from prgd.norms import L2
from prgd.problem import Problem


@dataclass(frozen=True)
class DualAcceleration(FirstOrder, FixedStep):
    r"""Momentum on the normalized gradient: Nesterov's method on the dual, seen from the primal.

    .. math::

        u_t = Z^\top q_t, \quad g_{t+1} = \frac{t}{t+1} (g_t + u_t), \quad
        w_{t+1} = w_t + \eta (g_{t+1} + u_t), \quad q_{t+1} = \mathrm{softmax}(-Z w_{t+1})

    from w = g = 0 and q uniform. Its margin converges like log t / t^2. In the primal it is Nesterov's method
    on log L with momentum t / (t + 1): ``x_{t+1} = w_t + eta u_t``, ``w_{t+1} = x_{t+1} + t / (t + 1)
    (x_{t+1} - x_t)``.

    Parameters
    ----------
    eta : float, in units of ``problem.unit_in(L2())``.

    References
    ----------
    Ji, Srebro and Telgarsky (2021), Fast margin maximization via dual acceleration.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.synthetic_one(0))
    >>> prgd.run(problem, DualAcceleration(), stop=300).certificate.gap < 1e-4
    True
    """

    along = "dual_vector"
    state_type: ClassVar[type[State]] = MomentumState

    def init(self, problem: Problem, w0: Array) -> MomentumState:
        """Start at ``w0`` without momentum."""
        return MomentumState(t=0, at=problem.at(w0), g=np.zeros(problem.shape))

    def moves(self, problem: Problem, s: State, steps: int) -> Iterator[Moves]:
        """Yield accelerated steps."""
        t, eta = s.t + np.arange(steps), self.eta * problem.unit_in(L2())
        yield Moves(steps, eta, keep=t / (t + 1), add=t / (t + 1), along=eta)
