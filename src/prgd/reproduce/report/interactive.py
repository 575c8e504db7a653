"""Figures for the page: data and layout as Plotly reads them, one plot a panel."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from prgd.errors import missing_package
from prgd.reproduce.figures import Arrows, Band, Figure, Heat, Line, Mark, Panel, Points, Space, plain, pretty

GRID, INK = "#e3e3e3", "#333333"


def plots(figure: Figure) -> list[dict[str, Any]]:
    """Return data and layout of each panel, as JSON can hold them."""
    return [
        plain({"data": [trace for mark in panel.marks for trace in _traces(mark)], "layout": _layout(panel)})
        for panel in figure.panels
    ]


def plotly_script() -> str:
    """Return the source of plotly.js, to be put into the page once."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise missing_package("The report", "plotly", "report") from error
    return str(get_plotlyjs())


def _traces(mark: Mark) -> list[dict[str, Any]]:
    """Return what Plotly draws for a mark: one trace, or two for an arrow in space."""
    head = [_cone(mark)] if isinstance(mark, Space) and mark.is_arrow else []
    return [_TRACES[type(mark)](mark), *head]


def _named(mark: Any) -> dict[str, Any]:
    return {"name": _text(mark.name), "legendgroup": mark.name}


def _text(text: str) -> str:
    """Return a text that Plotly, which reads some HTML, shows as it is."""
    return escape(pretty(text), quote=False)


def _scatter(mark: Any, mode: str, x: Any, y: Any, **more: Any) -> dict[str, Any]:
    return {"type": "scatter", "mode": mode, "x": x, "y": y} | more | _named(mark)


def _line(mark: Line) -> dict[str, Any]:
    symbol = "x-thin-open" if mark.style.marker == "x" else mark.style.marker
    marker = {"symbol": symbol, "size": 7, "color": mark.style.colour, "maxdisplayed": 9}
    line = {"color": mark.style.colour, "dash": mark.style.dash, "width": mark.width}
    if not mark.has_markers:
        return _scatter(mark, "lines", mark.x, mark.y, line=line, hoverinfo="name")
    return _scatter(mark, "lines+markers", mark.x, mark.y, line=line, marker=marker)


def _band(mark: Band) -> dict[str, Any]:
    x, low, high = (np.asarray(part, dtype=float) for part in (mark.x, mark.low, mark.high))
    red, green, blue = (int(mark.style.colour[k : k + 2], 16) for k in (1, 3, 5))
    look = {"fill": "toself", "line": {"width": 0}, "hoverinfo": "skip"}
    look["fillcolor"] = f"rgba({red},{green},{blue},0.15)"
    return _scatter(mark, "lines", np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]]), **look)


def _points(mark: Points) -> dict[str, Any]:
    marker = {"symbol": mark.style.marker, "size": mark.size, "color": mark.style.colour}
    return _scatter(mark, "markers", mark.x, mark.y, marker=marker)


def _arrows(mark: Arrows) -> dict[str, Any]:
    """Draw each arrow as one stroke with a head: true in direction, and of one length in grid spacings."""
    x, y, u, v = (np.asarray(part, dtype=float) for part in (mark.x, mark.y, mark.u, mark.v))
    scale = np.array([_spacing(x), _spacing(y)])
    middle = np.column_stack([x, y]) / scale
    half = np.column_stack([u, v]) / scale
    half *= 0.4 / np.linalg.norm(half, axis=1, keepdims=True)
    side = half[:, ::-1] * [-0.3, 0.3]
    tip, tail = middle + half, middle - half
    points = [tail, tip, tip - 0.6 * half + side, tip, tip - 0.6 * half - side, np.full_like(tip, np.nan)]
    strokes = np.stack(points, axis=1).reshape(-1, 2) * scale
    look = {"line": {"color": mark.style.colour, "width": 1}, "opacity": 0.8, "hoverinfo": "skip"}
    return _scatter(mark, "lines", strokes[:, 0], strokes[:, 1], **look)


def _spacing(values: Any) -> float:
    lines = np.unique(np.round(values, 9))
    return float(np.diff(lines).min()) if lines.size > 1 else 1.0


def _heat(mark: Heat) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "x": list(mark.x),
        "y": list(mark.y),
        "z": mark.z,
        "text": [[_text(text) for text in line] for line in mark.text],
        "texttemplate": "%{text}",
        "colorscale": "Cividis",
        "colorbar": {"title": {"text": _text(mark.label), "side": "right"}, "thickness": 12},
        "hovertemplate": "%{x}, %{y}: %{z:.2f}<extra></extra>",
    }


def _space(mark: Space) -> dict[str, Any]:
    line = {"color": mark.style.colour, "width": 1.5 * mark.width, "dash": mark.style.dash}
    points = dict(zip("xyz", mark.points, strict=True))
    return (
        {"type": "scatter3d", "mode": "lines"} | points | {"line": line, "hoverinfo": "name"} | _named(mark)
    )


def _cone(mark: Space) -> dict[str, Any]:
    """Return the head of an arrow in space."""
    start, end = mark.points.T
    head = 0.45 * (end - start) / np.linalg.norm(end - start)
    return {
        "type": "cone",
        **dict(zip("xyzuvw", [[part] for part in (*end, *head)], strict=True)),
        "anchor": "tip",
        "sizemode": "raw",
        "colorscale": [[0, mark.style.colour], [1, mark.style.colour]],
        "showscale": False,
        "hoverinfo": "skip",
        **_named(mark),
    }


_TRACES: dict[type, Callable[[Any], dict[str, Any]]] = {
    Line: _line,
    Band: _band,
    Points: _points,
    Arrows: _arrows,
    Heat: _heat,
    Space: _space,
}


def _layout(panel: Panel) -> dict[str, Any]:
    layout: dict[str, Any] = {
        "showlegend": False,  # The page has one legend of buttons for all panels of a figure.
        "margin": {"l": 64, "r": 12, "t": 12, "b": 48},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": INK},
        "hovermode": "closest",
        "hoverlabel": {"namelength": -1},
    }
    if panel.is_space:
        bare = {"showticklabels": False, "title": {"text": ""}, "gridcolor": GRID, "showspikes": False}
        layout["scene"] = {
            "xaxis": bare,
            "yaxis": bare,
            "zaxis": {"title": {"text": _text(panel.z_label)}, "gridcolor": GRID, "showspikes": False},
            "aspectmode": "data",
            "camera": {"eye": {"x": 1.5, "y": -1.2, "z": 0.5}},
        }
        layout["margin"] = {"l": 0, "r": 0, "t": 0, "b": 0}
        return layout
    is_heat = any(isinstance(mark, Heat) for mark in panel.marks)
    layout["xaxis"] = _axis(panel.x_label, panel.x_log, panel.x_range, is_heat)
    layout["xaxis"] |= {"dtick": 1} if panel.x_log and not panel.x_range else {}
    layout["yaxis"] = _axis(panel.y_label, panel.y_log, panel.y_range, is_heat)
    if panel.is_equal:
        layout["yaxis"] |= {"scaleanchor": "x", "scaleratio": 1, "constrain": "domain"}
        layout["xaxis"]["constrain"] = "domain"
    look = {"showarrow": False, "xanchor": "left", "font": {"size": 11}}
    layout["annotations"] = [{"x": n.x, "y": n.y, "text": _text(n.text)} | look for n in panel.notes]
    return layout


def _axis(label: str, is_log: bool, ends: tuple[float, float] | None, is_category: bool) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": _text(label), "standoff": 8},
        "gridcolor": GRID,
        "zeroline": False,
        "linecolor": INK,
        "ticks": "outside",
        "automargin": True,
    }
    if is_category:
        return axis | {"type": "category"}
    if is_log:
        axis |= {"type": "log", "exponentformat": "power"}
    if ends and is_log:
        low, high = (float(np.log10(end)) for end in ends)
        axis |= {"range": [low, high], "dtick": max(1, round((high - low) / 6))}
    elif ends:
        axis["range"] = list(ends)
    return axis
