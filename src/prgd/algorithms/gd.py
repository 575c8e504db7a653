"""Gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from prgd._types import Array
from prgd.algorithms.base import State
from prgd.checks import check_positive
from prgd.problem import Problem


@dataclass(frozen=True)
class GD:
    r"""Gradient descent with a constant step.

    .. math:: w(t+1) = w(t) - \eta \nabla L(w(t))

    Its margin converges like 1 / log t (Soudry et al. 2018; tight by Theorem 6.4). The warm-up of
    Theorem 6.1.

    Parameters
    ----------
    eta : float, in units of ``problem.unit``.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.3))
    >>> bool(prgd.run(problem, GD(), stop=100).w[0] > 0)
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
        """Take one gradient step."""
        eta = self.eta * problem.unit
        return State(s.t + 1, s.w - eta * problem.gradient(s.w))
