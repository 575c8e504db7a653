"""Write the verdicts: all of them to docs/verdicts.md, and their counts into the README.

First ``prgd reproduce`` and ``prgd claims --json claims.json``, then ``python docs/write_verdicts.py``.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from prgd_paper.claims import Judgement
from prgd_paper.claims.quotes import readable
from prgd_paper.report.elements import pretty
from prgd_paper.reproduce.store import write_whole

BEGIN, END = "<!-- verdicts: begin -->", "<!-- verdicts: end -->"
FIGURES = {
    "figure-3": "Margin error on a synthetic set for GD, NGD and PRGD, at two time scales",
    "figure-4-long": "Margin error on the digits; T_0, warm-up and horizon are ours, and nothing is decided",
}
HEAD = """# What holds

The statements of the paper that we measured, each with a verdict by one
[rule](reproduce.md#claims-and-verdicts). Words in quotation marks are the paper's own, with formulas set as
plain text; what stands below them is ours. `prgd claims NAME` prints what was run, what came out with its
interval, and what would change the verdict; `make reproduce` draws the page with the figures. What we found
on reading is in the [errata](errata.md).
"""


def page(claims: list[dict[str, Any]]) -> str:
    r"""Return docs/verdicts.md: what does not hold, all statements of the paper, statements of ours.

    Parameters
    ----------
    claims : list of dict
        What ``prgd claims --json`` writes.

    Examples
    --------
    >>> claim = {"name": "a", "statement": "a | b", "where": "Section 7", "verdict": "holds"}
    >>> print(page([claim]).splitlines()[-1])
    | a \\| b | Section 7 | `a` | ✓ holds |
    """
    papers, ours = ([c for c in claims if c.get("is_ours", False) is is_ours] for is_ours in (False, True))
    lines = [HEAD, *(f"![{words}](images/{name}.png)" for name, words in FIGURES.items()), ""]
    lines += [*_crosses([c for c in papers if c["verdict"] == Judgement.FAILS]), ""]
    lines += [f"## Statements of the paper: {_counts(papers)}", "", *_verdicts("The paper says", papers)]
    if ours:
        head = f"## Statements of ours, which the paper does not make: {_counts(ours)}"
        lines += ["", head, "", *_verdicts("Statement of ours", ours)]
    return "\n".join(lines)


def summary(claims: list[dict[str, Any]]) -> str:
    """Return the sentence of the README."""
    papers = [c for c in claims if not c.get("is_ours", False)]
    return f"Of {len(papers)} statements of the paper that were measured, {_counts(papers)}."


def _counts(claims: list[dict[str, Any]]) -> str:
    found = [Judgement(c["verdict"]) for c in claims]
    return ", ".join(verdict.counted(found.count(verdict)) for verdict in Judgement if verdict in found)


def _verdicts(head: str, claims: list[dict[str, Any]]) -> list[str]:
    rows = [
        f"| {_said(c)} | {_cell(c['where'])} | `{c['name']}` "
        f"| {Judgement(c['verdict']).sign} {c['verdict']} |"
        for c in claims
    ]
    return [f"| {head} | where | name | verdict |", "|---|---|---|---|", *rows]


def _crosses(claims: list[dict[str, Any]]) -> list[str]:
    """Return what does not hold: the paper's sentence, the source of the setting, the interval."""
    if not claims:
        return ["No statement of the paper that was measured is refuted."]
    rows = [f"| {_said(c)} | {_cell(c['source'])} | {_cell(c['comparison'])} |" for c in claims]
    head = [
        "## What does not hold, and why we say so",
        "",
        "| The paper says | setting from | what decides |",
    ]
    return [*head, "|---|---|---|", *rows]


def _said(claim: dict[str, Any]) -> str:
    """Return the paper's words, in quotation marks, and the statement in ours."""
    ours = _cell(claim["statement"])
    quote = _cell(readable(claim.get("quote", "")))
    return f"\u201c{quote}\u201d<br>{ours}" if quote else ours


def _cell(text: str) -> str:
    # A star next to a letter would begin emphasis in Markdown, and <w, x> may pass for a tag.
    return pretty(text).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def main(report: Path = Path("report"), claims: Path = Path("claims.json"), root: Path = Path()) -> None:
    """Write docs/verdicts.md with its figures, and what stands between the two marks of README.md."""
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{readme} must hold {BEGIN} and {END}, each once.")
    found = json.loads(claims.read_text(encoding="utf-8"))
    if missing := [c["name"] for c in found if c["verdict"] == Judgement.NOT_RUN]:
        raise ValueError(f"{claims} lacks verdicts ({', '.join(missing)}): run prgd reproduce first.")
    images = root / "docs" / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name in FIGURES:
        shutil.copyfile(report / "figures" / f"{name}.png", images / f"{name}.png")
    write_whole(root / "docs" / "verdicts.md", f"{page(found)}\n".encode())
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    write_whole(readme, f"{before}{BEGIN}\n{summary(found)}\n{END}{after}".encode())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
