r"""The two-phase algorithm of Theorem 6.1 with its own constants, and (S1) to (S7) asked of its phases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.algorithms import GD, NGD, PRGD
from prgd.algorithms.base import State
from prgd.core.checks import check_integer, unknown
from prgd.core.types import Array
from prgd.problem import Problem
from prgd.schedules import Every, LiftTo
from prgd_paper.theory.cylinder import Constants, favorable_cylinder
from prgd_paper.theory.infimum import numerical_constants
from prgd_paper.theory.ray_geometry import Geometry
from prgd_paper.theory.ray_geometry import geometry as geometry_of
from prgd_paper.theory.sampled_runs import run_until
from prgd_paper.theory.support import EPS
from prgd_paper.theory.velocity import ON_THE_RAY, decompose, direction_error

Bools = npt.NDArray[np.bool_]
Checks = dict[str, tuple[Bools, Bools]]  # each statement at every phase: as printed, and as corrected


class Phase(NamedTuple):
    """One phase of the proof's algorithm: a rescaling to w(2k+1), and the step from there to v(2k+2)."""

    k: int
    R_k: float
    along: float  # <w(2k+1), w_star>
    off: float  # ||P_perp(w(2k+1))||
    velocity: float  # centripetal velocity at w(2k+1)
    along_after: float  # <v(2k+2), w_star>
    off_after: float  # ||P_perp(v(2k+2))||
    error: float  # ||w/||w|| - w_star|| at w(2k+1)
    margin_error: float  # gamma_star - gamma(w(2k+1))


class Statement(NamedTuple):
    """Whether a statement held at every phase, as printed and as corrected."""

    printed: bool
    corrected: bool
    fails_at: int | None  # the first phase at which the printed statement fails


def check_statements(
    phases: Sequence[Phase], constants: Constants, gamma_star: float, rho: float
) -> dict[str, Statement]:
    r"""Ask (S1) to (S7) of a run, as printed and as corrected.

    With :math:`a_k = \langle w(2k+1), w^\star \rangle`, the corrected (S2) reads

    .. math::

        a_k \ge q^{-k} \Big(a_0 + \frac{\mu D \gamma^\star}{1 - q}\Big) - \frac{\mu D \gamma^\star}{1 - q}
        \quad (q = \sqrt{1 - \mu^2}), \qquad
        a_k \le q^{-k} \Big(a_0 + \frac{\mu D}{1 - q}\Big) - \frac{\mu D}{1 - q} \quad (q = 1 - \mu)

    Parameters
    ----------
    phases : sequence of Phase
        In order, from k = 0.
    constants : Constants
        For rows of norm at most 1.
    gamma_star, rho : float
        The margin and the inradius of the same rows.

    Returns
    -------
    dict of "S1".."S7" to Statement
        Empty without phases. Comparisons allow for the rounding of w, which shows in the part of w off the
        ray when w is far out on the ray.

    Notes
    -----
    What is corrected; (S1) stands as printed.

    - (S2): the two rates change places, and 1 becomes mu D: ``sqrt(1 - mu^2)`` belongs to the lower bound
      with ``gamma_star mu D``, and ``sqrt(1 - 2 mu)``, or better ``1 - mu``, to the upper one with ``mu D``.
    - (S3): stands as printed (for ``mu > 1/2`` its lower bound is read as 0); ``D (1 - mu)`` is a larger one.
    - (S4) follows from (S2), so its displays inherit the swap; the lower one divides by ``(1 - mu) D``, which
      is no upper bound of ``||P_perp(v)||``. The statement stands.
    - (S5): stands as printed, asked with explicit rates up to a factor between 1 and sqrt(2).
    - (S6): the display lacks a square root: ``2 (1 - cos)`` is the square of the error. The statement stands.
    - (S7): Lemma A.1 gives the upper bound only; under Assumption 5.4 the margin error is at least
      ``rho sin(angle)``, so the statement stands with Theta.

    References
    ----------
    (S1) to (S7), proof of Theorem 6.1, Appendix C.1 of the paper.

    Examples
    --------
    >>> constants = Constants("numerical", 1.0, 0.0, math.log(0.3))
    >>> phase = Phase(0, 2.0, 1.8, 1.0, 0.3, 1.9, 0.9, 0.5, 0.1)
    >>> check_statements([phase], constants, gamma_star=0.3, rho=0.1)["S3"].corrected
    True
    """
    if not phases:
        return {}
    p: Any = Phase(*(np.array(column) for column in zip(*phases, strict=True)))  # type: ignore[arg-type]
    # The part along the ray is known to EPS relative, and the part off the ray to EPS times that part.
    slack = 32.0 * EPS * (1.0 + p.along / constants.D)
    with np.errstate(over="ignore"):  # upper bounds may overflow to infinity
        checks = _position_checks(p, constants, gamma_star, slack) | _error_checks(p, constants, rho, slack)
    return {name: _statement(*held) for name, held in checks.items()}


def _position_checks(p: Any, constants: Constants, gamma_star: float, slack: Array) -> Checks:
    """Ask (S1) to (S5), about the parts of w along and off the ray and the radii: printed and corrected."""
    mu, D, k, a_0 = constants.mu, constants.D, p.k.astype(np.float64), float(p.along[0])
    log_slow, log_steepest = _log_rates(mu)
    log_printed = 0.5 * math.log1p(-2.0 * mu) if mu < 0.5 else math.nan
    q_slow, q_fast, q_printed = math.exp(log_slow), 1.0 - mu, math.exp(log_printed)
    lower = _growth(a_0, k, log_slow, mu * D * gamma_star)
    upper = _growth(a_0, k, math.log1p(-mu), mu * D)
    # The same bounds for one phase, from the a_k of the run itself: (S2) is this, repeated.
    next_lower = (p.along + mu * D * gamma_star) / q_slow
    next_upper = (p.along + mu * D) / q_fast
    printed_lower = _growth(a_0, k, log_printed, gamma_star)
    printed_upper = _growth(a_0, k, log_slow, 1.0)
    ratio = p.along_after / p.off_after
    on_cylinder = (np.abs(p.off - D) <= slack * D) & (p.along >= constants.H * (1.0 - slack))
    shrinks = p.off_after <= D * q_slow * (1.0 + slack)
    inside = _between(lower, p.along, upper, slack) & _after_one(next_lower, p.along, next_upper, slack)
    ratio_lower = (printed_lower + mu * gamma_star * D) / (q_fast * D)
    ratio_upper = (printed_upper + mu * D) / (q_printed * D)
    radii = _between(
        a_0 * np.exp(-(k + 1.0) * log_slow),
        D * np.hypot(ratio, 1.0),
        math.sqrt(2.0) * a_0 * np.exp((k + 1.0) * log_steepest),
        slack,
    )
    return {
        "S1": (on_cylinder, on_cylinder),
        "S2": (_between(printed_lower, p.along, printed_upper, slack), inside),
        "S3": (
            # The proof bounds the square by (1 - 2 mu) D^2, which says nothing for mu > 1/2.
            (p.off_after >= D * math.sqrt(max(0.0, 1.0 - 2.0 * mu)) * (1.0 - slack)) & shrinks,
            (p.off_after >= D * q_fast * (1.0 - slack)) & shrinks,
        ),
        "S4": (
            _between(ratio_lower, ratio, ratio_upper, slack),
            _between(next_lower / D, ratio, next_upper / D, slack),
        ),
        "S5": (radii, radii),
    }


def _error_checks(p: Any, constants: Constants, rho: float, slack: Array) -> Checks:
    """Ask (S6) and (S7), about the errors of direction and of margin: printed and corrected."""
    D, k, a_0 = constants.D, p.k.astype(np.float64), float(p.along[0])
    log_slow, log_steepest = _log_rates(constants.mu)
    tangent = p.off / p.along
    sine = p.off / np.hypot(p.off, p.along)
    squared = 4.0 * np.sin(0.5 * np.arctan(tangent)) ** 2  # 2 (1 - cos), without cancellation
    chord = 2.0 * math.sin(math.pi / 8.0)
    error_lower, error_upper = chord * D / a_0 * np.exp(-k * log_steepest), D / a_0 * np.exp(k * log_slow)
    margin_slack = 64.0 * EPS
    below = p.margin_error <= p.error + margin_slack
    return {
        "S6": (
            np.isclose(p.error, squared, rtol=1e-6, atol=0.0),
            _between(error_lower, p.error, error_upper, slack)
            & _between(chord * tangent, p.error, tangent, slack),
        ),
        "S7": (below, below & (p.margin_error >= rho * sine * (1.0 - slack) - margin_slack)),
    }


def _log_rates(mu: float) -> tuple[float, float]:
    """Return log sqrt(1 - mu^2), and log((1 + mu) / (1 - mu)): a_k grows by at most that."""
    return 0.5 * math.log1p(-(mu**2)), math.log1p(mu) - math.log1p(-mu)


def _growth(a_0: float, k: Array, log_q: float, step: float) -> Array:
    """Return ``q^-k (a_0 + step / (1 - q)) - step / (1 - q)``, without cancellation for q near 1."""
    return a_0 * np.exp(-k * log_q) + step * np.expm1(-k * log_q) / -math.expm1(log_q)


def _between(lower: Array, value: Array, upper: Array, slack: Array) -> Bools:
    return (value >= lower * (1.0 - slack)) & (value <= upper * (1.0 + slack))


def _after_one(lower: Array, value: Array, upper: Array, slack: Array) -> Bools:
    """Say for each phase whether the next phase is within the bounds; the last phase has no next one."""
    inside = np.ones(len(value), dtype=bool)
    inside[:-1] = _between(lower[:-1], value[1:], upper[:-1], slack[1:])
    return inside


def _statement(printed: Bools, corrected: Bools) -> Statement:
    fails_at = None if printed.all() else int(np.argmin(printed))
    return Statement(fails_at is None, bool(corrected.all()), fails_at)


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
    >>> bool(errors[-1] < 1e-10), round(found.guaranteed_rate, 3)
    (True, 0.065)
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

    first, is_warm = run_until(problem, NGD() if warm_up == "ngd" else GD(), is_near, max_warm_up)

    def end(ending: Ending, w: Array, phases: tuple[Phase, ...] = ()) -> TheoremRun:
        statements = check_statements(phases, found, gamma_star, favorable_cylinder(g).rho)
        return TheoremRun(found, scale, first.t, phases, statements, ending, w)

    if not is_warm:
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
    second, is_there = run_until(problem, prgd, is_at_the_floor, 2 * max_phases, first.w)
    return end("floor" if is_there else "phases", second.w, tuple(phases))


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
