"""The rows ``z_i = y_i (x_i, 1)`` of a data set, read in blocks and without rounding from any engine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from prgd.core.types import Array, Indices, Intercept, Mask
from prgd.problem import Problem
from prgd.rows import Combine, MarginsAt, Measure, Rows, as_rows
from prgd.rows.blocks import stack_blocks, times_signs, with_ones

_BLOCK_ENTRIES = 2**20  # entries of the block of rows that is held at a time
_STORED_ROWS = 2**13  # rows of a block of CSR rows
MAX_DENSE_ENTRIES = 2**25  # entries of the rows that carry a proof, which are copied as a dense array


class LiftedRows:
    """The rows ``z_i = y_i (x_i, 1)`` over any engine, without a copy of the data.

    Parameters
    ----------
    X, y
        The same as for `prgd.Problem`.
    fit_intercept : bool
        False leaves the 1 out: ``z_i = y_i x_i``.

    Attributes
    ----------
    counts : ndarray of bool of shape (n,)
        Which rows count: all but those of sample weight 0, about which nothing is proven.
    counted : ndarray of int
        Their indices.

    Examples
    --------
    >>> rows = LiftedRows([[1.0, 2.0], [3.0, 4.0]], [1, -1], fit_intercept=True)
    >>> rows.take([0, 1])
    array([[ 1.,  2.,  1.],
           [-3., -4., -1.]])
    >>> rows.margins(np.array([1.0, 0.0, -2.0]))
    array([-1., -1.])
    """

    def __init__(self, X: Any, y: Any, *, fit_intercept: bool) -> None:
        self.rows: Rows = as_rows(X, y)
        labels = self.rows.labels
        labels.check_two()
        if fit_intercept and min(labels.class_weights) == 0.0:
            raise ValueError(
                "fit_intercept=True needs rows of both classes; got one. Give y, or use fit_intercept=False "
                "if the rows are y_i x_i already."
            )
        self.n, self.d = self.rows.n, self.rows.d
        self.fit_intercept = fit_intercept
        self.width = self.d + int(fit_intercept)
        self.signs = labels.signs
        weight = labels.sample_weight
        self.counts: Mask = weight > 0.0 if weight.size else np.ones(self.n, np.bool_)
        self.counted = np.flatnonzero(self.counts).astype(np.int64)
        self.max_norm = self.rows.ask(Measure()).max_norm

    @classmethod
    def of(cls, problem: Problem) -> LiftedRows:
        """Return the lifted rows of a problem."""
        return cls(problem.rows, None, fit_intercept=problem.fit_intercept)

    def fits_dense(self, count: int) -> bool:
        """Say whether a dense copy of ``count`` rows is small enough to carry a proof."""
        return count * self.width <= MAX_DENSE_ENTRIES

    def lift(self, w: Array, intercept: Intercept) -> Array:
        """Return v, which is ``(w, b)`` with an intercept and w without."""
        return np.append(w, intercept) if self.fit_intercept else w

    def split(self, v: Array) -> tuple[Array, float]:
        """Return w and b, which is 0 without an intercept, of v."""
        return v[: self.d], float(v[self.d]) if self.fit_intercept else 0.0

    def margins(self, v: Array) -> Array:
        """Return ``<v, z_i>`` for every row, rounded."""
        margins = self.rows.ask(MarginsAt(np.ascontiguousarray(v[: self.d])))
        return margins + self.signs * v[self.d] if self.fit_intercept else margins

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p``, rounded."""
        sums = self.rows.ask(Combine.of(p))
        return np.append(sums, p @ self.signs) if self.fit_intercept else sums

    def normalized_weights(self, p: Array) -> Array:
        """Return the dual weights p scaled to sum 1; with an intercept, to sum 1/2 in each class."""
        groups = self.rows.labels.groups(self.fit_intercept)
        p = p.copy()
        for group in groups:
            if (total := p[group].sum()) > 0.0:
                p[group] /= total * len(groups)
        return p

    def take(self, index: Sequence[int] | Indices) -> Array:
        """Return some of the rows, their indices in increasing order, as a dense array, exactly."""
        blocks = [Z for _, Z in self.blocks(np.asarray(index, np.int64))]
        return np.concatenate(blocks) if blocks else np.empty((0, self.width))

    def stored(self, index: Indices, max_entries: float = math.inf, *, as_csr: bool = False) -> Any:
        """Return some of the rows, dense or CSR as they are stored; None if they have too many entries."""
        from scipy.sparse import csr_array

        parts, size = [], 0
        for _, Z in self.blocks(index, as_stored=True):
            parts.append(csr_array(Z) if as_csr else Z)
            size += parts[-1].size
            if size > min(max_entries, MAX_DENSE_ENTRIES):
                return None
        return stack_blocks(parts) if parts else np.empty((0, self.width))

    def blocks(self, index: Indices, *, as_stored: bool = False) -> Iterator[tuple[Indices, Any]]:
        """Yield rows in parts that fit in memory, with their indices, in one pass over the data.

        The parts are dense arrays, or CSR arrays if the rows are stored so and ``as_stored`` is given.
        """
        step = _STORED_ROWS if as_stored and self.rows.is_sparse else max(1, _BLOCK_ENTRIES // self.width)
        for start, piece in self.rows.pieces():
            first, last = (int(k) for k in np.searchsorted(index, [start, start + piece.n]))
            for k in range(first, last, step):
                part = index[k : min(k + step, last)]
                rows = piece.take(part - start)
                if not (as_stored or isinstance(rows, np.ndarray)):
                    rows = rows.toarray()
                rows = with_ones(rows) if self.fit_intercept else rows
                yield part, times_signs(rows, self.signs[part])


def spread(index: Indices, count: int) -> Indices:
    """Return some of the rows, ``count`` at most, evenly spread.

    Examples
    --------
    >>> spread(np.arange(10, 20), 4).tolist()
    [10, 13, 16, 19]
    """
    if index.size <= count:
        return index
    return index[np.linspace(0, index.size - 1, count).astype(np.int64)]


class KeptColumns(LiftedRows):
    """Some columns of lifted rows, in the given order; the column of the intercept is one like any other.

    Examples
    --------
    >>> rows = LiftedRows([[1.0, 2.0], [3.0, 4.0]], [1, -1], fit_intercept=True)
    >>> KeptColumns(rows, [2, 0]).take([0, 1])
    array([[ 1.,  1.],
           [-1., -3.]])
    """

    def __init__(self, whole: LiftedRows, columns: Sequence[int] | Indices) -> None:
        self.whole, self.columns = whole, np.asarray(columns, np.int64)
        self.rows, self.n, self.signs = whole.rows, whole.n, whole.signs
        self.counts, self.counted = whole.counts, whole.counted
        self.fit_intercept = False
        self.d = self.width = self.columns.size
        self.max_norm = whole.max_norm + 1.0  # the entry of the intercept is 1

    def margins(self, v: Array) -> Array:
        """Return ``<v, z_i>`` for every row, rounded."""
        full = np.zeros(self.whole.width)
        full[self.columns] = v
        return self.whole.margins(full)

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p``, rounded."""
        return self.whole.combine(p)[self.columns]

    def blocks(self, index: Indices, *, as_stored: bool = False) -> Iterator[tuple[Indices, Any]]:
        """Yield rows in parts that fit in memory, with their indices, in one pass over the data."""
        for part, Z in self.whole.blocks(index, as_stored=as_stored):
            yield part, Z[:, self.columns]


# Scaling by powers of two, which is exact and changes the sign of no margin ------------------------------


def balance(Z: Any) -> tuple[Any, Indices, Indices]:
    """Return ``2**r_i Z_ij 2**c_j`` of a dense or CSR array, rows and columns of similar size, and r and c.

    Examples
    --------
    >>> balance(np.array([[4.0, 0.0], [8.0, 1e-3]]))[1:]
    (array([ 1, -1]), array([-3, 10]))
    """
    powers = [np.zeros(count, np.int64) for count in reversed(Z.shape)]
    for axis in (0, 1):
        # The largest entry goes to [1/2, 1) first, so that no square leaves the floating range.
        powers[axis] -= np.frexp(largest(Z, axis))[1]
        squares = np.asarray((times_powers(Z, axis, powers[axis]) ** 2).sum(axis=axis))
        squares /= np.maximum(np.asarray((Z != 0.0).sum(axis=0)), 1) if axis == 0 else 1
        powers[axis] -= np.round(0.5 * np.log2(np.where(squares > 0.0, squares, 1.0))).astype(np.int64)
        Z = times_powers(Z, axis, powers[axis])
    return Z, powers[1], powers[0]


def largest(Z: Any, axis: int) -> Array:
    """Return the largest absolute values of a dense or CSR array along an axis."""
    if isinstance(Z, np.ndarray):
        return np.asarray(np.maximum(Z.max(axis=axis, initial=0.0), -Z.min(axis=axis, initial=0.0)))
    return np.asarray(abs(Z).max(axis=axis).toarray()).ravel()


def dense(Z: Any) -> Array:
    """Return a dense or CSR array as a dense one."""
    return np.asarray(Z if isinstance(Z, np.ndarray) else Z.toarray())


def values_of(Z: Any) -> Array:
    """Return all entries of a dense array, or those that a CSR array stores."""
    return np.asarray(Z if isinstance(Z, np.ndarray) else Z.data)


def times_powers(Z: Any, axis: int, powers: Indices) -> Any:
    """Multiply the columns (axis 0) or rows (axis 1) of a dense or CSR array by powers of two."""
    if isinstance(Z, np.ndarray):
        return np.ldexp(Z, np.expand_dims(powers, axis))
    own = powers[Z.indices] if axis == 0 else np.repeat(powers, np.diff(Z.indptr))
    return type(Z)((np.ldexp(Z.data, own), Z.indices, Z.indptr), shape=Z.shape)
