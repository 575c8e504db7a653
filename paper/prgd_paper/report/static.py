"""Figures for print: matplotlib without pyplot, the same bytes for the same figure."""

from __future__ import annotations

import hashlib
import io
import json
import textwrap
from pathlib import Path
from typing import Any

from prgd_paper.report import elements as fig
from prgd_paper.reproduce.store import write_whole

DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (5, 2)),
    "dot": (0, (1, 1.5)),
    "dashdot": (0, (5, 1.5, 1, 1.5)),
    "longdash": (0, (9, 2)),
}
MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "x": "x",
    "cross": "P",
    "star": "*",
}
SETTINGS: Any = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "prgd",
}
FORMATS = ("png", "svg", "pdf")


def save(figure: fig.Figure, folder: Path) -> None:
    """Draw a figure and write its files, then what they were drawn from."""
    write(figure, folder)
    write_whole(folder / f".{figure.name}.json", json.dumps(_record(figure, folder)).encode())


def write(figure: fig.Figure, folder: Path, *, is_titled: bool = False) -> None:
    """Draw a figure and write ``<name>.png``, ``.svg`` and ``.pdf``; on a page its title is a caption."""
    drawn = draw(figure, is_titled=is_titled)
    for format_ in FORMATS:
        write_whole(folder / f"{figure.name}.{format_}", _rendered(drawn, format_))


def is_current(figure: fig.Figure, folder: Path) -> bool:
    """Return whether the files are there, whole, and drawn from this very figure."""
    try:
        found = json.loads((folder / f".{figure.name}.json").read_bytes())
        return bool(found == _record(figure, folder))
    except (OSError, ValueError):
        return False


def _record(figure: fig.Figure, folder: Path) -> dict[str, str]:
    files = {"code": Path(__file__)} | {end: folder / f"{figure.name}.{end}" for end in FORMATS}
    sums = {name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for name, file in files.items()}
    return {"figure": figure.key()} | sums


def _rendered(drawn: Any, format_: str) -> bytes:
    from matplotlib import rc_context

    out = io.BytesIO()
    # Files without dates are the same bytes in two runs.
    metadata: Any = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}[format_]
    with rc_context(SETTINGS):
        drawn.savefig(out, format=format_, dpi=120, metadata=metadata)
    return _smaller(out.getvalue()) if format_ == "png" else out.getvalue()


def _smaller(png: bytes) -> bytes:
    """Return the picture with 256 colours: a third of the size, and no difference to see."""
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256).save(out, "PNG", optimize=True)
    return out.getvalue()


def draw(figure: fig.Figure, *, is_titled: bool = False) -> Any:
    """Return the matplotlib figure."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    n, columns = len(figure.panels), min(figure.columns, len(figure.panels))
    lines = -(-n // columns)
    width = 4.1 if columns > 1 else 6.0
    with rc_context(SETTINGS):
        drawn = Canvas(figsize=(width * columns, 3.4 * lines + 0.5), layout="constrained")
        if is_titled:
            drawn.suptitle("\n".join(textwrap.wrap(figure.title, 60 * columns)), parse_math=False)
        handles: dict[int, Any] = {}  # by the identity of the mark
        for k, panel in enumerate(figure.panels):
            axes = drawn.add_subplot(lines, columns, k + 1)
            handles |= {id(mark): _mark(axes, mark) for mark in panel.marks}
            _dress(axes, panel)
        if legend := {fig.pretty(name): handles[id(mark)] for name, mark in figure.legend.items()}:
            look: Any = {"loc": "outside lower center", "frameon": False, "handlelength": 3.5}
            room = int(width * columns / (0.7 + 0.06 * max(map(len, legend))))  # a letter takes 0.06 inches
            drawn.legend(legend.values(), legend, ncols=max(1, min(room, 2 * columns)), **look)
        # The layout is found once, and not again for each format.
        drawn.draw_without_rendering()
        drawn.set_layout_engine("none")
    return drawn


def _dress(axes: Any, panel: fig.Panel) -> None:
    """Write titles and notes, and set the scales and the ends of the axes."""
    axes.set_title("\n".join(textwrap.wrap(fig.pretty(panel.heading), 48)))
    axes.set(xlabel=fig.pretty(panel.x_label), ylabel=fig.pretty(panel.y_label))
    if panel.x_log:
        axes.set_xscale("log")
    if panel.y_log:
        axes.set_yscale("log")
    axes.set(**{name: ends for name, ends in (("xlim", panel.x_range), ("ylim", panel.y_range)) if ends})
    if panel.is_equal:
        axes.set_aspect("equal")
    for note in panel.notes:
        x = 10**note.x if panel.x_log else note.x
        y = 10**note.y if panel.y_log else note.y
        axes.annotate(fig.pretty(note.text), (x, y), xytext=(4, 0), textcoords="offset points", fontsize=8)


def _mark(axes: Any, mark: fig.Mark) -> Any:
    """Draw one mark and return what stands for it in the legend."""
    colour, dash, marker = mark.style.colour, DASHES[mark.style.dash], MARKERS[mark.style.marker]
    if isinstance(mark, fig.Line):
        # Long lines carry a marker at every 12 % of their length, short ones at every point.
        every = 1 if len(mark.x) <= 20 else 0.12
        style = {"marker": marker, "markersize": 4.5, "markevery": every} if mark.has_markers else {}
        (line,) = axes.plot(mark.x, mark.y, color=colour, linestyle=dash, linewidth=0.8 * mark.width, **style)
        return line
    if isinstance(mark, fig.Band):
        return axes.fill_between(mark.x, mark.low, mark.high, color=colour, alpha=0.15, linewidth=0)
    if isinstance(mark, fig.Points):
        return axes.scatter(mark.x, mark.y, s=mark.size**2 * 0.8, color=colour, marker=marker, zorder=3)
    look = {"alpha": 0.7, "width": 0.0025, "pivot": "mid", "angles": "xy"}
    return axes.quiver(mark.x, mark.y, mark.u, mark.v, color=colour, **look)
