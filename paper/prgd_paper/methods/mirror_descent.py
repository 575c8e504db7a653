"""Mirror descent with the p-th power of the l_p norm as potential (p-GD)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from prgd.algorithms.base import FixedStep, State
from prgd.core.checks import check_positive
from prgd.core.types import Array
from prgd.norms import Norm, as_norm
from prgd.problem import Problem


@dataclass(frozen=True)
class MirrorDescent(FixedStep):
    r"""Mirror descent with the potential ``||w||_p^p / p``: gradient descent on ``sign(w) |w|^(p-1)``.

    .. math::

        \theta_j(t+1) = \mathrm{sign}(w_j(t))\, |w_j(t)|^{p-1} - \eta\, \nabla_j L(w(t)), \qquad
        w_j(t+1) = \mathrm{sign}(\theta_j)\, |\theta_j|^{1/(p-1)}

    For p = 2 it is `GD`. Its direction converges to that of the largest l_p margin for every p above 1, as
    slowly as that of gradient descent: w grows like log t. With ``loss_scaled`` the gradient is divided by
    the loss, as in `NGD`, and w grows like t^(1/(p-1)); Sun et al. (2023) normalize steps to the same end.

    Parameters
    ----------
    eta : float, in units of ``problem.unit_in(Lp(p)) ** (p / 2)``.
    p : float above 1, the exponent of the potential.
    loss_scaled : bool, whether the gradient is divided by the loss.

    References
    ----------
    Sun, Ahn, Thrampoulidis and Azizan (2022), Mirror descent maximizes generalized margin and can be
    implemented efficiently. Sun, Gatmiry, Ahn and Azizan (2023), A unified approach to controlling implicit
    regularization via mirror descent.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem([[2.0, 0.0], [0.0, 1.0]], norm=3.0)
    >>> prgd.run(problem, MirrorDescent(p=3.0, loss_scaled=True), stop=1000).certificate.gap < 0.03
    True
    """

    p: float = 3.0
    loss_scaled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("p", self.p, above=1.0)

    @property
    def step_unit(self) -> tuple[Norm, float]:
        """The unit of ``eta``: a power of the largest row in a norm."""
        return as_norm(self.p), self.p

    def step(self, problem: Problem, s: State) -> State:
        """Take one step of mirror descent."""
        gradient = s.at.normalized_gradient if self.loss_scaled else s.at.gradient
        root, power = math.sqrt(problem.unit_in(as_norm(self.p))), self.p - 1.0
        # The step is written as the point that it leads to from 0, and both points are scaled before their
        # powers are added: powers of w and of the unit could overflow.
        step = root * signed_power(-self.eta * root * gradient, 1.0 / power)
        size = max(float(np.abs(s.w).max()), float(np.abs(step).max())) or 1.0
        with np.errstate(invalid="ignore"):  # A gradient beyond the floating range ends the run as diverged.
            theta = signed_power(s.w / size, power) + signed_power(step / size, power)
        return State(s.t + 1, problem.at(size * signed_power(theta, 1.0 / power)))


def signed_power(v: Array, exponent: float) -> Array:
    """Return ``sign(v) |v|^exponent``."""
    return np.copysign(np.abs(v) ** exponent, v)
