"""The introduction of the page: the paper's idea in words and two pictures, computed on the toy set."""

from __future__ import annotations

from dataclasses import dataclass

from prgd_paper.figures import figure_1
from prgd_paper.report.elements import MARGIN_ERROR, Figure, Panel, small
from prgd_paper.reproduce.curves import error_lines, where
from prgd_paper.reproduce.store import frame, to_csv

SHOWN = ("GD", "NGD", "PRGD")
STEPS = 60
LOWEST = 1e-16


@dataclass(frozen=True)
class Introduction:
    """The two pictures, and words with figures from their rows."""

    figure: Figure
    zone: str  # the interval of w_2 in which the attractor of the left picture lies
    errors: str  # the margin errors at the last step of the right picture


def introduction() -> Introduction:
    """Compute the rows of Figure 1 and draw the field with both paths, and the margin errors."""
    settings = figure_1.Settings(long_steps=STEPS)
    rows = frame(to_csv(figure_1.compute(settings, "")))
    curves = rows[(rows.kind == "curve") & (rows.t > 0) & rows.method.isin(SHOWN)]
    error = settings.gamma_star - curves.u
    last = {name: float(error[curves.method == name].iloc[-1]) for name in SHOWN}
    ends = ", ".join(f"{name} {small(max(last[name], 0.0))}" for name in SHOWN)
    zone = where(rows, kind="attractor").iloc[0]
    strip = f"{zone.lower:.2f} <= w_2 <= {zone.upper:.2f}"
    alt = (
        "Left, the plane of w with an arrow of the normalized gradient step at each point. The max-margin "
        f"ray lies along the horizontal axis. In a green strip, {strip}, the arrows are parallel to the ray; "
        "above the strip they point down to it. NGD walks along inside the strip. PRGD jumps away from the "
        "origin to a line above the strip, steps down, and jumps again. Right, the margin error on a "
        f"logarithmic axis against the step: after {STEPS} steps {ends}; the curve of PRGD falls like a line."
    )
    right = Panel(
        "Margin error: a straight line is an exponential rate",
        tuple(error_lines(curves, error, SHOWN, styles=figure_1.STYLES)),
        "step t",
        MARGIN_ERROR,
        y_log=True,
        y_range=(LOWEST, 1.0),
    )
    left = figure_1.field_panel(rows, "The plane of w: NGD stays in the zone, PRGD leaves it")
    title = "The idea on the toy set of Section 4: three points in the plane"
    return Introduction(
        Figure("idea", title, alt, (left, right), columns=2),
        zone=f"left, green: {strip}; the ray is w_2 = 0",
        errors=f"After {STEPS} steps the margin errors are {ends}",
    )
