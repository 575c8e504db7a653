"""R's pivoting in exact arithmetic: a column is kept if it is independent of the columns kept before it."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from prgd.core.arithmetic import odd_mantissas
from prgd.core.types import Array, Indices
from prgd.proofs.column_relations import Relation, column_structure, rows_obeying, short_structure
from prgd.proofs.elimination import MAX_TERMS, Elimination, eliminated, residues, short_primes
from prgd.proofs.lifted_rows import LiftedRows, spread
from prgd.proofs.modular import solve_rational, vanishes

_WIDE = 1000  # columns above which floats that are proven come before the elimination
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
        Rows on which the columns that are kept are independent; as many if they are not very many.
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
    if rows.width > _WIDE and (known := short_structure(rows, index, order)) is not None:
        return Pivots(known.columns, known.others, index, index)
    if index.size > 4 * rows.width and rows.width <= _WIDE:  # few rows may show that no column is aliased
        some = pivot_columns(rows, order, spread(index, 2 * rows.width))
        if some is not None and not some.aliased:
            return some._replace(asked=index)
    is_long = index.size > 4 * rows.width and index.size * rows.width > _MAX_ENTRIES
    Z = None if is_long else rows.stored(index, _MAX_ENTRIES, as_csr=True)
    if Z is None:
        known = column_structure(rows, index, _RELATION_DIGITS, order)
        if known is None or known.relations is None:
            return None
        return Pivots(known.columns, known.others, np.sort(known.rows), index)
    Z.sum_duplicates()
    Z.eliminate_zeros()
    first = proportional_rows(Z)
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


def _eliminated(Z: Any, order: list[int], prime: int) -> tuple[list[int], Indices] | None:
    """Return the columns kept and as many rows; None if a column is not proven to depend on those kept.

    If k columns that are kept are zero except in k rows, every column is zero on these rows but for a
    combination of the k: the proof leaves these rows and columns out. Columns that are zero elsewhere depend
    on these k.
    """
    from scipy.sparse import csc_array, csr_array

    n, columns = Z.shape[0], csc_array(Z)
    modular = csc_array((residues(columns.data, prime), columns.indices, columns.indptr), shape=Z.shape)
    elimination, kept = Elimination(n, prime), np.empty(0, np.int64)
    outside, is_needed, row_relations = np.arange(n), np.empty(0, np.bool_), RowRelations()
    pattern = csr_array((np.ones(columns.nnz), columns.indices, columns.indptr), shape=Z.shape[::-1])
    left = np.array(order)
    while left.size:
        panel, left = left[:MAX_TERMS], left[MAX_TERMS:]
        chosen, factors = elimination.add(modular[:, panel].toarray(order="F"))
        kept = np.append(kept, panel[chosen])
        if kept.size == n:  # These columns span all vectors.
            break
        is_needed = np.append(is_needed, np.ones(len(chosen), np.bool_))
        for k in np.setdiff1d(np.arange(panel.size), chosen):
            used = kept[(factors[elimination.pivots, k] != 0.0) & is_needed]
            part = csr_array(columns[:, [*used, panel[k]]])[outside]
            if not _depends(part, outside, prime, row_relations):
                return None
        left_out, filled = filled_rows(pattern[kept])
        is_needed[left_out] = False
        outside = np.setdiff1d(np.arange(n), filled)
        left = left[(pattern[left] @ np.isin(np.arange(n), outside)) > 0.0]
    return kept.tolist(), elimination.pivots


RowRelations = dict[int, dict[int, Fraction]]  # rows that are combinations of others, by their numbers


def _depends(Z: Any, rows: Indices, prime: int, known: RowRelations) -> bool:
    """Say whether the last column is proven to be a combination of the others, which are independent.

    ``rows`` are the numbers of the rows of Z, by which relations between rows are ``known`` from column to
    column.
    """
    filled, count = np.flatnonzero(np.diff(Z.indptr)), Z.shape[1] - 1
    Z, rows = Z[filled], rows[filled]
    if Z.shape[0] > count:
        different = np.unique(proportional_rows(Z))
        Z, rows = Z[different], rows[different]
    # Independent columns that are zero but for as many rows, or multiples of rows, span all that is so.
    if Z.shape[0] == count or (count <= _MAX_TERMS and _combination(Z.toarray(), prime) is not None):
        return True
    return _rows_depend(Z.toarray(), rows, prime, known)


def _rows_depend(Z: Array, rows: Indices, prime: int, known: RowRelations) -> bool:
    """Say whether relations between rows prove that the last column depends on the others."""
    count, places = len(Z) - Z.shape[1] + 1, {int(i): k for k, i in enumerate(rows)}
    for own, relation in known.items():
        if own in places and places.keys() >= relation.keys():
            part = Z[[places[own], *(places[i] for i in relation)]]
            count -= int(vanishes(part.T, [Fraction(-1), *relation.values()]).all())
    if count <= 0:
        return True
    elimination, _ = eliminated(Z[:, :-1], prime)
    known.clear()
    for i in np.setdiff1d(np.arange(len(Z)), elimination.pivots):
        terms = elimination.pivots[np.flatnonzero(elimination.operations[i])]
        factors = _combination(Z[[*terms, i]].T, prime) if terms.size <= _MAX_TERMS else None
        if factors is None:
            return False
        known[int(rows[i])] = dict(zip(rows[terms].tolist(), factors, strict=True))
    return True


def _combination(Z: Array, prime: int) -> list[Fraction] | None:
    """Return the factors by which the last column is a combination of the others, which are independent."""
    elimination, _ = eliminated(Z[:, :-1], prime)
    A = Z[elimination.pivots]
    if A.shape[0] < A.shape[1] - 1:
        return None
    solved = solve_rational(A[:, :-1], A[:, -1:], [[1]], max_digits=_RELATION_DIGITS)
    return None if solved is None or not vanishes(Z, [*solved[0], -1]).all() else list(solved[0])


def combinations(rows: LiftedRows, pivots: Pivots, columns: Sequence[int]) -> list[Relation | None]:
    """Return some columns as combinations of those kept before them; None if the numbers are too long."""
    from scipy.sparse import csc_array, csr_array

    kept = np.array(pivots.kept, np.int64)
    if not kept.size:
        return [{} for _ in columns]
    Z = rows.stored(pivots.rows, as_csr=True)
    if Z is None:
        return [None] * len(columns)
    Z = csc_array(Z)
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


def proportional_rows(Z: Any) -> Indices:
    """Return for each CSR row the first row of which it is a multiple, itself if none, and -1 if it is zero.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> proportional_rows(csr_array([[0.1, 0.2], [0.0, 0.0], [0.2, 0.4], [0.1, 0.3]])).tolist()
    [0, -1, 0, 3]
    """
    lengths = np.diff(Z.indptr)
    filled = np.flatnonzero(lengths)
    first = np.where(lengths > 0, np.arange(len(lengths)), -1)
    if not filled.size:
        return first
    starts, counts = Z.indptr[filled], lengths[filled]
    # Multiples of a row are equal once each is divided by the common divisor of its entries, and by the sign
    # and the power of two of its first entry.
    mantissa, exponent = odd_mantissas(Z.data)
    mantissa //= np.repeat(np.gcd.reduceat(np.abs(mantissa), starts) * np.sign(mantissa[starts]), counts)
    exponent -= np.repeat(exponent[starts], counts)
    factors = np.random.default_rng(0).integers(-(2**62), 2**62, (2, Z.shape[1]))[:, Z.indices]
    hashes = np.add.reduceat(factors[0] * mantissa + factors[1] * exponent, starts)
    _, leaders, group = np.unique(hashes, return_index=True, return_inverse=True)
    leader = leaders[group.ravel()]
    same = np.flatnonzero((leader != np.arange(filled.size)) & (counts == counts[leader]))
    if not same.size:
        return first
    bounds = np.cumsum(counts[same]) - counts[same]
    here = np.repeat(starts[same] - bounds, counts[same]) + np.arange(counts[same].sum())
    there = here + np.repeat(starts[leader[same]] - starts[same], counts[same])
    equal = np.all([part[here] == part[there] for part in (Z.indices, mantissa, exponent)], axis=0)
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
    return columns[np.argsort(columns)], inside
