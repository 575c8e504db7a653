"""Gathered rows as an engine: products by NumPy or SciPy alone, which need no compiler."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from prgd.core.types import Array, Indices
from prgd.rows.base import Block, LeafRows
from prgd.rows.labels import Labels


class GatheredRows(LeafRows):
    """Rows of a float64 array or a CSR array, with no faster way for any query than their products.

    Small rows answer the queries that are asked a few times in this form: to compile a kernel would take
    longer than many of these passes. Unlike BLAS, einsum gives the same bits on any number of threads.

    Examples
    --------
    >>> rows = GatheredRows(np.array([[1.0, 0.0], [0.0, 2.0]]), Labels.read([1, -1], None, 2))
    >>> rows.times(np.array([3.0, 1.0])), rows.combine(np.array([1.0, -1.0]))
    (array([3., 2.]), array([ 1., -2.]))
    """

    def __init__(self, block: Block, labels: Labels) -> None:
        self._block, self.labels = block, labels
        self.n, self.d = block.shape
        self.is_sparse = not isinstance(block, np.ndarray)

    def take(self, indices: Indices) -> Block:
        """Return the rows x_i of these indices."""
        return self._block[indices]

    def times(self, w: Array) -> Array:
        """Return ``<w, x_i>`` for every row."""
        X = self._block
        return np.asarray(X @ w if self.is_sparse else np.einsum("ij,j->i", X, w))

    def combine(self, c: Array) -> Array:
        """Return ``X^T c``."""
        X = self._block
        return np.asarray(self._transpose @ c if self.is_sparse else np.einsum("ij,i->j", X, c))

    @cached_property
    def _transpose(self) -> Block:
        # SciPy checks the arrays of a new transpose, which takes longer than the product of small rows.
        return self._block.T
