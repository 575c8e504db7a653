"""Exact linear algebra modulo primes: zero tests, ranks, and rational solutions of linear systems.

Integers are reduced modulo primes of 31 bits, many entries at a time in int64; enough primes make an answer
exact (the Chinese remainder theorem).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from prgd._types import Array, Indices, Mask, RationalVector
from prgd.arithmetic import integer_multiple
from prgd.proofs.integer_matrix import IntegerMatrix

_PANEL = 32  # columns that are eliminated one at a time, before a product of matrices updates the others
PRIME_BITS = 30  # every prime used lies between 2**30 and 2**31, so that products fit in int64


def primes() -> Iterator[int]:
    """Yield the primes below 2**31, from the largest down."""
    return filter(is_prime, range(2**31 - 1, 2**PRIME_BITS, -2))


@cache
def is_prime(odd: int) -> bool:
    """Apply Miller and Rabin's test; the bases 2, 3, 5 and 7 decide every number below 3.2e9."""
    twos = ((odd - 1) & -(odd - 1)).bit_length() - 1
    for base in (2, 3, 5, 7):
        x = pow(base, (odd - 1) >> twos, odd)
        if x != 1 and all(pow(x, 2**k, odd) != odd - 1 for k in range(twos)):
            return False
    return True


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
    for prime in islice(primes(), bits // PRIME_BITS + 1):
        is_zero &= _times(matrix.residues(prime), values, prime) == 0
        if not is_zero.any():
            break
    return is_zero


def _times(residues: Indices, k: Sequence[int], prime: int) -> Indices:
    """Return the product of a matrix and a vector of integers modulo a prime."""
    factors = np.array([value % prime for value in k], np.int64)
    return np.asarray((residues * factors % prime).sum(axis=1) % prime)


class Echelon(NamedTuple):
    """A matrix reduced modulo a prime: ``matrix[:rank]`` has unit vectors in the pivot columns.

    ``rows`` and ``columns`` are the positions of the pivots.
    """

    matrix: Indices
    rows: list[int]
    columns: list[int]


def echelon(matrix: Indices, prime: int, columns: Sequence[int] | None = None) -> Echelon:
    """Reduce a matrix modulo a prime by Gauss and Jordan, taking pivots from ``columns`` in their order.

    The number of pivots is at most the rank over the rational numbers, so it proves independence.

    Examples
    --------
    >>> echelon(np.array([[1, 2], [2, 4]]), 7).columns
    [0]
    """
    matrix, order, pivots = matrix.copy(), np.arange(len(matrix)), list[int]()
    wanted = list(range(matrix.shape[1]) if columns is None else columns)
    is_left = np.ones(matrix.shape[1], np.bool_)  # columns of which later pivots may still change an entry
    for start in range(0, len(wanted), _PANEL):
        panel, k = np.array(wanted[start : start + _PANEL]), len(pivots)
        small = _eliminate(matrix[k:, panel], prime)
        chosen, rank = panel[small.columns], len(small.columns)
        if rank:
            first = np.array(small.rows)
            moved = k + np.concatenate([first, np.setdiff1d(np.arange(len(matrix) - k), first)])
            matrix[k:], order[k:] = matrix[moved], order[moved]
            # The pivot rows are multiplied by the inverse of their part in the pivot columns.
            square = np.hstack([matrix[k : k + rank, chosen], np.eye(rank, dtype=np.int64)])
            inverse = _eliminate(square, prime).matrix[:, rank:]
            left = np.flatnonzero(is_left)
            top, factors = _product(inverse, matrix[k : k + rank, left], prime), matrix[:, chosen]
            factors[k : k + rank] = 0
            matrix[:, left] = (matrix[:, left] - _product(factors, top, prime)) % prime
            matrix[k : k + rank, left] = top
            pivots += chosen.tolist()
        is_left[panel] = False
    return Echelon(matrix, [int(i) for i in order[: len(pivots)]], pivots)


def _eliminate(matrix: Indices, prime: int) -> Echelon:
    """Reduce a matrix of few columns modulo a prime, one pivot at a time."""
    matrix, order, pivots = matrix.copy(), np.arange(len(matrix)), list[int]()
    for c in range(matrix.shape[1]):
        k = len(pivots)
        if k == len(matrix):
            break
        below = np.flatnonzero(matrix[k:, c])
        if not below.size:
            continue
        other = k + int(below[0])
        matrix[[k, other]], order[[k, other]] = matrix[[other, k]], order[[other, k]]
        matrix[k] = matrix[k] * pow(int(matrix[k, c]), -1, prime) % prime
        factors = matrix[:, c].copy()
        factors[k] = 0
        hit = np.flatnonzero(factors)
        matrix[hit] = (matrix[hit] - factors[hit, None] * matrix[k]) % prime
        pivots.append(c)
    return Echelon(matrix, [int(i) for i in order[: len(pivots)]], pivots)


def _product(A: Indices, B: Indices, prime: int) -> Indices:
    """Return a product of matrices modulo a prime, with at most 64 terms in each sum.

    Factors of 16 and 31 bits and 64 terms make sums below 2**53, which products in float64 leave exact.
    """
    high, low = (
        (half.astype(np.float64) @ B.astype(np.float64)).astype(np.int64) for half in divmod(A, 2**16)
    )
    return np.asarray((high % prime * 2**16 + low) % prime)


def rank_at_least(A: Array) -> int:
    """Return a lower bound of the rank of A; it is the rank itself unless the prime is unlucky.

    Examples
    --------
    >>> rank_at_least(np.array([[0.1, 0.2], [0.2, 0.4], [0.1, 0.3]]))
    2
    """
    prime = next(primes())
    return len(echelon(IntegerMatrix.from_floats(A).residues(prime), prime).columns)


def solve_rational(
    A: Array, B: Array, c: Sequence[Sequence[int]], max_primes: int = 512
) -> list[RationalVector] | None:
    """Return the rational solutions x of ``A x = B c_k``, one for each list of integers c_k.

    Parameters
    ----------
    A : ndarray of shape (r, r)
    B : ndarray of shape (r, k)
    c : lists of k integers
    max_primes : int
        The function gives up when numerators and denominators need more than about 15 bits for each prime.

    Returns
    -------
    list of vectors of Fraction, checked exactly; None if A is singular or the fractions are too long.

    Examples
    --------
    >>> solve_rational(np.array([[3.0]]), np.array([[0.5]]), [[1], [4]])
    [(Fraction(1, 6),), (Fraction(2, 3),)]
    """
    r = len(A)
    both = np.hstack([A, B])
    matrix = IntegerMatrix.from_floats(both)
    modulus, found = 1, [[0] * r for _ in c]
    next_attempt = 1
    for used, prime in enumerate(islice(primes(), max_primes), start=1):
        residues = matrix.residues(prime)
        right = np.stack([_times(residues[:, r:], factors, prime) for factors in c], axis=1)
        reduced = echelon(np.hstack([residues[:, :r], right]), prime, range(r))
        if len(reduced.columns) < r:
            if used == 2:  # A is singular modulo two primes
                return None
            continue
        lift = pow(modulus, -1, prime)
        for k, x in enumerate(found):
            for i in range(r):
                x[i] += modulus * ((int(reduced.matrix[i, r + k]) - x[i]) * lift % prime)
        modulus *= prime
        # Reconstruction costs as much as many primes, so it is tried after 1, 2, 4, 8, ... of them.
        if used < next_attempt and used < max_primes:
            continue
        next_attempt = 2 * used
        solutions = [_reconstructed(x, modulus) for x in found]
        if all(
            x is not None and vanishes(both, [*x, *(-f for f in factors)]).all()
            for x, factors in zip(solutions, c, strict=True)
        ):
            return [x for x in solutions if x is not None]
    return None


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


def _reconstructed(residues: Sequence[int], modulus: int) -> RationalVector | None:
    """Return the fractions of small numerator and denominator that have these residues."""
    common, out = 1, []
    for residue in residues:
        # The denominators of a solution divide one determinant, so its known factors shorten the rest.
        value = _rational(residue * common % modulus, modulus)
        if value is None:
            return None
        out.append(value / common)
        common *= value.denominator
    return tuple(out)


def _rational(residue: int, modulus: int) -> Fraction | None:
    """Reconstruct one fraction by Euclid's algorithm, stopped halfway (Wang, 1981)."""
    bound = math.isqrt(modulus // 2)
    a, b, s, t = modulus, residue, 0, 1
    while b > bound:
        q = a // b
        a, b, s, t = b, a - q * b, t, s - q * t
    return Fraction(b, t) if 0 < abs(t) <= bound and math.gcd(b, t) == 1 else None
