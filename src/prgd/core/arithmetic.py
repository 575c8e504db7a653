r"""Float64 rounding: its constants, error bounds, exact products; and arithmetic of both NumPy and torch.

Every proof of this library ends in an inequality between numbers that were rounded. The functions here say by
how much a computed sum can differ from the true one, or avoid rounding altogether with fractions.

References
----------
Higham (2002), Accuracy and Stability of Numerical Algorithms, section 3.1; Dekker (1971), A floating-point
technique for extending the available precision.
"""

import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from prgd.core.types import Array, Indices, RationalVector

UNIT_ROUNDOFF = 2.0**-53  # the largest relative error of one rounded float64 operation
EPSILON = 2.0 * UNIT_ROUNDOFF  # the distance from 1 to the next larger float64
SMALLEST = 2.0**-1074  # the smallest positive float64, and the absolute error of an underflow
LARGEST = float(np.finfo(np.float64).max)
# An error bound is itself computed in float64. A factor of 1.01 covers the rounding of that computation many
# times over, since the bounds used here have relative errors below 1e-10.
BOUND_FACTOR = 1.01
_SPLITTER = 2.0**27 + 1.0  # Dekker's constant: it halves the 53 bits of a float64
F = TypeVar("F", float, Array)


def rounding_factor(terms: int, unit: float = UNIT_ROUNDOFF) -> float:
    """Return ``gamma_n = n u / (1 - n u)``, the relative error of a sum of n products in any order."""
    return terms * unit / (1.0 - terms * unit) if terms * unit < 0.5 else math.inf


def error_bound(terms: int, relative: float, magnitude: Any) -> Any:
    """Bound the error of sums of ``terms`` products: a fraction of their magnitude, and the underflows."""
    return BOUND_FACTOR * (relative * magnitude + terms * SMALLEST)


def exact_dot(a: Array, v: Sequence[Fraction]) -> Fraction:
    """Return ``sum_j a_j v_j`` without rounding.

    Examples
    --------
    >>> exact_dot(np.array([1.0, 1e-30, -1.0]), [Fraction(1)] * 3) > 0
    True
    """
    return sum((Fraction(float(a[j])) * v[j] for j in np.flatnonzero(a).tolist()), Fraction(0))


def round_down(value: Fraction) -> float:
    """Return a float64 that is at most ``value`` and has its sign; `SMALLEST` if value is below it.

    The one exception to "at most" is deliberate: a positive number below the floating range is reported
    as the smallest positive float64, because its sign is what a proof needs.
    """
    rounded = nearest_float(value)
    if rounded > value:
        rounded = math.nextafter(rounded, -math.inf)
    return SMALLEST if value > 0 and rounded == 0.0 else rounded


def round_up(value: Fraction) -> float:
    """Return the smallest float64 that is at least ``value``."""
    rounded = nearest_float(value)
    return math.nextafter(rounded, math.inf) if rounded < value else rounded


def root_up(square: Fraction) -> float:
    """Return a float64 that is at least the square root of a fraction, and larger by 2 units at most.

    Examples
    --------
    >>> root_up(Fraction(9, 4)), root_up(Fraction(2)) ** 2 >= 2
    (1.5, True)
    """
    # The root gets 64 bits or more, so that its own rounding is far below that of the answer.
    shift = max(64 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2, 0)
    scaled = -((-square.numerator << 2 * shift) // square.denominator)
    root = math.isqrt(scaled)
    return round_up(Fraction(root + (root * root < scaled), 1 << shift))


def times_power(value: float, exponent: int) -> float:
    """Return ``value 2^exponent``, infinite beyond the floating range."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(math.inf, value)


def lowered(value: F, operations: int = 1) -> F:
    """Return a number below the exact one, which so many rounded operations turned into ``value``."""
    return value - BOUND_FACTOR * (2 * operations * UNIT_ROUNDOFF * abs(value) + operations * SMALLEST)


def raised(value: F, operations: int = 1) -> F:
    """Return a number above the exact one, which so many rounded operations turned into ``value``."""
    return -lowered(-value, operations)


def nearest_float(value: Fraction) -> float:
    """Return the float64 nearest to a fraction, infinite beyond the floating range."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def nearest_floats(v: Sequence[Fraction]) -> Array:
    """Return the float64 numbers nearest to some fractions."""
    return np.array([nearest_float(x) for x in v])


def literal_fractions(v: Sequence[float] | Array) -> RationalVector:
    """Return float64 numbers as the fractions that they are.

    Examples
    --------
    >>> literal_fractions([0.5, -3.0])
    (Fraction(1, 2), Fraction(-3, 1))
    """
    return tuple(Fraction(float(x)) for x in v)


def integer_multiple(values: Sequence[Fraction | int]) -> list[int]:
    """Return the smallest positive multiple of some fractions that consists of integers.

    Examples
    --------
    >>> integer_multiple([Fraction(1, 2), Fraction(2, 3)])
    [3, 4]
    """
    common = math.lcm(*(v.denominator for v in values))
    return [v.numerator * (common // v.denominator) for v in values]


def common_integers(A: Array) -> tuple[npt.NDArray[Any], int]:
    """Return Python's integers M and an exponent e with ``A = M 2^e``, exactly.

    Examples
    --------
    >>> common_integers(np.array([[0.5, 0.0], [3.0, 4.0]]))
    (array([[1, 0],
           [6, 8]], dtype=object), -1)
    """
    mantissa, exponent = odd_mantissas(A)
    is_zero = mantissa == 0
    low = int(exponent[~is_zero].min()) if not is_zero.all() else 0
    return mantissa.astype(object) << np.where(is_zero, 0, exponent - low).astype(object), low


def odd_mantissas(A: Array) -> tuple[Indices, Indices]:
    """Return odd integers m, or 0, and exponents e with ``A = m 2^e``, exactly."""
    fraction, exponent = np.frexp(A)
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    # The lowest bit that is set is a power of two, so its logarithm is exact.
    trailing = np.frexp((mantissa & -mantissa).astype(np.float64))[1].astype(np.int64) - 1
    trailing[mantissa == 0] = 0
    return mantissa >> trailing, exponent.astype(np.int64) - 53 + trailing


def shortened(v: Sequence[Fraction]) -> RationalVector:
    """Return a positive multiple of v: coprime integers of at most 20 bits, else numbers of size about 1."""
    integers = integer_multiple(v)
    common = math.gcd(*integers) or 1
    length = max(abs(x) // common for x in integers).bit_length()
    scale = 1 if length <= 20 else 2**length
    return tuple(Fraction(x // common, scale) for x in integers)


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return ``s = fl(a + b)`` and the error e, with ``s + e = a + b`` exactly unless s overflows (Knuth).

    Examples
    --------
    >>> two_sum(1e16, 1.0)
    (1e+16, 1.0)
    """
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def split(a: Any) -> tuple[Any, Any]:
    """Return two parts of 26 bits each, with ``high + low = a`` exactly if ``|a| < 2^990`` (Dekker)."""
    spread = _SPLITTER * a
    high = spread - (spread - a)
    return high, a - high


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return ``p = fl(a b)`` and the error e, with ``p + e = a b`` (Dekker).

    The sum is exact if ``|a|`` and ``|b|`` are below 2^990 and ``|a b|`` is 0 or between 2^-960 and 2^1020. A
    smaller product underflows: p + e then differs from it by at most 5 * 2^-1074. Beyond the upper ends, e is
    not finite.

    Examples
    --------
    >>> two_product(1.0 + 2.0**-30, 1.0 + 2.0**-30)[1] == 2.0**-60
    True
    """
    (a_high, a_low), (b_high, b_low) = split(a), split(b)
    product = a * b
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def compensated_bound(terms: int, result: Array, corrections: Array) -> Array:
    r"""Bound the errors of dot products of ``terms`` products by Dot2, upward; infinite where none holds.

    Dot2 adds the products by `two_sum`, and the errors ``t_i`` of products and sums apart, in plain float64,
    so that only the additions of the small numbers ``t_i``, and the last one, are rounded:

    .. math:: |result - x^T y| \le u |result| + \frac{n u}{1 - 2 n u} \sum_i |t_i| + 5 n 2^{-1074},

    where the last term is the underflow of the products, and ``corrections`` is the computed sum of the
    ``|t_i|``. Since ``|t_i|`` is at most about u times a partial sum, the bound is about
    ``u |x^T y| + (n u)^2 |x|^T |y|`` at most.
    An overflow, or an entry beyond the range of `split`, leaves a sum that is not finite.

    References
    ----------
    Ogita, Rump and Oishi (2005), Accurate sum and dot product, SIAM J. Sci. Comput. 26(6), Algorithm 5.8 and
    Corollary 5.9. The factor for rounding the bound itself is `BOUND_FACTOR`, and 3 more underflows.
    """
    relative = UNIT_ROUNDOFF * np.abs(result) + terms * UNIT_ROUNDOFF * corrections
    bound = BOUND_FACTOR * relative + (5 * terms + 3) * SMALLEST
    return np.where(np.isfinite(result) & np.isfinite(bound), bound, np.inf)


def namespace(array: Any) -> ModuleType:
    """Return ``numpy`` or ``torch``, the module whose functions take this array.

    Functions of one name serve both: ``amin``, ``sqrt``, ``where``, ``clip``, with ``axis`` and ``keepdims``.
    """
    return np if isinstance(array, (np.ndarray, np.generic)) else sys.modules["torch"]


def like(array: Any, values: Any) -> Any:
    """Return values as an array of the namespace, device and type of ``array``."""
    if isinstance(array, np.ndarray):
        return np.asarray(values, dtype=array.dtype)
    if isinstance(values, np.ndarray):
        values = sys.modules["torch"].from_numpy(np.array(values))  # a copy: torch warns of read-only arrays
    return values.to(array.device, array.dtype)


def to_host(array: Any) -> Array:
    """Return an array or tensor as a NumPy array."""
    return array if isinstance(array, np.ndarray) else np.asarray(array.cpu().numpy())


def dot(a: Any, b: Any) -> Any:
    """Return ``<a, b>`` along the last axis: a number for vectors, a column of them for a batch."""
    return a @ b if a.ndim == 1 else (a * b).sum(-1, keepdims=True)


def total(v: Any) -> Any:
    """Return the sum along the last axis: a number for a vector, a column of numbers for a batch."""
    return v.sum() if v.ndim == 1 else v.sum(-1, keepdims=True)


def smallest(v: Any) -> Any:
    """Return the smallest entry along the last axis: a number for a vector, a column of them for a batch."""
    return v.min() if v.ndim == 1 else v.amin(-1, keepdims=True)


def at_least(v: Any, low: float) -> Any:
    """Return the larger of an array, or of a number that its namespace has made, and a bound."""
    return np.maximum(v, low) if namespace(v) is np else v.clamp(min=low)


def add_to_diagonal(matrix: Any, value: Any) -> None:
    """Add a number, or one for each row, to the diagonals of contiguous square matrices, in place."""
    m = matrix.shape[-1]
    matrix.reshape(*matrix.shape[:-2], m * m)[..., :: m + 1] += value


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that a device has no room left."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
