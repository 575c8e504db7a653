"""The working set: some rows, gathered once, and their Gram matrix, extended as rows join."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prgd.core.arithmetic import LARGEST, times_power
from prgd.core.namespace import like, namespace, to_host
from prgd.core.types import Array, Indices, Mask
from prgd.norms import norm
from prgd.problem.problem import NO_ROWS, Problem
from prgd.rows.blocks import divide_by_power, is_sparse, row_squares, stack_blocks
from prgd.solvers.gram_matrix import DENSE_FRACTION, dense_products, extend_gram

_FEW_DIMENSIONS = 1024  # systems in so many dimensions are cheap to factorise
_MAX_FILLED = 2**25  # entries of CSR rows that are filled up to be solved over the columns
_DENSE_SUPPORT = 0.25  # if more rows carry weight, zeros cost less than a copy of the rows that do
_FAR_FROM_ORIGIN = 16.0  # rows whose distance from the origin exceeds their spread so many times are centred
_MODERATE = 1e100  # row norms between 1/_MODERATE and _MODERATE have products in the floating range
_MAX_SPARE_ROWS = 4096  # rows to come for which the buffer of the Gram matrix has room


class WorkingSet:
    """Rows z_i of the set, in the order in which they joined, with ``G = Z Z^T``, computed when it is needed.

    Attributes
    ----------
    indices : ndarray of int of shape (m,)
        The rows of the data in the set.
    groups : int
        2 if each class has weights of its own (with an intercept), else 1.
    group : ndarray of int of shape (m,)
        0 or 1, the group of each row.
    center : ndarray of shape (d,) or None
        With an intercept the problem does not change under translation. If the rows lie far from the origin,
        the set holds ``z_i = y_i (x_i - center)``: their products keep digits that the offset would take.
    exponent : int
        The rows are divided by ``2**exponent``, if their squares would leave the floating range.
    max_norm : float
        The largest norm of a row: of the data if there is no center, else of the set.
    on_device : bool
        The rows of the set are a tensor on the device of the data, and all products are computed there.
        Weights and directions come and go as NumPy arrays.
    """

    def __init__(
        self,
        problem: Problem,
        threads: int = 1,
        center: Array | None = None,
        exponent: int = 0,
        on_device: bool = False,
    ) -> None:
        self._problem, self._threads, self.on_device = problem, threads, on_device
        self.center, self.exponent = center, exponent
        self.max_norm = times_power(problem.max_norm, -exponent) if center is None else 0.0
        self.groups = 2 if problem.fit_intercept else 1
        self.indices, self.group = NO_ROWS, NO_ROWS
        self._Z: Any = None
        self._buffer, self._known = np.empty((0, 0)), 0

    @property
    def size(self) -> int:
        """Number of rows in the set."""
        return self.indices.size

    @property
    def dimensions(self) -> int:
        """Number of columns."""
        return self._problem.d

    @property
    def Z(self) -> Any:
        """The rows z_i, dense or CSR."""
        return self._Z

    @property
    def is_low_dimensional(self) -> bool:
        """Whether the rows have so few columns that systems in them are cheap."""
        if self.on_device:
            return True
        d = self._problem.d
        return d <= _FEW_DIMENSIONS and (not self.is_sparse or self.size * d <= _MAX_FILLED)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are CSR."""
        return self._Z is not None and is_sparse(self._Z)

    @property
    def largest_norm(self) -> float:
        """The largest norm of a row of the set."""
        squares = np.diag(self._buffer)[: self._known] if self._known == self.size else row_squares(self.Z)
        return math.sqrt(float(squares.max()))

    @property
    def G(self) -> Array:
        """The Gram matrix of the set."""
        return self.gram_buffer[: self.size, : self.size]

    @property
    def gram_buffer(self) -> Array:
        """A contiguous array that begins with the Gram matrix, and has room for rows to come."""
        old, new = self._known, self.size
        if len(self._buffer) < new:
            # Memory that is not touched costs nothing, and growing by one row means to copy everything.
            room = new + min(new // 2, _MAX_SPARE_ROWS) if old else new
            buffer = np.empty((room, room))
            buffer[:old, :old] = self._buffer[:old, :old]
            self._buffer = buffer
        if old < new:
            self._extend(old)
            self._known = new
        return self._buffer

    def _extend(self, old: int) -> None:
        extend_gram(self._buffer, self._Z, old, self._threads)

    def gram_of(self, places: Indices) -> Any:
        """Return the Gram matrix of the rows at these places of the set, in the namespace of the rows."""
        if self.on_device:
            Z = self.Z if places.size == self.size else self.Z[_index(self.Z, places)]
            return Z @ Z.T
        if self._known == self.size:
            return np.asarray(self._buffer[np.ix_(places, places)])
        G = np.empty((places.size, places.size))
        extend_gram(G, self.Z[places], 0, self._threads)
        return G

    def add(self, indices: Indices) -> None:
        """Gather these rows."""
        indices = np.sort(indices)
        block = (self._problem.gather if self.on_device else self._problem.take)(indices, self.center)
        if self.exponent:
            divide_by_power(block, self.exponent)
        if self.center is not None:
            self.max_norm = max(self.max_norm, math.sqrt(float(row_squares(block).max())))
        if is_sparse(block) and self._prefers_dense(block):
            block = block.toarray()
        self._Z = block if self._Z is None else stack_blocks([self._Z, block])
        self._register(indices)

    def _prefers_dense(self, block: Any) -> bool:
        """Say whether CSR rows are to be stored dense: as the set is, or if they have many entries."""
        if self._Z is None:
            return bool(block.nnz > DENSE_FRACTION * block.shape[0] * block.shape[1])
        return isinstance(self._Z, np.ndarray)

    def _register(self, indices: Indices) -> None:
        self.indices = np.concatenate([self.indices, indices])
        is_minus = self._problem.labels.at(indices) < 0 if self.groups == 2 else np.zeros(indices.size)
        self.group = np.concatenate([self.group, np.asarray(is_minus, dtype=np.int64)])

    def keep(self, mask: Mask) -> None:
        """Remove the rows outside the mask from the set."""
        known = np.flatnonzero(mask[: self._known])
        self._Z, self._buffer = self._Z[_index(self._Z, mask)], self._buffer[np.ix_(known, known)]
        self._known = known.size
        self.indices, self.group = self.indices[mask], self.group[mask]

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p`` over the set."""
        support = np.flatnonzero(p)
        if self.on_device:
            return to_host(like(self.Z, p) @ self.Z)
        if support.size > _DENSE_SUPPORT * p.size:
            return np.asarray(self.Z.T @ p)
        return np.asarray(self.Z[support].T @ p[support])

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>`` for the rows of the set."""
        return to_host(self.Z @ like(self.Z, w)) if self.on_device else np.asarray(self.Z @ w)

    def products(self, p: Array) -> Array:
        """Return ``<Z^T p, z_i>`` for the rows of the set: from the Gram matrix, if all of it is computed."""
        return self.G @ p if self._known == self.size else self.margins(self.combine(p))

    def membership(self, places: Indices) -> Array:
        """Return a column for each group, 1.0 if the row at a place belongs to the group, else 0.0."""
        return np.asarray(self.group[places, None] == np.arange(self.groups), dtype=np.float64)

    def rows_of(self, places: Indices) -> Array:
        """Return the rows z_i at these places of the set, as a dense array."""
        found = self.Z[_index(self.Z, places)]
        return np.asarray(found.toarray()) if is_sparse(found) else to_host(found)


def _index(Z: Any, places: Any) -> Any:
    """Return places, or a mask, as what rows of this namespace are indexed by."""
    if isinstance(Z, np.ndarray) or is_sparse(Z):
        return places
    return namespace(Z).from_numpy(places).to(Z.device)


class WholeArray(WorkingSet):
    """All rows of an array in memory, used where they lie: gathering them would take most of a solve."""

    def __init__(self, problem: Problem, X: Array) -> None:
        super().__init__(problem)
        self._X, self._y = X, problem.labels.signs.astype(np.float64)
        self._register(np.arange(len(X)))

    @property
    def Z(self) -> Any:
        """The rows z_i: a copy, made when it is first needed."""
        if self._Z is None:
            self._Z = self._X * self._y[:, None]
        return self._Z

    def _extend(self, old: int) -> None:
        dense_products(self._buffer, self._X, 0)
        self._buffer *= self._y[:, None]
        self._buffer *= self._y

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p``."""
        return np.asarray(self._X.T @ (self._y * p))

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>``."""
        return np.asarray(self._y * (self._X @ w))


def whole_set(
    problem: Problem,
    threads: int = 1,
    center: Array | None = None,
    exponent: int = 0,
    on_device: bool = False,
) -> WorkingSet:
    """Return the working set of all rows of positive weight."""
    weight = problem.labels.sample_weight
    indices = np.flatnonzero(weight) if weight.size else np.arange(problem.n)
    is_as_given = center is None and exponent == 0 and indices.size == problem.n
    if is_as_given and (X := problem.rows.plain_array) is not None:
        return WholeArray(problem, X)
    working = WorkingSet(problem, threads, center, exponent, on_device)
    working.add(indices)
    return working


def row_to_subtract(
    problem: Problem, indices: Indices | None = None, on_device: bool = False
) -> tuple[Array | None, float]:
    """Return a row to subtract from all if the rows lie far from the origin, else None; and their size after.

    The rows of these indices stand for all; by default all are looked at.
    """
    if not problem.fit_intercept or problem.rows.is_sparse:
        return None, problem.max_norm
    X = problem.rows.plain_array if indices is None else None
    if X is None:
        take = problem.rows.gather if on_device else problem.rows.take
        X = take(np.arange(problem.n) if indices is None else indices)
    if is_sparse(X):  # some of its parts are
        return None, problem.max_norm
    first, xp = to_host(X[0]), namespace(X)
    with np.errstate(over="ignore", invalid="ignore"):
        far = norm(first) / _FAR_FROM_ORIGIN
        # The first difference decides most cases without reading all rows.
        if not far > norm(first - to_host(X[-1])):
            return None, problem.max_norm
        if not far > (spread := norm(to_host(xp.amax(X, 0) - xp.amin(X, 0)))):
            return None, problem.max_norm
    return np.array(first, dtype=np.float64), spread


def center_and_exponent(
    problem: Problem, indices: Indices | None = None, on_device: bool = False
) -> tuple[Array | None, int]:
    """Return what is subtracted from the rows of the set, and the power of two that divides them."""
    center, size = row_to_subtract(problem, indices, on_device)
    is_moderate = 1.0 / _MODERATE < size < _MODERATE or size == 0.0
    return center, 0 if is_moderate else math.frexp(min(size, LARGEST))[1]
