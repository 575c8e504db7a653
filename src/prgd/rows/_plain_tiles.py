"""What the functions of ``_tiles.py`` compute, in NumPy: for runs without the compiler, which tests make."""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd.rows._tiles import LANES, PAIR, ROW_SUMS


def power_of_two(exponent: Any) -> Any:
    """Return 2^n."""
    return 2.0 ** int(exponent)


def transpose(X: Any, rows: Any, r: Any, j: Any, XT: Any, stride: Any) -> None:
    """Copy columns ``j..j + LANES`` of the rows ``rows[r..r + LANES]`` of X to their places in XT."""
    lines = XT.reshape(-1, stride)
    lines[j : j + LANES, r : r + LANES] = X[rows[r : r + LANES], j : j + LANES].T


def product_tile(classes: int) -> Any:
    """Return a function that writes the products of PAIR rows with some classes to S."""

    def tile(XT: Any, r: Any, stride: Any, W: Any, width: Any, k: Any, d: Any, S: Any, *ahead: Any) -> None:
        vectors = W.reshape(-1, width)[k : k + classes, :d]
        S.reshape(-1, stride)[k : k + classes, r : r + PAIR] = (
            vectors @ XT.reshape(-1, stride)[:d, r : r + PAIR]
        )

    return tile


def sum_tile(classes: int, columns: int) -> Any:
    """Return a function that adds rows times their factors to some classes and columns of V."""

    def tile(XT: Any, j: Any, C: Any, k: Any, stride: Any, first: Any, last: Any, V: Any, d: Any) -> None:
        factors = C.reshape(-1, stride)[k : k + classes, first:last]
        entries = XT.reshape(-1, stride)[j : j + columns, first:last]
        V.reshape(-1, d)[k : k + classes, j : j + columns] += factors @ entries.T

    return tile


def add_row_products(
    X: Any, i: Any, vectors: Any, first: Any, last: Any, sums: Any, at: Any, ahead: Any
) -> None:
    """Add the products of columns ``first..last`` of a row to ROW_SUMS sums for each vector."""
    for k, w in enumerate(vectors):
        products = X[i, first:last].astype(np.float64) * w[first:last]
        for line in products.reshape(-1, ROW_SUMS):  # one after the other, whatever the pieces are
            sums[at + k * ROW_SUMS : at + (k + 1) * ROW_SUMS] += line


def sparse_products(
    data: Any, indices: Any, first: Any, last: Any, WT: Any, width: Any, k: Any, out: Any
) -> None:
    """Write the products of the entries ``first..last`` with LANES classes."""
    out[k : k + LANES] = data[first:last] @ WT.reshape(-1, width)[indices[first:last], k : k + LANES]


def sparse_sums(
    data: Any, indices: Any, first: Any, last: Any, factors: Any, k: Any, V: Any, width: Any
) -> None:
    """Add the entries ``first..last`` times the factors of LANES classes to V."""
    V.reshape(-1, width)[indices[first:last], k : k + LANES] += np.outer(
        data[first:last], factors[k : k + LANES]
    )
