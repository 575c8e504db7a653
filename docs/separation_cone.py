"""The picture of `docs/separability.md`: data of two features, and the cone of their separating directions.

python docs/separation_cone.py        # writes docs/images/separation_cone.png

There is no intercept, so that the coefficients lie in a plane. From left to right rows are added: all of them
are separated, then some overlap along one line, then all overlap. Verdicts are those of `prgd.separability`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

import prgd

EVENTS, OTHERS, CONE, DARK = "#D55E00", "#0072B2", "#009E73", "#00604A"
SPAN = 2.6  # half of the width of each plane
SEPARATED = (
    [[0.6, 1.5], [1.4, 0.5], [2.0, -0.5], [-0.8, -1.0], [-1.6, 0.3], [-2.1, -0.9]],
    [1, 1, 1, 0, 0, 0],
)
ON_AXIS = ([[0.0, 0.9], [0.0, -2.0], [0.0, 2.0], [0.0, -0.9]], [1, 1, 0, 0])
WRONG_SIDE = ([[-1.3, 1.6]], [1])


def designs() -> list[tuple[str, Any, Any]]:
    """Return a title, X and y of each column of the picture."""
    steps = [SEPARATED, ON_AXIS, WRONG_SIDE]
    titles = ["six rows:\nseparable", "four more, on one line:\nquasi-separable", "one more:\nnot separable"]
    X, y = zip(*steps, strict=True)
    return [(titles[k], np.vstack(X[: k + 1]), np.concatenate(y[: k + 1])) for k in range(3)]


def edges(X: Any, y: Any) -> Any:
    """Return unit vectors along the two edges of K, the smaller angle first; none if K is the origin."""
    Z = np.where(y == 1, 1, -1)[:, None] * X
    sides = np.concatenate([Z @ [[0.0, -1.0], [1.0, 0.0]], Z @ [[0.0, 1.0], [-1.0, 0.0]]])  # Z turned by 90
    found = sides[(sides @ Z.T >= -1e-12).all(axis=1)]
    angles = np.unique(np.arctan2(found[:, 1], found[:, 0]).round(12))
    return np.column_stack([np.cos(angles), np.sin(angles)])[[0, -1] if angles.size else []]


def plane(axes: Any, names: tuple[str, str]) -> None:
    """Set up a plane with axes through the origin."""
    axes.axhline(0, color="#999999", linewidth=0.8, zorder=0)
    axes.axvline(0, color="#999999", linewidth=0.8, zorder=0)
    axes.set(xlim=(-SPAN, SPAN), ylim=(-SPAN, SPAN), aspect="equal", xticks=[], yticks=[])
    axes.set(xlabel=names[0], ylabel=names[1])


def line(axes: Any, normal: Any, **style: Any) -> None:
    """Draw the line through the origin that is perpendicular to a vector."""
    along = 9.0 * np.array([-normal[1], normal[0]]) / np.linalg.norm(normal)
    axes.plot(*np.array([-along, along]).T, **style)


def draw_data(axes: Any, X: Any, y: Any, cone: Any, best: Any) -> None:
    """Draw the rows, and the lines that separate them."""
    plane(axes, ("x0", "x1"))
    if len(cone) and not np.allclose(*cone):
        turned = 9.0 * cone @ [[0.0, 1.0], [-1.0, 0.0]]
        for side in (turned, -turned):
            axes.add_patch(Polygon([[0, 0], *side], color=CONE, alpha=0.15, linewidth=0))
    if best is not None:
        line(axes, best, color=CONE, linewidth=2)
        arrow(axes, 0.9 * best / np.linalg.norm(best))
    for label, colour, marker, word in ((1, EVENTS, "o", "y = 1"), (0, OTHERS, "s", "y = 0")):
        axes.plot(*X[y == label].T, marker, color=colour, markersize=7, label=word, markeredgecolor="white")


def draw_cone(axes: Any, X: Any, y: Any, cone: Any, best: Any) -> None:
    """Draw the half-planes of all rows by their edges, and the cone K in which they meet."""
    plane(axes, ("coefficient of x0", "coefficient of x1"))
    for z in X:
        line(axes, z, color="#bbbbbb", linewidth=0.7, zorder=0)
    if not len(cone):
        axes.plot(0, 0, "o", color=CONE, markersize=9)
        axes.text(
            0.3,
            0.35,
            "K = {0}",
            color=DARK,
            size=13,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
        return
    if np.allclose(*cone):
        axes.plot(*np.array([[0, 0], 9.0 * cone[0]]).T, color=CONE, linewidth=4, solid_capstyle="butt")
        axes.text(1.6, 0.15, "K", color=DARK, size=13)
        return
    axes.add_patch(Polygon([[0, 0], *(9.0 * cone)], color=CONE, alpha=0.3, linewidth=0))
    axes.text(1.6, 1.7, "K", color=DARK, size=13)
    arrow(axes, 1.7 * best / np.linalg.norm(best))


def arrow(axes: Any, tip: Any) -> None:
    """Draw an arrow from the origin."""
    style = {"arrowstyle": "-|>", "color": CONE, "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=tip, xytext=(0, 0), arrowprops=style)


def words(found: prgd.Separability) -> str:
    """Return the verdicts on the coefficients, one in each line."""
    signs = {name: f", {sign} at maximum margin" for name, sign in found.max_margin_signs.items()}
    return "\n".join(f"{name}: {word}{signs.get(name, '')}" for name, word in found.coefficients.items())


def main(path: Path) -> None:
    """Draw the picture."""
    figure = Figure(figsize=(9.6, 6.9), layout="constrained")
    grid = figure.subplots(2, 3)
    for k, (title, X, y) in enumerate(designs()):
        found = prgd.separability(X, y, fit_intercept=False)
        cone = edges(X, y)
        best = prgd.max_margin(X, y, fit_intercept=False).coef if found.is_separable else None
        if best is None and len(cone):
            best = cone[0]
        draw_data(grid[0, k], X, y, cone, best)
        draw_cone(grid[1, k], X, y, cone, best)
        grid[0, k].set_title(title)
        box = {"facecolor": "white", "edgecolor": "#cccccc", "boxstyle": "round,pad=0.4"}
        grid[1, k].text(
            0.04, 0.05, words(found), transform=grid[1, k].transAxes, bbox=box, family="monospace"
        )
    grid[0, 2].legend(loc="lower right", handletextpad=0.2)
    for row, (what, name) in enumerate((("data", "x1"), ("directions", "coefficient of x1"))):
        grid[row, 0].set_ylabel(f"{what}\n\n{name}")
        grid[row, 1].set_ylabel("")
        grid[row, 2].set_ylabel("")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(__file__).parent / "images" / "separation_cone.png")
