"""R's pivoting in exact arithmetic: a column is kept if it is independent of the columns kept before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array, Indices
from prgd.proofs.column_relations import Relation, column_structure, rows_obeying
from prgd.proofs.elimination import MAX_TERMS, Elimination, residues, short_primes
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.modular import solve_rational, vanishes

_PRIMES = 3  # primes that are tried; one fails if it divides a number that it should not
_MAX_ENTRIES = 2**24  # entries of the rows that are held in memory at once
_RELATION_DIGITS, _FEW_DIGITS = 256, 16  # digits of relations of at most _MAX_TERMS columns, and of more
_MAX_TERMS = 128  # columns of a relation that is solved for, at most


class Pivots(NamedTuple):
    """Which columns R keeps on some rows, in exact arithmetic.

    Attributes
    ----------
    kept, aliased : list of int
        The columns, in the order given, that do not depend on those kept before, and those that do.
    rows : ndarray of int
        As many rows as columns are kept; on them these columns are an invertible matrix.
    asked : ndarray of int
        All rows that were asked for.
    """

    kept: list[int]
    aliased: list[int]
    rows: Indices
    asked: Indices


def pivot_columns(
    rows: LiftedRows, order: Sequence[int] | Indices, index: Indices | None = None
) -> Pivots | None:
    """Find which columns are independent of those kept before them, and prove it.

    That columns are independent is proven modulo a prime. That a column depends on others is proven by the
    zeros of these rows, or by relations that hold exactly.

    Parameters
    ----------
    rows : LiftedRows
    order : sequence of int
        The columns, the first to be kept first.
    index : ndarray of int, optional
        The rows, in increasing order; all rows that count if None.

    Returns
    -------
    Pivots, or None if no proof was found.

    Examples
    --------
    >>> rows = LiftedRows([[1.0, 2.0, 0.1], [2.0, 4.0, 0.3], [3.0, 6.0, 0.7]], None, fit_intercept=False)
    >>> found = pivot_columns(rows, [1, 0, 2])
    >>> found.kept, found.aliased
    ([1, 2], [0])
    """
    index = rows.counted if index is None else index
    order = [int(j) for j in order]
    if not index.size:
        return Pivots([], order, index, index)
    Z = _all_rows(rows, index)
    if Z is None:
        known = column_structure(rows, index, _RELATION_DIGITS, order)
        if known is None or known.relations is None:
            return None
        return Pivots(known.columns, known.others, np.sort(known.rows), index)
    for prime in islice(short_primes(), _PRIMES):
        sweep = _Sweep(Z, order, prime)
        if sweep.run():
            kept = [j for j in order if sweep.is_kept[j]]
            aliased = [j for j in order if not sweep.is_kept[j]]
            return Pivots(kept, aliased, index[sweep.pivot_rows()], index)
    return None


def _all_rows(rows: LiftedRows, index: Indices) -> Any:
    """Return the rows as a CSR array without zeros, or None if they are too many to hold."""
    if index.size > 4 * rows.width and index.size * rows.width > _MAX_ENTRIES:
        return None
    Z = rows.sparse(index, _MAX_ENTRIES)
    if Z is not None:
        Z.sum_duplicates()
        Z.eliminate_zeros()
    return Z


class _Sweep:
    """The elimination of sparse columns in their order, with its proof.

    Rows that repeat others are left out. Once k kept columns are zero except in k rows, every
    column is zero on these rows but for a combination of the k: the k rows and columns are left out from then
    on. What is left is the core.
    """

    def __init__(self, Z: Any, order: list[int], prime: int) -> None:
        from scipy.sparse import csc_array

        first = repeated_rows(Z)
        self.rows = np.flatnonzero(first == np.arange(first.size))
        self.by_row = Z[self.rows]
        self.by_column = csc_array(self.by_row)
        self.residues = residues(self.by_column.data, prime)
        n, d = self.by_row.shape
        self.order, self.prime = order, prime
        self.is_live = np.ones(n, np.bool_)  # the rows that are left
        self.live = np.arange(n)
        self.is_busy = np.zeros(n, np.bool_)  # rows in which a column of the core or the panel is not zero
        self.entries = np.diff(self.by_column.indptr)  # non-zeros of each column in the rows that are left
        self.core: Indices = np.empty(0, np.int64)
        self.is_kept = np.zeros(d, np.bool_)
        self.elimination = Elimination(n, prime)

    def run(self) -> bool:
        """Go through the columns, and say whether all that are not kept are proven to depend on others."""
        columns = iter(self.order)
        while (panel := self._next_panel(columns)).size:
            kept, factors = self.elimination.add(self._dense(panel))
            self.core = np.append(self.core, panel[kept])
            self.is_kept[panel[kept]] = True
            for k in np.setdiff1d(np.arange(panel.size), kept):
                used = self.core[np.flatnonzero(factors[self.elimination.pivots, k])]
                if not self._depends(int(panel[k]), used):
                    return False
            columns_left_out, rows_left_out = filled_rows(self._core_pattern())
            self._leave_out(rows_left_out, columns_left_out)
        return True

    def pivot_rows(self) -> Indices:
        """Return rows on which the kept columns are an invertible matrix."""
        is_chosen = ~self.is_live
        is_chosen[self.live[self.elimination.pivots]] = True
        return self.rows[is_chosen]

    def _next_panel(self, columns: Iterator[int]) -> Indices:
        """Return the next columns that must be eliminated."""
        panel, done = list[int](), list[int]()
        pointers, indices = self.by_column.indptr, self.by_column.indices
        for j in columns:
            if not self.entries[j]:
                continue
            rows = indices[pointers[j] : pointers[j + 1]]
            rows = rows[self.is_live[rows]]
            if rows.size == 1 and not self.is_busy[rows[0]]:
                self.is_kept[j] = True
                self._forget(rows.astype(np.int64))
                done.append(int(rows[0]))
                continue
            self.is_busy[rows] = True
            panel.append(j)
            if len(panel) == MAX_TERMS:
                break
        self._leave_out(np.searchsorted(self.live, np.array(done, np.int64)), np.empty(0, np.int64))
        return np.array(panel, np.int64)

    def _forget(self, rows: Indices) -> None:
        self.is_live[rows] = False
        for i in rows:
            self.entries[self.by_row.indices[self.by_row.indptr[i] : self.by_row.indptr[i + 1]]] -= 1

    def _leave_out(self, rows: Indices, columns: Indices) -> None:
        """Leave rows and columns, given by their places in the elimination, out of the core."""
        if rows.size:
            self._forget(self.live[rows][self.is_live[self.live[rows]]])
            self.live = self.live[self.elimination.drop(rows, columns)]
            self.core = np.delete(self.core, columns)
        self.is_busy[:] = False
        self.is_busy[self.by_column[:, self.core].indices] = True

    def _dense(self, panel: Indices) -> Array:
        """Return the residues of some columns in the rows that are left."""
        out = np.zeros((self.live.size, panel.size), order="F")
        pointers = self.by_column.indptr
        for k, j in enumerate(panel):
            part = slice(pointers[j], pointers[j + 1])
            rows = self.by_column.indices[part]
            inside = self.is_live[rows]
            out[np.searchsorted(self.live, rows[inside]), k] = self.residues[part][inside]
        return out

    def _core_pattern(self) -> Any:
        from scipy.sparse import csr_array

        core = csr_array(self.by_column[:, self.core][self.live].T)
        return csr_array((np.ones(core.nnz), core.indices, core.indptr), shape=core.shape)

    def _depends(self, j: int, used: Indices) -> bool:
        """Say whether a column is proven to be a combination of others on the rows that are left."""
        from scipy.sparse import csr_array

        Z = csr_array(self.by_column[:, [*used, j]])[self.live]
        Z = Z[np.flatnonzero(np.diff(Z.indptr))]
        if Z.shape[0] > used.size:
            Z = Z[np.unique(repeated_rows(Z))]
        # Independent columns that are zero but for as many different rows span all that is so.
        if Z.shape[0] == used.size:
            return True
        return used.size <= _MAX_TERMS and _is_combination(Z.toarray(), self.prime)


def _is_combination(Z: Array, prime: int) -> bool:
    """Say whether the last column is a combination of the others, which are independent, in short numbers."""
    elimination = Elimination(len(Z), prime)
    elimination.extend(residues(Z[:, :-1], prime))
    A = Z[elimination.pivots]
    if A.shape[0] < A.shape[1] - 1:
        return False
    solved = solve_rational(A[:, :-1], A[:, -1:], [[1]], max_digits=_RELATION_DIGITS)
    return solved is not None and bool(vanishes(Z, [*solved[0], -1]).all())


def combinations(rows: LiftedRows, pivots: Pivots, columns: Sequence[int]) -> list[Relation | None]:
    """Return some columns as combinations of those kept before them; None if the numbers are too long."""
    from scipy.sparse import csc_array, csr_array

    kept = np.array(pivots.kept, np.int64)
    if not kept.size:
        return [{} for _ in columns]
    Z = csc_array(rows.sparse(pivots.rows, 2**63))
    square, found = csr_array(Z[:, kept].T), list[Relation | None]()
    for j in columns:
        places, inside = reachable(square, Z[:, [j]].indices.astype(np.int64))
        part = Z[:, [*kept[places], j]][inside].toarray()
        digits = _RELATION_DIGITS if places.size <= _MAX_TERMS else _FEW_DIGITS
        solved = solve_rational(part[:, :-1], part[:, -1:], [[1]], max_digits=digits) or [()]
        terms = {int(kept[c]): k for c, k in zip(places, solved[0], strict=False) if k}
        holds = rows_obeying(rows, [{j: Fraction(-1), **terms}], pivots.asked).size == pivots.asked.size
        found.append(terms if holds else None)
    return found


# What the zeros of sparse rows tell about their rank --------------------------------------------------------


def repeated_rows(Z: Any) -> Indices:
    """Return for each CSR row the first that it equals but for its sign, itself if none, -1 if it is zero.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> repeated_rows(csr_array([[0.1, 0.2], [0.0, 0.0], [-0.1, -0.2], [0.1, 0.3]])).tolist()
    [0, -1, 0, 3]
    """
    lengths = np.diff(Z.indptr)
    filled = np.flatnonzero(lengths)
    first = np.where(lengths > 0, np.arange(len(lengths)), -1)
    if not filled.size:
        return first
    starts, counts = Z.indptr[filled], lengths[filled]
    values = Z.data * np.repeat(np.sign(Z.data[starts]), counts)
    keys = np.random.default_rng(0).integers(1, 2**62, Z.shape[1], np.uint64) | np.uint64(1)
    hashes = np.add.reduceat(values.view(np.uint64) * keys[Z.indices], starts)  # modulo 2**64
    _, leaders, group = np.unique(hashes, return_index=True, return_inverse=True)
    leader = leaders[group.ravel()]
    same = np.flatnonzero((leader != np.arange(filled.size)) & (counts == counts[leader]))
    if same.size:
        bounds = np.concatenate([[0], np.cumsum(counts[same])[:-1]])
        inside = np.arange(int(counts[same].sum())) - np.repeat(bounds, counts[same])
        here, there = (np.repeat(starts[k], counts[same]) + inside for k in (same, leader[same]))
        equal = (Z.indices[here] == Z.indices[there]) & (values[here] == values[there])
        same = same[np.logical_and.reduceat(equal, bounds)]
    first[filled[same]] = filled[leader[same]]
    return first


def filled_rows(pattern: Any) -> tuple[Indices, Indices]:
    """Return the largest set of columns that are zero except in as many rows, and these rows.

    If all columns are independent, every vector on these rows is a combination of these columns
    (the square part of Dulmage and Mendelsohn's decomposition).

    Parameters
    ----------
    pattern : CSR array of shape (columns, rows)
        1 where a column is not zero.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> columns, rows = filled_rows(csr_array([[1, 0, 0], [1, 1, 1]]))
    >>> columns.tolist(), rows.tolist()
    ([0], [0])
    """
    from scipy.sparse.csgraph import maximum_bipartite_matching

    matched = maximum_bipartite_matching(pattern, perm_type="column")
    is_open = np.ones(pattern.shape[1], np.bool_)
    is_open[matched[matched >= 0]] = False
    is_reached = matched < 0
    while is_open.any():  # alternating paths from the rows without a column
        new = (pattern @ is_open.astype(np.float64) > 0.0) & ~is_reached
        is_reached |= new
        is_open = np.zeros_like(is_open)
        is_open[matched[new]] = True
    columns = np.flatnonzero(~is_reached)
    return columns, matched[columns].astype(np.int64)


def reachable(pattern: Any, rows: Indices) -> tuple[Indices, Indices]:
    """Return the columns that a combination equal to a vector on some rows can have, and as many rows.

    Parameters
    ----------
    pattern : CSR array of shape (r, r), columns by rows
        Not zero where a column is not zero; all columns are independent.
    rows : ndarray of int
        The rows on which the vector is not zero.
    """
    from scipy.sparse.csgraph import maximum_bipartite_matching

    matched = maximum_bipartite_matching(pattern, perm_type="row")
    is_inside, new = np.zeros(matched.size, np.bool_), np.unique(rows)
    while new.size:  # A row that is not zero needs the column matched with it, which brings its other rows.
        is_inside[new] = True
        touched = np.unique(pattern[matched[new]].indices)
        new = touched[~is_inside[touched]]
    inside = np.flatnonzero(is_inside)
    columns = matched[inside].astype(np.int64)
    order = np.argsort(columns)
    return columns[order], inside
