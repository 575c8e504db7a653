"""Figures and tables as plain values; `prgd_paper.report` draws them for print and for the page."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from prgd.core import checks

# Okabe and Ito's colours: readers of any colour vision can tell them apart.
BLACK, GREY = "#000000", "#808080"
ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"

# An error of 0 is drawn as this number: double precision has no smaller one to show.
FLOOR = 1e-16

# Labels of axes that several figures share.
LEFT_OUT, COUNTED = "step t, warm-up left out", "step t, warm-up counted"
MARGIN_ERROR, BOUND_ERROR = "gamma_star - gamma(w(t))", "smallest upper bound - gamma_star"

Dash = Literal["solid", "dash", "dot", "dashdot", "longdash"]
Marker = Literal["circle", "square", "diamond", "triangle-up", "x", "cross", "star"]


class Style(NamedTuple):
    """Colour, dash and marker of a line: three ways to tell it from the others."""

    colour: str
    dash: Dash = "solid"
    marker: Marker = "circle"


STYLES = {
    "GD": Style(BLACK, "dot", "x"),
    "NGD": Style(ORANGE, "dash", "square"),
    "NGD, warm start": Style(GREY, "dash", "star"),
    "PRGD(exp)": Style(BLUE, "solid", "circle"),
    "PRGD(poly)": Style(VERMILLION, "solid", "triangle-up"),
    "PRGD": Style(VERMILLION, "solid", "triangle-up"),
    "PRGD, no projection": Style(BLUE, "dashdot", "diamond"),
    "dual acceleration": Style(GREEN, "dashdot", "diamond"),
    "game dynamics": Style(PURPLE, "longdash", "cross"),
    "restarted NGD": Style(PURPLE, "solid", "diamond"),
    "gated PRGD": Style(SKY, "solid", "square"),
    "progressive-rescaling Newton": Style(BLACK, "solid", "star"),
}
BY_NAME = Style("")  # stands for the style of the method that a mark is named after
# Styles of methods that have none of their own: of a user, or a second one of a kind.
SPARE = (
    Style(SKY, "dash", "star"),
    Style(GREY, "dashdot", "square"),
    Style(BLUE, "dashdot", "diamond"),
    Style(PURPLE, "dash", "circle"),
    Style(GREEN, "dot", "cross"),
    Style(BLACK, "solid", "x"),
)


def style_of(name: str) -> Style:
    """Return the style of a method: the same in every figure.

    Examples
    --------
    >>> style_of("NGD").dash
    'dash'
    """
    return STYLES.get(name) or SPARE[sum(map(ord, name)) % len(SPARE)]


@dataclass(frozen=True)
class Named:
    """A mark with an entry in the legend; marks of one name are shown and hidden together.

    The style is that of the method of this name, unless another is given.
    """

    name: str
    style: Style = field(default=BY_NAME, kw_only=True)

    def __post_init__(self) -> None:
        if self.style == BY_NAME:
            object.__setattr__(self, "style", style_of(self.name))


@dataclass(frozen=True)
class Line(Named):
    """A curve through the points (x, y)."""

    x: Any
    y: Any
    width: float = 2.0
    has_markers: bool = True


@dataclass(frozen=True)
class Band(Named):
    """The area between two curves over x."""

    x: Any
    low: Any
    high: Any


@dataclass(frozen=True)
class Points(Named):
    """Markers at the points (x, y)."""

    x: Any
    y: Any
    size: float = 7.0


@dataclass(frozen=True)
class Arrows(Named):
    """A vector field: an arrow of (u, v) from each (x, y)."""

    x: Any
    y: Any
    u: Any
    v: Any


Mark = Line | Band | Points | Arrows


@dataclass(frozen=True)
class Note:
    """A short text at a point of a panel."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Panel:
    """One pair of axes and what is drawn between them."""

    title: str
    marks: tuple[Mark, ...]
    x_label: str
    y_label: str
    x_log: bool = False
    y_log: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    notes: tuple[Note, ...] = ()
    is_equal: bool = False
    is_ours: bool = False

    @property
    def heading(self) -> str:
        """The title, marked if the paper has no such panel."""
        return f"{self.title} (ours)" if self.is_ours else self.title


def log_log(
    title: str, marks: Sequence[Mark], x: str, y: str, lowest: float, highest: float = 1.0, **more: Any
) -> Panel:
    """Return a panel for errors that fall by decades: both axes, labelled x and y, are logarithmic."""
    ends = (lowest, highest)
    return Panel(title, tuple(marks), x, y, x_log=True, y_log=True, y_range=ends, **more)


@dataclass(frozen=True)
class Figure:
    """Panels with one legend; ``alt`` says in words what a reader sees."""

    name: str
    title: str
    alt: str
    panels: tuple[Panel, ...]
    columns: int = 3

    @property
    def legend(self) -> dict[str, Mark]:
        """The named marks, each name once, in order of appearance."""
        found: dict[str, Mark] = {}
        for panel in self.panels:
            for mark in panel.marks:
                name = getattr(mark, "name", "")
                if name and (name not in found or isinstance(found[name], Band)):
                    found[name] = mark
        return found

    def key(self) -> str:
        """Return a hash of all that is drawn."""
        return hashlib.sha256(json.dumps(plain(asdict(self)), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Table:
    """A table of the page: a caption, column heads and cells of text.

    Columns named in ``numbers`` are right-aligned; the command prints a table that ``is_printed`` too.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...] = ()
    is_printed: bool = False

    @classmethod
    def of(cls, caption: str, lines: Sequence[Mapping[str, str]], **more: Any) -> Table:
        """Return the table of lines that map the head of each column to a cell; all have the same heads.

        Examples
        --------
        >>> Table.of("Errors", [{"method": "NGD", "error": "1e-02"}]).rows
        (('NGD', '1e-02'),)
        """
        return cls(caption, tuple(lines[0]), tuple(tuple(line.values()) for line in lines), **more)


SYMBOLS = (
    ("alpha = beta", "α = β"), ("Theta(", "Θ("), ("Omega(", "Ω("), ("O~(", "Õ("), (" <= ", " ≤ "),
    ("log^2", "log²"), ("t^2", "t²"), ("t_k^2", "tₖ²"), ("t_k", "tₖ"), ("R^3", "R³"), ("+inf", "+∞"),
    ("gamma_star", "γ*"), ("gamma_NGD", "γ(NGD)"), ("gamma(", "γ("), ("w_star", "w*"), ("P_perp", "P⊥"),
    *((f"{letter}_{n}", f"{letter}{sub}") for letter in "wxRT" for n, sub in enumerate("₀₁₂₃")),
    ("T_{k+1} - T_k", "Tₖ₊₁ − Tₖ"), ("R_k", "Rₖ"), ("T_k", "Tₖ"),
)  # fmt: skip


def pretty(text: str) -> str:
    """Return a text with the paper's symbols in place of their names in the code.

    Examples
    --------
    >>> pretty("gamma_star - gamma(w_1)")
    'γ* - γ(w₁)'
    """
    for name, symbol in SYMBOLS:
        text = text.replace(name, symbol)
    return text


def plain(value: Any) -> Any:
    """Return what JSON can hold: lists, text, and floats of six digits; None for what is not finite.

    Examples
    --------
    >>> plain(np.array([1.0, np.nan, 1 / 3]))
    [1.0, None, 0.333333]
    """
    return checks.plain(value, lambda x: float(f"{x:.6g}") if math.isfinite(x) else None)


def two_classes(points: Any, size: float) -> list[Points]:
    """Return the markers of the rows x, y of each label, +1 and -1."""
    marks = []
    for label, style in ((1, Style(ORANGE)), (-1, Style(PURPLE, marker="square"))):
        some = points[points.label == label]
        marks.append(Points(f"label {label:+d}", some.x.to_numpy(), some.y.to_numpy(), size, style=style))
    return marks


def small(error: float) -> str:
    """Return an error in words: two digits, or that rounding hides it.

    Examples
    --------
    >>> small(0.00123), small(0.0)
    ('1.2e-03', 'below 1e-16')
    """
    return f"{error:.1e}" if error > FLOOR else "below 1e-16"


def floored(error: Any) -> Any:
    """Return errors that a logarithmic axis can show: 0 and rounding below it become `FLOOR`."""
    return np.maximum(np.asarray(error, dtype=np.float64), FLOOR)
