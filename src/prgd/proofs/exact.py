"""Exact arithmetic on floating-point data: zero tests, linear systems, and the partition of the rows.

Every float64 is a whole number times a power of two, so a table of them is a table of whole numbers once
its rows are scaled by powers of two. Zero tests and linear systems are done modulo primes of 31 bits,
many at a time; enough primes make the answer exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd._types import Array

Whole = npt.NDArray[np.int64]
Index = npt.NDArray[np.int64]
Vector = tuple[Fraction, ...]

PRIME_BITS = 30  # every prime used lies between 2**30 and 2**31, so that products fit in int64


class Scaled(NamedTuple):
    """A table of whole numbers ``mantissa * 2**shift`` with ``shift >= 0``, and what it was divided by.

    ``A[i, j] = mantissa[i, j] * 2**(shift[i, j] + rows[i] + columns[j])``.
    """

    mantissa: Whole
    shift: Whole
    rows: Whole
    columns: Whole

    @property
    def bits(self) -> int:
        """The largest number of bits of an entry."""
        size = np.frexp(np.abs(self.mantissa).astype(np.float64))[1] + self.shift
        return int(size.max(initial=1))

    def residues(self, prime: int) -> Whole:
        """Return the entries modulo ``prime``."""
        powers = [1]
        for _ in range(int(self.shift.max(initial=0))):
            powers.append(2 * powers[-1] % prime)
        return (self.mantissa % prime) * np.array(powers, np.int64)[self.shift] % prime

    def integers(self) -> npt.NDArray[Any]:
        """Return the entries as Python's whole numbers."""
        table = self.mantissa.astype(object)
        long = self.shift > 0
        table[long] = [int(m) << int(s) for m, s in zip(self.mantissa[long], self.shift[long], strict=True)]
        return table


def scaled(A: Array, *, by_columns: bool = False) -> Scaled:
    """Divide finite floats by powers of two, row by row (and column by column before), to whole numbers.

    Examples
    --------
    >>> scaled(np.array([[0.5, 0.75], [6.0, 0.0]])).integers().tolist()
    [[2, 3], [3, 0]]
    """
    fraction, exponent = np.frexp(A)
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    # the lowest bit that is set is a power of two, so its logarithm is exact
    trailing = np.frexp((mantissa & -mantissa).astype(np.float64))[1].astype(np.int64) - 1
    is_zero = mantissa == 0
    trailing[is_zero] = 0
    mantissa >>= trailing
    exponent = exponent.astype(np.int64) - 53 + trailing
    high = np.iinfo(np.int64).max
    n, d = A.shape
    columns, rows = np.zeros(d, np.int64), np.zeros(n, np.int64)
    for axis, low in ((0, columns), (1, rows)) if by_columns else ((1, rows),):
        least = np.where(is_zero, high, exponent).min(axis=axis, initial=high)
        low[:] = np.where(least == high, 0, least)
        exponent -= low[None, :] if axis == 0 else low[:, None]
    exponent[is_zero] = 0
    return Scaled(mantissa, exponent, rows, columns)


def whole_numbers(values: Sequence[Fraction]) -> list[int]:
    """Return a positive multiple of rational numbers that is whole.

    Examples
    --------
    >>> whole_numbers([Fraction(1, 2), Fraction(2, 3)])
    [3, 4]
    """
    common = math.lcm(*(v.denominator for v in values))
    return [v.numerator * (common // v.denominator) for v in values]


def exact_dot(a: Array, v: Sequence[Fraction]) -> Fraction:
    """Return ``sum_j a_j v_j`` without rounding.

    Examples
    --------
    >>> exact_dot(np.array([1.0, 1e-30, -1.0]), [Fraction(1)] * 3) > 0
    True
    """
    return sum((Fraction(float(a[j])) * v[j] for j in np.flatnonzero(a).tolist()), Fraction(0))


def vanishes(A: Array, k: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Say for each row of ``A`` whether ``sum_j A_ij k_j`` is exactly zero, for whole numbers k.

    Examples
    --------
    >>> vanishes(np.array([[0.1, 0.1], [0.1, 0.2]]), [1, -1]).tolist()
    [True, False]
    """
    used = [j for j, value in enumerate(k) if value]
    table = scaled(A[:, used])
    values = [k[j] for j in used]
    bits = table.bits + max((v.bit_length() for v in values), default=0) + len(used).bit_length() + 1
    is_zero = np.ones(len(A), np.bool_)
    for prime in islice(primes(), bits // PRIME_BITS + 1):
        factors = np.array([v % prime for v in values], np.int64)
        is_zero &= (table.residues(prime) * factors % prime).sum(axis=1) % prime == 0
        if not is_zero.any():
            break
    return is_zero


def primes() -> Iterator[int]:
    """Yield the primes below 2**31, from the largest down."""
    k = 0
    while True:
        yield _prime(k)
        k += 1


@cache
def _prime(k: int) -> int:
    candidate = 2**31 + 1 if k == 0 else _prime(k - 1)
    while True:
        candidate -= 2
        if _is_prime(candidate):
            return candidate


def _is_prime(odd: int) -> bool:
    """Miller and Rabin's test; these bases decide below 3.2e9."""
    twos = ((odd - 1) & -(odd - 1)).bit_length() - 1
    for base in (2, 3, 5, 7):
        x = pow(base, (odd - 1) >> twos, odd)
        if x in (1, odd - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % odd
            if x == odd - 1:
                break
        else:
            return False
    return True


class Echelon(NamedTuple):
    """A table reduced modulo a prime: ``table[:rank]`` has unit vectors in the pivot columns."""

    table: Whole
    rows: list[int]
    columns: list[int]


def echelon(table: Whole, prime: int, columns: Sequence[int] | None = None) -> Echelon:
    """Reduce modulo a prime by Gauss and Jordan, taking pivots from ``columns`` in their order.

    The number of pivots is at most the rank over the rational numbers, so it proves independence.

    Examples
    --------
    >>> echelon(np.array([[1, 2], [2, 4]]), 7).columns
    [0]
    """
    table = table.copy()
    order = np.arange(len(table))
    found: list[int] = []
    for c in range(table.shape[1]) if columns is None else columns:
        k = len(found)
        if k == len(table):
            break
        below = np.flatnonzero(table[k:, c])
        if not below.size:
            continue
        other = k + int(below[0])
        table[[k, other]], order[[k, other]] = table[[other, k]], order[[other, k]]
        table[k] = table[k] * pow(int(table[k, c]), -1, prime) % prime
        factors = table[:, c].copy()
        factors[k] = 0
        hit = np.flatnonzero(factors)
        table[hit] = (table[hit] - factors[hit, None] * table[k]) % prime
        found.append(int(c))
    return Echelon(table, [int(i) for i in order[: len(found)]], found)


def rank_at_least(A: Array) -> int:
    """Return a lower bound of the rank, which is the rank itself but for an unlucky prime.

    Examples
    --------
    >>> rank_at_least(np.array([[0.1, 0.2], [0.2, 0.4], [0.1, 0.3]]))
    2
    """
    prime = next(primes())
    return len(echelon(scaled(A).residues(prime), prime).columns)


def solve(A: Array, B: Array, c: Sequence[Sequence[int]], most_primes: int = 512) -> list[Vector] | None:
    """Return the rational solutions x of ``A x = B c_k``, one for each list of whole numbers c_k.

    Parameters
    ----------
    A : ndarray of shape (r, r)
    B : ndarray of shape (r, k)
    c : lists of k whole numbers
    most_primes : int
        Give up where the numbers of the solutions are longer than about 15 bits for each.

    Returns
    -------
    list of vectors of Fraction, checked exactly; None where A is singular or the numbers are too long.

    Examples
    --------
    >>> solve(np.array([[3.0]]), np.array([[0.5]]), [[1], [4]])
    [(Fraction(1, 6),), (Fraction(2, 3),)]
    """
    r = len(A)
    both = np.hstack([A, B])
    table = scaled(both)
    modulus, found = 1, [[0] * r for _ in c]
    attempt = 1
    for count, prime in enumerate(islice(primes(), most_primes), start=1):
        residues = table.residues(prime)
        right = np.empty((r, len(c)), np.int64)
        for k, factors in enumerate(c):
            reduced = np.array([f % prime for f in factors], np.int64)
            right[:, k] = (residues[:, r:] * reduced % prime).sum(axis=1) % prime
        done = echelon(np.hstack([residues[:, :r], right]), prime, range(r))
        if len(done.columns) < r:
            if count == 2:  # singular modulo two primes
                return None
            continue
        lift = pow(modulus, -1, prime)
        for k, x in enumerate(found):
            for i in range(r):
                x[i] += modulus * ((int(done.table[i, r + k]) - x[i]) * lift % prime)
        modulus *= prime
        if count < attempt and count < most_primes:
            continue
        attempt = 2 * count
        solutions = [_rational_vector(x, modulus) for x in found]
        if all(
            x is not None and vanishes(both, whole_numbers([*x, *(Fraction(-f) for f in factors)])).all()
            for x, factors in zip(solutions, c, strict=True)
        ):
            return [x for x in solutions if x is not None]
    return None


def _rational_vector(residues: Sequence[int], modulus: int) -> Vector | None:
    """Return the rational numbers of small numerator and denominator with these residues."""
    common, out = 1, []
    for residue in residues:
        # a solution's denominators divide one determinant: what is known of it shortens the rest
        value = _rational(residue * common % modulus, modulus)
        if value is None:
            return None
        out.append(value / common)
        common *= value.denominator
    return tuple(out)


def _rational(residue: int, modulus: int) -> Fraction | None:
    bound = math.isqrt(modulus // 2)
    a, b, s, t = modulus, residue, 0, 1
    while b > bound:
        q = a // b
        a, b, s, t = b, a - q * b, t, s - q * t
    return Fraction(b, t) if 0 < abs(t) <= bound and math.gcd(b, t) == 1 else None


Relation = dict[int, Fraction]


class Structure(NamedTuple):
    """How the columns of some rows depend on each other.

    Attributes
    ----------
    columns, others : list of int
        Independent columns, and those that depend on them.
    rows : list of int
        Rows whose part in ``columns`` is invertible.
    basis : ndarray of shape (r, d)
        Those rows.
    relations : list of dict from column to Fraction, or None
        ``sum_j k_j Z_ij = 0`` on these rows, one for each of ``others``, which comes first in it; None where
        they are too many or their numbers too long.
    """

    columns: list[int]
    others: list[int]
    rows: list[int]
    basis: Array
    relations: list[Relation] | None

    def null_vector(self, values: Sequence[Fraction]) -> Vector | None:
        """Return a positive multiple of the v with ``basis @ v = 0`` that has these values in ``others``."""
        whole = whole_numbers(values)
        part = self.basis[:, self.columns], self.basis[:, self.others]
        solved = solve(*part, [[-value for value in whole]])
        if solved is None:
            return None
        v = [Fraction(0)] * self.basis.shape[1]
        for j, x in zip(self.columns, solved[0], strict=True):
            v[j] = x
        for j, value in zip(self.others, whole, strict=True):
            v[j] = Fraction(value)
        return tuple(v)


def structure(Z: Array, order: Sequence[int], most_relations: int) -> Structure:
    """Find the linear relations between columns, taking independent ones in the given order.

    Examples
    --------
    >>> found = structure(np.array([[1.0, 2.0, 0.0], [3.0, 6.0, 0.0]]), [0, 1, 2], 10)
    >>> found.columns, [{j: str(k) for j, k in relation.items()} for relation in found.relations]
    ([0], [{2: '1'}, {1: '1', 0: '-2'}])
    """
    prime = next(primes())
    reduced = echelon(scaled(Z).residues(prime), prime, order)
    columns, basis = reduced.columns, Z[reduced.rows]
    others = [j for j in order if j not in set(columns)]
    empty = [j for j in others if not Z[:, j].any()]
    mixed = [j for j in others if Z[:, j].any()]
    relations: list[Relation] | None = None
    if len(mixed) <= most_relations:
        relations = [{j: Fraction(1)} for j in empty]
        unit = [[int(i == k) for i in range(len(mixed))] for k in range(len(mixed))]
        # few primes: relations that occur in practice have short numbers
        solved = solve(basis[:, columns], basis[:, mixed], unit, most_primes=8) if mixed else []
        if solved is None:
            relations = None
        else:
            for j, x in zip(mixed, solved, strict=True):
                relations.append({j: Fraction(1)} | {c: -k for c, k in zip(columns, x, strict=True) if k})
    return Structure(columns, others, reduced.rows, basis, relations)


class Partition(NamedTuple):
    """Goldman and Tucker's partition of the rows of Z.

    Attributes
    ----------
    boundary : ndarray of bool of shape (n,)
        Rows that have margin 0 for every v with ``Z v >= 0``.
    weights : list of n whole numbers
        Positive on the boundary rows, 0 on the others, with ``Z^T p = 0``.
    direction : vector of d Fractions
        A v with ``Z v >= 0`` that is positive on all the other rows.
    """

    boundary: npt.NDArray[np.bool_]
    weights: list[int]
    direction: Vector


class _Tableau:
    """``p_basis + T p_others = 0``, the solutions of ``Z^T p = 0``, in whole numbers over one denominator.

    Beside the n columns of p stand those of the identity, which become the dual v, and one of right-hand
    sides: all are zero in truth, so any choice of pivots is feasible, and positive random ones stand in
    for them, to choose pivots that do not cycle.
    """

    def __init__(self, Z: npt.NDArray[Any], order: Sequence[int]) -> None:
        self.n, d = Z.shape
        self.T = np.hstack([Z.T, np.eye(d, d + 1, dtype=np.int64).astype(object)])
        self.denominator = 1
        self.basis = [-1] * d
        self.pivots = 0
        for j in order:
            unused = [k for k in range(d) if self.basis[k] < 0 and self.T[k, j]]
            if unused:
                self.pivot(unused[0], j)
        kept = [k for k in range(d) if self.basis[k] >= 0]
        self.T, self.basis = self.T[kept], [self.basis[k] for k in kept]
        sides = np.random.default_rng(0).integers(2**20, 2**21, len(kept))
        self.T[:, -1] = [self.denominator * int(side) for side in sides]

    def pivot(self, k: int, j: int) -> None:
        """Make p_j basic in row k, by Edmonds' steps that keep whole numbers whole."""
        row = self.T[k] if self.T[k, j] > 0 else -self.T[k]
        pivot = row[j]
        self.T = (self.T * pivot - np.outer(self.T[:, j], row)) // self.denominator
        self.T[k] = row
        self.denominator = pivot
        self.basis[k] = j
        self.pivots += 1

    def leaves(self, rows: list[int], j: int) -> int:
        """Return the row, of those given, whose basic weight falls to zero first as p_j grows."""
        return min(rows, key=lambda k: Fraction(self.T[k, -1], self.T[k, j]))


def partition(
    Z: Array, order: Sequence[int] | None = None, most_pivots: int | None = None
) -> Partition | None:
    r"""Split the rows into those that some v separates and those that none can, in exact arithmetic.

    The simplex method on

    .. math:: \max \sum_{i \in U} p_i, \quad Z^\top p = 0, \quad p_U \ge 0,

    from ``U`` = all rows. It is unbounded along some ray: then the rows of that ray lie on the boundary,
    their weights become free (a multiple of the weights so far makes them positive again) and leave U.
    Or it is optimal: then its dual v has margins ``>= 1`` on U and 0 on the boundary.

    Parameters
    ----------
    Z : ndarray of shape (n, d), finite floats
    order : whole numbers, optional
        Rows in the order in which they should enter the first basis.
    most_pivots : int, optional

    Returns
    -------
    Partition, or None after ``most_pivots``.

    References
    ----------
    Goldman and Tucker (1956), Theory of linear programming.

    Examples
    --------
    >>> Z = np.array([[1.0, 0.0], [-1.0, 0.0], [3.0, 1.0]])
    >>> boundary, weights, direction = partition(Z)
    >>> boundary.tolist(), weights, [str(v) for v in direction]
    ([True, True, False], [1, 1, 0], ['0', '1'])
    """
    n = len(Z)
    table = scaled(Z, by_columns=True)
    tableau = _Tableau(table.integers(), range(n) if order is None else order)
    free = np.zeros(n, np.bool_)  # the boundary rows known so far
    weights = [0] * n
    while True:
        if most_pivots is not None and tableau.pivots > most_pivots:
            return None
        costly = [k for k, j in enumerate(tableau.basis) if not free[j]]
        dual = tableau.T[costly].sum(axis=0) if costly else np.zeros(tableau.T.shape[1], object)
        gain = tableau.denominator - dual[:n]
        gain[free] = 0
        gain[tableau.basis] = 0
        candidates = np.flatnonzero(gain > 0)
        if not candidates.size:
            break
        j = int(candidates[np.argmax(gain[candidates])])
        blocking = [k for k in costly if tableau.T[k, j] > 0]
        if blocking:
            tableau.pivot(tableau.leaves(blocking, j), j)
            continue
        ray = [0] * n
        ray[j] = tableau.denominator
        for k, basic in enumerate(tableau.basis):
            ray[basic] = -tableau.T[k, j]
        weights = _added(weights, ray)
        # the entering column is zero in the rows that still count, so no free weight ever has to enter
        free = np.array([p > 0 for p in weights])
    # p and v of the rows and columns as given, not as scaled
    lift = table.rows.max(initial=0) - table.rows
    weights = [p << int(s) for p, s in zip(weights, lift, strict=True)]
    shrink = math.gcd(*weights) or 1
    direction = tuple(
        Fraction(dual[n + j], tableau.denominator) * Fraction(2) ** -int(s)
        for j, s in enumerate(table.columns)
    )
    return Partition(free, [p // shrink for p in weights], direction)


def _added(weights: list[int], ray: list[int]) -> list[int]:
    """Add a ray that may be negative where weights are positive, and enough of those."""
    times = max((-q // p + 1 for p, q in zip(weights, ray, strict=True) if p > 0), default=0)
    total = [q + max(times, 0) * p for p, q in zip(weights, ray, strict=True)]
    common = math.gcd(*total)
    return [p // common for p in total]
