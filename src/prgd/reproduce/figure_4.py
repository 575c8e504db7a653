"""Figure 4: margin errors on the digits, with the exact gamma_star and to where the order changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from prgd.datasets import digits
from prgd.problem import Problem
from prgd.reproduce.curves import DIGITS, WARM_UP, curve_rows, leads_until, record_times, warm_start, watch
from prgd.reproduce.experiment import Experiment, Row
from prgd.reproduce.figure_4_reading import claims, crossings, reading, tables
from prgd.reproduce.figures import GREY, Figure, Line, Note, Panel, Style, floored, log_log, style_of, thinned
from prgd.theory import assumptions

COLUMNS = ("kind", "set", "rows", "method", "t", "margin", "lower", "upper", "name", "value")
PAPER = ("GD", "NGD", "PRGD(exp)", "PRGD(poly)")


@dataclass(frozen=True)
class Settings:
    """Horizons: ``early`` is what the paper's figure may show, ``ngd_steps`` its "sufficiently trained"."""

    early: int = 1_000
    steps: int = 20_000
    ngd_steps: int = 100_000
    warm_up: int = WARM_UP
    pairs: tuple[tuple[int, int], ...] = ((0, 1), (0, 4))
    rows: tuple[int, ...] = (300, 0)  # 0: all


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
    for method in DIGITS:
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
    return [{column: row.get(column, "") for column in COLUMNS} for row in rows]


def draw(rows: Any, settings: Settings) -> list[Figure]:
    """Return the paper's figure, the long horizons, and three checks."""
    sets = crossings(rows)
    early = [_early(rows, settings, key) for key in sets if key[1] != "all"]
    long = [_long(rows, settings, key) for key in sets]
    first = next(iter(sets))
    checks = [
        _counted(rows, settings, first),
        _upper(rows, settings, first),
        _approximate(rows, settings, first),
    ]
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
            tuple(checks),
        ),
    ]


def _curves(rows: Any, key: tuple[str, str]) -> Any:
    return rows[(rows.kind == "curve") & (rows["set"] == key[0]) & (rows["rows"].astype(str) == key[1])]


def _name(key: tuple[str, str]) -> str:
    return f"{key[0]}, {'all' if key[1] == 'all' else f'first {key[1]}'} rows"


def _lines(
    curves: Any, methods: Any, most: int, gamma_star: float, shift: int = 0, upper: bool = False
) -> tuple[Line, ...]:
    lines = []
    for method in methods:
        some = curves[(curves.method == method) & (curves.t <= most)]
        error = some.upper - gamma_star if upper else gamma_star - some.margin
        moved = some.t.to_numpy() + (shift if method in ("PRGD(exp)", "PRGD(poly)") else 0)
        lines.append(thinned(Line(method, moved, floored(error), style_of(method))))
    return tuple(lines)


def _early(rows: Any, settings: Settings, key: tuple[str, str]) -> Panel:
    gamma_star = crossings(rows)[key]["gamma_star"]
    marks = _lines(_curves(rows, key), PAPER, settings.early, gamma_star)
    return Panel(_name(key), marks, "step t, warm-up left out", "gamma_star - gamma(w(t))", y_log=True)


def _long(rows: Any, settings: Settings, key: tuple[str, str]) -> Panel:
    fact = crossings(rows)[key]
    gamma_star, at = fact["gamma_star"], fact["leads NGD until"]
    marks = _lines(_curves(rows, key), [m.name for m in DIGITS], settings.steps, gamma_star)
    wall = Line("NGD overtakes PRGD(poly)", [at, at], [1e-8, 1.0], Style(GREY, "dash"), 1.2, False)
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


def _counted(rows: Any, settings: Settings, key: tuple[str, str]) -> Panel:
    gamma_star = crossings(rows)[key]["gamma_star"]
    methods = [m.name for m in DIGITS if m.name != "NGD, warm start"]
    marks = _lines(_curves(rows, key), methods, settings.steps, gamma_star, settings.warm_up)
    return log_log(
        "Warm-up counted",
        marks,
        "step t, warm-up counted",
        "gamma_star - gamma(w(t))",
        1e-8,
        is_ours=True,
    )


def _upper(rows: Any, settings: Settings, key: tuple[str, str]) -> Panel:
    gamma_star = crossings(rows)[key]["gamma_star"]
    methods = [m.name for m in DIGITS if m.name != "NGD, warm start"]
    marks = _lines(_curves(rows, key), methods, settings.steps, gamma_star, upper=True)
    return log_log(
        "Certified upper bound",
        marks,
        "step t, warm-up left out",
        "smallest upper bound - gamma_star",
        1e-8,
        is_ours=True,
    )


def _approximate(rows: Any, settings: Settings, key: tuple[str, str]) -> Panel:
    gamma_ngd = crossings(rows)[key]["gamma_ngd"]
    curves = _curves(rows, key)
    curves = curves[curves.margin < gamma_ngd]
    marks = _lines(curves, PAPER, settings.steps, gamma_ngd)
    return log_log(
        f"The paper's gamma_star: NGD at {settings.ngd_steps:,} steps",
        marks,
        "step t, warm-up left out",
        "gamma_NGD - gamma(w(t))",
        1e-8,
    )


EXPERIMENT = Experiment(
    name="figure-4",
    title="Margin maximization on the digits",
    where="Figure 4, Section 7.1",
    settings=Settings(),
    quick=Settings(steps=3_000, ngd_steps=5_000, rows=(300,)),
    tasks=tasks,
    compute=compute,
    draw=draw,
    claims=claims,
    reading=reading,
    tables=tables,
    seconds=8.0,
)
