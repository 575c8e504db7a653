"""Ours: radii that grow only when the direction has converged, and Newton steps inside the phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prgd import datasets
from prgd.algorithms import ProgressiveNewton
from prgd.algorithms.base import State
from prgd.problem import Problem
from prgd.problem.certificate import Certificate
from prgd.running.history import History, Record, Status, any_of
from prgd.running.loop import run
from prgd_paper.claims import Finding, claim
from prgd_paper.methods import GatedPRGD
from prgd_paper.report.elements import Figure, log_log
from prgd_paper.reproduce import curves
from prgd_paper.reproduce.experiment import OURS, Experiment, Row
from prgd_paper.studies.growing_dimension import gaussian
from prgd_paper.theory.support import max_margin_reference

GATED = (
    curves.Method("gated PRGD", GatedPRGD()),
    curves.Method("progressive-rescaling Newton", ProgressiveNewton()),
)


@dataclass(frozen=True)
class Settings(curves.Schedules):
    """The paper's schedules, steps, and sets whose support vectors do not span the data."""

    alpha: float = 0.6  # the exponent that the paper uses on the digits
    beta: float = 0.6
    steps: int = 2_000
    sets: tuple[str, ...] = ("digit-01", "gaussian-50")
    gaussian: tuple[int, int, float] = (100, 50, 0.5)  # rows, columns and shift of gaussian-50
    gaussian_seed: int = 0
    digit_rows: int = 300
    converged: float = 1e-12  # a run ends when its certified gap is below this: double precision ends there


def tasks(settings: Settings) -> Sequence[str]:
    """Return one task for each set."""
    return settings.sets


def compute(settings: Settings, task: str) -> list[Row]:
    """Return both bounds of every method on one set, against its passes over the rows."""
    data = (
        datasets.digits(0, 1, settings.digit_rows)
        if task == "digit-01"
        else gaussian(settings.gaussian_seed, *settings.gaussian)
    )
    X, y = data
    gamma_star = max_margin_reference((X, y)).gamma_star
    _, ngd, exp, poly, dual, _ = curves.methods(settings)
    return [
        {"set": task, "method": method.name} | row | {"gamma_star": gamma_star}
        for method in (ngd, dual, *GATED, exp, poly)
        for row in _follow(Problem(X, y, scale="none", n_jobs=1), method, settings)
    ]


def _follow(problem: Problem, method: curves.Method, settings: Settings) -> list[Row]:
    """Return passes, margin and bounds of one method at the recorded times, until the gap is converged."""
    times = frozenset(curves.record_times(settings.steps).tolist())
    rows: list[Row] = []

    def keep(s: State, now: Record, c: Certificate) -> None:
        if s.t in times:
            # Newton's own count has the products of its inner solver too; the warm-up is counted.
            reads = float(getattr(s, "row_reads", problem.passes))
            rows.append({"t": s.t, "reads": reads, "margin": now.margin, "lower": c.lower, "upper": c.upper})

    def is_converged(now: Record, certificate: Certificate, history: History) -> Status | None:
        return Status.CERTIFIED if now.t in times and certificate.gap < settings.converged else None

    w0 = curves.warm_start(problem, settings.warm_up, settings.eta) if method.is_warm else None
    stop = any_of(is_converged, settings.steps)
    run(problem, method.algorithm, w0, stop=stop, record=None, observe=keep)
    return rows


def _gap(rows: Any) -> Any:
    return 1.0 - rows.lower.clip(lower=0.0) / rows.upper


def draw(rows: Any, settings: Settings) -> list[Figure]:
    """Return the certified relative gap against passes over the data on each set."""
    panels = []
    for name in settings.sets:
        some = curves.where(rows, set=name)
        marks = curves.error_lines(some, _gap(some), x="reads")
        labels = ("passes over all rows, warm-up counted", "certified relative gap")
        panels.append(log_log(name, marks, *labels, 1e-14, 1.5, is_ours=True))
    title = "Certified gap against passes over the data"
    alt = (
        "Certified relative gap against passes over the data on two sets whose support vectors do not span. "
        + reading(rows, settings)
    )
    return [Figure("gated-schedule", title, alt, tuple(panels), columns=2)]


def _gaps(rows: Any) -> Any:
    last = rows.groupby(["set", "method"]).tail(1)
    return last.assign(gap=_gap(last)).set_index(["set", "method"])


@claim("ours-gated", where=OURS, experiment="gated-schedule")
def gated_radii_go_on(rows: Any, settings: Settings) -> Finding:
    """Radii that grow only when the direction has converged certify smaller gaps than PRGD(poly).

    Compare the certified gaps of the gated methods with that of PRGD(poly).
    """
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
        setting=f"{' and '.join(settings.sets)}; at most {settings.steps:,} steps, warm-up counted in "
        "passes; PRGD(poly) with T_0 and a warm-up of ours.",
        what="certified gap over that of PRGD(poly)",
        would_change="A set on which PRGD(poly) certifies a smaller gap with as many passes.",
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
    seconds=1.0,
)
