r"""Theorems 8, 10 and 11 of docs/note/note.md, asked of points of a problem: measured, and the bound.

A tolerance is a bound on rounding, or follows from how far the point is from the minimiser; it is stated
where it is made. A reading that exceeds its bound by more than the tolerance refutes the statement.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array
from prgd.norms import L1, L2, Linf, Norm
from prgd_paper.theory.entropies import classes_of, entropy_excess_bound
from prgd_paper.theory.path import path_points
from prgd_paper.theory.path_point import PathPoint
from prgd_paper.theory.samples import PathProblem
from prgd_paper.theory.support import max_margin_reference

SETTINGS: dict[str, tuple[Norm, bool]] = {
    "l2": (L2(), False),
    "l2 with an intercept": (L2(), True),
    "l1": (L1(), False),
    "linf": (Linf(), False),
}
# Largest B R: margins are rounded to about eps B R. In l2 the gap feels the square of what that leaves of the
# gradient; in l1 and l-infinity it feels the gradient itself, so that R^2 counts.
LARGEST = {"l2": 1e11, "l2 with an intercept": 1e11, "l1": 1e6, "linf": 1e6}


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
    """E8: ``<w, u> - min <w, z_i> = Delta``, and the gap is the sum of its two parts.

    Tolerance: the rounding of margins and sums, `PathPoint.rounding`; divided by R where the identity is,
    and that of U.
    """
    excess = point.entropy() - point.entropy(math.inf)  # Delta from p alone: the margins are the other side
    mean = point.dual_vector @ point.w
    slack = 2.0 * point.rounding
    yield Reading("E8", float(abs(mean - point.smallest_margin - excess)), 0.0, slack, float(excess) or slack)
    gap = point.upper - point.gamma
    parts = point.unsettled + point.delta / point.length
    slack = slack / float(point.length) + _eps(point) * float(point.upper)
    yield Reading("E8 split", float(abs(gap - parts)), 0.0, slack, float(gap) or 1.0)


def bound_of_delta(point: PathPoint) -> Iterator[Reading]:
    """E8: ``0 <= Delta <= LambertW((n - 1) / e)``, below log n. Tolerance: relative rounding of the sum."""
    n = point.Z.shape[0]
    bound = entropy_excess_bound(n, point.sample_weight, point.groups)
    delta = float(point.delta)
    yield Reading("E8 bound", delta, bound, _eps(point) * max(bound, 1.0))
    yield Reading("E8 sign", -delta, 0.0, 0.0, bound)
    if point.groups is None and point.sample_weight is None and n > 1:
        yield Reading("E8 log n", bound, math.log(n), 0.0)


def gap_on_the_path(point: PathPoint, lam: float, gamma_star: float) -> Iterator[Reading]:
    r"""E10: at the minimiser ``U = lam R`` and the relative gap is ``lam Delta / U^2``.

    Tolerance: a residual eta (distance of u from ``lam R`` times the subdifferential) changes U by at most
    eta and leaves an unsettled part of at most ``eta^2 / (2 lam R)`` in l2, ``2 eta`` in other norms; a
    duality gap G leaves ``sqrt(2 lam G)`` and ``G / R``. So the gap differs from ``lam Delta / U^2`` by
    ``unsettled / U + Delta |U - lam R| / (R U^2)`` at most, besides the rounding of E8.

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
    yield Reading("E10 U = lam R", off, 0.0, eta + _eps(point) * U, U)
    yield Reading("E10", float(abs(gap - claimed)), 0.0, slack, float(claimed) or slack)
    yield Reading("E10 bound", float(gap), lam * float(point.delta) / gamma_star**2, slack)


def rescaled_gap(point: PathPoint, lam: Any, rho: Any, other: PathPoint) -> Iterator[Reading]:
    r"""E11: ``G_{lam/rho}(rho w, p) <= rho G_lam(w, p) + (rho - 1) H_1(p)``, an equality at p = p(w).

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
    yield Reading("E11 equality", float(error), 0.0, slack, float(gap) or slack)
    yield Reading("E11 Delta", float(drop), float(point.delta), 4.0 * point.rounding)
    short = (point.upper - lam * point.length) ** 2 / (2.0 * lam) + point.length * point.unsettled
    yield Reading("E11 gap of p(w)", float(abs(plain - short)), 0.0, slack, float(plain) or slack)
    bound = rho * point.duality_gap(lam, other) + (rho - 1.0) * (other.entropy() - _least_entropy(point))
    yield Reading("E11", float(scaled.duality_gap(lam / rho, other)), float(bound), slack)
    yield Reading("E11 sign", -float(plain), 0.0, slack, max(float(plain), slack))


def _least_entropy(point: PathPoint) -> float:
    """Return the smallest possible entropy, ``log q_min``, the mean over groups; 0 without sample weights."""
    if point.sample_weight is None:
        return 0.0
    q = np.asarray(point.sample_weight)
    found = [math.log(q[mask].min()) for mask in classes_of(q.size, point.groups)]
    return sum(found) / len(found)


def path_readings(problem: PathProblem, setting: str, points: int = 7) -> Iterator[Reading]:
    """Yield readings of E8 to E11 along the path of a problem, and at random points around it.

    Penalties are ``B^2, B^2 / 100, ...``, at most ``points`` of them, while rounding allows.
    """
    norm, with_intercept = SETTINGS[setting]
    groups = problem.signs if with_intercept else None
    rng = np.random.default_rng([len(problem.Z), problem.Z.shape[1], len(setting)])
    B = max(norm.dual(z) for z in problem.Z)
    found = []
    lams = B**2 * 100.0 ** -np.arange(points)
    for lam, point in zip(lams, path_points(problem.Z, lams, norm, groups), strict=True):
        if B * float(point.length) > LARGEST[setting]:
            break
        found.append((float(lam), point))
    gamma_star = _lower_bound(problem, setting, found[-1][1])
    for lam, point in found:
        yield from point_readings(point, lam, gamma_star, rng)


def _lower_bound(problem: PathProblem, setting: str, last: PathPoint) -> float:
    """Return gamma_star of l2, or the margin of the last point of the path; 0 if that separates nothing."""
    if setting == "l2":
        return float(problem.gamma_star or max_margin_reference(problem.Z).certificate.lower)
    return max(float(last.gamma), 0.0)


def point_readings(point: PathPoint, lam: float, gamma_star: float, rng: Any) -> Iterator[Reading]:
    """Yield readings of E8 to E11 at a point of the path, and at random points around it."""
    yield from identity_of_the_gap(point)
    yield from bound_of_delta(point)
    yield from (
        reading
        for reading in gap_on_the_path(point, lam, gamma_star or math.inf)
        if gamma_star or reading.statement != "E10 bound"
    )
    factors = rng.uniform(0.5, 1.5, point.w.size).astype(point.w.dtype)
    other = PathPoint(point.Z, point.w * factors, point.norm, point.groups)
    yield from identity_of_the_gap(other)
    yield from bound_of_delta(other)
    yield from rescaled_gap(point, lam, 8.0, other)
    yield from rescaled_gap(other, lam, 1.5, point)


def any_point_readings(Z: Any, signs: Any, seed: int) -> Iterator[Reading]:
    """Yield readings of E8, E8 and E11 at random w of all lengths, in float64.

    Half of them have sample weights. The last one is E8's extreme case: one row of weight 1 and n - 1 others
    attain the bound.
    """
    rng = np.random.default_rng([180, seed])
    n, d = Z.shape
    direction = rng.standard_normal(d)
    for norm, _ in SETTINGS.values():
        scale = 10.0 ** rng.uniform(-2.0, 5.5) / norm(direction)
        for weight in (None, rng.uniform(0.1, 10.0, size=n)):
            groups = signs if rng.random() < 0.5 else None
            point, other = (
                PathPoint(Z, scale * direction * factor, norm, groups, weight)
                for factor in (1.0, rng.uniform(0.5, 1.5, d))
            )
            yield from identity_of_the_gap(point)
            yield from bound_of_delta(point)
            # U may be 0 on rows that are not separable, and the penalty must not.
            size = max(point.upper, abs(point.margins).max() / point.length)
            lam = float(size / point.length) * 10.0 ** rng.uniform(-1.0, 1.0)
            yield from rescaled_gap(point, lam, float(rng.uniform(1.0, 10.0)), other)
    bound = entropy_excess_bound(n)
    extreme = PathPoint(np.array([[0.0], *[[1.0 + bound]] * (n - 1)]), np.ones(1))
    yield Reading("E8 attained", abs(float(extreme.delta) - bound), 0.0, 16.0 * n * 2.0**-52, bound)


class Summary(NamedTuple):
    """Readings of one statement: how many, how many refute it, and how near the bound they come.

    ``median`` and ``extreme`` are of measured over bound (of an identity, of the error over what it compares)
    where the tolerance is at most a tenth of that.
    ``used`` is the largest part of a tolerance that was needed, beyond the bound.
    """

    readings: int
    violations: int
    median: float
    extreme: float
    used: float


def summarise(readings: Iterable[Reading]) -> dict[str, Summary]:
    """Return a summary of each statement, in the order of first readings."""
    groups: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        groups[reading.statement].append(reading)
    found = {}
    for name, group in groups.items():
        tight = [r.tightness for r in group if math.isfinite(r.tightness)] or [math.nan]
        used: Array = np.array([(r.measured - r.bound) / r.tolerance for r in group if r.tolerance > 0.0])
        violations = sum(r.is_violated for r in group)
        found[name] = Summary(
            len(group), violations, float(np.median(tight)), max(tight), float(used.max(initial=0.0))
        )
    return found
