"""The verdicts on the coefficients of a model: the type, what proves them, their check and witnesses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from prgd.core.types import Array, Indices, RationalVector
from prgd.problem.problem import NO_ROWS
from prgd.proofs.column_relations import Relation
from prgd.proofs.lifted_rows import KeptColumns, LiftedRows
from prgd.proofs.pivots import combinations, pivot_columns
from prgd.proofs.weights import Proof
from prgd.regression.cone import Cone, Coordinates
from prgd.regression.families import ModelRows, Name
from prgd.regression.memberships import Membership, check_membership, weights_of


class Behaviour(StrEnum):
    """The words for a coefficient; each equals its string, so ``behaviour == "+inf"`` works."""

    FINITE = "finite"
    PLUS_INFINITY = "+inf"
    MINUS_INFINITY = "-inf"
    EITHER = "either"
    ALIASED = "aliased"
    UNDECIDED = "undecided"

    def __repr__(self) -> str:
        return repr(self.value)  # A table of coefficients shows words, not members of an enumeration.

    @property
    def is_infinite(self) -> bool:
        """Whether the estimate is infinite, of a sign that the data determine or of either."""
        return self in (Behaviour.PLUS_INFINITY, Behaviour.MINUS_INFINITY, Behaviour.EITHER)


@dataclass(frozen=True, eq=False)
class Witness:
    r"""The objects that prove the behaviour of the coefficient of column j.

    K is the recession cone ``{v : z_i . v >= 0}``, with v zero in the aliased columns.

    Attributes
    ----------
    above : vector of Fraction, optional
        Some v of K with ``v_j > 0``; given for ``+inf`` and ``either``.
    below : vector of Fraction, optional
        Some v of K with ``v_j < 0``; given for ``-inf`` and ``either``.
    weights : dict from row to Fraction, optional
        ``sum_i a_i z_i`` is the unit vector of column j (of ``-inf``: its negative) in all columns that are
        not aliased; weights of separated rows are not negative. On boundary rows every v of K is zero, so
        ``v_j >= 0`` on K; and ``v_j = 0`` if only boundary rows have weights, as for ``finite``.
    relation : dict from column to Fraction, optional
        The column is this combination of other columns, none of them aliased; given for ``aliased``.
    """

    above: RationalVector | None = None
    below: RationalVector | None = None
    weights: dict[int, Fraction] | None = None
    relation: Relation | None = None


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The verdicts on the columns of lifted rows, and what proves them.

    Keys of the dicts below are columns; vectors are coordinates of the cone on the kept columns (`Cone`).

    Attributes
    ----------
    behaviours : dict from column to Behaviour
    kept, aliased : list of int
        Columns that are independent, and those that depend on columns kept before them.
    basis : ndarray of int
        Rows on which the kept columns are an invertible matrix; none if nothing is known.
    base : vector of Fraction or None
        A vector of the cone that is positive on all separated rows; None if there is none.
    above, below : dict from column to ndarray or vector of Fraction
        A vector of the cone in which the column is positive, or negative, if ``base`` is not one.
    memberships : dict from column to Membership
        What proves that a coefficient has one sign.
    max_margin_signs : dict from column to "+", "-" or "0"
        The sign of a coefficient of either sign in the maximum-margin direction, the norm of all
        coefficients; "0" if it is zero or too small to tell.
    is_interrupted : bool
        Whether Ctrl-C ended the search, so that more may be undecided.
    """

    behaviours: dict[int, Behaviour]
    kept: list[int]
    aliased: list[int]
    basis: Indices = field(default_factory=NO_ROWS.copy)
    base: RationalVector | None = None
    above: dict[int, Coordinates] = field(default_factory=dict)
    below: dict[int, Coordinates] = field(default_factory=dict)
    memberships: dict[int, Membership] = field(default_factory=dict)
    max_margin_signs: dict[int, str] = field(default_factory=dict)
    is_interrupted: bool = False

    def check(
        self, rows: LiftedRows, order: Indices, boundary: Indices, p: Array | None, proof: Proof
    ) -> bool:
        """Prove every verdict once more from the stored objects and a partition that is proven already."""
        if set(self.behaviours.values()) == {Behaviour.UNDECIDED}:
            return True  # Nothing is claimed, not even which columns are aliased.
        pivots = pivot_columns(rows, order)
        if pivots is None or list(pivots.kept) != self.kept or list(pivots.aliased) != self.aliased:
            return False
        kept = KeptColumns(rows, self.kept)
        cone = Cone.of(kept, boundary, p, proof)
        if sorted(self.behaviours) != sorted([*self.kept, *self.aliased]):
            return False
        if cone is None:
            words = dict.fromkeys(self.kept, Behaviour.UNDECIDED)
            return self.behaviours == words | dict.fromkeys(self.aliased, Behaviour.ALIASED)
        infinite, aliased = {self.kept[j] for j in cone.infinite}, set(self.aliased)
        place = {column: j for j, column in enumerate(self.kept)}
        vectors: dict[int, Coordinates] = {}
        for column, word in self.behaviours.items():
            if column in aliased or word is Behaviour.ALIASED:
                if column not in aliased or word is not Behaviour.ALIASED:
                    return False
            elif not isinstance(word, Behaviour) or (
                word is not Behaviour.UNDECIDED and (word is Behaviour.FINITE) != (column not in infinite)
            ):
                return False
            elif word in (Behaviour.PLUS_INFINITY, Behaviour.MINUS_INFINITY, Behaviour.EITHER):
                j, found = place[column], self.memberships.get(column)
                sides = {Behaviour.PLUS_INFINITY: (1,), Behaviour.MINUS_INFINITY: (-1,)}.get(word, (1, -1))
                for sign in sides:
                    t = self._vector(column, sign)
                    if t is None or len(t) != cone.size:
                        return False
                    if not all(isinstance(x, Fraction) or math.isfinite(x) for x in t):
                        return False
                    if not cone.entry(t, j) * sign > 0:
                        return False
                    vectors[id(t)] = t
                if len(sides) == 1 and (
                    found is None or found.sign != sides[0] or not check_membership(cone, j, found)
                ):
                    return False
        return not any(rows.size for rows in cone.prove_directions(list(vectors.values())))

    def _vector(self, column: int, sign: int) -> Coordinates | None:
        return (self.above if sign > 0 else self.below).get(column, self.base)

    def witness(
        self, column: int, rows: LiftedRows, order: Indices, boundary: Indices, p: Array | None, proof: Proof
    ) -> Witness:
        """Return the witness of the verdict on a column; its vectors have an entry for each column."""
        word = self.behaviours[column]
        if word is Behaviour.ALIASED:
            pivots = pivot_columns(rows, order)
            return Witness(relation=None if pivots is None else combinations(rows, pivots, [column])[0])
        cone = Cone.of(KeptColumns(rows, self.kept), boundary, p, proof)
        if word is Behaviour.UNDECIDED or cone is None:
            return Witness()
        j, found = self.kept.index(column), self.memberships.get(column)
        weights = None if word is Behaviour.EITHER else weights_of(cone, j, found)
        vectors = {1: word in ("+inf", "either"), -1: word in ("-inf", "either")}
        above, below = (
            self._whole(cone, self._vector(column, sign), rows.width) if is_given else None
            for sign, is_given in vectors.items()
        )
        return Witness(above=above, below=below, weights=weights)

    def relations(self, model: ModelRows, names: Sequence[Name]) -> dict[Name, dict[Name, Fraction]]:
        """Return for each aliased one of some columns the combination of other columns that it is."""
        named = dict(zip(model.columns.tolist(), model.names, strict=True))
        wanted = set(names)
        aliased = [j for j in self.aliased if named[j] in wanted]
        pivots = pivot_columns(model.rows, model.columns) if aliased else None
        if pivots is None:
            return {}
        found = zip(aliased, combinations(model.rows, pivots, aliased), strict=True)
        return {named[j]: {named[c]: k for c, k in t.items()} for j, t in found if t is not None}

    def _whole(self, cone: Cone, t: Coordinates | None, width: int) -> RationalVector | None:
        """Return a vector of the cone with an entry for each column, zero for the aliased ones."""
        if t is None:
            return None
        v = [Fraction(0)] * width
        for column, value in zip(self.kept, cone.vector(t), strict=True):
            v[column] = value
        return tuple(v)
