"""Progressive-rescaling Newton: radii grow in phases, and Newton's method solves each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from prgd._types import Array, Indices
from prgd.algorithms.base import SOFT_ENOUGH, State, check_euclidean, check_exponential, check_not_joint
from prgd.arithmetic import EPSILON
from prgd.certificate import DualWeights
from prgd.checks import check_positive
from prgd.evaluation import Evaluation
from prgd.norms import norm, project_ball
from prgd.pass_bounds import dual_vector_error
from prgd.problem import NO_ROWS, Problem
from prgd.solvers.active_rows import ActiveRows

NOT_PREDICTED: Any = {"next_upper": math.inf, "next_rows": NO_ROWS, "next_weights": np.empty(0)}

FORCING = 0.1  # a Newton system is solved to this fraction of its right-hand side, or to the phase's limit
GROWTH = 4.0  # a step may leave a gradient this many times longer, if it flattens the slope along itself
MIN_STEP = 2.0**-20  # the line search gives up below this fraction of Newton's step
MIN_START = 1e-12  # a w0 that asks for a smaller fraction of the first penalty is longer than rounding allows


@dataclass(frozen=True, eq=False, kw_only=True)
class ProgressiveNewtonState(State):
    """State of progressive-rescaling Newton.

    Attributes
    ----------
    R_k : the norm at which the rescaling of this phase aimed.
    lam : the penalty of this phase.
    active : rows whose margins were near the smallest when the phase began; empty before the first.
    row_reads : rows read so far divided by n, the two products of a conjugate-gradient step included.
    is_done : rounding hides what a smaller penalty would change; w stays.
    next_upper, next_rows, next_weights : the norm of the dual vector of the weights that the step predicted,
        the rows that carry them, and these weights; infinite and empty while the pass proves as much.
    """

    lam: float
    active: Indices
    row_reads: float
    is_done: bool
    next_upper: float
    next_rows: Indices
    next_weights: Array

    @property
    def own_upper(self) -> float:
        """The norm of ``Z^T q`` for the predicted weights q, to rounding."""
        return self.next_upper

    @property
    def own_weights(self) -> DualWeights | None:
        """The predicted weights, which prove a bound that the rounded sums of a pass do not."""
        return DualWeights(self.next_rows, self.next_weights) if self.next_rows.size else None


@dataclass(frozen=True)
class ProgressiveNewton:
    r"""Progressive-rescaling Newton: grow the norm by rescaling, solve each phase by Newton steps.

    An extension of ours, not an algorithm of the paper. A phase minimises

    .. math:: F_\lambda(w) = \log \sum_i e^{-\langle w, z_i \rangle} + \frac{\lambda}{2} \|w\|^2,
        \qquad w(\lambda) = \frac{\gamma^* w^*}{\lambda} + c + o(1)

    (minimised over the intercept if there is one). At its minimiser ``Z^T p = lam w``: the direction
    has converged at this radius. Then lam is divided by rho, and to leading order the path asks
    for the progressive rescaling of Algorithm 1, w times rho. Only c must not be multiplied, so
    the first Newton step of a phase corrects the rescaling by one linear system,

    .. math:: w \leftarrow \rho w - (\rho - 1) c, \qquad
        (Z^\top D Z + \lambda I)\, c = Z^\top D Z w, \qquad D = \mathrm{diag}(p) - p p^\top,

    and more Newton steps follow until ``||grad F|| <= min(tol, sqrt(g)) lam ||w||``. Here g is the
    second part of the split gap (the radius is too soft) over the upper bound; the first part (the
    direction has not converged) is about ``(||grad F|| / lam ||w||)^2 / 2``, so at most half of the second.

    Systems are solved by conjugate gradients on the active rows, those with a margin within 28 of the
    smallest. They are found by one pass when a phase begins, and again if the tally of a step shows
    weight elsewhere; otherwise a step costs the one pass that certifies it. The line search compares
    gradients, not values, so it works down to the rounding floor, and tries on the active rows first.

    Parameters
    ----------
    rho : float above 1, by which the penalty is divided when a phase is solved.
    tol : float, the largest gradient that ends a phase, in units of ``lam ||w||``.
    eta : float, the first step that the line search tries; 1 is Newton's.

    Notes
    -----
    The path starts at ``lam = 1 / problem.unit``, or at ``||Z^T p|| / ||w0||`` if w0 points along its own
    ``Z^T p`` (a cosine above 0.9); any other w0 is shortened to ``sqrt(problem.unit)``, since few rows would
    carry weight at a long one and Newton's steps would see the others too late. The path ends (`is_done`)
    where the rounding of the margins hides the gradient, near ``lam = 1e-14 / problem.unit``;
    further steps cost nothing. The relative gap is about ``lam log(n) / gamma_star^2`` on the path.

    References
    ----------
    Wang, Min and Wu (2024), Algorithm 1, for progressive rescaling.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.digits(0, 1), fit_intercept=True)
    >>> result = prgd.run(problem, ProgressiveNewton(), stop=prgd.any_of(prgd.Gap(1e-9), 100))
    >>> result.status.name, problem.passes < 60
    ('CERTIFIED', True)
    """

    rho: float = 8.0
    tol: float = 0.3
    eta: float = 1.0
    state_type: ClassVar[type[State]] = ProgressiveNewtonState

    def __post_init__(self) -> None:
        check_positive("rho", self.rho, above=1.0)
        check_positive("tol", self.tol)
        check_positive("eta", self.eta)

    def init(self, problem: Problem, w0: Array) -> ProgressiveNewtonState:
        """Start at ``w0`` if it is on the path, else at its direction and the first penalty."""
        check_exponential(self, problem)
        check_euclidean(self, problem)
        check_not_joint(self, problem, "GatedPRGD, or one problem for each class")
        lam, at = 1.0 / problem.unit, problem.at(w0)
        if at.length > 0.0:
            fraction = at.upper / at.length / lam
            along = float(at.dual_vector @ (w0 / at.length))
            if MIN_START < fraction < 1.0 and along > 0.9 * at.upper:  # w0 is on the path
                lam *= fraction
            elif (shortened := project_ball(w0, math.sqrt(problem.unit))) is not w0:
                at = problem.at(shortened)
        return ProgressiveNewtonState(
            t=0,
            at=at,
            phase=1,
            R_k=at.length,
            lam=lam,
            active=NO_ROWS,
            row_reads=1.0,
            is_done=False,
            **NOT_PREDICTED,
        )

    def step(self, problem: Problem, s: ProgressiveNewtonState) -> ProgressiveNewtonState:
        """Take one Newton step; if the phase is solved, the step that rescales."""
        at, w = s.at, s.w
        if s.is_done or at.upper == 0.0:  # with an upper bound of 0 there is no separator to look for
            return replace(s, t=s.t + 1, is_done=True, **NOT_PREDICTED)
        softness = max(at.gap_split[1], SOFT_ENOUGH / at.length) / at.upper if at.length > 0.0 else 1.0
        # Rounded margins blur the gradient by eps max||x||^2 ||w||.
        blur = EPSILON * problem.max_norm**2 / s.lam
        limit = max(min(self.tol, math.sqrt(softness)), blur)
        g, ray = at.dual_vector - s.lam * w, None
        if norm(g) <= limit * s.lam * at.length:  # the phase is solved
            if blur * self.rho > 0.1:
                return replace(s, t=s.t + 1, is_done=True, **NOT_PREDICTED)
            R_k, lam = self.rho * at.length, s.lam / self.rho
            s = replace(s, phase=s.phase + 1, R_k=R_k, lam=lam)
            g, ray = at.dual_vector - s.lam * w, w
        rows = ActiveRows.find(problem, at, s.active)
        residual = min(FORCING * norm(g), limit * max(s.lam * at.length, 0.1 * at.upper))
        direction = rows.solve(s.lam, g, residual, ray)
        # At the opening of a phase the step is (rho - 1) h, whose margin is better than that of w.
        found = self._search(problem, rows, s.lam, g, direction, None if ray is None else direction)
        s = replace(s, t=s.t + 1, row_reads=s.row_reads + float(rows.reads), **NOT_PREDICTED)
        if found is not None:
            return _with_weights(replace(s, at=found[0], active=found[1]), rows, direction)
        # A row outside the active ones may have stopped the search: ask all rows before giving up.
        return replace(s, active=NO_ROWS, is_done=s.active.size == 0)

    def _search(
        self, problem: Problem, rows: ActiveRows, lam: float, g: Array, direction: Array, h: Array | None
    ) -> tuple[Evaluation, Indices] | None:
        """Return the first ``w + size direction`` with a better gradient, and the rows that are active there.

        The sizes are eta, eta / 2, ...; the pass also finds the margin of h.
        """
        size = self.eta
        slope, max_length = float(g @ direction), GROWTH * max(norm(g), lam * norm(rows.w))

        def is_better(new: Array, strictness: float) -> bool:
            is_flatter = abs(float(new @ direction)) <= (1.0 - strictness) * slope
            length = norm(new)
            return length <= (1.0 - strictness * size) * norm(g) or (is_flatter and length <= max_length)

        rows.aim(direction)
        while size >= MIN_STEP:
            w_next = rows.w + size * direction
            if is_better(rows.dual_vector(size) - lam * w_next, 0.1):
                rows.reads += 1.0
                at = problem.at(w_next, h)  # the state of the next step, if it is better over all rows too
                if is_better(at.dual_vector - lam * at.w, 0.05):
                    return at, rows.near(size)
            size *= 0.5
        return None


def _with_weights(s: ProgressiveNewtonState, rows: ActiveRows, x: Array) -> ProgressiveNewtonState:
    """Return the state with the weights that Newton's step x predicts, if a pass cannot prove their bound.

    Their dual vector is ``lam (w + x)``. They are asked for where the gap is below the bound on the rounding of
    the sums of a pass: the bound that weights prove is computed by compensated sums.
    """
    at, upper = s.at, s.lam * norm(rows.w + x)
    lower = at.gamma if at.v is None else max(at.gamma, at.second_margin[0] / norm(at.v))
    if upper - lower > dual_vector_error(at.problem, 1.0):
        return s
    weights = rows.next_weights()
    return replace(s, next_upper=upper, next_rows=weights.indices, next_weights=weights.values)
