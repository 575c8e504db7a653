"""Ours: radii that grow only when the direction has settled, and Newton steps inside the phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prgd import datasets
from prgd.algorithms import ALGORITHMS, find_algorithm
from prgd.loop import run
from prgd.problem import Problem
from prgd.reproduce.curves import EXP, POLY_DIGITS, WARM_UP, record_times, warm_start
from prgd.reproduce.experiment import OURS, Experiment, Judged, Row, judge
from prgd.reproduce.figures import Figure, Line, floored, log_log, style_of, thinned
from prgd.reproduce.growing_dimension import gaussian
from prgd.theory import max_margin_reference
from prgd.theory.claims import Finding

GATED = ("gated-prgd", "progressive-newton")
BESIDE = ("ngd", "dual-acceleration")
NAMES = {
    "ngd": "NGD",
    "dual-acceleration": "dual acceleration",
    "gated-prgd": "gated PRGD",
    "progressive-newton": "progressive-rescaling Newton",
}
COLUMNS = ("set", "method", "t", "reads", "margin", "lower", "upper", "gamma_star")
SETTLED = 1e-12  # a certified gap near which double precision ends


def available() -> tuple[str, ...]:
    """Return the gated algorithms that the library has."""
    return tuple(name for name in GATED if name in ALGORITHMS)


@dataclass(frozen=True)
class Settings:
    """Algorithms by their names on the command line, steps, and sets whose support does not span."""

    methods: tuple[str, ...] = (*BESIDE, *available())
    steps: int = 2_000
    warm_up: int = WARM_UP
    sets: tuple[str, ...] = ("digit-01", "gaussian-50")


def compute(settings: Settings, task: str) -> list[Row]:
    """Return both bounds of every method on one set, against how often it has read the rows."""
    X, y = datasets.digits(0, 1, 300) if task == "digit-01" else gaussian(0, 100, 50, 0.5)
    gamma_star = max_margin_reference((X, y)).gamma_star
    rows: list[Row] = []
    runs: list[tuple[str, Any, bool]] = [
        (NAMES.get(m, m), find_algorithm(m)(), False) for m in settings.methods
    ]
    runs += [(method.name, method.algorithm, True) for method in (EXP, POLY_DIGITS)]
    for name, algorithm, is_warm in runs:
        problem = Problem(X, y, scale="none", n_threads=1)
        result = run(problem, algorithm, warm_start(problem, settings.warm_up) if is_warm else None, stop=0)
        for t in record_times(settings.steps):
            result = run(problem, algorithm, resume=result, stop=int(t), record=2**62)
            c = result.certificate
            # Newton's own count has the products of its inner solver too; the warm-up is counted
            reads = float(result.state.get("row_reads", problem.passes))
            values = (task, name, int(t), reads, problem.gamma(result.w), c.lower, c.upper, gamma_star)
            rows.append(dict(zip(COLUMNS, values, strict=True)))
            if c.gap < SETTLED:
                break
    return rows


def _gap(rows: Any) -> Any:
    return 1.0 - rows.lower.clip(lower=0.0) / rows.upper


def draw(rows: Any, settings: Settings) -> list[Figure]:
    """Return the certified relative gap against readings of the data on each set."""
    panels = []
    for name in settings.sets:
        marks = []
        for method in rows.method.unique():
            some = rows[(rows["set"] == name) & (rows.method == method)]
            line = Line(method, some.reads.to_numpy(), floored(_gap(some)), style_of(method))
            marks.append(thinned(line))
        panels.append(
            log_log(
                name,
                marks,
                "readings of all rows, warm-up counted",
                "certified relative gap",
                1e-14,
                1.5,
                is_ours=True,
            )
        )
    alt = (
        "Certified relative gap against readings of the data on two sets whose support vectors do not span. "
        + reading(rows, settings)
    )
    return [
        Figure("gated-schedule", "Certified gap against readings of the data", alt, tuple(panels), columns=2)
    ]


def _gaps(rows: Any) -> Any:
    last = rows.groupby(["set", "method"]).tail(1)
    return last.assign(gap=_gap(last)).set_index(["set", "method"])


def claims(rows: Any, settings: Settings) -> list[Judged]:
    """Return the verdict on the gated schedules against the paper's, by certified gap."""
    last = _gaps(rows)
    gated = [NAMES.get(name, name) for name in settings.methods if name not in BESIDE]
    worst, words = 0.0, []
    for method in gated:
        for name in settings.sets:
            ratio = last.gap[name, method] / last.gap[name, "PRGD(poly)"]
            worst = max(worst, ratio)
            words.append(
                f"{method} {last.gap[name, method]:.0e} after {last.reads[name, method]:,.0f} readings on "
                f"{name}"
            )
    poly = ", ".join(f"{last.gap[name, 'PRGD(poly)']:.0e} on {name}" for name in settings.sets)
    return [
        judge(
            "ours-gated",
            "beyond the paper",
            "Radii that grow only when the direction has settled go on where the paper's schedules stall.",
            Finding(
                worst if gated else float("inf"),
                1.0,
                "<",
                f"Certified gaps: {'; '.join(words) or 'no gated algorithm'}. PRGD(poly) has {poly} after "
                f"{settings.steps + settings.warm_up:,}.",
            ),
        )
    ]


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figure shows, in figures."""
    last, first = _gaps(rows), settings.sets[0]
    each = ", ".join(
        f"{m} {last.gap[first, m]:.0e} ({last.reads[first, m]:,.0f})" for m in rows.method.unique()
    )
    return (
        f"Certified relative gaps at the end on {first}, with the readings of the data that they took: "
        f"{each}. Newton's readings have the products of its inner solver in them."
    )


EXPERIMENT = Experiment(
    name="gated-schedule",
    title="Radii gated by measured progress",
    where=OURS,
    settings=Settings(),
    quick=Settings(steps=500),
    tasks=lambda settings: settings.sets,
    compute=compute,
    draw=draw,
    claims=claims,
    reading=reading,
    seconds=2.0,
)
