"""Ours: the synthetic sets with the logistic loss beside the paper's exponential one.

Section 3: "We assume l(z) = e^-z for simplicity and the extension to general loss functions with
exponential-decay tails such as logistic loss l(z) = log(1 + e^-z) are straightforward". Figures 3, 4 and 6
and Table 2 run algorithms on data, and have a setting ``loss``; Figures 1 and 2 and Table 1 draw formulas of
the proofs, which are for e^-z.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prgd.losses import LOSSES
from prgd_paper.claims import Finding, claim
from prgd_paper.figures import _synthetic as synthetic
from prgd_paper.figures._synthetic import PAPER, SETS, errors_at
from prgd_paper.report import elements as fig
from prgd_paper.reproduce.curves import error_lines, where
from prgd_paper.reproduce.experiment import OURS, Experiment, Row

ROUNDED = 1e-12  # errors below this count as this
DECADE = 10.0  # the picture is the same if no method's median errors differ by more than this factor


@dataclass(frozen=True)
class Settings(synthetic.Settings):
    """As for Figures 3 and 6, with fewer draws and steps; each task sets the loss."""

    seeds: int = 5
    steps: int = 5_000
    accelerated: int = 300
    short: int = 1_000


def tasks(settings: Settings) -> list[str]:
    """Return one task for each loss, set and seed."""
    return [f"{loss}-{task}" for loss in LOSSES for task in synthetic.tasks(settings, tuple(SETS))]


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the curves of the paper's methods on one draw with one loss."""
    loss, _, task = task.partition("-")
    rows = synthetic.compute(replace(settings, loss=loss), task)
    return [{"loss": loss} | row for row in rows if row["kind"] == "curve" and row["method"] in PAPER]


def draw(rows: Any, settings: Settings) -> list[fig.Figure]:
    """Return the margin errors of seed 0 with each loss on each set."""
    panels = []
    for name in SETS:
        for loss in LOSSES:
            some = where(rows, set=name, loss=loss, seed=0)
            marks = error_lines(some, settings.gamma_star - some.margin, PAPER)
            title = f"Set {name}, {loss} loss"
            panels.append(fig.log_log(title, marks, fig.LEFT_OUT, fig.MARGIN_ERROR, 1e-16, is_ours=True))
    title = "Margin error with the exponential and the logistic loss"
    alt = f"Four plots of margin errors against steps, alike for both losses. {reading(rows, settings)}"
    return [fig.Figure("logistic-loss", title, alt, tuple(panels), columns=2)]


def _medians(rows: Any, settings: Settings, t: int) -> dict[tuple[str, str], dict[str, float]]:
    """Return for each set and method its median error with each loss at step t, the warm-up left out."""
    by_loss = {loss: where(rows, loss=loss) for loss in LOSSES}
    at = {(loss, name): errors_at(by_loss[loss], settings, name, t) for loss in LOSSES for name in SETS}
    return {(name, m): {loss: at[loss, name][m] for loss in LOSSES} for name in SETS for m in PAPER}


def _factors(rows: Any, settings: Settings) -> dict[tuple[str, str], float]:
    """Return by what factor the losses differ for each set and method, 1 or more.

    The geometric mean over the recorded steps of the small time scale: at a single step one of the curves
    may pass through a dip.
    """
    some = rows[rows.t <= settings.small_scale]
    error = (settings.gamma_star - some.margin).clip(lower=ROUNDED)
    medians = error.groupby([some["set"], some.method, some.t, some.loss]).median().unstack("loss")
    decades = np.log10(medians["logistic"] / medians["exponential"]).abs()
    return dict(10.0 ** decades.groupby(["set", "method"]).mean())


@claim("ours-logistic", where=OURS, experiment="logistic-loss")
def logistic_loss_gives_the_same_picture(rows: Any, settings: Settings) -> Finding:
    """With the logistic loss, an extension that Section 3 names, the synthetic sets show the same picture.

    Find the largest factor by which a method's median errors differ between the losses.
    """
    factors = _factors(rows, settings)
    (name, method), most = max(factors.items(), key=lambda item: item[1])
    e = {key: errors["logistic"] for key, errors in _medians(rows, settings, settings.small_scale).items()}
    leads = " and ".join(
        f"{max(max(e[s, m], 0.0) for m in PAPER[2:]) / min(e[s, m] for m in PAPER[:2]):.0e} on set {s}"
        for s in SETS
    )
    return Finding(
        (most, "<=", DECADE),
        f"In the first {settings.small_scale} steps the median errors differ by a factor of {most:.1f} at "
        f"most ({method}, set {name}; geometric mean over steps), on an axis of 16 decades. At step "
        f"{settings.small_scale} of the logistic runs the larger error of the two kinds of PRGD is {leads} "
        "of the smaller one of GD and NGD.",
        setting=f"Datasets I and II of Appendix E.1, seeds 0 to {settings.seeds - 1}, eta = "
        f"{settings.eta:g}, the schedules "
        f"of Section 7.1, {settings.warm_up:,} steps of GD with the same loss as warm-up, not counted.",
        would_change=f"A method whose median errors differ by a factor above {DECADE:.0f}; errors below "
        f"{ROUNDED:.0e} count as {ROUNDED:.0e}.",
        figures={f"{method}, set {name}": round(f, 3) for (name, method), f in factors.items()},
    )


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figure shows, in figures."""
    most = max(_factors(rows, settings).values())
    return (
        f"In the first {settings.small_scale} steps the median errors of the four methods with the logistic "
        f"loss are those with the exponential one up to a factor of {most:.1f} in the geometric mean. "
        "At a margin m the two losses differ by a share of about e^-m, so late steps are nearly the same."
    )


EXPERIMENT = Experiment.of_module(
    __name__,
    order=13,
    title="The logistic loss on the synthetic sets",
    where=OURS,
    quick=Settings(seeds=3, steps=1_000, short=400),
    seconds=0.3,
)
