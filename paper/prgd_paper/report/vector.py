"""Figures for the page: each panel is a small SVG drawing, which the page's script lets a reader explore.

A drawing is whole without the script and in print. It carries what the script needs to zoom and to name
points: the ends of its axes, and lines whose vertices a reader can point at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from prgd.core.types import Array
from prgd_paper.report.elements import Arrows, Band, Line, Panel, Points, Style, pretty

WIDTH, HEIGHT = 440.0, 340.0
TOP, RIGHT, BOTTOM, LEFT = 10.0, 14.0, 46.0, 58.0
TOLERANCE = 0.12  # largest distance between a line and its drawing, in units of the drawing
MAX_MARKERS = 9  # a long line has this many markers
FAR = 3_000.0  # positions beyond are cut off: no drawing shows them

PADDING = 0.04  # fraction of the range of the data that is left free at each end of an axis
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MAX_TICKS = 7

SHAPES = {  # outlines of the markers, around 0
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "square": "M-3.6-3.6h7.2v7.2h-7.2z",
    "diamond": "M0-5l5 5-5 5-5-5z",
    "triangle-up": "M0-4.8l5 9h-10z",
    "x": "M-3.6-3.6l7.2 7.2m0-7.2l-7.2 7.2",
    "cross": "M-1.6-4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z",
    "star": "M0-5.5l1.5 3.8 4.1.2-3.2 2.6 1.1 4-3.5-2.2-3.5 2.2 1.1-4-3.2-2.6 4.1-.2z",
}


@dataclass(frozen=True)
class Axis:
    """A scale from data to positions; ``low`` and ``high`` are powers of 10 if the axis is logarithmic.

    Examples
    --------
    >>> axis = Axis(0.0, 3.0, 300.0, is_log=True)
    >>> axis.positions([1.0, 1000.0]).tolist(), [label for _, label in axis.ticks()]
    ([0.0, 300.0], ['10⁰', '10¹', '10²', '10³'])
    """

    low: float
    high: float
    length: float
    is_log: bool = False

    @classmethod
    def around(cls, values: list[Any], ends: tuple[float, float] | None, length: float, is_log: bool) -> Axis:
        """Return the axis from ``ends``, or else an axis that shows all finite values."""
        if ends is None:
            low, high = _range(scaled(np.concatenate([np.ravel(v) for v in values]), is_log))
            gap = PADDING * (high - low)
            return cls(low - gap, high + gap, length, is_log)
        low, high = scaled(ends, is_log)
        return cls(float(low), float(high), length, is_log)

    def positions(self, values: Any) -> Array:
        """Return where values lie, counted from the low end of the axis; NaN where a value has no place."""
        return self.places(scaled(values, self.is_log))

    def places(self, values: Any) -> Array:
        """Return where values lie that are already powers of 10 on a logarithmic axis."""
        return np.asarray((np.asarray(values) - self.low) * (self.length / (self.high - self.low)))

    def ticks(self) -> list[tuple[float, str]]:
        """Return the places and the labels of the ticks."""
        found = _decades(self.low, self.high) if self.is_log else []
        if len(found) < 2:
            found = _fine(self.low, self.high) if self.is_log else _round(self.low, self.high)
        return [(float(self.places(value)), label) for value, label in found]


def scaled(values: Any, is_log: bool) -> Array:
    """Return values as floats, or their powers of 10; NaN for what is not finite."""
    found = np.asarray(values, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log10(found) if is_log else found
    return np.where(np.isfinite(found), found, np.nan)


def _range(values: Array) -> tuple[float, float]:
    if np.isnan(values).all():
        return 0.0, 1.0
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _decades(low: float, high: float) -> list[tuple[float, str]]:
    step = max(1, math.ceil((high - low) / (MAX_TICKS - 1)))
    powers = [k for k in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1) if k % step == 0]
    return [(float(k), f"10{str(k).translate(SUPERSCRIPTS)}") for k in powers]


def _fine(low: float, high: float) -> list[tuple[float, str]]:
    """Return ticks of a logarithmic axis that is shorter than two decades: multiples by 1, 2 and 5."""
    values = [m * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
    inside = [(math.log10(v), f"{v:,g}") for v in values if low - 1e-9 <= math.log10(v) <= high + 1e-9]
    return inside if len(inside) > 1 else [(math.log10(v), t) for v, t in _round(10.0**low, 10.0**high)]


def _round(low: float, high: float) -> list[tuple[float, str]]:
    """Return ticks at round numbers: multiples of 1, 2 or 5 times a power of 10."""
    rough = (high - low) / (MAX_TICKS - 2)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= rough * (1.0 - 1e-9))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    values = np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1) * step
    return [(float(v), f"{v + 0.0:,.{digits}f}") for v in values]


def drawing(panel: Panel) -> str:
    """Return the SVG of a panel."""
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    x, y = _axes(panel, width, height)
    body = "".join(_DRAWN[type(mark)](mark, x, y) for mark in panel.marks)
    ends = " ".join(f"{end:.6g}" for end in (x.low, x.high, y.low, y.high))
    kinds = f"{'log' if x.is_log else 'linear'} {'log' if y.is_log else 'linear'}"
    name = escape(pretty(panel.heading))
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{name}" '
        f'data-ends="{ends}" data-kinds="{kinds}">'
        f'<g transform="translate({_n(LEFT)} {_n(TOP)})">'
        f"{_frame(panel, x, y)}"
        f'<svg class="marks" width="{_n(width)}" height="{_n(height)}">{body}</svg>'
        f"{_notes(panel, x, y)}</g></svg>"
    )


def _n(value: float) -> str:
    """Return a number with two digits behind the point, and none that are not needed."""
    return f"{value:.2f}".rstrip("0").rstrip(".").replace("-0.", "-.").removeprefix("0") or "0"


def _text(x: float, y: float, text: str, look: str) -> str:
    return f'<text x="{_n(x)}" y="{_n(y)}" {look}>{escape(pretty(text), quote=False)}</text>'


def _axes(panel: Panel, width: float, height: float) -> tuple[Axis, Axis]:
    """Return the axes: those that the panel asks for, or as wide as its marks."""
    parts = [_extent(mark) for mark in panel.marks]
    x = Axis.around([p[0] for p in parts], panel.x_range, width, panel.x_log)
    y = Axis.around([p[1] for p in parts], panel.y_range, height, panel.y_log)
    if not panel.is_equal:
        return x, y
    unit = max((x.high - x.low) / width, (y.high - y.low) / height)  # The same unit on both axes.
    return _widened(x, unit), _widened(y, unit)


def _widened(axis: Axis, unit: float) -> Axis:
    more = 0.5 * (unit * axis.length - (axis.high - axis.low))
    return Axis(axis.low - more, axis.high + more, axis.length, axis.is_log)


def _extent(mark: Any) -> tuple[Any, Any]:
    if isinstance(mark, Band):
        return mark.x, np.concatenate([np.ravel(mark.low), np.ravel(mark.high)])
    return mark.x, mark.y


def _frame(panel: Panel, x: Axis, y: Axis) -> str:
    """Draw grid, ticks, their labels, and the labels of the axes."""
    w, h = x.length, y.length
    x_ticks, y_ticks = x.ticks(), y.ticks()
    grid = "".join(f"M{_n(at)} 0v{_n(h)}" for at, _ in x_ticks)
    grid += "".join(f"M0 {_n(h - at)}h{_n(w)}" for at, _ in y_ticks)
    parts = [f'<g class="frame"><path class="grid" d="{grid}"/><path class="axis" d="M0 0v{_n(h)}h{_n(w)}"/>']
    parts += [_text(at, h + 16, label, 'class="x"') for at, label in x_ticks]
    parts += [_text(-6, h - at + 4, label, 'class="y"') for at, label in y_ticks]
    turned = f'class="name" transform="rotate(-90 {_n(12 - LEFT)} {_n(0.5 * h)})"'
    parts.append(_text(0.5 * w, h + 38, panel.x_label, 'class="name"'))
    parts.append(_text(12 - LEFT, 0.5 * h, panel.y_label, turned))
    return "".join(parts) + "</g>"


def _notes(panel: Panel, x: Axis, y: Axis) -> str:
    return "".join(
        _text(float(x.places(n.x)) + 4, y.length - float(y.places(n.y)) + 4, n.text, 'class="note"')
        for n in panel.notes
    )


def _colour(colour: str) -> str:
    """Return the style of a colour; the page's style sheet has a lighter one for dark screens."""
    return f' style="--c:var(--k{colour[1:]},{colour})"'


def _group(mark: Any, content: str) -> str:
    return f'<g data-group="{escape(mark.name)}"{_colour(mark.style.colour)}>{content}</g>'


def _points_of(x: Axis, y: Axis, u: Any, v: Any) -> Array:
    """Return positions as rows; the second coordinate counts from the top of a drawing."""
    places = np.column_stack([x.positions(u), y.length - y.positions(v)])
    return np.clip(places, -FAR, FAR)


def _line(mark: Line, x: Axis, y: Axis) -> str:
    places = _points_of(x, y, mark.x, mark.y)
    shown = "".join(_path(_simplified(part)) for part in _pieces(places))
    width = "" if mark.width == 2.0 else f' stroke-width="{_n(0.9 * mark.width)}"'
    path = f'<path class="line {mark.style.dash}" d="{shown}"{width}/>'
    return _group(mark, path + (_markers(places, mark.style) if mark.has_markers else ""))


def _markers(places: Array, style: Style) -> str:
    """Return markers on a line: at each of few points, or evenly spaced along a long line."""
    inside = places[~np.isnan(places).any(axis=1)]
    if len(inside) > 2 * MAX_MARKERS:
        way = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(inside, axis=0), axis=1))])
        wanted = np.linspace(0.0, way[-1], MAX_MARKERS)
        inside = inside[np.unique(np.searchsorted(way, wanted).clip(max=len(inside) - 1))]
    return _uses(inside, style.marker)


def _uses(places: Array, marker: str, size: float = 7.0) -> str:
    larger = "" if size == 7.0 else f"scale({_n(size / 7.0)})"
    return "".join(
        f'<use href="#m-{marker}" transform="translate({_n(u)} {_n(v)}){larger}"/>'
        for u, v in places
        if np.isfinite([u, v]).all()
    )


def _pieces(places: Array) -> Iterator[Array]:
    """Return the parts of a line between points without a place."""
    gaps = np.flatnonzero(np.isnan(places).any(axis=1))
    for part in np.split(places, gaps):
        there = part[~np.isnan(part).any(axis=1)]
        if len(there):
            yield there


def _simplified(places: Array) -> Array:
    """Return few of the points, so that the line through them stays within `TOLERANCE` of all points.

    References
    ----------
    Douglas and Peucker (1973), Algorithms for the reduction of the number of points required to represent a
    digitized line.
    """
    kept = np.zeros(len(places), dtype=bool)
    kept[[0, -1]] = True
    stack = [(0, len(places) - 1)]
    while stack:
        first, last = stack.pop()
        if last - first < 2:
            continue
        inner, chord = places[first + 1 : last] - places[first], places[last] - places[first]
        share = np.clip(inner @ chord / max(float(chord @ chord), 1e-12), 0.0, 1.0)
        distance = np.linalg.norm(inner - share[:, None] * chord, axis=1)
        farthest = int(distance.argmax())
        if distance[farthest] > TOLERANCE:
            middle = first + 1 + farthest
            kept[middle] = True
            stack += [(first, middle), (middle, last)]
    return places[kept]


def _path(places: Array) -> str:
    """Return the path through points: a start, then steps; steps are rounded so that errors do not add up."""
    tenths = np.round(10.0 * places).astype(int)
    steps = np.diff(tenths, axis=0)
    words = " ".join(f"{_n(u / 10)} {_n(v / 10)}" for u, v in steps if u or v)
    path = f"M{_n(tenths[0, 0] / 10)} {_n(tenths[0, 1] / 10)}" + (f"l{words}" if words else "")
    return path.replace(" -", "-")


def _band(mark: Band, x: Axis, y: Axis) -> str:
    high, low = _points_of(x, y, mark.x, mark.high), _points_of(x, y, mark.x, mark.low)
    is_whole = ~np.isnan(high).any(axis=1) & ~np.isnan(low).any(axis=1)
    if not is_whole.any():
        return ""
    around = np.concatenate([_simplified(high[is_whole]), _simplified(low[is_whole])[::-1]])
    return _group(mark, f'<path class="band" d="{_path(around)}z"/>')


def _points(mark: Points, x: Axis, y: Axis) -> str:
    return _group(mark, _uses(_points_of(x, y, mark.x, mark.y), mark.style.marker, mark.size))


def _arrows(mark: Arrows, x: Axis, y: Axis) -> str:
    """Draw each arrow as one stroke with a head: true in direction on the page, and all of one length."""
    middle = _points_of(x, y, mark.x, mark.y)
    half = np.column_stack([mark.u, mark.v]) * [x.length / (x.high - x.low), -y.length / (y.high - y.low)]
    half *= 0.4 * _spacing(middle) / np.maximum(np.linalg.norm(half, axis=1, keepdims=True), 1e-300)
    tip, along = middle + half, 0.6 * half
    side = along[:, ::-1] * [-0.5, 0.5]
    strokes = zip(middle - half, tip, tip - along + side, tip, tip - along - side, strict=True)
    drawn = "".join(_path(np.array(points)) for points in strokes)
    return _group(mark, f'<path class="arrow" d="{drawn}"/>')


def _spacing(places: Array) -> float:
    """Return the smallest distance of two lines of a grid."""
    lines = [np.unique(np.round(column, 3)) for column in places.T]
    return float(min((np.diff(line).min() for line in lines if line.size > 1), default=20.0))


_DRAWN: dict[type, Callable[[Any, Axis, Axis], str]] = {
    Line: _line,
    Band: _band,
    Points: _points,
    Arrows: _arrows,
}
