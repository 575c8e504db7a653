"""The page: one file that opens from disk without a network, with everything inside it.

The HTML is a Jinja2 template, ``assets/page.html``: it reads as the page that it makes, and autoescaping lets
no text reach the page unescaped. Nested calls of Python functions that return HTML took twice the lines.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from mimetypes import MimeTypes
from pathlib import Path
from typing import Any

from prgd_paper.claims import Claim, Judgement
from prgd_paper.claims.registry import apart, place, summary
from prgd_paper.report.elements import Figure, Table, pretty
from prgd_paper.report.introduction import introduction
from prgd_paper.report.vector import SHAPES, drawing
from prgd_paper.reproduce.experiment import Experiment
from prgd_paper.reproduce.settings import settings_of

# Bytes of all files inside the page; the largest ones lie beside it.
ROOM = 2_400_000


@dataclass(frozen=True)
class Section:
    """One experiment, ready for the page."""

    experiment: Experiment
    settings: Any
    options: str  # of the command line, that ask for these settings
    reading: str
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    claims: tuple[Claim, ...]
    files: tuple[Path, ...]  # the rows and their record
    commits: tuple[str, ...]
    other_code: str = ""  # which tasks have rows that other code computed, in words

    @property
    def setting_texts(self) -> dict[str, str]:
        """Each field of the settings, as text."""
        return {name: json.dumps(v, default=repr) for name, v in settings_of(self.settings).items()}


# Formulas as escaped text has them, and the mathematics that the page shows. Greek letters are words in text.
# The base of a power is set in italics if it is a letter; the exponent ends where no bracket is open.
_INNER = r"(?:[^()\s]|\([^()]*\))+"
FORMULAS = tuple(
    (re.compile(pattern), shown)
    for pattern, shown in (
        (r"\b([A-Za-z])\^", r"<i>\1</i>^"),
        (rf"\^\(({_INNER})\)", r"<sup>\1</sup>"),
        (r"\^(-?\d+(?:\.\d+)?(?:/\d+)?|-?[A-Za-zΩ]+(?:\([^()]*\))?)", r"<sup>\1</sup>"),
        (r"\bl_?(\d+(?:\.\d+)?|p|q)\b(?=[ ,.:;)]|$)", r"<i>l</i><sub>\1</sub>"),
        (r"\blinf\b", r"<i>l</i><sub>∞</sub>"),
        (r"\b([A-Za-z])_([a-z0-9])\b", r"<i>\1</i><sub>\2</sub>"),
        (r"\bsqrt\((\w+)\)", r"√\1"),
        (r"\|\|", "‖"),
        (r"(?<=<sup>)-", "−"),
        *((rf"(?i:\b{name}\b)", s) for s, name in zip("ηαβρ", ("eta", "alpha", "beta", "rho"), strict=True)),
    )
)


def mathematics(text: str) -> Any:
    """Return a text as HTML with formulas as mathematics: powers raised, indices lowered, Greek letters.

    Examples
    --------
    >>> print(mathematics("e^-Ω(t) <= (k+1)^0.6, t^-1/4, eta = 1 and ||w_i||"))
    <i>e</i><sup>−Ω(t)</sup> ≤ (k+1)<sup>0.6</sup>, <i>t</i><sup>−1/4</sup>, η = 1 and ‖<i>w</i><sub>i</sub>‖
    """
    from markupsafe import Markup, escape

    shown = str(escape(pretty(text)))
    for pattern, replacement in FORMULAS:
        shown = pattern.sub(replacement, shown)
    return Markup(shown)  # noqa: S704 - escaped above


def check_packages() -> None:
    """Raise an error that says what to install if a package of the page or of its figures is missing."""
    for package in ("jinja2", "matplotlib", "pandas"):
        if find_spec(package) is None:
            said = f"The report needs {package}: pip install ./paper in a checkout of prgd brings it."
            raise ModuleNotFoundError(said, name=package)


def render(sections: Sequence[Section], **head: Any) -> str:
    """Return the whole page as HTML.

    Parameters
    ----------
    sections : sequence of Section
    **head
        What the template knows as ``page``: the ``folder`` of the report, the ``command`` that made it
        (empty if there were several), the ``facts`` about versions and machine, the names of the ``quick``
        experiments, and how many are ``left_out``.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def asset(name: str) -> Markup:
        content = files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
        return Markup(content)  # noqa: S704 - our own files

    environment = Environment(
        loader=PackageLoader(__package__, "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Text shows the paper's symbols; names for scripts, which the template escapes itself, stay.
        finalize=lambda value: mathematics(value) if type(value) is str else value,
    )
    shown_in = {claim.name: section.experiment.name for claim, section in judged(sections)}
    verdicts = {claim.name: claim for claim, _ in judged(sections)}
    papers, ours = apart(verdicts.values())
    return environment.get_template("page.html").render(
        page=head,
        sections=sections,
        verdicts=verdicts,
        shown_in=shown_in,
        papers=papers,
        our_claims=ours,
        summary=summary,
        legend=[
            v for v in Judgement if v is not Judgement.NOT_RUN or v in {c.verdict for c in papers + ours}
        ],
        commits=", ".join(sorted({c for s in sections for c in s.commits})) or "unknown",
        css=asset("page.css"),
        js=asset("page.js"),
        idea=introduction(),
        drawing=lambda panel: Markup(drawing(panel)),  # noqa: S704 - the drawing escapes its texts
        picture=partial(picture, head["folder"]),
        shapes=SHAPES,
        kind_of=lambda mark: type(mark).__name__,
        # An object of its own has Python's table of types, whatever the system says.
        type_of=lambda file: MimeTypes().guess_type(file.name)[0],
        carried=_carried(sections, head["folder"]),
        css_class=lambda verdict: verdict.name.lower().replace("_", "-"),
    )


def _carried(sections: Sequence[Section], folder: Path) -> dict[Path, str]:
    """Return the files that travel inside the page, compressed: the smallest ones, while there is `ROOM`.

    PNG and PDF are never among them: the page shows their picture, and carries the SVG.
    """
    drawn = {picture(folder, figure, ".svg") for section in sections for figure in section.figures}
    drawn = {file for file in drawn if file.is_file()}  # those of a page that grows are not there yet
    every = drawn | {file for section in sections for file in section.files}
    zipped = {f: base64.b64encode(gzip.compress(f.read_bytes(), mtime=0)).decode() for f in every}
    found: dict[Path, str] = {}
    left = ROOM
    for file in sorted(every, key=lambda file: (len(zipped[file]), file.name)):
        left -= len(zipped[file])
        if left < 0:
            break
        found[file] = zipped[file]
    return found


def picture(folder: Path, figure: Figure, end: str) -> Path:
    """Return the file of a figure in the folder of a report."""
    return folder / "figures" / f"{figure.name}{end}"


def judged(sections: Iterable[Section]) -> list[tuple[Claim, Section]]:
    """Return each claim once with its section, in the order of the paper.

    Of two sections that share rows the later one has more of them, and its claim is kept.
    """
    found: dict[str, tuple[Claim, Section]] = {}
    for section in sections:
        found |= {claim.name: (claim, section) for claim in section.claims}
    return sorted(found.values(), key=lambda item: place(item[0]))
