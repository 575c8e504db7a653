"""Gradient descent with aggressive, loss-scaled steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from prgd._types import Array
from prgd.algorithms.base import State
from prgd.checks import check_positive
from prgd.problem import Problem


@dataclass(frozen=True)
class LossScaledGD:
    r"""Gradient descent with step ``eta / (sqrt(t + 1) L(w))``.

    .. math:: w(t+1) = w(t) - \frac{\eta}{\sqrt{t+1}} \nabla L(w(t)) / L(w(t))

    Its margin converges like log t / sqrt t.

    Parameters
    ----------
    eta : float, in units of ``problem.unit``.

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

    eta: float = 1.0
    state_type: ClassVar[type[State]] = State

    def __post_init__(self) -> None:
        check_positive("eta", self.eta)

    def init(self, problem: Problem, w0: Array) -> State:
        """Start at ``w0``."""
        return State(0, w0)

    def step(self, problem: Problem, s: State) -> State:
        """Take one normalized step of decreasing length."""
        eta = self.eta * problem.unit / math.sqrt(s.t + 1)
        return State(s.t + 1, s.w - eta * problem.normalized_gradient(s.w))
