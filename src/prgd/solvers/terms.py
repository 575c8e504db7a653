"""Terms: the linear functions of (w, b) of which a program maximises the smallest one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array, Indices
from prgd.rows.blocks import is_sparse
from prgd.rows.pairs import pair_rows


class Solution(NamedTuple):
    """What a program found: w of norm at most 1, K intercepts (one for two classes), and weights of terms.

    The weights are not negative, and their sum is about 1.
    """

    w: Array
    intercept: Array
    p: Array


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of a set: ``y_i (<w, x_i> + b)``, or ``<w_k - w_j, x_i> + b_k - b_j`` of pairs.

    Attributes
    ----------
    X : array or CSR array of shape (rows, d)
    row : ndarray of int of shape (m,)
        The place in X of the row of each term.
    plus, minus : ndarray of int of shape (m,), or None
        The classes k and j of each pair; None if there are two classes.
    signs : ndarray of shape (m,), or None
        The labels y_i of two classes; None for pairs.
    K : int
        Number of rows of w: the classes of pairs, else 1.
    fit_intercept : bool
    """

    X: Any
    row: Indices
    K: int
    fit_intercept: bool
    signs: Array | None = None
    plus: Indices | None = None
    minus: Indices | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of w."""
        d = int(self.X.shape[1])
        return (d,) if self.plus is None else (self.K, d)

    @property
    def matrix(self) -> Any:
        """The terms as a CSR array with a column for each entry of w, row by row."""
        from scipy.sparse import csr_array

        X = csr_array(self.X)[self.row]
        if self.plus is None or self.minus is None:
            return csr_array(X * np.asarray(self.signs)[:, None])
        return pair_rows(X, self.plus, self.minus, self.K)

    @property
    def intercepts(self) -> Array:
        """Coefficients of the intercepts in the terms; the intercept of the last class is 0."""
        m = self.row.size
        if not self.fit_intercept:
            return np.zeros((m, 0))
        if self.plus is None or self.minus is None:
            return np.asarray(self.signs, dtype=np.float64)[:, None]
        found = np.zeros((m, self.K))
        found[np.arange(m), self.plus] = 1.0
        found[np.arange(m), self.minus] = -1.0
        return found[:, :-1]

    def solution(self, w: Array, b: Array, p: Array) -> Solution:
        """Return what a program found for `matrix` and `intercepts`, in the shapes of the problem."""
        if not self.fit_intercept:
            b = np.zeros(self.K)
        elif self.plus is not None:
            b = np.append(b, 0.0)
        return Solution(w.reshape(self.shape), b, np.maximum(p, 0.0))

    def in_row_space(self) -> tuple[Terms, Array | None]:
        """Return the same terms in an orthonormal basis of the rows, and the basis, if there are fewer rows.

        A norm that rotations of the columns do not change has a best w in the space of the rows.
        """
        rows, d = self.X.shape
        if rows >= d:
            return self, None
        X = self.X.toarray() if is_sparse(self.X) else self.X
        Q, R = np.linalg.qr(X.T)
        return replace(self, X=np.ascontiguousarray(R.T)), Q
