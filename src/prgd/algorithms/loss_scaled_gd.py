"""Gradient descent with aggressive, loss-scaled steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from prgd.algorithms.base import FixedStep, State
from prgd.norms import L2
from prgd.problem import Problem


@dataclass(frozen=True)
class LossScaledGD(FixedStep):
    r"""Gradient descent with step ``eta / (sqrt(t + 1) L(w))``.

    .. math:: w(t+1) = w(t) - \frac{\eta}{\sqrt{t+1}} \nabla L(w(t)) / L(w(t))

    Its margin converges like log t / sqrt t.

    Parameters
    ----------
    eta : float, in units of ``problem.unit_in(L2())``.

    References
    ----------
    Nacson, Lee, Gunasekar, Savarese, Srebro and Soudry (2019), Convergence of gradient descent on
    separable data.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.3))
    >>> bool(prgd.run(problem, LossScaledGD(), stop=100).certificate.lower > 0)
    True
    """

    def step(self, problem: Problem, s: State) -> State:
        """Take one normalized step of decreasing length."""
        eta = self.eta * problem.unit_in(L2()) / math.sqrt(s.t + 1)
        return State(s.t + 1, problem.at(s.w - eta * s.at.normalized_gradient))
