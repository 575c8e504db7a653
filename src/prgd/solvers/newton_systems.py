r"""The linear systems of `prgd.solvers.primal_newton`, solved in the cheapest of three ways.

.. math:: (I + Z^\top D Z) x + Z^\top D y \, x_b = -g, \qquad y^\top D (Z x + y x_b) = 0

with D the diagonal matrix of the weights c_i of the active rows (the second equation only with an
intercept). Few columns: Cholesky's factorisation of the matrix, which is updated by the rows that join and
leave. Few active rows: that of their Gram matrix. Else conjugate gradients, one pass over the active rows
for each product, until they have cost as much as the factorisation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from prgd.core.arithmetic import EPSILON, add_to_diagonal
from prgd.core.types import Array, Indices, Mask
from prgd.norms import norm
from prgd.problem import Problem
from prgd.rows import CurvatureAt, MarginsAt
from prgd.rows.base import Block
from prgd.rows.blocks import times_signs
from prgd.rows.queries import SMALL_ENTRIES
from prgd.solvers.costs import NS_ENTRY, NS_FLOP, NS_PASS, NS_SPARSE_PAIR
from prgd.solvers.linear_systems import conjugate_gradients, definite_solver
from prgd.solvers.working_set import extend_gram

_MAX_ROWS = 6000  # rows of a Gram matrix
_MAX_COLUMNS = 6000  # columns of a matrix over the columns
_CENTRED_COLUMNS = 64  # columns up to which sparse rows are centred, and so no longer sparse
_BLOCK_ENTRIES = 2**22  # entries of the rows that are added to the matrix at a time
_SAMPLE_ROWS = 16  # rows that are gathered to estimate the number of stored entries
_FIRST_PRODUCTS = 10  # products that the first conjugate gradients are expected to need


@dataclass
class WholeSums:
    """The sums over all rows, which labels do not change: several label sets of the same rows share them.

    Attributes
    ----------
    first : float
        The weight c of the first row, by which the sums of other weights are told apart: all weights are
        multiplied by one factor at a time.
    center, matrix, h : ndarray
        The centre that was subtracted from the rows, and the sums of `_Columns`.
    """

    first: float = math.nan
    center: Array | None = None
    matrix: Array = field(default_factory=lambda: np.empty((0, 0)))
    h: Array = field(default_factory=lambda: np.empty(0))


class NewtonSystems:
    """Newton's systems of one problem, and what is kept from one to the next.

    Problems of the same rows and weights c may share ``whole``.

    Attributes
    ----------
    reads : float
        Rows read so far divided by n.
    """

    def __init__(self, problem: Problem, c: Array, whole: WholeSums | None = None) -> None:
        self.problem, self.c, self.reads, self.whole = problem, c, 0.0, whole
        n, d, rows = problem.n, problem.d, problem.rows
        sample = rows.take(np.arange(0, n, max(n // _SAMPLE_ROWS, 1)))
        self.row_entries = sample.nnz / sample.shape[0] if rows.is_sparse else float(d)
        self.center: Array | None = None
        self.signs = problem.labels.signs.astype(np.float64)
        # Small rows are multiplied by BLAS, which costs less than a query, and a half of NumPy's einsum.
        X = rows.plain_array
        self.small = X if X is not None and X.size <= SMALL_ENTRIES else None
        self.products = _FIRST_PRODUCTS
        self.columns = _Columns(self)
        self.gram = _Gram(self)

    def rescale(self, factor: float) -> None:
        """Multiply all weights c by a factor; products of rows stay as they are."""
        self.c = self.c * factor
        self.columns.matrix *= factor
        self.columns.h *= factor

    def times(self, w: Array) -> Array:
        """Return ``Z w``."""
        self.reads += 1.0
        if self.small is not None:
            return self.signs * (self.small @ w)
        return self.problem.rows.ask(MarginsAt(w), self.problem.labels)

    def combine(self, alpha: Array) -> Array:
        """Return ``Z^T alpha``."""
        self.reads += np.count_nonzero(alpha) / self.problem.n
        if self.small is not None:
            return np.asarray((self.signs * alpha) @ self.small)
        return self.problem.combine(alpha)

    def take(self, indices: Indices) -> Block:
        """Return rows ``x_i - center``; with an intercept the step does not depend on the centre."""
        problem, is_sparse = self.problem, self.problem.rows.is_sparse
        if self.center is None and problem.fit_intercept and not (is_sparse and problem.d > _CENTRED_COLUMNS):
            self.center = self.combine(problem.labels.signs / problem.n)
        self.reads += indices.size / problem.n
        block = problem.rows.take(indices)
        if self.center is None:
            return block
        block = block.toarray() if is_sparse else block
        block -= self.center
        return block

    def solve(self, g: Array, active: Mask, forcing: float) -> tuple[Array, float]:
        """Return the step ``(x, x_b)``."""
        (indices,) = (active & (self.c > 0.0)).nonzero()
        product = NS_PASS + 2.0 * NS_ENTRY * self.row_entries * indices.size
        by_columns, by_rows = self.columns.cost(indices), self.gram.cost(indices)
        cost = min(by_columns, by_rows)
        if cost > product * self.products or not math.isfinite(cost):
            max_products = int(min(max(cost / product, self.products), 10.0 * self.problem.d + 100.0))
            x, shift, count, converged = self._conjugate_gradients(g, indices, forcing, max_products)
            self.products = count if converged else 4 * count
            return x, shift
        try:
            return (self.columns if by_columns <= by_rows else self.gram).solve(g, indices)
        except np.linalg.LinAlgError:
            return self._conjugate_gradients(g, indices, forcing, 10 * self.problem.d + 100)[:2]

    def _conjugate_gradients(
        self, g: Array, indices: Indices, forcing: float, max_products: int
    ) -> tuple[Array, float, int, bool]:
        """Return the step, the number of products and whether the residual is small enough."""
        problem, c, h = self.problem, self.c[indices], np.zeros(self.problem.d)
        if problem.fit_intercept and indices.size:
            weights = np.zeros(problem.n)
            weights[indices] = c * problem.labels.signs[indices]
            h = self.combine(weights) / float(c.sum())  # the mean of the active rows

        def times(q: Array) -> Array:
            image, total = problem.rows.ask(CurvatureAt(q, indices, c), problem.labels)
            self.reads += indices.size / problem.n
            return np.asarray(image + q - h * total)

        target = (max(forcing, EPSILON) * norm(g)) ** 2
        x, count, is_solved = conjugate_gradients(
            times, np.zeros(problem.d), -g, lambda _, r, square: square <= target, max_products
        )
        return x, -float(h @ x), count, is_solved


class _Columns:
    """The matrix over the columns: ``sum_i c_i x_i x_i^T`` over the active rows, updated as they change."""

    def __init__(self, systems: NewtonSystems) -> None:
        self.systems, d = systems, systems.problem.d
        self.matrix = np.empty((0, 0))  # without rows, until it is first summed
        self.h = np.zeros(d)  # sum_i c_i x_i
        self.members = np.zeros(systems.problem.n, bool)
        self.built = 0  # active rows when the matrix was last summed anew
        self._d = d

    def _is_new(self, indices: Indices) -> bool:
        """Say whether the matrix is summed anew: few of its rows remain, or there are none yet."""
        return not self.built or 2 * indices.size < self.built

    def _changes(self, indices: Indices) -> Indices:
        """Return the rows that join and leave the matrix."""
        if self._is_new(indices):
            return indices
        changed = self.members.copy()
        changed[indices] ^= True
        return changed.nonzero()[0]

    def cost(self, indices: Indices) -> float:
        """Return about how many nanoseconds the step takes."""
        d, entries = self._d, self.systems.row_entries
        if d > _MAX_COLUMNS:
            return math.inf
        changed = self._changes(indices).size
        return NS_PASS + NS_FLOP * d * d * (changed + d / 3.0) + 4.0 * NS_ENTRY * changed * (d + entries)

    def solve(self, g: Array, indices: Indices) -> tuple[Array, float]:
        """Return the step ``(x, x_b)``."""
        systems, d = self.systems, self._d
        changed = self._changes(indices)
        if self._is_new(indices):
            self.matrix, self.h, self.built = np.zeros((d, d)), np.zeros(d), indices.size
            self.members[:] = False
            if self._takes_whole(indices):
                return self._solve(g, indices)
        step = max(1, _BLOCK_ENTRIES // d)
        for first in range(0, changed.size, step):
            self._add(changed[first : first + step])
        self.members[changed] ^= True
        whole = systems.whole
        if whole is not None and changed.size == self.members.size:
            whole.first, whole.center = float(systems.c[0]), systems.center
            whole.matrix, whole.h = self.matrix.copy(), self.h.copy()
        return self._solve(g, indices)

    def _takes_whole(self, indices: Indices) -> bool:
        """Take the sums over all rows if they are those of these rows, and say whether they are."""
        whole = self.systems.whole
        if whole is None or whole.first != self.systems.c[0] or indices.size < self.members.size:
            return False
        self.matrix, self.h, self.systems.center = whole.matrix.copy(), whole.h.copy(), whole.center
        self.members[:] = True
        return True

    def _solve(self, g: Array, indices: Indices) -> tuple[Array, float]:
        """Return the step from the sums over the active rows."""
        systems = self.systems
        H = self.matrix.copy()
        add_to_diagonal(H, 1.0)
        if not systems.problem.fit_intercept or not indices.size:
            return definite_solver(H)(-g), 0.0
        mass = float(systems.c[indices].sum())
        H -= np.multiply.outer(self.h, self.h / mass)
        x = definite_solver(H)(-g)
        return x, _uncentred(-float(self.h @ x) / mass, x, systems.center)

    def _add(self, rows: Indices) -> None:
        """Add rows to the matrix, and subtract those that are in it."""
        systems, leaving = self.systems, self.members[rows]
        X = systems.take(rows)
        X = X if isinstance(X, np.ndarray) else X.toarray()
        root = np.sqrt(systems.c[rows])
        A = X * root[:, None]
        B = A * np.where(leaving, -1.0, 1.0)[:, None] if leaving.any() else A  # BLAS needs half of A^T A
        self.matrix += A.T @ B
        if systems.problem.fit_intercept:
            self.h += root @ B


class _Gram:
    """The Gram matrix of rows that have been active, extended as further ones join."""

    def __init__(self, systems: NewtonSystems) -> None:
        self.systems = systems
        self.place = np.full(systems.problem.n, -1)  # place of a row in the Gram matrix, -1 if it has none
        self.order: Indices = np.empty(0, np.int64)
        self.G: Array = np.empty((0, 0))

    def cost(self, indices: Indices) -> float:
        """Return about how many nanoseconds the step takes."""
        m, known = indices.size, self.order.size
        joining = m if not known else int(np.count_nonzero(self.place[indices] < 0))
        known += joining
        if known > _MAX_ROWS:
            return math.inf
        entries, is_sparse = self.systems.row_entries, self.systems.problem.rows.is_sparse
        products = joining * known * entries * (0.1 * NS_SPARSE_PAIR if is_sparse else NS_FLOP)
        passes = 3.0 * (NS_PASS + NS_ENTRY * self.systems.problem.n * entries)
        return passes + products + NS_FLOP * m**3 / 3.0 + 4.0 * NS_ENTRY * m * m

    def solve(self, g: Array, indices: Indices) -> tuple[Array, float]:
        r"""Return the step ``-g + Z^T beta``, where beta solves a system over the active rows.

        .. math:: (Z Z^\top + D^{-1}) \beta + y \, x_b = Z g, \qquad y^\top \beta = 0
        """
        systems, problem = self.systems, self.systems.problem
        self._extend(indices[self.place[indices] < 0])
        at, signs = self.place[indices], problem.labels.at(indices).astype(np.float64)
        A = self.G[np.ix_(at, at)]
        A[np.diag_indices_from(A)] += 1.0 / systems.c[indices]
        solver = definite_solver(A)
        image = systems.times(g)[indices]
        shift = 0.0
        if problem.fit_intercept:
            if systems.center is not None:
                image = image - float(g @ systems.center) * signs
            both = solver(np.column_stack([image, signs]))
            shift = float(signs @ both[:, 0]) / float(signs @ both[:, 1])
            beta = both[:, 0] - shift * both[:, 1]
        else:
            beta = solver(image)
        weights = np.zeros(problem.n)
        weights[indices] = beta
        x = systems.combine(weights) - g
        return x, _uncentred(shift, x, systems.center)

    def _extend(self, joining: Indices) -> None:
        if not joining.size:
            return
        old, new = self.order.size, self.order.size + joining.size
        self.order = np.concatenate([self.order, joining])
        self.place[joining] = np.arange(old, new)
        sorting = np.argsort(self.order)
        problem, ordered = self.systems.problem, self.order[sorting]
        Z = times_signs(self.systems.take(ordered), problem.labels.at(ordered))[np.argsort(sorting)]
        G = np.empty((new, new))
        G[:old, :old] = self.G
        extend_gram(G, Z, old)
        self.G = G


def _uncentred(shift: float, x: Array, center: Array | None) -> float:
    """Return the change of the intercept for rows as given, from that for centred rows."""
    return shift if center is None else shift - float(x @ center)
