r"""The coordinates of the joint interior point: a matrix W and intercepts, over pairs (row, class).

A pair compares the class y of a row x with another class j; its margin is ``<w_y - w_j, x> + b_y - b_j``. The
intercepts are coordinates as the entries of W are, without weight in the objective. Newton's systems have two
forms:

- `PairColumns`, over the entries of W and b. With the ratios D of the interior point the matrix is the
  Laplacian of the graph of the classes, with a block :math:`M_{kl} = \sum D x x^\top` in the place of the
  weight of an edge, summed over the pairs between k and l. A pair costs d^2, however many classes there are.
- `PairProducts`, over the pairs, by their Gram matrix ``<x, x'> <e_y - e_j, e_y' - e_j'>``.

One vector added to all w_k, or one number to all b_k, changes no margin. The coordinates are differences to
the last class, so that the systems do not have this null space.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from prgd.core.arithmetic import add_to_diagonal
from prgd.core.threads import lazy
from prgd.core.types import Array, Indices, Mask
from prgd.norms import norm
from prgd.solvers.linear_systems import NEGLIGIBLE_RATIO, Coordinates, Solver, definite_solver, shifted_solver

VANISHED = 1e-9  # an upper bound below this, for rows of norm 1, counts as zero
_FEW_COLUMNS = 512  # systems over so few columns are cheap, and more accurate than products of rows


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs (row, class): their margins, and combinations of ``(e_y - e_j) x^T``.

    Attributes
    ----------
    X : ndarray of shape (rows, d) or (rows, d + 1)
        Rows of norm at most 1; with intercepts, the last column has ones, and that of W the intercepts.
    row, y, j : ndarray of int of shape (m,)
        The row of each pair, its class, and the class that the row is compared with.
    K : int
    has_intercept : bool
    """

    X: Array
    row: Indices
    y: Indices
    j: Indices
    K: int
    has_intercept: bool

    @property
    def size(self) -> int:
        """Number of pairs."""
        return self.row.size

    @lazy
    def _cells(self) -> tuple[Indices, Indices]:
        """The places of both classes of a pair in the flat matrix of all scores, of shape (rows, K)."""
        return self.row * self.K + self.y, self.row * self.K + self.j

    def part(self, kept: Mask) -> Pairs:
        """Return some of the pairs, and the rows of these alone."""
        rows, row = np.unique(self.row[kept], return_inverse=True)
        return replace(self, X=self.X[rows], row=row, y=self.y[kept], j=self.j[kept])

    def margins(self, W: Array) -> Array:
        """Return ``<w_y - w_j, x>`` for each pair."""
        scores = (self.X @ W.T).ravel()
        own, other = self._cells
        return np.asarray(scores[own] - scores[other])

    def combine(self, v: Array) -> Array:
        """Return ``sum v (e_y - e_j) x^T`` over the pairs."""
        size, (own, other) = self.X.shape[0] * self.K, self._cells
        coefficients = np.bincount(own, v, size) - np.bincount(other, v, size)
        return np.asarray(coefficients.reshape(-1, self.K).T @ self.X)

    def squares(self, v: Array) -> Array:
        """Return the diagonal of ``sum v a a^T``, a being the pairs, in the shape of W."""
        size, (own, other) = self.X.shape[0] * self.K, self._cells
        sums = np.bincount(own, v, size) + np.bincount(other, v, size)
        return np.asarray(sums.reshape(-1, self.K).T @ (self.X * self.X))

    def flows(self, v: Array) -> Array:
        """Return the sums of v over the pairs of class k against class j, of shape (K, K)."""
        sums = np.bincount(self.y * self.K + self.j, v, self.K**2)
        return np.asarray(sums.reshape(self.K, self.K), dtype=np.float64)

    def length(self, W: Array) -> np.float64:
        """Return the Frobenius norm of W without its intercepts."""
        return np.float64(norm((W[:, :-1] if self.has_intercept else W).ravel()))

    def bound(self, p: Array) -> np.float64:
        """Return the length of the combination by p, of sum 1, once p is balanced.

        If p is too far from a circulation to be balanced, what is missing is added to the length.
        """
        balanced = self.balanced(p)
        if balanced is not None:
            return np.float64(self.length(self.combine(balanced)) / balanced.sum())
        U = self.combine(p)
        return np.float64(self.length(U) + np.abs(U[:, -1]).sum())

    def balanced(self, p: Array) -> Array | None:
        """Return positive weights near p that leave each class as often as they enter it.

        Of all changes that balance the classes this one has the least sum of squares divided by p, so that
        small weights change little. Without intercepts p is returned as it is.

        Returns
        -------
        ndarray of shape (m,), or None if weights would turn negative.
        """
        if not self.has_intercept:
            return p
        for _ in range(2):  # the second round removes the rounding of the first
            flow = self.flows(p)
            net, both = flow.sum(axis=1) - flow.sum(axis=0), flow + flow.T
            try:
                potential = potentials(both, net)
            except np.linalg.LinAlgError:
                return None
            p = p * (1.0 - (potential[self.y] - potential[self.j]))
            if not p.min() >= 0.0:
                return None
        return p


class PairCoordinates(Coordinates):
    """What both coordinates of pairs share."""

    vanished = VANISHED
    pairs: Pairs

    @abstractmethod
    def matrix(self, x: Array) -> Array:
        """Return W, whose rows have the sum zero."""

    @abstractmethod
    def coordinates(self, W: Array, c: Array) -> Array:
        """Return the coordinates of W, which is a combination by c but for its intercepts."""

    def margins(self, x: Array) -> Array:
        """Return the margins of all pairs, from the rows: a Gram matrix would keep fewer digits."""
        return self.pairs.margins(self.matrix(x))

    def length(self, x: Array) -> np.float64:
        """Return ``||W||``."""
        return self.pairs.length(self.matrix(x))

    def bound(self, p: Array) -> np.float64:
        """Return the upper bound that weights p give."""
        return self.pairs.bound(p)


class PairColumns(PairCoordinates):
    """Directions held as the differences ``w_k - w_K`` of all classes to the last."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs, K = pairs, pairs.K
        edge = np.minimum(pairs.y, pairs.j) * K + np.maximum(pairs.y, pairs.j)
        self._order = np.argsort(edge, kind="stable")  # pairs between the same two classes stand together
        edges, first = np.unique(edge[self._order], return_index=True)
        self._low, self._high = np.divmod(edges, K)
        self._first, self._row = first, pairs.row[self._order]

    def matrix(self, x: Array) -> Array:
        """Return W, whose rows have the sum zero."""
        W = np.zeros((self.pairs.K, self.pairs.X.shape[1]))
        W[:-1] = x.reshape(self.pairs.K - 1, -1)
        return np.asarray(W - W.mean(axis=0))

    def coordinates(self, W: Array, c: Array) -> Array:
        """Return the coordinates of W, which is a combination by c but for its intercepts."""
        return np.asarray((W[:-1] - W[-1]).ravel())

    def combine(self, v: Array) -> Array:
        """Return the derivatives of the sum of v times the margins."""
        return np.asarray(self.pairs.combine(v)[:-1].ravel())

    def gradient(self, x: Array) -> Array:
        """Return the derivatives of ``||W||^2 / 2``."""
        W = self.matrix(x)
        if self.pairs.has_intercept:
            W[:, -1] = 0.0
        return np.asarray(W[:-1].ravel())

    def solver(self, D: Array) -> Solver:
        """Factorise the Hessian: second derivatives of ``||W||^2 / 2``, and the blocks of the Laplacian."""
        K, d = self.pairs.K, self.pairs.X.shape[1]
        M, low, high = self._edge_sums(D[self._order]), self._low, self._high
        H = np.zeros((K - 1, d, K - 1, d))
        inner = high < K - 1
        H[low[inner], :, high[inner]] = -M[inner]
        H[high[inner], :, low[inner]] = -M[inner]
        weight = np.ones(d)
        weight[d - self.pairs.has_intercept :] = 0.0
        diagonal = np.einsum("kili->kli", H)  # a view that can be written to
        diagonal -= weight / K
        for k in range(K - 1):
            H[k, :, k] += M[(low == k) | (high == k)].sum(axis=0) + np.diag(weight)
        return shifted_solver(H.reshape((K - 1) * d, -1))

    def _edge_sums(self, D: Array) -> Array:
        """Return ``sum D x x^T`` over the pairs between two classes, for each such two."""
        X, (kept,) = self.pairs.X, (NEGLIGIBLE_RATIO * D.max() < D).nonzero()
        d, edges = X.shape[1], self._first.size
        ends = np.append(np.searchsorted(kept, self._first), kept.size)
        M = np.zeros((edges, d, d))
        row, roots = self._row[kept], np.sqrt(D[kept])
        for k in range(edges):
            part = slice(ends[k], ends[k + 1])
            A = X[row[part]]
            A *= roots[part, None]
            np.matmul(A.T, A, out=M[k])
        return M


class PairProducts(PairCoordinates):
    """Directions held by coefficients c of the pairs, ``W = sum c (e_y - e_j) x^T``, and intercepts."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        X = pairs.X[:, :-1] if pairs.has_intercept else pairs.X
        E = np.zeros((pairs.size, pairs.K))
        E[np.arange(pairs.size), pairs.y] = 1.0
        E[np.arange(pairs.size), pairs.j] = -1.0
        G = (X @ X.T)[np.ix_(pairs.row, pairs.row)]
        G *= E @ E.T
        self._G, self._E = G, E[:, : -1 if pairs.has_intercept else 0]

    def matrix(self, x: Array) -> Array:
        """Return W, whose rows have the sum zero."""
        W, b = self.pairs.combine(x[: self.pairs.size]), x[self.pairs.size :]
        if self.pairs.has_intercept:
            W[:, -1] = np.append(b, 0.0) - b.sum() / self.pairs.K
        return W

    def coordinates(self, W: Array, c: Array) -> Array:
        """Return the coordinates of W, which is a combination by c but for its intercepts."""
        return np.append(c, W[:-1, -1] - W[-1, -1]) if self.pairs.has_intercept else c

    def combine(self, v: Array) -> Array:
        """Return the coefficients v, and what they leave each class with."""
        return np.append(v, v @ self._E)

    def gradient(self, x: Array) -> Array:
        """Return the coefficients of x, and zero for the intercepts."""
        return np.append(x[: self.pairs.size], np.zeros(self._E.shape[1]))

    def solver(self, D: Array) -> Solver:
        r"""Factorise the system over the pairs; the intercepts border it, and are eliminated.

        .. math:: (I + D G) c + D E b = r_c, \qquad E^\top D (G c + E b) = r_b
        """
        m, S = self.pairs.size, np.sqrt(D)
        # Near the path S^-1 r_c has entries of one size, however far those of D lie apart.
        A = S[:, None] * self._G
        A *= S
        add_to_diagonal(A, 1.0)
        solve, E = definite_solver(A), S[:, None] * self._E
        if not E.shape[1]:
            return lambda r: S * solve(r / S)
        Q = solve(E)
        # E^T D E - E^T D G S Q is E^T Q, without the cancellation.
        schur = shifted_solver(E.T @ Q)

        def solve_both(r: Array) -> Array:
            right = r[:m] / S
            c = solve(right)
            b = schur(r[m:] - (right - c) @ E)
            return np.append(S * (c - Q @ b), b)

        return solve_both


def potentials(both: Array, net: Array) -> Array:
    """Solve the Laplacian system of a connected graph with symmetric weights; the last potential is zero.

    Examples
    --------
    >>> potentials(np.array([[0.0, 2.0], [2.0, 0.0]]), np.array([1.0, -1.0]))
    array([0.5, 0. ])
    """
    laplacian = np.diag(both.sum(axis=1)) - both
    return np.append(shifted_solver(np.ascontiguousarray(laplacian[:-1, :-1]))(net[:-1]), 0.0)


def coordinates_of(pairs: Pairs) -> PairColumns | PairProducts:
    """Return the coordinates whose systems are cheaper; those of the columns if the difference is small."""
    m, d = pairs.size, pairs.X.shape[1]
    columns = (pairs.K - 1) * d
    is_cheaper = columns > _FEW_COLUMNS and 2.0 * m**3 < columns**3 + 3.0 * m * d * d
    return PairProducts(pairs) if is_cheaper else PairColumns(pairs)
