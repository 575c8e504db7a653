"""Gathered rows: dense float64 arrays or SciPy CSR arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prgd._types import Array, Signs


def stack_blocks(blocks: Sequence[Any]) -> Any:
    """Put gathered rows below each other: dense if all are, else CSR."""
    if all(isinstance(block, np.ndarray) for block in blocks):
        return np.vstack(blocks)
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack([csr_array(block) for block in blocks]))


def times_signs(block: Any, signs: Signs) -> Any:
    """Turn gathered rows x_i into z_i = y_i x_i, in place."""
    if isinstance(block, np.ndarray):
        block *= signs[:, None]
    else:
        block.data *= np.repeat(signs, np.diff(block.indptr))
    return block


def row_squares(block: Any) -> Array:
    """Return the squared norms of gathered rows."""
    if isinstance(block, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", block, block))
    return np.asarray(block.multiply(block).sum(axis=1)).ravel()
