"""The working set: some rows, gathered once, and their Gram matrix, grown as rows join."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.losses import Array
from prgd.rows import Rows
from prgd.rows.chunks import stack_blocks

# a column filled in more than this share of the rows, and a whole block, is cheaper in a dense product
_DENSE_SHARE = 0.15
_FEW_DIMENSIONS = 1024


class WorkingSet:
    """Rows z_i of the set, in the order in which they joined, with ``G = Z Z^T``, made at the first look."""

    def __init__(self, rows: Rows, by_class: bool) -> None:
        self._rows, self.by_class = rows, by_class
        self.indices = np.empty(0, np.int64)
        self.group = np.empty(0, np.int64)
        self.Z: Any = None
        self._G = np.empty((0, 0))

    @property
    def size(self) -> int:
        """Number of rows in the set."""
        return self.indices.size

    @property
    def is_flat(self) -> bool:
        """Dense, and of so few dimensions that systems in them are cheap."""
        return isinstance(self.Z, np.ndarray) and self.Z.shape[1] <= _FEW_DIMENSIONS

    @property
    def G(self) -> Array:
        """The Gram matrix; rows that joined since the last look border it."""
        old, new = len(self._G), self.size
        if old < new:
            block = self.Z[old:]
            G = np.empty((new, new))
            G[:old, :old] = self._G
            if old:
                G[old:, :old] = products(block, self.Z[:old])
                G[:old, old:] = G[old:, :old].T
            G[old:, old:] = products(block, block)
            self._G = G
        return self._G

    def products_of(self, places: npt.NDArray[np.int64]) -> Array:
        """Return the Gram matrix of the rows at these places."""
        if len(self._G) == self.size:
            return np.asarray(self._G[np.ix_(places, places)])
        some = self.Z[places]
        return products(some, some)

    def add(self, indices: npt.NDArray[np.int64]) -> None:
        """Gather these rows."""
        indices = np.sort(indices)
        block = self._rows.take(indices)
        if self.Z is None:
            if (
                not isinstance(block, np.ndarray)
                and block.nnz > _DENSE_SHARE * block.shape[0] * block.shape[1]
            ):
                block = block.toarray()
            self.Z = block
        else:
            if isinstance(self.Z, np.ndarray) and not isinstance(block, np.ndarray):
                block = block.toarray()
            self.Z = stack_blocks([self.Z, block])
        self.indices = np.concatenate([self.indices, indices])
        is_minus = self._rows.signs(indices) < 0 if self.by_class else np.zeros(indices.size)
        group = np.asarray(is_minus, dtype=np.int64)
        self.group = np.concatenate([self.group, group])

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Let the other rows go."""
        known = mask[: len(self._G)]
        self.Z, self._G = self.Z[mask], np.ascontiguousarray(self._G[np.ix_(known, known)])
        self.indices, self.group = self.indices[mask], self.group[mask]

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p`` over the set."""
        carried = np.flatnonzero(p)
        return np.asarray(self.Z[carried].T @ p[carried])

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>`` for the rows of the set."""
        return np.asarray(self.Z @ w)

    def norms(self) -> Array:
        """Return the norms of the rows of the set."""
        if isinstance(self.Z, np.ndarray):
            return np.asarray(np.sqrt(np.einsum("ij,ij->i", self.Z, self.Z)))
        return np.asarray(np.sqrt(self.Z.multiply(self.Z).sum(axis=1))).ravel()

    def membership(self, places: npt.NDArray[np.int64], groups: int) -> Array:
        """Return a column for each group, 1.0 where the row at a place belongs to it."""
        return np.asarray(self.group[places, None] == np.arange(groups), dtype=np.float64)

    def rows_of(self, places: npt.NDArray[np.int64]) -> Array:
        """Return the rows z_i at these places of the set, as a dense array."""
        found = self.Z[places]
        return np.asarray(found if isinstance(found, np.ndarray) else found.toarray())


def products(A: Any, B: Any) -> Array:
    """Return ``A B^T`` as a dense array; columns that many sparse rows share go through BLAS."""
    if isinstance(A, np.ndarray):
        return np.asarray(A @ B.T)
    counts = np.bincount(A.indices, minlength=A.shape[1])
    full = np.flatnonzero(counts > _DENSE_SHARE * A.shape[0])
    if A.shape[0] < 64 or full.size < 16:
        return np.asarray((A @ B.T).toarray())
    # one of the two without the shared columns: they meet in the dense product only
    thin = A.copy()
    is_full = np.zeros(A.shape[1], bool)
    is_full[full] = True
    thin.data[is_full[thin.indices]] = 0.0
    thin.eliminate_zeros()
    dense = A[:, full].toarray()
    other = dense if B is A else B[:, full].toarray()
    return np.asarray((thin @ B.T).toarray() + dense @ other.T)
