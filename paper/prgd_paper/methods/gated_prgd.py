"""Gated PRGD: Algorithm 1 with radii that grow only when the direction has converged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from prgd.algorithms.base import SOFT_ENOUGH, State, check_problem
from prgd.core.arithmetic import EPSILON
from prgd.core.checks import check_positive
from prgd.core.types import Array
from prgd.norms import L2, norm
from prgd.problem import Problem

MAX_SCALE = 1e-3 / EPSILON  # at margins of this size, rounding moves the dual weights by 1e-3
STEP_GROWTH = 1.2  # largest factor by which the step size grows at a time
SAFETY = 0.35  # the step size as a fraction of 1 / (local smoothness); 0.5 was less steady, 1 oscillates
STILL = 1e-8  # a move below this fraction of ||w|| shows rounding, not smoothness
ROUNDING = 1e-13  # a second part of the gap below this fraction of the upper bound is rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class GatedPRGDState(State):
    """State of gated PRGD; ``w`` is the extrapolated point, at which the gradient is taken.

    Attributes
    ----------
    x : the last projected point, from which the momentum starts.
    w_last, dual_vector_last : the last w and its ``Z^T p``, for the local smoothness.
    step_size : size of the next step.
    j : steps since the momentum was last dropped.
    """

    x: Array
    w_last: Array
    dual_vector_last: Array
    step_size: float
    j: int


@dataclass(frozen=True)
class GatedPRGD:
    r"""Progressive rescaling with computable radii, and accelerated projected steps between them.

    An extension of ours, not an algorithm of the paper: its radii R_k need the solution or a schedule. Here
    the radius grows, and w is rescaled to it, when the direction has converged, that is

    .. math:: \|u\| - \langle u, \hat w \rangle \le f\, \max(\Delta, 0.01) / \|w\|,
        \qquad u = Z^\top p, \quad \hat w = w / \|w\|, \quad
        \Delta / \|w\| = \langle u, \hat w \rangle - \gamma(w),

    the first part of the gap against the second (`Evaluation.gap_split`; Theorem 5 of docs/note/note.md).
    Without the constant a phase would have to come ever nearer to its end where Delta goes to 0: p_star is
    uniform on its support there. Otherwise it takes Algorithm 1's projected normalized step, with momentum:

    .. math:: x_{t+1} = \mathrm{Proj}_{B(0, R_k)}(w_t + \eta_t u_t), \qquad
        w_{t+1} = \mathrm{Proj}_{B(0, R_k)}\bigl(x_{t+1} + \tfrac{j - 1}{j + 2} (x_{t+1} - x_t)\bigr).

    The momentum is dropped (j = 1) at a rescaling and if it points against u. The step is a
    third of ``||w_t - w_{t-1}|| / ||u_t - u_{t-1}||``, grows by at most a fifth at a time, and is never below
    ``eta``. One pass over the data a step.

    Parameters
    ----------
    growth : float above 1, the ratio of successive radii.
    fraction : float, the f of the gate.
    eta : float, the smallest step, Algorithm 1's own, in units of ``problem.unit``.

    Notes
    -----
    It starts at the radius ``||w0||``, at least ``sqrt(problem.unit)``; a w0 that does not point along
    its own ``Z^T p`` (a cosine above 0.9) is shortened to that. It needs no warm-up.

    Accelerated steps on a ball of radius R_k need a multiple of ``sqrt(R_k / gamma_star)`` to converge, and
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
        """Start at ``w0``, without momentum; shorten it if its direction has not converged at its length."""
        check_problem(self, problem)
        at, R_0 = problem.at(w0), math.sqrt(problem.unit)
        u = at.dual_vector
        if at.length > R_0 and float(np.vdot(u, w0 / at.length)) <= 0.9 * at.upper:
            at = problem.at(L2().project(w0, R_0))
        return GatedPRGDState(
            t=0, at=at, phase=1, R_k=max(at.length, R_0), x=at.w, w_last=at.w, dual_vector_last=u,
            step_size=self.eta * problem.unit, j=1,
        )  # fmt: skip

    def step(self, problem: Problem, s: GatedPRGDState) -> GatedPRGDState:
        """Rescale if the direction has converged, else take one accelerated projected step."""
        u = s.at.dual_vector
        if self._has_converged(problem, s):
            R_k = self.growth * s.R_k
            at = problem.at(L2().rescale(s.w, R_k))
            return replace(
                s, t=s.t + 1, at=at, phase=s.phase + 1, R_k=R_k, x=at.w, w_last=s.w, dual_vector_last=u, j=1
            )
        step_size, moved = s.step_size, norm(s.w - s.w_last)
        if s.j > 1 and moved > STILL * s.at.length:
            smoothness = norm(u - s.dual_vector_last) / moved
            step_size = min(STEP_GROWTH * step_size, SAFETY / smoothness if smoothness > 0.0 else math.inf)
            step_size = max(step_size, self.eta * problem.unit)
        x = L2().project(s.w + step_size * u, s.R_k)
        j = s.j + 1 if float(np.vdot(u, x - s.x)) >= 0.0 else 1
        at = problem.at(L2().project(x + (j - 1) / (j + 2) * (x - s.x), s.R_k))
        return replace(s, t=s.t + 1, at=at, x=x, w_last=s.w, dual_vector_last=u, step_size=step_size, j=j)

    def _has_converged(self, problem: Problem, s: GatedPRGDState) -> bool:
        """Return whether w has come to the sphere and its direction has converged there."""
        if s.at.length < 0.9 * s.R_k or self.growth * s.R_k * problem.max_norm > MAX_SCALE:
            return False
        turning, soft = s.at.gap_split
        is_soft = soft > ROUNDING * s.at.upper
        return is_soft and turning <= self.fraction * max(soft, SOFT_ENOUGH / s.at.length)
