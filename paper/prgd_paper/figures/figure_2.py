"""Figure 2: the centripetal velocity in three dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from prgd.problem import Problem
from prgd_paper.report import elements as fig
from prgd_paper.reproduce.curves import padded, where
from prgd_paper.reproduce.experiment import Experiment, Row
from prgd_paper.theory.claims import cylinder as cylinder  # Theorem 5.5 is shown beside the figure.
from prgd_paper.theory.samples import random_nondegenerate
from prgd_paper.theory.velocity import centripetal_velocities, decompose

COLUMNS = ("kind", "distance", "height", "x", "y", "z", "value", "low", "high")
STYLES = {
    "w_star": fig.Style(fig.VERMILLION),
    "w": fig.Style(fig.BLACK),
    "-grad L / L": fig.Style(fig.PURPLE),
    "centripetal part": fig.Style(fig.ORANGE),
}
RINGS = (
    fig.Style(fig.SKY, "dot", "square"),
    fig.Style(fig.BLUE, "dash", "diamond"),
    fig.Style(fig.GREEN, "solid", "circle"),
)
# Space seen from a direction of this elevation and azimuth: what is to the right, and what is up.
UP, TURN = np.radians([18.0, -35.0])
SEEN = np.array(
    [
        [-np.sin(TURN), np.cos(TURN), 0.0],
        [-np.sin(UP) * np.cos(TURN), -np.sin(UP) * np.sin(TURN), np.cos(UP)],
    ]
)


@dataclass(frozen=True)
class Settings:
    """A random set in three dimensions whose support vectors span it, and the points that are drawn."""

    seed: int = 16
    support: int = 4
    others: int = 6
    distance: float = 2.0
    height: float = 3.0
    angle: float = 0.663
    heights: tuple[float, ...] = (2.0, 8.0, 32.0)
    distances: tuple[float, float] = (0.05, 30.0)  # of the innermost and of the outermost ring
    rings: int = 60
    angles: int = 180


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the arrows of the picture, with w_star pointing up, and the velocity around the ray."""
    data = random_nondegenerate(
        settings.seed, rank=3, support=settings.support, others=settings.others, dimension=3
    )
    assert data.w_star is not None  # noqa: S101 - for the type checker: it is known by construction
    problem = Problem(data.X, data.y, scale="none", n_jobs=1)
    frame, _ = np.linalg.qr(np.column_stack([data.w_star, np.eye(3)]))
    frame = np.column_stack([frame[:, 1], frame[:, 2], data.w_star])
    w = _at(frame, settings.distance, settings.height, settings.angle)
    descent = -problem.at(w).normalized_gradient
    _, off = decompose(w, data.w_star)
    inward = -off / np.linalg.norm(off)
    arrows = {
        "w": w,
        "-grad L / L": descent,
        "centripetal part": float(descent @ inward) * inward,
        "w_star": data.w_star,
    }
    rows: list[Row] = [
        {"kind": kind, "value": float(descent @ inward), **dict(zip("xyz", frame.T @ arrow, strict=True))}
        for kind, arrow in arrows.items()
    ]
    turns = np.linspace(0.0, 2.0 * np.pi, settings.angles, endpoint=False)
    for height in settings.heights:
        for distance in np.geomspace(*settings.distances, settings.rings):
            W = np.array([_at(frame, distance, height, turn) for turn in turns])
            velocity = centripetal_velocities(data, W, data.w_star)
            ring = {"kind": "ring", "distance": distance, "height": height, "value": np.median(velocity)}
            rows.append(ring | {"low": velocity.min(), "high": velocity.max()})
    return padded(rows, COLUMNS)


def _at(frame: Any, distance: float, height: float, angle: float) -> Any:
    return frame @ np.array([distance * np.cos(angle), distance * np.sin(angle), height])


def draw(rows: Any, settings: Settings) -> list[fig.Figure]:
    """Return the picture in space, and the velocity against the distance from the ray."""
    alt = (
        "Left, a drawing in space: the max-margin ray points up; at a point w beside it the negative "
        "normalized gradient starts, and its part towards the ray, the centripetal velocity "
        f"{_velocity(rows):.2g}, is drawn in orange. Right, the smallest velocity on rings around the ray: "
        "negative close to it, positive farther out."
    )
    panels = (_space(rows, settings), _rings(rows))
    return [fig.Figure("figure-2", "Centripetal velocity", alt, panels, columns=2)]


def _velocity(rows: Any) -> float:
    return float(where(rows, kind="centripetal part").value.iloc[0])


def _space(rows: Any, settings: Settings) -> fig.Panel:
    tip = {kind: where(rows, kind=kind)[["x", "y", "z"]].iloc[0].to_numpy(dtype=float) for kind in STYLES}
    w, top = tip["w"], 1.35 * settings.height
    # Rows have norm at most 1, and so have the two arrows at w: they are drawn twice as long.
    marks: list[Any] = [
        _arrow("w_star", np.zeros(3), np.array([0.0, 0.0, top]), 3.5),
        _arrow("w", np.zeros(3), w, 2.0),
        _arrow("-grad L / L", w, w + 2.0 * tip["-grad L / L"], 3.5),
        _arrow("centripetal part", w, w + 2.0 * tip["centripetal part"], 3.5),
    ]
    turns = np.linspace(0.0, 2.0 * np.pi, 61)
    x, y = settings.distance * np.cos(turns), settings.distance * np.sin(turns)
    for height in (0.0, settings.height, top):
        across, up = SEEN @ [x, y, np.full(turns.size, height)]
        style = fig.Style(fig.GREY, "dot")
        marks.append(fig.Line("cylinder around the ray", across, up, 1.0, has_markers=False, style=style))
    title = "At one point w in R^3 (arrows at w drawn twice as long)"
    return fig.Panel(title, tuple(marks), "across, seen from the side", "along w_star", is_equal=True)


def _arrow(name: str, start: Any, end: Any, width: float) -> fig.Line:
    """Return an arrow as one stroke: to its end, and to both sides of its head."""
    tail, tip = SEEN @ start, SEEN @ end
    back = 0.2 * (tail - tip) / np.linalg.norm(tail - tip)
    side = 0.5 * back[::-1] * [-1.0, 1.0]
    x, y = np.column_stack([tail, tip, tip + back + side, tip, tip + back - side])
    return fig.Line(name, x, y, width, has_markers=False, style=STYLES[name])


def _rings(rows: Any) -> fig.Panel:
    rings = where(rows, kind="ring")
    marks: list[Any] = []
    for height, style in zip(rings.height.unique(), RINGS, strict=False):
        some = where(rings, height=height)
        name = f"height {height:g}"
        marks.append(fig.Line(name, some.distance.to_numpy(), some.low.to_numpy(), style=style))
    ends = [float(rings.distance.min()), float(rings.distance.max())]
    marks.append(fig.Line("zero", ends, [0.0, 0.0], 1.0, has_markers=False, style=fig.Style(fig.GREY)))
    title = "Smallest velocity on the ring at each distance"
    labels = ("distance from the ray, ||P_perp w||", "centripetal velocity")
    return fig.Panel(title, tuple(marks), *labels, x_log=True, is_ours=True)


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figure shows, in figures."""
    rings = where(rows, kind="ring", height=rows.height.max())
    begins = rings[rings.low > 0.0].distance.min()
    return (
        "At the point drawn the part of the normalized gradient that points at the ray is "
        f"{_velocity(rows):.2g}. On rings around the ray the smallest such velocity is negative up to a "
        f"distance of {begins:.2g}: NGD comes to rest in that zone. Beyond it the velocity is positive, and "
        "rescaling moves w there."
    )


EXPERIMENT = Experiment.of_module(
    __name__, order=2, title="Centripetal velocity", where="Figure 2, Section 5", quick=Settings(angles=60)
)
