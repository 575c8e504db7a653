"""Ours: exponentially fast without Assumption 5.4, by the dual vector of NGD and by Newton's displacement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from prgd import datasets
from prgd.algorithms import GD, NGD, DualAcceleration, ProgressiveNewton, RestartedNGD
from prgd.problem import Problem
from prgd.problem.certificate import Certificate, certify
from prgd.problem.coding import Evaluation
from prgd_paper.reproduce.curves import Schedules, counted_steps, padded, record_times
from prgd_paper.reproduce.curves import methods as papers_methods
from prgd_paper.reproduce.experiment import OURS, Experiment, Row
from prgd_paper.studies._exponential_views import draw as draw
from prgd_paper.studies._exponential_views import reading as reading
from prgd_paper.studies._exponential_views import tables as tables
from prgd_paper.theory.dual_vector import divergence, linear_rate
from prgd_paper.theory.nondegeneracy import assumptions
from prgd_paper.theory.samples import path_problem
from prgd_paper.theory.support import signed_rows

COLUMNS = ("kind", "set", "seed", "method", "t", "passes", "w", "second", "now", "upper", "name", "value")
CURVE = ("t", "passes", "w", "second", "now", "upper")
DRAWN = ("synthetic I", "synthetic II")  # sets that a seed changes


@dataclass(frozen=True)
class Settings(Schedules):
    """Steps of every method, its warm-up counted; the sets; the schedules of PRGD.

    GD and PRGD take ``short`` steps, NGD, dual acceleration and restarted NGD ``steps``. PRGD(poly) has
    ``alpha`` and ``beta`` on the synthetic sets and ``digit_power`` for both on the others. A run ends early
    once its certified gap, by the margin of w alone, is below the last level.
    """

    seeds: int = 2
    steps: int = 20_000
    short: int = 3_000
    newton: int = 100
    digit_power: float = 0.6
    toy_gamma_star: float = 0.3
    digit_rows: tuple[int, ...] = (300, 0)  # 0 stands for all rows
    levels: tuple[float, ...] = (1e-4, 1e-6, 1e-9)
    planted: tuple[int, ...] = (17, 11)  # seeds of path_problem: support that does not span, an idle row
    planted_size: int = 12
    per_decade: int = 40


def tasks(settings: Settings) -> list[str]:
    """Return one task for each set and seed."""
    drawn = [f"{name}, seed {seed}" for name in DRAWN for seed in range(settings.seeds)]
    digits = [f"digits 0 and {k}, {n or 'all'} rows" for n in settings.digit_rows for k in (1, 4)]
    return ["toy", *drawn, *digits, *(f"planted {seed}" for seed in settings.planted)]


class Set(NamedTuple):
    """A data set, its seed, and the powers of PRGD(poly)."""

    name: str
    seed: int
    data: Any
    schedules: Schedules


def _set(settings: Settings, task: str) -> Set:
    name, _, rest = task.partition(", ")
    slow = replace(settings, alpha=settings.digit_power, beta=settings.digit_power)
    if name == "toy":
        return Set(name, 0, datasets.toy(settings.toy_gamma_star), settings)
    if name in DRAWN:
        seed = int(rest.removeprefix("seed "))
        make = datasets.synthetic_one if name == DRAWN[0] else datasets.synthetic_two
        return Set(name, seed, make(seed), settings)
    if name.startswith("planted"):
        drawn = path_problem(int(name.removeprefix("planted ")), settings.planted_size)
        return Set(f"planted, {drawn.kind}", 0, drawn.Z, slow)
    rows = rest.removesuffix(" rows")
    data = datasets.digits(0, int(name[-1]), None if rows == "all" else int(rows))
    return Set(task, 0, data, slow)


def _problem(data: Any) -> Problem:
    return Problem(signed_rows(data), n_jobs=1)


class Contender(NamedTuple):
    """A method, the steps of GD before it, and those of its own."""

    name: str
    algorithm: Any
    warm_up: int
    steps: int


def entrants(settings: Settings, schedules: Schedules) -> list[Contender]:
    """Return the paper's methods and ours, each with its steps."""
    s = settings
    prgd = [
        Contender(m.name, m.algorithm, s.warm_up, s.short - s.warm_up)
        for m in papers_methods(schedules)
        if m.is_warm
    ]
    return [
        Contender("GD", GD(s.eta), 0, s.short),
        Contender("NGD", NGD(s.eta), 0, s.steps),
        *prgd,
        Contender("dual acceleration", DualAcceleration(s.eta), 0, s.steps),
        Contender("restarted NGD", RestartedNGD(s.eta), 0, s.steps),
        Contender("progressive-rescaling Newton", ProgressiveNewton(), 0, s.newton),
    ]


class BestBounds:
    """The best certified bounds so far, with and without the margins of second directions, and passages.

    Attributes
    ----------
    alone, both : Certificate
        The bounds by iterates alone, and by both.
    second : float
        The largest margin of a second direction.
    with_second, without_second : dict of float to int
        The first step with a certified gap of at most a level: by both margins, and by that of w alone.
    """

    def __init__(self, levels: Sequence[float]) -> None:
        self.levels, self.second = levels, -math.inf
        self.alone = self.both = Certificate()
        self.with_second: dict[float, int] = {}
        self.without_second: dict[float, int] = {}

    def see(self, t: int, at: Evaluation) -> None:
        """Take the pass of step t into account."""
        self.second = max(self.second, at.second_gamma)
        self.alone = self.alone.best(certify(type(at)(at.problem, at.w, at.tally)))
        self.both = self.both.best(certify(at))
        for found, best in ((self.without_second, self.alone), (self.with_second, self.both)):
            found.update({level: t for level in self.levels if level not in found and best.gap <= level})


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the margin errors of every method on one set, when it is certified, and facts about the set."""
    found = _set(settings, task)
    report, base = assumptions(found.data), {"set": found.name, "seed": found.seed}
    reference = report.reference
    if reference is None:
        raise ValueError(f"The set {task!r} is not separable: it has no margin to compare with.")
    problem, strict = _problem(found.data), report.positive_dual.holds is True
    eta, Z = settings.eta * problem.unit, signed_rows(found.data)
    rate = linear_rate(Z, reference.w_star, reference.support, eta) if strict else math.nan
    facts = {
        "n": report.n,
        "d": report.d,
        "gamma_star": reference.gamma_star,
        "support": report.n_support,
        "support rank": report.support_rank,
        "data rank": report.data_rank,
        "strict complementarity": strict,
        "assumption 5.4": report.is_nondegenerate,
        "predicted rate": rate,
        "divergence": divergence(reference.dual_weights),
        "eta": eta,
    }
    rows = [base | {"kind": "fact", "name": name, "value": float(value)} for name, value in facts.items()]
    for entrant in entrants(settings, found.schedules):
        columns = base | {"method": entrant.name}
        rows += [columns | row for row in _race(entrant, settings, found.data, reference.gamma_star)]
    return padded(rows, COLUMNS)


def _race(entrant: Contender, settings: Settings, data: Any, gamma_star: float) -> list[Row]:
    problem = _problem(data)
    best, last = BestBounds(settings.levels), entrant.warm_up + entrant.steps
    rows: list[Row] = []
    times = {*record_times(last, settings.per_decade).tolist(), *range(0, last + 1, max(1, last // 200))}
    warm_up = GD(settings.eta) if entrant.warm_up else None
    for t, s in counted_steps(problem, entrant.algorithm, warm_up, entrant.warm_up):
        best.see(t, s.at)
        ended = getattr(s, "is_done", False) or settings.levels[-1] in best.without_second or t == last
        if t >= 1 and (t in times or ended):
            passes = float(getattr(s, "row_reads", problem.passes))  # Newton's has its inner products, too
            now = 1.0 - s.at.second_gamma / gamma_star if s.at.v is not None else math.nan
            errors = (1.0 - best.alone.lower / gamma_star, 1.0 - best.second / gamma_star, now)
            values = (t, passes, *errors, best.alone.upper / gamma_star - 1.0)
            rows.append({"kind": "curve"} | dict(zip(CURVE, values, strict=True)))
        if ended:
            break
    for level in settings.levels:
        with_v, without = (found.get(level, -1) for found in (best.with_second, best.without_second))
        rows.append({"kind": "certified", "value": level, "w": without, "second": with_v, "t": last})
    return rows


EXPERIMENT = Experiment.of_module(
    __name__,
    order=14.5,
    title="Exponential without Assumption 5.4",
    where=OURS,
    quick=Settings(seeds=1, steps=2_000, short=1_500, newton=60, digit_rows=(300,), per_decade=20),
    seconds=3.0,
)
