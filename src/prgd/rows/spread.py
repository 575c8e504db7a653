"""The spread of rows around centres, which bounds the curvature of the logarithm of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prgd.core.arithmetic import rounding_factor
from prgd.core.types import Array, Indices
from prgd.rows.base import LeafRows, Query
from prgd.rows.blocks import is_sparse, row_squares
from prgd.rows.labels import Labels
from prgd.rows.queries import BLOCK_ENTRIES


@dataclass(frozen=True, eq=False)
class Spread(Query[Array]):
    r"""Return the largest ``||z_i - c||^2`` of all rows, or of each class, for a centre c of each group.

    .. math:: \max_i \|z_i - c\|_2^2

    ``centers`` has shape (groups, d).
    """

    centers: Array

    def answer(self, rows: LeafRows, labels: Labels) -> Array:
        """Gather the rows part by part, and measure them in NumPy."""
        step, parts = max(1, BLOCK_ENTRIES // rows.d), []
        for start in range(0, rows.n, step):
            at = np.arange(start, min(start + step, rows.n))
            parts.append(self._largest(rows.take(at), labels.at(at)))
        return self.merge(parts)

    def _largest(self, block: Any, signs: Any) -> Array:
        groups = [signs > 0, signs < 0] if len(self.centers) == 2 else [signs != 0]
        found = []
        for center, group in zip(self.centers, groups, strict=True):
            mine, y = block[group], signs[group].astype(np.float64)
            if is_sparse(mine):
                kept = _farthest(mine, y, center)
                mine, y = mine[kept].toarray(), y[kept]
            found.append(float(row_squares(mine - np.outer(y, center)).max(initial=0.0)))
        return np.array(found)

    def merge(self, parts: Sequence[Array]) -> Array:
        """Take the largest of all parts."""
        return np.asarray(np.max(parts, axis=0))


def _farthest(block: Any, y: Array, center: Array) -> Indices:
    """Return the sparse rows that may have the largest ``||z_i - c||``: differences of all would be dense.

    Far from the origin the squares cancel, and many rows are left.
    """
    sizes = row_squares(block) + center @ center
    squares = sizes - 2.0 * y * (block @ center)
    errors = 4.0 * rounding_factor(center.size + 8) * sizes
    return np.flatnonzero(squares + errors >= (squares - errors).max(initial=-np.inf))
