"""Radii R_k and times T_k of Algorithm 1, as frozen values whose repr is the whole configuration.

Radii come in two kinds. A `Radius` is a formula of ``(k, R_0)`` and serves the core and the deep optimizers
alike; it works elementwise if R_0 is an array or a tensor. A `StateRadius` also reads the iterate, through
the `Evaluation` at which phase k begins, so the deep optimizers refuse it. A time is called with ``k`` and
returns the absolute step of the k-th rescaling: an integer, from ``T(0) = 0`` on, strictly increasing.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from prgd.core.checks import check_integer, check_positive, parse
from prgd.core.types import Array
from prgd.norms import norm

if TYPE_CHECKING:
    from prgd.problem.coding import Evaluation

# 1.2**k overflows near k = 3893; beyond this norm no double-precision margin changes any more.
MAX_RADIUS = 1e200
NEVER = 2**62


class Radius:
    """The radius of phase k as a formula of k and the first norm R_0."""

    def __call__(self, k: int, R_0: Any) -> Any:
        """Return R_k; elementwise if R_0 is an array or a tensor."""
        raise NotImplementedError


class StateRadius:
    """The radius of phase k as a function of the iterate at which the phase begins."""

    def at(self, k: int, R_0: float, at: Evaluation) -> float:
        """Return R_k for a phase that begins at ``at``."""
        raise NotImplementedError


class Times(Protocol):
    """``k -> T_k``."""

    def __call__(self, k: int) -> int:
        """Return the absolute step at which phase k begins."""


def _at_most(R_k: Any, cap: float) -> Any:
    return min(R_k, cap) if isinstance(R_k, (int, float)) else R_k.clip(max=cap)


def _power(R_0: Any, base: float, exponent: float, cap: float = MAX_RADIUS) -> Any:
    """Return ``R_0 * base**exponent``, at most ``cap``."""
    growth = exponent * math.log(base)
    if isinstance(R_0, float) and growth < 700.0:
        return min(R_0 * base**exponent, cap)
    with np.errstate(over="ignore"):  # the cap follows
        if growth < 700.0:
            return _at_most(R_0 * base**exponent, cap)
        # e^growth overflows alone, but a small R_0 brings the product back into range.
        factor = math.exp(min(0.5 * growth, 700.0))
        return _at_most(_at_most(R_0 * factor, MAX_RADIUS) * factor, cap)


@dataclass(frozen=True)
class Geometric(Radius):
    r"""``R_k = R_0 c^k``: PRGD(exp) of Section 7, where c = 1.2. Capped at 1e200.

    .. math:: R_k = R_0\, c^k

    Examples
    --------
    >>> Geometric(2.0)(3, 1.0)
    8.0
    """

    c: float = 1.2

    def __post_init__(self) -> None:
        check_positive("c of Geometric", self.c)

    def __call__(self, k: int, R_0: Any) -> Any:
        """Return R_k."""
        return _power(R_0, self.c, k)


@dataclass(frozen=True, repr=False)
class Polynomial(Radius):
    r"""``R_k = min(R_0 (shift + k / scale)^a, cap)``.

    .. math:: R_k = \min\big(R_0\, (\mathrm{shift} + k / \mathrm{scale})^a,\ \mathrm{cap}\big)

    PRGD(poly) of Section 7 is ``Polynomial(1.2)``: the paper prints ``k^a``, which is 0 at k = 0, so it is
    read with k + 1. Appendix E.2 (VGG-16 on CIFAR-10) has ``Polynomial(0.2, 2, 3000, 1000)``, which is
    `APPENDIX_RADII`: as printed there, the first rescaling already grows the norm, by ``shift^a``.

    Examples
    --------
    >>> Polynomial(2.0)(2, 1.0)
    9.0
    >>> [round(APPENDIX_RADII(k, 100.0), 2) for k in (0, 3000, 10**9)]
    [114.87, 124.57, 1000.0]
    """

    a: float = 1.2
    shift: float = 1.0
    scale: float = 1.0
    cap: float = MAX_RADIUS

    def __post_init__(self) -> None:
        for f in fields(self):
            check_positive(f"{f.name} of Polynomial", getattr(self, f.name))

    def __repr__(self) -> str:
        others = [f for f in fields(self)[1:] if getattr(self, f.name) != f.default]
        return f"Polynomial(a={self.a!r}{''.join(f', {f.name}={getattr(self, f.name)!r}' for f in others)})"

    def __call__(self, k: int, R_0: Any) -> Any:
        """Return R_k."""
        return _power(R_0, self.shift + k / self.scale, self.a, self.cap)


APPENDIX_RADII = Polynomial(0.2, shift=2.0, scale=3000.0, cap=1000.0)


@dataclass(frozen=True)
class Constant(Radius):
    r"""``R_k = R_0``: every phase returns to the first radius.

    .. math:: R_k = R_0
    """

    def __call__(self, k: int, R_0: Any) -> Any:
        """Return R_0."""
        return R_0


@dataclass(frozen=True)
class ExplicitRadii(Radius):
    """The radii of a list; the last one stays.

    Examples
    --------
    >>> ExplicitRadii((1.0, 5.0))(7, 2.0)
    5.0
    """

    radii: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "radii", tuple(self.radii))
        if not self.radii:
            raise ValueError("ExplicitRadii needs at least one radius; got none.")
        for R_k in self.radii:
            check_positive("each radius", R_k)

    def __call__(self, k: int, R_0: Any) -> Any:
        """Return the k-th radius, whatever R_0 is."""
        return self.radii[min(k, len(self.radii) - 1)] + 0.0 * R_0


@dataclass(frozen=True, eq=False)
class LiftTo(StateRadius):
    r"""``R_k = D ||w|| / ||P_perp w||``: lifts w to distance D from the max-margin ray, along its own ray.

    .. math:: R_k = D\, \|w\| / \|P_\perp w\|

    The choice in the proof of Theorem 6.1. It knows ``w_star``, and ``D`` is in the units of w, that is
    1 / max ||x_i||. In Proposition 4.1's toy problem ``w_star`` is the first axis and D = 1.

    Examples
    --------
    >>> import prgd
    >>> at = prgd.Problem([[0.3, 0.95]]).at(np.array([3.0, 4.0]))
    >>> LiftTo(1.0, np.array([1.0, 0.0])).at(0, 1.0, at)
    1.25
    """

    D: float
    w_star: Array = field(repr=False)

    def __post_init__(self) -> None:
        check_positive("D of LiftTo", self.D)
        w_star = np.array(self.w_star, dtype=np.float64)
        if w_star.ndim != 1 or not norm(w_star) > 0.0:
            raise ValueError("w_star of LiftTo must be a non-zero vector.")
        object.__setattr__(self, "w_star", w_star / norm(w_star))

    def at(self, k: int, R_0: float, at: Evaluation) -> float:
        """Return R_k, capped at 1e200 if w has reached the ray to rounding."""
        w = at.w
        off_ray = norm(w - float(w @ self.w_star) * self.w_star)
        return min(self.D * norm(w) / off_ray, MAX_RADIUS) if off_ray > 0.0 else MAX_RADIUS


@dataclass(frozen=True)
class Every:
    r"""``T_k = steps * k``: one rescaling, then ``steps - 1`` projected steps. The paper takes 5.

    .. math:: T_k = \mathrm{steps} \cdot k

    Examples
    --------
    >>> [Every(5)(k) for k in range(3)]
    [0, 5, 10]
    """

    steps: int = 5

    def __post_init__(self) -> None:
        # A phase of one step only rescales, so w would never turn.
        check_integer("steps of Every", self.steps, minimum=2)

    def __call__(self, k: int) -> int:
        """Return T_k."""
        return self.steps * k


@lru_cache(maxsize=64)
def _phase_ends(T_0: float, b: float) -> list[int]:
    return [0]


@dataclass(frozen=True)
class PolynomialPhases:
    r"""``T_{k+1} - T_k = T_0 (k + 1)^b`` steps, rounded up to an integer of at least 2.

    .. math:: T_{k+1} - T_k = \lceil T_0\, (k + 1)^b \rceil

    The paper prints ``T_0 k^b`` (Section 7.1), which is 0 at k = 0; it is read with k + 1.

    Examples
    --------
    >>> [PolynomialPhases(5, 0.6)(k) for k in range(4)]
    [0, 5, 13, 23]
    """

    T_0: float = 5.0
    b: float = 0.6

    def __post_init__(self) -> None:
        check_positive("T_0 of PolynomialPhases", self.T_0)
        if not (math.isfinite(self.b) and self.b >= 0.0):
            raise ValueError(f"b of PolynomialPhases must be at least 0; got {self.b!r}.")

    def __call__(self, k: int) -> int:
        """Return T_k."""
        ends = _phase_ends(self.T_0, self.b)  # shared by equal schedules, grown as asked
        while len(ends) <= k:
            ends.append(ends[-1] + max(2, math.ceil(self.T_0 * len(ends) ** self.b)))
        return ends[k]


@dataclass(frozen=True)
class PowerTimes:
    r"""``T_k = scale (shift + k / scale)^b - scale shift^b``, rounded up: the times of Appendix E.2.

    .. math::

        T_k = \lceil \mathrm{scale}\, (\mathrm{shift} + k / \mathrm{scale})^b - \mathrm{scale} \cdot
        \mathrm{shift}^b \rceil

    The appendix counts from the first step, so that its T_0, here ``warm_up``, is the length of the
    warm-up; schedules count from the end of it.

    Examples
    --------
    >>> times = PowerTimes()
    >>> times.warm_up, [times(k) for k in (0, 1, 2, 3000)]
    (24000, [0, 13, 25, 57000])
    """

    scale: float = 3000.0
    shift: float = 2.0
    b: float = 3.0

    def __post_init__(self) -> None:
        for name in ("scale", "shift"):
            check_positive(f"{name} of PowerTimes", getattr(self, name))
        if not (math.isfinite(self.b) and self.b >= 1.0 and self.b * self.shift ** (self.b - 1.0) >= 2.0):
            raise ValueError(
                "PowerTimes needs b of at least 1 and b shift^(b - 1) of at least 2, or its first phase "
                f"would only rescale; got b = {self.b!r} and shift = {self.shift!r}."
            )

    @property
    def warm_up(self) -> int:
        """``T_0`` as the appendix counts it."""
        return math.ceil(self._absolute(0))

    def __call__(self, k: int) -> int:
        """Return T_k, in steps after the warm-up."""
        return math.ceil(self._absolute(k) - self._absolute(0))

    def _absolute(self, k: int) -> float:
        return self.scale * math.pow(self.shift + k / self.scale, self.b)


@dataclass(frozen=True)
class ExplicitTimes:
    """The times of a list that begins at 0; after the last one, no rescaling follows.

    Examples
    --------
    >>> ExplicitTimes((0, 5, 12))(2)
    12
    """

    times: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", tuple(math.ceil(T_k) for T_k in self.times))
        if not self.times or self.times[0] != 0:
            raise ValueError(f"ExplicitTimes must begin at T_0 = 0; got {self.times}.")
        for k, (a, b) in enumerate(zip(self.times, self.times[1:], strict=False)):
            if b <= a:
                raise ValueError(
                    f"Times must increase, or phase {k} does not advance; got T_{k} = {a}, T_{k + 1} = {b}."
                )

    def __call__(self, k: int) -> int:
        """Return T_k."""
        return self.times[k] if k < len(self.times) else NEVER


RADII: dict[str, type[Radius]] = {
    "geometric": Geometric,
    "polynomial": Polynomial,
    "constant": Constant,
    "explicit": ExplicitRadii,
}
TIMES: dict[str, Any] = {
    "every": Every,
    "polynomial": PolynomialPhases,
    "power": PowerTimes,
    "explicit": ExplicitTimes,
}


def as_radius(R: Any) -> Radius | StateRadius:
    """Return the radius itself, or the one that text describes; a number c is ``Geometric(c)``.

    Examples
    --------
    >>> as_radius("geometric:1.2"), as_radius(1.5)
    (Geometric(c=1.2), Geometric(c=1.5))
    """
    if isinstance(R, (int, float, np.integer, np.floating)) and not isinstance(R, bool):
        return Geometric(float(R))
    if isinstance(R, str):
        return cast(Radius, parse(R, RADII, "radius"))
    if not (callable(R) or isinstance(R, StateRadius)):
        raise TypeError(
            "radius must be a number, text such as 'geometric:1.2', a schedule of prgd.schedules or a "
            f"function (k, R_0) -> R_k; got {R!r}."
        )
    if inspect.isfunction(R):
        try:
            inspect.signature(R).bind(0, 1.0)
        except TypeError:
            raise TypeError(f"A radius must take two arguments, (k, R_0) -> R_k; got {R!r}.") from None
    return cast("Radius | StateRadius", R)


def check_times(T: Times, is_turning: bool = True) -> None:
    """Raise ``ValueError`` unless phase 0 begins at step 0 and, if asked, phases have steps that turn w."""
    if T(0) != 0:
        raise ValueError(f"Algorithm 1 begins with a rescaling: T(0) must be 0; got {T(0)}.")
    if is_turning and (T(1), T(2)) == (1, 2):
        raise ValueError(
            f"Phases of one step only rescale, so w never turns; got T(1) = 1 and T(2) = 2 of {T!r}. Phases "
            "need 2 steps or more."
        )


def as_times(T: Any) -> Times:
    """Return the times themselves, or those that text describes; an integer is ``Every(steps)``.

    Examples
    --------
    >>> as_times("polynomial:5,0.6"), as_times(5)
    (PolynomialPhases(T_0=5.0, b=0.6), Every(steps=5))
    """
    if isinstance(T, (int, np.integer)) and not isinstance(T, bool):
        return Every(int(T))
    if isinstance(T, str):
        return cast(Times, parse(T, TIMES, "kind of phases"))
    if not callable(T):
        raise TypeError(
            "times must be an integer, text such as 'every:5', a schedule of prgd.schedules or a function "
            f"k -> T_k; got {T!r}."
        )
    return cast(Times, T)
