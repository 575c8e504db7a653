"""Progressive-rescaling Newton: radii grow in phases, and Newton's method solves each of them."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from prgd.algorithms.base import INSTEAD_OF_JOINT, SOFT_ENOUGH, State, check_problem
from prgd.core.arithmetic import EPSILON
from prgd.core.checks import check_positive
from prgd.core.types import Array, Indices
from prgd.norms import L2, norm
from prgd.problem.certificate import DualWeights, dual_vector_error
from prgd.problem.coding import Evaluation
from prgd.problem.problem import NO_ROWS, Problem
from prgd.solvers.active_rows import ActiveRows

NOT_PREDICTED: Any = {"next_upper": math.inf, "next_rows": NO_ROWS, "next_weights": np.empty(0)}

FORCING = 0.1  # a Newton system is solved to this fraction of its right-hand side, or to the phase's limit
FIRST = 1.0 / 64.0  # the first penalty, in units of 1 / problem.unit
FEW = 1.0  # a step that changes margins of heavy rows by less predicts weights that are not negative
MAX_GROWTH = 64.0  # rho is at most this, or the rho of the algorithm
FLOOR = 1e-6  # a larger growth than rho must leave rounding at this fraction of the gradient
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
    active : rows whose margins are near the smallest; empty before the first step.
    row_reads : rows read so far divided by n, the two products of a conjugate-gradient step included.
    is_done : rounding hides what a smaller penalty would change; w stays.
    rho : the growth of the next phase.
    moved : the largest change of a heavy row's margin, less their mean, by the step that opened the phase.
    next_upper, next_rows, next_weights : the upper bound of the weights that the step predicted, to
        rounding, the rows that carry them, and these weights; infinite and empty while a pass proves more.
    """

    lam: float
    rho: float
    active: Indices = field(default_factory=lambda: NO_ROWS)
    row_reads: float = 1.0
    is_done: bool = False
    moved: float = math.inf
    next_upper: float = math.inf
    next_rows: Indices = field(default_factory=lambda: NO_ROWS)
    next_weights: Array = field(default_factory=lambda: np.empty(0))

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

    .. math:: F_\lambda(w) = \log \sum_i e^{-\langle w, z_i \rangle} + \frac{\lambda}{2} \|w\|^2

    (over the intercept too if there is one), then lam is divided by rho. At a minimiser ``Z^T p = lam w``,
    and the relative gap is exactly ``lam Delta / ||Z^T p||^2``, where Delta is a difference of two
    entropies of p and less than log n (docs/note/note.md): it falls exponentially in phases on
    every separable set. Where each margin row carries weight in some optimal p,

    .. math:: w(\lambda) = \frac{\gamma^* w^*}{\lambda} + c + \lambda c_1 + O(\lambda^2).

    So to leading order the next phase asks for the progressive rescaling of Algorithm 1, w times rho, whose
    excess is bounded. Only c must not be multiplied, and the first Newton step of a phase corrects it
    by one linear system,

    .. math:: w \leftarrow w + (\rho - 1) h, \qquad h = \lambda (Z^\top D Z + \lambda I)^{-1} w, \qquad
        D = \mathrm{diag}(p) - p p^\top.

    Where this step changes the margins of rows that carry weight by less than 1, relative to each other, the
    weights ``p - D Z x`` that it predicts are not negative, and one system serves any growth (Theorem 15 of
    docs/note/note.md). So the next phase has the growth 64 once that change is below 1 and less than half of
    what it was in the phase before, and rho else.

    More Newton steps follow until ``||grad F|| <= min(tol, sqrt(g)) lam ||w||`` with ``g = max(Delta, 0.01)
    / (||w|| ||Z^T p||)``. Then the part of the gap that says that the direction has not converged is at
    most 0.512 ``max(Delta, 0.01) / ||w||``. The corrected step errs by O(lam) where the gate allows
    the square root of lam, so late phases take one system each. Without strict complementarity w has
    a term in log(1/lam), and phases may take a second one.

    **What is certified.** The displacement h has lost c: its gap is O(lam^2), and falls by rho^2 in a phase
    instead of rho. The pass that evaluates w also finds the margin of h. Once the bound on the
    rounding of a pass is a tenth of the gap, the upper bound is proven by the weights ``p - D Z x`` that a
    step x predicts. Their dual vector is ``lam (w + x)``.

    **Active rows.** Systems are solved by conjugate gradients on the rows with a margin within 28 of the
    smallest. One pass finds them at the start, and another only if a tally shows weight elsewhere;
    otherwise a step costs the one pass that certifies it. The line search compares gradients, not values,
    so it works down to the rounding floor, and tries on the active rows first.

    Parameters
    ----------
    rho : float above 1, by which the penalty is divided when a phase is solved; at least 64 in late phases.
    tol : float, the largest gradient that ends a phase, in units of ``lam ||w||``.
    eta : float, the first step that the line search tries; 1 is Newton's.

    Notes
    -----
    The path starts at ``lam = 1 / (64 problem.unit)``, or at ``||Z^T p|| / ||w0||`` if w0 points along its
    own ``Z^T p`` (a cosine above 0.9); any other w0 is shortened to ``sqrt(problem.unit)``, since few rows
    would carry weight at a long one and Newton's steps would see the others too late. The path ends
    (`is_done`) where the rounding of the margins hides the gradient, near ``lam = 1e-14 / problem.unit``;
    further steps cost nothing.

    References
    ----------
    docs/note/note.md, with proofs. Wang, Min and Wu (2024), Algorithm 1, for progressive rescaling.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.digits(0, 1), fit_intercept=True)
    >>> result = prgd.run(problem, ProgressiveNewton(), stop=prgd.any_of(prgd.Gap(1e-9), 100))
    >>> result.status.name, problem.passes < 30
    ('CERTIFIED', True)
    """

    rho: float = 8.0
    tol: float = 0.5
    eta: float = 1.0
    state_type: ClassVar[type[State]] = ProgressiveNewtonState

    def __post_init__(self) -> None:
        check_positive("rho", self.rho, above=1.0)
        check_positive("tol", self.tol)
        check_positive("eta", self.eta)

    def init(self, problem: Problem, w0: Array) -> ProgressiveNewtonState:
        """Start at ``w0`` if it is on the path, else at its direction and the first penalty."""
        check_problem(self, problem, instead_of_joint=INSTEAD_OF_JOINT, is_exponential=True)
        lam, at = FIRST / problem.unit, problem.at(w0)
        if at.length > 0.0:
            fraction = at.upper / at.length / lam
            along = float(at.dual_vector @ (w0 / at.length))
            if MIN_START < fraction < 1.0 and along > 0.9 * at.upper:  # w0 is on the path
                lam *= fraction
            elif (shortened := L2().project(w0, math.sqrt(problem.unit))) is not w0:
                at = problem.at(shortened)
        return ProgressiveNewtonState(t=0, at=at, phase=1, R_k=at.length, lam=lam, rho=self.rho)

    def step(self, problem: Problem, s: ProgressiveNewtonState) -> ProgressiveNewtonState:
        """Take one Newton step; if the phase is solved, the step that rescales."""
        at, w = s.at, s.w
        if s.is_done or at.upper == 0.0:  # with an upper bound of 0 there is no separator to look for
            return replace(s, t=s.t + 1, is_done=True, **NOT_PREDICTED)
        softness = max(at.gap_split[1], SOFT_ENOUGH / at.length) / at.upper if at.length > 0.0 else 1.0
        # Rounded margins blur the gradient by eps max||x||^2 ||w||.
        blur = EPSILON * problem.max_norm**2 / s.lam
        limit = max(min(self.tol, math.sqrt(softness)), blur)
        g, ray, rho = at.dual_vector - s.lam * w, None, self.rho
        if norm(g) <= limit * s.lam * at.length:  # the phase is solved
            if blur * self.rho > 0.1:
                return replace(s, t=s.t + 1, is_done=True, **NOT_PREDICTED)
            rho = max(self.rho, min(s.rho, FLOOR / blur))
            R_k, lam = rho * at.length, s.lam / rho
            s = replace(s, phase=s.phase + 1, R_k=R_k, lam=lam)
            g, ray = at.dual_vector - s.lam * w, w
        rows = ActiveRows.find(problem, at, s.active)
        residual = min(FORCING * norm(g), limit * self.rho / rho * max(s.lam * at.length, 0.1 * at.upper))
        direction = rows.solve(s.lam, g, residual, ray)
        rows.aim(direction)
        if ray is not None:
            moved = rows.movement()
            is_easy = moved <= min(FEW, 0.5 * s.moved)
            s = replace(s, moved=moved, rho=min(max(MAX_GROWTH, self.rho), rho**2) if is_easy else self.rho)
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

        The sizes are eta, eta / 2, ...; the pass also finds the margin of h. The rows aim along the
        direction.
        """
        size = self.eta
        slope, max_length = float(g @ direction), GROWTH * max(norm(g), lam * norm(rows.w))

        def is_better(new: Array, strictness: float) -> bool:
            # F is convex: it falls up to its minimum along the direction, and past that it may rise again.
            # Steps that accept a longer gradient there can cycle.
            is_flatter = 0.0 <= float(new @ direction) <= (1.0 - strictness) * slope
            length = norm(new)
            return length <= (1.0 - strictness * size) * norm(g) or (is_flatter and length <= max_length)

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

    Their dual vector is ``lam (w + x)``, as accurately as x was solved. They are asked for where the bound on
    the rounding of the sums of a pass is a tenth of the gap: weights prove theirs by compensated sums.
    """
    at = s.at
    if at.length == 0.0:  # rounding hides the step, and w = 0 has no margin
        return s
    lower = max(at.gamma, at.second_gamma)
    if abs(s.lam * norm(rows.w + x) - lower) > 1e-3 * at.upper:  # far from it, and x is not solved exactly
        return s
    weights = rows.next_weights()
    upper = norm(at.problem.combine(weights.dense(at.problem.n)))
    s = replace(s, row_reads=s.row_reads + weights.indices.size / at.problem.n)
    if upper - lower > 10.0 * dual_vector_error(at.problem, 1.0):
        return s
    return replace(s, next_upper=upper, next_rows=weights.indices, next_weights=weights.values)
