"""Nesterov acceleration of the dual problem."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prgd.algorithms.base import FirstOrder, FixedStep, MeanState, Moves, State
from prgd.core.types import Array
from prgd.norms import L2
from prgd.problem import Problem


class DualAccelerationState(MeanState):
    """State of dual acceleration: the momentum is ``g = t/2`` times the mean dual vector before the pass."""

    @property
    def mean(self) -> Array | None:
        """The mean dual vector ``2 (g + u) / (t + 1)``, in which that of step s weighs like s."""
        return 2.0 / (self.t + 1) * (self.g + self.at.dual_vector) if self.t else None


@dataclass(frozen=True)
class DualAcceleration(FirstOrder, FixedStep):
    r"""Momentum on the normalized gradient: Nesterov's method on the dual, seen from the primal.

    .. math::

        u_t = Z^\top q_t, \quad g_{t+1} = \frac{t}{t+1} (g_t + u_t), \quad
        w_{t+1} = w_t + \eta (g_{t+1} + u_t), \quad q_{t+1} = \mathrm{softmax}(-Z w_{t+1})

    from w = g = 0 and q uniform. In the dual this is accelerated mirror descent with the entropy on
    :math:`\|Z^\top p\|^2 / 2`, and :math:`\hat u_t = 2 (g_t + u_t) / (t + 1)` is the dual vector of its
    averaged weights, whose norm is a bound on gamma_star that every step certifies. For every separable set

    .. math:: \|\hat u_t\|^2 - \gamma(w_t)^2 \le \frac{8 \log n}{\eta\, (t + 1)^2}

    where eta, in plain units, is at most ``4 / D^2``, D the diameter of the rows (docs/note/note.md). In the
    primal it is Nesterov's method on log L with momentum t / (t + 1).

    Parameters
    ----------
    eta : float, in units of ``problem.unit_in(L2())``.

    References
    ----------
    Ji, Srebro and Telgarsky (2021), Fast margin maximization via dual acceleration. Nesterov (2005), Smooth
    minimization of non-smooth functions, and Tseng (2008) for the certified gap.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.synthetic_one(0))
    >>> prgd.run(problem, DualAcceleration(), stop=300).certificate.gap < 1e-4
    True
    """

    along = "dual_vector"
    state_type: ClassVar[type[State]] = DualAccelerationState

    def init(self, problem: Problem, w0: Array) -> DualAccelerationState:
        """Start at ``w0`` without momentum."""
        return DualAccelerationState(t=0, at=problem.at(w0), g=np.zeros(problem.shape))

    def moves(self, problem: Problem, s: State, steps: int) -> Iterator[Moves]:
        """Yield accelerated steps."""
        t, eta = s.t + np.arange(steps), self.eta * problem.unit_in(L2())
        yield Moves(steps, eta, keep=t / (t + 1), add=t / (t + 1), along=eta)
