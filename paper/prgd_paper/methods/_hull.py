"""What methods on the dual share: a point ``u = Z^T p`` of the hull of the rows, held by its weights p."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from prgd.algorithms.base import State, check_problem
from prgd.core.types import Array, Indices
from prgd.norms import norm
from prgd.problem.certificate import DualWeights
from prgd.problem.problem import NO_ROWS, Problem

# Margins that differ by less than this fraction of ||u|| max ||z_i|| are the same: their order is rounding.
TIE = 1e-13


@dataclass(frozen=True, eq=False, kw_only=True)
class HullState(State):
    """A point of the hull of the rows: w is ``problem.unit * Z^T p``.

    Attributes
    ----------
    indices, p : the rows that carry weight, ascending, and their weights of sum 1 (1/2 in each class, with an
        intercept). No row does before the first step.
    length : ``||Z^T p||``, infinite before the first step.
    """

    indices: Indices
    p: Array
    length: float

    @property
    def own_upper(self) -> float:
        """The norm of the point."""
        return self.length

    @property
    def own_weights(self) -> DualWeights | None:
        """The weights p, which witness the bound."""
        return DualWeights(self.indices, self.p) if self.indices.size else None


class Support:
    """The rows that carry weight and those that may enter, with their margins along ``u = Z^T p``.

    Attributes
    ----------
    rows, Z : ascending indices, and the rows z_i themselves.
    p, margins : ``p_i``, zero for rows that enter, and ``<u, z_i>``.
    groups : which rows share a simplex: all, or those of each class with an intercept.
    entering : the place of the row of smallest margin among all data, of each group.
    """

    def __init__(self, problem: Problem, s: HullState, smallest: Indices) -> None:
        self.rows = np.union1d(s.indices, smallest)
        self.Z: Any = problem.take(self.rows)
        self.p = np.zeros(self.rows.size)
        self.p[np.searchsorted(self.rows, s.indices)] = s.p
        u = self.combine(self.p)
        self.margins: Array = self.Z @ u
        signs = problem.labels.at(self.rows)
        self.groups = [signs > 0, signs < 0] if problem.fit_intercept else [np.ones(self.rows.size, bool)]
        self._tie = TIE * norm(u) * problem.max_norm
        self.entering = [self._first(-self.margins, group) for group in self.groups]

    def leaving(self) -> list[int]:
        """Return the place of the row of largest margin among those that carry weight, of each group."""
        return [self._first(self.margins, group & (self.p > 0.0)) for group in self.groups]

    def _first(self, values: Array, among: Any) -> int:
        """Return the place of the largest value; of values that differ by rounding, that of most weight."""
        is_tied = among & (values >= values[among].max() - self._tie)
        return int(np.argmax(np.where(is_tied, self.p, -1.0)))

    def combine(self, c: Array) -> Array:
        """Return ``Z^T c``."""
        return np.asarray(self.Z.T @ c)

    def corner(self, places: list[int]) -> Array:
        """Return the weights of a corner of the simplices: all the weight of each group on one row."""
        c = np.zeros(self.p.size)
        c[places] = 1.0 / len(self.groups)
        return c

    def step_length(self, direction: Array, limit: float) -> float:
        """Return the number up to ``limit`` by which p moves along a direction to the shortest ``Z^T p``."""
        square = norm(self.combine(direction)) ** 2
        slope = float(self.margins @ direction)
        return min(max(-slope / square, 0.0), limit) if square > 0.0 else 0.0


@dataclass(frozen=True)
class HullMethod:
    """A method that moves the weights of a point of the hull, and looks for the row of smallest margin.

    A step makes two passes: one finds the row of smallest ``<u, z_i>`` (of each class, with an intercept),
    the other is that of `prgd.run` at the new w. The rows that carry weight are gathered too.
    """

    state_type: ClassVar[type[State]] = HullState

    def init(self, problem: Problem, w0: Array) -> HullState:
        """Start without weights at ``w0``, along which the first row is chosen."""
        instead = "max_margin(..., multi_class='joint'), or a gradient method"
        check_problem(self, problem, instead_of_joint=instead)
        return HullState(t=0, at=problem.at(w0), indices=NO_ROWS, p=np.empty(0), length=math.inf)

    def step(self, problem: Problem, s: HullState) -> HullState:
        """Find the row of smallest margin, and move the weights."""
        # At w = 0 all margins are the same: the first row is that of smallest margin along the mean row.
        is_first = not s.indices.size
        along = s.at.dual_vector if is_first and s.at.length == 0.0 else s.w
        # After an exact step two rows often share the smallest margin, so two are asked for.
        found = problem.smallest(along, 1 if is_first else 2)
        support = Support(problem, s, np.concatenate([group.indices for group in found]))
        p = support.corner(support.entering) if is_first else self.move(support, s.t)
        # The sum begins anew from p at every step, so roundings of earlier steps do not add up.
        p = problem.coding.normalized(support.rows, p)
        u, carried = support.combine(p), np.flatnonzero(p)
        return HullState(
            t=s.t + 1,
            at=problem.at(problem.unit * u),
            indices=support.rows[carried],
            p=p[carried],
            length=norm(u),
        )

    def move(self, support: Support, t: int) -> Array:
        """Return the weights after a step, one for each row of ``support``."""
        raise NotImplementedError
