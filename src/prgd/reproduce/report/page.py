"""The page: one file that opens from disk without a network, with everything inside it.

The HTML is a Jinja2 template, ``assets/page.html``: it reads as the page that it makes, and autoescaping lets
no text reach the page unescaped. Nested calls of Python functions that return HTML took twice the lines.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from mimetypes import MimeTypes
from pathlib import Path
from typing import Any, NamedTuple

from prgd.claims import Claim, summary
from prgd.claims.registry import place
from prgd.reproduce.experiment import Experiment, settings_of
from prgd.reproduce.figures import Band, Figure, Heat, Mark, Points, Style, Table, pretty
from prgd.reproduce.report.interactive import plotly_script, plots

# Dash patterns and marker shapes of the samples in a legend, as SVG attributes.
DASHES = {"solid": "none", "dash": "7 3", "dot": "2 2", "dashdot": "7 2 2 2", "longdash": "12 3"}
SHAPES = {
    "circle": "M12.5 6a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    "square": "M12.5 1.5h9v9h-9z",
    "diamond": "M17 0l6 6-6 6-6-6z",
    "triangle-up": "M17 0.5l5.5 10.5h-11z",
    "cross": "M15 1h4v3h3v4h-3v3h-4v-3h-3v-4h3z",
    "star": "M17 0l1.6 4.2 4.4.2-3.5 2.8 1.2 4.3-3.7-2.4-3.7 2.4 1.2-4.3-3.5-2.8 4.4-.2z",
    "x": "M13 2l8 8m0-8l-8 8",
}


@dataclass(frozen=True)
class Section:
    """One experiment, ready for the page."""

    experiment: Experiment
    settings: Any
    command: str
    reading: str
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    claims: tuple[Claim, ...]
    files: tuple[Path, ...]  # the rows and their record
    commits: tuple[str, ...]

    @property
    def short_title(self) -> str:
        """The words of the link to the section."""
        e = self.experiment
        return e.title if e.is_ours else e.name.replace("-", " ").capitalize()

    @property
    def setting_texts(self) -> dict[str, str]:
        """Each field of the settings, as text."""
        return {name: json.dumps(v, default=repr) for name, v in settings_of(self.settings).items()}


class Key(NamedTuple):
    """The sample of a mark in the legend: a stroke, a marker, or both."""

    style: Style
    has_stroke: bool
    has_marker: bool
    width: float
    dash: str


def render(sections: Sequence[Section], **head: Any) -> str:
    """Return the whole page as HTML.

    Parameters
    ----------
    sections : sequence of Section
    **head
        What the template knows as ``page``: the ``folder`` of the report, the ``command`` that made it, the
        ``facts`` about versions and machine, ``is_quick``, and how many experiments are ``left_out``.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def asset(name: str) -> Markup:
        return script(files(__package__).joinpath("assets", name).read_text(encoding="utf-8"))

    def script(content: str) -> Markup:
        # A closing tag inside a script would end it, so it is written with a backslash.
        return Markup(content.replace("</script", "<\\/script"))  # noqa: S704 - our own files, and plotly.js

    def spec(figure: Figure) -> Markup:
        content = json.dumps(plots(figure), separators=(",", ":")).replace("<", "\\u003c")
        return Markup(content)  # noqa: S704 - JSON without a "<" cannot end its script

    environment = Environment(
        loader=PackageLoader(__package__, "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Text shows the paper's symbols; names for scripts, which the template escapes itself, stay.
        finalize=lambda value: pretty(value) if type(value) is str else value,
    )
    return environment.get_template("page.html").render(
        page=head,
        sections=sections,
        judged=judged(sections),
        summary=summary(claim for claim, _ in judged(sections)),
        commits=", ".join(sorted({c for s in sections for c in s.commits})) or "unknown",
        css=asset("page.css"),
        js=asset("page.js"),
        plotly=script(plotly_script()),
        spec=spec,
        key=key,
        shapes=SHAPES,
        # An object of its own has Python's table of types, whatever the system says.
        type_of=lambda file: MimeTypes().guess_type(file.name)[0],
        base64_of=lambda file: base64.b64encode(file.read_bytes()).decode(),
        zipped=lambda file: base64.b64encode(gzip.compress(file.read_bytes(), mtime=0)).decode(),
        css_class=lambda verdict: verdict.name.lower().replace("_", "-"),
    )


def key(mark: Mark) -> Key:
    """Return the sample that stands for a mark in the legend.

    Examples
    --------
    >>> from prgd.reproduce.figures import Line
    >>> key(Line("NGD", [1], [2], Style("#000000", "dash"))).dash
    '7 3'
    """
    style = Style("#000000") if isinstance(mark, Heat) else mark.style
    is_band, is_points = isinstance(mark, Band), isinstance(mark, Points)
    has_marker = is_points or getattr(mark, "has_markers", False)
    dash = DASHES["solid" if is_band else style.dash]
    return Key(style, not is_points, has_marker, 8 if is_band else 2.5, dash)


def judged(sections: Iterable[Section]) -> list[tuple[Claim, Section]]:
    """Return each claim once with its section, in the order of the paper.

    Of two sections that share rows the later one has more of them, and its claim is kept.
    """
    found: dict[str, tuple[Claim, Section]] = {}
    for section in sections:
        found |= {claim.name: (claim, section) for claim in section.claims}
    return sorted(found.values(), key=lambda item: place(item[0]))
