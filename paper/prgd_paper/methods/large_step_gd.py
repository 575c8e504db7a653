"""Gradient descent on the logistic loss with steps so large that the loss oscillates first."""

from __future__ import annotations

from dataclasses import dataclass

from prgd.algorithms.base import State
from prgd.algorithms.gd import GD
from prgd.core.types import Array
from prgd.losses import LOGISTIC
from prgd.problem import Problem


@dataclass(frozen=True)
class LargeStepGD(GD):
    r"""Gradient descent on the logistic loss with a constant step far above 2 / smoothness.

    .. math:: w(t+1) = w(t) - \eta \nabla L(w(t)), \qquad
        L(w) = \frac1n \sum_i \log(1 + e^{-\langle w, z_i \rangle})

    The recursion is that of `GD`. With rows of norm at most 1 the loss is 1/4-smooth, so above eta = 8 it
    need not fall at each step. It oscillates for O(eta) steps, and falls like 1 / (eta t) after them, up to
    logarithms: like 1 / T^2 with a budget of T steps and eta = Theta(T). The direction is that of `GD`, with
    its error of O(1 / log t).

    Parameters
    ----------
    eta : float, in units of ``problem.unit_in(L2())``.

    Notes
    -----
    From w = 0, with rows of norm at most 1, for every eta and every t with ``gamma_star^2 eta t >= 1``,

    .. math:: \frac1t \sum_{k<t} L(w(k)) \le
        \frac{1 + \frac12 (\log(\gamma_\star^2 \eta t) + \eta / 2)^2}{\gamma_\star^2 \eta t}.

    Proof: split ``v = (a + b) w_star`` with ``a = log(gamma_star^2 eta t) / gamma_star`` and
    ``b = eta / (2 gamma_star)``. With G the mean of -l',
    ``2 eta <grad L, b w_star> + eta^2 ||grad L||^2 <= eta^2 (G^2 - G) <= 0``. So by convexity
    ``||w(k+1) - v||^2 <= ||w(k) - v||^2 + 2 eta (L(a w_star) - L(w(k)))``, where
    ``L(a w_star) <= e^(-gamma_star a)``. Sum over k < t.

    References
    ----------
    Wu, Bartlett, Telgarsky and Yu (2024), Large stepsize gradient descent for logistic loss: non-monotonicity
    of the loss improves optimization efficiency.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.1), loss="logistic")
    >>> losses = prgd.run(problem, LargeStepGD(), stop=300).history["log_loss"]
    >>> bool((losses[1:] > losses[:-1]).any()), bool(losses[-1] < -5)
    (True, True)
    """

    eta: float = 64.0

    def init(self, problem: Problem, w0: Array) -> State:
        """Start at ``w0`` (the paper: 0)."""
        if problem.loss != LOGISTIC:
            raise ValueError(
                "LargeStepGD needs loss='logistic', whose gradient is bounded: large steps diverge "
                f"otherwise; got loss={str(problem.loss)!r}. Use AdaptiveGD, whose steps shrink as it grows."
            )
        return super().init(problem, w0)
