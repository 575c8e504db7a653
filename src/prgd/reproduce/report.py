"""The page: one file that opens from disk without a network, with everything inside it."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from prgd.reproduce.experiment import Experiment, Judged
from prgd.reproduce.figures import Figure, Table
from prgd.reproduce.interactive import plotly_script, plots
from prgd.reproduce.legend import key
from prgd.reproduce.markup import Safe, join, json_script, script, tag, void

VERDICTS = {
    "holds": ("holds", "✓"),
    "holds with a caveat": ("caveat", "◐"),
    "does not hold": ("fails", "✗"),
    "not yet run": ("pending", "…"),
}
TYPES = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".png": "image/png",
}
PAPER = "Achieving Margin Maximization Exponentially Fast via Progressive Norm Rescaling"


@dataclass(frozen=True)
class Section:
    """One experiment, ready for the page."""

    experiment: Experiment
    settings: Any
    command: str
    reading: str
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    claims: tuple[Judged, ...]
    files: tuple[Path, ...]  # the rows and their record
    commits: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """What the head of the page says: the command that made it, versions and machine, what is left out."""

    folder: Path
    command: str
    facts: Mapping[str, Any]
    is_quick: bool = False
    left_out: int = 0


def render(page: Page, sections: Iterable[Section]) -> str:
    """Return the whole page as HTML."""
    sections = list(sections)
    head = tag(
        "head",
        void("meta", charset="utf-8"),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("link", rel="icon", href="data:,"),
        tag("title", "PRGD, reproduced"),
        tag("style", Safe(_asset("page.css"))),
        script(plotly_script()),
    )
    body = tag(
        "body",
        tag("a", "Skip to the claims", class_="skip", href="#claims"),
        _header(page, sections),
        tag("main", _claims(sections), *(_section(section, page.folder) for section in sections)),
        tag(
            "footer",
            tag(
                "p",
                "Made by ",
                tag("code", "prgd"),
                ". Plots by Plotly.js (MIT licence), inside the page; nothing is loaded from a network.",
            ),
        ),
        script(_asset("page.js")),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    return files("prgd.reproduce").joinpath("assets", name).read_text(encoding="utf-8")


def _header(page: Page, sections: list[Section]) -> Safe:
    notes = [
        "Each figure and table of the paper, computed again, with a verdict on each statement about them. "
        "Numbers come from the rows beside each figure; what is the paper's is marked as the paper's.",
        "The margin error is gamma_star - gamma(w(t)), with the exact gamma_star. PRGD starts from a warm-up "
        "by gradient descent; each axis says whether these steps are counted. What is marked “ours” is not "
        "in the paper.",
    ]
    if page.is_quick:
        notes.append("Made with --quick: fewer draws and steps. Verdicts need the full run.")
    if page.left_out:
        notes.append(f"{page.left_out} experiments are left out here; prgd reproduce makes all of them.")
    versions = ", ".join(f"{name} {version}" for name, version in page.facts["versions"].items())
    machine = page.facts["machine"]
    commits = ", ".join(sorted({c for s in sections for c in s.commits})) or "unknown"
    links = [("claims", "Claims"), *((s.experiment.name, _short(s.experiment)) for s in sections)]
    return tag(
        "header",
        tag("h1", "Margin maximization by progressive norm rescaling, reproduced"),
        tag("p", "Wang, Min and Wu, ", tag("cite", PAPER), ", ICML 2024."),
        *(tag("p", note) for note in notes),
        tag(
            "p",
            "Made by ",
            tag("code", page.command),
            f" from commit {commits}; {versions}; {machine['system']} on {machine['processor']}, "
            f"{machine['cores']} cores.",
            class_="facts",
        ),
        tag(
            "nav",
            tag("ul", *(tag("li", tag("a", words, href=f"#{name}")) for name, words in links)),
            aria_label="Experiments",
        ),
    )


def _short(experiment: Experiment) -> str:
    return experiment.title if experiment.is_ours else experiment.name.replace("-", " ").capitalize()


# Claims


def judged(sections: Iterable[Section]) -> list[tuple[Judged, Section]]:
    """Return each claim once with its section, in the order of the paper.

    Of two sections that share rows the later one has more of them, and its claim is kept.
    """
    found: dict[str, tuple[Judged, Section]] = {}
    for section in sections:
        found |= {claim.name: (claim, section) for claim in section.claims}
    return sorted(found.values(), key=lambda item: _place(item[0]))


ORDER = (
    "Table 1",
    "Section 4",
    "Section 5",
    "Section 7.1, Figures 3",
    "Table 2, Appendix",
    "Table 2",
    "Section 7.1",
    "Section 7.2",
)


def _place(claim: Judged) -> int:
    return next((k for k, start in enumerate(ORDER) if claim.where.startswith(start)), len(ORDER))


def summary(claims: Iterable[Judged]) -> str:
    """Return how many claims have each verdict, in words.

    Examples
    --------
    >>> from prgd.reproduce.experiment import Pending
    >>> summary([Pending("vgg", "Section 7.2", "...", "...")])
    '1 claim: 1 not yet run'
    """
    claims = list(claims)
    words = {"holds": "hold", "does not hold": "do not hold", "holds with a caveat": "hold with a caveat"}
    counts = {verdict: sum(str(c.verdict) == verdict for c in claims) for verdict in VERDICTS}
    parts = ", ".join(
        f"{n} {verdict if n == 1 else words.get(verdict, verdict)}" for verdict, n in counts.items() if n
    )
    return f"{len(claims)} claim{'s' if len(claims) != 1 else ''}: {parts}"


def _badge(claim: Judged) -> Safe:
    kind, sign = VERDICTS[str(claim.verdict)]
    return tag("span", tag("span", sign, aria_hidden="true"), f" {claim.verdict}", class_=f"verdict {kind}")


def _claims(sections: list[Section]) -> Safe:
    found = judged(sections)
    lines = [
        tag(
            "tr",
            tag(
                "th",
                tag("span", claim.statement, class_="statement"),
                tag("span", tag("a", claim.where, href=f"#{section.experiment.name}"), class_="place"),
                scope="row",
            ),
            tag("td", _badge(claim)),
            tag("td", claim.sentence),
            id=claim.name,
        )
        for claim, section in found
    ]
    heads = (tag("th", words, scope="col") for words in ("Statement", "Verdict", "What was found"))
    return tag(
        "section",
        tag("h2", "Claims and verdicts", id="claims-head"),
        tag("p", f"{summary(claim for claim, _ in found)}."),
        tag("table", tag("thead", tag("tr", *heads)), tag("tbody", join(*lines)), class_="claims"),
        id="claims",
        aria_labelledby="claims-head",
    )


# Sections


def _section(section: Section, folder: Path) -> Safe:
    e = section.experiment
    title = e.title if e.is_ours else f"{_short(e)}: {e.title}"
    labels = zip(section.files, ("Rows (CSV)", "Record (JSON)"), strict=True)
    links = [_download(file, folder, label) for file, label in labels]
    verdicts = [tag("li", tag("a", c.statement, href=f"#{c.name}"), " ", _badge(c)) for c in section.claims]
    settings = [
        join(tag("dt", name), tag("dd", Safe(escape(json.dumps(value, default=repr)))))
        for name, value in asdict(section.settings).items()
    ]
    return tag(
        "section",
        tag("h2", title, *_ours(e.is_ours), id=f"{e.name}-head"),
        tag("p", "Beyond the paper" if e.is_ours else e.where, class_="where"),
        tag("p", section.reading),
        *(_figure(figure, folder) for figure in section.figures),
        *(_table(table) for table in section.tables),
        *([_details(f"Verdicts ({len(verdicts)})", tag("ul", *verdicts))] if verdicts else []),
        tag("p", tag("span", "Make it: ", tag("code", section.command)), *links, class_="tools"),
        _details("Settings", tag("dl", *settings)),
        id=e.name,
        aria_labelledby=f"{e.name}-head",
    )


def _details(words: str, content: Safe) -> Safe:
    return tag("details", tag("summary", words), content)


def _ours(is_ours: bool) -> list[Safe]:
    return [Safe(" "), tag("span", "ours", class_="ours")] if is_ours else []


def _figure(figure: Figure, folder: Path) -> Safe:
    png = folder / "figures" / f"{figure.name}.png"
    picture = base64.b64encode(png.read_bytes()).decode()
    keys = [tag("li", key(name, mark)) for name, mark in figure.legend.items()]
    panels = [
        tag(
            "div",
            tag("h4", panel.title, *_ours(panel.is_ours)),
            tag("div", class_="plot", role="figure", aria_label=f"{panel.title}, interactive"),
            class_="panel",
        )
        for panel in figure.panels
    ]
    return tag(
        "figure",
        tag("figcaption", figure.title),
        tag(
            "div",
            *([tag("ul", *keys, class_="keys", aria_label="Show or hide")] if keys else []),
            tag("div", *panels, class_="panels two" if figure.columns == 2 else "panels"),
            class_="interactive",
        ),
        tag(
            "div",
            void("img", loading="lazy", alt=figure.alt, src=f"data:image/png;base64,{picture}"),
            class_="static-picture",
        ),
        tag(
            "p",
            tag("button", "Show the static picture", type="button", class_="toggle", aria_expanded="false"),
            *(_download(png.with_suffix(end), folder, end[1:].upper()) for end in (".png", ".svg", ".pdf")),
            class_="tools",
        ),
        json_script(plots(figure), class_="spec"),
        class_="plots",
        id=f"{figure.name}-plot",
    )


def _download(file: Path, folder: Path, label: str) -> Safe:
    """Return a link to a file of the report that also carries the file inside the page.

    The link alone works beside the report and without scripts; with them the copy inside is used, so
    that the page can travel alone.
    """
    content = base64.b64encode(gzip.compress(file.read_bytes(), mtime=0)).decode()
    relative = file.relative_to(folder).as_posix()
    return join(
        tag("a", label, href=relative, download=file.name, data_file=file.name),
        script(content, type="text/plain", id=f"file-{file.name}", data_type=TYPES[file.suffix]),
    )


def _table(table: Table) -> Safe:
    def cell(kind: str, column: str, value: str, scope: str | None = None) -> Safe:
        return tag(kind, value, class_="number" if column in table.numbers else None, scope=scope)

    grouped = len({row[0] for row in table.rows}) < len(table.rows)
    lines: list[Safe] = []
    last = ""
    for row in table.rows:
        first, *rest = zip(table.columns, row, strict=True)
        begins = grouped and lines and row[0] != last
        last = row[0]
        cells = [cell("th", *first, scope="row"), *(cell("td", *pair) for pair in rest)]
        lines.append(tag("tr", *cells, class_="gap" if begins else None))
    heads = [cell("th", column, column, "col") for column in table.columns]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", tag("span", table.caption)),
            tag("thead", tag("tr", *heads)),
            tag("tbody", join(*lines)),
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=f"Table by {table.columns[0]}",
    )
