"""What becomes of a coefficient of an unpenalised regression, and the objects that prove it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from prgd.core.types import RationalVector
from prgd.proofs.column_relations import Relation


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
