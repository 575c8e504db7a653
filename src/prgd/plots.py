"""Figures of a run; those for files are drawn without pyplot, so that no global state is touched."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prgd.core.errors import imported
from prgd.core.files import atomic_write
from prgd.core.types import Array
from prgd.running.history import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours: readers of any colour vision can tell them apart.
BLUE, VERMILLION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#808080"
ROUNDING = float(np.finfo(np.float64).eps)
FEW, MAX_POINTS, MAX_MARKS = 20, 4000, 200  # FEW points or less are drawn with markers


def gap_figure(history: History, title: str) -> Figure:
    """Draw how the two bounds on the margin close in, and their relative gap.

    The left axes show the best margin and the best upper bound up to t. The right axes show the certified
    relative gap or, if no iterate separates the data, the upper bound on a logarithmic axis. Steps lie on
    a linear axis if the algorithm has radii, whose phases have similar lengths, else on a logarithmic one,
    on which rates like 1 / t are straight lines.

    Parameters
    ----------
    history : History
        At least one row.
    title : str
        Long lines are wrapped.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.3))
    >>> history = prgd.run(problem, prgd.NGD(), stop=50).history
    >>> len(gap_figure(history, "toy").axes)
    2
    """
    figure: Figure = imported("matplotlib.figure", "A figure", "report").Figure(
        figsize=(10.0, 4.4), layout="constrained"
    )
    lines = [part for line in title.splitlines() for part in textwrap.wrap(line, 110)]
    # A dollar sign in the name of a file is no formula.
    figure.suptitle("\n".join(lines[:3]) + " ..." * (len(lines) > 3), fontsize=10, parse_math=False)
    left, right = figure.subplots(1, 2, sharex=True)
    _draw(history, left, right)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def draw_history(history: History, axes: Any = None) -> Any:
    """Draw both bounds and the relative gap as `gap_figure` does, for a notebook; return the two axes.

    Parameters
    ----------
    history : History
        At least one row.
    axes : pair of matplotlib axes, optional
        Default: the axes of a new figure of pyplot.

    Returns
    -------
    ndarray of two matplotlib axes

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.3))
    >>> bounds, gap = draw_history(prgd.run(problem, prgd.NGD(), stop=50).history)
    >>> gap.get_title()
    'Certified relative gap'
    """
    if axes is None:
        pyplot = imported("matplotlib.pyplot", "A figure", "report")
        axes = pyplot.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")[1]
    pair = np.ravel(np.asarray(axes, dtype=object))
    if pair.size != 2:
        raise ValueError(
            f"axes expects two axes, for the bounds and for their gap, as plt.subplots(1, 2) gives them; got "
            f"{pair.size}."
        )
    _draw(history, *pair)
    pair[1].set_xlim(pair[0].get_xlim())  # A short axis of its own would have ticks that overlap.
    pair[0].legend(frameon=False, fontsize=9)
    return pair


def _draw(history: History, left: Any, right: Any) -> None:
    """Draw the bounds on the left axes and the gap on the right ones."""
    if not len(history):
        raise ValueError("A figure needs at least one row of history; got none.")
    # The history of max_margin counts passes, and has neither radii nor phases.
    x = "t" if "t" in history.columns else "passes"
    has_radii = "R_k" in history.columns and not bool(np.isnan(history["R_k"]).all())
    is_log = x == "t" and not has_radii and len(history) > FEW
    n, first = len(history), int(is_log and history[x][0] == 0)  # t = 0 has no place on a logarithmic axis
    # Millions of points have no place: many early ones are drawn, and some late.
    even, early = np.linspace(first, n - 1, MAX_POINTS // 2), np.geomspace(first + 1, n, MAX_POINTS // 2) - 1
    kept = np.unique(np.concatenate([even, early]).astype(int))
    # w = 0 has margin NaN, which fmax ignores as soon as another iterate has a margin.
    lower = np.fmax.accumulate(history["margin"])[kept]
    t, upper = history[x][kept], np.fmin.accumulate(history["upper_bound"])[kept]
    _draw_bounds(left, t, lower, upper)
    _draw_gap(right, t, history["gap"][kept], upper)
    for axes in (left, right):
        _draw_steps(axes, history, x, is_log)


def save_gap_png(history: History, path: str | Path, title: str) -> None:
    """Write `gap_figure` as a PNG file."""
    with atomic_write(path) as file:
        gap_figure(history, title).savefig(file, dpi=150, format="png")


def _line(axes: Any, t: Array, y: Array, **style: Any) -> None:
    axes.step(t, y, where="post", marker="o" if len(t) <= FEW else None, markersize=4, **style)


def _draw_bounds(axes: Any, t: Array, lower: Array, upper: Array) -> None:
    _line(axes, t, upper, color=VERMILLION, label="upper bound (smallest so far)")
    _line(axes, t, lower, color=BLUE, label="margin of w (largest so far)")
    axes.fill_between(t, lower, upper, step="post", color=GREY, alpha=0.12, linewidth=0)
    if np.nanmin(lower, initial=math.inf) < 0.0:
        axes.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    axes.set_title("Bounds on the largest margin", fontsize=10)
    axes.set_ylabel("margin, in the units of the data")


def _draw_gap(axes: Any, t: Array, gap: Array, upper: Array) -> None:
    separated = gap < 1.0  # A gap below 1 means that some w so far has a positive margin.
    if separated.any():
        y, top = np.where(separated, np.maximum(gap, ROUNDING), np.nan), 1.0
        _line(axes, t, y, color=GREEN)
        axes.set_title("Certified relative gap", fontsize=10)
        axes.set_ylabel("(upper bound - margin) / upper bound")
        if not separated[0]:
            note = f"first w that separates the data: t = {t[np.argmax(separated)]:,.0f}"
            axes.text(0.02, 0.06, note, transform=axes.transAxes, color=GREY, fontsize=9)
    else:
        y, top = np.maximum(upper, ROUNDING * upper.max()), upper.max()
        _line(axes, t, y, color=VERMILLION)
        axes.set_title("Upper bound alone: no w separates the data so far", fontsize=10)
        axes.set_ylabel("upper bound, in the units of the data")
    if top > 0.0:
        axes.set_yscale("log")
        bottom = math.floor(math.log10(np.nanmin(y) / 1.05))
        axes.set_ylim(10.0**bottom, 10.0 ** math.ceil(math.log10(top)))


def _draw_steps(axes: Any, history: History, x: str, is_log: bool) -> None:
    axes.set_xlabel("step t" if x == "t" else "passes over the data")
    axes.spines[["top", "right"]].set_visible(False)
    first, last = int(history[x][0]), int(history[x][-1])
    if is_log:
        axes.set_xscale("log")
    elif last - first <= FEW // 2:  # On so short an axis matplotlib would put ticks between integers.
        axes.set_xticks(range(first, last + 1))
    if "phase" not in history.columns:
        return
    marks = history["t"][1:][np.diff(history["phase"]) > 0]
    if 0 < marks.size <= MAX_MARKS:
        style = {"color": GREY, "markersize": 6, "markeredgewidth": 0.6, "label": "rescaling to R_k"}
        height = np.full(marks.size, 0.02)  # in units of the axes, while t is in units of the data
        axes.plot(marks, height, "|", transform=axes.get_xaxis_transform(), **style)
