r"""The linear systems of `prgd.solvers.primal_newton`, solved in the cheapest of three ways.

.. math:: (I + Z^\top D Z) x + Z^\top D y \, x_b = -g, \qquad y^\top D (Z x + y x_b) = 0

with D the diagonal matrix of the weights c_i of the active rows (the second equation only with an
intercept). Few columns: Cholesky's factorisation of the matrix, which is updated by the rows that join and
leave. Few active rows: that of their Gram matrix. Else conjugate gradients, one pass over the active rows
for each product, until they have cost as much as the factorisation.
"""

from __future__ import annotations

import math

import numpy as np

from prgd._types import Array, Indices, Mask
from prgd.arithmetic import EPSILON
from prgd.norms import norm
from prgd.problem import Problem
from prgd.rows import CurvatureAt, MarginsAt
from prgd.rows.base import Block
from prgd.solvers.cholesky import definite_solver
from prgd.solvers.gram_matrix import extend_gram

# Nanoseconds on one core, to choose between the ways; only their ratios matter.
_NS_ENTRY = 1.0  # for an entry that a pass reads
_NS_PASS = 2e4  # for a pass, however few rows it reads
_NS_FLOP = 0.05  # for a multiplication and an addition in a dense product
_NS_SPARSE_PAIR = 0.35  # for an entry of a sparse row and each row whose product with it is computed
_MAX_ROWS = 6000  # rows of a Gram matrix
_MAX_COLUMNS = 6000  # columns of a matrix over the columns
_CENTRED_COLUMNS = 64  # columns up to which sparse rows are centred, and so no longer sparse
_BLOCK_ENTRIES = 2**22  # entries of the rows that are added to the matrix at a time
_SAMPLE_ROWS = 16  # rows that are gathered to estimate the number of stored entries
_FIRST_PRODUCTS = 10  # products that the first conjugate gradients are expected to need


class NewtonSystems:
    """Newton's systems of one problem, and what is kept from one to the next.

    Attributes
    ----------
    reads : float
        Rows read so far divided by n.
    """

    def __init__(self, problem: Problem, c: Array) -> None:
        self.problem, self.c, self.reads = problem, c, 0.0
        n, d, rows = problem.n, problem.d, problem.rows
        sample = rows.take(np.arange(0, n, max(n // _SAMPLE_ROWS, 1)))
        self.row_entries = sample.nnz / sample.shape[0] if rows.is_sparse else float(d)
        self.center: Array | None = None
        self.products = _FIRST_PRODUCTS
        self.columns = _Columns(self)
        self.gram = _Gram(self)

    def rescale(self, factor: float) -> None:
        """Multiply all weights c by a factor; products of rows stay as they are."""
        self.c = self.c * factor
        self.columns.matrix *= factor
        self.columns.h *= factor

    def combine(self, alpha: Array) -> Array:
        """Return ``Z^T alpha``."""
        self.reads += np.count_nonzero(alpha) / self.problem.n
        return self.problem.combine(alpha)

    def take(self, indices: Indices) -> Block:
        """Return rows ``y_i (x_i - center)``; with an intercept the step does not depend on the centre."""
        problem, is_sparse = self.problem, self.problem.rows.is_sparse
        if self.center is None and problem.fit_intercept and not (is_sparse and problem.d > _CENTRED_COLUMNS):
            self.center = problem.combine(problem.labels.signs / problem.n)
        self.reads += indices.size / problem.n
        block = problem.take(indices, None if is_sparse else self.center)
        if is_sparse and self.center is not None:
            block = block.toarray() - np.outer(problem.labels.at(indices), self.center)
        return block

    def solve(self, g: Array, active: Mask, forcing: float) -> tuple[Array, float]:
        """Return the step ``(x, x_b)``."""
        indices = np.flatnonzero(active & (self.c > 0.0))
        product = _NS_PASS + 2.0 * _NS_ENTRY * self.row_entries * indices.size
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
        problem, c = self.problem, self.c[indices]
        mass, has_b = float(c.sum()), problem.fit_intercept and indices.size > 0
        h = np.zeros(problem.d)
        if has_b:
            weights = np.zeros(problem.n)
            weights[indices] = c * problem.labels.signs[indices]
            h = self.combine(weights) / mass
        x, r, along = np.zeros(problem.d), -g, 0.0  # along is the mean of <x, x_i> over the active rows
        q, q_along = r, 0.0
        square, target = float(r @ r), max(forcing, EPSILON) * norm(g)
        for k in range(max_products):
            if square <= target**2:
                return x, -along, k, True
            image, total = problem.rows.ask(CurvatureAt(q, indices, c), problem.labels)
            self.reads += indices.size / problem.n
            if has_b:
                image -= h * total
                q_along = total / mass
            image += q
            curvature = float(q @ image)
            if not curvature > 0.0:  # rounding of products far from the origin; x is the best step so far
                return x, -along, k + 1, False
            size = square / curvature
            x, r, along = x + size * q, r - size * image, along + size * q_along
            square, last = float(r @ r), square
            q = r + (square / last) * q
        return x, -along, max_products, square <= target**2


class _Columns:
    """The matrix over the columns: ``sum_i c_i x_i x_i^T`` over the active rows, updated as they change."""

    def __init__(self, systems: NewtonSystems) -> None:
        self.systems, d = systems, systems.problem.d
        self.matrix = np.empty((0, 0))  # without rows, until it is first summed
        self.h = np.zeros(d)  # sum_i c_i x_i
        self.members = np.zeros(systems.problem.n, bool)
        self.built = 0  # active rows when the matrix was last summed anew
        self._d = d

    def _changes(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return rows that join and rows that leave; all join a new matrix if few of the old remain."""
        now = np.zeros(self.members.size, bool)
        now[indices] = True
        if not self.built or 2 * indices.size < self.built:
            return indices, np.empty(0, np.int64)
        return np.flatnonzero(now & ~self.members), np.flatnonzero(self.members & ~now)

    def cost(self, indices: Indices) -> float:
        """Return about how many nanoseconds the step takes."""
        d, entries = self._d, self.systems.row_entries
        if d > _MAX_COLUMNS:
            return math.inf
        changed = sum(part.size for part in self._changes(indices))
        return _NS_PASS + _NS_FLOP * d * d * (changed + d / 3.0) + 4.0 * _NS_ENTRY * changed * (d + entries)

    def solve(self, g: Array, indices: Indices) -> tuple[Array, float]:
        """Return the step ``(x, x_b)``."""
        systems, d = self.systems, self._d
        joining, leaving = self._changes(indices)
        if not self.built or 2 * indices.size < self.built:
            self.matrix, self.h, self.built = np.zeros((d, d)), np.zeros(d), indices.size
            self.members[:] = False
        for rows, sign in ((joining, 1.0), (leaving, -1.0)):
            step = max(1, _BLOCK_ENTRIES // d)
            for first in range(0, rows.size, step):
                self._add(rows[first : first + step], sign)
        self.members[joining], self.members[leaving] = True, False
        H = self.matrix + np.eye(d)
        if not systems.problem.fit_intercept or not indices.size:
            return definite_solver(H)(-g), 0.0
        mass = float(systems.c[indices].sum())
        H -= np.outer(self.h, self.h / mass)
        x = definite_solver(H)(-g)
        return x, _uncentred(-float(self.h @ x) / mass, x, systems.center)

    def _add(self, rows: Indices, sign: float) -> None:
        systems = self.systems
        Z = systems.take(rows)
        Z = Z if isinstance(Z, np.ndarray) else Z.toarray()
        root = np.sqrt(systems.c[rows])
        A = Z * root[:, None]
        self.matrix += sign * (A.T @ A)
        if systems.problem.fit_intercept:
            self.h += sign * (A.T @ (root * systems.problem.labels.at(rows)))


class _Gram:
    """The Gram matrix of rows that have been active, extended as further ones join."""

    def __init__(self, systems: NewtonSystems) -> None:
        self.systems = systems
        self.place = np.full(systems.problem.n, -1)  # place of a row in the Gram matrix, -1 if it has none
        self.order: Indices = np.empty(0, np.int64)
        self.G: Array = np.empty((0, 0))

    def cost(self, indices: Indices) -> float:
        """Return about how many nanoseconds the step takes."""
        m, joining = indices.size, int(np.count_nonzero(self.place[indices] < 0))
        known = self.order.size + joining
        if known > _MAX_ROWS:
            return math.inf
        entries, is_sparse = self.systems.row_entries, self.systems.problem.rows.is_sparse
        products = joining * known * entries * (0.1 * _NS_SPARSE_PAIR if is_sparse else _NS_FLOP)
        passes = 3.0 * (_NS_PASS + _NS_ENTRY * self.systems.problem.n * entries)
        return passes + products + _NS_FLOP * m**3 / 3.0 + 4.0 * _NS_ENTRY * m * m

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
        systems.reads += 1.0
        image = problem.rows.ask(MarginsAt(g), problem.labels)[indices]
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
        Z = self.systems.take(self.order[sorting])[np.argsort(sorting)]
        G = np.empty((new, new))
        G[:old, :old] = self.G
        extend_gram(G, Z, old)
        self.G = G


def _uncentred(shift: float, x: Array, center: Array | None) -> float:
    """Return the change of the intercept for rows as given, from that for centred rows."""
    return shift if center is None else shift - float(x @ center)
