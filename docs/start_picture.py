"""The picture of the start page: a separator of largest margin, and two bounds that close in on its margin.

python docs/start_picture.py        # writes docs/images/start-light.svg and docs/images/start-dark.svg
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import prgd

IMAGES = Path(__file__).parent / "images"
# Names of colours: ink, first class, second class, the slab between them.
LIGHT = ("#24292f", "#1f5fa8", "#c4641a", "#1f5fa8")
DARK = ("#e6e9ed", "#7fb2ee", "#f0a35e", "#7fb2ee")


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return two clouds of 40 points in the plane, moved apart along one direction."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 2)) @ np.array([[1.0, 0.5], [0.0, 0.8]])
    direction = np.array([0.45, 0.9])
    y = np.where(X @ direction > 0, 1, -1)
    return X + 0.35 * y[:, None] * direction, y


def draw(file: Path, colours: tuple[str, str, str, str]) -> None:
    """Draw both panels with these colours on a transparent ground."""
    ink, first, second, slab = colours
    X, y = data()
    result = prgd.max_margin(X, y)
    run = prgd.run(prgd.Problem(X, y, fit_intercept=True), prgd.algorithms.GatedPRGD(), stop=prgd.Gap(1e-6))
    style = {"text.color": ink, "axes.labelcolor": ink, "axes.edgecolor": ink, "xtick.color": ink}
    style |= {"ytick.color": ink, "svg.hashsalt": "prgd", "svg.fonttype": "path", "font.size": 16}
    with mpl.rc_context(style):
        figure = Figure(figsize=(8.0, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
        for sign, colour, marker in ((1, first, "o"), (-1, second, "s")):
            left.scatter(*X[y == sign].T, s=26, color=colour, marker=marker, linewidths=0)
        w, b = result.coef, result.intercept
        unit = w / np.linalg.norm(w)
        along = np.array([-unit[1], unit[0]])
        foot = -b / np.linalg.norm(w) * unit
        ends = np.stack([foot - 9 * along, foot + 9 * along])
        shift = result.margin * unit
        left.fill(*np.concatenate([ends + shift, ends[::-1] - shift]).T, color=slab, alpha=0.18, linewidth=0)
        left.plot(*ends.T, color=ink, linewidth=1.8)
        left.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), aspect="equal", xticks=[], yticks=[])
        left.set_title("separator of\nlargest margin", fontsize=18)
        for side in left.spines.values():
            side.set_visible(False)
        t, lower, upper = (np.array(run.history[name]) for name in ("t", "margin", "upper_bound"))
        lower = np.maximum.accumulate(np.nan_to_num(lower, nan=0.0))
        upper = np.minimum.accumulate(upper)
        right.fill_between(t, lower, upper, color=slab, alpha=0.18, linewidth=0)
        right.plot(t, upper, color=second, linewidth=2.2)
        right.plot(t, lower, color=first, linewidth=2.2)
        right.text(0.28, 0.72, "no margin is larger", color=second, transform=right.transAxes)
        right.text(0.28, 0.22, "this one is reached", color=first, transform=right.transAxes)
        right.set(xlim=(0, None), ylim=(0, 1.9 * result.margin), xlabel="steps", ylabel="margin", yticks=[])
        right.set_title("interval that holds\nthe largest margin", fontsize=18)
        right.spines[["top", "right"]].set_visible(False)
        figure.savefig(file, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    draw(IMAGES / "start-light.svg", LIGHT)
    draw(IMAGES / "start-dark.svg", DARK)
