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
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from prgd._types import Array, Indices, Mask, RationalVector
from prgd.arithmetic import error_bound, exact_dot, integer_multiple, nearest_floats, rounding_factor
from prgd.proofs.column_relations import ColumnStructure, Relation, column_structure, structure_of
from prgd.proofs.elimination import Elimination, residues, short_primes
from prgd.proofs.lifted_rows import KeptColumns, LiftedRows
from prgd.proofs.modular import solve_rational, vanishes
from prgd.proofs.weights import Proof, completed_weights, prove_weights, weights_prove

_MAX_EXACT_ROWS = 1000  # rows of unclear sign that one proof may multiply as fractions
_FEW_UNKNOWNS = 6  # unknowns of a linear system that is solved exactly at once
_MAX_UNKNOWNS = 64  # unknowns of a linear system that is solved exactly if all else fails
_CONTRADICTIONS = 8  # rows that contradict a vector which are kept
_DIRECTIONS = 256  # directions that one pass multiplies at a time
_SMALLEST_ENTRY, _LARGEST_ENTRY = 2.0**-500, 2.0**500  # sizes between which no product leaves the range


@dataclass(frozen=True, eq=False)
class Membership:
    """A proof that ``sign e_j`` is a combination of rows: weights that balance them and ``-sign e_j``.

    Attributes
    ----------
    sign : int
    rows : ndarray of int
        Separated rows of positive weight.
    weights : tuple of Fraction, optional
        The weights of these rows; what is left is a combination of boundary rows.
    p : ndarray, optional
        Weights of these rows, of the boundary rows of a basis with both signs, and of ``-sign e_j``.
    proof : Proof, optional
        Weights near p balance those rows exactly.
    """

    sign: int
    rows: Indices
    weights: RationalVector | None = None
    p: Array | None = None
    proof: Proof | None = None


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
        self.relations: list[Relation] | None = None if structure is None else structure.relations or []
        # The coordinates of N are the entries of v in the free columns: the first ones of the relations.
        self.free = (
            list(range(rows.width)) if self.relations is None else [next(iter(r)) for r in self.relations]
        )

    @classmethod
    def of(cls, rows: KeptColumns, boundary: Indices, p: Array | None, proof: Proof) -> Cone | None:
        """Return the cone of a proven partition, or None if its linear relations are not found."""
        if not boundary.size:
            return cls(rows, boundary, None)
        known = column_structure(rows, boundary)
        if known is None or known.relations is None or p is None:
            return None
        own = Proof(weights=proof.weights, relations=tuple(known.relations))
        return cls(rows, boundary, known) if weights_prove(rows, boundary, p, own) else None

    @property
    def size(self) -> int:
        """The dimension of N."""
        return len(self.free)

    @cached_property
    def basis(self) -> Array | None:
        """The vectors of N of which one coordinate is 1 and the others are 0, rounded; None if N is all."""
        if self.relations is None:
            return None
        basis = np.zeros((self.size, self.rows.width))
        for k, relation in enumerate(self.relations):
            for j, value in relation.items():
                basis[k, j] = float(value)
        return basis

    def functional(self, j: int) -> Array:
        """Return the entry v_j as a linear function of the coordinates, rounded."""
        return np.eye(self.size)[j] if self.basis is None else self.basis[:, j]

    @cached_property
    def infinite(self) -> list[int]:
        """The columns whose coefficient is not zero on all of N."""
        if self.relations is None:
            return list(range(self.rows.width))
        return sorted({j for relation in self.relations for j, value in relation.items() if value})

    def vector(self, t: Array | RationalVector) -> RationalVector:
        """Return the vector of N that has these coordinates."""
        values = [Fraction(x) for x in t]
        if self.relations is None:
            return tuple(values)
        v = [Fraction(0)] * self.rows.width
        for x, relation in zip(values, self.relations, strict=True):
            for j, k in relation.items():
                v[j] += x * k
        return tuple(v)

    def reduced(self, index: Indices) -> Array:
        """Return some rows as linear functions of the coordinates, rounded."""
        if self.basis is None:
            return self.rows.take(index)
        parts = [Z @ self.basis.T for _, Z in self.rows.blocks(index, as_stored=True)]
        return np.concatenate(parts) if parts else np.empty((0, self.size))

    def margins(self, t: Array) -> Array:
        """Return ``<v, z_i>`` of the separated rows for the v of N with these coordinates, rounded."""
        v = t if self.basis is None else t @ self.basis
        return self.rows.margins(v)[self.separated]

    # Directions -------------------------------------------------------------------------------------------

    def entry(self, t: Array | RationalVector, j: int) -> Fraction:
        """Return the entry v_j of the vector of N that has these coordinates."""
        if self.relations is None:
            return Fraction(t[j])
        held = ((x, relation.get(j)) for x, relation in zip(t, self.relations, strict=True))
        return sum((Fraction(x) * k for x, k in held if k), Fraction(0))

    def prove_directions(self, coordinates: Sequence[Array | RationalVector]) -> list[Indices]:
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

    def _rounded(self, t: Array | RationalVector) -> Array:
        """Return the vector of N that has these coordinates, each entry rounded to the nearest float64."""
        if self.relations is None and isinstance(t, np.ndarray):
            return t
        return nearest_floats(self.vector(t))

    def _contradictions(self, coordinates: Sequence[Array | RationalVector]) -> list[Indices]:
        V = np.stack([self._rounded(t) for t in coordinates], axis=1)
        sizes = np.abs(V)
        is_moderate = (V == 0.0) | ((sizes > _SMALLEST_ENTRY) & (sizes < _LARGEST_ENTRY))
        usable = is_moderate.all(axis=0)  # vectors whose entries are all rounded by a fraction of them
        relative = rounding_factor(self.rows.width + 4)
        worst: list[list[tuple[float, int]]] = [[] for _ in coordinates]
        exact_rows = np.zeros(len(coordinates), np.int64)
        for part, Z in self.rows.blocks(self.separated, as_stored=True):
            with np.errstate(over="ignore", invalid="ignore"):
                margins = np.asarray(Z @ V)
                bounds = error_bound(self.rows.width + 1, relative, np.asarray(abs(Z) @ sizes))
                bounds[:, ~usable] = np.inf
                unclear = ~(margins > bounds * (1.0 + relative))
            for k in np.flatnonzero(unclear.any(axis=0)).tolist():
                for i in _smallest(margins[:, k], margins[:, k] < -bounds[:, k]):
                    worst[k].append((float(margins[i, k]), int(part[i])))
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

    # Combinations -----------------------------------------------------------------------------------------

    def prove_membership(self, j: int, sign: int, index: Indices, q: Array) -> Membership | None:
        """Prove that ``sign e_j`` is a combination of separated rows, of nearly these weights, on N."""
        exact = [self._exact_reduced(z) for z in self.rows.take(index[:_MAX_UNKNOWNS])]
        if 0 < index.size <= _FEW_UNKNOWNS:
            weights = _positive_solution(exact, self._exact_entry(j, sign))
            if weights is not None:
                return Membership(sign, index, weights=weights)
        small = self.augmented(j, sign, index)
        p = np.concatenate([q, self._completion(j, sign, index, q), [1.0]])
        everything = np.arange(small.n, dtype=np.int64)
        known = column_structure(small, everything)
        proven = None if known is None else prove_weights(small, everything, p, known)
        if proven is not None:
            return Membership(sign, index, p=proven[0], proof=proven[1])
        is_tried = index.size <= _FEW_UNKNOWNS or index.size > _MAX_UNKNOWNS
        weights = None if is_tried else _positive_solution(exact, self._exact_entry(j, sign))
        return None if weights is None else Membership(sign, index, weights=weights)

    def exact_membership(
        self, j: int, sign: int, index: Indices, proof: Proof, last: int
    ) -> Membership | None:
        """Return the membership that exact weights of the `augmented` rows prove, if the last has one."""
        exact = proof.weights or {}
        used = [k for k in range(index.size) if k in exact] if last in exact else []
        weights = tuple(Fraction(exact[k], exact[last]) for k in used)
        member = Membership(sign, index[used], weights=weights)
        return member if used and self.check_membership(j, member) else None

    def check_membership(self, j: int, found: Membership) -> bool:
        """Prove a membership once more from its stored weights."""
        if found.sign not in (1, -1) or not np.isin(found.rows, self.separated).all():
            return False
        if found.weights is not None:
            left = [-x for x in self._exact_entry(j, found.sign)]
            for z, weight in zip(self.rows.take(found.rows), found.weights, strict=True):
                left = [x + weight * y for x, y in zip(left, self._exact_reduced(z), strict=True)]
            return min(found.weights, default=1) > 0 and not any(left)
        small = self.augmented(j, found.sign, found.rows)
        if found.p is None or found.proof is None or found.p.shape != (small.n,) or not found.p[-1] > 0.0:
            return False
        return weights_prove(small, np.arange(small.n, dtype=np.int64), found.p, found.proof)

    def weights_of(self, j: int, found: Membership | None) -> dict[int, Fraction] | None:
        """Return the exact weights of rows whose combination is ``e_j``, or ``sign e_j`` of a membership.

        None if their numbers are too long.
        """
        target = [
            Fraction(int(k == j)) * (1 if found is None else found.sign) for k in range(self.rows.width)
        ]
        weights: dict[int, Fraction] = {}
        if found is not None:
            exact = found.weights if found.weights is not None else self._solved_weights(j, found)
            if exact is None:
                return None
            for i, z, weight in zip(found.rows.tolist(), self.rows.take(found.rows), exact, strict=True):
                weights[i] = weight
                target = [x - weight * Fraction(float(y)) for x, y in zip(target, z, strict=True)]
        if not any(target):
            return weights
        rest = self._boundary_combination(target)
        return None if rest is None else weights | rest

    def _solved_weights(self, j: int, found: Membership) -> RationalVector | None:
        """Return exact weights of the rows of a membership that is proven by absorbing a residual."""
        if found.proof is not None and found.proof.weights is not None:
            integers = [found.proof.weights[k] for k in range(len(found.proof.weights))]
            return tuple(Fraction(w, integers[-1]) for w in integers[: found.rows.size])
        exact = [self._exact_reduced(z) for z in self.rows.take(found.rows)]
        solved = _positive_solution(exact, self._exact_entry(j, found.sign))
        if solved is not None or found.p is None:
            return solved
        small = self.augmented(j, found.sign, found.rows)  # its rows depend on each other
        everything = np.arange(small.n, dtype=np.int64)
        Z = small.take(everything)
        known = structure_of(Z, range(small.width), small.width)
        integers = completed_weights(Z, known, found.p) or [0]
        if min(integers) <= 0:
            return None
        return tuple(Fraction(w, integers[-1]) for w in integers[: found.rows.size])

    def _boundary_combination(self, target: Sequence[Fraction]) -> dict[int, Fraction] | None:
        """Return weights of boundary rows whose combination is a vector that is zero on N."""
        chosen = self._basis_rows
        if chosen is None or self.structure is None:
            return None
        columns = self.structure.columns
        # The right-hand side is scaled to integers, which multiply the columns of an identity.
        common = math.lcm(*(x.denominator for x in target))
        integers = [int(x * common) for x in target]
        Z = self.rows.take(chosen)[:, columns]
        solved = solve_rational(Z.T, np.eye(len(columns)), [[integers[j] for j in columns]])
        if solved is None:
            return None
        return {int(i): a / common for i, a in zip(chosen, solved[0], strict=True) if a}

    @cached_property
    def _basis_rows(self) -> Indices | None:
        """Boundary rows on which the independent columns are an invertible matrix."""
        if self.structure is None:
            return None
        few, step = self.boundary, 4 * self.rows.width
        if few.size > step:
            few = few[np.linspace(0, few.size - 1, step).astype(np.int64)]
        while True:
            chosen = independent_rows(self.rows.take(few)[:, self.structure.columns])
            if len(chosen) == len(self.structure.columns):
                return np.sort(few[chosen])
            if few.size == self.boundary.size:
                return None
            grown = np.linspace(0, self.boundary.size - 1, 4 * few.size).astype(np.int64)
            few = self.boundary[np.unique(grown)]

    def _exact_reduced(self, z: Array) -> list[Fraction]:
        """Return a row as a linear function of the coordinates."""
        if self.relations is None:
            return [Fraction(float(x)) for x in z]
        return [
            sum((k * Fraction(float(z[j])) for j, k in relation.items()), Fraction(0))
            for relation in self.relations
        ]

    def _exact_entry(self, j: int, sign: int) -> list[Fraction]:
        """Return ``sign v_j`` as a linear function of the coordinates."""
        if self.relations is None:
            return [Fraction(sign * int(k == j)) for k in range(self.rows.width)]
        return [sign * relation.get(j, Fraction(0)) for relation in self.relations]

    def augmented(self, j: int, sign: int, index: Indices) -> LiftedRows:
        """Return some separated rows, boundary rows of a basis with both signs, and ``-sign e_j``."""
        unit = np.zeros((1, self.rows.width))
        unit[0, j] = -sign
        parts = [self.rows.take(index), unit]
        if self._basis_rows is not None:
            basis = self.rows.take(self._basis_rows)
            parts[1:1] = [basis, -basis]
        return LiftedRows(np.concatenate(parts), None, fit_intercept=False)

    def _completion(self, j: int, sign: int, index: Indices, q: Array) -> Array:
        """Return weights of the boundary rows of the basis, each with both signs, that complete q."""
        if self._basis_rows is None:
            return np.empty(0)
        left = -(self.rows.take(index).T @ q)
        left[j] += sign
        a = np.linalg.lstsq(self.rows.take(self._basis_rows).T, left, rcond=None)[0]
        base = 0.5 * max(float(np.abs(a).max(initial=0.0)), 1.0)
        return np.concatenate([base + np.maximum(a, 0.0), base + np.maximum(-a, 0.0)])


def _smallest(values: Array, among: Mask) -> list[int]:
    """Return the positions of the smallest of some values, a few only."""
    places = np.flatnonzero(among)
    return [int(i) for i in places[np.argsort(values[places], kind="stable")[:_CONTRADICTIONS]]]


def independent_rows(Z: Array) -> list[int]:
    """Return positions of rows that are a basis of all rows, found modulo a prime.

    Examples
    --------
    >>> independent_rows(np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 1.0]]))
    [0, 2]
    """
    elimination = Elimination(len(Z), prime := next(short_primes()))
    elimination.extend(residues(Z, prime))
    return [int(i) for i in np.sort(elimination.pivots)]


def _positive_solution(
    rows: Sequence[Sequence[Fraction]], right: Sequence[Fraction]
) -> RationalVector | None:
    """Return the weights of independent rows whose combination is ``right``; None unless all are positive."""
    equations = [integer_multiple([*(row[k] for row in rows), b]) for k, b in enumerate(right)]
    equations = [equation for equation in equations if any(equation)]
    if any(abs(x) >= 2**53 for equation in equations for x in equation):
        return _by_elimination(equations)
    A = np.array(equations, np.float64).reshape(-1, len(rows) + 1)
    chosen = independent_rows(A[:, :-1])
    if len(chosen) < len(rows):
        return None
    solved = solve_rational(A[chosen, :-1], A[chosen, -1:], [[1]])
    if solved is None or min(solved[0], default=1) <= 0 or not vanishes(A, [*solved[0], -1]).all():
        return None
    return solved[0]


def _by_elimination(equations: Sequence[Sequence[int]]) -> RationalVector | None:
    """Return the solution of equations of long integers, the right-hand sides last, by Gauss and Jordan."""
    table = [[Fraction(x) for x in equation] for equation in equations]
    count = len(table[0]) - 1
    for k in range(count):
        pivot = next((i for i in range(k, len(table)) if table[i][k]), None)
        if pivot is None:
            return None
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [x / table[k][k] for x in table[k]]
        for i, line in enumerate(table):
            if i != k and line[k]:
                factor = line[k]
                table[i] = [x - factor * y if y else x for x, y in zip(line, table[k], strict=True)]
    weights = tuple(line[count] for line in table[:count])
    is_solved = not any(line[count] for line in table[count:])
    return weights if is_solved and min(weights, default=Fraction(1)) > 0 else None
