"""The legend of a figure on the page: buttons with a sample of each line."""

from __future__ import annotations

from prgd.reproduce.figures import Band, Heat, Mark, Points, Style
from prgd.reproduce.markup import Safe, tag

DASHES = {"solid": None, "dash": "7 3", "dot": "2 2", "dashdot": "7 2 2 2", "longdash": "12 3"}


def key(name: str, mark: Mark) -> Safe:
    """Return the button that shows and hides all that has this name.

    Examples
    --------
    >>> from prgd.reproduce.figures import Line
    >>> 'data-group="NGD"' in key("NGD", Line("NGD", [1], [2], Style("#000000", "dash")))
    True
    """
    return tag(
        "button",
        tag("svg", _sample(mark), width="34", height="12", aria_hidden="true"),
        name,
        type="button",
        class_="key",
        aria_pressed="true",
        data_group=name,
    )


def _sample(mark: Mark) -> Safe:
    style = Style("#000000") if isinstance(mark, Heat) else mark.style
    if isinstance(mark, Points):
        return _symbol(style)
    stroke = tag(
        "line",
        x1="1",
        y1="6",
        x2="33",
        y2="6",
        stroke=style.colour,
        stroke_width="8" if isinstance(mark, Band) else "2.5",
        stroke_dasharray=None if isinstance(mark, Band) else DASHES[style.dash],
    )
    has_markers = getattr(mark, "has_markers", False)
    return Safe(stroke + _symbol(style)) if has_markers else stroke


SHAPES = {
    "square": "M12.5 1.5h9v9h-9z",
    "diamond": "M17 0l6 6-6 6-6-6z",
    "triangle-up": "M17 0.5l5.5 10.5h-11z",
    "cross": "M15 1h4v3h3v4h-3v3h-4v-3h-3v-4h3z",
    "star": "M17 0l1.6 4.2 4.4.2-3.5 2.8 1.2 4.3-3.7-2.4-3.7 2.4 1.2-4.3-3.5-2.8 4.4-.2z",
}


def _symbol(style: Style) -> Safe:
    if style.marker == "x":
        return tag("path", d="M13 2l8 8m0-8l-8 8", stroke=style.colour, stroke_width="1.5")
    if style.marker in SHAPES:
        return tag("path", d=SHAPES[style.marker], fill=style.colour)
    return tag("circle", cx="17", cy="6", r="4.5", fill=style.colour)
