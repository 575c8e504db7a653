"""Blocks of rows, dense or CSR arrays or tensors; and facts of all rows that one pass finds from them.

The fingerprint is a sum over rows, modulo 2^64, of a hash of the row's index and its hash ``h_i = sum_j key_j
fold(x_ij)``, where ``fold`` mixes the halves of the bits of a float64 and ``key_j`` are fixed random odd
numbers. A zero adds nothing, so dense and sparse rows of the same numbers agree, and so do chunks, clusters
and devices. It guards against mistakes, not against an adversary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.core.arithmetic import like, namespace, to_host
from prgd.core.errors import NotFiniteError
from prgd.core.types import Array, Indices, Signs
from prgd.rows.base import Block, LeafRows, Query
from prgd.rows.labels import Labels

BLOCK_ENTRIES = 2**17  # entries of the rows that are measured at a time: they stay in the cache
_MIN_SQUARE, _MAX_SQUARE = 1e-280, 1e300  # between them no square that counts left the floating range
_ONE = 0x3FF0000000000000  # the bits of 1.0: a weight of 1 is no weight


def is_sparse(block: Any) -> bool:
    """Say whether gathered rows are CSR."""
    return hasattr(block, "indptr")


def stack_blocks(blocks: Sequence[Any]) -> Any:
    """Put gathered rows below each other: dense if all are, else CSR."""
    if not any(is_sparse(block) for block in blocks):
        return namespace(blocks[0]).vstack(list(blocks))
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack([csr_array(block) for block in blocks]))


def with_ones(X: Any) -> Any:
    """Append a column of ones, that of an intercept, to dense or CSR rows."""
    ones = np.ones((X.shape[0], 1))
    if not is_sparse(X):
        return np.hstack([X, ones])
    from scipy.sparse import csr_array, hstack

    return hstack([X, csr_array(ones)], format="csr")


def times_signs(block: Any, signs: Signs) -> Any:
    """Turn gathered rows x_i into z_i = y_i x_i, in place."""
    if not is_sparse(block):
        block *= like(block, signs)[:, None]
    else:
        block.data *= np.repeat(signs, np.diff(block.indptr))
    return block


def row_norms(block: Any) -> Any:
    """Return the norms of gathered rows, where the rows lie, also if their squares leave the floating range.

    The norm of a row with an entry that is infinite or NaN is one of these.

    Examples
    --------
    >>> row_norms(np.array([[3e-200, 4e-200], [3.0, 4.0], [3e300, 4e300]]))
    array([5.e-200, 5.e+000, 5.e+300])
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = _squares(block)
        norms = squares**0.5
        # Entries that count are scaled by a power of two so that their squares lie in the floating range.
        for is_outside, factor in ((squares < _MIN_SQUARE, 2.0**600), (~(squares < _MAX_SQUARE), 2.0**-600)):
            if is_outside.any():
                norms[is_outside] = _squares(block[is_outside] * factor) ** 0.5 / factor
    return norms


def non_finite_entry(block: Any) -> tuple[int, int] | None:
    """Return the row and column of the first entry that is NaN or infinite, None if all are finite."""
    block = block if is_sparse(block) else to_host(block)
    at = np.flatnonzero(~np.isfinite(block.data if is_sparse(block) else block))[:1]
    if at.size == 0:
        return None
    if not is_sparse(block):
        row, column = divmod(int(at[0]), block.shape[1])
        return row, column
    return int(np.searchsorted(block.indptr, at[0], side="right")) - 1, int(block.indices[at[0]])


def divide_by_power(block: Any, exponent: int) -> None:
    """Divide gathered rows by ``2**exponent``, in place."""
    values = block.data if is_sparse(block) else block
    for part in (exponent // 2, exponent - exponent // 2):  # each power is in the floating range
        values *= 2.0**-part


def row_squares(block: Any) -> Array:
    """Return the squared norms of gathered rows as a NumPy array."""
    return to_host(_squares(block))


def _squares(block: Any) -> Any:
    if isinstance(block, np.ndarray):
        return np.einsum("ij,ij->i", block, block)
    if not is_sparse(block):
        return namespace(block).linalg.vector_norm(block, dim=1) ** 2
    sums, is_filled = np.zeros(block.shape[0]), np.diff(block.indptr) > 0
    if is_filled.any():  # reduceat gives an empty row the number after it
        sums[is_filled] = np.add.reduceat(block.data**2, block.indptr[:-1][is_filled])
    return sums


def pair_rows(X: Any, plus: Indices, minus: Indices, K: int) -> Any:
    """Return ``x_t (x) (e_plus - e_minus)`` for each of the rows x_t, exactly; W is read row by row.

    Examples
    --------
    >>> pair_rows(np.array([[1.0, 2.0]]), np.array([2]), np.array([0]), 3).toarray()
    array([[-1., -2.,  0.,  0.,  1.,  2.]])
    """
    from scipy.sparse import csr_array

    X = csr_array(X)
    counts, d = np.diff(X.indptr), int(X.shape[1])
    first, second = (
        csr_array((X.data, X.indices + np.repeat(k * d, counts), X.indptr), shape=(X.shape[0], K * d))
        for k in (plus, minus)
    )
    return csr_array(first - second)


class Measurement(NamedTuple):
    """Facts of the rows: the largest norm, and the number of zero rows."""

    max_norm: float
    zero_rows: int


@dataclass(frozen=True, eq=False)
class Measure(Query[Measurement]):
    """Check that all entries are finite, and measure the row norms."""

    def of_squares(self, squares: Array) -> Measurement | None:
        """Return the answer if all squared norms lie in the floating range, and no row is zero."""
        low, high = float(squares.min()), float(squares.max())
        return Measurement(math.sqrt(high), 0) if low > _MIN_SQUARE and high < _MAX_SQUARE else None

    def answer(self, rows: LeafRows, labels: Labels) -> Measurement:
        """Measure the rows part by part."""
        parts = []
        for at, block in rows.blocks(max(1, BLOCK_ENTRIES // rows.row_entries)):
            norms = row_norms(block)
            if not (norms < math.inf).all() and (place := non_finite_entry(block)):
                raise NotFiniteError(at.start + place[0], place[1])
            parts.append(Measurement(float(norms.max()), int((norms == 0.0).sum())))
        return self.merge(parts)

    def merge(self, parts: Sequence[Measurement]) -> Measurement:
        """Take the largest norm, and add the zero rows."""
        return Measurement(max(m.max_norm for m in parts), sum(m.zero_rows for m in parts))


@dataclass(frozen=True, eq=False)
class LargestRow(Query[float]):
    r"""Return the largest ``||x_i||_q`` of all rows, for an exponent q from 1 to infinity.

    .. math:: \max_i \|x_i\|_q
    """

    q: float

    def answer(self, rows: LeafRows, labels: Labels) -> float:
        """Measure the rows part by part; powers are of entries of at most 1."""
        largest = 0.0
        for _, block in rows.blocks(max(1, BLOCK_ENTRIES // rows.row_entries)):
            block = abs(block)
            size = float(block.max())
            if size == 0.0 or self.q == np.inf:
                largest = max(largest, size)
                continue
            sums = ((block / size) ** self.q).sum(axis=1)
            largest = max(largest, size * float(sums.max()) ** (1.0 / self.q))
        return largest

    def merge(self, parts: Sequence[float]) -> float:
        """Take the largest of all parts."""
        return max(parts)


class Words(NamedTuple):
    """Fingerprints of the rows, their labels and their weights, each a number of 64 bits."""

    rows: int
    labels: int
    weights: int

    def __str__(self) -> str:
        return "-".join(f"{word:016x}" for word in self)


@dataclass(frozen=True, eq=False)
class Fingerprint(Query[Words]):
    """Hash all rows, labels and weights; threads, chunks and the kind of storage do not matter."""

    first: int = 0  # index of the first row that this query is about

    def part(self, at: slice) -> Fingerprint:
        """Count the rows from the first of all."""
        return replace(self, first=self.first + at.start)

    def answer(self, rows: LeafRows, labels: Labels) -> Words:
        """Hash the float64 numbers block by block, where they lie."""
        keys, total = mix(np.arange(1, rows.d + 1)) | 1, 0
        for at, block in rows.blocks(max(1, BLOCK_ENTRIES // rows.row_entries)):
            hashes = _block_hashes(block, keys)
            total += int(with_index(hashes, np.arange(at.start, at.stop) + self.first).sum())
        return self.words(total, labels)

    def words(self, rows: int, labels: Labels) -> Words:
        """Return the answer from the sum over the rows, and the labels with their weights."""
        minus = np.flatnonzero(labels.signs < 0) + self.first
        total = int(mix(minus + 1).sum())
        if labels.is_joint:
            codes = labels.codes.astype(np.int64)
            total += int(with_index(codes, np.arange(codes.size) + self.first).sum())
        bits = (labels.sample_weight + 0.0).view(np.int64) ^ _ONE
        weighed = np.flatnonzero(bits)
        weights = int(with_index(bits[weighed], weighed + self.first).sum())
        return Words(*(word % 2**64 for word in (int(rows), total, weights)))

    def merge(self, parts: Sequence[Words]) -> Words:
        """Add the sums of the parts."""
        return Words(*(sum(words) % 2**64 for words in zip(*parts, strict=True)))


# Shifts of int64 carry the sign along, so it is masked away; products wrap at 2^64.


def mix(x: Any) -> Any:
    """Return a hash of every 64-bit number (the finaliser of splitmix64)."""
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


def with_index(hashes: Any, indices: Any) -> Any:
    """Return a hash of every pair of a number and its index."""
    return mix(hashes ^ mix(indices + 1))


def _block_hashes(block: Block, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return ``sum_j key_j fold(x_ij)`` of the rows of a block of any namespace, on the host."""
    values = block.data if is_sparse(block) else block
    xp = namespace(values)
    bits = (values + 0.0).view(xp.int64)  # + 0.0 makes 0 of -0
    bits = bits ^ ((bits >> 32) & 0xFFFFFFFF)
    if is_sparse(block):
        sums = np.concatenate([[0], np.cumsum(bits * keys[block.indices])])
        return np.asarray(sums[block.indptr[1:]] - sums[block.indptr[:-1]])
    if xp is np:
        return np.asarray(bits @ keys)
    return np.asarray((bits * xp.from_numpy(keys).to(bits.device)).sum(dim=1).cpu().numpy())
