"""R's pivoting in exact arithmetic: a column is kept if it is independent of the columns kept before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array, Indices, Mask
from prgd.proofs.column_relations import Relation, rows_obeying
from prgd.proofs.elimination import MAX_TERMS, Elimination, product, reduced, residues, short_primes
from prgd.proofs.lifted_rows import LiftedRows, spread
from prgd.proofs.modular import solve_rational, vanishes
from prgd.proofs.sparse_structure import filled_rows, proportional_rows, reachable

_PRIMES = 3  # primes that are tried; one fails if it divides a number that it should not
_MAX_ENTRIES = 2**24  # entries of the rows that are held in memory at once
_RELATION_DIGITS = 256  # relations that occur in practice have short numbers
_VIOLATING = 8  # rows, at most, that join the few rows for a relation that does not hold on them
_MAX_TERMS = 128  # columns of a relation that is solved for, at most


class Pivots(NamedTuple):
    """Which columns R keeps on some rows, in exact arithmetic.

    Attributes
    ----------
    kept, aliased : list of int
        The columns, in the order given, that do not depend on those kept before, and those that do.
    rows : ndarray of int
        As many rows as columns are kept; on them these columns are an invertible matrix.
    earlier : dict from int to int
        How many columns were kept before each of those that depend on them.
    asked : ndarray of int
        All rows that were asked for.
    """

    kept: list[int]
    aliased: list[int]
    rows: Indices
    earlier: dict[int, int]
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
        return _pivots(order, np.zeros(rows.width, np.bool_), index, index)
    Z = _all_rows(rows, index)
    for prime in islice(short_primes(), _PRIMES):
        if Z is None:
            found = _from_few_rows(rows, order, index, prime)
        else:
            sweep = _Sweep(Z, order, prime)
            found = (
                None if not sweep.run() else _pivots(order, sweep.is_kept, index[sweep.pivot_rows()], index)
            )
        if found is not None:
            return found
    return None


def _pivots(order: list[int], is_kept: Mask, rows: Indices, index: Indices) -> Pivots:
    kept: list[int] = []
    earlier: dict[int, int] = {}
    for j in order:
        if is_kept[j]:
            kept.append(j)
        else:
            earlier[j] = len(kept)
    return Pivots(kept, list(earlier), np.sort(rows), earlier, index)


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

    Rows that are multiples of others are left out. Once k kept columns are zero except in k rows, every
    column is zero on these rows but for a combination of the k: the k rows and columns are left out from then
    on. What is left is the core.
    """

    def __init__(self, Z: Any, order: list[int], prime: int) -> None:
        from scipy.sparse import csc_array

        first = proportional_rows(Z)
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
        # Rows that are combinations of other rows, which are no such rows, in the columns seen last.
        self.row_relations: dict[int, dict[int, Fraction]] = {}

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

        Z, rows = csr_array(self.by_column[:, [*used, j]])[self.live], self.live
        filled = np.flatnonzero(np.diff(Z.indptr))
        Z, rows = Z[filled], rows[filled]
        if rows.size > used.size:
            different = np.unique(proportional_rows(Z))
            Z, rows = Z[different], rows[different]
        # Independent columns that are zero but for as many rows, or multiples of rows, span all that is so.
        if rows.size == used.size:
            return True
        if used.size <= _MAX_TERMS and _combination(Z.toarray(), self.prime) is not None:
            return True
        return self._rows_depend(Z.toarray(), rows)

    def _rows_depend(self, Z: Array, rows: Indices) -> bool:
        """Say whether relations between rows prove that the last column depends on the others."""
        count, places = len(Z) - Z.shape[1] + 1, {int(i): k for k, i in enumerate(rows)}
        for own, relation in self.row_relations.items():
            if own in places and places.keys() >= relation.keys():
                part = Z[[places[own], *(places[i] for i in relation)]]
                count -= int(vanishes(part.T, [Fraction(-1), *relation.values()]).all())
        if count <= 0:
            return True
        elimination = Elimination(len(Z), self.prime)
        elimination.extend(residues(Z[:, :-1], self.prime))
        self.row_relations = {}
        for i in np.setdiff1d(np.arange(len(Z)), elimination.pivots):
            terms = elimination.pivots[np.flatnonzero(elimination.operations[i])]
            factors = _combination(Z[[*terms, i]].T, self.prime) if terms.size <= _MAX_TERMS else None
            if factors is None:
                return False
            self.row_relations[int(rows[i])] = dict(zip(rows[terms].tolist(), factors, strict=True))
        return True


def _combination(Z: Array, prime: int) -> list[Fraction] | None:
    """Return the factors by which the last column is a combination of the others, which are independent."""
    elimination = Elimination(len(Z), prime)
    elimination.extend(residues(Z[:, :-1], prime))
    A = Z[elimination.pivots]
    if A.shape[0] < A.shape[1] - 1:
        return None
    solved = solve_rational(A[:, :-1], A[:, -1:], [[1]], max_digits=_RELATION_DIGITS)
    return None if solved is None or not vanishes(Z, [*solved[0], -1]).all() else list(solved[0])


def _from_few_rows(rows: LiftedRows, order: list[int], index: Indices, prime: int) -> Pivots | None:
    """Find the pivots on some rows, and prove on all rows the relations that hold on these.

    Rows on which a relation does not hold, even modulo the prime, join the few rows.
    """
    used = spread(index, 4 * rows.width)
    while rows.fits_dense(4 * used.size):
        Z = rows.take(used)
        solved = _Solved(Z, order, prime)
        violating = solved.violating_rows(rows, index)
        grown = np.union1d(used, violating)
        if grown.size == used.size:
            relations = [_relation(Z, j, terms, prime) for j, terms in solved.terms.items()]
            found = [relation for relation in relations if relation is not None]
            if len(found) < len(relations) or rows_obeying(rows, found, index).size < index.size:
                return None
            is_kept = np.zeros(rows.width, np.bool_)
            is_kept[solved.kept] = True
            return _pivots(order, is_kept, used[solved.rows], index)
        used = grown
    return None


class _Solved:
    """The columns of some rows, and how they depend on those kept before modulo a prime."""

    def __init__(self, Z: Array, order: Sequence[int], prime: int) -> None:
        elimination = Elimination(len(Z), prime)
        chosen, others = elimination.extend(residues(Z[:, list(order)], prime))
        kept = [order[k] for k in chosen]
        factors = {order[k]: f for k, f in others.items()}
        self.prime, self.kept, self.rows = prime, kept, elimination.pivots
        self.terms = {j: np.array(kept, np.int64)[np.flatnonzero(f)] for j, f in factors.items()}
        # sum_j factors[j, k] z_ij = 0 for the k-th column that is not kept
        self.factors = np.zeros((Z.shape[1], len(factors)))
        for k, (j, f) in enumerate(factors.items()):
            self.factors[kept[: f.size], k] = f
            self.factors[j, k] = -1.0

    def violating_rows(self, rows: LiftedRows, index: Indices) -> Indices:
        """Return some rows for each relation that does not hold on all rows modulo the prime."""
        missing, found = np.full(self.factors.shape[1], _VIOLATING), list[Indices]()
        columns = np.flatnonzero(self.factors.any(axis=1))
        if not missing.size:
            return np.empty(0, np.int64)
        for part, Z in rows.blocks(index, as_stored=True):
            left = _residual(Z[:, columns], self.factors[columns], self.prime) != 0.0
            for k in np.flatnonzero(left.any(axis=0) & (missing > 0)):
                bad = np.flatnonzero(left[:, k])[: missing[k]]
                missing[k] -= bad.size
                found.append(part[bad])
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def _residual(Z: Any, factors: Array, prime: int) -> Array:
    """Return a product of floats, dense or CSR, with residues, modulo a prime."""
    if not isinstance(Z, np.ndarray) and np.diff(Z.indptr).max(initial=0) <= MAX_TERMS:
        Z = Z.copy()
        Z.data = residues(Z.data, prime)
        return reduced(Z @ factors, prime)
    Z = residues(Z if isinstance(Z, np.ndarray) else Z.toarray(), prime)
    return product(Z, factors, prime)


def _relation(Z: Array, j: int, terms: Indices, prime: int) -> Relation | None:
    """Return the relation by which column j of Z is a combination of ``terms``, if its numbers are short."""
    if terms.size > _MAX_TERMS:
        return None
    factors = _combination(Z[:, [*terms, j]], prime)
    if factors is None:
        return None
    return {j: Fraction(1)} | {int(c): -k for c, k in zip(terms, factors, strict=True) if k}


def _last_relation(Z: Array) -> Relation | None:
    """Return the relation of the last column with the others, which are independent, if it is short."""
    last = Z.shape[1] - 1
    for prime in islice(short_primes(), _PRIMES):
        solved = _Solved(Z, range(last + 1), prime)
        if len(solved.kept) == last and last in solved.terms:  # The prime divides no minor that matters.
            return _relation(Z, last, solved.terms[last], prime)
    return None


def relations(rows: LiftedRows, pivots: Pivots, columns: Sequence[int]) -> list[Relation | None]:
    """Return how some columns depend on those kept before them: ``sum_j k_j z_ij = 0`` on all rows asked for.

    Each column comes first in its relation, with factor 1. A relation is None if its numbers are too long.
    """
    from scipy.sparse import csc_array, csr_array

    kept = np.array(pivots.kept, np.int64)
    Z = csc_array(rows.sparse(pivots.rows, 2**63)) if kept.size else None
    square = None if Z is None else csr_array(Z[:, kept].T)
    found: list[Relation | None] = []
    for j in columns:
        relation: Relation | None = {j: Fraction(1)}
        if Z is not None and Z[:, [j]].nnz:
            places, inside = reachable(square, Z[:, [j]].indices.astype(np.int64))
            part = Z[:, [*kept[places], j]][inside].toarray()
            solved = _last_relation(part)
            relation = (
                None
                if solved is None
                else {j: Fraction(1)}
                | {int(kept[places[c]]): k for c, k in solved.items() if c < places.size}
            )
        late = set(pivots.kept[pivots.earlier[j] :])
        if relation is not None and not late & set(relation):
            holds = rows_obeying(rows, [relation], pivots.asked).size == pivots.asked.size
            found.append(relation if holds else None)
        else:
            found.append(None)
    return found


def combinations(rows: LiftedRows, pivots: Pivots, columns: Sequence[int]) -> list[Relation | None]:
    """Return some columns as combinations of those kept before them; None if the numbers are too long."""
    found = zip(columns, relations(rows, pivots, columns), strict=True)
    return [None if terms is None else {c: -k for c, k in terms.items() if c != j} for j, terms in found]
