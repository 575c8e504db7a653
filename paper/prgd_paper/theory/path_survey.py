"""All statements about the path, asked of one problem in every setting; claims and the campaign call this."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array
from prgd.norms import L1, L2, Linf, Norm
from prgd_paper.theory import path_checks as checks
from prgd_paper.theory import path_limits as limits
from prgd_paper.theory.entropies import entropy_excess_bound
from prgd_paper.theory.path import path_points
from prgd_paper.theory.path_point import PathPoint
from prgd_paper.theory.path_problems import PathProblem
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
STRICT = ("no span", "thin")  # planted kinds in which every margin row carries weight
IDLE = ("zero-weight rows", "uniform weights")


def path_readings(problem: PathProblem, setting: str, points: int = 7) -> Iterator[checks.Reading]:
    """Yield readings of E4 to E8 along the path of a problem, and at random points around it.

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


def point_readings(point: PathPoint, lam: float, gamma_star: float, rng: Any) -> Iterator[checks.Reading]:
    """Yield readings of E4 to E8 at a point of the path, and at random points around it."""
    yield from checks.identity_of_the_gap(point)
    yield from checks.bound_of_delta(point)
    yield from (
        reading
        for reading in checks.gap_on_the_path(point, lam, gamma_star or math.inf)
        if gamma_star or reading.statement != "E6 bound"
    )
    factors = rng.uniform(0.5, 1.5, point.w.size).astype(point.w.dtype)
    other = PathPoint(point.Z, point.w * factors, point.norm, point.groups)
    yield from checks.identity_of_the_gap(other)
    yield from checks.bound_of_delta(other)
    yield from checks.rescaled_gap(point, lam, 8.0, other)
    yield from checks.rescaled_gap(other, lam, 1.5, point)
    if not isinstance(point.norm, L2):
        return
    yield from checks.unsettled_part(other, lam)
    # Half of the directions are combinations of rows: these move margins, others only the length of w.
    along = rng.standard_normal(point.w.size)
    if rng.random() < 0.5:
        along = np.asarray(point.Z.T @ rng.standard_normal(point.Z.shape[0]))
    for least in (0.0, 1.0):  # the gate against Delta alone, and against max(Delta, 1)
        moved = checks.gated(point, lam, along.astype(point.w.dtype), least)
        if moved is not None and gamma_star:
            yield from checks.gate_constants(moved, lam, gamma_star, least)


def any_point_readings(Z: Any, signs: Any, seed: int) -> Iterator[checks.Reading]:
    """Yield readings of E4, E5 and E7 at random w of all lengths, in float64.

    Half of them have sample weights. The last one is E5's extreme case: one row of weight 1 and n - 1 others
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
            yield from checks.identity_of_the_gap(point)
            yield from checks.bound_of_delta(point)
            # U may be 0 on rows that are not separable, and the penalty must not.
            size = max(point.upper, abs(point.margins).max() / point.length)
            lam = float(size / point.length) * 10.0 ** rng.uniform(-1.0, 1.0)
            yield from checks.rescaled_gap(point, lam, float(rng.uniform(1.0, 10.0)), other)
    bound = entropy_excess_bound(n)
    extreme = PathPoint(np.array([[0.0], *[[1.0 + bound]] * (n - 1)]), np.ones(1))
    yield checks.Reading("E5 attained", abs(float(extreme.delta) - bound), 0.0, 16.0 * n * 2.0**-52, bound)


def limit_readings(problem: PathProblem) -> Iterator[checks.Reading]:
    """Yield readings of E9 and E10, or E11, of planted problems, and of E12 of others."""
    if problem.kind in STRICT:
        yield from limits.expansion_readings(problem)
        yield from limits.one_system_readings(problem)
    elif problem.kind in IDLE:
        yield from limits.drift_readings(problem)
    else:
        for norm in (L1(), Linf()):
            yield from limits.vertex_readings(problem.Z, norm)


class Summary(NamedTuple):
    """Readings of one statement: how many, how many refute it, and how near the bound they come.

    ``sharp`` counts readings whose tolerance is at most a tenth of what they compare.

    ``median`` and ``extreme`` are of measured over bound; of an identity, of the error over what it compares.
    ``used`` is the largest part of a tolerance that was needed, beyond the bound.
    """

    readings: int
    sharp: int
    violations: int
    median: float
    extreme: float
    used: float


def summarise(readings: Iterable[checks.Reading]) -> dict[str, Summary]:
    """Return a summary of each statement, in the order of first readings."""
    groups: dict[str, list[checks.Reading]] = defaultdict(list)
    for reading in readings:
        groups[reading.statement].append(reading)
    found = {}
    for name, group in groups.items():
        sharp = np.array([r.tightness for r in group])
        sharp = sharp[np.isfinite(sharp)]
        n_sharp = int(sharp.size)
        sharp = sharp if sharp.size else np.array([math.nan])
        median, extreme = float(np.median(sharp)), float(sharp.max())
        used: Array = np.array([(r.measured - r.bound) / r.tolerance for r in group if r.tolerance > 0.0])
        violations = sum(r.is_violated for r in group)
        found[name] = Summary(len(group), n_sharp, violations, median, extreme, float(used.max(initial=0.0)))
    return found
