"""What every norm answers, and the Euclidean norm, without overflow or underflow."""

import math
import re
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, cast

import numpy as np

from prgd.core.arithmetic import BOUND_FACTOR, SMALLEST, UNIT_ROUNDOFF, rounding_factor, times_power
from prgd.core.checks import parse
from prgd.core.types import Array, Indices

# Below and above these, w.w has lost digits to under- or overflow.
_SMALL, _LARGE = sys.float_info.min / sys.float_info.epsilon, sys.float_info.max

_ONE_THREAD = 2**13  # vectors of so many entries are multiplied by BLAS on one thread
_MANY_THREADS = 2**20  # from so many entries on, several threads pay
_BLOCK = 8  # numbers that are added before their sums are
_MAX_EXPONENT = 60  # vectors with entries between 2^-60 and 2^60 are moderate


def norm(v: Array) -> float:
    """Return the Euclidean norm of an array of any shape, scaled if ``v.v`` would leave the floating range.

    Examples
    --------
    >>> round(norm(np.array([3e200, 4e200])) / 1e200, 12)
    5.0
    """
    if v.ndim != 1:
        v = v.ravel()
    with np.errstate(over="ignore"):
        square = _square(v)
    if _SMALL < square <= _LARGE:
        return math.sqrt(square)
    largest = largest_entry(v)
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(_square(v / largest))


def _square(v: Array) -> float:
    """Return ``v.v`` on one thread: BLAS wakes others for long vectors, and waits if they are busy."""
    if not _ONE_THREAD < v.size <= _MANY_THREADS:
        return float(v.dot(v))
    parts = (v[k : k + _ONE_THREAD] for k in range(0, v.size, _ONE_THREAD))
    return sum(float(part.dot(part)) for part in parts)


def moderate(v: Array) -> Array:
    """Return v divided by a power of two, if its products could lose digits to under- or overflow."""
    exponent = math.frexp(largest_entry(v))[1]
    return np.ldexp(v, -exponent) if abs(exponent) > _MAX_EXPONENT else v


def raised_norm(v: Array) -> float:
    """Return a number that is at least ``||v||_2``, and larger by a few units in the last place at most."""
    largest = largest_entry(v)
    if not 0.0 < largest < math.inf:
        return largest
    # Scaling by a power of two keeps the squares in the floating range; `math.fsum` rounds once.
    exponent = math.frexp(largest)[1]
    scaled = np.ldexp(v, -exponent)
    # Six units cover the rounding of the squares, their sum and this line; two more cover the next.
    square = math.fsum((scaled * scaled).ravel().tolist()) * (1.0 + 6.0 * UNIT_ROUNDOFF) + v.size * SMALLEST
    return times_power(math.sqrt(square) * (1.0 + 2.0 * UNIT_ROUNDOFF), exponent) + SMALLEST


def raised_sums(v: Array) -> Array:
    """Return a number that is at least the sum of ``|v_i|`` for each vector v along the last axis.

    Blocks of 8 numbers are added, then blocks of 8 sums, and so on. A number passes through 8 roundings for
    each level, so that the relative excess is about 1e-14 for a million numbers.

    Examples
    --------
    >>> float(raised_sums(np.array([1.0, -1e-17]))) > 1.0
    True
    """
    sums, levels = np.abs(v), 1
    with np.errstate(over="ignore"):
        while sums.shape[-1] > _BLOCK:
            sums = np.add.reduceat(sums, np.arange(0, sums.shape[-1], _BLOCK), axis=-1)
            levels += 1
        raised: Array = sums.sum(axis=-1) * (1.0 + BOUND_FACTOR * rounding_factor(_BLOCK * levels))
    return raised


def raised_norms(v: Array) -> Array:
    """Return a number that is at least ``||v||_2`` for each vector v along the last axis; see `raised_sums`.

    `raised_norm` is nearer to the norm of a single vector, and takes longer.
    """
    largest = largest_entry(v)
    if not 0.0 < largest < math.inf:
        return np.full(v.shape[:-1], largest)
    exponent = math.frexp(largest)[1]
    # An entry may underflow when it is scaled, and when it is squared; four roundings follow.
    squares = raised_sums(np.ldexp(v, -exponent) ** 2) + v.shape[-1] * SMALLEST
    raised: Array = np.ldexp(np.sqrt(squares) * (1.0 + 8.0 * UNIT_ROUNDOFF), exponent) + SMALLEST
    return raised


def largest_entry(v: Array) -> float:
    """Return ``max_i |v_i|``, 0 if v is empty."""
    return float(np.abs(v).max(initial=0.0))


class Norm(ABC):
    r"""A norm of weights w of shape (d,) or (K, d), its dual norm and its direction of steepest ascent.

    .. math::

        \|u\|_* = \max_{\|s\| \le 1} \langle u, s\rangle, \qquad s(u) \in \arg\max_{\|s\| \le 1} \langle u,
        s\rangle

    A norm is a value: a frozen dataclass that compares equal to another one of the same fields. A subclass
    gives the attributes and abstract methods below; text is turned into it if `prgd.norms.NORMS` has a line
    for it. Numbers from 1e-300 to 1e300 neither overflow nor underflow in any method.

    Attributes
    ----------
    name : str
        The text that `prgd.norms.as_norm` reads back as this norm.
    row_exponent : float
        The q for which ``||x||_q`` is the dual norm of a row x of a problem of two classes.
    pair_factor : float
        The c for which ``c ||x||_q`` is the dual norm of the matrix ``(e_y - e_j) x^T`` of two classes.
    is_rotation_invariant : bool
        Whether rotations of the columns of w do not change the norm.
    """

    name: str
    row_exponent: float
    pair_factor: float
    is_rotation_invariant: bool = False

    @property
    def program(self) -> str:
        """The program of `prgd.solvers.programs` that maximises margins in this norm."""
        raise NotImplementedError(f"{self.name} states no program: max_margin does not solve in this norm.")

    @abstractmethod
    def __call__(self, w: Array) -> float:
        """Return ``||w||``."""

    @abstractmethod
    def dual(self, u: Array) -> float:
        """Return the dual norm, the largest ``<u, w>`` over ``||w|| <= 1``."""

    @abstractmethod
    def steepest(self, u: Array) -> Array:
        """Return a w of norm 1 with ``<u, w> = dual(u)``, the direction of steepest ascent; 0 at u = 0."""

    @abstractmethod
    def above(self, w: Array) -> float:
        """Return a number that is at least ``||w||`` in exact arithmetic, and larger by rounding alone."""

    @abstractmethod
    def dual_above(self, u: Array) -> float:
        """Return a number that is at least ``dual(u)`` in exact arithmetic, and larger by rounding alone."""

    @abstractmethod
    def dual_ratio(self, shape: tuple[int, ...]) -> float:
        """Return a number that is at least ``dual(v) / ||v||_2`` for every v of the shape."""

    def dual_of_bounds(self, bounds: Array) -> float:
        """Return a number that is at least ``dual(E)`` for every E of entries ``|E_i| <= bounds_i``.

        Most dual norms depend on absolute values alone and grow with each of them, so that
        ``dual_above(bounds)`` is such a number. The nuclear norm does not, and `Spectral` has its own.
        """
        return self.dual_above(bounds)

    def ascent(self, u: Array) -> Array:
        """Return ``dual(u) steepest(u)``, the step that maximises ``<u, v> - ||v||^2 / 2`` over v."""
        return self.dual(u) * self.steepest(u)

    def rescale(self, w: Array, R: float) -> Array:
        """Return the multiple of w whose norm is R; w must not be zero."""
        return (w / self(w)) * R

    def project(self, w: Array, R: float) -> Array:
        r"""Return w if it lies in the ball of radius R, else its multiple of norm R.

        .. math:: \mathrm{Proj}_{B(0, R)}\, w = w \min(1, R / \|w\|)

        In l2 it is the point of the ball nearest to w.
        """
        return w if self(w) <= R else self.rescale(w, R)

    def cone_groups(self, entries: Indices) -> Indices:
        """Return entries of w in groups, as rows, if the norm is the sum of the l2 norms of groups."""
        raise NotImplementedError(f"The ball of {self.name} is no product of second-order cones.")

    def check_shape(self, shape: tuple[int, ...]) -> None:  # noqa: B027, as most norms take every shape
        """Raise ``ValueError`` if the norm does not measure weights of this shape."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class L2(Norm):
    r"""The Euclidean norm, its own dual; of matrices, the Frobenius norm.

    .. math:: \|w\|_2 = \big(\textstyle\sum_i w_i^2\big)^{1/2} = \|w\|_*

    Examples
    --------
    >>> L2()(np.array([3.0, 4.0])), L2().steepest(np.array([0.0, 2.0]))
    (5.0, array([0., 1.]))
    """

    program = "second-order cones"
    is_rotation_invariant = True
    name = "l2"
    row_exponent = 2.0
    pair_factor = math.sqrt(2.0)

    def __call__(self, w: Array) -> float:
        """Return ``||w||_2``."""
        return norm(w)

    def dual(self, u: Array) -> float:
        """Return ``||u||_2``."""
        return norm(u)

    def steepest(self, u: Array) -> Array:
        """Return ``u / ||u||_2``."""
        length = norm(u)
        return u / length if length else np.zeros_like(u)

    def above(self, w: Array) -> float:
        """Return ``||w||_2``, rounded upward."""
        return raised_norm(w)

    def dual_above(self, u: Array) -> float:
        """Return ``||u||_2``, rounded upward."""
        return raised_norm(u)

    def dual_ratio(self, shape: tuple[int, ...]) -> float:
        """Return 1."""
        return 1.0

    def ascent(self, u: Array) -> Array:
        """Return u."""
        return u

    def cone_groups(self, entries: Indices) -> Indices:
        """Return all entries as one group."""
        return entries.reshape(1, -1)


NORMS: dict[str, Norm | type[Norm]] = {"l2": L2()}  # `prgd.norms` adds the others
_PREFIX = re.compile(r"^l(p:)?", re.IGNORECASE)  # what may stand before p in a text


def _accepted() -> str:
    names = ", ".join(repr(name) for name in NORMS if name != "lp")
    return (
        f"A norm is one of the texts {names}, 'lp:1.5' and 'l1.5', a number p of at least 1 or math.inf, or "
        "a value of prgd.norms, such as Lp(1.5)."
    )


def as_norm(value: Norm | str | float) -> Norm:
    """Return the norm that a value, its text or a number p stands for.

    Parameters
    ----------
    value : Norm, str or float
        A norm; one of the names in `NORMS`, in any case; ``"lp:1.5"`` or ``"l1.5"`` for ``Lp(1.5)``; or p,
        also as text, where 1 stands for `L1`, 2 for `L2` and infinity for `Linf`.

    Raises
    ------
    ValueError, TypeError
        If the text or the number is no norm, or if value is neither.

    Examples
    --------
    >>> as_norm("l2"), as_norm("lp:1.5"), as_norm(math.inf), as_norm("rows")
    (L2(), Lp(p=1.5), Linf(), GroupNorm(axis='rows'))
    >>> as_norm("L1"), as_norm("l3")
    (L1(), Lp(p=3.0))
    """
    lp: Any = NORMS["lp"]
    named = NORMS.get(value) if isinstance(value, str) else value
    if isinstance(named, Norm) and not isinstance(named, lp):
        return named
    p = value.p if isinstance(value, lp) else _exponent(value)
    if p is not None and not p >= 1.0:
        raise ValueError(f"The p of a norm must be a number of at least 1; got {p!r}. {_accepted()}")
    if p is not None:
        special = {1.0: "l1", 2.0: "l2", math.inf: "linf"}
        return cast(Norm, NORMS[special[p]] if p in special else lp(p))
    text = str(value).strip()
    try:
        found: Norm = parse(text if text in NORMS else text.lower(), NORMS, "norm")
    except ValueError as error:
        raise ValueError(f"{error} {_accepted()}") from None
    return found


def _exponent(value: Any) -> float | None:
    """Return the p that a number or its text gives, None for other text."""
    if isinstance(value, bool) or not isinstance(value, (str, Real)):
        raise TypeError(f"A norm cannot be made of {value!r:.60}. {_accepted()}")
    try:
        return float(_PREFIX.sub("", value.strip()) if isinstance(value, str) else value)
    except OverflowError:
        return math.nan
    except ValueError:
        return None
