"""A matrix of float64 numbers as a matrix of integers, by powers of two taken out of its rows and columns.

Every float64 is an integer times a power of two, so this conversion is exact.

The exact arithmetic of `prgd.proofs` uses NumPy's int64 modulo 31-bit primes and Python's integers, not
python-flint. FLINT would replace the modular elimination and the rational reconstruction, about 120 lines;
the zero tests over many rows, which are vectorised here, and the exact simplex method would remain. It would
be one more compiled dependency of every installation, and the matrices that reach exact arithmetic are small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.core.arithmetic import odd_mantissas
from prgd.core.types import Array, Indices

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

    def residues(self, prime: int) -> Indices:
        """Return the entries modulo ``prime``."""
        powers = [1]
        for _ in range(int(self.shift.max(initial=0))):
            powers.append(2 * powers[-1] % prime)
        return (self.mantissa % prime) * np.array(powers, np.int64)[self.shift] % prime

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
