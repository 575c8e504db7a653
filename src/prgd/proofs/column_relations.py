"""Exact linear relations between the columns of some rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from prgd._types import Array, Indices, RationalVector
from prgd.arithmetic import integer_multiple
from prgd.proofs.integer_matrix import IntegerMatrix
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.modular import echelon, null_vector, primes, solve_rational, vanishes
from prgd.proofs.power_scaling import balance_weighted

Relation = dict[int, Fraction]

_MAX_RELATIONS = 300  # relations between columns that are solved for, at most
_RELATION_PRIMES = 8  # relations that occur in practice have short numbers, so few primes reveal them
_INDEPENDENT = 1e-8  # a diagonal of R above this fraction of the first proves full column rank


class ColumnStructure(NamedTuple):
    """How the columns of some rows depend on each other.

    Attributes
    ----------
    columns, others : list of int
        Independent columns, and those that depend on them.
    rows : list of int
        Rows whose part in ``columns`` is invertible.
    basis : ndarray of shape (r, d)
        Those rows.
    relations : list of dict from column to Fraction, or None
        ``sum_j k_j Z_ij = 0`` on these rows, one for each of ``others``, which comes first in it; None if
        the relations are too many or their numbers too long.
    """

    columns: list[int]
    others: list[int]
    rows: list[int]
    basis: Array
    relations: list[Relation] | None

    def null_vector(self, values: Sequence[Fraction]) -> RationalVector | None:
        """Return a positive multiple of the v with ``basis @ v = 0`` that has these values in ``others``."""
        return null_vector(self.basis, self.columns, self.others, integer_multiple(values))


def structure_of(Z: Array, order: Sequence[int], max_relations: int) -> ColumnStructure:
    """Find the linear relations between columns, taking independent columns in the given order.

    Examples
    --------
    >>> found = structure_of(np.array([[1.0, 2.0, 0.0], [3.0, 6.0, 0.0]]), [0, 1, 2], 10)
    >>> found.columns, [{j: str(k) for j, k in relation.items()} for relation in found.relations]
    ([0], [{2: '1'}, {1: '1', 0: '-2'}])
    """
    prime = next(primes())
    reduced = echelon(IntegerMatrix.from_floats(Z).residues(prime), prime, order)
    columns, basis = reduced.columns, Z[reduced.rows]
    others = [j for j in order if j not in set(columns)]
    empty = [j for j in others if not Z[:, j].any()]
    mixed = [j for j in others if Z[:, j].any()]
    relations: list[Relation] | None = None
    if len(mixed) <= max_relations:
        unit = [[int(i == k) for i in range(len(mixed))] for k in range(len(mixed))]
        part = basis[:, columns], basis[:, mixed]
        solved = solve_rational(*part, unit, max_primes=_RELATION_PRIMES) if mixed else []
        if solved is not None:
            relations = [{j: Fraction(1)} for j in empty]
            for j, x in zip(mixed, solved, strict=True):
                relations.append({j: Fraction(1)} | {c: -k for c, k in zip(columns, x, strict=True) if k})
    return ColumnStructure(columns, others, reduced.rows, basis, relations)


def column_structure(rows: LiftedRows, index: Indices) -> ColumnStructure | None:
    """Find how the columns depend on each other on some rows, from as few of these rows as possible.

    The answer is None if even those few rows are too large to copy.
    """
    few = 4 * rows.width
    used = index if index.size <= few else index[np.linspace(0, index.size - 1, few).astype(np.int64)]
    while rows.fits_dense(4 * used.size):  # exact arithmetic needs several copies
        Z = rows.take(used)
        order, sizes = _column_order(Z)
        if sizes.size == rows.width and sizes[-1] > _INDEPENDENT * sizes[0]:
            return ColumnStructure(order, [], [], Z[:0], [])
        known = structure_of(Z, order, _MAX_RELATIONS)
        violating = index
        if known.relations is not None:
            violating = np.setdiff1d(index, rows_obeying(rows, known.relations, index))
        if not violating.size or used.size == index.size:
            return known
        used = np.union1d(used, violating[:: max(1, violating.size // few)])
    return None


def _column_order(Z: Array) -> tuple[list[int], Array]:
    """Return the columns, the most independent ones first, and the diagonal of R that ranks them."""
    from scipy.linalg import qr

    balanced = balance_weighted(Z, np.ones(len(Z)))
    R, order = qr(Z if balanced is None else balanced[0], mode="r", pivoting=True, check_finite=False)
    return [int(j) for j in order], np.abs(np.diag(R))


def rows_obeying(rows: LiftedRows, relations: Sequence[Relation], index: Indices) -> Indices:
    """Return those of the rows on which every relation ``sum_j k_j z_ij = 0`` holds exactly."""
    if not relations:
        return index
    empty = [j for relation in relations if len(relation) == 1 for j in relation]
    kept = []
    for part, Z in rows.blocks(index):
        good = ~Z[:, empty].any(axis=1)
        for relation in relations:
            columns = list(relation)
            if len(columns) > 1:
                good &= vanishes(Z[:, columns], list(relation.values()))
        kept.append(part[good])
    return np.concatenate(kept) if kept else index
