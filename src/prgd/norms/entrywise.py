"""Norms of the entries of w, whatever its shape: l1, l-infinity and l_p; l2 is in `prgd.norms.base`."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prgd.core.arithmetic import BOUND_FACTOR, SMALLEST, UNIT_ROUNDOFF, lowered, raised
from prgd.core.types import Array
from prgd.norms.base import Norm, largest_entry, raised_sums

# A power is trusted to 8 units in the last place: libm's `pow` and the vector versions that NumPy uses have
# errors below 1 and 4 units. Powers below the smallest normal number may be anything down to 0.
_POWER_ERROR = 16.0 * UNIT_ROUNDOFF
_SMALLEST_NORMAL = 2.0**-1022


@dataclass(frozen=True)
class AbsoluteNorm(Norm):
    """The sum of the absolute values, or the largest one: each is the dual norm of the other."""

    is_sum: ClassVar[bool]

    def __call__(self, w: Array) -> float:
        """Return the norm."""
        return _sum(w) if self.is_sum else largest_entry(w)

    def dual(self, u: Array) -> float:
        """Return the other norm."""
        return largest_entry(u) if self.is_sum else _sum(u)

    def above(self, w: Array) -> float:
        """Return the norm, a sum rounded upward; the largest value is exact."""
        return float(raised_sums(w.ravel())) if self.is_sum else largest_entry(w)

    def dual_above(self, u: Array) -> float:
        """Return the dual norm, a sum rounded upward; the largest value is exact."""
        return largest_entry(u) if self.is_sum else float(raised_sums(u.ravel()))


@dataclass(frozen=True)
class L1(AbsoluteNorm):
    r"""``sum_i |w_i|``, whose steepest ascent moves one coordinate: coordinate descent, boosting.

    .. math:: \|w\|_1 = \sum_i |w_i|, \qquad \|u\|_* = \max_i |u_i|

    Examples
    --------
    >>> L1().dual(np.array([1.0, -3.0])), L1().steepest(np.array([1.0, -3.0, 3.0]))
    (3.0, array([ 0., -1.,  0.]))
    """

    program = "cross-polytope"
    name = "l1"
    row_exponent = math.inf
    pair_factor = 1.0
    is_sum = True

    def steepest(self, u: Array) -> Array:
        """Return the sign of the first entry of largest size, at its place, and 0 elsewhere."""
        direction = np.zeros_like(u)
        if u.size:
            k = int(np.abs(u).argmax())
            direction.flat[k] = np.sign(u.flat[k])
        return direction

    def dual_ratio(self, shape: tuple[int, ...]) -> float:
        """Return 1."""
        return 1.0


@dataclass(frozen=True)
class Linf(AbsoluteNorm):
    r"""``max_i |w_i|``, whose steepest ascent moves all coordinates alike: sign descent.

    .. math:: \|w\|_\infty = \max_i |w_i|, \qquad \|u\|_* = \sum_i |u_i|

    Examples
    --------
    >>> Linf().dual(np.array([1.0, -3.0])), Linf().steepest(np.array([1.0, -3.0, 0.0]))
    (4.0, array([ 1., -1.,  0.]))
    """

    program = "box"
    name = "linf"
    row_exponent = 1.0
    pair_factor = 2.0
    is_sum = False

    def steepest(self, u: Array) -> Array:
        """Return the signs of u, 0 where u is 0."""
        return np.sign(u)

    def dual_ratio(self, shape: tuple[int, ...]) -> float:
        """Return ``sqrt(d)`` for d entries."""
        return raised(math.sqrt(math.prod(shape)))


@dataclass(frozen=True)
class Lp(Norm):
    r"""``(sum_i |w_i|^p)^(1/p)`` for a finite p above 1; the dual exponent is ``q = p / (p - 1)``.

    .. math:: \|w\|_p = \big(\textstyle\sum_i |w_i|^p\big)^{1/p}, \qquad \|u\|_* = \|u\|_q,\quad 1/p + 1/q = 1

    `prgd.norms.as_norm` turns any p of at least 1 into a norm: `L1` for 1, `L2` for 2, `Linf` for infinity.

    Examples
    --------
    >>> Lp(3.0)(np.array([3.0, 4.0, 5.0])), Lp(1.5).name
    (6.0, 'lp:1.5')
    >>> Lp(3.0).steepest(np.array([0.0, -2e200]))
    array([ 0., -1.])
    """

    program = "power cones"

    p: float

    def __post_init__(self) -> None:
        try:
            p = math.nan if isinstance(self.p, (bool, str)) else float(self.p)
        except (OverflowError, TypeError):
            p = math.nan
        if not 1.0 < p < math.inf:
            raise ValueError(
                f"Lp(p) needs a finite number p above 1, since p < 1 gives no norm; got {self.p!r:.60}. "
                "Use L1() for p = 1 and Linf() for p = inf."
            )
        vars(self).update(p=p, name=f"lp:{p!r}".removesuffix(".0"))  # The name has all digits of p.
        vars(self).update(row_exponent=p / (p - 1.0), pair_factor=math.pow(2.0, 1.0 - 1.0 / p))

    def __call__(self, w: Array) -> float:
        """Return ``||w||_p``."""
        return _power_norm(w, self.p)

    def dual(self, u: Array) -> float:
        """Return ``||u||_q``."""
        return _power_norm(u, self.row_exponent)

    def steepest(self, u: Array) -> Array:
        """Return ``sign(u) |u|^(q-1) / ||u||_q^(q-1)``."""
        largest = largest_entry(u)
        if largest == 0.0:
            return np.zeros_like(u)
        # The powers are divided by their own norm, which has no rounding of q: for p near 1, q is huge.
        powers = np.power(np.abs(u) / largest, 1.0 / (self.p - 1.0))
        return np.copysign(powers / self(powers), u)

    def above(self, w: Array) -> float:
        """Return ``||w||_p``, rounded upward."""
        return _raised_power_norm(w, self.p)

    def dual_above(self, u: Array) -> float:
        """Return ``||u||_q``, rounded upward: a smaller exponent than q gives a larger norm."""
        return _raised_power_norm(u, max(1.0, lowered(self.row_exponent, 2)))

    def dual_ratio(self, shape: tuple[int, ...]) -> float:
        """Return ``d^(1/2 - 1/p)`` for d entries if p is above 2, else 1."""
        if self.p <= 2.0:
            return 1.0
        exponent = 0.5 - lowered(1.0 / self.p)
        return raised(math.pow(max(1, math.prod(shape)), raised(exponent)) * (1.0 + _POWER_ERROR), 3)


def _sum(v: Array) -> float:
    """Return the sum of the absolute values, infinite beyond the floating range."""
    with np.errstate(over="ignore"):
        return float(np.abs(v).sum())


def _power_norm(v: Array, p: float) -> float:
    largest = largest_entry(v)
    if not 0.0 < largest < math.inf:
        return largest
    return largest * math.pow(float(np.power(np.abs(v) / largest, p).sum()), 1.0 / p)


def _raised_power_norm(v: Array, p: float) -> float:
    r"""Return a number that is at least ``||v||_p`` in exact arithmetic, p a float64 of at least 1.

    With m the largest entry and ``r_i`` the rounded ``|v_i| / m``, where ``|v_i| / m`` is at most
    ``(1 + u) r_i`` or, after an underflow, ``r_i + 2^-1074``,

    .. math:: \|v\|_p \le m \left( (1 + u) \|r\|_p + d 2^{-1074} \right),

    so rounding of the quotients is not magnified by p. Each computed power is at least ``(1 - 8 ulp) r_i^p``
    or lies below the smallest normal number, and the sum S is raised by that and its own rounding.
    Since S is at least 1, a larger exponent than 1/p gives a larger root.
    """
    largest = largest_entry(v)
    if not 0.0 < largest < math.inf:
        return largest
    powers = np.power(np.abs(v) / largest, p)
    total = float(raised_sums(powers.ravel())) * (1.0 + BOUND_FACTOR * (_POWER_ERROR + 2.0 * UNIT_ROUNDOFF))
    total = max(1.0, total + BOUND_FACTOR * v.size * _SMALLEST_NORMAL)
    root = math.pow(total, raised(1.0 / p)) * (1.0 + BOUND_FACTOR * _POWER_ERROR)
    return raised(largest * (root + v.size * SMALLEST), 4)
