"""Fingerprints of rows, labels and weights: a result that was saved is resumed on its own data only.

The fingerprint of rows is a sum over rows, modulo 2^64, of a hash of the row's index and its hash
``h_i = sum_j (low_j + a)(high_j + b) - low_j high_j``, where a and b are the lower and the upper half of the
float64 x_ij and ``low_j``, ``high_j`` are fixed random 32-bit numbers (the hash NH of Black et al., "UMAC",
1999). A zero adds nothing, so dense and sparse rows of the same numbers agree, and so do chunks, clusters
and devices. It guards against mistakes, not against an adversary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.rows.base import Block, LeafRows, Query
from prgd.rows.labels import Labels

_HALF = 0xFFFFFFFF
_ONE = 0x3FF0000000000000  # the bits of 1.0: a weight of 1 is no weight
_BLOCK_BYTES = 2**24  # bytes of the rows that are gathered at a time from an engine without an own answer


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
        """Gather the rows block by block, and hash the float64 numbers."""
        step = max(1, _BLOCK_BYTES // (8 * rows.d))
        low, high = keys(rows.d)
        total = 0
        for start in range(0, rows.n, step):
            indices = np.arange(start, min(start + step, rows.n))
            hashes = _block_hashes(rows.take(indices), low, high)
            total += int(with_index(hashes, indices + self.first).sum())
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


def keys(d: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the 32-bit numbers low_j and high_j of d columns."""
    bits = mix(np.arange(1, d + 1, dtype=np.int64))
    return bits & _HALF, (bits >> 32) & _HALF


# The functions below take int64 arrays of NumPy or torch, which wrap at 2^64. Shifts carry the sign along, so
# it is masked away.


def mix(x: Any) -> Any:
    """Return a hash of every 64-bit number (the finaliser of splitmix64)."""
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


def with_index(hashes: Any, indices: Any) -> Any:
    """Return a hash of every pair of a number and its index."""
    return mix(hashes ^ mix(indices + 1))


def products(bits: Any, low: Any, high: Any) -> Any:
    """Return ``(low + a)(high + b)`` of the halves a and b of every number."""
    return ((bits + low) & _HALF) * (((bits >> 32) + high) & _HALF)


def _block_hashes(block: Block, low: Any, high: Any) -> Any:
    if isinstance(block, np.ndarray):
        bits = (block + 0.0).view(np.int64)  # + 0.0 makes 0 of -0
        return products(bits, low, high).sum(axis=1) - (low * high).sum()
    columns = block.indices
    terms = products((block.data + 0.0).view(np.int64), low[columns], high[columns])
    sums = np.concatenate([[0], np.cumsum(terms - (low * high)[columns])])
    return sums[block.indptr[1:]] - sums[block.indptr[:-1]]
