"""Radii R_k and times T_k of Algorithm 1, as frozen values whose repr is the whole configuration.

A radius is called with ``(k, w, R_0)``, so that state-dependent ones are schedules too. A time is
called with ``k`` and returns the absolute step of the k-th rescaling: whole, from ``T(0) = 0`` on,
strictly increasing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np

from prgd._types import Array
from prgd.checks import check_positive, check_whole, unknown
from prgd.norms import norm

# 1.2**k overflows near k = 3893; beyond this norm no double-precision margin changes any more
MAX_RADIUS = 1e200
NEVER = 2**62


class Radius(Protocol):
    """``(k, w, R_0) -> R_k``."""

    def __call__(self, k: int, w: Array, R_0: float) -> float:
        """Return the radius of phase k, which begins at ``w``."""
        ...


class Times(Protocol):
    """``k -> T_k``."""

    def __call__(self, k: int) -> int:
        """Return the absolute step at which phase k begins."""
        ...


def _power(R_0: float, base: float, exponent: float) -> float:
    """Return ``R_0 * base**exponent``, capped at ``MAX_RADIUS``."""
    growth = exponent * math.log(base)
    if math.log(R_0) + growth >= math.log(MAX_RADIUS):
        return MAX_RADIUS
    R_k = R_0 * base**exponent if growth < 700.0 else math.exp(math.log(R_0) + growth)
    return min(R_k, MAX_RADIUS)


@dataclass(frozen=True)
class Geometric:
    """``R_k = R_0 c^k``: PRGD(exp) of Section 7, where c = 1.2. Capped at 1e200.

    Examples
    --------
    >>> Geometric(2.0)(3, np.ones(1), 1.0)
    8.0
    """

    c: float = 1.2

    def __post_init__(self) -> None:
        check_positive("c of Geometric", self.c)

    def __call__(self, k: int, w: Array, R_0: float) -> float:
        """Return R_k."""
        return _power(R_0, self.c, k)


@dataclass(frozen=True)
class Polynomial:
    """``R_k = R_0 (k + 1)^a``: PRGD(poly) of Section 7, where a = 1.2.

    The paper prints ``k^a``, which is 0 at k = 0; it is read with k + 1.

    Examples
    --------
    >>> Polynomial(2.0)(2, np.ones(1), 1.0)
    9.0
    """

    a: float = 1.2

    def __post_init__(self) -> None:
        check_positive("a of Polynomial", self.a)

    def __call__(self, k: int, w: Array, R_0: float) -> float:
        """Return R_k."""
        return _power(R_0, k + 1, self.a)


@dataclass(frozen=True)
class PowerRadii:
    """``R_k = min(R_0 (shift + k / scale)^a, cap)``: the radii of Appendix E.2, for VGG-16 on CIFAR-10.

    As the appendix prints it, the first rescaling already grows the norm, by ``shift^a``.

    Examples
    --------
    >>> [round(PowerRadii()(k, np.ones(1), 100.0), 2) for k in (0, 3000, 10**9)]
    [114.87, 124.57, 1000.0]
    """

    scale: float = 3000.0
    shift: float = 2.0
    a: float = 0.2
    cap: float = 1000.0

    def __post_init__(self) -> None:
        for name in ("scale", "shift", "a", "cap"):
            check_positive(f"{name} of PowerRadii", getattr(self, name))

    def __call__(self, k: int, w: Array, R_0: float) -> float:
        """Return R_k."""
        return min(_power(R_0, self.shift + k / self.scale, self.a), self.cap)


@dataclass(frozen=True)
class Constant:
    """``R_k = R_0``: every phase returns to the first radius."""

    def __call__(self, k: int, w: Array, R_0: float) -> float:
        """Return R_0."""
        return R_0


@dataclass(frozen=True)
class ExplicitRadii:
    """The radii of a list; the last one stays.

    Examples
    --------
    >>> ExplicitRadii((1.0, 5.0))(7, np.ones(1), 2.0)
    5.0
    """

    radii: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "radii", tuple(self.radii))
        if not self.radii:
            raise ValueError("ExplicitRadii needs at least one radius; got none.")
        for R_k in self.radii:
            check_positive("each radius", R_k)

    def __call__(self, k: int, w: Array, R_0: float) -> float:
        """Return the k-th radius."""
        return self.radii[min(k, len(self.radii) - 1)]


@dataclass(frozen=True)
class ToyRadius:
    """``R_k = ||w|| / w_2``: lifts w to the line w_2 = 1 (proof of Proposition 4.1).

    Examples
    --------
    >>> ToyRadius()(0, np.array([3.0, 4.0]), 1.0)
    1.25
    """

    def __call__(self, k: int, w: Array, R_0: float) -> float:
        """Return R_k."""
        return norm(w) / float(w[1])


@dataclass(frozen=True, eq=False)
class ProofRadius:
    """``R_k = D ||w|| / ||P_perp w||``: lifts w to distance D from the max-margin ray.

    The choice of the proof of Theorem 6.1; it knows ``w_star``. ``D`` is in the units of w, that is
    1 / max ||x_i||.
    """

    D: float
    w_star: Array = field(repr=False)

    def __post_init__(self) -> None:
        check_positive("D of ProofRadius", self.D)
        w_star = np.array(self.w_star, dtype=np.float64)
        if w_star.ndim != 1 or not norm(w_star) > 0.0:
            raise ValueError("w_star of ProofRadius must be a non-zero vector.")
        object.__setattr__(self, "w_star", w_star / norm(w_star))

    def __call__(self, k: int, w: Array, R_0: float) -> float:
        """Return R_k, capped at 1e200 where w has reached the ray to rounding."""
        off_ray = norm(w - float(w @ self.w_star) * self.w_star)
        return min(self.D * norm(w) / off_ray, MAX_RADIUS) if off_ray > 0.0 else MAX_RADIUS


@dataclass(frozen=True)
class Every:
    """``T_k = steps * k``: one rescaling, then ``steps - 1`` projected steps. The paper takes 5.

    Examples
    --------
    >>> [Every(5)(k) for k in range(3)]
    [0, 5, 10]
    """

    steps: int = 5

    def __post_init__(self) -> None:
        # a phase of one step only rescales: w would never turn
        check_whole("steps of Every", self.steps, least=2)

    def __call__(self, k: int) -> int:
        """Return T_k."""
        return self.steps * k


@lru_cache(maxsize=64)
def _phase_ends(T_0: float, b: float) -> list[int]:
    return [0]


@dataclass(frozen=True)
class PolynomialPhases:
    """``T_{k+1} - T_k = T_0 (k + 1)^b`` steps, rounded up to a whole number of at least 2.

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
    """``T_k = scale (shift + k / scale)^b - scale shift^b``, rounded up: the times of Appendix E.2.

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


def parse_radius(text: str) -> Radius:
    """Read a radius as the command line writes it: ``geometric:1.2``, ``polynomial:0.6``, ...

    Examples
    --------
    >>> parse_radius("geometric:1.2")
    Geometric(c=1.2)
    """
    name, _, rest = text.partition(":")
    if name == "geometric":
        return Geometric(*_numbers(text, rest))
    if name == "polynomial":
        return Polynomial(*_numbers(text, rest))
    if name == "constant" and not rest:
        return Constant()
    if name == "explicit":
        return ExplicitRadii(tuple(_numbers(text, rest, most=None)))
    raise unknown("radius", name, ["geometric", "polynomial", "constant", "explicit"])


def parse_phases(text: str) -> Times:
    """Read times as the command line writes them: ``every:5``, ``polynomial:5,0.6``, ``explicit:0,9``.

    Examples
    --------
    >>> parse_phases("polynomial:5,0.6")
    PolynomialPhases(T_0=5.0, b=0.6)
    """
    name, _, rest = text.partition(":")
    if name == "every":
        return Every(*(int(steps) for steps in _numbers(text, rest)))
    if name == "polynomial":
        return PolynomialPhases(*_numbers(text, rest, most=2))
    if name == "explicit":
        return ExplicitTimes(tuple(int(T_k) for T_k in _numbers(text, rest, most=None)))
    raise unknown("kind of phases", name, ["every", "polynomial", "explicit"])


def _numbers(text: str, rest: str, most: int | None = 1) -> list[float]:
    try:
        numbers = [float(part) for part in rest.split(",")] if rest else []
    except ValueError:
        raise ValueError(f"Expected numbers after the colon; got {text!r}.") from None
    if most is not None and len(numbers) > most:
        raise ValueError(f"Expected at most {most} number(s) after the colon; got {text!r}.")
    return numbers
