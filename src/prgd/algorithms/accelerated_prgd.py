"""Accelerated PRGD: a schedule without parameters, whose steps to a given margin are proven."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from prgd.algorithms.base import INSTEAD_OF_JOINT, MAX_SCALE, State, check_problem
from prgd.core.checks import check_positive
from prgd.core.types import Array
from prgd.norms import L2, norm
from prgd.problem import Problem
from prgd.problem.coding import Evaluation
from prgd.rows import Spread
from prgd.rows.tally import COUNT


@dataclass(frozen=True, eq=False, kw_only=True)
class AcceleratedPRGDState(State):
    """State of accelerated PRGD; ``w`` is the extrapolated point, at which the gradient is taken.

    Attributes
    ----------
    R_k : the norm to which the rescaling of this phase led.
    x : the last point before extrapolation, about which the bound is.
    lam : the penalty of this phase.
    L_s : the bound on the curvature of ``log sum exp(-Zw)``.
    steps_left : steps until the phase ends.
    """

    x: Array
    lam: float
    L_s: float
    steps_left: int


@dataclass(frozen=True)
class AcceleratedPRGD:
    r"""Progressive rescaling with a proven number of accelerated steps in each phase.

    An extension of ours, not an algorithm of the paper. Phase k is about

    .. math:: F_\lambda(w) = \log \sum_i e^{-\langle w, z_i \rangle} + \frac{\lambda}{2} \|w\|^2,
        \qquad \lambda_k = \lambda_{k-1} / \rho.

    It begins with the rescaling of Algorithm 1, :math:`w \leftarrow \rho w`, which leaves an excess
    :math:`F - \min F` of at most :math:`(2\rho - 1) \log n` if that of the phase before was at most
    :math:`\log n`. Then

    .. math:: N_k = \Bigl\lceil \sqrt{1 + L_s / \lambda_k}\, \ln(4 \rho - 2) \Bigr\rceil

    steps with constant momentum bring the excess back to :math:`\log n`:

    .. math:: x_{t+1} = w_t - \frac{\nabla F(w_t)}{L_s + \lambda}, \qquad
        w_{t+1} = x_{t+1} + \frac{1 - q}{1 + q} (x_{t+1} - x_t), \qquad q^2 = \frac{\lambda}{L_s + \lambda}.

    At the end of a phase :math:`\gamma(x)^2 \ge \gamma_\star^2 - 4 \lambda_k \log n`, for every separable
    set: the margin error falls like 1 / t^2, and `steps_bound` of prgd_paper says after how many steps it is
    below a given one. One pass a step: the rescaled x has the margin of x.

    Parameters
    ----------
    rho : float above 1, by which the penalty is divided and w multiplied between phases.

    Notes
    -----
    The bound on the steps to a small error grows with ``rho ln(4 rho - 2) / (sqrt(rho) - 1)``, which is
    smallest (8.647) at 1.945 and 8.651 at the default 2.

    The first penalty is the smallest at which the duality gap at w0 is at most ``(2 rho - 1) log n``, which
    is ``||Z^T p||^2 / ((4 rho - 2) log n)`` at w0 = 0. A w0 that has no such penalty is shortened to
    ``(rho - 1/2) log n / max_norm``, where there is one.

    ``L_s`` is the largest squared distance of a row to the mean of the rows, found by one more pass at the
    start, or ``max_norm^2`` if that is smaller. With sample weights q, log n is ``log(sum q / min q)``. With
    an intercept, log n and L_s are means over the classes, each with its own mean. w stays once rounding
    blurs the weights, near ``||w|| = 1e12 / max_norm``.

    References
    ----------
    docs/exponential.md. Wang, Min and Wu (2024), Algorithm 1, for progressive rescaling.
    Nesterov (2004), Introductory lectures on convex optimization, Section 2.2, for constant momentum.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.synthetic_one(0))
    >>> prgd.run(problem, AcceleratedPRGD(), stop=1000).certificate.gap < 1e-3
    True
    """

    rho: float = 2.0
    state_type: ClassVar[type[State]] = AcceleratedPRGDState

    def __post_init__(self) -> None:
        check_positive("rho", self.rho, above=1.0)

    def init(self, problem: Problem, w0: Array) -> AcceleratedPRGDState:
        """Start at ``w0``, shortened if the duality gap is too large there at every penalty."""
        check_problem(self, problem, instead_of_joint=INSTEAD_OF_JOINT, is_exponential=True)
        at = problem.at(w0)
        excess = (2.0 * self.rho - 1.0) * entropy_bound(at)
        lam = smallest_penalty(at, excess)
        if lam is None:
            at = problem.at(L2().project(w0, 0.5 * excess / problem.max_norm))
            lam = smallest_penalty(at, excess) or 0.0
        L_s = curvature_bound(at)
        return AcceleratedPRGDState(
            t=0, at=at, phase=2, R_k=at.length, x=at.w, lam=lam, L_s=L_s,
            steps_left=phase_steps(lam, L_s, self.rho),
        )  # fmt: skip

    def step(self, problem: Problem, s: AcceleratedPRGDState) -> AcceleratedPRGDState:
        """Take one accelerated step; if it is the last of the phase, rescale its end."""
        if s.lam == 0.0:  # the upper bound was 0 at the start, so there is no separator to look for
            return replace(s, t=s.t + 1)
        L = s.L_s + s.lam
        x = s.w + (s.at.dual_vector - s.lam * s.w) / L
        if s.steps_left > 1:
            q = math.sqrt(s.lam / L)
            at = problem.at(x + (1.0 - q) / (1.0 + q) * (x - s.x))
            return replace(s, t=s.t + 1, at=at, x=x, steps_left=s.steps_left - 1)
        R_k, lam = self.rho * norm(x), s.lam / self.rho
        if R_k * problem.max_norm > MAX_SCALE:
            return replace(s, t=s.t + 1)
        at = problem.at(self.rho * x)
        N_k = phase_steps(lam, s.L_s, self.rho)
        return replace(s, t=s.t + 1, at=at, phase=s.phase + 1, R_k=R_k, x=at.w, lam=lam, steps_left=N_k)


def phase_steps(lam: float, L_s: float, rho: float) -> int:
    """Return N_k, after which the excess is ``2 (2 rho - 1)`` times smaller; 0 for the penalty 0."""
    if lam == 0.0:
        return 0
    return math.ceil(math.sqrt(L_s + lam) / math.sqrt(lam) * math.log(4.0 * rho - 2.0))


def entropy_bound(at: Evaluation) -> float:
    """Return log n, or ``log(sum q / min q)``, the mean over classes with an intercept; at least log 2.

    No entropy of dual weights is larger, relative to the sample weights q.
    """
    smallest = at.problem.labels.smallest_weight
    return max(float(np.log(at.tally.scalars[:, COUNT] / smallest).mean()), math.log(2.0))


def curvature_bound(at: Evaluation) -> float:
    """Bound the largest eigenvalue of the covariance of the rows under any weights, by one pass.

    It is at most the largest squared distance to any centre; with an intercept it is the mean over classes.
    """
    problem = at.problem
    spread = problem.rows.ask(Spread(at.tally.mean_rows), problem.labels)
    return min(float(spread.mean()), problem.max_norm**2)


def smallest_penalty(at: Evaluation, excess: float) -> float | None:
    r"""Return the smallest lam with ``||u - lam w||^2 / (2 lam) <= excess``, the duality gap at w; else None.

    It is None as well where rounding blurs the dual weights.
    """
    U, R = at.upper, at.length
    along = float(np.vdot(at.dual_vector, at.w / R)) if R > 0.0 else 0.0
    room = excess - R * (U - along)
    if room < 0.0 or R * at.problem.max_norm > MAX_SCALE:
        return None
    largest = excess + R * along
    return U * (U / (largest + math.sqrt(room * (largest + R * U))))
