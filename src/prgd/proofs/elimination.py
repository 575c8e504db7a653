"""Gauss-Jordan elimination modulo a prime, of columns that come in panels.

Residues are float64 integers of at most 22 bits and a sign, so that one product of float64 matrices with
up to 256 terms is exact.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

from prgd.core.types import Array, Indices, Mask

PRIME_BITS = 22  # every prime used lies between 2**22 and 2**23
MAX_TERMS = 256  # terms of a product of matrices of residues, so that its sums stay below 2**53


def short_primes() -> Iterator[int]:
    """Yield the primes below 2**23, from the largest down."""
    return filter(is_prime, range(2**23 - 1, 2**22, -2))


@cache
def is_prime(odd: int) -> bool:
    """Apply Miller and Rabin's test; the bases 2, 3, 5 and 7 decide every number below 3.2e9."""
    twos = ((odd - 1) & -(odd - 1)).bit_length() - 1
    for base in (2, 3, 5, 7):
        x = pow(base, (odd - 1) >> twos, odd)
        if x != 1 and all(pow(x, 2**k, odd) != odd - 1 for k in range(twos)):
            return False
    return True


def reduced(values: Array, prime: int) -> Array:
    """Reduce integers below 2**53 to residues of at most ``prime / 2`` and some rounding, in place."""
    step = max(1, 2**16 // max(1, values.shape[0]))
    for k in range(0, values.shape[-1], step) if values.ndim == 2 else [0]:
        part = values[:, k : k + step] if values.ndim == 2 else values
        part -= np.rint(part * (1.0 / prime)) * prime
    return values


def residues(values: Array, prime: int) -> Array:
    """Return the residues of floats: m 2**e stands for an integer modulo an odd prime even if e is negative.

    Examples
    --------
    >>> residues(np.array([3.0, 0.5, 8.0]), 7).tolist()
    [3.0, -3.0, 1.0]
    """
    values = np.asarray(values, np.float64)
    if not (np.abs(values) < 2.0**52).all() or (values != np.rint(values)).any():
        mantissa, exponent = np.frexp(values)
        exponent -= 53
        low, high = int(exponent.min()), int(exponent.max())
        powers = np.zeros(high - low + 1)
        for e in np.flatnonzero(np.bincount((exponent - low).ravel())).tolist():
            powers[e] = pow(2, e + low, prime)
        # Integers of 53 bits are reduced in two parts: a multiple of the prime near 2**53 would be rounded.
        whole = np.ldexp(mantissa, 53)
        top = np.trunc(whole * 2.0**-27)
        whole = reduced(top * float(2**27 % prime) + (whole - top * 2.0**27), prime)
        return reduced(whole * powers[exponent - low], prime)
    return reduced(values.copy(), prime)


def product(A: Array, B: Array, prime: int) -> Array:
    """Return a product of matrices of residues modulo the prime."""
    out = np.zeros((A.shape[0], B.shape[1]))
    for k in range(0, A.shape[1], MAX_TERMS):
        out = reduced(out + A[:, k : k + MAX_TERMS] @ B[k : k + MAX_TERMS], prime)
    return out


def exact_product(A: Array, B: Array) -> Indices:
    """Return a product of matrices of integers of at most 22 bits."""
    out = np.zeros((A.shape[0], B.shape[1]), np.int64)
    for k in range(0, A.shape[1], MAX_TERMS):
        out += (A[:, k : k + MAX_TERMS] @ B[k : k + MAX_TERMS]).astype(np.int64)
    return out


class Elimination:
    """Columns of n rows, reduced to unit vectors as far as they are independent.

    T is the product of all row operations so far. It is the identity except in the columns of the pivot rows,
    which are stored; so a further column costs n times the number of pivots.

    Attributes
    ----------
    pivots : ndarray of int
        The pivot row of each column that was kept.
    """

    def __init__(self, n: int, prime: int) -> None:
        self.n, self.prime = n, prime
        self.pivots: Indices = np.empty(0, np.int64)
        self._stored = np.empty((n, 0), order="F")

    @property
    def operations(self) -> Array:
        """The columns of T that belong to the pivot rows."""
        return self._stored[:, : self.pivots.size]

    def reduce(self, panel: Array) -> Array:
        """Return T times some columns of residues: at the pivot rows, the factors of the kept columns."""
        out = np.array(panel, order="F")
        top, out[self.pivots] = out[self.pivots], 0.0
        for k in range(0, self.pivots.size, MAX_TERMS):
            part = slice(k, k + MAX_TERMS)
            out += self.operations[:, part] @ top[part]
            reduced(out, self.prime)
        return out

    def add(self, panel: Array) -> tuple[list[int], Array]:
        """Keep the columns, in their order, that are independent of those kept before.

        Returns
        -------
        kept : list of int
            Their positions in the panel, which has at most 256 columns.
        panel : ndarray
            T times the panel. In a column that is not kept only pivot rows are not zero.
        """
        panel = self.reduce(panel)
        is_free = np.ones(self.n, np.bool_)
        is_free[self.pivots] = False
        kept, pivots, factors = self._eliminate(panel.copy(order="F"), is_free)
        if kept:
            self._apply(factors, pivots, panel)
            for k in range(0, self.pivots.size, MAX_TERMS):
                self._apply(factors, pivots, self.operations[:, k : k + MAX_TERMS])
            old, total = self.pivots.size, self.pivots.size + len(kept)
            if total > self._stored.shape[1]:
                grown = np.empty((self.n, min(self.n, 2 * total)), order="F")
                grown[:, :old] = self.operations
                self._stored = grown
            self.pivots = np.append(self.pivots, pivots)
            self._stored[:, old:total] = factors
        return kept, panel

    def _eliminate(self, panel: Array, is_free: Mask) -> tuple[list[int], list[int], Array]:
        """Return the columns kept, their pivot rows, and the columns of these rows in the new operations."""
        width = panel.shape[1]
        if width == 1:
            f = panel[:, 0]
            rows = np.flatnonzero(f.astype(np.bool_) & is_free)
            if not rows.size:
                return [], [], np.empty((self.n, 0), order="F")
            row = int(rows[0])
            inverse = pow(int(f[row]), -1, self.prime)
            factors = reduced(f * -float(inverse), self.prime)
            factors[row], is_free[row] = reduced(np.array([float(inverse)]), self.prime)[0], False
            return [0], [row], factors[:, None]
        half = width // 2
        kept, pivots, factors = self._eliminate(panel[:, :half], is_free)
        right = panel[:, half:]
        self._apply(factors, pivots, right)
        more, below, last = self._eliminate(right, is_free)
        self._apply(last, below, factors)
        return [*kept, *(half + j for j in more)], [*pivots, *below], np.hstack([factors, last])

    def _apply(self, factors: Array, pivots: list[int], columns: Array) -> None:
        """Apply row operations to some columns, in place."""
        if pivots and columns.shape[1]:
            top, columns[pivots] = columns[pivots], 0.0
            columns += factors @ top
            reduced(columns, self.prime)


def eliminated(Z: Array, prime: int) -> tuple[Elimination, list[int]]:
    """Return the elimination of all columns of some floats, and the columns that it keeps."""
    elimination, panels, kept = Elimination(len(Z), prime), residues(Z, prime), list[int]()
    for k in range(0, Z.shape[1], MAX_TERMS):
        kept += [k + j for j in elimination.add(panels[:, k : k + MAX_TERMS])[0]]
    return elimination, kept
