"""The working set: some rows, gathered once, and their Gram matrix, grown as rows join."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.problem import Problem
from prgd.rows.blocks import stack_blocks
from prgd.threads import each

# a column filled in more than this share of the rows, and a whole block, is cheaper in a dense product
_DENSE_SHARE = 0.15
_FEW_DIMENSIONS = 1024
_FEW_NEW = 8  # rows whose products are taken one by one: columns are not worth sorting
_MANY_CARRY = 0.25
_MOST_ROOM = 4096  # rows to come, for which the table has room


class WorkingSet:
    """Rows z_i of the set, in the order in which they joined, with ``G = Z Z^T``, made at the first look."""

    def __init__(self, problem: Problem, threads: int = 1) -> None:
        self._problem, self.by_class, self._threads = problem, problem.fit_intercept, threads
        self.indices = np.empty(0, np.int64)
        self.group = np.empty(0, np.int64)
        self._Z: Any = None
        self._table, self._known = np.empty((0, 0)), 0

    @property
    def size(self) -> int:
        """Number of rows in the set."""
        return self.indices.size

    @property
    def Z(self) -> Any:
        """The rows, dense or CSR."""
        return self._Z

    @property
    def is_flat(self) -> bool:
        """Dense, and of so few dimensions that systems in them are cheap."""
        return isinstance(self.Z, np.ndarray) and self.Z.shape[1] <= _FEW_DIMENSIONS

    @property
    def G(self) -> Array:
        """The Gram matrix; rows that joined since the last look border it."""
        return self.table[: self.size, : self.size]

    @property
    def table(self) -> Array:
        """A contiguous array that begins with the Gram matrix, and has room for rows to come."""
        old, new = self._known, self.size
        if len(self._table) < new:
            # memory that is not touched costs nothing; growing by a row means to copy all
            room = new + min(new // 2, _MOST_ROOM) if old else new
            table = np.empty((room, room))
            table[:old, :old] = self._table[:old, :old]
            self._table = table
        if old < new:
            self._border(old)
            self._known = new
        return self._table

    def _border(self, old: int) -> None:
        border(self._table, self._Z, old, self._threads)

    def products_of(self, places: npt.NDArray[np.int64]) -> Array:
        """Return the Gram matrix of the rows at these places."""
        if self._known == self.size:
            return np.asarray(self._table[np.ix_(places, places)])
        G = np.empty((places.size, places.size))
        border(G, self.Z[places], 0, self._threads)
        return G

    def add(self, indices: npt.NDArray[np.int64]) -> None:
        """Gather these rows."""
        indices = np.sort(indices)
        block = self._problem.take(indices)
        if self._Z is None:
            if (
                not isinstance(block, np.ndarray)
                and block.nnz > _DENSE_SHARE * block.shape[0] * block.shape[1]
            ):
                block = block.toarray()
            self._Z = block
        else:
            if isinstance(self._Z, np.ndarray) and not isinstance(block, np.ndarray):
                block = block.toarray()
            self._Z = stack_blocks([self._Z, block])
        self._name(indices)

    def _name(self, indices: npt.NDArray[np.int64]) -> None:
        self.indices = np.concatenate([self.indices, indices])
        is_minus = self._problem.signs(indices) < 0 if self.by_class else np.zeros(indices.size)
        self.group = np.concatenate([self.group, np.asarray(is_minus, dtype=np.int64)])

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Let the other rows go."""
        known = np.flatnonzero(mask[: self._known])
        self._Z, self._table = self._Z[mask], self._table[np.ix_(known, known)]
        self._known = known.size
        self.indices, self.group = self.indices[mask], self.group[mask]

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p`` over the set."""
        carried = np.flatnonzero(p)
        if carried.size > _MANY_CARRY * p.size:  # a copy of the others costs more than zeros
            return np.asarray(self.Z.T @ p)
        return np.asarray(self.Z[carried].T @ p[carried])

    def combine_rows(self, indices: npt.NDArray[np.int64], p: Array) -> Array:
        """Return ``sum p_i z_i`` over rows of the data, in the set or not."""
        return np.asarray(self._problem.take(indices).T @ p)

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


class WholeArray(WorkingSet):
    """All rows of an array in memory, where they lie: to gather them would cost more than most of a solve."""

    def __init__(self, problem: Problem, X: Array) -> None:
        super().__init__(problem)
        self._X, self._y = X, problem.labels.signs.astype(np.float64)
        self._name(np.arange(len(X)))

    @property
    def Z(self) -> Any:
        """The rows z_i: a copy, made at the first look."""
        if self._Z is None:
            self._Z = self._X * self._y[:, None]
        return self._Z

    @property
    def is_flat(self) -> bool:
        """Of so few dimensions that systems in them are cheap."""
        return self._problem.d <= _FEW_DIMENSIONS

    def _border(self, old: int) -> None:
        _multiply(self._table, self._X, 0)
        self._table *= self._y[:, None]
        self._table *= self._y

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p``."""
        return np.asarray(self._X.T @ (self._y * p))

    def combine_rows(self, indices: npt.NDArray[np.int64], p: Array) -> Array:
        """Return ``sum p_i z_i`` over rows of the data."""
        weights = np.zeros(self.size)
        weights[indices] = p
        return self.combine(weights)

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>``."""
        return np.asarray(self._y * (self._X @ w))


def all_rows(problem: Problem, threads: int) -> WorkingSet:
    """Return the set of all rows."""
    if (X := problem.rows.plain_array) is not None:
        return WholeArray(problem, X)
    working = WorkingSet(problem, threads)
    working.add(np.arange(problem.n))
    return working


def border(G: Array, Z: Any, old: int, threads: int = 1) -> None:
    """Write the products of the rows of Z into G, where those of the first ``old`` rows are known."""
    new = Z.shape[0]
    kernel = _kernel()
    if isinstance(Z, np.ndarray):
        _multiply(G, Z, old)
    elif new - old <= _FEW_NEW:
        G[old:new, :new] = (Z @ Z[old:].toarray().T).T
    elif kernel is None:
        G[old:new, :new] = (Z[old:] @ Z.T).toarray()
    else:
        _add_sparse(kernel, G, Z, old, threads)
    if kernel is None:
        G[:old, old:new] = G[old:new, :old].T
    else:
        kernel.mirror(G, old, new)


def _multiply(G: Array, D: Array, old: int) -> None:
    if old == 0 and G.shape == (len(D), len(D)):
        np.matmul(D, D.T, out=G)
    else:
        G[old : len(D), : len(D)] = D[old:] @ D.T


def _kernel() -> Any:
    try:
        from prgd.solvers import _gram_kernel
    except ImportError:  # no Numba
        return None
    return _gram_kernel


def _add_sparse(kernel: Any, G: Array, Z: Any, old: int, threads: int) -> None:
    """Add up column by column, each for the rows that have it; columns of many rows go through BLAS."""
    new, d = Z.shape
    by_column = Z.tocsc()
    counts = np.diff(by_column.indptr)
    full = np.flatnonzero(counts > _DENSE_SHARE * new)
    place = np.full(d, -1)
    if full.size < 16:
        G[old:new, :new] = 0.0
    else:
        place[full] = np.arange(full.size)
        D = np.zeros((new, full.size))
        kernel.spread(Z.data, Z.indices, Z.indptr, place, D)
        _multiply(G, D, old)
    rows = Z.data, Z.indices, Z.indptr
    columns = by_column.data, by_column.indices, by_column.indptr

    each(lambda k: kernel.fill(rows, columns, place, old + k, threads, G), threads)
