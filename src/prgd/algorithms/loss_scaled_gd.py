"""Gradient descent with aggressive, loss-scaled steps."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prgd.algorithms.base import FirstOrder, FixedStep, Moves, State
from prgd.norms import L2
from prgd.problem import Problem


@dataclass(frozen=True)
class LossScaledGD(FirstOrder, FixedStep):
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

    def moves(self, problem: Problem, s: State, steps: int) -> Iterator[Moves]:
        """Yield normalized steps of decreasing length."""
        yield Moves(steps, self.eta * problem.unit_in(L2()) / np.sqrt(s.t + 1 + np.arange(steps)))
