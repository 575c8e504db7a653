r"""The two-phase algorithm of Theorem 6.1 with its own constants, and (S1) to (S7) watched at each phase."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from prgd.algorithms import GD, NGD, PRGD
from prgd.algorithms.base import State
from prgd.core.checks import check_integer, unknown
from prgd.core.types import Array
from prgd.problem import Problem
from prgd.running.history import Status
from prgd.schedules import Every, LiftTo
from prgd_paper.theory.cylinder import Constants, favorable_cylinder
from prgd_paper.theory.infimum import numerical_constants
from prgd_paper.theory.ray_geometry import Geometry
from prgd_paper.theory.ray_geometry import geometry as geometry_of
from prgd_paper.theory.sampled_runs import run_until
from prgd_paper.theory.statements import Phase, Statement, check_statements
from prgd_paper.theory.velocity import ON_THE_RAY, decompose, direction_error

MIN_MU = 1e-15  # a step of a smaller relative size mu is lost in the rounding of w
Ending = Literal["floor", "phases", "warm-up", "on the ray", "step below rounding"]


@dataclass(frozen=True, eq=False)
class TheoremRun:
    """The phases of one run of the proof's algorithm, and which statements held.

    Attributes
    ----------
    constants : Constants
        D, H and mu, for the rows divided by ``scale``.
    scale : float
        The rows were divided by this, to have norm at most 1.
    warm_up_steps : int
    phases : tuple of Phase
    statements : mapping of "S1".."S7" to Statement
        Whether each held at every phase, as printed and as corrected; empty without phases.
    ending : {"floor", "phases", "warm-up", "on the ray", "step below rounding"}
        Why the run ended. "floor": the direction came within the floor of w_star. "phases": the limit on
        phases was reached first. "warm-up": the warm-up did not come within epsilon of w_star in its limit
        of steps. "on the ray": the warm-up ended on the max-margin ray, where
        ``R_k = D ||w|| / ||P_perp w||`` divides by 0. "step below rounding": ``eta = mu D`` moves w by less
        than rounding, so no phase was run.
    w : ndarray of shape (d,)
        The last iterate, for the rows divided by ``scale``.

    Examples
    --------
    >>> import prgd
    >>> found = theorem_run(prgd.datasets.toy(0.3))
    >>> steps, errors = found.errors()
    >>> bool(errors[-1] < 1e-10), round(found.steps_per_decimal)
    (True, 36)
    """

    constants: Constants
    scale: float
    warm_up_steps: int
    phases: tuple[Phase, ...]
    statements: Mapping[str, Statement]
    ending: Ending
    w: Array

    def __repr__(self) -> str:
        error = f", error {self.phases[-1].error:.2e}" if self.phases else ""
        return (
            f"TheoremRun({self.constants.kind}, {self.warm_up_steps} warm-up steps, {len(self.phases)} phases"
            f"{error}; {self.ending})"
        )

    @property
    def guaranteed_rate(self) -> float:
        """The c of ``e^(-c t)`` that the proof promises: ``-log(1 - mu^2) / 4``, two steps a phase."""
        return -math.log1p(-(self.constants.mu**2)) / 4.0

    @property
    def steps_per_decimal(self) -> float:
        """The steps in which the promised rate makes the error ten times smaller."""
        return math.log(10.0) / self.guaranteed_rate

    def errors(self) -> tuple[Array, Array]:
        """Return the steps t = 2k + 2 of the acceleration phase and the direction error at each."""
        t = np.array([2.0 * p.k + 2.0 for p in self.phases])
        angle = np.arctan2([p.off_after for p in self.phases], [p.along_after for p in self.phases])
        return t, 2.0 * np.sin(0.5 * angle)


def theorem_run(
    data: Any,
    constants: str | Constants = "convexity",
    *,
    warm_up: str = "ngd",
    max_warm_up: int = 100_000,
    max_phases: int = 20_000,
    floor: float = 1e-10,
) -> TheoremRun:
    r"""Run the algorithm of the proof of Theorem 6.1 and watch its statements (S1) to (S7).

    Warm-up from 0 until :math:`\|\hat w - w^\star\| < \epsilon = \min\{D/2H, 1/2\}`; then Algorithm 1 with

    .. math::

        \eta = \mu D, \qquad T_k = 2k, \qquad R_k = D \|w(T_k)\| / \|P_\perp(w(T_k))\|

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y), Dataset or Geometry
        Non-degenerate. Rows are divided by ``max(1, max_i ||z_i||)`` first.
    constants : {"printed", "corrected", "convexity", "numerical"} or Constants
        The first three are those of `favorable_cylinder`. The corrected ones are out of the reach of
        float64 (``mu`` is of the order ``e^(-2D)``), and so is the speed of the printed ones; those by
        convexity are proven and in reach. ``"numerical"`` takes D and mu from `numerical_constants`.
    warm_up : {"ngd", "gd"}
    max_warm_up, max_phases : int
        Limits on the steps of the warm-up and on the phases, two steps each.
    floor : float
        Stop when the direction error is this small: below 1e-10 rounding of w shows in its part off the ray.

    Returns
    -------
    TheoremRun

    Raises
    ------
    NotSeparableError
        When there is no separator; ``weights`` are Gordan's.
    ValueError
        When the data are degenerate, or a parameter is not one of those above.

    References
    ----------
    Theorem 6.1 and its proof, Appendix C.1 of the paper.

    Examples
    --------
    >>> import prgd
    >>> found = theorem_run(prgd.datasets.toy(0.3))
    >>> found.ending, all(s.corrected for s in found.statements.values())
    ('floor', True)
    >>> [name for name, s in found.statements.items() if not s.printed]
    ['S2', 'S4', 'S6']
    """
    check_integer("max_warm_up", max_warm_up, minimum=1)
    check_integer("max_phases", max_phases, minimum=1)
    if warm_up not in ("ngd", "gd"):
        raise unknown("warm-up", warm_up, ["ngd", "gd"])
    g = geometry_of(data)
    scale = g.scale
    if scale > 1.0:
        g = geometry_of(g.Z / scale)
    found = _constants(g, constants)
    if not found.mu < 1.0:
        raise ValueError(
            f"mu must be below 1, as velocities are for rows of norm at most 1; got {found.mu:.6g}."
        )
    w_star, gamma_star = g.reference.w_star, g.reference.gamma_star
    problem = Problem(g.Z, scale="none")

    def is_near(s: State) -> bool:
        return bool(np.any(s.w)) and direction_error(s.w, w_star) < found.epsilon

    first = run_until(problem, NGD() if warm_up == "ngd" else GD(), is_near, max_warm_up)

    def end(ending: Ending, w: Array, phases: tuple[Phase, ...] = ()) -> TheoremRun:
        statements = check_statements(phases, found, gamma_star, favorable_cylinder(g).rho)
        return TheoremRun(found, scale, first.t, phases, statements, ending, w)

    if first.status is not Status.REACHED:
        return end("warm-up", first.w)
    _, off = decompose(first.w, w_star)
    if not float(np.linalg.norm(off)) > ON_THE_RAY * float(np.linalg.norm(first.w)):
        return end("on the ray", first.w)
    if found.mu < MIN_MU:
        return end("step below rounding", first.w)
    eta = found.mu * found.D
    phases: list[Phase] = []

    def is_at_the_floor(s: State) -> bool:
        if s.t % 2 == 1:  # w(2k + 1): a rescaling comes before, a projected step after
            phases.append(_phase(s, w_star, gamma_star, eta))
            return False
        return bool(phases) and phases[-1].error <= floor

    prgd = PRGD(LiftTo(found.D, w_star), Every(2), eta)
    second = run_until(problem, prgd, is_at_the_floor, 2 * max_phases, first.w)
    return end("floor" if second.status is Status.REACHED else "phases", second.w, tuple(phases))


def _phase(s: State, w_star: Array, gamma_star: float, eta: float) -> Phase:
    """Return what the proof speaks of at w(2k + 1) and at the projected step from there."""
    gradient = s.at.normalized_gradient
    along, off = decompose(s.w, w_star)
    along_after, off_after = decompose(s.w - eta * gradient, w_star)
    length = float(np.linalg.norm(off))
    return Phase(
        k=(s.t - 1) // 2,
        R_k=float(np.linalg.norm(s.w)),
        along=along,
        off=length,
        velocity=float(gradient @ off) / length,
        along_after=along_after,
        off_after=float(np.linalg.norm(off_after)),
        error=direction_error(s.w, w_star),
        margin_error=gamma_star - s.at.gamma,
    )


def _constants(g: Geometry, constants: str | Constants) -> Constants:
    if isinstance(constants, Constants):
        if constants.scale != 1.0:
            raise ValueError(
                f"These constants are for rows of norm up to {constants.scale:.6g}: divide the rows by that, "
                "and find the constants of the result."
            )
        return constants
    if constants == "numerical":
        return numerical_constants(g)
    if constants not in ("printed", "corrected", "convexity"):
        raise unknown("kind of constants", constants, ["printed", "corrected", "convexity", "numerical"])
    return favorable_cylinder(g)[constants]
