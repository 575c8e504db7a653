"""Normalized gradient descent."""

from collections.abc import Iterator
from dataclasses import dataclass

from prgd.algorithms.base import FirstOrder, FixedStep, Moves, State
from prgd.norms import L2
from prgd.problem import Problem


@dataclass(frozen=True)
class NGD(FirstOrder, FixedStep):
    r"""Gradient descent on log L: the gradient divided by the loss.

    .. math:: w(t+1) = w(t) - \eta \nabla L(w(t)) / L(w(t))

    Its direction and margin errors are O(1 / t) (Ji and Telgarsky 2021). Under its conditions Theorem 6.4
    proves, along a subsequence, Theta(1 / t) for the direction and Omega(1 / t^2) for the margin; in fact
    both are Theta(1 / t) along the whole sequence for eta <= 1 (``docs/theory.md``).

    Parameters
    ----------
    eta : float, in units of ``problem.unit_in(L2())``.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.3))
    >>> round(float(prgd.run(problem, NGD(), stop=10).w[0]), 12)  # w_1(t) = gamma_star t
    3.0
    """

    def moves(self, problem: Problem, s: State, steps: int) -> Iterator[Moves]:
        """Yield steps ``w - eta grad L / L``."""
        yield Moves(steps, self.eta * problem.unit_in(L2()))
