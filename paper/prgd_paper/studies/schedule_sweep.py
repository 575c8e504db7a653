"""Ours: the schedules of PRGD swept: c of R_0 c^k and the phase length, a and b of the polynomial ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from prgd import datasets
from prgd.algorithms import NGD, PRGD
from prgd.problem import Problem
from prgd.schedules import Every, Geometric, Polynomial, PolynomialPhases
from prgd_paper.claims import Finding, claim
from prgd_paper.report.elements import Table, small
from prgd_paper.reproduce.curves import warm_start, watch, where
from prgd_paper.reproduce.experiment import OURS, Experiment, Row
from prgd_paper.theory.support import max_margin_reference

COLUMNS = ("set", "family", "first", "second", "t", "error")
LABELS = {
    "geometric": ("c of R_k = R_0 c^k", "steps a phase"),
    "polynomial": ("a of R_k = R_0 (k+1)^a", "b of T_{k+1} - T_k = 5 (k+1)^b"),
}


@dataclass(frozen=True)
class Settings:
    """The grids, and the steps after the warm-up at which errors are read."""

    growths: tuple[float, ...] = (1.01, 1.03, 1.1, 1.2, 1.5, 2.0, 4.0)
    phases: tuple[int, ...] = (2, 5, 10, 20, 50)
    powers: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
    phase_powers: tuple[float, ...] = (0.0, 0.3, 0.6, 0.9, 1.2)
    first_phase: int = 5  # T_0 of the polynomial phases, ours
    tuned: tuple[float, float] = (0.6, 0.6)  # Section 7.1's alpha and beta
    times: tuple[int, ...] = (1_000, 10_000)
    warm_up: int = 1_000
    eta: float = 1.0
    seed: int = 0  # of synthetic-one
    digit_rows: int = 300


SETS = ("synthetic-one", "digit-01")


def tasks(settings: Settings) -> list[str]:
    """Return one task for each column of each grid, and one for NGD on each set."""
    lines = [f"{s}-geometric-{growth}" for s in SETS for growth in settings.growths]
    lines += [f"digit-01-polynomial-{power}" for power in settings.powers]
    return lines + [f"{s}-ngd-0" for s in SETS]


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the margin errors of one column of a grid, relative to gamma_star."""
    name, family, value = task.rsplit("-", 2)
    data = (
        datasets.synthetic_one(settings.seed)
        if name == "synthetic-one"
        else datasets.digits(0, 1, settings.digit_rows)
    )
    gamma_star = data.gamma_star or max_margin_reference(data).gamma_star
    problem = Problem(data.X, data.y, scale="none", n_jobs=1)
    warm = warm_start(problem, settings.warm_up, settings.eta)
    first, T_0, eta = float(value), settings.first_phase, settings.eta
    grid: dict[float, Any] = {0.0: NGD(eta)}
    if family == "geometric":
        grid = {float(T): PRGD(Geometric(first), Every(T), eta) for T in settings.phases}
    elif family == "polynomial":
        grid = {b: PRGD(Polynomial(first), PolynomialPhases(T_0, b), eta) for b in settings.phase_powers}
    # Geometric radii freeze w early, so the long horizon would show the same errors.
    times = settings.times[:1] if family == "geometric" else settings.times
    rows: list[Row] = []
    for second, algorithm in grid.items():
        seen = watch(problem, algorithm, None if family == "ngd" else warm, max(times))
        for t in times:
            error = (gamma_star - seen.margin[t]) / gamma_star
            rows.append(dict(zip(COLUMNS, (name, family, first, second, t, float(error)), strict=True)))
    return rows


def _ngd(rows: Any, name: str, t: int) -> float:
    return float(where(rows, set=name, family="ngd", t=t).error.iloc[0])


def tables(rows: Any, settings: Settings) -> list[Table]:
    """Return the relative margin error of each schedule of the grids."""
    early, late = settings.times[0], settings.times[-1]
    cells = (
        ("synthetic-one", "geometric", early),
        ("digit-01", "geometric", early),
        ("digit-01", "polynomial", early),
        ("digit-01", "polynomial", late),
    )
    return [_table(rows, *cell) for cell in cells]


def _table(rows: Any, name: str, family: str, t: int) -> Table:
    ngd, (first, second) = _ngd(rows, name, t), LABELS[family]
    errors = where(rows, set=name, family=family, t=t).pivot(index="second", columns="first", values="error")
    lines = [
        {second: f"{b:g}"} | {f"{a:g}": f"{small(e)}{'*' * (e < ngd)}" for a, e in line.items()}
        for b, line in errors.iterrows()
    ]
    caption = (
        f"{name} after {t:,} steps: relative margin error, by {first} (columns) and {second}; a star: below "
        f"NGD's {small(ngd)}."
    )
    return Table.of(caption, lines, numbers=tuple(lines[0]))


def _stars(rows: Any, name: str, family: str, t: int) -> tuple[int, int]:
    some = where(rows, set=name, family=family, t=t)
    return int((some.error < _ngd(rows, name, t)).sum()), len(some)


@claim(
    "section-7.1-tuned",
    where="Section 7.1, Figure 4",
    experiment="schedule-sweep",
    quote=r"The results with well-tuned hyperparameters $\alpha=\beta=0.6$",
)
def paper_schedule_is_well_tuned(rows: Any, settings: Settings) -> Finding:
    """Alpha = beta = 0.6 is well tuned for the digits.

    Rank the paper's exponents among those of the grid.
    """
    words, ranks = [], []
    for t in settings.times:
        at = where(rows, set="digit-01", family="polynomial", t=t).sort_values("error")
        first, second = settings.tuned
        ours = float(where(at, first=first, second=second).error.iloc[0])
        rank = 1 + int((at.error < ours).sum())
        best = at.iloc[0]
        ranks.append(rank)
        words.append(
            f"at step {t:,} it is number {rank} of {len(at)} (error {ours:.1e}; the best, alpha = "
            f"{best['first']:g}, beta = {best['second']:g}, has {best.error:.1e}; NGD "
            f"{_ngd(rows, 'digit-01', t):.1e})"
        )
    n = len(settings.powers) * len(settings.phase_powers)
    return Finding(
        ((float(min(ranks)), float(max(ranks))), "<=", math.ceil(n / 4)),
        f"On digit-01, first {settings.digit_rows} rows, {'; '.join(words)}. Well tuned means the best "
        "quarter of the grid here.",
        f"T_0 = {settings.first_phase} and the horizons are ours.",
        what="rank among the grid, at two horizons",
        setting=f"A grid of {n} pairs (alpha, beta), horizons of "
        f"{' and '.join(f'{t:,}' for t in settings.times)} steps after {settings.warm_up:,} of GD, T_0 = "
        f"{settings.first_phase} (all ours).",
        not_given="the horizon, T_0 or the grid of its tuning",
        would_change="The paper's horizon and T_0: the best exponents depend on both.",
    )


def reading(rows: Any, settings: Settings) -> str:
    """Return what the grids show, in figures."""
    early, late = settings.times[0], settings.times[-1]
    one = _stars(rows, "synthetic-one", "geometric", early)
    two = _stars(rows, "digit-01", "geometric", early)
    three, four = (_stars(rows, "digit-01", "polynomial", t) for t in (early, late))
    return (
        f"Where the support vectors span (synthetic I) {one[0]} of {one[1]} geometric schedules beat NGD "
        f"after {early:,} steps; on digit-01, where they do not, {two[0]} of {two[1]} do. Of the polynomial "
        f"ones {three[0]} of {three[1]} beat NGD after {early:,} steps and {four[0]} of {four[1]} after "
        f"{late:,}."
    )


EXPERIMENT = Experiment.of_module(
    __name__,
    order=9,
    title="Sweep over schedules",
    where=OURS,
    quick=Settings(
        growths=(1.03, 1.2, 2.0),
        phases=(5, 20),
        powers=(0.2, 0.6, 1.2),
        phase_powers=(0.0, 0.6),
        times=(500, 2_000),
    ),
    seconds=0.4,
)
