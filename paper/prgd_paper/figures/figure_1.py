"""Figure 1: the toy set, its vector field with the attractor, and 8 steps of NGD and PRGD."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from prgd import datasets
from prgd.algorithms import NGD, PRGD
from prgd.problem import Problem
from prgd.running.loop import run
from prgd.schedules import Every, LiftTo
from prgd_paper.claims import Finding, claim
from prgd_paper.report import elements as fig
from prgd_paper.reproduce.curves import Method, Schedules, error_lines, methods, padded, where
from prgd_paper.reproduce.experiment import Experiment, Row
from prgd_paper.theory.velocity import direction_error, toy_attractor, velocity_field

COLUMNS = ("kind", "method", "t", "x", "y", "u", "v", "value", "lower", "upper")


NOT_GIVEN = "the gamma_star of Figure 1"
figure_1_claim = partial(claim, where="Section 4, Figure 1", experiment="figure-1")
# Purple is PRGD's colour in this figure, as in the paper, so game dynamics takes another one.
STYLES = {
    "PRGD": fig.Style(fig.PURPLE, "solid", "triangle-up"),
    "game dynamics": fig.Style(fig.SKY, "longdash", "cross"),
}


@dataclass(frozen=True)
class Settings:
    """The margin of the toy set is ours, the paper gives none; ``steps`` are those of the picture."""

    gamma_star: float = 0.3
    height: float = 1.0  # PRGD rescales to the line w_2 = height
    phase: int = 2
    steps: int = 8
    long_steps: int = 60
    eta: float = 1.0
    grid: tuple[int, int] = (27, 11)
    grid_heights: tuple[float, float] = (-0.4, 1.3)  # the lowest and the highest w_2 of the grid


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the points, the field on a grid, the attractor and the paths."""
    data = datasets.toy(settings.gamma_star)
    problem = Problem(data.X, data.y, scale="none", n_jobs=1)
    rows: list[Row] = [
        {"kind": "point", "x": x, "y": y, "value": label}
        for (x, y), label in zip(data.X, data.y, strict=True)
    ]
    zone = toy_attractor(settings.gamma_star)
    rows.append({"kind": "attractor", "lower": zone.lower, "value": zone.line, "upper": zone.upper})
    w_1 = run(problem, NGD(settings.eta), stop=1).w  # Both paths start here: after one NGD step from 0.
    prgd = PRGD(LiftTo(settings.height, np.array([1.0, 0.0])), Every(settings.phase), settings.eta)
    rows += _path("path", "NGD", problem, NGD(settings.eta), w_1, settings.steps, data.w_star)
    rows += _path("path", "PRGD", problem, prgd, w_1, settings.steps, data.w_star)
    widest = max(row["x"] for row in rows if row["kind"] == "path")
    columns, lines = settings.grid
    across, up = np.linspace(0.0, math.ceil(widest), columns), np.linspace(*settings.grid_heights, lines)
    field = velocity_field(data, data.w_star, across, up)
    for j, y in enumerate(field.y):
        for i, x in enumerate(field.x):
            u, v = field.direction[j, i]
            rows.append({"kind": "field", "x": x, "y": y, "u": u, "v": v, "value": field.velocity[j, i]})
    others = [method for method in methods(Schedules(eta=settings.eta)) if not method.is_warm]
    for method in (*others, Method("PRGD", prgd, is_warm=True)):
        w0 = w_1 if method.is_warm else None
        rows += _path("curve", method.name, problem, method.algorithm, w0, settings.long_steps, data.w_star)
    return padded(rows, COLUMNS)


def _path(
    kind: str, name: str, problem: Problem, algorithm: Any, w0: Any, steps: int, w_star: Any
) -> list[Row]:
    """Return each iterate of a method with its errors and bounds."""
    seen: list[Any] = []
    run(problem, algorithm, w0, stop=steps, record=None, observe=lambda *now: seen.append(now))
    rows: list[Row] = []
    for s, now, certificate in seen:
        row: Row = {"kind": kind, "method": name, "t": s.t, "x": s.w[0], "y": s.w[1]}
        if s.w.any():
            row |= {"value": direction_error(s.w, w_star), "u": now.margin}
            row |= {"lower": certificate.lower, "upper": certificate.upper}
        rows.append(row)
    return rows


def draw(rows: Any, settings: Settings) -> list[fig.Figure]:
    """Return the figure: the set, the field with both paths, and two panels of ours."""
    e = _ends(rows)
    alt = (
        "Left, three unit vectors and the max-margin direction along the first axis. Middle, arrows of the "
        "normalized descent direction: above a green strip they point down, below it up. NGD creeps along "
        f"the green strip; PRGD jumps to the line w_2 = {settings.height:g}, steps down towards the strip, "
        f"and moves ever farther out. Right, errors against steps: after {settings.steps} steps the "
        f"direction error is {e['NGD']:.2g} for NGD and {e['PRGD']:.2g} for PRGD."
    )
    curves = rows[(rows.kind == "curve") & (rows.t > 0)]
    panels = (
        _points(rows, settings),
        field_panel(rows, "(b) Vector field, NGD and PRGD"),
        _errors(curves, settings.gamma_star - curves.u, "Margin error", fig.MARGIN_ERROR),
        _errors(curves, curves.upper - settings.gamma_star, "Certified upper bound", fig.BOUND_ERROR),
    )
    return [
        fig.Figure(
            "figure-1", f"The toy set, its vector field, and {settings.steps} steps", alt, panels, columns=2
        )
    ]


def _points(rows: Any, settings: Settings) -> fig.Panel:
    points = where(rows, kind="point")
    dashes = fig.Style(fig.VERMILLION, "dash")
    marks: tuple[fig.Mark, ...] = (
        *fig.two_classes(points.assign(label=points.value), size=10.0),
        fig.Line("w_star", [0.0, 1.0], [0.0, 0.0], has_markers=False, style=dashes),
    )
    notes = [
        fig.Note(float(p.x) + (0.08 if p.x > 0 else -0.26), float(p.y), f"x_{i + 1}")
        for i, p in enumerate(points.itertuples())
    ]
    ends = (-1.15, 1.15)
    title, x, y = f"(a) Dataset 1, gamma_star = {settings.gamma_star}", "first feature", "second feature"
    return fig.Panel(title, marks, x, y, x_range=ends, y_range=ends, notes=tuple(notes), is_equal=True)


def field_panel(rows: Any, title: str) -> fig.Panel:
    """Return the vector field with the attractor, the ray of w_star and both paths."""
    field, zone = where(rows, kind="field"), where(rows, kind="attractor").iloc[0]
    right = float(field.x.max())
    arrows = [field[name].to_numpy() for name in ("x", "y", "u", "v")]
    ends, green = [0.0, right], fig.Style(fig.GREEN)
    marks: list[Any] = [
        fig.Band("attractor of NGD", ends, [zone.lower] * 2, [zone.upper] * 2, style=green),
        fig.Arrows("descent direction", *arrows, style=fig.Style(fig.GREY)),
        fig.Line("attractor of NGD", ends, [zone.value] * 2, 1.0, has_markers=False, style=green),
        fig.Line("w_star", ends, [0.0, 0.0], has_markers=False, style=fig.Style(fig.VERMILLION, "dash")),
    ]
    for method in ("NGD", "PRGD"):
        some = where(rows, kind="path", method=method)
        style = STYLES.get(method, fig.BY_NAME)
        marks.append(fig.Line(method, some.x.to_numpy(), some.y.to_numpy(), style=style))
    start, black = where(rows, kind="path", t=0).iloc[0], fig.Style(fig.BLACK)
    marks.append(fig.Points("w(0) = 0 and w(1)", [0.0, start.x], [0.0, start.y], size=8.0, style=black))
    x_range, y_range = (-0.3, right + 0.3), (-0.5, 1.4)
    return fig.Panel(title, tuple(marks), "w_1", "w_2", x_range=x_range, y_range=y_range)


def _errors(curves: Any, error: Any, title: str, label: str) -> fig.Panel:
    """Draw an error of each method."""
    marks = error_lines(curves, error, styles=STYLES)
    return fig.log_log(title, marks, "step t", label, 1e-16, is_ours=True)


def _ends(rows: Any, kind: str = "path") -> dict[str, float]:
    """Return the last direction error of each method."""
    return {method: float(some.value.iloc[-1]) for method, some in rows[rows.kind == kind].groupby("method")}


@figure_1_claim("section-4-attractor", quote=r"NGD keeps trapped in the attractor $\mathbb{A}$")
def ngd_stays_in_the_attractor(rows: Any, settings: Settings) -> Finding:
    """On the toy set NGD enters the attractor (the green zone) and stays there.

    Count the iterates of NGD that lie in the green zone.
    """
    zone = where(rows, kind="attractor").iloc[0]
    inside = where(rows, kind="path", method="NGD").y.between(zone.lower, zone.upper)
    return Finding(
        (float(inside.mean()), "==", 1.0),
        f"{int(inside.sum())} of the {len(inside)} iterates drawn lie in the green zone (gamma_star = "
        f"{settings.gamma_star}); after {settings.steps} steps the direction error is "
        f"{_ends(rows)['NGD']:.2g}.",
        setting=_setting(settings),
        not_given=NOT_GIVEN,
        would_change="An iterate outside the zone; prgd claims proposition-4.1-ngd asks other gamma_star.",
    )


@figure_1_claim("section-4-prgd", quote=r"converges towards $\bw^*$ in direction much faster")
def prgd_leaves_the_attractor(rows: Any, settings: Settings) -> Finding:
    """PRGD leaves the attractor by rescaling to the line w_2 = 1 and converges much faster in direction.

    Compare the direction errors of PRGD and NGD after as many steps.
    """
    lifted = rows[(rows.kind == "path") & (rows.method == "PRGD") & (rows.t % settings.phase == 1)]
    off_line = float((lifted.y - settings.height).abs().max())
    e, late = _ends(rows), _ends(rows, "curve")
    return Finding(
        (e["PRGD"] / e["NGD"], "<", 1.0),
        f"Rescaled iterates lie on w_2 = {settings.height:g} to {fig.small(off_line)}. After "
        f"{settings.steps} steps the direction error is {e['PRGD']:.2g} against NGD's {e['NGD']:.2g}; after "
        f"{settings.long_steps} steps it is {late['PRGD']:.1e} against {late['NGD']:.1e}.",
        setting=_setting(settings),
        not_given=NOT_GIVEN,
        would_change="A margin gamma_star at which PRGD's direction error is not below NGD's.",
    )


def _setting(settings: Settings) -> str:
    return (
        f"Dataset 1 with gamma_star = {settings.gamma_star} (ours); {settings.steps} steps from w(1), eta = "
        f"{settings.eta:g}, PRGD with phases of {settings.phase} steps."
    )


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figure shows, in figures."""
    e = _ends(rows)
    return (
        "NGD creeps along the green strip, where the field has no part towards w_star; PRGD leaves it by "
        f"rescaling and steps down where the field is strong. After {settings.steps} steps the direction "
        f"errors are {e['NGD']:.2g} (NGD) and {e['PRGD']:.2g} (PRGD). The margin gamma_star = "
        f"{settings.gamma_star} of the set is our choice."
    )


EXPERIMENT = Experiment.of_module(
    __name__,
    order=1,
    title="Why rescaling helps: the toy set",
    where="Figure 1, Section 4",
    quick=Settings(long_steps=40),
)
