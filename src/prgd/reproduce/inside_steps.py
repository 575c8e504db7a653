"""Ours: steps of steepest descent that stay inside a ball, and two ways to grow it; see docs/any_norm.md."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from prgd._types import Array
from prgd.algorithms import PRGD
from prgd.algorithms.base import State
from prgd.algorithms.prgd import PRGDState
from prgd.norms import L1, Linf, Norm, Spectral
from prgd.problem import Problem

ROUNDING = 1e-13  # a second part of the gap below this fraction of the upper bound is rounding
LONGER, SHORTER = 1.3, 0.4  # factors of the length after a step that ascends to its end, and after another


def inside(norm: Norm, w: Array, u: Array, length: float, R: float) -> Array:
    r"""Return the best point of a ball near w: no other has a larger ``<u, v>``.

    .. math:: \mathrm{argmax} \{ \langle u, v \rangle : \|v\| \le R, \|v - w\| \le a \}, \qquad \|w\| \le R

    In l-infinity this is the step of sign descent, clipped; in l1 the step of coordinate descent, which takes
    from the worst coordinates what the ball has no room for. Other norms have no such formula here: the
    spectral one gets the nearest point of the ball to the steepest step (singular values are clipped), all
    others its radial projection.

    Examples
    --------
    >>> from prgd.norms import as_norm
    >>> inside(as_norm("linf"), np.array([3.0, 1.0]), np.array([1.0, 2.0]), 1.5, 3.0)
    array([3. , 2.5])
    >>> inside(as_norm("l1"), np.array([2.0, 1.0]), np.array([3.0, 0.5]), 1.0, 3.0)
    array([2.5, 0.5])
    """
    if isinstance(norm, L1):
        return _moved_mass(w, u, length, R)
    v = w + length * norm.steepest(u)
    if isinstance(norm, Linf):
        return np.clip(v, -R, R)
    if isinstance(norm, Spectral) and norm(v) > R:
        U, s, Vt = np.linalg.svd(v, full_matrices=False)
        return np.asarray((U * np.minimum(s, R)) @ Vt)
    return norm.project(v, R)


def _moved_mass(w: Array, u: Array, length: float, R: float) -> Array:
    """Return the best point of the l1 ball near w: the largest entry of u gains, the smallest ones pay."""
    v, k = w.astype(np.float64), int(np.abs(u).argmax())
    best, sign = abs(u.flat[k]), np.sign(u.flat[k])
    # An entry of the other sign shrinks first, and the room that this frees counts twice.
    free = max(R - float(np.abs(v).sum()), 0.0) + 2.0 * max(-sign * v.flat[k], 0.0)
    v.flat[k] += sign * min(length, free)
    left, worth = length - free, np.where(v != 0.0, np.sign(v) * u, np.inf).ravel()
    for i in np.argsort(worth):
        if left <= 0.0 or worth[i] >= best:
            break
        mass = min(0.5 * left, abs(v.flat[i]))  # a unit of mass that moves is a length of two
        v.flat[i] -= np.sign(v.flat[i]) * mass
        v.flat[k] += sign * mass
        left -= 2.0 * mass
    return v


@dataclass(frozen=True, repr=False)
class InsidePRGD(PRGD):
    """PRGD whose steps, of the same length, stay inside the ball of radius R_k by `inside`.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem([[1.0, 2.0], [3.0, -1.0]], norm="linf")
    >>> result = prgd.run(problem, InsidePRGD(), np.array([3.0, 1.0]), stop=100)
    >>> result.certificate.lower > 1.999
    True
    """

    def step(self, problem: Problem, s: PRGDState) -> PRGDState:
        """Rescale, or take one step inside the ball."""
        if s.t == self.T(s.phase):
            return super().step(problem, s)
        u = s.at.dual_vector
        length = self.eta * problem.unit * problem.norm.dual(u)
        return replace(s, t=s.t + 1, at=problem.at(inside(problem.norm, s.w, u, length, s.R_k)))


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
