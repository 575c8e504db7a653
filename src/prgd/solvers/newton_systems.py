r"""The linear systems of `prgd.solvers.primal_newton`, solved in the cheaper of two ways.

.. math:: (I + Z^\top D Z) x + Z^\top D y \, x_b = -g, \qquad y^\top D (Z x + y x_b) = 0

with D the diagonal matrix of the weights c_i of the active rows (the second equation only with an
intercept). Few columns: Cholesky's factorisation of the matrix, which is updated by the rows that join and
leave. Else conjugate gradients, one pass over the active rows for each product, until they have cost as much
as the factorisation.
"""

import numpy as np

from prgd.core.arithmetic import EPSILON, add_to_diagonal
from prgd.core.types import Array, Indices, Mask
from prgd.norms import norm
from prgd.problem import Problem
from prgd.rows import CurvatureAt, MarginsAt
from prgd.rows.queries import SMALL_ENTRIES
from prgd.solvers.costs import NS_ENTRY, NS_FLOP, NS_PASS
from prgd.solvers.linear_systems import conjugate_gradients, definite_solver

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
        self.signs = problem.labels.signs.astype(np.float64)
        # Small rows are multiplied by BLAS, which costs less than a query, and a half of NumPy's einsum.
        X = rows.plain_array
        self.small = X if X is not None and X.size <= SMALL_ENTRIES else None
        self.products = _FIRST_PRODUCTS
        # The sums of c_i x_i x_i^T and of c_i x_i over the members, updated as the active rows change.
        self.matrix, self.h = np.empty((0, 0)), np.zeros(d)
        self.members = np.zeros(n, bool)
        self.built = 0  # active rows when the matrix was last summed anew

    def rescale(self, factor: float) -> None:
        """Multiply all weights c by a factor; products of rows stay as they are."""
        self.c = self.c * factor
        self.matrix *= factor
        self.h *= factor

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

    def solve(self, g: Array, active: Mask, forcing: float) -> tuple[Array, float]:
        """Return the step ``(x, x_b)``."""
        (indices,) = (active & (self.c > 0.0)).nonzero()
        product = NS_PASS + 2.0 * NS_ENTRY * self.row_entries * indices.size
        d = self.problem.d
        changed = self._changes(indices)
        cost = NS_PASS + NS_FLOP * d * d * (changed.size + d / 3.0)
        cost += 4.0 * NS_ENTRY * changed.size * (d + self.row_entries)
        if cost > product * self.products or d > _MAX_COLUMNS:
            max_products = 10 * d + 100
            if d <= _MAX_COLUMNS:
                max_products = min(max(int(cost / product), self.products), max_products)
            x, shift, count, converged = self._conjugate_gradients(g, indices, forcing, max_products)
            self.products = count if converged else 4 * count
            return x, shift
        try:
            return self._factorised(g, indices, changed)
        except np.linalg.LinAlgError:
            return self._conjugate_gradients(g, indices, forcing, 10 * d + 100)[:2]

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

    def _factorised(self, g: Array, indices: Indices, changed: Indices) -> tuple[Array, float]:
        """Return the step from the matrix over the columns."""
        d = self.problem.d
        if self._is_new(indices):
            self.matrix, self.h, self.built = np.zeros((d, d)), np.zeros(d), indices.size
            self.members[:] = False
        step = max(1, _BLOCK_ENTRIES // d)
        for first in range(0, changed.size, step):
            self._add(changed[first : first + step])
        self.members[changed] ^= True
        H = self.matrix.copy()
        add_to_diagonal(H, 1.0)
        if not self.problem.fit_intercept or not indices.size:
            return definite_solver(H)(-g), 0.0
        mass = float(self.c[indices].sum())
        H -= np.multiply.outer(self.h, self.h / mass)
        x = definite_solver(H)(-g)
        center = 0.0 if self.center is None else float(x @ self.center)
        return x, -float(self.h @ x) / mass - center

    def _add(self, rows: Indices) -> None:
        """Add rows to the matrix, and subtract those that are in it."""
        problem, leaving, root = self.problem, self.members[rows], np.sqrt(self.c[rows])
        X = problem.rows.take(rows)
        X = X if isinstance(X, np.ndarray) else X.toarray()
        self.reads += rows.size / problem.n
        # With an intercept the step does not depend on a centre, which keeps digits.
        if problem.fit_intercept and not (problem.rows.is_sparse and problem.d > _CENTRED_COLUMNS):
            if self.center is None:
                self.center = self.combine(problem.labels.signs / problem.n)
            X -= self.center
        A = X * root[:, None]
        B = A * np.where(leaving, -1.0, 1.0)[:, None] if leaving.any() else A  # BLAS needs half of A^T A
        self.matrix += A.T @ B
        if self.problem.fit_intercept:
            self.h += root @ B
