"""R's pivoting in exact arithmetic: a column is kept if it is independent of the columns kept before it."""

from __future__ import annotations

from collections.abc import Sequence
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
_MAX_OPERATIONS = 2**28  # entries of the row operations of an elimination, which are dense
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
    first = repeated_rows(Z)
    different = np.flatnonzero(first == np.arange(first.size))
    if different.size * min(different.size, len(order)) > _MAX_OPERATIONS:
        return None
    for prime in islice(short_primes(), _PRIMES):
        found = _eliminated(Z[different], order, prime)
        if found is not None:
            kept, rows_kept = found
            is_kept = set(kept)
            aliased = [j for j in order if j not in is_kept]
            return Pivots(kept, aliased, index[different[np.sort(rows_kept)]], index)
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


def _eliminated(Z: Any, order: list[int], prime: int) -> tuple[list[int], Indices] | None:
    """Return the columns kept and as many rows; None if a column is not proven to depend on those kept."""
    from scipy.sparse import csc_array

    by_column = csc_array(Z)
    by_column.data = residues(by_column.data, prime)
    elimination, kept = Elimination(Z.shape[0], prime), list[int]()
    for start in range(0, len(order), MAX_TERMS):
        if len(kept) == Z.shape[0]:  # These columns span all vectors.
            break
        panel = order[start : start + MAX_TERMS]
        chosen, factors = elimination.add(by_column[:, panel].toarray(order="F"))
        kept += [panel[k] for k in chosen]
        if len(kept) == Z.shape[0]:
            break
        for k in np.setdiff1d(np.arange(len(panel)), chosen).tolist():
            used = np.array(kept)[np.flatnonzero(factors[elimination.pivots, k])]
            if not _depends(Z[:, [*used, panel[k]]], prime):
                return None
    return kept, elimination.pivots


def _depends(Z: Any, prime: int) -> bool:
    """Say whether the last column is proven to be a combination of the others, which are independent."""
    Z, count = Z[np.flatnonzero(np.diff(Z.indptr))], Z.shape[1] - 1
    if Z.shape[0] > count:
        Z = Z[np.unique(repeated_rows(Z))]
    # Independent columns that are zero but for as many different rows span all that is so.
    return Z.shape[0] == count or (count <= _MAX_TERMS and _is_combination(Z.toarray(), prime))


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
