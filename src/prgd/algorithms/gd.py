"""Gradient descent."""

from collections.abc import Iterator
from dataclasses import dataclass

from prgd.algorithms.base import FirstOrder, FixedStep, Moves, State
from prgd.norms import L2
from prgd.problem import Problem


@dataclass(frozen=True)
class GD(FirstOrder, FixedStep):
    r"""Gradient descent with a constant step.

    .. math:: w(t+1) = w(t) - \eta \nabla L(w(t))

    Its direction and margin errors are O(1 / log t) (Soudry et al. 2018). Under its conditions Theorem 6.4
    proves Theta(1 / log t) for the direction and Omega(1 / log^2 t) for the margin, whose error is in fact
    Theta(1 / log t) there (``docs/theory.md``). The warm-up of Theorem 6.1.

    Parameters
    ----------
    eta : float, in units of ``problem.unit_in(L2())``.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.3))
    >>> bool(prgd.run(problem, GD(), stop=100).w[0] > 0)
    True
    """

    along = "gradient"

    def moves(self, problem: Problem, s: State, steps: int) -> Iterator[Moves]:
        """Yield steps ``w - eta grad L``."""
        yield Moves(steps, self.eta * problem.unit_in(L2()))
