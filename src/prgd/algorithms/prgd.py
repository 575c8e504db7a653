"""Progressive rescaling gradient descent: Algorithm 1 of the paper."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from prgd.algorithms.base import PLAIN, PROJECTED, RESCALED, FirstOrder, Moves, State, norm_for, read_norm
from prgd.core.checks import check_positive
from prgd.core.types import Array
from prgd.norms import L2, Norm
from prgd.problem import Problem
from prgd.schedules import Every, Geometric, Radius, StateRadius, Times, as_radius, as_times, check_times


@dataclass(frozen=True, eq=False, kw_only=True)
class PRGDState(State):
    """State of PRGD: the first norm R_0, the number of the next phase, and the radius R_k of this phase."""

    R_0: float


@dataclass(frozen=True, repr=False)
class PRGD(FirstOrder):
    r"""Algorithm 1: rescale to radius R_k at t = T_k, else one projected normalized step.

    .. math::

        w(T_k + 1) &= R_k\, w(T_k) / \|w(T_k)\| \\
        v(t + 1) &= w(t) - \eta \nabla L(w(t)) / L(w(t)) \\
        w(t + 1) &= \mathrm{Proj}_{B(0, R_k)} v(t + 1)

    In another norm than l2, an extension of ours, lengths and balls are those of the norm, the projection is
    radial, and the step is that of `SteepestDescent`, ``v = w + eta ||u||_* s(u)`` with ``u = -grad L / L``.

    Parameters
    ----------
    R : Radius or StateRadius, ``(k, R_0) -> R_k``; a StateRadius also sees the iterate. It may be what
        `prgd.schedules.as_radius` reads, such as 1.2 or ``"polynomial:0.6"``.
    T : Times, ``k -> T_k`` with ``T_0 = 0``, or what `prgd.schedules.as_times` reads, such as 5.
    eta : float, in units of ``problem.unit_in(norm)``.
    R_0 : float, optional; ``||w0||`` by default. Kept in the state, and so not part of the repr.
    project : bool, whether each step is projected to the ball of radius R_k, as in Algorithm 1.
    norm : Norm, str or float, optional; the norm of the problem by default, where l2 is Algorithm 1.

    Notes
    -----
    Section 4 says of the projection that it "does not affect our theoretical results": it is radial, and
    the next rescaling sets the length, so phases of two steps (Theorem 6.1) have the same directions without
    it. Longer phases have not: ``prgd reproduce --only without-projection`` compares them.

    References
    ----------
    Wang, Min and Wu (2024), Algorithm 1 and Theorem 6.1: an exponential rate, from a warm start and for the
    radii of its proof (`prgd.schedules.LiftTo`), if the support vectors span the data.

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
    R_0: float | None = field(default=None, repr=False)
    project: bool = True
    norm: Norm | str | float | None = None
    state_type: ClassVar[type[State]] = PRGDState

    def __post_init__(self) -> None:
        check_positive("eta", self.eta)
        if self.R_0 is not None:
            check_positive("R_0", self.R_0)
        read_norm(self)
        object.__setattr__(self, "R", as_radius(self.R))
        object.__setattr__(self, "T", as_times(self.T))

    def __repr__(self) -> str:
        without = "" if self.project else ", project=False"
        norm = "" if self.norm is None else f", norm={self.norm!r}"
        return f"{type(self).__name__}(R={self.R!r}, T={self.T!r}, eta={self.eta!r}{without}{norm})"

    def init(self, problem: Problem, w0: Array) -> PRGDState:
        """Start at ``w0``, which must not be zero."""
        norm, at = norm_for(problem, self.norm), problem.at(w0)
        norm.check_shape(problem.shape)
        if at.length == 0.0:
            first = "GD or NGD" if norm == L2() else "SteepestDescent"
            raise ValueError(
                "PRGD needs a non-zero w0, since it rescales it; got norm 0. "
                f"Run {first} first and pass its result.w."
            )
        check_times(self.T, is_turning=False)
        R_0 = norm(at.w) if self.R_0 is None else self.R_0
        return PRGDState(t=0, at=at, phase=0, R_0=R_0, R_k=R_0)

    def norm_of(self, problem: Problem) -> Norm:
        """Return the norm of Algorithm 1's lengths and balls."""
        return norm_for(problem, self.norm)

    def moves(self, problem: Problem, s: PRGDState, steps: int) -> Iterator[Moves]:
        """Yield Algorithm 1: at t = T_k a rescaling to R_k, else normalized steps, which are projected."""
        t, k, R_k, end = s.t, s.phase, s.R_k, s.t + steps
        eta, kind = self.eta * problem.unit_in(self.norm_of(problem)), PROJECTED if self.project else PLAIN
        while t < end:
            if t == self.T(k):  # phase k begins: w(T_k + 1) = R_k w(T_k) / ||w(T_k)||
                if isinstance(self.R, StateRadius) and t > s.t:
                    return  # R_k is known when w(T_k) is
                k, R_k = k + 1, self._radius(k, t, s)
                move = Moves(1, kind=RESCALED, R_k=R_k, phase=k)
            else:  # v = w - eta grad L / L, and w is its projection to the ball of radius R_k
                move = Moves(min(self.T(k), end) - t, eta, kind=kind, R_k=R_k, phase=k)
            yield move
            t += move.steps

    def _radius(self, k: int, t: int, s: PRGDState) -> float:
        """Return R_k, and check that the schedules are usable; a StateRadius sees the state at t = T_k."""
        R = self.R
        R_k = R.at(k, s.R_0, s.at) if isinstance(R, StateRadius) else float(R(k, s.R_0))
        if not (math.isfinite(R_k) and R_k > 0.0):
            raise ValueError(f"{R!r} gave the radius {R_k!r} at k = {k}; it must be positive.")
        if self.T(k + 1) <= t:
            raise ValueError(f"{self.T!r} does not advance: T({k + 1}) <= T({k}) = {t}.")
        return R_k
