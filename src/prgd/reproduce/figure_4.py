"""Figure 4: margin errors on the digits, with the exact gamma_star and until the methods change places."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from prgd.algorithms import NGD
from prgd.datasets import digits
from prgd.problem import Problem
from prgd.reproduce import curves as shared
from prgd.reproduce.curves import (
    Method,
    Schedules,
    curve_rows,
    leads_until,
    padded,
    record_times,
    warm_start,
    watch,
)
from prgd.reproduce.experiment import Experiment, Row
from prgd.reproduce.figure_4_reading import crossings, reading, tables
from prgd.reproduce.figures import GREY, Figure, Line, Note, Panel, Style, floored, log_log, thinned
from prgd.theory import assumptions

__all__ = ["EXPERIMENT", "Settings", "compute", "draw", "reading", "tables", "tasks"]

COLUMNS = ("kind", "set", "rows", "method", "t", "margin", "lower", "upper", "name", "value")
PAPER = ("GD", "NGD", "PRGD(exp)", "PRGD(poly)")


@dataclass(frozen=True)
class Settings(Schedules):
    """The exponents of PRGD(poly), and horizons.

    ``early`` is what the paper's figure may show, ``ngd_steps`` its "sufficiently trained".
    """

    alpha: float = 0.6  # Section 7.1: alpha = beta = 0.6 on the digits
    beta: float = 0.6
    phase: int = 5  # T_0 is ours, the paper gives none
    early: int = 1_000
    steps: int = 20_000
    ngd_steps: int = 100_000
    pairs: tuple[tuple[int, int], ...] = ((0, 1), (0, 4))
    rows: tuple[int, ...] = (300, 0)  # the first so many rows of a pair; 0 stands for all


def methods(settings: Settings) -> tuple[Method, ...]:
    """Return the methods of every experiment, and NGD from PRGD's warm start."""
    gd, ngd, *others = shared.methods(settings)
    return (gd, ngd, Method("NGD, warm start", NGD(), is_warm=True), *others)


def tasks(settings: Settings) -> list[str]:
    """Return one task for each pair of digits and number of rows."""
    return [f"digit-{a}{b}-{n or 'all'}" for n in settings.rows for a, b in settings.pairs]


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the curves of every method on one set, the exact answer, and who leads until when."""
    _, pair, n = task.split("-")
    data = digits(int(pair[0]), int(pair[1]), None if n == "all" else int(n))
    report = assumptions(data)
    assert report.reference is not None  # noqa: S101 - for the type checker: the digits are separable
    gamma_star = report.reference.gamma_star
    problem = Problem(data.X, data.y, scale="none", n_threads=1)
    warm = warm_start(problem, settings.warm_up)
    base = {"set": f"digit-{pair}", "rows": n}
    rows: list[Row] = []
    error: dict[str, Any] = {}
    for method in methods(settings):
        steps = settings.ngd_steps if method.name == "NGD" else settings.steps
        seen = watch(problem, method.algorithm, warm if method.is_warm else None, steps)
        rows += curve_rows(seen, record_times(steps), **base, kind="curve", method=method.name)
        error[method.name] = gamma_star - seen.margin
    poly, ngd = error["PRGD(poly)"], error["NGD"]
    facts = {
        "n": len(data.y),
        "d": data.X.shape[1],
        "gamma_star": gamma_star,
        "gamma_ngd": gamma_star - ngd[-1],
        "support": report.n_support,
        "support rank": report.support_rank,
        "data rank": report.data_rank,
        "leads NGD until": leads_until(poly[1:], ngd[1 : poly.size]) + 1,
        "leads warm NGD until": leads_until(poly[1:], error["NGD, warm start"][1:]) + 1,
        "leads with warm-up counted until": leads_until(poly, ngd[settings.warm_up :][: poly.size]),
        "leads GD until": leads_until(poly[1:], error["GD"][1:]) + 1,
        "exp leads NGD until": leads_until(error["PRGD(exp)"][1:], ngd[1 : poly.size]) + 1,
    }
    rows += [base | {"kind": "fact", "name": name, "value": float(value)} for name, value in facts.items()]
    return padded(rows, COLUMNS)


def draw(rows: Any, settings: Settings) -> list[Figure]:
    """Return the paper's figure, the long horizons, and three checks."""
    sets = crossings(rows)
    early = [_early(rows, settings, key) for key in sets if key[1] != "all"]
    long = [_long(rows, settings, key) for key in sets]
    first = next(iter(sets))
    c = sets[first]
    return [
        Figure(
            "figure-4",
            f"Digits, first 300 rows, the first {settings.early:,} steps",
            "Margin error against steps for two pairs of digits. PRGD(poly) lies below NGD on the whole "
            "range; GD stays near the top, and PRGD(exp) falls at first and then is flat.",
            tuple(early),
            columns=2,
        ),
        Figure(
            "figure-4-long",
            f"Digits, {settings.steps:,} steps, with dual acceleration and game dynamics",
            f"The same on logarithmic axes for four sets. On {first[0]}, first {first[1]} rows, PRGD(poly) "
            f"leads NGD up to step {c['leads NGD until']:,.0f} and ends above it; dual acceleration and "
            "game dynamics lie far below all others from about step 50 on.",
            tuple(long),
            columns=2,
        ),
        Figure(
            "figure-4-checks",
            f"{first[0]}, first {first[1]} rows: warm-up counted, upper bounds, and the paper's gamma_star",
            "Left: with its warm-up counted PRGD(poly) never leads NGD. Middle: certified upper bounds, "
            "which fall like the margin errors. Right: the margin error measured with the margin of a long "
            "NGD run in place of gamma_star; the curves drop off where they come near that margin.",
            tuple(_checks(rows, settings, first)),
        ),
    ]


def _name(key: tuple[str, str]) -> str:
    return f"{key[0]}, {'all' if key[1] == 'all' else f'first {key[1]}'} rows"


def _lines(
    rows: Any,
    key: tuple[str, str],
    names: Iterable[str],
    last: int,
    error: Callable[[Any], Any],
    warm_up: int = 0,
) -> tuple[Line, ...]:
    """Return the error of each method up to step ``last``; PRGD begins at step ``warm_up``."""
    curves = rows[(rows.kind == "curve") & (rows["set"] == key[0]) & (rows["rows"].astype(str) == key[1])]
    lines = []
    for name in names:
        some = curves[(curves.method == name) & (curves.t <= last)]
        t = some.t.to_numpy() + (warm_up if name.startswith("PRGD") else 0)
        values = error(some)
        lines.append(thinned(Line(name, t[values.notna()], floored(values.dropna()))))
    return tuple(lines)


def _early(rows: Any, settings: Settings, key: tuple[str, str]) -> Panel:
    gamma_star = crossings(rows)[key]["gamma_star"]
    marks = _lines(rows, key, PAPER, settings.early, lambda some: gamma_star - some.margin)
    return Panel(_name(key), marks, "step t, warm-up left out", "gamma_star - gamma(w(t))", y_log=True)


def _long(rows: Any, settings: Settings, key: tuple[str, str]) -> Panel:
    fact = crossings(rows)[key]
    gamma_star, at = fact["gamma_star"], fact["leads NGD until"]
    names = [method.name for method in methods(settings)]
    marks = _lines(rows, key, names, settings.steps, lambda some: gamma_star - some.margin)
    dashes = Style(GREY, "dash")
    wall = Line("NGD overtakes PRGD(poly)", [at, at], [1e-8, 1.0], 1.2, has_markers=False, style=dashes)
    note = Note(math.log10(at), math.log10(3e-8), f"t = {at:,.0f}")
    return log_log(
        _name(key),
        (*marks, wall),
        "step t, warm-up left out",
        "gamma_star - gamma(w(t))",
        1e-8,
        notes=(note,),
        is_ours=True,
    )


def _checks(rows: Any, settings: Settings, key: tuple[str, str]) -> list[Panel]:
    """Return three panels: the warm-up counted, the upper bounds, and the paper's own gamma_star."""
    fact = crossings(rows)[key]
    gamma_star, gamma_ngd, last = fact["gamma_star"], fact["gamma_ngd"], settings.steps
    names = [method.name for method in shared.methods(settings)]
    left_out, error = "step t, warm-up left out", "gamma_star - gamma(w(t))"
    counted = _lines(rows, key, names, last, lambda some: gamma_star - some.margin, settings.warm_up)
    upper = _lines(rows, key, names, last, lambda some: some.upper - gamma_star)
    # Steps at which the margin exceeds that of NGD have no place on a logarithmic axis.
    near = _lines(
        rows, key, PAPER, last, lambda some: (gamma_ngd - some.margin).where(some.margin < gamma_ngd)
    )
    own = f"The paper's gamma_star: NGD at {settings.ngd_steps:,} steps"
    return [
        log_log("Warm-up counted", counted, "step t, warm-up counted", error, 1e-8, is_ours=True),
        log_log(
            "Certified upper bound", upper, left_out, "smallest upper bound - gamma_star", 1e-8, is_ours=True
        ),
        log_log(own, near, left_out, "gamma_NGD - gamma(w(t))", 1e-8),
    ]


EXPERIMENT = Experiment.of_module(
    __name__,
    order=4,
    title="Margin maximization on the digits",
    where="Figure 4, Section 7.1",
    quick=Settings(steps=3_000, ngd_steps=5_000, rows=(300,)),
    seconds=8.0,
)
