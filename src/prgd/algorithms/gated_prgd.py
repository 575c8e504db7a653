"""Gated PRGD: Algorithm 1 with radii that grow only when the direction has settled."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from prgd._types import Array
from prgd.algorithms.base import State
from prgd.checks import check_positive
from prgd.norms import norm, project_ball, rescale
from prgd.problem import Problem

STEP_GROWTH = 1.2  # most that the step grows by at a time
SAFETY = 0.35  # the step as a share of 1 / (local smoothness); 0.5 was less steady, 1 swings
STILL = 1e-8  # below this share of ||w|| a move says nothing about smoothness but rounding
ROUNDING = 1e-13  # a second part of the gap below this share of the upper bound is rounding
LARGEST = 1e-3 / float(np.finfo(np.float64).eps)  # at this margin scale, rounding moves p by 1e-3


@dataclass(frozen=True, eq=False)
class GatedPRGDState(State):
    """State of gated PRGD; ``w`` is the extrapolated point, at which the gradient is taken.

    Attributes
    ----------
    k, R_k : the phase, counted from 1, and its radius.
    x : the last projected point, which the momentum starts from.
    w_last, dual_last : the last w and its ``Z^T p``, for the local smoothness.
    step_size : of the next step.
    j : steps since the momentum was last dropped.
    """

    k: int
    R_k: float
    x: Array
    w_last: Array
    dual_last: Array
    step_size: float
    j: int


@dataclass(frozen=True)
class GatedPRGD:
    r"""Progressive rescaling with computable radii, and accelerated projected steps between them.

    An extension of ours, not an algorithm of the paper: its radii R_k need the solution or a schedule. Here
    the radius grows, and w is rescaled to it, when the direction has settled, that is

    .. math:: \|u\| - \langle u, \hat w \rangle \le f\, (\langle u, \hat w \rangle - \gamma(w)),
        \qquad u = Z^\top p, \quad \hat w = w / \|w\|,

    the first part of the duality gap against the second (`Problem.gap_split`). Otherwise it takes
    Algorithm 1's projected normalized step, with momentum:

    .. math:: x_{t+1} = \mathrm{Proj}_{B(0, R_k)}(w_t + \eta_t u_t), \qquad
        w_{t+1} = \mathrm{Proj}_{B(0, R_k)}\bigl(x_{t+1} + \tfrac{j - 1}{j + 2} (x_{t+1} - x_t)\bigr).

    The momentum is dropped (j = 1) at a rescaling and where it points against u. The step is a
    third of ``||w_t - w_{t-1}|| / ||u_t - u_{t-1}||``, grows by at most a fifth at a time, and is never below
    ``eta``. One reading of the data a step.

    Parameters
    ----------
    growth : float above 1, the ratio of successive radii.
    fraction : float, the f of the gate.
    eta : float, the smallest step, Algorithm 1's own, in units of ``problem.unit``.

    Notes
    -----
    It starts at the radius ``||w0||``, at least ``sqrt(problem.unit)``; a w0 that does not point along
    its own ``Z^T p`` (a cosine above 0.9) is shortened to that. It needs no warm-up.

    Accelerated steps on a ball of radius R_k need a multiple of ``sqrt(R_k / gamma_star)`` to settle, and
    the gap left is a multiple of ``1 / (gamma_star R_k)``: it falls like 1 / t^2, as for dual acceleration.
    An exponential rate takes the second-order steps of `ProgressiveNewton`. The radius stays once rounding
    blurs the weights, near ``R_k = 1e12 / max_norm``, or the second part of the gap is rounding.

    References
    ----------
    Wang, Min and Wu (2024), Algorithm 1. O'Donoghue and Candes (2015), Adaptive restart for accelerated
    gradient schemes.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.digits(0, 1))
    >>> prgd.run(problem, GatedPRGD(), stop=prgd.any_of(prgd.Gap(1e-2), 500)).status.name
    'CERTIFIED'
    """

    growth: float = 4.0
    fraction: float = 0.5
    eta: float = 1.0
    state_type: ClassVar[type[State]] = GatedPRGDState

    def __post_init__(self) -> None:
        check_positive("growth", self.growth, above=1.0)
        check_positive("fraction", self.fraction)
        check_positive("eta", self.eta)

    def init(self, problem: Problem, w0: Array) -> GatedPRGDState:
        """Start at ``w0``, without momentum; a long one with an unsettled direction is shortened."""
        u, length, R_0 = problem.dual(w0), norm(w0), math.sqrt(problem.unit)
        if length > R_0 and float(u @ (w0 / length)) <= 0.9 * norm(u):
            w0 = project_ball(w0, R_0)
        return GatedPRGDState(0, w0, 1, max(norm(w0), R_0), w0, w0, u, self.eta * problem.unit, 1)

    def step(self, problem: Problem, s: GatedPRGDState) -> GatedPRGDState:
        """Rescale where the direction has settled, else take one accelerated projected step."""
        u = problem.dual(s.w)
        if self._is_settled(problem, s):
            R_k = self.growth * s.R_k
            w = rescale(s.w, R_k)
            return replace(s, t=s.t + 1, w=w, k=s.k + 1, R_k=R_k, x=w, w_last=s.w, dual_last=u, j=1)
        step_size, moved = s.step_size, norm(s.w - s.w_last)
        if s.j > 1 and moved > STILL * norm(s.w):
            smoothness = norm(u - s.dual_last) / moved
            step_size = min(STEP_GROWTH * step_size, SAFETY / smoothness if smoothness > 0.0 else math.inf)
            step_size = max(step_size, self.eta * problem.unit)
        x = project_ball(s.w + step_size * u, s.R_k)
        j = s.j + 1 if float(u @ (x - s.x)) >= 0.0 else 1
        w = project_ball(x + (j - 1) / (j + 2) * (x - s.x), s.R_k)
        return replace(s, t=s.t + 1, w=w, x=x, w_last=s.w, dual_last=u, step_size=step_size, j=j)

    def _is_settled(self, problem: Problem, s: GatedPRGDState) -> bool:
        """Return whether w has come to the sphere and its direction has settled there."""
        if norm(s.w) < 0.9 * s.R_k or self.growth * s.R_k * problem.max_norm > LARGEST:
            return False
        unsettled, soft = problem.gap_split(s.w)
        return soft > ROUNDING * problem.upper_bound(s.w) and unsettled <= self.fraction * soft
