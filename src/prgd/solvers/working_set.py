"""The working set: some rows, gathered once, their Gram matrix ``G = Z Z^T``, and pairwise descent on it.

Pairwise descent minimises ``p^T G p / 2`` over weights p >= 0 whose sum in each group is fixed, by moving
weight between the two rows of a group for which the objective falls most (the second-order choice of LIBSVM).
``g = G p`` holds the margins ``<u, z_i>`` of the rows at ``u = Z^T p``, equal on the support at the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import numpy as np

from prgd.core.arithmetic import LARGEST, like, namespace, times_power, to_host
from prgd.core.threads import SMALL_FLOPS, check_time, each, single_blas
from prgd.core.types import Array, Indices, Mask
from prgd.norms import norm
from prgd.problem.problem import NO_ROWS, Problem
from prgd.rows.base import Rows
from prgd.rows.blocks import divide_by_power, is_sparse, row_squares, stack_blocks, times_signs
from prgd.solvers.costs import NS_FLOP

SMALL_MARGIN = 1e-4  # below this fraction of the largest row norm Gram matrices lose half of the digits
ZERO_MARGIN = 1e-6  # below this fraction of the largest row norm the upper bound may be zero
DENSE_FRACTION = 0.15  # a column that is filled in more than this fraction of the rows is taken as dense
_FEW_DIMENSIONS = 1024  # systems in so many dimensions are cheap to factorise
_MAX_FILLED = 2**25  # entries of CSR rows that are filled up to be solved over the columns
_DENSE_SUPPORT = 0.25  # if more rows carry weight, zeros cost less than a copy of the rows that do
_FAR_FROM_ORIGIN = 16.0  # rows whose distance from the origin exceeds their spread so many times are centred
_MAX_NORM = 1e100  # row norms between the inverse and this have products in the floating range
_PIVOTS = 2  # products of a face that cost more than those of all rows, which serve further faces
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
    """

    def __init__(
        self, problem: Problem, threads: int = 1, center: Array | None = None, exponent: int = 0
    ) -> None:
        self._problem, self._threads = problem, threads
        self.center, self.exponent = center, exponent
        self.max_norm = times_power(problem.max_norm, -exponent) if center is None else 0.0
        self.groups = 2 if problem.fit_intercept else 1
        self.indices, self.group = NO_ROWS, NO_ROWS
        self._Z: Any = None
        self._buffer, self._known = np.empty((0, 0)), 0

    @classmethod
    def of(cls, problem: Problem, indices: Indices | None = None, threads: int = 1) -> WorkingSet:
        """Return the set of these rows, by default of all rows of positive weight."""
        center, exponent = center_and_exponent(problem, cls._take(problem.rows), indices)
        if indices is None:
            indices = counted_rows(problem)
            is_as_given = center is None and exponent == 0 and indices.size == problem.n
            if is_as_given and (X := problem.rows.plain_array) is not None:
                return RowsInPlace(problem, X, threads=threads)
        working = cls(problem, threads, center, exponent)
        working.add(indices)
        return working

    @staticmethod
    def _take(rows: Rows | Problem) -> Callable[..., Any]:
        """Return the method that gathers rows to where the set lies."""
        return rows.take

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
        if self.size**2 - self._known**2 <= _PIVOTS * places.size**2:
            return np.asarray(self.G[np.ix_(places, places)])
        G = np.empty((places.size, places.size))
        extend_gram(G, self.Z[places], 0, self._threads)
        return G

    def add(self, indices: Indices) -> None:
        """Gather these rows."""
        indices = np.sort(indices)
        block = self._take(self._problem)(indices, self.center)
        if self.exponent:
            divide_by_power(block, self.exponent)
        if self.center is not None:
            self.max_norm = max(self.max_norm, math.sqrt(float(row_squares(block).max())))
        if is_sparse(block):  # rows of many entries are stored dense, and so are those that join a dense set
            has_many = self._Z is None and block.nnz > DENSE_FRACTION * math.prod(block.shape)
            block = block.toarray() if has_many or isinstance(self._Z, np.ndarray) else block
        self._Z = block if self._Z is None else stack_blocks([self._Z, block])
        self._register(indices)

    def _register(self, indices: Indices) -> None:
        self.indices = np.concatenate([self.indices, indices])
        is_minus = self._problem.labels.at(indices) < 0 if self.groups == 2 else np.zeros(indices.size)
        self.group = np.concatenate([self.group, np.asarray(is_minus, dtype=np.int64)])

    def keep(self, mask: Mask) -> None:
        """Remove the rows outside the mask from the set."""
        known = np.flatnonzero(mask[: self._known])
        self._Z, self._buffer = self._Z[self._index(mask)], self._buffer[np.ix_(known, known)]
        self._known = known.size
        self.indices, self.group = self.indices[mask], self.group[mask]

    def _index(self, places: Any) -> Any:
        """Return places, or a mask, as what the rows are indexed by."""
        return places

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p`` over the set."""
        support = np.flatnonzero(p)
        if support.size > _DENSE_SUPPORT * p.size:
            return np.asarray(self.Z.T @ p)
        return np.asarray(self.Z[support].T @ p[support])

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>`` for the rows of the set."""
        return np.asarray(self.Z @ w)

    def products(self, p: Array) -> Array:
        """Return ``<Z^T p, z_i>`` for the rows of the set: from the Gram matrix, if all of it is computed."""
        return self.G @ p if self._known == self.size else self.margins(self.combine(p))

    def membership(self, places: Indices) -> Array:
        """Return a column for each group, 1.0 if the row at a place belongs to the group, else 0.0."""
        return np.asarray(self.group[places, None] == np.arange(self.groups), dtype=np.float64)

    def rows_of(self, places: Indices) -> Array:
        """Return the rows z_i at these places of the set, as a dense array."""
        found = self.Z[self._index(places)]
        return np.asarray(found.toarray()) if is_sparse(found) else to_host(found)


class DeviceSet(WorkingSet):
    """A set whose rows are a tensor on the device of the data, where all products are computed.

    Weights and directions come and go as NumPy arrays.
    """

    is_low_dimensional = True

    @staticmethod
    def _take(rows: Rows | Problem) -> Callable[..., Any]:
        return rows.gather

    def _index(self, places: Any) -> Any:
        return namespace(self.Z).from_numpy(places).to(self.Z.device)

    def gram_of(self, places: Indices) -> Any:
        """Return the Gram matrix of the rows at these places of the set, as a tensor."""
        Z = self.Z if places.size == self.size else self.Z[self._index(places)]
        return Z @ Z.T

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p`` over the set."""
        return to_host(like(self.Z, p) @ self.Z)

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>`` for the rows of the set."""
        return to_host(self.Z @ like(self.Z, w))


class RowsInPlace(WorkingSet):
    """All rows of positive weight, used where they lie: gathering them would take most of a solve.

    Parameters
    ----------
    X : array, CSR array or tensor of shape (n, d)
        The rows ``(x_i - center) / 2^exponent`` of the problem.
    G : ndarray of shape (n, n), optional
        Their products ``X X^T``, if they are known.
    max_norm : float
        The largest norm of a row of X, if a centre was subtracted.
    """

    def __init__(
        self,
        problem: Problem,
        X: Any,
        G: Any = None,
        center: Array | None = None,
        exponent: int = 0,
        max_norm: float = 0.0,
        threads: int = 1,
    ) -> None:
        super().__init__(problem, threads, center, exponent)
        self.max_norm = self.max_norm or max_norm
        self._X, self._G = X, G
        self._register(counted_rows(problem))
        self._y = problem.labels.at(self.indices).astype(np.float64)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are CSR."""
        return is_sparse(self._X)

    @property
    def Z(self) -> Any:
        """The rows z_i: a copy, made when it is first needed."""
        if self._Z is None:
            self._Z = times_signs(self._X[self.indices], self._problem.labels.at(self.indices))
        return self._Z

    def _extend(self, old: int) -> None:
        G, kept = self._G, self.indices
        if G is None:
            G = self._buffer
            extend_gram(G, self._X, 0, self._threads)
        np.multiply(G if kept.size == len(G) else G[np.ix_(kept, kept)], self._y, out=self._buffer)
        self._buffer *= self._y[:, None]

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p``."""
        c = np.zeros(self._problem.n)
        c[self.indices] = self._y * p
        return np.asarray(self._X.T @ c)

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>``."""
        return np.asarray(self._y * (self._X @ w)[self.indices])


def counted_rows(problem: Problem) -> Indices:
    """Return the rows of positive weight."""
    weight = problem.labels.sample_weight
    return np.flatnonzero(weight) if weight.size else np.arange(problem.n)


def center_and_exponent(
    problem: Problem, take: Callable[[Indices], Any], indices: Indices | None = None
) -> tuple[Array | None, int]:
    """Return what is subtracted from the rows of a set, and the power of two that divides them.

    The rows that ``take`` returns for the indices stand for all; by default all are looked at.
    """
    center, size = _row_to_subtract(problem, take, indices)
    is_moderate = 1.0 / _MAX_NORM < size < _MAX_NORM or size == 0.0
    return center, 0 if is_moderate else math.frexp(min(size, LARGEST))[1]


def _row_to_subtract(
    problem: Problem, take: Callable[[Indices], Any], indices: Indices | None
) -> tuple[Array | None, float]:
    """Return a row to subtract if the rows lie far from the origin, else None; and their size after."""
    if not problem.fit_intercept or problem.rows.is_sparse:
        return None, problem.max_norm
    X = problem.rows.plain_array if indices is None else None
    if X is None:
        X = take(np.arange(problem.n) if indices is None else np.sort(indices))
    if is_sparse(X):  # some of its parts are
        return None, problem.max_norm
    first, xp = to_host(X[0]), namespace(X)
    with np.errstate(over="ignore", invalid="ignore"):
        far = norm(first) / _FAR_FROM_ORIGIN
        is_far = far > norm(first - to_host(X[-1]))  # this difference decides most cases
        if not (is_far and far > (spread := norm(to_host(xp.amax(X, 0) - xp.amin(X, 0))))):
            return None, problem.max_norm
    return np.array(first, dtype=np.float64), spread


def descend(G: Array, group: Indices, p: Array, g: Array, tol: float, max_steps: int) -> tuple[int, float]:
    """Update p and g in place; return the steps taken and the violation left, relative to ``p^T G p``.

    The violation is the largest ``g_j - g_i`` within a group, where j carries weight and i is any row. It
    bounds the relative gap of the certificate over these rows. Of G, only the first ``p.size`` rows and
    columns are used.
    """
    from prgd.solvers import _kernels

    diagonal = np.diag(G)[: p.size].copy()  # in G each entry lies in a cache line of its own
    unit = 1.0 / max(float(diagonal.max()), _kernels.MIN_CURVATURE)
    steps, violation = _kernels.descend(G, diagonal, group, p, g, tol, max_steps, unit)
    return int(steps), float(violation)


def extend_gram(G: Array, Z: Any, old: int, threads: int = 1) -> None:
    """Write the products of the rows of Z into G, of which the first ``old`` rows and columns are known."""
    new = Z.shape[0]
    check_time(NS_FLOP * new * (new - old) * Z.shape[1] * isinstance(Z, np.ndarray))
    if isinstance(Z, np.ndarray):
        dense_products(G, Z, old, threads)
    else:
        G[old:new, :new] = (Z[old:] @ Z.T).toarray()
    # The products with the rows before are copied to their transposed place: with the old rows at once.
    G[:old, old:new] = G[old:new, :old].T


def dense_products(G: Array, D: Array, old: int, threads: int = 1) -> None:
    """Write the products of the dense rows from ``old`` on with all rows into G."""
    n = len(D)
    threads = threads if (n - old) * n * D.shape[1] > SMALL_FLOPS else 1
    # A part of the rows for each thread, with the rows before its end; threads of BLAS would spin.
    ends = np.rint(np.sqrt(np.linspace(old**2, n**2, threads + 1))).astype(int)

    def multiply(k: int) -> None:
        part = slice(ends[k], ends[k + 1])
        np.matmul(D[part], D[: part.stop].T, out=G[part, : part.stop])

    with single_blas() if threads > 1 else nullcontext():
        each(multiply, threads)
    for first, end in pairwise(ends[1:]):
        G[old:first, first:end] = G[first:end, old:first].T
