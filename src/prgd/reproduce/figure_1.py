"""Figure 1: the toy set, its vector field with the attractor, and 8 steps of NGD and PRGD."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prgd import datasets
from prgd.algorithms import GD, NGD, PRGD, DualAcceleration, GameDynamics
from prgd.loop import run
from prgd.problem import Problem
from prgd.reproduce.experiment import Experiment, Judged, Row, judge
from prgd.reproduce.figures import (
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    Arrows,
    Band,
    Figure,
    Line,
    Note,
    Panel,
    Points,
    Style,
    floored,
    log_log,
    small,
    style_of,
)
from prgd.schedules import Every, LiftTo
from prgd.theory.claims import Finding
from prgd.theory.velocity import direction_error, toy_attractor, velocity_field

COLUMNS = ("kind", "method", "t", "x", "y", "u", "v", "value", "lower", "upper")


@dataclass(frozen=True)
class Settings:
    """The margin of the toy set is ours, the paper gives none; ``steps`` are those of the picture."""

    gamma_star: float = 0.3
    steps: int = 8
    long_steps: int = 60
    grid: tuple[int, int] = (27, 11)


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the points, the field on a grid, the attractor and the paths."""
    data = datasets.toy(settings.gamma_star)
    problem = Problem(data.X, data.y, scale="none", n_threads=1)
    rows: list[Row] = [
        {"kind": "point", "x": x, "y": y, "value": label}
        for (x, y), label in zip(data.X, data.y, strict=True)
    ]
    zone = toy_attractor(settings.gamma_star)
    rows.append({"kind": "attractor", "lower": zone.lower, "value": zone.line, "upper": zone.upper})
    w_1 = run(problem, NGD(), stop=1).w  # both start here: one NGD step from 0
    prgd = PRGD(LiftTo(1.0, np.array([1.0, 0.0])), Every(2))
    widest = _paths(rows, problem, data.w_star, (("NGD", NGD(), w_1), ("PRGD", prgd, w_1)), settings.steps)
    columns, lines = settings.grid
    field = velocity_field(
        data, data.w_star, np.linspace(0.0, math.ceil(widest), columns), np.linspace(-0.4, 1.3, lines)
    )
    for j, y in enumerate(field.y):
        for i, x in enumerate(field.x):
            u, v = field.direction[j, i]
            rows.append({"kind": "field", "x": x, "y": y, "u": u, "v": v, "value": field.velocity[j, i]})
    others = [("GD", GD()), ("NGD", NGD()), ("dual acceleration", DualAcceleration())]
    runs = [(name, a, None) for name, a in [*others, ("game dynamics", GameDynamics())]]
    _paths(rows, problem, data.w_star, [*runs, ("PRGD", prgd, w_1)], settings.long_steps, "curve")
    return [{column: row.get(column, "") for column in COLUMNS} for row in rows]


def _paths(
    rows: list[Row], problem: Problem, w_star: Any, runs: Any, steps: int, kind: str = "path"
) -> float:
    """Add each method's iterates with their errors, and return the largest w_1."""
    widest = 0.0
    for name, algorithm, w0 in runs:
        result = run(problem, algorithm, w0, stop=0)
        for t in range(steps + 1):
            result = run(problem, algorithm, resume=result, stop=t, record=2**62)
            w = result.w
            widest = max(widest, float(w[0]))
            row: Row = {"kind": kind, "method": name, "t": t, "x": w[0], "y": w[1]}
            if w.any():
                row |= {"value": direction_error(w, w_star), "u": problem.gamma(w)}
                row |= {"lower": result.certificate.lower, "upper": result.certificate.upper}
            rows.append(row)
    return widest


def draw(rows: Any, settings: Settings) -> list[Figure]:
    """Return the figure: the set, the field with both paths, and two panels of ours."""
    e = _ends(rows)
    alt = (
        "Left, three unit vectors and the max-margin direction along the first axis. Middle, arrows of the "
        "normalized descent direction: above a green strip they point down, below it up. NGD creeps along "
        "the green strip; PRGD jumps to the line w_2 = 1, steps down towards the strip, and moves ever "
        f"farther out. Right, errors against steps: after {settings.steps} steps the direction error is "
        f"{e['NGD']:.2g} for NGD and {e['PRGD']:.2g} for PRGD."
    )
    gamma_star = settings.gamma_star
    panels = (
        _points(rows, settings),
        _field(rows),
        _curves(rows, "Margin error", "gamma_star - gamma(w(t))", lambda some: gamma_star - some.u),
        _curves(
            rows,
            "Certified upper bound",
            "smallest upper bound - gamma_star",
            lambda some: some.upper - gamma_star,
        ),
    )
    return [Figure("figure-1", "The toy set, its vector field, and 8 steps", alt, panels, columns=2)]


def _points(rows: Any, settings: Settings) -> Panel:
    points = rows[rows.kind == "point"]
    marks: list[Any] = []
    for label, style in ((1.0, Style(ORANGE)), (-1.0, Style(PURPLE, marker="square"))):
        some = points[points.value == label]
        marks.append(Points(f"label {label:+.0f}", some.x.to_numpy(), some.y.to_numpy(), style, size=10.0))
    marks.append(Line("w_star", [0.0, 1.0], [0.0, 0.0], Style(VERMILLION, "dash"), 2.0, False))
    notes = [
        Note(float(p.x) + (0.08 if p.x > 0 else -0.26), float(p.y), f"x_{i + 1}")
        for i, p in enumerate(points.itertuples())
    ]
    return Panel(
        f"(a) Dataset 1, gamma_star = {settings.gamma_star}",
        tuple(marks),
        "first feature",
        "second feature",
        x_range=(-1.15, 1.15),
        y_range=(-1.15, 1.15),
        notes=tuple(notes),
        is_equal=True,
    )


def _field(rows: Any) -> Panel:
    field, zone = rows[rows.kind == "field"], rows[rows.kind == "attractor"].iloc[0]
    right = float(field.x.max())
    arrows = Arrows(
        "descent direction",
        field.x.to_numpy(),
        field.y.to_numpy(),
        field.u.to_numpy(),
        field.v.to_numpy(),
        Style(GREY),
    )
    ends = [0.0, right]
    green = Style(GREEN, "solid")
    marks: list[Any] = [
        Band("attractor of NGD", ends, [zone.lower] * 2, [zone.upper] * 2, green),
        arrows,
        Line("attractor of NGD", ends, [zone.value] * 2, green, 1.0, False),
        Line("w_star", ends, [0.0, 0.0], Style(VERMILLION, "dash"), 2.0, False),
    ]
    for method, style in (("NGD", style_of("NGD")), ("PRGD", Style(PURPLE, "solid", "triangle-up"))):
        some = rows[(rows.kind == "path") & (rows.method == method)]
        marks.append(Line(method, some.x.to_numpy(), some.y.to_numpy(), style))
    start = rows[(rows.kind == "path") & (rows.t == 0)].iloc[0]
    black = Style("#000000", marker="circle")
    marks.append(Points("w(0) = 0 and w(1)", [0.0, start.x], [0.0, start.y], black, size=8.0))
    return Panel(
        "(b) Vector field, NGD and PRGD",
        tuple(marks),
        "w_1",
        "w_2",
        x_range=(-0.3, right + 0.3),
        y_range=(-0.5, 1.4),
    )


def _curves(rows: Any, title: str, label: str, error: Callable[[Any], Any]) -> Panel:
    """Draw the ``error`` of the rows of each method."""
    curves = rows[rows.kind == "curve"]
    marks = []
    for method in curves.method.unique():
        some = curves[(curves.method == method) & (curves.t > 0)]
        style = Style(PURPLE, "solid", "triangle-up") if method == "PRGD" else style_of(method)
        if method == "game dynamics":
            style = Style("#56B4E9", "longdash", "cross")  # purple is PRGD's here, as in the paper
        marks.append(Line(method, some.t.to_numpy(), floored(error(some)), style))
    return log_log(title, marks, "step t", label, 1e-16, is_ours=True)


def _ends(rows: Any) -> dict[str, float]:
    paths = rows[rows.kind == "path"]
    return {method: float(some.value.iloc[-1]) for method, some in paths.groupby("method")}


def _inside(rows: Any) -> Any:
    zone = rows[rows.kind == "attractor"].iloc[0]
    path = rows[(rows.kind == "path") & (rows.method == "NGD")]
    return path.y.between(zone.lower, zone.upper)


def claims(rows: Any, settings: Settings) -> list[Judged]:
    """Return the verdicts on what Section 4 says about the picture."""
    inside, e = _inside(rows), _ends(rows)
    lifted = rows[(rows.kind == "path") & (rows.method == "PRGD") & (rows.t % 2 == 1)]
    off_line = float((lifted.y - 1.0).abs().max())
    curves = rows[(rows.kind == "curve") & rows.method.isin(["NGD", "PRGD"])]
    late = {m: float(some.value.iloc[-1]) for m, some in curves.groupby("method")}
    return [
        judge(
            "section-4-attractor",
            "Section 4, Figure 1",
            "On the toy set NGD enters the attractor (the green zone) and stays there.",
            Finding(
                float(inside.mean()),
                1.0,
                "==",
                f"{int(inside.sum())} of the {len(inside)} iterates drawn lie in the green zone "
                f"(gamma_star = {settings.gamma_star}); after {settings.steps} steps the direction error "
                f"is {e['NGD']:.2g}.",
            ),
        ),
        judge(
            "section-4-prgd",
            "Section 4, Figure 1",
            "PRGD leaves the attractor by rescaling to the line w_2 = 1 and converges much faster in "
            "direction.",
            Finding(
                e["PRGD"] / e["NGD"],
                1.0,
                "<",
                f"Rescaled iterates lie on w_2 = 1 to {small(off_line)}. After {settings.steps} steps the "
                f"direction error is {e['PRGD']:.2g} against NGD's {e['NGD']:.2g}; after "
                f"{settings.long_steps} steps it is {late['PRGD']:.1e} against {late['NGD']:.1e}.",
            ),
        ),
    ]


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figure shows, in figures."""
    e = _ends(rows)
    return (
        "NGD creeps along the green strip, where the field has no part towards w_star; PRGD leaves it by "
        f"rescaling and steps down where the field is strong. After {settings.steps} steps the direction "
        f"errors are {e['NGD']:.2g} (NGD) and {e['PRGD']:.2g} (PRGD). The margin gamma_star = "
        f"{settings.gamma_star} of the set is our choice."
    )


EXPERIMENT = Experiment(
    name="figure-1",
    title="Why rescaling helps: the toy set",
    where="Figure 1, Section 4",
    settings=Settings(),
    quick=Settings(long_steps=40),
    tasks=lambda settings: ("toy",),
    compute=compute,
    draw=draw,
    claims=claims,
    reading=reading,
    seconds=1.0,
)
