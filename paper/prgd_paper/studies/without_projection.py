"""Ours: PRGD without the projection step of Algorithm 1, on the synthetic sets and digit-01."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from prgd import datasets
from prgd.algorithms.base import State
from prgd.problem import Problem
from prgd.problem.certificate import Certificate
from prgd.running.history import Record
from prgd.running.loop import run
from prgd_paper.claims import Finding, claim
from prgd_paper.figures._synthetic import GAMMA_STAR, SETS
from prgd_paper.figures.figure_5b import effect_of_projection
from prgd_paper.report import elements as fig
from prgd_paper.reproduce.curves import Schedules, error_lines, methods, record_times, warm_start, where
from prgd_paper.reproduce.experiment import OURS, Experiment, Row
from prgd_paper.theory.support import max_margin_reference

WITHOUT = ", not projected"
ROUNDED = 1e-12  # errors below this are not compared
USEFUL = 1.01  # the projection is useful where the error without it is larger by more than this factor
STYLES = {
    f"PRGD(exp){WITHOUT}": fig.Style(fig.SKY, "dash", "square"),
    f"PRGD(poly){WITHOUT}": fig.Style(fig.BLACK, "dash", "x"),
}


@dataclass(frozen=True)
class Settings(Schedules):
    """Draws of the synthetic sets, the schedules of both kinds of PRGD, and the steps after the warm-up."""

    seeds: int = 10
    steps: int = 2_000
    n: int = 100  # rows of each synthetic set
    gamma_star: float = GAMMA_STAR
    digit_rows: int = 300
    digit_power: float = 0.6  # Section 7.1: alpha = beta = 0.6 on the digits


def tasks(settings: Settings) -> list[str]:
    """Return one task for each draw of a synthetic set, and digit-01."""
    return [*(f"{name}-{seed}" for name in SETS for seed in range(settings.seeds)), "digit-01"]


def compute(settings: Settings, task: str) -> list[Row]:
    """Return margin error and length of both kinds of PRGD on one set, with and without projection."""
    name, _, seed = task.partition("-")
    if name == "digit":
        data = datasets.digits(0, 1, settings.digit_rows)
        settings = replace(settings, alpha=settings.digit_power, beta=settings.digit_power)
    else:
        data = SETS[name](int(seed), settings.n, settings.gamma_star)
    gamma_star = data.gamma_star or max_margin_reference(data).gamma_star
    problem = Problem(data.X, data.y, scale="none", n_jobs=1)
    warm = warm_start(problem, settings.warm_up, settings.eta)
    times = frozenset(record_times(settings.steps, per_decade=30).tolist())
    rows: list[Row] = []
    for method in (m for m in methods(settings) if m.is_warm):
        for project in (True, False):
            base = {"set": name, "seed": int(seed), "method": method.name + (not project) * WITHOUT}
            longest = 0.0

            def keep(s: State, now: Record, c: Certificate, base: Row = base) -> None:
                nonlocal longest
                longest = max(longest, s.at.length / s.R_k)
                if s.t in times:
                    rows.append(base | {"t": s.t, "error": gamma_star - now.margin, "length": longest})

            algorithm = replace(method.algorithm, project=project)
            run(problem, algorithm, warm, stop=settings.steps, record=None, observe=keep)
    return rows


def draw(rows: Any, settings: Settings) -> list[fig.Figure]:
    """Return the margin errors on one draw of each set."""
    panels = []
    for name in rows["set"].unique():
        some = where(rows, set=name)
        some = where(some, seed=some.seed.min())
        marks = error_lines(some, some.error, styles=STYLES)
        lowest = 1e-4 if name == "digit" else 1e-16
        title = "digit-01" if name == "digit" else f"Set {name}, seed 0"
        panels.append(fig.log_log(title, marks, fig.LEFT_OUT, fig.MARGIN_ERROR, lowest, is_ours=True))
    title = "PRGD with and without its projection step"
    alt = "Margin errors on three sets: the lines with and without projection lie on each other. " + reading(
        rows, settings
    )
    return [fig.Figure("without-projection", title, alt, tuple(panels))]


def _pairs(rows: Any) -> Any:
    """Return each error without projection beside the one with it, and their ratio, above rounding."""
    columns = ["set", "seed", "method", "t"]
    is_without = rows.method.str.endswith(WITHOUT)
    without = rows[is_without].assign(method=rows.method.str.removesuffix(WITHOUT))
    pairs = rows[~is_without].merge(without, on=columns, suffixes=("_with", "_without"))
    pairs = pairs[(pairs.error_with > ROUNDED) & (pairs.error_without > ROUNDED)]
    return pairs.assign(ratio=pairs.error_without / pairs.error_with)


@claim(
    "section-4-projection-useful",
    where="Section 4, before Algorithm 1",
    experiment="without-projection",
    quote="is proposed to stablize training by avoiding the rapid explosion of parameters' norm in each "
    "cycle. It is shown to be useful in experiments",
)
def projection_is_useful(rows: Any, settings: Settings) -> Finding:
    """The projection step of Algorithm 1 is useful in experiments.

    Divide the margin errors without projection by those with it.
    """
    pairs = _pairs(rows)
    low, high = float(pairs.ratio.min()), float(pairs.ratio.max())
    longest = float(pairs.length_without.max())
    return Finding(
        ((low, high), ">", USEFUL),
        f"The errors without projection are {low:.3f} to {high:.3f} times those with it at single steps, "
        f"{pairs.ratio.median():.3f} times in the median; the test accuracy of Figure 5b's network, tuned, "
        f"with the projection less without it is {effect_of_projection()}. w grows to {longest:.2f} R_k "
        "within a phase: no step is longer than eta. After a shorter warm-up the projection may matter more.",
        setting=f"Datasets I and II (seeds 0 to {settings.seeds - 1}) with the schedules of Section 7.1, and "
        f"digit-01, first {settings.digit_rows} rows, with alpha = beta = {settings.digit_power:g} and "
        f"phases from {settings.phase} steps on (T_0 is ours). eta = {settings.eta:g}, {settings.warm_up:,} "
        f"steps of GD as warm-up, then {settings.steps:,} of PRGD.",
        not_given="an experiment without the projection, or where it was seen to be useful",
        would_change=f"Errors without projection that are larger by a factor above {USEFUL} on all sets, or "
        "an experiment of the authors that shows its use.",
        figures={"smallest ratio": low, "largest ratio": high, "longest w over R_k": longest},
    )


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figure shows, in figures."""
    pairs = _pairs(rows)
    return (
        f"Without projection the margin errors are {pairs.ratio.min():.3f} to {pairs.ratio.max():.3f} times "
        f"those with it at single steps (above {ROUNDED:.0e}), {pairs.ratio.median():.3f} times in the "
        f"median. Without it w grows to {pairs.length_without.max():.2f} R_k at most before the next "
        "rescaling."
    )


EXPERIMENT = Experiment.of_module(
    __name__,
    order=12,
    title="PRGD without projection",
    where=OURS,
    quick=Settings(seeds=2, steps=500),
    seconds=0.1,
)
