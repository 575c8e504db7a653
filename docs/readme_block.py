"""Put two figures and the verdicts of a report into a README: ``python docs/readme_block.py``.

With a third argument, the file of ``prgd claims --json``, what does not hold among the lemmas and theorems is
listed too.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prgd.claims import Verdict
from prgd.claims.quotes import readable
from prgd.reproduce.figures import pretty
from prgd.reproduce.store import write_whole

BEGIN, END = "<!-- reproduced: begin -->", "<!-- reproduced: end -->"
FIGURES = {
    "figure-3": "Margin error on a synthetic set for GD, NGD and PRGD, at two time scales",
    "figure-4-long": "Margin error on the digits: PRGD leads NGD early and is overtaken",
}


def block(claims: list[dict[str, Any]], images: str, theory: Sequence[dict[str, Any]] = ()) -> str:
    r"""Return the Markdown: two figures; tables of the paper's claims, of what does not hold, of ours.

    Parameters
    ----------
    claims : list of dict
        What a report writes to ``claims.json``.
    images : str
        The folder of the figures.
    theory : list of dict
        The claims about lemmas and theorems, of which only those that do not hold are listed.

    Examples
    --------
    >>> claim = {"name": "a", "statement": "a | b", "where": "Section 7", "verdict": "holds"}
    >>> print(block([claim], "docs/images").splitlines()[-3])
    | a \| b | Section 7 | ✓ holds |
    """
    pictures = [f"![{words}]({images}/{name}.png)" for name, words in FIGURES.items()]
    papers, ours = ([c for c in claims if c.get("is_ours", False) is is_ours] for is_ours in (False, True))
    seen = {c["name"]: c for c in [*papers, *theory] if not c.get("is_ours")}
    said = "Words in quotation marks are the paper's own; other statements are in our words."
    lines = ["", *pictures, "", f"The paper on its figures and tables: {_counts(papers)}. {said}", ""]
    lines += _verdicts("The paper says", papers)
    lines += ["", *_crosses([c for c in seen.values() if c["verdict"] == Verdict.FAILS])]
    if ours:
        head = f"Statements of ours, which the paper does not make, by the same rule: {_counts(ours)}."
        lines += ["", head, "", *_verdicts("Statement of ours", ours)]
    return "\n".join(lines)


def _counts(claims: list[dict[str, Any]]) -> str:
    found = [Verdict(c["verdict"]) for c in claims]
    return ", ".join(f"{found.count(verdict)} {verdict.plural}" for verdict in Verdict if verdict in found)


def _verdicts(head: str, claims: list[dict[str, Any]]) -> list[str]:
    rows = [
        f"| {_said(c)} | {_cell(c['where'])} | {Verdict(c['verdict']).sign} {c['verdict']} |" for c in claims
    ]
    return [f"| {head} | where | verdict |", "|---|---|---|", *rows]


def _crosses(claims: list[dict[str, Any]]) -> list[str]:
    """Return what does not hold: the paper's sentence, the source of the setting, the interval."""
    if not claims:
        return ["No statement of the paper that was measured is refuted."]
    rows = [f"| {_said(c)} | {_cell(c['source'])} | {_cell(c['comparison'])} |" for c in claims]
    head = ["What does not hold, and why we say so:", "", "| The paper says | setting from | what decides |"]
    return [*head, "|---|---|---|", *rows]


def _said(claim: dict[str, Any]) -> str:
    """Return the paper's words, in quotation marks, or the statement in ours."""
    quote = claim.get("quote", "")
    return _cell(f"\u201c{readable(quote)}\u201d" if quote else claim["statement"])


def _cell(text: str) -> str:
    # A star next to a letter would begin emphasis in Markdown, and <w, x> may pass for a tag.
    return pretty(text).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def main(report: Path = Path("report"), readme: Path = Path("README.md"), theory: Path | None = None) -> None:
    """Copy the figures beside the README and replace what stands between its two marks."""
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{readme} must hold {BEGIN} and {END}, each once.")
    claims = json.loads((report / "claims.json").read_text(encoding="utf-8"))
    proofs = json.loads(theory.read_text(encoding="utf-8")) if theory else []
    images = readme.parent / "docs" / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name in FIGURES:
        shutil.copyfile(report / "figures" / f"{name}.png", images / f"{name}.png")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    content = f"{before}{BEGIN}\n{block(claims, 'docs/images', proofs).lstrip()}\n{END}{after}"
    write_whole(readme, content.encode())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
