"""The verdicts on the coefficients of a model: the type, what proves them, their check and witnesses."""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from prgd.core.types import Indices, RationalVector
from prgd.problem.problem import NO_ROWS
from prgd.proofs.column_relations import Relation
from prgd.proofs.lifted_rows import KeptColumns
from prgd.proofs.pivots import combinations, pivot_columns
from prgd.regression.cone import Cone, Coordinates
from prgd.regression.families import ModelRows
from prgd.regression.memberships import Membership, check_membership, weights_of
from prgd.separation.verdict import Separation


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
        return self in _SIGNS


_SIGNS = {Behaviour.PLUS_INFINITY: (1,), Behaviour.MINUS_INFINITY: (-1,), Behaviour.EITHER: (1, -1)}


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
        The sign of a coefficient of either sign in the direction of maximum margin, where the norm is
        that of all coefficients, the intercept included; "0" if it is zero or too small to tell.
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

    def check(self, model: ModelRows, partition: Separation) -> bool:
        """Prove every verdict once more from the stored objects and a partition that is proven already."""
        if set(self.behaviours.values()) == {Behaviour.UNDECIDED}:
            return True  # Nothing is claimed, not even which columns are aliased.
        pivots = pivot_columns(model.rows, model.columns)
        if pivots is None or list(pivots.kept) != self.kept or list(pivots.aliased) != self.aliased:
            return False
        words, aliased = self.behaviours, set(self.aliased)
        if sorted(words) != sorted([*self.kept, *self.aliased]) or any(
            (word is Behaviour.ALIASED) != (j in aliased) for j, word in words.items()
        ):
            return False
        cone = Cone.of(KeptColumns(model.rows, self.kept), partition)
        if cone is None:
            return all(words[j] is Behaviour.UNDECIDED for j in self.kept)
        vectors: dict[int, Coordinates] = {}
        for j, column in enumerate(self.kept):
            word, found = words[column], self.memberships.get(column)
            if word is Behaviour.UNDECIDED:
                continue
            if not isinstance(word, Behaviour) or (word is Behaviour.FINITE) != (j not in cone.terms):
                return False
            signs = _SIGNS.get(word, ())
            for sign in signs:
                t = self._vector(column, sign)
                if t is None or len(t) != cone.size:
                    return False
                if not all(isinstance(x, Fraction) or math.isfinite(x) for x in t):
                    return False
                if not cone.entry(t, j) * sign > 0:
                    return False
                vectors[id(t)] = t
            if len(signs) == 1 and (
                found is None or (found.sign,) != signs or not check_membership(cone, j, found)
            ):
                return False
        return not any(rows.size for rows in cone.prove_directions(list(vectors.values())))

    def _vector(self, column: int, sign: int) -> Coordinates | None:
        return (self.above if sign > 0 else self.below).get(column, self.base)

    def witness(self, column: int, model: ModelRows, partition: Separation) -> Witness:
        """Return the witness of the verdict on a column; its vectors have an entry for each column."""
        rows, word = model.rows, self.behaviours[column]
        if word is Behaviour.ALIASED:
            pivots = pivot_columns(rows, model.columns)
            return Witness(relation=None if pivots is None else combinations(rows, pivots, [column])[0])
        cone = Cone.of(KeptColumns(model.rows, self.kept), partition)
        if word is Behaviour.UNDECIDED or cone is None:
            return Witness()
        j, found = self.kept.index(column), self.memberships.get(column)
        weights = None if word is Behaviour.EITHER else weights_of(cone, j, found)
        vectors = {1: None, -1: None} | {s: self._vector(column, s) for s in _SIGNS.get(word, ())}
        above, below = (self._whole(cone, t, rows.width) for t in vectors.values())
        return Witness(above=above, below=below, weights=weights)

    def _whole(self, cone: Cone, t: Coordinates | None, width: int) -> RationalVector | None:
        """Return a vector of the cone with an entry for each column, zero for the aliased ones."""
        if t is None:
            return None
        values = dict(zip(self.kept, cone.vector(t), strict=True))
        return tuple(values.get(j, Fraction(0)) for j in range(width))
