"""Exact linear algebra modulo primes: zero tests, ranks, and rational solutions of linear systems.

Every float64 is an integer times a power of two. Integers are reduced modulo primes of 23 bits, many entries
at a time in float64; enough primes make an answer exact (the Chinese remainder theorem). The exact arithmetic
of `prgd.proofs` needs no python-flint: FLINT would replace about 120 lines by one more compiled dependency,
and the matrices that reach exact arithmetic are small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import reduce
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.core.arithmetic import integer_multiple, odd_mantissas
from prgd.core.types import Array, Indices, Mask, RationalVector
from prgd.proofs.elimination import (
    PRIME_BITS,
    Elimination,
    eliminated,
    exact_product,
    product,
    reduced,
    residues,
    short_primes,
)

_LIMB = 22  # bits of the parts of long integers whose products with digits are exact in float64
_NO_EXPONENT = np.iinfo(np.int64).max  # stands for the exponent of 0 in a minimum


class IntegerMatrix(NamedTuple):
    """The integers ``mantissa * 2**shift`` with ``shift >= 0``, and the powers of two that were taken out.

    ``A[i, j] = mantissa[i, j] * 2**(shift[i, j] + rows[i] + columns[j])``.
    """

    mantissa: Indices
    shift: Indices
    rows: Indices
    columns: Indices

    @classmethod
    def from_floats(cls, A: Array, *, by_columns: bool = False) -> IntegerMatrix:
        """Divide finite floats by a power of two for each row, and for each column before, to reach integers.

        Examples
        --------
        >>> IntegerMatrix.from_floats(np.array([[0.5, 0.75], [6.0, 0.0]])).integers().tolist()
        [[2, 3], [3, 0]]
        """
        mantissa, exponent = odd_mantissas(A)
        is_zero = mantissa == 0
        n, d = A.shape
        columns, rows = np.zeros(d, np.int64), np.zeros(n, np.int64)
        for axis, powers in ((0, columns), (1, rows)) if by_columns else ((1, rows),):
            low = np.where(is_zero, _NO_EXPONENT, exponent).min(axis=axis, initial=_NO_EXPONENT)
            powers[:] = np.where(low == _NO_EXPONENT, 0, low)
            exponent -= np.expand_dims(powers, axis)
        exponent[is_zero] = 0
        return cls(mantissa, exponent, rows, columns)

    @property
    def bits(self) -> int:
        """The largest number of bits of an entry."""
        size = np.frexp(np.abs(self.mantissa).astype(np.float64))[1] + self.shift
        return int(size.max(initial=1))

    def limbs(self, width: int) -> Array:
        """Return the digits of the entries in base ``2**width``, the lowest first, with their signs."""
        size, out = np.abs(self.mantissa), []
        for low in range(0, self.bits, width):
            right = np.clip(low - self.shift, 0, 63)
            left = np.clip(self.shift - low, 0, width)  # a shift by the whole width leaves nothing
            out.append(((size >> right) << left & (2**width - 1)) * np.sign(self.mantissa))
        return np.array(out, np.float64)

    def integers(self) -> npt.NDArray[Any]:
        """Return the entries as Python's integers, in an array of objects."""
        matrix = self.mantissa.astype(object)
        long = self.shift > 0
        matrix[long] = [int(m) << int(s) for m, s in zip(self.mantissa[long], self.shift[long], strict=True)]
        return matrix


def vanishes(A: Array, k: Sequence[Fraction | int]) -> Mask:
    """Say for each row of ``A`` whether ``sum_j A_ij k_j`` is exactly zero.

    Examples
    --------
    >>> vanishes(np.array([[0.1, 0.1], [0.1, 0.2]]), [1, -1]).tolist()
    [True, False]
    """
    used = [j for j, value in enumerate(k) if value]
    matrix = IntegerMatrix.from_floats(A[:, used])
    values = integer_multiple([k[j] for j in used])
    bits = matrix.bits + max((v.bit_length() for v in values), default=0) + len(used).bit_length() + 1
    is_zero = np.ones(len(A), np.bool_)
    # A sum below the product of the primes is zero if it is zero modulo each of them.
    for prime in islice(short_primes(), bits // PRIME_BITS + 1):
        factors = reduced(np.array([[float(value % prime)] for value in values]).reshape(-1, 1), prime)
        is_zero &= product(residues(A[:, used], prime), factors, prime)[:, 0] == 0.0
        if not is_zero.any():
            break
    return is_zero


def independent_rows(Z: Array) -> list[int]:
    """Return positions of rows that are a basis of all rows, found modulo a prime, or two.

    Examples
    --------
    >>> independent_rows(np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 1.0]]))
    [0, 2]
    """
    best: Indices = np.empty(0, np.int64)
    for prime in islice(short_primes(), 2):
        elimination, _ = eliminated(Z, prime)
        best = max(best, elimination.pivots, key=len)
        if best.size == min(Z.shape):
            break
    return [int(i) for i in np.sort(best)]


def solve_rational(
    A: Array, B: Array, c: Sequence[Sequence[int]], max_digits: int = 768
) -> list[RationalVector] | None:
    """Return the rational solutions x of ``A x = B c_k``, one for each list of integers c_k.

    The inverse of A modulo a prime p gives the solutions digit by digit in base p (Dixon, 1982).

    Parameters
    ----------
    A : ndarray of shape (r, r)
    B : ndarray of shape (r, k)
    c : lists of k integers
    max_digits : int
        The function gives up when numerators and denominators need more than about 11 bits for each digit.

    Returns
    -------
    list of vectors of Fraction; None if A is singular or the fractions are too long.

    Examples
    --------
    >>> solve_rational(np.array([[3.0]]), np.array([[0.5]]), [[1], [4]])
    [(Fraction(1, 6),), (Fraction(2, 3),)]
    """
    r, both = len(A), IntegerMatrix.from_floats(np.hstack([A, B]))
    right = both.integers()[:, r:] @ np.array(c, object).reshape(len(c), B.shape[1]).T
    for prime in islice(short_primes(), 2):
        elimination, _ = eliminated(A, prime)
        if elimination.pivots.size == r:
            break
    else:  # A is singular modulo two primes
        return None
    row_bound, digits = 2 ** (both.bits + r.bit_length()), list[Indices]()
    for digit in islice(_digits(both, elimination, right), max_digits):
        digits.append(digit)
        # Reconstruction costs as much as many digits, so it is tried after 1, 2, 4, 8, ... of them.
        if len(digits) & (len(digits) - 1) and len(digits) < max_digits:
            continue
        solutions = [
            _reconstructed([d[:, k] for d in digits], prime, row_bound, max(map(abs, right[:, k]), default=0))
            for k in range(len(c))
        ]
        if all(x is not None for x in solutions):
            return [x for x in solutions if x is not None]
    return None


def _digits(matrix: IntegerMatrix, elimination: Elimination, right: npt.NDArray[Any]) -> Iterator[Indices]:
    """Yield the digits of the solutions of a square system of integers, the lowest first."""
    r, prime = elimination.n, elimination.prime
    # The inverse of the integers is that of the floats times the powers of two that were taken out.
    inverse = elimination.reduce(np.eye(r))[elimination.pivots]
    inverse = reduced(inverse * residues(np.ldexp(1.0, matrix.rows), prime), prime)
    limbs = matrix.limbs(_LIMB)[:, :, :r]
    # What is left is at most as large as the right-hand side, or as a product of A and digits.
    size = max(matrix.bits, *(int(b).bit_length() for b in right.flat), 1)
    if size + r.bit_length() + 24 < 63:
        right = right.astype(np.int64)
    powers = [2 ** (_LIMB * k) for k in range(len(limbs))]
    while True:
        digit = product(inverse, reduced((right % prime).astype(np.float64), prime), prime)
        yield digit.astype(np.int64)
        for limb, power in zip(limbs, powers, strict=True):
            right = right - exact_product(limb, digit).astype(right.dtype) * power
        right //= prime


def null_vector(
    A: Array, unknown: Sequence[int], given: Sequence[int], values: Sequence[int]
) -> RationalVector | None:
    """Return the v with ``A v = 0`` that has integer ``values`` in the ``given`` entries.

    ``A[:, unknown]`` must be square. The answer is None if it is singular or the fractions are too long.

    Examples
    --------
    >>> null_vector(np.array([[2.0, 1.0]]), [0], [1], [3])
    (Fraction(-3, 2), Fraction(3, 1))
    """
    solved = solve_rational(A[:, unknown], A[:, given], [[-value for value in values]])
    if solved is None:
        return None
    v = [Fraction(0)] * A.shape[1]
    for j, x in zip([*unknown, *given], [*solved[0], *map(Fraction, values)], strict=True):
        v[j] = x
    return tuple(v)


def _reconstructed(
    digits: Sequence[Indices], prime: int, row_bound: int, right_bound: int
) -> RationalVector | None:
    """Return the solution that has these digits, or None if the digits do not prove it.

    With ``x = N / D``, ``A N - D b`` is divisible by the modulus and smaller than it, hence zero.
    """
    modulus, common, out = prime ** len(digits), 1, []
    for own in zip(*(d.tolist() for d in reversed(digits)), strict=True):
        residue = reduce(lambda value, digit: value * prime + digit, own, 0)
        # The denominators of a solution divide one determinant, so its known factors shorten the rest.
        value = _rational(residue * common % modulus, modulus)
        if value is None:
            return None
        out.append(value / common)
        common *= value.denominator
    largest = max((abs(x.numerator) * (common // x.denominator) for x in out), default=0)
    return tuple(out) if row_bound * largest + right_bound * common < modulus else None


def _rational(residue: int, modulus: int) -> Fraction | None:
    """Reconstruct one fraction by Euclid's algorithm, stopped halfway (Wang, 1981)."""
    bound = math.isqrt(modulus // 2)
    a, b, s, t = modulus, residue, 0, 1
    while b > bound:
        q = a // b
        a, b, s, t = b, a - q * b, t, s - q * t
    return Fraction(b, t) if 0 < abs(t) <= bound and math.gcd(b, t) == 1 else None
