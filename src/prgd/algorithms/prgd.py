"""Progressive rescaling gradient descent: Algorithm 1 of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import ClassVar

from prgd._types import Array
from prgd.algorithms.base import State
from prgd.checks import check_positive
from prgd.norms import norm, project_ball, rescale
from prgd.problem import Problem
from prgd.schedules import Every, Geometric, Radius, StateRadius, Times


@dataclass(frozen=True, eq=False)
class PRGDState(State):
    """State of PRGD: the next phase k, the first norm R_0 and the radius R_k of this phase."""

    k: int
    R_0: float
    R_k: float


@dataclass(frozen=True)
class PRGD:
    r"""Algorithm 1: rescale to radius R_k at t = T_k, else one projected normalized step.

    .. math::

        w(T_k + 1) &= R_k\, w(T_k) / \|w(T_k)\| \\
        v(t + 1) &= w(t) - \eta \nabla L(w(t)) / L(w(t)), \quad w(t + 1) = \mathrm{Proj}_{B(0, R_k)} v(t + 1)

    Parameters
    ----------
    R : Radius or StateRadius, ``(k, R_0) -> R_k`` with ``R_0 = ||w0||``.
    T : Times, ``k -> T_k`` with ``T_0 = 0``.
    eta : float, in units of ``problem.unit``.

    References
    ----------
    Wang, Min and Wu (2024), Algorithm 1 and Theorem 6.1: an exponential rate, from a warm start, where
    the support vectors span the data.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.synthetic_one(0))
    >>> warm = prgd.run(problem, prgd.GD(), stop=1000)
    >>> result = prgd.run(problem, PRGD(Geometric(1.2), Every(5)), warm.w, stop=300)
    >>> result.certificate.gap < 1e-6
    True
    """

    R: Radius | StateRadius = Geometric()  # noqa: RUF009 - schedules are frozen values
    T: Times = Every()  # noqa: RUF009
    eta: float = 1.0
    state_type: ClassVar[type[State]] = PRGDState

    def __post_init__(self) -> None:
        check_positive("eta", self.eta)

    def init(self, problem: Problem, w0: Array) -> PRGDState:
        """Start at ``w0``, which must not be zero."""
        R_0 = norm(w0)
        if R_0 == 0.0:
            raise ValueError(
                "PRGD needs a non-zero w0, since it rescales it; got norm 0. "
                "Run GD or NGD first and pass its result.w (on the command line: --warmup gd:1000)."
            )
        if self.T(0) != 0:
            raise ValueError(f"Algorithm 1 begins with a rescaling: T(0) must be 0; got {self.T(0)}.")
        return PRGDState(t=0, w=w0, k=0, R_0=R_0, R_k=R_0)

    def step(self, problem: Problem, s: PRGDState) -> PRGDState:
        """Rescale, or take one projected step."""
        if s.t == self.T(s.k):  # phase k begins
            R_k = self.R.at(s.k, s.R_0, SimpleNamespace(w=s.w))
            if not (math.isfinite(R_k) and R_k > 0.0):
                raise ValueError(f"{self.R!r} gave the radius {R_k!r} at k = {s.k}; it must be positive.")
            if self.T(s.k + 1) <= s.t:
                raise ValueError(f"{self.T!r} does not advance: T({s.k + 1}) <= T({s.k}) = {s.t}.")
            return replace(s, t=s.t + 1, w=rescale(s.w, R_k), k=s.k + 1, R_k=R_k)
        v = s.w - self.eta * problem.unit * problem.normalized_gradient(s.w)
        return replace(s, t=s.t + 1, w=project_ball(v, s.R_k))
