"""Steepest descent on log L in any norm: sign descent, coordinate descent, spectral descent."""

import math
from dataclasses import dataclass

from prgd.algorithms.base import FixedStep, State, norm_for, read_norm
from prgd.core.checks import check_fraction
from prgd.core.types import Array
from prgd.norms import Norm, as_norm
from prgd.problem import Problem


@dataclass(frozen=True, repr=False)
class SteepestDescent(FixedStep):
    r"""Steepest descent on log L in a norm: the direction of norm 1 along which the loss falls fastest.

    With ``u = -grad L / L`` and ``s(u)`` of norm 1 such that ``<u, s(u)> = ||u||_*``, loss-scaled steps are

    .. math:: w(t+1) = w(t) + \eta_t \|u(t)\|_*\, s(u(t)), \qquad \eta_t = \eta\, (t + 1)^{-a},

    and normalized steps have the length :math:`\eta_t` itself, ``w + eta_t s(u)``. The norm l-infinity gives
    sign descent, l1 coordinate descent (boosting), the spectral norm spectral descent (Muon without
    momentum), and l2 `NGD` (or, with ``power=0.5``, `LossScaledGD`).

    The margin in this norm converges to its maximum like log t / sqrt t for ``power=0.5`` (Nacson et al. for
    the exponential loss and two classes; Fan et al. for cross-entropy, any number of classes and normalized
    steps). With constant steps (``power=0``) the rate is 1 / t in l2 (`NGD`). In other norms a margin of
    ``(1 - eta / 2) gamma_star`` follows for loss-scaled steps with ``eta <= 1``: log L of the exponential
    loss is 1-smooth in the norm, so that a step lowers it by ``eta (1 - eta / 2) ||u||_*^2`` at least and
    adds at most ``eta ||u||_*`` to the norm of w, where ``||u||_* >= gamma_star``. For l1 see Telgarsky.

    Parameters
    ----------
    eta : float, in units of ``problem.unit_in(norm)`` (of its square root for normalized steps).
    norm : Norm, str or float, optional; the norm of the problem by default.
    normalized : bool, whether a step has the length eta_t instead of eta_t times the dual norm of u.
    power : float from 0 to 1, the exponent a with which the steps fall; 0 keeps them constant.

    References
    ----------
    Gunasekar, Lee, Soudry and Srebro (2018), Characterizing implicit bias in terms of optimization geometry.
    Nacson, Lee, Gunasekar, Savarese, Srebro and Soudry (2019), Convergence of gradient descent on separable
    data. Fan, Schmidt and Thrampoulidis (2025), Implicit bias of spectral descent and Muon on multiclass
    separable data, Theorem 1. Telgarsky (2013), Margins, shrinkage, and boosting.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem([[1.0, 0.2], [3.0, -1.0]], norm="linf")  # gamma_star is 1.2
    >>> round(prgd.run(problem, SteepestDescent(), stop=1000).certificate.lower, 2)
    1.2
    """

    norm: Norm | str | float | None = None
    normalized: bool = False
    power: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("power", self.power)
        read_norm(self)

    def __repr__(self) -> str:
        norm = "" if self.norm is None else f", norm={self.norm!r}"
        rest = f"normalized={self.normalized!r}, power={self.power!r}"
        return f"{type(self).__name__}(eta={self.eta!r}{norm}, {rest})"

    @property
    def step_unit(self) -> tuple[Norm | None, float]:
        """The unit of ``eta``, in the norm of the steps."""
        return None if self.norm is None else as_norm(self.norm), 1.0 if self.normalized else 2.0

    def init(self, problem: Problem, w0: Array) -> State:
        """Start at ``w0``."""
        norm_for(problem, self.norm).check_shape(problem.shape)
        return super().init(problem, w0)

    def step(self, problem: Problem, s: State) -> State:
        """Take one step of steepest descent."""
        norm, u = norm_for(problem, self.norm), -s.at.normalized_gradient
        eta, unit = self.eta * (s.t + 1) ** -self.power, problem.unit_in(norm)
        if self.normalized:
            return State(s.t + 1, problem.at(s.w + eta * math.sqrt(unit) * norm.steepest(u)))
        return State(s.t + 1, problem.at(s.w + eta * unit * norm.ascent(u)))
