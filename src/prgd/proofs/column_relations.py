"""Exact linear relations between the columns of some rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from prgd.core.arithmetic import integer_multiple
from prgd.core.types import Array, Indices, RationalVector
from prgd.proofs.elimination import eliminated, short_primes
from prgd.proofs.lifted_rows import LiftedRows, spread
from prgd.proofs.modular import null_vector, solve_rational, vanishes

Relation = dict[int, Fraction]

_MAX_RELATIONS = 300  # relations between columns that are solved for, at most
_RELATION_DIGITS = 16  # relations that occur in practice have short numbers, so few digits reveal them
_EXACT = 2.0**53  # integers up to this size are float64 numbers
ROUNDING = 1e-9  # a residual below this fraction of the column counts as rounding
_SMALL_TERM = 1e-6  # terms below this fraction of the largest are left out of a combination
_MAX_WIDTH = 1500  # columns up to which relations up to rounding are looked for
_MAX_WORK = 2e11  # rows times squared columns up to which they are
_FIRST_ROWS = 2  # rows for each column that are asked first
_INDEPENDENT = 1e-8  # a diagonal of R above this fraction of the first proves full column rank


class ColumnStructure(NamedTuple):
    """How the columns of some rows depend on each other.

    Attributes
    ----------
    columns, others : list of int
        Independent columns, and those that depend on them.
    rows : ndarray of int
        Rows whose part in ``columns`` is invertible; none if all of ``others`` are zero.
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

    def null_vector(self, values: Sequence[Fraction]) -> RationalVector | None:
        """Return a positive multiple of the v with ``basis @ v = 0`` that has these values in ``others``."""
        if not self.rows.size:
            v = [Fraction(0)] * self.basis.shape[1]
            for j, value in zip(self.others, values, strict=True):
                v[j] = value
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
    ([0], [{2: '1'}, {1: '1', 0: '-2'}])
    """
    prime = next(short_primes()) if prime is None else prime
    elimination, chosen = eliminated(Z[:, list(order)], prime)
    columns, pivots = [order[k] for k in chosen], elimination.pivots
    basis = Z[pivots]
    others = [j for j in order if j not in set(columns)]
    empty = [j for j in others if not Z[:, j].any()]
    mixed = [j for j in others if Z[:, j].any()]
    relations: list[Relation] | None = None
    if len(mixed) <= max_relations:
        unit = [[int(i == k) for i in range(len(mixed))] for k in range(len(mixed))]
        part = basis[:, columns], basis[:, mixed]
        solved = solve_rational(*part, unit, max_digits=max_digits) if mixed else []
        if solved is not None:
            relations = [{j: Fraction(1)} for j in empty]
            for j, x in zip(mixed, solved, strict=True):
                relations.append({j: Fraction(1)} | {c: -k for c, k in zip(columns, x, strict=True) if k})
    return ColumnStructure(columns, others, pivots, basis, relations)


def column_structure(
    rows: LiftedRows,
    index: Indices,
    max_digits: int = _RELATION_DIGITS,
    order: Sequence[int] | None = None,
) -> ColumnStructure | None:
    """Find how the columns depend on each other on some rows, from as few of these rows as possible.

    Columns that are independent of those before them, in the given order or in one that rounding suggests,
    are kept. The answer is None if even those few rows are too large to copy. Numbers of relations have about
    11 bits for each of ``max_digits``.
    """
    few = 4 * rows.width
    used = spread(index, few)
    max_relations = _MAX_RELATIONS if order is None else rows.width
    if order is None:
        order, sizes, empty = _column_order(rows, used)
        is_full = sizes.size == len(order) and sizes.min(initial=math.inf) > _INDEPENDENT * sizes.max(
            initial=0.0
        )
        zeros: list[Relation] = [{j: Fraction(1)} for j in empty]
        # Columns that are independent on some rows are so on all; those that are zero on some may not be.
        if is_full and rows_obeying(rows, zeros, index).size == index.size:
            return ColumnStructure(order, empty, index[:0], np.empty((0, rows.width)), zeros)
        order = [*order, *empty]
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


def _column_order(rows: LiftedRows, index: Indices) -> tuple[list[int], Array, list[int]]:
    """Return the columns of some rows, the most independent first, and the diagonal of R that ranks them.

    Columns that are zero on all of these rows are not among them; they are the third part of the answer.
    """
    from scipy.linalg import qr

    largest = largest_entries(rows, index)
    filled, powers = np.flatnonzero(largest), -np.frexp(largest)[1]

    blocks = (np.ldexp(Z[:, filled], powers[filled]) for _, Z in rows.blocks(index))
    scaled = (np.ldexp(Z, -np.frexp(np.abs(Z).max(axis=1, initial=0.0))[1][:, None]) for Z in blocks)
    R = triangular_factor(scaled, filled.size)
    ranked, order = qr(R, mode="r", pivoting=True, check_finite=False)
    return filled[order].tolist(), np.abs(np.diag(ranked)), np.flatnonzero(largest == 0.0).tolist()


def largest_entries(rows: LiftedRows, index: Indices) -> Array:
    """Return the largest absolute value of each column on some rows."""
    largest = np.zeros(rows.width)
    for _, Z in rows.blocks(index):
        largest = np.maximum(largest, np.abs(Z).max(axis=0))
    return largest


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
    if not relations:
        return index
    columns = sorted({j for relation in relations for j in relation})
    place = {j: k for k, j in enumerate(columns)}
    integers = [integer_multiple(list(relation.values())) for relation in relations]
    size = max(sum(map(abs, k)) for k in integers)
    factors = np.zeros((len(columns), len(relations) if size < _EXACT else 0))
    for i in range(factors.shape[1]):
        factors[[place[j] for j in relations[i]], i] = integers[i]
    kept = []
    for part, Z in rows.blocks(index, as_stored=True):
        Z = Z[:, columns]
        values = Z if isinstance(Z, np.ndarray) else Z.data
        # Sums of integers below 2**53 are exact in float64.
        largest = np.abs(values).max(initial=0.0)
        if size < _EXACT and size * largest < _EXACT and (values == np.rint(values)).all():
            good = ~(Z @ factors).any(axis=1)
        else:
            Z = Z if isinstance(Z, np.ndarray) else Z.toarray()
            good = np.ones(len(Z), np.bool_)
            for relation, k in zip(relations, integers, strict=True):
                own = Z[:, [place[j] for j in relation]]
                good &= vanishes(own, k) if len(k) > 1 else ~own.any(axis=1)
        kept.append(part[good])
    return np.concatenate(kept) if kept else index


class NearRelation(NamedTuple):
    """A column that is ``sum_k terms[k]`` times earlier ones, but for ``residual`` of its norm."""

    column: int
    terms: dict[int, float]
    residual: float


def near_relations(rows: LiftedRows, basis: Indices) -> list[NearRelation]:
    """Return the columns that are combinations of earlier ones up to rounding, in order.

    Parameters
    ----------
    rows : LiftedRows
        Their columns must be independent.
    basis : ndarray of int
        Some rows on which the columns are independent.

    Examples
    --------
    >>> x = np.array([[0.1], [0.2], [0.3], [0.7]])
    >>> rows = LiftedRows(np.hstack([x, 3.0 * x]), None, fit_intercept=False)
    >>> [(found.column, {k: round(c, 6) for k, c in found.terms.items()})
    ...  for found in near_relations(rows, rows.counted)]
    [(1, {0: 3.0})]
    """
    index, width = rows.counted, rows.width
    if not 1 < width <= _MAX_WIDTH or index.size * width**2 > _MAX_WORK:
        return []
    powers = -np.frexp(largest_entries(rows, index))[1]

    def factor(index: Indices) -> Array:
        return triangular_factor((np.ldexp(Z, powers) for _, Z in rows.blocks(index)), width)

    some = np.union1d(basis, spread(index, _FIRST_ROWS * width))
    if some.size < index.size:
        # A residual is larger on all rows than on some, and a scaled column has norm sqrt(n) at most.
        smallest = np.abs(np.diag(factor(some))).min()
        if smallest > ROUNDING * math.sqrt(index.size):
            return []
    R = factor(index)
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
