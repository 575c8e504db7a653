r"""The statements E4 to E8 of docs/exponential.md, asked of one point: what was measured, and its bound.

A tolerance is a bound on rounding, or follows from how far the point is from the minimiser; it is stated
where it is made. A reading that exceeds its bound by more than the tolerance refutes the statement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from prgd.norms import L2
from prgd_paper.theory.entropies import Reals, classes_of, entropy_excess_bound
from prgd_paper.theory.path_point import PathPoint

GATE = 0.3  # the largest gradient that ends a phase of ProgressiveNewton, in units of lam ||w||
FIRST_OVER_SECOND = (1.0 - math.sqrt(1.0 - GATE**2)) / GATE**2  # 0.512: of the two parts of the gap
GAP_FACTOR = (1.0 + FIRST_OVER_SECOND) * (1.0 + GATE)  # 1.97: of the gap to lam Delta / gamma_star^2


class Reading(NamedTuple):
    """One comparison ``measured <= bound`` with a tolerance; identities have the bound 0.

    ``scale`` is the size of what an identity compares, so that errors can be told relative to it.
    """

    statement: str
    measured: float
    bound: float
    tolerance: float
    scale: float = 1.0

    @property
    def is_violated(self) -> bool:
        """Whether the statement is refuted; a number that is not finite refutes it, too."""
        return not self.measured <= self.bound + self.tolerance

    @property
    def tightness(self) -> float:
        """Measured over bound; of an identity, error over scale. NaN where rounding is the larger part."""
        size = self.bound or self.scale
        return self.measured / size if size > 10.0 * self.tolerance else math.nan


def _eps(point: PathPoint) -> float:
    n, d = point.Z.shape
    return float((n + d + 16) * np.finfo(point.w.dtype).eps)


def identity_of_the_gap(point: PathPoint) -> Iterator[Reading]:
    """E4: ``<w, u> - min <w, z_i> = Delta``, and the gap is the sum of its two parts.

    Tolerance: the rounding of margins and sums, `PathPoint.rounding`; divided by R where the identity is,
    and that of U.
    """
    excess = point.entropy() - point.entropy(math.inf)  # Delta from p alone: the margins are the other side
    mean = point.dual_vector @ point.w
    slack = 2.0 * point.rounding
    yield Reading("E4", float(abs(mean - point.smallest_margin - excess)), 0.0, slack, float(excess) or slack)
    gap = point.upper - point.gamma
    parts = point.unsettled + point.delta / point.length
    slack = slack / float(point.length) + _eps(point) * float(point.upper)
    yield Reading("E4 split", float(abs(gap - parts)), 0.0, slack, float(gap) or 1.0)


def bound_of_delta(point: PathPoint) -> Iterator[Reading]:
    """E5: ``0 <= Delta <= LambertW((n - 1) / e)``, below log n. Tolerance: relative rounding of the sum."""
    n = point.Z.shape[0]
    bound = entropy_excess_bound(n, point.sample_weight, point.groups)
    delta = float(point.delta)
    yield Reading("E5", delta, bound, _eps(point) * max(bound, 1.0))
    yield Reading("E5 sign", -delta, 0.0, 0.0, bound)
    if point.groups is None and point.sample_weight is None and n > 1:
        yield Reading("E5 log n", bound, math.log(n), 0.0)


def gap_on_the_path(point: PathPoint, lam: float, gamma_star: float) -> Iterator[Reading]:
    r"""E6: at the minimiser ``U = lam R`` and the relative gap is ``lam Delta / U^2``.

    Tolerance: a residual eta (distance of u from ``lam R`` times the subdifferential) changes U by at most
    eta and leaves an unsettled part of at most ``eta^2 / (2 lam R)`` in l2, ``2 eta`` in other norms; a
    duality gap G leaves ``sqrt(2 lam G)`` and ``G / R``. So the gap differs from ``lam Delta / U^2`` by
    ``unsettled / U + Delta |U - lam R| / (R U^2)`` at most, besides the rounding of E4.

    Parameters
    ----------
    gamma_star : float, the largest margin or a lower bound of it.
    """
    U, R = float(point.upper), float(point.length)
    eta = float(point.residual(lam)) * (1.0 + _eps(point)) + _eps(point) * U
    off = float(abs(point.upper - lam * point.length))
    excess = max(float(point.duality_gap(lam)), 0.0) + _eps(point) * R * U
    settled = min(eta**2 / (2.0 * lam * R) if isinstance(point.norm, L2) else 2.0 * eta, excess / R)
    eta = min(eta, math.sqrt(2.0 * lam * excess) + _eps(point) * U)
    gap, claimed = (point.upper - point.gamma) / point.upper, lam * point.delta / point.upper**2
    rounding = 2.0 * point.rounding / (R * U) + 2.0 * _eps(point)
    slack = settled / U + float(point.delta) * eta / (R * U * U) + rounding
    yield Reading("E6 U = lam R", off, 0.0, eta + _eps(point) * U, U)
    yield Reading("E6", float(abs(gap - claimed)), 0.0, slack, float(claimed) or slack)
    yield Reading("E6 bound", float(gap), lam * float(point.delta) / gamma_star**2, slack)


def rescaled_gap(point: PathPoint, lam: Any, rho: Any, other: PathPoint) -> Iterator[Reading]:
    r"""E7: ``G_{lam/rho}(rho w, p) <= rho G_lam(w, p) + (rho - 1) H_1(p)``, an equality at p = p(w).

    With sample weights, ``H_1(p) - log q_min`` stands in place of ``H_1(p)``: entropies are at least log
    q_min, and not at least 0. Tolerance: the rounding of F, H and ``U^2 / (2 lam)``, by their sizes.

    Parameters
    ----------
    other : PathPoint of the same problem, whose dual weights are p of the inequality.
    """
    # lam / rho must not be rounded to float64 if w is longdouble.
    lam, rho = (point.w.dtype.type(value) for value in (lam, rho))
    scaled = PathPoint(point.Z, rho * point.w, point.norm, point.groups, point.sample_weight)
    size = rho * (float(abs(point.margins).max()) + lam * float(point.length) ** 2 + 1.0)
    size += rho * float(max(point.upper, other.upper)) ** 2 / lam
    slack = 4.0 * _eps(point) * size + 2.0 * rho * point.rounding
    gap = scaled.objective(lam / rho) - point.entropy() + rho * point.upper**2 / (2.0 * lam)
    plain = point.objective(lam) - point.entropy() + point.upper**2 / (2.0 * lam)
    drop = point.entropy() - point.entropy(rho)
    error = abs(gap - rho * plain - (rho - 1.0) * drop)
    yield Reading("E7 equality", float(error), 0.0, slack, float(gap) or slack)
    yield Reading("E7 Delta", float(drop), float(point.delta), 4.0 * point.rounding)
    short = (point.upper - lam * point.length) ** 2 / (2.0 * lam) + point.length * point.unsettled
    yield Reading("E7 gap of p(w)", float(abs(plain - short)), 0.0, slack, float(plain) or slack)
    bound = rho * point.duality_gap(lam, other) + (rho - 1.0) * (other.entropy() - _least_entropy(point))
    yield Reading("E7", float(scaled.duality_gap(lam / rho, other)), float(bound), slack)
    yield Reading("E7 sign", -float(plain), 0.0, slack, max(float(plain), slack))


def _least_entropy(point: PathPoint) -> float:
    """Return the smallest possible entropy, ``log q_min``, the mean over groups; 0 without sample weights."""
    if point.sample_weight is None:
        return 0.0
    q = np.asarray(point.sample_weight)
    found = [math.log(q[mask].min()) for mask in classes_of(q.size, point.groups)]
    return sum(found) / len(found)


def unsettled_part(point: PathPoint, lam: float) -> Iterator[Reading]:
    r"""E8, every w in l2: ``U - <u, w>/R = [||grad F||^2 - (U - lam R)^2] / (2 lam R)``.

    Tolerance: the rounding of squares of the size ``(U + lam R)^2``.
    """
    U, target = point.upper, lam * point.length
    slope = point.gradient(lam)
    claimed = (slope @ slope - (U - target) ** 2) / (2.0 * target)
    slack = 4.0 * _eps(point) * float((U + target) ** 2 / target)
    yield Reading("E8 identity", float(abs(point.unsettled - claimed)), 0.0, slack, float(U))
    delta = np.sqrt(slope @ slope) / target
    yield Reading("E8 part", float(point.unsettled), float(0.5 * delta**2 * target), slack)


def gated(point: PathPoint, lam: float, direction: Reals, least: float = 0.0) -> PathPoint | None:
    """Return a w at which the gate of a phase just holds: the path point, moved along a direction.

    The gate is ``||grad F|| <= min(0.3, sqrt(g)) lam R`` with ``g = max(Delta, least) / (R U)``; None if it
    fails at the path point itself, where rounding is all that is left of the gradient.
    """

    def moved(size: float) -> PathPoint:
        return PathPoint(point.Z, point.w + size * direction, point.norm, point.groups)

    def is_open(at: PathPoint) -> bool:
        g = max(at.delta, least) / (at.length * at.upper)
        return bool(np.linalg.norm(at.gradient(lam)) <= min(GATE, np.sqrt(g)) * lam * at.length)

    low, high = 0.0, float(point.length / np.linalg.norm(direction))
    if not is_open(point) or is_open(moved(high)):
        return None
    for _ in range(60):
        middle = 0.5 * (low + high) if low else high / 8.0
        low, high = (middle, high) if is_open(moved(middle)) else (low, middle)
        if low and high <= low * 1.0001:
            break
    return moved(low) if low else None


def gate_constants(point: PathPoint, lam: float, gamma_star: float, least: float = 0.0) -> Iterator[Reading]:
    """E8 at a w that passes the gate: the two parts of the gap, and the gap; nothing at any other w.

    Tolerance: the rounding of both parts.

    Parameters
    ----------
    least : float, the constant of a gate against ``max(Delta, least)``.
    """
    slack = 2.0 * point.rounding / float(point.length) + 4.0 * _eps(point) * float(point.upper)
    softness = max(float(point.delta), least)
    second = softness / float(point.length)
    delta = float(np.linalg.norm(point.gradient(lam)) / (lam * point.length))
    sharp = 1.0 / (1.0 + math.sqrt(max(1.0 - delta**2, 0.0)))  # (1 - sqrt(1 - delta^2)) / delta^2
    if delta > min(GATE, math.sqrt(second / float(point.upper))) * (1.0 + _eps(point)):
        return  # the gate does not hold
    yield Reading("E8 first part", float(point.unsettled), sharp * second, slack)
    yield Reading("E8 0.512", float(point.unsettled), FIRST_OVER_SECOND * second, slack)
    gap, bound = float((point.upper - point.gamma) / point.upper), lam * softness / gamma_star**2
    yield Reading("E8 1.97", gap, GAP_FACTOR * bound, slack / float(point.upper))
