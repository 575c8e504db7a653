"""Ours: every algorithm of the library in its own norm on seven sets, its rate beside the published one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from prgd import datasets
from prgd.core.types import Array
from prgd.maxmargin import max_margin
from prgd.problem import Problem
from prgd_paper.reproduce.curves import counted_steps, padded, record_times
from prgd_paper.reproduce.experiment import OURS, Experiment, Row
from prgd_paper.studies._every_method_views import draw as draw
from prgd_paper.studies._every_method_views import reading as reading
from prgd_paper.studies._every_method_views import tables as tables
from prgd_paper.studies._methods import Raced, listed, unlisted

FIXED = ("toy", "digits 0 and 1")  # sets that no seed changes
CURVE = ("t", "passes", "error", "worst", "upper", "log_loss")
RUN = ("gamma_star", "resolution", "floor", "n", "unit", "eta", "separated", "ended")
COLUMNS = ("kind", "norm", "set", "seed", "method", *CURVE, *RUN)


@dataclass(frozen=True)
class Settings:
    """Steps of every method, its warm-up counted; the sets; the schedules of PRGD.

    A run ends early when the error of a whole block of steps is below what can be resolved: ``widths`` times
    the certified interval of gamma_star, at least ``rounding``. ``per_decade`` blocks a decade are kept, and
    as many more, evenly spaced in t.
    """

    seeds: int = 3
    steps: int = 10_000
    warm_up: int = 1_000
    growth: float = 1.2  # PRGD in l2 has the schedules of Section 7.1
    phase: int = 5
    alpha: float = 0.6
    beta: float = 0.6
    other_growth: float = 1.05  # ratio of successive radii in other norms than l2, our choice
    toy_gamma_star: float = 0.3
    digit_rows: int = 300
    planted: tuple[tuple[int, int], ...] = ((100, 5), (200, 20))  # rows and columns of the Gaussian sets
    shift: float = 0.3  # distance by which their rows are moved away from the planted hyperplane
    classes: tuple[int, int] = (60, 5)  # rows and columns of the set of three classes
    per_decade: int = 40
    tol: float = 1e-13  # relative gap that max_margin is asked for
    widths: float = 5.0
    rounding: float = 1e-12


def planted(seed: int, n: int, d: int, shift: float) -> tuple[Array, Array]:
    """Return Gaussian rows moved away from a random hyperplane through 0, and the sides they are on.

    Examples
    --------
    >>> X, y = planted(0, 10, 3, 0.3)
    >>> X.shape, sorted(set(y.tolist()))
    ((10, 3), [-1.0, 1.0])
    """
    rng = np.random.default_rng([seed, d])
    X, v = rng.standard_normal((n, d)), rng.standard_normal(d)
    v /= np.linalg.norm(v)
    y = np.where(X @ v > 0.0, 1.0, -1.0)
    return X + shift * y[:, None] * v, y


def three_classes(seed: int, n: int, d: int) -> tuple[Array, Any]:
    """Return Gaussian rows around three random means, and their classes 0, 1, 2.

    A matrix W separates the rows by construction: the noise of each row is halved until its mean is ahead.
    """
    rng = np.random.default_rng([seed, 3])
    means, y = rng.standard_normal((3, d)), np.arange(n) % 3
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    noise = 0.4 * rng.standard_normal((n, d))
    for i, label in enumerate(y):
        while np.argmax(means @ (means[label] + noise[i])) != label:
            noise[i] *= 0.5
    return means[y] + noise, y


def sets_of(method: Raced, settings: Settings, seed: int) -> list[str]:
    """Return the names of the sets on which a method runs for a seed."""
    if method.is_joint:
        return ["three classes"]
    drawn = ["synthetic I", "synthetic II", *(f"Gaussian, d = {d}" for _, d in settings.planted)]
    return [*FIXED, *drawn] if seed == 0 else drawn


def _rows_of(name: str, settings: Settings, seed: int) -> tuple[Any, Any]:
    if name == "three classes":
        return three_classes(seed, *settings.classes)
    if name.startswith("Gaussian"):
        sizes = {f"Gaussian, d = {d}": (n, d) for n, d in settings.planted}
        return planted(seed, *sizes[name], settings.shift)
    made = {
        "synthetic I": lambda: datasets.synthetic_one(seed),
        "synthetic II": lambda: datasets.synthetic_two(seed),
        "toy": lambda: datasets.toy(settings.toy_gamma_star),
        "digits 0 and 1": lambda: datasets.digits(0, 1, settings.digit_rows),
    }
    data = made[name]()
    return data.X, data.y


class LargestMargin(NamedTuple):
    """The largest margin: the upper end of its certified interval, and the width over it."""

    gamma_star: float
    resolution: float


@cache
def _reference(name: str, settings: Settings, seed: int, norm: str) -> LargestMargin:
    X, y = _rows_of(name, settings, seed)
    joint = "joint" if name == "three classes" else None
    found = max_margin(X, y, norm=norm, fit_intercept=False, multi_class=joint, tol=settings.tol, n_jobs=1)
    return LargestMargin(found.certificate.upper, found.certificate.gap)


def methods(settings: Settings) -> list[Raced]:
    """Return every algorithm of the library, those without an entry of their own last."""
    s = settings
    known = listed(s.growth, s.phase, s.alpha, s.beta, s.other_growth)
    return known + unlisted(known)


def tasks(settings: Settings) -> list[str]:
    """Return one task for each method and seed."""
    return [f"{e.slug}-seed-{seed}" for seed in range(settings.seeds) for e in methods(settings)]


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the errors of one method on every set of a seed, and what is known about each run."""
    slug, _, seed = task.rpartition("-seed-")
    (method,) = (e for e in methods(settings) if e.slug == slug)
    rows: list[Row] = []
    for name in sets_of(method, settings, int(seed)):
        base = {"norm": method.norm, "set": name, "seed": int(seed), "method": method.name}
        rows += [base | row for row in _race(method, settings, name, int(seed))]
    return padded(rows, COLUMNS)


def _race(method: Raced, settings: Settings, name: str, seed: int) -> list[Row]:
    if method.note:
        return [{"kind": "run", "ended": f"not run: {method.note}"}]
    found = _reference(name, settings, seed, method.norm)
    floor = max(settings.widths * found.resolution, settings.rounding)
    X, y = _rows_of(name, settings, seed)
    problem = Problem(X, y, loss=method.loss, norm=method.norm, n_jobs=1)
    times = record_times(settings.steps, settings.per_decade).tolist()
    even = np.linspace(0, settings.steps, 3 * settings.per_decade + 1)[1:].round().astype(int)
    times = sorted({*times, *even.tolist()})
    rows: list[Row] = []
    worst, upper, separated, ended = 0.0, math.inf, -1, "steps"
    for t, s in islice(counted_steps(problem, method.algorithm, method.warm_up, settings.warm_up), 1, None):
        if not s.at.is_finite:
            ended = "diverged"
            break
        error = 1.0 - s.at.gamma / found.gamma_star if s.at.length > 0.0 else 1.0
        worst, upper = max(worst, error), min(upper, s.at.upper, s.own_upper)
        separated = t if separated < 0 and error < 1.0 else separated
        if t == times[len(rows)]:
            # Newton's own count has the products of its inner solver too.
            passes = float(getattr(s, "row_reads", problem.passes))
            values = (t, passes, error, worst, upper / found.gamma_star - 1.0, s.at.log_loss)
            rows.append({"kind": "curve"} | dict(zip(CURVE, values, strict=True)))
            if worst <= floor:
                ended = "resolution"
            if worst <= floor or t == settings.steps:
                break
            worst = 0.0
    eta = getattr(method.algorithm, "eta", math.nan)
    facts = (*found, floor, problem.n, problem.unit, eta, separated, ended)
    return [*rows, {"kind": "run"} | dict(zip(RUN, facts, strict=True))]


EXPERIMENT = Experiment.of_module(
    __name__,
    order=13.5,
    title="The race of all methods",
    where=OURS,
    quick=Settings(seeds=1, steps=300, warm_up=100, planted=((40, 5),), digit_rows=60, per_decade=20),
    seconds=2.0,
)
