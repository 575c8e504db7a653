r"""The recession cone ``K = {v : z_i . v >= 0}`` in exact coordinates, and proofs about its coefficients.

The boundary rows are zero on K, so K lies in ``N = {v : z_i . v = 0 on the boundary rows}``, and K has
interior points there: some v of N is positive on all other rows. The coefficient v_j is a linear function on
N. If it is zero on N, the coefficient is finite. Otherwise it is infinite, and it has one sign on K if and
only if ``e_j`` or ``-e_j`` is a combination of rows with no negative weight of a separated row (Farkas).

In this module v has an entry for each kept column: aliased columns have coefficient 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from prgd.core.arithmetic import error_bound, exact_dot, nearest_float, nearest_floats, rounding_factor
from prgd.core.threads import lazy
from prgd.core.types import Array, Indices, RationalVector
from prgd.proofs.column_relations import (
    ColumnStructure,
    Relation,
    column_structure,
    echelon_form,
    rows_obeying,
)
from prgd.proofs.lifted_rows import KeptColumns, LiftedRows, dense, values_of
from prgd.proofs.pivots import pivot_columns, proportional_rows
from prgd.proofs.weights import Proof, weights_prove
from prgd.rows.blocks import stack_blocks
from prgd.separation.verdict import Separation

Coordinates = Array | RationalVector  # floats, taken literally, or fractions

_RELATION_DIGITS = 256  # digits of the relations that describe N: floats of 53 bits have long ones
_MAX_EXACT_ROWS = 1000  # rows of unclear sign that one proof may multiply as fractions
_CONTRADICTIONS = 8  # rows that contradict a vector which are kept
_DIRECTIONS = 256  # directions that one pass multiplies at a time
_SMALLEST_ENTRY, _LARGEST_ENTRY = 2.0**-500, 2.0**500  # sizes between which no product leaves the range


class Cone:
    """The cone of a partition of the rows, on the columns that are kept.

    Parameters
    ----------
    rows : KeptColumns
    boundary : ndarray of int, the boundary rows
    structure : ColumnStructure, optional
        How the columns depend on each other on the boundary rows; None if there are none.
    """

    def __init__(self, rows: KeptColumns, boundary: Indices, structure: ColumnStructure | None) -> None:
        self.rows, self.boundary, self.structure = rows, boundary, structure
        is_separated = rows.counts.copy()
        is_separated[boundary] = False
        self.separated: Indices = np.flatnonzero(is_separated).astype(np.int64)
        # N is spanned by the relations, one for each free column; without boundary rows it is all.
        self.relations: list[Relation] = (
            [{j: Fraction(1)} for j in range(rows.width)] if structure is None else structure.relations or []
        )
        # The coordinates of N are the entries of v in the free columns: the first ones of the relations.
        self.free = [next(iter(relation)) for relation in self.relations]

    @classmethod
    def of(cls, rows: KeptColumns, found: Separation) -> Cone | None:
        """Return the cone of a proven partition, or None if its linear relations are not found."""
        boundary, p = found.boundary_rows, found.dual_weights
        if not boundary.size:
            return cls(rows, boundary, None)
        if found.proof.weights is None and p is not None:  # The relations of the proof span N.
            kept = rows.columns.tolist()
            order = [*kept, *np.setdiff1d(np.arange(rows.whole.width), kept).tolist()]
            place = {j: k for k, j in enumerate(order)}
            echelon = echelon_form(found.proof.relations, order)
            # Relations that do not begin with an aliased column are zero in all of these.
            own = [{place[j]: k for j, k in r.items()} for r in echelon if place[next(iter(r))] < len(kept)]
            return cls(rows, boundary, ColumnStructure.of(own, range(len(kept))))
        known = column_structure(rows, boundary, _RELATION_DIGITS)
        if known is None or known.relations is None or p is None:
            return None
        proof = Proof(weights=found.proof.weights, relations=tuple(known.relations))
        if not weights_prove(rows, boundary, p, proof):
            return None
        # The relations, which hold on all boundary rows, span N if the other columns are independent.
        cone = cls(rows, boundary, known)
        # Weights near p that balance the rows exactly are proven together with the rank.
        return cone if proof.weights is None or cone.basis_rows is not None else None

    @property
    def size(self) -> int:
        """The dimension of N."""
        return len(self.free)

    @lazy
    def functions(self) -> Any:
        """The entries of v as linear functions of the coordinates, rounded, one in each CSR row."""
        from scipy.sparse import coo_array

        at = [(j, k, nearest_float(value)) for j, terms in self.terms.items() for k, value in terms.items()]
        j, k, values = np.array(at).reshape(-1, 3).T
        return coo_array((values, (j.astype(int), k.astype(int))), shape=(self.rows.width, self.size)).tocsr()

    @lazy
    def terms(self) -> dict[int, dict[int, Fraction]]:
        """The entries of v that are not zero on all of N, by column, in terms of the coordinates."""
        terms: dict[int, dict[int, Fraction]] = {}
        for k, relation in enumerate(self.relations):
            for j, value in relation.items():
                if value:
                    terms.setdefault(j, {})[k] = value
        return terms

    @property
    def infinite(self) -> list[int]:
        """The columns whose coefficient is not zero on all of N."""
        return sorted(self.terms)

    def vector(self, t: Coordinates) -> RationalVector:
        """Return the vector of N that has these coordinates."""
        return tuple(self.entry(t, j) for j in range(self.rows.width))

    def functionals(self, index: Indices) -> Any:
        """Return some rows as linear functions of the coordinates, rounded, dense or CSR as stored."""
        parts = [Z @ self.functions for _, Z in self.rows.blocks(index, as_stored=True)]
        return stack_blocks(parts) if parts else np.empty((0, self.size))

    def reduced(self, index: Indices) -> Array:
        """Return some rows as linear functions of the coordinates, rounded, as a dense array."""
        return dense(self.functionals(index))

    @lazy
    def distinct(self) -> Indices:
        """Separated rows of which none is a multiple of another on N; all of them if they are dense."""
        G = self.functionals(self.separated)
        if isinstance(G, np.ndarray):
            return self.separated
        G.sum_duplicates()
        G.eliminate_zeros()
        first = proportional_rows(G)
        # Rows whose products with the functions fall below the floating range stay, too.
        return np.asarray(self.separated[(first == np.arange(first.size)) | (first < 0)])

    @lazy
    def is_whole(self) -> bool:
        """Whether all numbers in the reduced separated rows are integers, and float64 holds them exactly."""
        Z, used = self.rows.stored(self.separated), self.infinite
        if Z is None or any(x.denominator > 1 for terms in self.terms.values() for x in terms.values()):
            return False
        sizes, factors = abs(Z[:, used]), abs(self.functions[used])
        largest = max((sizes @ factors).max(), factors.max())
        return bool(largest < 2.0**53 and not (values_of(sizes) % 1.0).any())

    @lazy
    def units(self) -> list[Fraction]:
        """The common denominators of the relations; in these units, functions have integer factors."""
        return [Fraction(math.lcm(*(x.denominator for x in r.values()))) for r in self.relations]

    def exactly_reduced(self, Z: Array) -> Array | None:
        """Return vectors as functions of the coordinates in ``units``; None if a number would be rounded."""
        if self.is_whole:
            return np.asarray(Z @ self.functions)
        F = self.functions.multiply(nearest_floats(self.units)).tocsr()
        F.data = np.rint(F.data)
        G = np.asarray(Z @ F)
        if not np.isfinite(G).all():
            return None
        both = LiftedRows(np.hstack([Z, G]), None, fit_intercept=False)
        own = [{self.rows.width + k: -1 / unit} for k, unit in enumerate(self.units)]
        sums = [unit | r for unit, r in zip(own, self.relations, strict=True) if len(r) > 1]
        return G if rows_obeying(both, sums, both.counted).size == len(G) else None

    def margins(self, t: Array) -> Array:
        """Return ``<v, z_i>`` of the separated rows for the v of N with these coordinates, rounded."""
        return self.rows.margins(self.functions @ t)[self.separated]

    def entry(self, t: Coordinates, j: int) -> Fraction:
        """Return the entry v_j of the vector of N that has these coordinates."""
        return sum((Fraction(t[k]) * value for k, value in self.terms.get(j, {}).items()), Fraction(0))

    def prove_directions(self, coordinates: Sequence[Coordinates]) -> list[Indices]:
        """Look for rows that contradict that vectors of N are positive on all separated rows.

        Returns
        -------
        list of arrays of rows
            The separated rows on which each vector is not proven to be positive, worst first, a few only.
            An empty array means that the vector lies in K.
        """
        found: list[Indices] = []
        for start in range(0, len(coordinates), _DIRECTIONS):
            found += self._contradictions(coordinates[start : start + _DIRECTIONS])
        return found

    def _rounded(self, t: Coordinates) -> Array:
        """Return the vector of N that has these coordinates, each entry rounded to the nearest float64."""
        if not isinstance(t, np.ndarray):
            return nearest_floats(self.vector(t))
        v = np.asarray(self.functions @ t)
        for j in self._long:
            v[j] = nearest_float(self.entry(t, j))
        return v

    @lazy
    def _long(self) -> list[int]:
        """The columns whose entry is no sum of at most two coordinates with signs, which is rounded once."""
        return [j for j, terms in self.terms.items() if len(terms) > 2 or {*map(abs, terms.values())} != {1}]

    def _contradictions(self, coordinates: Sequence[Coordinates]) -> list[Indices]:
        V = np.stack([self._rounded(t) for t in coordinates], axis=1)
        sizes = np.abs(V)
        is_moderate = (V == 0.0) | ((sizes > _SMALLEST_ENTRY) & (sizes < _LARGEST_ENTRY))
        usable = is_moderate.all(axis=0)  # vectors whose entries are all rounded by a fraction of them
        worst: list[list[tuple[float, int]]] = [[] for _ in coordinates]
        exact_rows = np.zeros(len(coordinates), np.int64)
        for part, Z in self.rows.blocks(self.separated, as_stored=True):
            terms = Z.shape[1] if isinstance(Z, np.ndarray) else int(np.diff(Z.indptr).max(initial=0))
            relative = rounding_factor(terms + 4)
            with np.errstate(over="ignore", invalid="ignore"):
                margins = np.asarray(Z @ V)
                bounds = error_bound(terms + 1, relative, np.asarray(abs(Z) @ sizes))
                bounds[:, ~usable] = np.inf
                unclear = ~(margins > bounds * (1.0 + relative))
            for k in np.flatnonzero(unclear.any(axis=0)).tolist():
                bad = np.flatnonzero(margins[:, k] < -bounds[:, k])
                bad = bad[np.argsort(margins[bad, k], kind="stable")[:_CONTRADICTIONS]]
                worst[k] += zip(margins[bad, k].tolist(), part[bad].tolist(), strict=True)
                if not worst[k]:  # a vector that is not contradicted yet may need exact arithmetic
                    left = np.flatnonzero(unclear[:, k])
                    exact_rows[k] += left.size
                    exact = self.vector(coordinates[k])
                    for i in left[:_MAX_EXACT_ROWS].tolist():
                        z = Z[i] if isinstance(Z, np.ndarray) else Z[[i]].toarray().ravel()
                        if exact_rows[k] > _MAX_EXACT_ROWS or exact_dot(z, exact) <= 0:
                            worst[k].append((0.0, int(part[i])))
                worst[k] = sorted(worst[k])[:_CONTRADICTIONS]
        return [np.array([i for _, i in rows], np.int64) for rows in worst]

    @lazy
    def basis_rows(self) -> Indices | None:
        """Boundary rows on which the independent columns are an invertible matrix."""
        if self.structure is None:
            return None
        found = pivot_columns(self.rows, self.structure.columns, self.boundary)
        return None if found is None or found.aliased else np.sort(found.rows)

    def exact_reduced(self, z: Array) -> list[Fraction]:
        """Return a row as a linear function of the coordinates."""
        found = [Fraction(0)] * self.size
        for j in np.flatnonzero(z).tolist():
            for k, value in self.terms.get(j, {}).items():
                found[k] += value * Fraction(float(z[j]))
        return found

    def exact_entry(self, j: int, sign: int) -> list[Fraction]:
        """Return ``sign v_j`` as a linear function of the coordinates."""
        return self.exact_reduced(sign * np.eye(1, self.rows.width, j)[0])
