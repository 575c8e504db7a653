"""Terms: the linear functions of (w, b) of which a program maximises the smallest; and a set of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array, Indices, Mask
from prgd.problem.problem import NO_ROWS, Problem
from prgd.rows.blocks import divide_by_power, is_sparse, pair_rows, stack_blocks
from prgd.rows.queries import Smallest
from prgd.solvers.working_set import counted_rows

_MAX_ZOOM = 36  # entries of a program are at most 2^36 times its value


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


class TermSet:
    """Terms in the order in which they joined: rows of two classes, or pairs (row i, class j) as ``i K + j``.

    Attributes
    ----------
    indices : ndarray of int of shape (m,)
    center : ndarray of shape (d,) or None
        With an intercept the problem does not change under translation, and the program loses fewer digits
        on rows around the origin. Sparse rows stay as they are.
    exponent : int
        Rows of the set are divided by ``2**exponent``, so that their entries are at most about 1.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem, self._rows, self._X = problem, NO_ROWS, np.empty((0, problem.d))
        self.K = problem.shape[0] if problem.is_joint else 1
        self.indices = NO_ROWS
        self.center: Array | None = None
        self.exponent = 0

    @property
    def size(self) -> int:
        """Number of terms."""
        return self.indices.size

    @property
    def n_terms(self) -> int:
        """Number of terms of all rows."""
        return self._problem.n * max(self.K - 1, 1)

    def all_terms(self) -> Indices:
        """Return the terms of all rows of positive weight."""
        rows = counted_rows(self._problem)
        if not self._problem.is_joint:
            return rows
        pairs = rows[:, None] * self.K + np.arange(self.K)
        return np.asarray(pairs[self._problem.labels.codes_at(rows)[:, None] != np.arange(self.K)])

    def add(self, indices: Indices) -> None:
        """Let terms join that are not in the set."""
        rows = np.setdiff1d(indices // self.K, self._rows)
        if rows.size:
            block = self._problem.rows.take(rows)
            if not self._rows.size:
                self._choose_units(block)
            block = self._in_units(block)
            self._X = stack_blocks([self._X, block]) if self._rows.size else block
            self._rows = np.concatenate([self._rows, rows])
        self.indices = np.concatenate([self.indices, indices])

    def keep(self, mask: Mask) -> None:
        """Remove the terms outside the mask from the set."""
        self.indices = self.indices[mask]
        used = np.isin(self._rows, self.indices // self.K)
        self._rows, self._X = self._rows[used], self._X[used]

    def _choose_units(self, block: Any) -> None:
        """Choose the centre and the power of two from the first rows."""
        self.exponent = _exponent(block)
        scaled = self._in_units(block)
        if self._problem.fit_intercept and not is_sparse(scaled):
            self.center = scaled.mean(axis=0)
            # Rows far from the origin are small once they are centred.
            spread = _exponent(scaled - self.center)
            self.center, self.exponent = np.ldexp(self.center, -spread), self.exponent + spread

    def _in_units(self, block: Any) -> Any:
        block = block.copy()
        divide_by_power(block, self.exponent)
        return block if self.center is None else block - self.center

    def terms(self, value: float) -> Terms:
        """Return the terms divided by a power of two, so that one of this value in the data is about 1."""
        X = self._X.copy()
        divide_by_power(X, self._value_exponent(value))
        order = np.argsort(self._rows)
        row = order[np.searchsorted(self._rows, self.indices // self.K, sorter=order)]
        labels = self._problem.labels
        if not self._problem.is_joint:
            rows, at = np.unique(self.indices, return_inverse=True)
            signs = labels.at(rows)[at].astype(np.float64)
            return Terms(X, row, 1, self._problem.fit_intercept, signs)
        own, other = labels.pair_classes(self.indices)
        return Terms(X, row, self.K, self._problem.fit_intercept, None, own, other)

    def _value_exponent(self, value: float) -> int:
        if not 0.0 < value < math.inf:
            return 0
        return min(0, max(math.frexp(value)[1] - self.exponent, -_MAX_ZOOM))

    def in_data_units(self, found: Solution, value: float) -> Solution:
        """Return the solution of `terms` with intercepts in units of the data."""
        b = np.ldexp(found.intercept, self.exponent + self._value_exponent(value))
        if self.center is not None:
            b = b - np.ldexp(found.w @ self.center, self.exponent)
        return found._replace(intercept=b)


def _exponent(block: Any) -> int:
    """Return the power of two just above the largest entry."""
    entries = block.data if is_sparse(block) else block
    return math.frexp(float(np.abs(entries).max(initial=0.0)))[1]


def mean_term(problem: Problem) -> Array:
    """Return the mean of all terms; with intercepts, the sum of the means of groups."""
    w = np.zeros(problem.shape)
    query = replace(problem.coding.tally_at(w, problem.loss), is_repeated=False)  # type: ignore[type-var]
    return problem.coding.evaluation(problem, w, problem.ask(query)).dual_vector


def violators(problem: Problem, smallest: tuple[Smallest, ...], level: float, max_rows: int) -> Indices:
    """Return the terms of smallest margin, at the best intercepts, whose margin is below the level."""
    b = problem.coding.best([group.smallest for group in smallest])[1]
    shifts = np.subtract.outer(b, b).ravel() if problem.is_joint else np.array([b, -b])
    margins = np.concatenate([q.margins + shift for q, shift in zip(smallest, shifts, strict=False)])
    indices = np.concatenate([group.indices for group in smallest])
    order = np.argsort(margins, kind="stable")[:max_rows]
    return np.asarray(indices[order[margins[order] < level]])
