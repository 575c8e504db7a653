"""Ours: radii that grow only when the direction has converged, and Newton steps inside the phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prgd import datasets
from prgd.algorithms import GatedPRGD, ProgressiveNewton
from prgd.claims import Finding, claim
from prgd.loop import run
from prgd.problem import Problem
from prgd.reproduce.curves import Method, Schedules, methods, record_times, warm_start
from prgd.reproduce.experiment import OURS, Experiment, Row
from prgd.reproduce.figures import Figure, Line, floored, log_log, thinned
from prgd.reproduce.growing_dimension import gaussian
from prgd.theory import max_margin_reference

GATED = (Method("gated PRGD", GatedPRGD()), Method("progressive-rescaling Newton", ProgressiveNewton()))
COLUMNS = ("set", "method", "t", "reads", "margin", "lower", "upper", "gamma_star")
CONVERGED = 1e-12  # a run ends when its certified gap is below this: double precision ends there


@dataclass(frozen=True)
class Settings(Schedules):
    """The paper's schedules, steps, and sets whose support vectors do not span the data."""

    alpha: float = 0.6  # as on the digits
    beta: float = 0.6
    steps: int = 2_000
    sets: tuple[str, ...] = ("digit-01", "gaussian-50")
    gaussian: tuple[int, int, float] = (100, 50, 0.5)  # rows, columns and shift of gaussian-50


def tasks(settings: Settings) -> Sequence[str]:
    """Return one task for each set."""
    return settings.sets


def compute(settings: Settings, task: str) -> list[Row]:
    """Return both bounds of every method on one set, against how often it has read the rows."""
    X, y = datasets.digits(0, 1, 300) if task == "digit-01" else gaussian(0, *settings.gaussian)
    gamma_star = max_margin_reference((X, y)).gamma_star
    rows: list[Row] = []
    _, ngd, exp, poly, dual, _ = methods(settings)
    for name, algorithm, is_warm in (ngd, dual, *GATED, exp, poly):
        problem = Problem(X, y, scale="none", n_threads=1)
        result = run(problem, algorithm, warm_start(problem, settings.warm_up) if is_warm else None, stop=0)
        for t in record_times(settings.steps):
            result = run(problem, algorithm, resume=result, stop=int(t), record=2**62)
            c = result.certificate
            # Newton's own count has the products of its inner solver too; the warm-up is counted.
            reads = float(result.state.get("row_reads", problem.passes))
            values = (task, name, int(t), reads, problem.gamma(result.w), c.lower, c.upper, gamma_star)
            rows.append(dict(zip(COLUMNS, values, strict=True)))
            if c.gap < CONVERGED:
                break
    return rows


def _gap(rows: Any) -> Any:
    return 1.0 - rows.lower.clip(lower=0.0) / rows.upper


def draw(rows: Any, settings: Settings) -> list[Figure]:
    """Return the certified relative gap against passes over the data on each set."""
    panels = []
    for name in settings.sets:
        marks = []
        for method in rows.method.unique():
            some = rows[(rows["set"] == name) & (rows.method == method)]
            marks.append(thinned(Line(method, some.reads.to_numpy(), floored(_gap(some)))))
        passes, gap = "passes over all rows, warm-up counted", "certified relative gap"
        panels.append(log_log(name, marks, passes, gap, 1e-14, 1.5, is_ours=True))
    alt = (
        "Certified relative gap against passes over the data on two sets whose support vectors do not span. "
        + reading(rows, settings)
    )
    return [
        Figure("gated-schedule", "Certified gap against passes over the data", alt, tuple(panels), columns=2)
    ]


def _gaps(rows: Any) -> Any:
    last = rows.groupby(["set", "method"]).tail(1)
    return last.assign(gap=_gap(last)).set_index(["set", "method"])


@claim(
    "ours-gated",
    where=OURS,
    statement="Radii that grow only when the direction has settled go on where the paper's schedules stall.",
    experiment="gated-schedule",
)
def gated_radii_go_on(rows: Any, settings: Settings) -> Finding:
    """Compare the certified gaps of the gated methods with that of PRGD(poly)."""
    last = _gaps(rows)
    cells = [(method.name, name) for method in GATED for name in settings.sets]
    words = "; ".join(
        f"{method} {last.gap[name, method]:.0e} after {last.reads[name, method]:,.0f} passes on {name}"
        for method, name in cells
    )
    poly = ", ".join(f"{last.gap[name, 'PRGD(poly)']:.0e} on {name}" for name in settings.sets)
    return Finding(
        (max(last.gap[name, method] / last.gap[name, "PRGD(poly)"] for method, name in cells), "<", 1.0),
        f"Certified gaps: {words}. PRGD(poly) has {poly} after {settings.steps + settings.warm_up:,}.",
    )


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figure shows, in figures."""
    last, first = _gaps(rows), settings.sets[0]
    each = ", ".join(
        f"{m} {last.gap[first, m]:.0e} ({last.reads[first, m]:,.0f})" for m in rows.method.unique()
    )
    return (
        f"Certified relative gaps at the end on {first}, with the passes over the data that they took: "
        f"{each}. Newton's passes include the products of its inner solver."
    )


EXPERIMENT = Experiment.of_module(
    __name__,
    order=11,
    title="Radii gated by measured progress",
    where=OURS,
    quick=Settings(steps=500),
    seconds=2.0,
)
