"""The runs behind Figures 3 and 6: the paper's two synthetic sets, every method, many seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from prgd import datasets
from prgd.problem import Problem
from prgd_paper.claims import Finding, claim
from prgd_paper.report import elements as fig
from prgd_paper.reproduce import curves as shared
from prgd_paper.reproduce.experiment import Experiment, Row
from prgd_paper.theory.nondegeneracy import assumptions

GAMMA_STAR = datasets.sets.PAPER_GAMMA_STAR  # the margin of both sets
SETS = {"I": datasets.synthetic_one, "II": datasets.synthetic_two}
PAPER = ("GD", "NGD", "PRGD(exp)", "PRGD(poly)")
COLUMNS = ("kind", "set", "seed", "method", "t", "margin", "lower", "upper", "x", "y", "label")


@dataclass(frozen=True)
class Settings(shared.Schedules):
    """Draws, the schedules of PRGD, and the steps that each method takes.

    GD and NGD take ``steps``, the accelerated methods ``accelerated`` and PRGD ``short``; the first panel of
    the paper shows ``small_scale``. The loss is the paper's e^-m unless it is set to ``"logistic"``.
    """

    seeds: int = 20
    steps: int = 20_000
    accelerated: int = 5_000
    short: int = 2_000
    small_scale: int = 300
    n: int = 100  # rows of each set
    gamma_star: float = GAMMA_STAR
    levels: tuple[float, float, float, float] = (
        1e-3,
        1e-6,
        1e-9,
        1e-12,
    )  # of the error: when are they passed?
    loss: str = "exponential"


def compute(settings: Settings, task: str) -> list[Row]:
    """Return every method's curve on one draw, its points, and when levels are passed for good."""
    name, _, seed = task.partition("-seed-")
    data = SETS[name](int(seed), settings.n, settings.gamma_star)
    problem = Problem(data.X, data.y, loss=settings.loss, scale="none", n_jobs=1)
    warm = shared.warm_start(problem, settings.warm_up, settings.eta)
    base = {"set": name, "seed": int(seed)}
    rows: list[Row] = [
        base | {"kind": "point", "x": x, "y": y, "label": int(label)}
        for (x, y), label in zip(data.X, data.y, strict=True)
    ]
    rows.append(base | {"kind": "mean", "margin": float(assumptions(data).off_mean.number)})
    for method in shared.methods(settings):
        steps = settings.steps if method.name in ("GD", "NGD") else settings.accelerated
        steps = settings.short if method.is_warm else steps
        seen = shared.watch(problem, method.algorithm, warm if method.is_warm else None, steps)
        columns = base | {"kind": "curve", "method": method.name}
        rows += shared.curve_rows(seen, shared.record_times(steps), **columns)
        error = settings.gamma_star - seen.margin
        # w = 0 has no margin, so the error at t = 0 is NaN: it counts as infinite.
        error[np.isnan(error)] = math.inf
        passed = {level: shared.lasting_passage(error, level) for level in settings.levels}
        columns |= {"kind": "passage"}
        rows += [columns | {"x": level, "t": t} for level, t in passed.items()]
    return shared.padded(rows, COLUMNS)


def _points(rows: Any, settings: Settings, name: str) -> fig.Panel:
    marks = fig.two_classes(shared.where(rows, kind="point", seed=0), size=5.0)
    wall, dots = "margin, x_1 = ±gamma_star", fig.Style("#555555", "dot")
    lines = [
        fig.Line(wall, [x, x], [-1.05, 1.05], 1.0, has_markers=False, style=dots)
        for x in (-settings.gamma_star, settings.gamma_star)
    ]
    ends = (-1.1, 1.1)
    title = f"Dataset {name}, seed 0"
    return fig.Panel(title, (*marks, *lines), "x_1", "x_2", x_range=ends, y_range=ends, is_equal=True)


def _paper_scale(curves: Any, settings: Settings, name: str, scale: str) -> fig.Panel:
    """Draw seed 0 as the paper does: its four methods, the warm-up left out of the count."""
    last = settings.small_scale if scale == "small" else settings.steps
    some = curves[(curves.seed == 0) & (curves.t <= last)]
    names = shared.with_own(PAPER, settings)
    marks = shared.error_lines(some, settings.gamma_star - some.margin, names)
    panel = fig.log_log(f"Set {name}: {scale} time scale", marks, fig.LEFT_OUT, fig.MARGIN_ERROR, 1e-16)
    return replace(panel, x_log=scale == "large")


def _all_methods(curves: Any, settings: Settings, name: str) -> fig.Panel:
    """Draw the median over seeds and a band, the warm-up counted, with the two accelerated methods."""
    warm = {method.name: settings.warm_up * method.is_warm for method in shared.methods(settings)}
    error = settings.gamma_star - curves.margin
    counted = curves.assign(error=error, t=curves.t + curves.method.map(warm))
    title = f"Set {name}: median and 5 to 95 % of {curves.seed.nunique()} draws, warm-up counted"
    marks = shared.error_bands(counted, "t")
    return fig.log_log(title, marks, fig.COUNTED, fig.MARGIN_ERROR, 1e-16, is_ours=True)


def draw(rows: Any, settings: Settings, figure: str, sets: tuple[str, ...]) -> list[fig.Figure]:
    """Return the paper's figure of the given sets, and one of ours."""
    paper, ours = [], []
    for name in sets:
        some = shared.where(rows, set=name)
        curves = shared.where(some, kind="curve")
        paper.append(_points(some, settings, name))
        paper += [_paper_scale(curves, settings, name, scale) for scale in ("small", "large")]
        ours.append(_all_methods(curves, settings, name))
    facts = _medians(rows, settings, sets)
    title = "set I" if len(sets) == 1 else "sets I and II"
    return [
        fig.Figure(
            figure,
            f"Margin error on the synthetic {title}",
            "For each set a scatter plot of its points, and the margin error against steps at two time "
            f"scales. GD and NGD stay near the top, both kinds of PRGD plunge. {facts}",
            tuple(paper),
        ),
        fig.Figure(
            f"{figure}-ours",
            "The same over many draws with the warm-up counted",
            "Median margin errors with bands over draws: with its warm-up counted PRGD falls at about step "
            "1,100, after dual acceleration and game dynamics.",
            tuple(ours),
            columns=2,
        ),
    ]


def errors_at(rows: Any, settings: Settings, name: str, t: int) -> dict[str, float]:
    """Return each method's median margin error at step t, the warm-up left out."""
    curves = rows[(rows.kind == "curve") & (rows["set"] == name) & (rows.t <= t)]
    last = curves.groupby(["method", "seed"]).tail(1)
    return dict((settings.gamma_star - last.margin).groupby(last.method).median())


def _medians(rows: Any, settings: Settings, sets: tuple[str, ...]) -> str:
    sentences = []
    for name in sets:
        e = errors_at(rows, settings, name, settings.small_scale)
        names = shared.with_own(PAPER, settings)
        errors = ", ".join(f"{fig.small(e[method])} ({method})" for method in names)
        sentences.append(f"On set {name} the median errors after {settings.small_scale} steps are {errors}.")
    return " ".join(sentences)


def reading(rows: Any, settings: Settings, sets: tuple[str, ...]) -> str:
    """Return what the figure shows, in figures."""
    return (
        f"{_medians(rows, settings, sets)} PRGD counts from the end of its {settings.warm_up:,} warm-up "
        "steps, which fits the counts of Table 2; with these counted, dual acceleration, which needs none, "
        "is ahead (second figure)."
    )


WHERE = "Section 7.1, Figures 3 and 6"
synthetic_claim = partial(claim, where=WHERE, experiment="figure-6")


def _setting(rows: Any, settings: Settings) -> str:
    return (
        f"Datasets {' and '.join(rows['set'].unique())} of Appendix E.1, {rows.seed.nunique()} draws of "
        f"each (seeds from 0, ours), eta = {settings.eta:g}, {settings.warm_up:,} GD steps of warm-up "
        "before PRGD, left out of the count; PRGD(poly) has k + 1 in place of k, since R_0 k^1.2 is 0 at "
        "k = 0; R_0 is ||w|| at the end of the warm-up."
    )


@synthetic_claim(
    "section-7.1-exponential", quote="PRGD(exp) indeed maximizes the margin (super-)exponentially fast"
)
def prgd_is_exponential(rows: Any, settings: Settings) -> Finding:
    """PRGD(exp) maximizes the margin (super-)exponentially fast on the synthetic sets.

    Compare the steps that each three decimals of the margin error take.
    """
    passages = shared.where(rows, kind="passage", method="PRGD(exp)")
    steps = passages.pivot(index=["set", "seed"], columns="x", values="t")
    reached = steps[(steps >= 0).all(axis=1)]
    spans = [(reached[b] - reached[a]).to_numpy() for a, b in pairwise(settings.levels)]
    first, second, third = (f"{np.median(span):.0f}" if len(span) else "-" for span in spans)
    share = len(reached) / len(steps)
    start, *ends, last = (f"{level:.0e}" for level in settings.levels)
    levels = f"{start} to {', on to '.join(ends)} and to {last}"
    ratio = np.full(len(steps), math.inf)  # a draw that does not get there counts as infinitely slow
    ratio[: len(reached)] = spans[2] / np.maximum(spans[0], 1)
    low, high = shared.median_interval(ratio)
    return Finding(
        ((low, high), "<=", 1.0),
        f"From an error of {levels} it takes {first}, {second} and {third} "
        "steps (medians): if each three decimals cost no more than the three before, the fall is "
        f"exponential or faster. The median ratio of the last three over the first is "
        f"{shared.ends_in_words(low, high, '.2f')}. {len(reached)} of {len(steps)} draws reach {last}.",
        ""
        if len(reached) == len(steps)
        else "Not every draw gets there: radii that grow geometrically freeze w.",
        figures={f"share of draws at {last}": share},
        setting=_setting(rows, settings),
        what="steps for the last three decimals over those for the first, median",
        would_change="An interval of the median ratio above 1: decimals that cost ever more steps.",
    )


def _ratios(
    rows: Any, settings: Settings, over: tuple[str, ...], under: str
) -> dict[str, tuple[float, float]]:
    """Return for each set the interval of the median over draws of the smallest error over another one."""
    t, found = settings.small_scale, {}
    for name in rows["set"].unique():
        curves = rows[(rows.kind == "curve") & (rows["set"] == name) & (rows.t <= t)]
        last = curves.groupby(["method", "seed"]).tail(1)
        error = last.assign(error=np.maximum(settings.gamma_star - last.margin, 1e-16))
        error = error.pivot(index="seed", columns="method", values="error")
        found[name] = shared.median_interval(error[list(over)].min(axis=1) / error[under])
    return found


@synthetic_claim("section-7.1-poly", quote="PRGD(poly) also performs relatively well for this task")
def poly_performs_well(rows: Any, settings: Settings) -> Finding:
    """PRGD(poly) also performs relatively well on the synthetic sets.

    Compare the errors of PRGD(poly) and NGD at the end of the small time scale, draw by draw.
    """
    t = settings.small_scale
    found = _ratios(rows, settings, ("PRGD(poly)",), "NGD")
    shares = " and ".join(f"{shared.ends_in_words(*ends, '.1e')} on set {s}" for s, ends in found.items())
    return Finding(
        ((max(low for low, _ in found.values()), max(high for _, high in found.values())), "<=", 0.1),
        f"After {t} steps the error of PRGD(poly) over NGD's is, in the median, {shares}.",
        setting=_setting(rows, settings),
        what="error over NGD's, median",
        not_given="what it calls relatively well; ours is a tenth of NGD's error",
        would_change="An error above a tenth of NGD's on most draws.",
    )


@synthetic_claim(
    "section-7.1-slow",
    quote=r"NGD and GD reduce the margin gaps much more slowly, which substantiates Theorem~\ref{thm: GD "
    r"NGD main result}",
)
def gd_and_ngd_are_slow(rows: Any, settings: Settings) -> Finding:
    """NGD and GD reduce the margin gaps much more slowly, which substantiates Theorem 6.4.

    Compare the errors of GD and NGD with that of PRGD(exp), draw by draw, and ask the theorem's condition.
    """
    t = settings.small_scale
    found = _ratios(rows, settings, ("GD", "NGD"), "PRGD(exp)")
    low, high = (min(ends) for ends in zip(*found.values(), strict=True))
    off = float(rows[rows.kind == "mean"].margin.max())
    late = {name: errors_at(rows, settings, name, settings.steps)["NGD"] for name in found}
    half = {name: errors_at(rows, settings, name, settings.steps // 2)["NGD"] for name in found}
    left = " and ".join(f"{fig.small(late[name])} on set {name}" for name in found)
    falls = " and ".join(f"{half[name] / max(late[name], fig.FLOOR):.0f} on set {name}" for name in found)
    return Finding(
        ((low, high), ">=", 10.0),
        f"After {t} steps the smaller error of GD and NGD over that of PRGD(exp) is, in the median, "
        f"{shared.ends_in_words(low, high, '.0e')}; at step {settings.steps:,} NGD still has {left}.",
        "They are slower, but Theorem 6.4 leaves these sets out: gamma_star w_star is the mean of the two "
        f"support vectors (distance {off:.0e}), and over the second half of the run NGD's median error falls "
        f"by a factor of {falls}, where 1 / t gives 2.",
        setting=_setting(rows, settings),
        what="smaller error of GD and NGD over PRGD(exp)'s, median",
        would_change="An error of GD or NGD within a factor of 10 of PRGD(exp)'s on most draws.",
    )


def tasks(settings: Settings, sets: tuple[str, ...]) -> list[str]:
    """Return one task for each set and seed."""
    return [f"{name}-seed-{seed}" for name in sets for seed in range(settings.seeds)]


def experiment(name: str, *, sets: tuple[str, ...], **more: Any) -> Experiment:
    """Return the experiment of one figure: the same runs, drawn for the given sets."""
    return Experiment(
        name=name,
        settings=Settings(),
        quick=Settings(seeds=3, steps=3_000, accelerated=2_000, short=600),
        tasks=partial(tasks, sets=sets),
        compute=compute,
        draw=partial(draw, figure=name, sets=sets),
        reading=partial(reading, sets=sets),
        seconds=0.6,
        **more,
    )
