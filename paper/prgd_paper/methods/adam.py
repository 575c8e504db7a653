"""Adam with the whole data in each step, without a stability constant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prgd.algorithms.base import State
from prgd.core.checks import check_fraction, check_positive
from prgd.core.types import Array
from prgd.norms import Linf, Norm
from prgd.problem import Problem


@dataclass(frozen=True, eq=False, kw_only=True)
class AdamState(State):
    """State of Adam: both moments, divided by ``exp(log_scale)``.

    Attributes
    ----------
    m : the moving mean of the gradients.
    r : the root of the moving mean of their squares; the squares themselves would underflow sooner.
    log_scale : the logarithm of a number as large as the gradients were.
    """

    m: Array
    r: Array
    log_scale: float


@dataclass(frozen=True)
class Adam:
    r"""Adam on the whole data, with decreasing steps, without stability constant and bias correction.

    .. math::

        m_t &= \beta_1 m_{t-1} + (1 - \beta_1) g_t, \quad v_t = \beta_2 v_{t-1} + (1 - \beta_2) g_t^2,
        \quad g_t = \nabla L(w(t)) \\
        w(t+1) &= w(t) - \eta_t\, m_t / \sqrt{v_t}, \qquad \eta_t = \eta\, (t + 1)^{-a}

    by coordinates, from m = v = 0; a coordinate whose gradients were all zero stays. As the steps decrease,
    Adam comes to move as sign descent does, and its l-infinity margin converges to the maximum: like
    t^(-a/2) for a < 2/3, t^(-1/3) up to a logarithm for a = 2/3, and t^(a-1) from there to a = 1 (Zhang et
    al.; Fan et al. show log t / t^(1/3) for cross-entropy and any number of classes). Before that, the root
    of v falls by at most ``sqrt(beta2)`` a step, and while the loss would fall faster, the steps shrink.

    The direction does not change if m is multiplied by a factor and v by its square. So both are kept
    relative to the size of the gradients, and go on where the loss itself underflows.

    Parameters
    ----------
    eta : float, in units of ``sqrt(problem.unit_in(Linf()))``.
    beta1 : float from 0 to below 1, at most beta2; the weight of the past in the mean of the gradients.
    beta2 : float from 0 to below 1, the weight of the past in the mean of their squares.
    power : float from 0 to 1, the exponent a with which the steps fall; 0 keeps them constant.

    References
    ----------
    Kingma and Ba (2015), Adam: a method for stochastic optimization. Zhang, Zou and Cao (2024), The implicit
    bias of Adam on separable data. Fan, Schmidt and Thrampoulidis (2025), Implicit bias of spectral descent
    and Muon on multiclass separable data, Appendix G.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem([[1.0, 0.2], [3.0, -1.0]], norm="linf")  # gamma_star is 1.2
    >>> round(prgd.run(problem, Adam(), stop=1000).certificate.lower, 1)
    1.2
    """

    eta: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.99
    power: float = 0.5
    state_type: ClassVar[type[State]] = AdamState

    def __post_init__(self) -> None:
        check_positive("eta", self.eta)
        for name in ("beta1", "beta2", "power"):
            check_fraction(name, getattr(self, name))
        if not self.beta1 <= self.beta2 < 1.0:
            raise ValueError(
                "Adam needs beta1 <= beta2 < 1: its steps are bounded then, and its margin converges; got "
                f"beta1={self.beta1!r}, beta2={self.beta2!r}."
            )

    @property
    def step_unit(self) -> tuple[Norm, float]:
        """The unit of ``eta``: a power of the largest row in a norm."""
        return Linf(), 1.0

    def init(self, problem: Problem, w0: Array) -> AdamState:
        """Start at ``w0`` without a past."""
        at, zero = problem.at(w0), np.zeros(problem.shape)
        return AdamState(t=0, at=at, m=zero, r=zero, log_scale=at.log_loss)

    def step(self, problem: Problem, s: AdamState) -> AdamState:
        """Take one step of Adam."""
        g, log_scale = s.at.normalized_gradient, max(s.log_scale, s.at.log_loss)
        past, now = math.exp(s.log_scale - log_scale), math.exp(s.at.log_loss - log_scale)
        m = self.beta1 * past * s.m + (1.0 - self.beta1) * now * g
        r = np.hypot(math.sqrt(self.beta2) * past * s.r, math.sqrt(1.0 - self.beta2) * now * g)
        eta = self.eta * (s.t + 1) ** -self.power * math.sqrt(problem.unit_in(Linf()))
        w = s.w - eta * np.divide(m, r, out=np.zeros_like(m), where=r > 0.0)
        size = float(r.max()) or 1.0  # The largest r is kept at 1, since the loss falls without end.
        return AdamState(
            t=s.t + 1,
            at=problem.at(w),
            m=m / size,
            r=r / size,
            log_scale=log_scale + math.log(size),
        )
