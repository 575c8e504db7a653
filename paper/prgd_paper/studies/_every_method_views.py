"""What the race of all methods shows: its figures, its tables and its verdicts, from rows only."""

from __future__ import annotations

import math
from functools import cache, partial
from itertools import count
from typing import Any, get_args

import numpy as np

from prgd.core.types import Array
from prgd_paper.claims import Finding, Judgement, claim
from prgd_paper.report import elements as fig
from prgd_paper.reproduce.curves import where
from prgd_paper.reproduce.experiment import OURS
from prgd_paper.studies import _every_method_rates as rates
from prgd_paper.studies._methods import FAST, HULL, OTHER, PLAIN, RESCALED, SCALED, listed
from prgd_paper.studies._published_rates import KNOWN, MARGIN, NO_RATE, RATES, RISK, SEPARATOR

NAME = "every-method"
# The colour of each family; its methods differ in dash and marker.
COLOURS = {
    PLAIN: fig.BLACK,
    SCALED: fig.ORANGE,
    FAST: fig.GREEN,
    RESCALED: fig.BLUE,
    HULL: fig.VERMILLION,
    OTHER: fig.GREY,
}
DASHES, MARKERS = get_args(fig.Dash), get_args(fig.Marker)
# Panels: the norm, the set, and the title.
PANELS = (
    ("l2", "synthetic I", "l2 margin, synthetic set I"),
    ("l2", "digits 0 and 1", "l2 margin, digits 0 and 1"),
    ("l2", "Gaussian, d = 5", "l2 margin, Gaussian rows, d = 5"),
    ("l2", "Gaussian, d = 20", "l2 margin, Gaussian rows, d = 20"),
    ("linf", "Gaussian, d = 5", "l-infinity margin, Gaussian rows, d = 5"),
    ("l1", "Gaussian, d = 5", "l1 margin, Gaussian rows, d = 5"),
    ("lp:3", "Gaussian, d = 5", "l3 margin, Gaussian rows, d = 5"),
    ("spectral", "three classes", "spectral margin, three classes"),
)
LOWEST = 1e-13


@cache
def _families() -> dict[str, str]:
    """Return the family of each listed method; schedules do not change it."""
    return {e.name: e.family for e in listed(1.2, 5, 0.6, 0.6, 1.05)}


def _family(method: str) -> str:
    return _families().get(method, OTHER)


def _styles(methods: list[str]) -> dict[str, fig.Style]:
    """Return the style of each method: the colour of its family, a dash and a marker of its own there."""
    places = {family: count() for family in COLOURS}
    found = {}
    for method in methods:
        k = next(places[family := _family(method)])
        found[method] = fig.Style(COLOURS[family], DASHES[k % len(DASHES)], MARKERS[k % len(MARKERS)])
    return found


def _median(curves: Any, x: str) -> tuple[Array, Array]:
    """Return the medians over the draws of a set, as in the table: of x and of the error, at each step.

    A run that has ended keeps its last error; the line ends where the median run does.
    """
    ended = float(curves.groupby("seed").t.max().median())
    wide = curves.pivot(index="t", columns="seed", values=[x, "worst"] if x != "t" else ["worst"]).ffill()
    wide = wide[wide.index <= ended]
    errors = wide["worst"].median(axis=1).to_numpy(float)
    places = wide[x].median(axis=1) if x != "t" else wide.index
    return np.asarray(places, dtype=float), errors


def _panel(rows: Any, norm: str, name: str, title: str, x: str, last: float) -> fig.Panel | None:
    """Draw the median errors of a norm on one set up to step or pass ``last``; None if nothing separates."""
    some = where(rows, kind="curve", norm=norm, set=name)
    styles, lines = _styles(list(rows.method.unique())), []
    for method in some.method.unique():
        places, errors = _median(where(some, method=method), x)
        shown = (places <= last) & (errors < 1.0)
        if shown.any():
            y = np.maximum(fig.floored(errors[shown]), LOWEST)
            lines.append(fig.Line(method, places[shown], y, 1.6, style=styles[method]))
    if not lines:
        return None
    lowest = 10.0 ** math.floor(math.log10(min(float(np.min(line.y)) for line in lines)) - 0.3)
    words = {"t": "step t, warm-up counted", "passes": "passes over the rows, warm-up counted"}[x]
    y_label = "1 - gamma(w) / gamma_star"
    return fig.log_log(title, lines, words, y_label, max(lowest, LOWEST), x_range=(1.0, last))


def draw(rows: Any, settings: Any) -> list[fig.Figure]:
    """Return the margin error of every method in its own norm, against steps and against passes."""
    figures, said = [], reading(rows, settings)
    for x, name, words in (("t", NAME, "steps"), ("passes", f"{NAME}-passes", "passes over the data")):
        panels = tuple(
            p
            for norm, s, title in PANELS
            if (p := _panel(rows, norm, s, title, x, float(settings.steps))) is not None
        )
        alt = (
            f"Relative margin error against {words} on logarithmic axes: four sets in l2, one in each other "
            "norm. A line is the median over the draws of the set, as in the table of errors, of the largest "
            f"error since the last recorded step. {said}"
        )
        title = f"Every method, in its own norm: margin error against {words}"
        figures.append(fig.Figure(name, title, alt, panels, columns=2))
    return figures


def _last(rows: Any) -> Any:
    """Return the last row of the curve of each run, with how the run ended."""
    keys = ["method", "set", "seed"]
    last = where(rows, kind="curve").groupby(keys, sort=False).tail(1)
    facts = where(rows, kind="run")[[*keys, "floor", "ended"]]
    return last.drop(columns=["floor", "ended"]).merge(facts, on=keys)


def tables(rows: Any, settings: Any) -> list[fig.Table]:
    """Return Table 1 of the paper, extended to all methods, and the error of each method on each set."""
    return [extended(rows, settings), _by_set(rows, settings)]


def extended(rows: Any, settings: Any) -> fig.Table:
    """Return the published and the fitted rate of every method, with a verdict."""
    lines = []
    for method, runs in rates.races(rows).items():
        rate, long = RATES.get(method), rates.long_enough(runs)
        quantity = RISK if rate and rate.quantity == RISK else MARGIN
        slopes = rates.slopes_of(long, quantity)
        last = np.array([s.slope for s in slopes])
        end = np.array([s.local for s in slopes if not math.isnan(s.local)])
        line = {"method": method, "norm": str(where(rows, method=method).norm.iloc[0])}
        line |= {"published": rate.text if rate else KNOWN.get(method, NO_RATE)}
        line |= {"of the": rate.quantity if rate else "-", "by": rate.source if rate else "-"}
        line["fitted a of t^-a"] = (
            f"{_two(np.median(last))} ({_two(last.min())} to {_two(last.max())})" if last.size else "-"
        )
        line["at the end"] = _two(np.median(end)) if end.size else "-"
        line["exponential"] = f"{len(rates.exponential(long))} of {len(long)}" if long else "-"
        said = rates.tally(runs, rate) if rate and runs and not rate.not_ours else None
        line["agree"] = f"{len(said.agree)} of {said.n}" if said else "-"
        line["disagree"] = str(len(said.disagree)) if said else "-"
        line["verdict"] = (
            str(rates.verdict_on(runs, settings, rate).verdict) if rate and runs else "no rate to judge"
        )
        lines.append(line)
    high, middle, low = (f"{level:.0e}" for level in rates.LEVELS)
    caption = (
        "Table 1 of the paper, extended to every method of the library, each in the norm of its margins: "
        f"{settings.steps:,} steps, a run for each set and draw. Runs that end within {rates.BRIEF} steps "
        "show no rate and are not counted. The fitted a is the slope of the margin error (of the risk, where "
        "the rate is about it) over the last decade of t: median and range over sets and seeds, without runs "
        "that fall exponentially; then the median slope over the last factor of 2. Exponential: runs whose "
        f"margin error takes from {middle} to {low} at most twice the steps of {high} to {middle}, whatever "
        "is published. Agree, disagree: runs that fall as fast as published or faster, and runs that fall "
        "more slowly, in the quantity that the rate is of; the others do not say. The rate holds if at least "
        "half of the runs agree, with a caveat if some disagree; else it is not decided, since no finite run "
        "refutes an asymptotic rate. A bound for every step (of the perceptron, and of the steps to a "
        f"separator) must hold on all runs.{_other_theorems(list(rates.races(rows)))}"
    )
    return fig.Table.of(
        caption, lines, numbers=("at the end", "exponential", "agree", "disagree"), is_printed=True
    )


def _other_theorems(methods: list[str]) -> str:
    """Return why some rates are not decided, whatever their runs do."""
    found = {m: RATES[m].not_ours for m in methods if m in RATES}
    return "".join(f" {m} has nothing to count: {r[0].lower()}{r[1:]}" for m, r in found.items() if r)


def _two(value: Any) -> str:
    """Return a number with two decimals, 0.00 without a sign."""
    return f"{round(float(value), 2) + 0.0:.2f}"


def _by_set(rows: Any, settings: Any) -> fig.Table:
    last, lines = _last(rows), []
    sets = list(rows["set"].unique())
    for method in rows.method.unique():
        line = {"method": method}
        for name in sets:
            some = where(last, method=method, set=name)
            line[name] = "-"
            if len(some):
                error, t, passes = (float(some[c].median()) for c in ("worst", "t", "passes"))
                ended = bool((some.ended == "resolution").all())
                words = f"below {some.floor.max():.0e}" if ended else f"{error:.1e}"
                line[name] = f"{words} ({t:,.0f}; {passes:,.0f})"
        lines.append(line)
    caption = (
        "The relative margin error at the end of the runs (steps; passes), medians over seeds. A run ends "
        f"before its {settings.steps:,} steps if its error is below what the certified interval of "
        "gamma_star, or rounding, resolves."
    )
    return fig.Table.of(caption, lines)


def reading(rows: Any, settings: Any) -> str:
    """Return what the figure shows, in figures."""
    raced = rates.races(rows)
    in_l2 = set(where(rows, norm="l2").method)
    ended = [m for m, runs in raced.items() if m in in_l2 and all(r.ended == "resolution" for r in runs)]
    verdicts = [rates.verdict_on(runs, settings, RATES[m]).verdict for m, runs in raced.items() if m in RATES]
    counts = ", ".join(v.counted(verdicts.count(v)) for v in Judgement if v in verdicts)
    fast = [method for method, runs in raced.items() if is_fast(runs)]
    return (
        f"Of {len(verdicts)} published rates {counts}. On at least half of the runs that could show it, the "
        f"margin error of {_listed(fast)} falls exponentially. In l2 {_listed(ended)} came on every "
        f"set to what can be resolved, within {settings.steps:,} steps."
    )


def is_fast(runs: list[rates.RaceRun]) -> bool:
    """Return whether the error falls exponentially on at least half of the runs that could show it."""
    long = rates.long_enough(runs)
    return bool(long) and 2 * len(rates.exponential(long)) >= len(long)


def _listed(names: list[str]) -> str:
    """Return the names in a sentence, with semicolons if a name has a comma."""
    if not names:
        return "no method"
    comma = "; " if any("," in name for name in names) else ", "
    return " and ".join([comma.join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _whose(fast: list[str]) -> str:
    is_dual = bool(fast) and all(_family(method) == HULL for method in fast)
    return "; none of these is a gradient method on the loss" if is_dual else ""


for _method, _rate in RATES.items():
    _falls = "it finds a separator within" if _rate.quantity == SEPARATOR else f"its {_rate.quantity} is"
    claim(
        f"rate-{_method.lower().replace(', ', '-').replace(' ', '-').replace('(', '-').replace(')', '')}",
        f"{_method}: {_falls} {_rate.text}.",
        where=f"{OURS}: {_rate.source}",
        experiment=NAME,
    )(partial(rates.judged, method=_method, rate=_rate))


@claim(
    "introduction-polynomial",
    where="Introduction",
    experiment=NAME,
    quote="all existing algorithms, which maximize the margin at a slow polynomial rate",
)
def existing_algorithms_are_polynomial(rows: Any, settings: Any) -> Finding:
    """All existing algorithms maximize the margin at a polynomial rate.

    Count the methods that were published before whose error falls exponentially on at least half of the runs
    that could show it.
    """
    raced = rates.races(rows)
    before = [m for m, rate in RATES.items() if m in raced and not rate.not_ours]
    fast = [method for method in before if is_fast(raced[method])]
    words = "; ".join(
        f"{m} on {len(rates.exponential(long))} of {len(long)} runs"
        for m in fast
        if (long := rates.long_enough(raced[m]))
    )
    # A method that is linear by its theorem, but whose runs do not show it, speaks for neither answer.
    silent = [m for m in before if RATES[m].is_exponential and m not in fast]
    return Finding(
        ((float(len(fast)), float(len(fast) + len(silent))), "<=", 0.0),
        f"Of {len(before)} published methods {len(fast)} fall{'s' * (len(fast) == 1)} exponentially"
        f"{f' ({words})' if words else ''}{_whose(fast)}. Methods on the dual have had linear rates since "
        "2011 (errata, entry 1).",
        what="methods whose error falls exponentially",
        setting=f"{settings.steps:,} steps on {', '.join(rows['set'].unique())}.",
        not_given="which algorithms it means",
        would_change="Words that name gradient methods, or all methods.",
    )
