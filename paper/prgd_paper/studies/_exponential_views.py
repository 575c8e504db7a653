"""What the experiment on the dual vector shows: its figures, its tables and its verdicts, from rows only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array
from prgd_paper.report import elements as fig
from prgd_paper.reproduce.curves import span, where

NAME = "exponential"
NEWTON = "progressive-rescaling Newton"
# Lines: the method, whether the line is that of the second direction, and its style.
LINES: dict[str, tuple[str, bool, fig.Style]] = {
    "GD": ("GD", False, fig.Style(fig.BLACK, "dot")),
    "NGD, w": ("NGD", False, fig.Style(fig.ORANGE, "dash")),
    "PRGD(exp), w": ("PRGD(exp)", False, fig.Style(fig.BLUE, "dashdot")),
    "PRGD(poly), w": ("PRGD(poly)", False, fig.Style(fig.VERMILLION, "dash")),
    "NGD, u": ("NGD", True, fig.Style(fig.ORANGE, "solid")),
    "restarted NGD, u": ("restarted NGD", True, fig.Style(fig.PURPLE, "solid")),
    "rescaled Newton, h": (NEWTON, True, fig.Style(fig.GREEN, "solid")),
}
CERTIFIED = ("NGD", "PRGD(exp)", "PRGD(poly)", "dual acceleration", "restarted NGD")
LOWEST = 1e-13
ERROR = "1 - gamma(v) / gamma_star, best v"


class SetFacts(NamedTuple):
    """What is known about a set: its numbers by name, and how it is called."""

    name: str
    seed: int
    values: Mapping[str, float]

    @property
    def title(self) -> str:
        """The name, and whether the assumption of the paper holds."""
        if self.values["assumption 5.4"]:
            return f"{self.name}: 5.4 holds"
        return f"{self.name}: {'5.4 fails' if self.values['strict complementarity'] else 'not strict'}"


def sets_of(rows: Any) -> list[SetFacts]:
    """Return the sets with their facts, in the order of the rows."""
    facts = where(rows, kind="fact")
    return [
        SetFacts(str(name), int(seed), dict(zip(part.name, part.value.astype(float), strict=True)))
        for (name, seed), part in facts.groupby(["set", "seed"], sort=False)
    ]


def curve_of(rows: Any, facts: SetFacts, method: str) -> Any:
    """Return the recorded steps of a method on a set."""
    return where(rows, kind="curve", set=facts.name, seed=facts.seed, method=method)


def error_of(curve: Any, is_second: bool) -> Array:
    """Return the error of the best separator so far: w, or also the second direction."""
    w = curve.w.to_numpy(float)
    return np.asarray(np.fmin(w, curve.second.to_numpy(float))) if is_second else w


def _lines(rows: Any, facts: SetFacts, names: Sequence[str], x: str) -> list[fig.Line]:
    found = []
    for name in names:
        method, is_second, style = LINES[name]
        curve = curve_of(rows, facts, method)
        error = error_of(curve, is_second)
        shown = error < 1.0
        shown[np.argmax(error <= LOWEST) + 1 if (error <= LOWEST).any() else error.size :] = False
        if shown.any():
            y = np.maximum(fig.floored(error[shown]), LOWEST)
            at = curve[x].to_numpy(float)[shown]
            found.append(fig.Line(name, at, y, 1.8, has_markers=False, style=style))
    return found


def draw(rows: Any, settings: Any) -> list[fig.Figure]:
    """Return the margin errors against steps and passes, and the dual vector against w and its bound."""
    sets, figures = [f for f in sets_of(rows) if f.seed == 0], []
    said, ends = reading(rows, settings), (1.0, float(settings.steps))
    for x, name, words in (
        ("t", NAME, "steps"),
        ("passes", f"{NAME}-passes", "passes over the rows, products of Newton's inner solver included"),
    ):
        label = "step t, warm-up counted" if x == "t" else "passes over the rows, warm-up counted"
        panels = tuple(
            fig.log_log(f.title, _lines(rows, f, list(LINES), x), label, ERROR, LOWEST, x_range=ends)
            for f in sets
        )
        alt = (
            f"Relative margin error of the best separator so far against {words}, on logarithmic axes, one "
            "panel for each set; its title says whether Assumption 5.4 holds, and where strict "
            f"complementarity fails, too.{f' {said}' if x == 't' else ''}"
        )
        title = f"Exponential without Assumption 5.4: margin error against {words.split(',')[0]}"
        figures.append(fig.Figure(name, title, alt, panels))
    return [*figures, _closer(rows, settings, sets)]


def _closer(rows: Any, settings: Any, sets: list[SetFacts]) -> fig.Figure:
    """Draw w and u of NGD and restarted NGD on one pair of digits, and E1's bound on two sets."""
    digits = [f for f in sets if f.name.startswith("digits 0 and 1")][-1]
    spans = [f for f in sets if f.values["assumption 5.4"]][-1]
    restarted: dict[str, Any] = {"restarted NGD, w": ("restarted NGD", False, fig.Style(fig.PURPLE, "dash"))}
    marks = []
    for name, (method, is_second, style) in {**LINES, **restarted}.items():
        if method in {"NGD", "restarted NGD"}:
            curve = curve_of(rows, digits, method)
            error, t = error_of(curve, is_second), curve.t.to_numpy(float)
            y = np.maximum(fig.floored(error), LOWEST)
            x = t[error < 1.0] / 1000.0
            marks.append(fig.Line(name, x, y[error < 1.0], 1.8, False, style=style))
    panels = (
        fig.Panel(
            digits.name, tuple(marks), "thousands of steps t", ERROR, y_log=True, y_range=(LOWEST, 1.0)
        ),
        *(_bound_panel(rows, f) for f in (digits, spans)),
    )
    w, u, _ = _last(rows, digits, "restarted NGD")
    alt = (
        "Left, margin errors of w and of u along NGD and restarted NGD on a linear axis of steps: of "
        f"restarted NGD w ends at {fig.small(w)} and u at {fig.small(u)}, where margins of a long w are "
        "rounded. Middle and right, the excess of the squared norm of NGD's dual vector, below the bound of "
        "E1."
    )
    return fig.Figure(f"{NAME}-dual", "The dual vector against w, and the bound on its norm", alt, panels)


def _bound_panel(rows: Any, facts: SetFacts) -> fig.Panel:
    t, over, bound = excess(rows, facts)
    lines = [
        fig.Line("bound of Theorem E1", t, bound, 1.6, has_markers=False, style=fig.Style(fig.GREY, "dash")),
        fig.Line("u of NGD", t, fig.floored(over), 1.8, has_markers=False, style=fig.Style(fig.BLUE)),
    ]
    lowest = 10.0 ** math.floor(math.log10(max(float(fig.floored(over).min()), LOWEST)))
    name = "||u||² / gamma_star² - 1"
    return fig.log_log(f"Theorem E1, {facts.name}", lines, "step t", name, lowest, float(bound.max()))


def excess(rows: Any, facts: SetFacts) -> tuple[Array, Array, Array]:
    """Return t, ``U_t^2 / gamma_star^2 - 1`` of NGD, and the bound of E1 in the same units."""
    curve, v = curve_of(rows, facts, "NGD"), facts.values
    t, upper = curve.t.to_numpy(float), curve.upper.to_numpy(float)
    return t, upper * (2.0 + upper), 2.0 * v["divergence"] / (v["eta"] * v["gamma_star"] ** 2 * t)


def tables(rows: Any, settings: Any) -> list[fig.Table]:
    """Return the steps to a certified gap with and without second directions, and the errors at the end."""
    return [certificates(rows, settings), _ends(rows, settings)]


def _called(facts: SetFacts, sets: list[SetFacts]) -> str:
    is_drawn = sum(f.name == facts.name for f in sets) > 1
    return f"{facts.name}, seed {facts.seed}" if is_drawn else facts.name


def passages(rows: Any, facts: SetFacts, method: str, level: float) -> tuple[int, int]:
    """Return the steps to a certified gap with the second direction and without it; -1 if not reached."""
    (row,) = where(
        rows, kind="certified", set=facts.name, seed=facts.seed, method=method, value=level
    ).itertuples()
    return int(row.second), int(row.w)


def certificates(rows: Any, settings: Any) -> fig.Table:
    """Return the steps to a certified gap with the margin of u, and without it."""
    sets, lines = sets_of(rows), []
    for facts in sets:
        for level in settings.levels[:2]:
            line = {"set": _called(facts, sets), "gap": f"{level:.0e}"}
            for method in CERTIFIED:
                with_u, without = passages(rows, facts, method, level)
                line[method] = f"{step_text(with_u)} / {step_text(without)}"
            lines.append(line)
    caption = (
        "Certificates by u: steps until the certified relative gap is at most 1e-4 and 1e-6, with the margin "
        "of the dual vector u, and without it (after the slash); both have the same upper bounds. A dash: "
        f"not within {settings.steps:,} steps ({settings.short:,} for PRGD, its {settings.warm_up:,} steps "
        "of warm-up counted)."
    )
    return fig.Table.of(caption, lines, numbers=("gap", *CERTIFIED))


def step_text(t: int) -> str:
    """Return a step in words: a dash if it was not reached."""
    return f"{t:,}" if t >= 0 else "-"


def _last(rows: Any, facts: SetFacts, method: str) -> tuple[float, float, int]:
    """Return the errors of w and of the second direction at the end of a run, and its last step."""
    end = curve_of(rows, facts, method).iloc[-1]
    return float(end.w), float(end.second), int(end.t)


def _ends(rows: Any, settings: Any) -> fig.Table:
    sets, lines = sets_of(rows), []
    for facts in sets:
        v = facts.values
        line = {"set": _called(facts, sets), "n x d": f"{v['n']:.0f} x {v['d']:.0f}"}
        line["support, rank"] = f"{v['support']:.0f}, {v['support rank']:.0f} of {v['data rank']:.0f}"
        line["strict"] = "yes" if v["strict complementarity"] else "no"
        line["5.4"] = "yes" if v["assumption 5.4"] else "no"
        line["1 / c"] = _steps(1.0 / v["predicted rate"]) if v["strict complementarity"] else "-"
        for method, short in (("NGD", "NGD"), ("restarted NGD", "restarted NGD"), (NEWTON, "Newton")):
            w, second, t = _last(rows, facts, method)
            line[f"{short}: w"] = _small(w)
            line[f"{short}: {'h' if method == NEWTON else 'u'}"] = _small(second)
            if method == NEWTON:
                line["Newton: steps"] = f"{t}"
        lines.append(line)
    caption = (
        "Relative margin errors at the end: the best w so far, and the best second direction (u, the dual "
        f"vector; h, the displacement of Newton's phases). NGD and restarted NGD have {settings.steps:,} "
        f"steps, fewer if w is certified to {settings.levels[-1]:.0e}. Strict: strict complementarity. 1 / "
        "c: the steps in which NGD's u gains a factor of e in the end, predicted from the solution (Theorem "
        "E2). Planted sets are random ones of known w_star."
    )
    return fig.Table.of(caption, lines)


def _steps(number: float) -> str:
    return f"{number:,.0f}" if number >= 10.0 else f"{number:.1f}"


def _small(error: float) -> str:
    return "-" if not math.isfinite(error) else fig.small(error) if error > LOWEST else "below 1e-13"


def reading(rows: Any, settings: Any) -> str:
    """Return what the figure shows, in figures."""
    fails = [f for f in sets_of(rows) if not f.values["assumption 5.4"] and f.name.startswith("digits")]
    ends = {m: [_last(rows, f, m) for f in fails] for m in ("NGD", "restarted NGD")}
    exp = [_last(rows, f, "PRGD(exp)")[0] for f in fails]
    (ngd_w, ngd_u), (w, u) = (
        tuple(span(errors, ".0e") for errors in list(zip(*found, strict=True))[:2]) for found in ends.values()
    )
    return (
        f"On {len(fails)} sets of digits, where Assumption 5.4 fails, the margin error of NGD ends at "
        f"{ngd_w} for w and {ngd_u} for u, that of restarted NGD at {w} and {u}, and PRGD(exp) freezes at "
        f"{span(exp, '.0e')}."
    )
