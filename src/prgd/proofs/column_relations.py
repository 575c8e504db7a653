"""Exact linear relations between the columns of some rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from prgd.core.arithmetic import integer_multiple
from prgd.core.types import Array, Indices, RationalVector
from prgd.problem.problem import NO_ROWS
from prgd.proofs.elimination import eliminated, short_primes
from prgd.proofs.gram_matrices import absorbs, dependent_columns, gram, weighted
from prgd.proofs.lifted_rows import LiftedRows, largest, spread, values_of
from prgd.proofs.modular import null_vector, solve_rational, vanishes

Relation = dict[int, Fraction]

_MAX_RELATIONS = 300  # relations between columns that are solved for, at most
_RELATION_DIGITS = 16  # relations that occur in practice have short numbers, so few digits reveal them
_EXACT = 2.0**53  # integers up to this size are float64 numbers
ROUNDING = 1e-9  # a residual below this fraction of the column counts as rounding
_SMALL_TERM = 1e-6  # terms below this fraction of the largest are left out of a combination
_MAX_WIDTH = 1500  # columns up to which relations up to rounding are looked for
_MAX_WORK = 2e11  # rows times squared columns up to which they are
_NO_TERM = 1e-7  # factors of columns of norms near 1 that are rounding
_MAX_DENOMINATOR = 1000  # denominators of short relations, at most


class ColumnStructure(NamedTuple):
    """How the columns of some rows depend on each other.

    Attributes
    ----------
    columns, others : list of int
        Independent columns, and those that depend on them.
    rows : ndarray of int
        Rows whose part in ``columns`` is invertible; none if floats showed the relations.
    basis : ndarray of shape (r, d)
        Those rows.
    relations : list of dict from column to Fraction, or None
        ``sum_j k_j Z_ij = 0`` on these rows, one for each of ``others``, which comes first in it; None if
        the relations are too many or their numbers too long.
    """

    columns: list[int]
    others: list[int]
    rows: Indices
    basis: Array
    relations: list[Relation] | None

    @classmethod
    def of(cls, relations: list[Relation], order: Sequence[int]) -> ColumnStructure:
        """Return the structure of columns that obey these relations, in echelon form, and no others."""
        others = [next(iter(relation)) for relation in relations]
        is_other = {*others}
        columns = [int(j) for j in order if j not in is_other]
        return cls(columns, others, NO_ROWS, np.empty((0, 0)), relations)

    def null_vector(self, values: Sequence[Fraction]) -> RationalVector | None:
        """Return a positive multiple of the v with ``basis @ v = 0`` that has these values in ``others``."""
        if self.relations is not None:
            v = [Fraction(0)] * (len(self.columns) + len(self.others))
            for relation, value in zip(self.relations, values, strict=True):
                for j, k in relation.items():
                    v[j] += value * k
            return tuple(v)
        return null_vector(self.basis, self.columns, self.others, integer_multiple(values))


def structure_of(
    Z: Array,
    order: Sequence[int],
    max_relations: int,
    max_digits: int = _RELATION_DIGITS,
    prime: int | None = None,
) -> ColumnStructure:
    """Find the linear relations between columns, taking independent columns in the given order.

    The relations hold on the rows of the basis; on the others too unless the prime divides a minor.

    Examples
    --------
    >>> found = structure_of(np.array([[1.0, 2.0, 0.0], [3.0, 6.0, 0.0]]), [0, 1, 2], 10)
    >>> found.columns, [{j: str(k) for j, k in relation.items()} for relation in found.relations]
    ([0], [{1: '1', 0: '-2'}, {2: '1'}])
    """
    prime = next(short_primes()) if prime is None else prime
    elimination, chosen = eliminated(Z[:, list(order)], prime)
    columns, pivots = [order[k] for k in chosen], elimination.pivots
    basis = Z[pivots]
    others = [j for j in order if j not in set(columns)]
    mixed = [j for j in others if Z[:, j].any()]
    relations: list[Relation] | None = None
    if len(mixed) <= max_relations:
        unit = [[int(i == k) for i in range(len(mixed))] for k in range(len(mixed))]
        part = basis[:, columns], basis[:, mixed]
        solved = solve_rational(*part, unit, max_digits=max_digits) if mixed else []
        if solved is not None:
            terms = {j: zip(columns, x, strict=True) for j, x in zip(mixed, solved, strict=True)}
            relations = [{j: Fraction(1)} | {c: -k for c, k in terms.get(j, ()) if k} for j in others]
    return ColumnStructure(columns, others, pivots, basis, relations)


def column_structure(
    rows: LiftedRows, index: Indices, max_digits: int = _RELATION_DIGITS, order: Sequence[int] | None = None
) -> ColumnStructure | None:
    """Find how the columns depend on each other on some rows, from as few of these rows as possible.

    Columns that are independent of those before them, in the given order, are kept. The answer is None if
    even those few rows are too large to copy. Numbers of relations have about 11 bits for each of
    ``max_digits``.
    """
    few = 4 * rows.width
    used = spread(index, few)
    max_relations = _MAX_RELATIONS if order is None else rows.width
    if order is None:
        order = range(rows.width)
        if (short := short_structure(rows, index, order)) is not None:
            return short
    primes = short_primes()
    prime = next(primes)
    while rows.fits_dense(4 * used.size):  # exact arithmetic needs several copies
        known = structure_of(rows.take(used), order, max_relations, max_digits, prime)
        violating = index
        if known.relations is not None:
            obeying = rows_obeying(rows, known.relations, index)
            violating = np.setdiff1d(index, obeying, assume_unique=True)
        if not violating.size or (known.relations is None and used.size == index.size):
            return known._replace(rows=used[known.rows])
        if used.size == index.size:  # The prime divides a minor of these rows; another one will not.
            prime = next(primes)
            continue
        grown = np.union1d(used, violating[:: max(1, violating.size // few)])
        used = grown if grown.size > used.size else index  # rows that are known already tell nothing new
    return None


def short_structure(rows: LiftedRows, index: Indices, order: Sequence[int]) -> ColumnStructure | None:
    """Find how some columns depend on each other on some rows, if floats show relations of short numbers.

    That these hold is proven in exact arithmetic, and that the other columns are independent by a bound on
    all rounding; the answer is None if that fails.
    """
    Z = rows.stored(index if rows.rows.is_sparse else spread(index, 4 * rows.width))
    if Z is None:
        return None
    sizes, names = largest(Z, 0), np.array(order, np.int64)
    Z, sizes = Z[:, names], sizes[names]
    filled = np.flatnonzero(sizes > 0.0)
    relations = [{j: Fraction(1)} for j in names[sizes == 0.0].tolist()]
    A = weighted(Z[:, filled], np.ones(Z.shape[0])) if 0 < filled.size <= Z.shape[0] else None
    found = None if A is None else dependent_columns(gram(A))
    if A is None or found is None:
        return None
    own, X = found
    if not absorbs(A[:, np.setdiff1d(np.arange(filled.size), own)], slack=0.0):
        return None
    powers, names = np.frexp(largest(A, 0))[1] - np.frexp(sizes[filled])[1], names[filled]
    for k, j in enumerate(own.tolist()):
        relations.append({int(names[j]): Fraction(1)})
        for i in np.flatnonzero(np.abs(X[:, k]) > _NO_TERM).tolist():
            value = Fraction(X[i, k]) * Fraction(2) ** int(powers[i] - powers[j])
            relations[-1][int(names[i])] = -value.limit_denominator(_MAX_DENOMINATOR)
    if rows_obeying(rows, relations, index).size < index.size:
        return None
    return ColumnStructure.of(echelon_form(relations, order), order)


def echelon_form(relations: Sequence[Relation], order: Sequence[int]) -> list[Relation]:
    """Return the basis in which each relation begins with its last column in an order, which no other has.

    Examples
    --------
    >>> one = Fraction(1)
    >>> found = echelon_form([{0: one, 1: one, 2: one}, {0: one, 2: 2 * one}], range(3))
    >>> [{j: str(k) for j, k in relation.items()} for relation in found]
    [{1: '1', 0: '1/2'}, {2: '1', 0: '1/2'}]
    """
    place = {j: k for k, j in enumerate(order)}
    found: dict[int, Relation] = {}
    for relation in relations:
        for j in [j for j in relation if j in found]:
            relation = _less(relation, relation[j], found[j])
        own = max((j for j, k in relation.items() if k), key=place.__getitem__)
        relation = {own: Fraction(1)} | {j: k / relation[own] for j, k in relation.items() if j != own and k}
        found |= {j: _less(old, old[own], relation) for j, old in found.items() if own in old}
        found[own] = relation
    return [found[j] for j in sorted(found, key=place.__getitem__)]


def _less(relation: Relation, factor: Fraction, other: Relation) -> Relation:
    """Return ``relation - factor * other`` without zeros."""
    new = relation | {j: relation.get(j, Fraction(0)) - factor * k for j, k in other.items()}
    return {j: k for j, k in new.items() if k}


def triangular_factor(blocks: Iterable[Array], width: int) -> Array:
    """Return R of the QR factorisation, without pivoting, of rows that come in blocks."""
    from scipy.linalg import qr

    R: Array = np.empty((0, width))
    for Z in blocks:
        (factor,) = qr(np.vstack([R, Z]), mode="r", check_finite=False)
        R = np.asarray(factor[:width], np.float64)
    return R


def rows_obeying(rows: LiftedRows, relations: Sequence[Relation], index: Indices) -> Indices:
    """Return those of the rows on which every relation ``sum_j k_j z_ij = 0`` holds exactly."""
    from scipy.sparse import csr_array

    if not relations:
        return index
    columns = sorted({j for relation in relations for j in relation})
    place = {j: k for k, j in enumerate(columns)}
    integers = [integer_multiple(list(relation.values())) for relation in relations]
    size = max(sum(map(abs, k)) for k in integers)
    factors = np.zeros((len(columns), len(relations) if size < _EXACT else 0))
    for i in range(factors.shape[1]):
        factors[[place[j] for j in relations[i]], i] = integers[i]
    kept, thin = [], csr_array(factors)
    for part, Z in rows.blocks(index, as_stored=True):
        Z = Z[:, columns]
        values = values_of(Z)
        # Sums of integers below 2**53 are exact in float64.
        fits = size < _EXACT and size * np.abs(values).max(initial=0.0) < _EXACT
        if fits and (values == np.rint(values)).all():
            good = ~(Z @ factors).any(axis=1) if Z is values else abs(Z @ thin).sum(axis=1) == 0.0
        else:
            good = np.ones(part.size, np.bool_)
            for relation, k in zip(relations, integers, strict=True):
                own, some = Z[:, [place[j] for j in relation]], np.arange(part.size)
                if not isinstance(own, np.ndarray):  # rows that are zero in all these columns need no look
                    some = np.flatnonzero(np.diff(own.indptr))
                    own = own[some].toarray()
                good[some] &= vanishes(own, k) if len(k) > 1 else ~own.any(axis=1)
        kept.append(part[good])
    return np.concatenate(kept) if kept else index


class NearRelation(NamedTuple):
    """A column that is ``sum_k terms[k]`` times earlier ones, but for ``residual`` of its norm."""

    column: int
    terms: dict[int, float]
    residual: float


def near_relations(rows: LiftedRows) -> list[NearRelation]:
    """Return the columns that are combinations of earlier ones up to rounding, in order.

    Parameters
    ----------
    rows : LiftedRows
        Their columns must be independent.

    Examples
    --------
    >>> x = np.array([[0.1], [0.2], [0.3], [0.7]])
    >>> rows = LiftedRows(np.hstack([x, 3.0 * x]), None, fit_intercept=False)
    >>> [(found.column, {k: round(c, 6) for k, c in found.terms.items()})
    ...  for found in near_relations(rows)]
    [(1, {0: 3.0})]
    """
    index, width = rows.counted, rows.width
    if not 1 < width <= _MAX_WIDTH or index.size * width**2 > _MAX_WORK:
        return []
    # The smallest singular value that this proves is far above rounding.
    if (known := short_structure(rows, index, range(width))) is not None and not known.others:
        return []
    powers = -np.frexp(np.max([largest(Z, 0) for _, Z in rows.blocks(index)], axis=0))[1]
    R = triangular_factor((np.ldexp(Z, powers) for _, Z in rows.blocks(index)), width)
    sizes = np.linalg.norm(R, axis=0)
    R = R / sizes
    is_small, found = np.abs(np.diag(R)) < ROUNDING, []
    for j in np.flatnonzero(is_small).tolist():
        before = np.flatnonzero(~is_small[:j])
        c = np.linalg.lstsq(R[:, before], R[:, j], rcond=None)[0]
        residual = float(np.linalg.norm(R[:, j] - R[:, before] @ c))
        if residual < ROUNDING:
            large = np.abs(c) > _SMALL_TERM * np.abs(c).max()
            with np.errstate(over="ignore"):  # a factor beyond the floating range is infinite
                factors = np.ldexp(c * sizes[j] / sizes[before], powers[before] - powers[j])
            terms = dict(zip(before[large].tolist(), factors[large].tolist(), strict=True))
            found.append(NearRelation(j, terms, residual))
    return found
