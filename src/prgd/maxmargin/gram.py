"""The working set: some rows, gathered once, and their Gram matrix, grown as rows join."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.losses import Array
from prgd.rows import Rows

# a column filled in more than this share of the rows is cheaper in a dense product
_DENSE_SHARE = 0.15


class WorkingSet:
    """Rows z_i of the set, in the order in which they joined, with ``G = Z Z^T``."""

    def __init__(self, rows: Rows, by_class: bool) -> None:
        self._rows, self._by_class = rows, by_class
        self.indices = np.empty(0, np.int64)
        self.group = np.empty(0, np.int64)
        self._blocks: list[Any] = []
        self._G = np.empty((0, 0))

    @property
    def size(self) -> int:
        """Number of rows in the set."""
        return self.indices.size

    @property
    def G(self) -> Array:
        """The Gram matrix, C-ordered."""
        return self._G

    def add(self, indices: npt.NDArray[np.int64]) -> None:
        """Gather these rows and border the Gram matrix with their products."""
        indices = np.sort(indices)
        block = self._rows.take(indices)
        old, new = self.size, self.size + indices.size
        G = np.empty((new, new))
        G[:old, :old] = self._G
        start = 0
        for other in self._blocks:
            stop = start + other.shape[0]
            product = products(block, other)
            G[old:, start:stop] = product
            G[start:stop, old:] = product.T
            start = stop
        G[old:, old:] = products(block, block)
        self._G = G
        self._blocks.append(block)
        self.indices = np.concatenate([self.indices, indices])
        signs = self._rows.signs()[indices]
        group = (signs < 0).astype(np.int64) if self._by_class else np.zeros(indices.size, np.int64)
        self.group = np.concatenate([self.group, group])

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Let the other rows go."""
        starts = np.cumsum([0] + [block.shape[0] for block in self._blocks])
        parts = [mask[a:b] for a, b in zip(starts, starts[1:], strict=False)]
        self._blocks = [block[part] for block, part in zip(self._blocks, parts, strict=True) if part.any()]
        self._G = np.ascontiguousarray(self._G[np.ix_(mask, mask)])
        self.indices, self.group = self.indices[mask], self.group[mask]

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p`` over the set."""
        total = np.zeros(self._rows.d)
        start = 0
        for block in self._blocks:
            stop = start + block.shape[0]
            if p[start:stop].any():
                total += block.T @ p[start:stop]
            start = stop
        return total

    def rows_of(self, places: npt.NDArray[np.int64]) -> Array:
        """Return the rows z_i at these places of the set, as a dense array."""
        mask = np.zeros(self.size, bool)
        mask[places] = True
        starts = np.cumsum([0] + [block.shape[0] for block in self._blocks])
        parts = [b[mask[i:j]] for b, i, j in zip(self._blocks, starts, starts[1:], strict=False)]
        return np.vstack([part if isinstance(part, np.ndarray) else part.toarray() for part in parts])

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>`` for the rows of the set."""
        return np.concatenate([block @ w for block in self._blocks])


def products(A: Any, B: Any) -> Array:
    """Return ``A B^T`` as a dense array; columns that many sparse rows share go through BLAS."""
    if isinstance(A, np.ndarray) and isinstance(B, np.ndarray):
        return np.asarray(A @ B.T)
    from scipy.sparse import csr_array

    same, A, B = A is B, csr_array(A), csr_array(B)
    counts = np.bincount(A.indices, minlength=A.shape[1])
    full = np.flatnonzero(counts > _DENSE_SHARE * A.shape[0])
    if A.shape[0] < 64 or full.size < 16:
        return np.asarray((A @ B.T).toarray())
    rest = np.ones(A.shape[1])
    rest[full] = 0.0
    dense_A = A[:, full].toarray()
    dense_B = dense_A if same else B[:, full].toarray()
    thin = A.copy()
    thin.data = thin.data * rest[thin.indices]
    thin.eliminate_zeros()
    return np.asarray((thin @ B.T).toarray() + dense_A @ dense_B.T)
