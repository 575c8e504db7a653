r"""Exact linear relations between the columns of some rows, and Gram matrices that prove that there are none.

With ``a_i = p_i z_i`` the rows of A, ``H = A^T A`` and ``r = Z^T p``, the weights ``q_i = p_i (1 - a_i . H^-1
r)`` balance the rows exactly, and all are positive if ``r . H^-1 r < 1``. A factorisation in floats that
succeeds although a multiple of the identity is subtracted from H bounds the smallest eigenvalue of H from
below (Rump, 2006, Verification of positive definiteness). Columns that share no row, such as the dummies of a
factor, are eliminated first: their part of H is diagonal, and only what is left is factorised as a dense one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from prgd.core.arithmetic import BOUND_FACTOR, EPSILON, SMALLEST, integer_multiple, rounding_factor
from prgd.core.types import Array, Indices, RationalVector
from prgd.proofs.elimination import eliminated, short_primes
from prgd.proofs.lifted_rows import LiftedRows, largest, spread, times_powers
from prgd.proofs.modular import null_vector, solve_rational, vanishes

Relation = dict[int, Fraction]

_MAX_RELATIONS = 300  # relations between columns that are solved for, at most
_RELATION_DIGITS = 16  # relations that occur in practice have short numbers, so few digits reveal them
_EXACT = 2.0**53  # integers up to this size are float64 numbers
ROUNDING = 1e-9  # a residual below this fraction of the column counts as rounding
_SMALL_TERM = 1e-6  # terms below this fraction of the largest are left out of a combination
_MAX_WIDTH = 1500  # columns up to which relations up to rounding are looked for
_MAX_WORK = 2e11  # rows times squared columns up to which they are
# Squares of larger numbers are not rounded to multiples of the smallest float.
_FAR_FROM_UNDERFLOW = 2.0**-400
_CROWDED = 8  # columns that meet so many times as many columns as most do are not eliminated first


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
        filled, empty = independent_columns(rows, index if rows.rows.is_sparse else used)
        zeros: list[Relation] = [{j: Fraction(1)} for j in empty]
        if filled and rows_obeying(rows, zeros, index).size == index.size:
            return ColumnStructure(filled, empty, index[:0], np.empty((0, rows.width)), zeros)
        order = [*np.setdiff1d(np.arange(rows.width), empty).tolist(), *empty]
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


def independent_columns(rows: LiftedRows, index: Indices) -> tuple[list[int], list[int]]:
    """Return the columns that are not zero on some rows, none unless that is proven, and the others."""
    Z = rows.stored(index)
    if Z is None:
        return [], []
    is_filled = largest(Z, 0) > 0.0
    filled = np.flatnonzero(is_filled)
    A = weighted(Z[:, filled], np.ones(Z.shape[0])) if filled.size <= Z.shape[0] else None
    is_proven = A is not None and absorbs(A, slack=0.0)
    return filled.tolist() if is_proven else [], np.flatnonzero(~is_filled).tolist()


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
        values = _values(Z)
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
    if len(independent_columns(rows, index)[0]) == width:
        return []
    powers = -np.frexp(largest_entries(rows, index))[1]
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


def gram(A: Any) -> Any:
    """Return ``A^T A`` of a dense or CSR array, CSR if it is sparse."""
    return A.T @ A if isinstance(A, np.ndarray) else (A.T @ A).tocsr()


def disjoint_columns(H: Any) -> Indices:
    """Return columns whose products with each other are zero in a Gram matrix; none if it is dense."""
    if isinstance(H, np.ndarray) or not H.nnz:
        return np.empty(0, np.int64)
    degrees = np.diff(H.indptr)
    is_open = degrees <= _CROWDED * np.median(degrees)
    found = []
    for j in np.flatnonzero(is_open).tolist():
        if is_open[j]:
            is_open[H.indices[H.indptr[j] : H.indptr[j + 1]]] = False
            found.append(j)
    return np.array(found, np.int64)


def gram_solver(H: Any, first: Indices, shift: float = 0.0) -> Callable[[Array], Array] | None:
    """Factorise H plus a multiple of the identity; None if that is not positive definite to rounding.

    Parameters
    ----------
    H : ndarray or CSR array of shape (r, r)
    first : ndarray of int
        What `disjoint_columns` returns.
    shift : float
        The multiple, which may be negative.
    """
    from scipy.linalg.lapack import dpotrf, dpotrs

    h = H.diagonal()[first] + shift
    if not (h > 0.0).all():
        return None
    rest = np.setdiff1d(np.arange(H.shape[0]), first)
    if first.size:
        B, S = H[first][:, rest], H[rest][:, rest].toarray()
        if rest.size:
            root = B.multiply(1.0 / np.sqrt(h)[:, None]).tocsr()
            S -= (root.T @ root).toarray()
    else:
        S = H.copy() if isinstance(H, np.ndarray) else H.toarray()
    S.flat[:: rest.size + 1] += shift
    factor, failure = dpotrf(S.T, lower=True, clean=False, overwrite_a=True) if rest.size else (S, 0)
    if failure or not np.isfinite(factor.diagonal()).all():
        return None
    if not first.size:
        return lambda b: np.asarray(dpotrs(factor, b, lower=True)[0])

    def solve(b: Array) -> Array:
        x, begun = np.empty_like(b), b[first] / h
        if rest.size:
            x[rest] = dpotrs(factor, b[rest] - B.T @ begun, lower=True)[0]
            begun -= (B @ x[rest]) / h
        x[first] = begun
        return x

    return solve


def weighted(Z: Any, p: Array) -> Any:
    """Return ``p_i Z_ij 2**c_j`` with columns of norms near 1; None if it leaves the floating range."""
    with np.errstate(all="ignore"):
        A = times_weights(Z, p)
        for size in (largest, lambda A, axis: np.sqrt((A**2).sum(axis=axis))):
            A = times_powers(A, 0, -np.frexp(np.asarray(size(A, 0)))[1])
        sizes = np.abs(_values(A))
        smallest = float(sizes.min(initial=1.0, where=sizes > 0.0))
    # A product that underflowed would be zero where the entry is not.
    is_whole = np.count_nonzero(sizes) == np.count_nonzero(_values(Z)) and np.isfinite(sizes).all()
    return A if is_whole and smallest > _FAR_FROM_UNDERFLOW else None


def times_weights(Z: Any, p: Array) -> Any:
    """Multiply the rows of a dense or CSR array by numbers."""
    if isinstance(Z, np.ndarray):
        return Z * p[:, None]
    return type(Z)((Z.data * np.repeat(p, np.diff(Z.indptr)), Z.indices, Z.indptr), shape=Z.shape)


def _values(Z: Any) -> Array:
    return Z if isinstance(Z, np.ndarray) else Z.data


def absorbs(A: Any, slack: float = 1.0) -> bool:
    """Prove that A has full column rank, and for r its column sums that ``r . H^-1 r < 1``.

    Parameters
    ----------
    A : ndarray or CSR array of shape (n, r)
        What `weighted` returns: each entry is within two roundings of the true one.
    slack : float
        0 leaves r out and proves the rank alone.
    """
    n, r = A.shape
    H, sizes = gram(A), abs(A)
    first = disjoint_columns(H)
    unit = rounding_factor(n + 6)
    sums, totals = np.asarray(A.sum(axis=0)).ravel(), np.asarray(sizes.sum(axis=0)).ravel()
    residual = BOUND_FACTOR * (np.abs(sums) + unit * totals)
    needed = slack * float(residual @ residual)
    # The rounding of H is below a fraction of |A|^T |A|, whose norm its largest row sum bounds.
    rounding = unit * float((sizes.T @ np.asarray(sizes.sum(axis=1)).ravel()).max(initial=0.0))
    # That of Cholesky's factors is below a fraction of the trace, that of the elimination before another.
    trace = float(H.diagonal().sum())
    rounding += (rounding_factor(r + 4) + 3.0 * rounding_factor(first.size + 10)) * trace
    shift = 2.0 * BOUND_FACTOR * (needed + rounding + 4.0 * EPSILON + n * r * SMALLEST)
    return shift < 1.0 and gram_solver(H, first, -shift) is not None
