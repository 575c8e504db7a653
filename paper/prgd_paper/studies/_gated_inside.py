"""Ours: radii in any norm that grow when the direction has converged; see docs/any_norm.md."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from prgd.algorithms.base import State
from prgd.core.types import Array
from prgd.problem import Problem
from prgd_paper.methods.inside_prgd import inside

ROUNDING = 1e-13  # a second part of the gap below this fraction of the upper bound is rounding
LONGER, SHORTER = 1.3, 0.4  # factors of the length after a step that ascends to its end, and after another


@dataclass(frozen=True, eq=False, kw_only=True)
class GatedState(State):
    """State of `GatedInside`: the length of the next step."""

    length: float


@dataclass(frozen=True)
class GatedInside:
    """Radii that grow when the first part of the gap is at most ``fraction`` of the second, in any norm.

    Between rescalings it takes steps by `inside`, whose length grows by 30 % after a step at whose end ``u``
    still points along the step, and shrinks by 60 % after any other: with fixed lengths the gate seldom
    opens.
    ``is_fixed`` keeps the length at ``eta`` units, to show that.
    """

    growth: float = 4.0
    fraction: float = 0.5
    eta: float = 1.0
    is_fixed: bool = False
    state_type: ClassVar[type[State]] = GatedState

    def init(self, problem: Problem, w0: Array) -> GatedState:
        """Start at ``w0``, which must not be zero."""
        at = problem.at(w0)
        return GatedState(
            t=0, at=at, phase=0, R_k=at.length, length=self._unit_length(problem, at.dual_vector)
        )

    def step(self, problem: Problem, s: GatedState) -> GatedState:
        """Rescale if the direction has converged at this radius, else take one step inside the ball."""
        norm, u = problem.norm, s.at.dual_vector
        if self._has_converged(s):
            R_k = self.growth * s.R_k
            return replace(s, t=s.t + 1, at=problem.at(norm.rescale(s.w, R_k)), phase=s.phase + 1, R_k=R_k)
        length = self._unit_length(problem, u) if self.is_fixed else s.length
        at = problem.at(inside(norm, s.w, u, length, s.R_k))
        ascends = float(np.vdot(at.dual_vector, at.w - s.w)) >= 0.0
        # A step that the ball cuts short would ascend at any length, so the length stays below the radius.
        length = min(length * (LONGER if ascends else SHORTER), s.R_k)
        return replace(s, t=s.t + 1, at=at, length=length)

    def _unit_length(self, problem: Problem, u: Array) -> float:
        return self.eta * problem.unit * problem.norm.dual(u)

    def _has_converged(self, s: GatedState) -> bool:
        turning, soft = s.at.gap_split
        on_sphere = s.at.length >= 0.9 * s.R_k
        return on_sphere and soft > ROUNDING * s.at.upper and turning <= self.fraction * soft
