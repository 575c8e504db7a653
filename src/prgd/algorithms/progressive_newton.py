"""Progressive-rescaling Newton: radii grow in phases, and Newton's method settles each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from prgd._types import Array
from prgd.algorithms.base import State
from prgd.checks import check_positive
from prgd.losses import EXPONENTIAL
from prgd.norms import norm, project_ball
from prgd.problem import Problem
from prgd.solvers.active_rows import EPSILON, ActiveRows, Indices

FORCING = 0.1  # a Newton system is solved to this share of its right-hand side, or to the phase's limit
GROWTH = 4.0  # a step may leave a gradient this much longer, where it flattens the slope along itself
LEAST_STEP = 2.0**-20
SMALLEST_START = 1e-12  # of the first penalty: a w0 that asks for less is longer than rounding allows


@dataclass(frozen=True, eq=False)
class ProgressiveNewtonState(State):
    """State of progressive-rescaling Newton.

    Attributes
    ----------
    k : the phase, counted from 1.
    R_k : the norm that the rescaling of this phase aimed at.
    lam : the penalty of this phase.
    active : rows whose margins were near the smallest when the phase began; empty before the first.
    row_reads : rows read so far divided by n, the two products of a conjugate-gradient step included.
    settled : rounding hides what a smaller penalty would change; w stays.
    """

    k: int
    R_k: float
    lam: float
    active: Indices
    row_reads: float
    settled: bool


@dataclass(frozen=True)
class ProgressiveNewton:
    r"""Progressive-rescaling Newton: grow the norm by rescaling, settle each phase by Newton steps.

    An extension of ours, not an algorithm of the paper. A phase minimises

    .. math:: F_\lambda(w) = \log \sum_i e^{-\langle w, z_i \rangle} + \frac{\lambda}{2} \|w\|^2,
        \qquad w(\lambda) = \frac{\gamma^* w^*}{\lambda} + c + o(1)

    (minimised over the intercept where there is one). At its minimiser ``Z^T p = lam w``: the direction
    has settled at this radius. Then lam is divided by rho, and to leading order the path asks
    for the progressive rescaling of Algorithm 1, w times rho. Only c must not be multiplied, so
    the first Newton step of a phase corrects the rescaling by one linear system,

    .. math:: w \leftarrow \rho w - (\rho - 1) c, \qquad
        (Z^\top D Z + \lambda I)\, c = Z^\top D Z w, \qquad D = \mathrm{diag}(p) - p p^\top,

    and more Newton steps follow until ``||grad F|| <= min(tol, sqrt(g)) lam ||w||``. Here g is the
    second part of the split gap (the radius is too soft) over the upper bound; the first part (the
    direction has not settled) is about ``(||grad F|| / lam ||w||)^2 / 2``, so at most half of the second.

    Systems are solved by conjugate gradients on the active rows, those with a margin within 28 of the
    smallest. They are found by one pass when a phase begins, and again where the tally of a step shows
    weight elsewhere; otherwise a step costs the one pass that certifies it. The line search compares
    gradients, not values, so it works down to the rounding floor, and tries on the active rows first.

    Parameters
    ----------
    rho : float above 1, by which the penalty is divided when a phase is solved.
    tol : float, the largest gradient that ends a phase, in units of ``lam ||w||``.
    eta : float, the first step that the line search tries; 1 is Newton's.

    Notes
    -----
    The path starts at ``lam = 1 / problem.unit``, or at ``||Z^T p|| / ||w0||`` where w0 points along its own
    ``Z^T p`` (a cosine above 0.9); any other w0 is shortened to ``sqrt(problem.unit)``, since few rows would
    carry weight at a long one and Newton's steps would see the others too late. The path ends (`settled`)
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
        """Start at ``w0`` where it is on the path, else at its direction and the first penalty."""
        if problem.loss != EXPONENTIAL:
            raise ValueError(
                "ProgressiveNewton needs loss='exponential': log L is convex there; "
                f"got loss={str(problem.loss)!r}. The separator of largest margin is the same."
            )
        lam, length, upper = 1.0 / problem.unit, norm(w0), problem.upper_bound(w0)
        if length > 0.0:
            share = upper / length / lam
            is_on_path = (
                SMALLEST_START < share < 1.0 and float(problem.dual(w0) @ (w0 / length)) > 0.9 * upper
            )
            if is_on_path:
                lam *= share
            else:
                w0 = project_ball(w0, math.sqrt(problem.unit))
        return ProgressiveNewtonState(0, w0, 1, norm(w0), lam, np.empty(0, np.int64), 1.0, False)

    def step(self, problem: Problem, s: ProgressiveNewtonState) -> ProgressiveNewtonState:
        """Take one Newton step; where the phase is solved, the step that rescales."""
        w, length, upper = s.w, norm(s.w), problem.upper_bound(s.w)
        if s.settled or upper == 0.0:  # with an upper bound of 0 there is no separator to look for
            return replace(s, t=s.t + 1, settled=True)
        softness = max(problem.gap_split(w)[1], 0.0) / upper if length > 0.0 else 1.0
        # rounded margins blur the gradient by eps max||x||^2 ||w||
        blur = EPSILON * problem.max_norm**2 / s.lam
        limit = max(min(self.tol, math.sqrt(softness)), blur)
        g, ray = problem.dual(w) - s.lam * w, None
        if norm(g) <= limit * s.lam * length:  # the phase is solved
            if blur * self.rho > 0.1:
                return replace(s, t=s.t + 1, settled=True)
            s = replace(s, k=s.k + 1, R_k=self.rho * length, lam=s.lam / self.rho, active=s.active[:0])
            g, ray = problem.dual(w) - s.lam * w, w
        rows = ActiveRows.find(problem, w, s.active)
        residual = min(FORCING * norm(g), limit * max(s.lam * length, 0.1 * upper))
        direction = rows.solve(s.lam, g, residual, ray)
        w_next = self._search(problem, rows, s.lam, g, direction)
        s = replace(s, t=s.t + 1, row_reads=s.row_reads + float(rows.reads))
        if w_next is not None:
            return replace(s, w=w_next, active=rows.indices)
        # a row outside the active ones may have stopped the search: look at all of them before giving up
        return replace(s, active=s.active[:0], settled=s.active.size == 0)

    def _search(
        self, problem: Problem, rows: ActiveRows, lam: float, g: Array, direction: Array
    ) -> Array | None:
        """Return the first ``w + size direction`` with a better gradient, for size eta, eta / 2, ..."""
        size = self.eta
        slope, most = float(g @ direction), GROWTH * max(norm(g), lam * norm(rows.w))

        def is_better(new: Array, strictness: float) -> bool:
            is_flatter = abs(float(new @ direction)) <= (1.0 - strictness) * slope
            length = norm(new)
            return length <= (1.0 - strictness * size) * norm(g) or (is_flatter and length <= most)

        rows.aim(direction)
        while size >= LEAST_STEP:
            w_next = rows.w + size * direction
            if is_better(rows.dual(size) - lam * w_next, 0.1):
                w_next.flags.writeable = False  # the problem then knows it again, and `run` pays no pass
                rows.reads += 1.0
                if is_better(problem.dual(w_next) - lam * w_next, 0.05):
                    return w_next
            size *= 0.5
        return None
