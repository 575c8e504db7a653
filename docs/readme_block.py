"""Put two figures and the verdicts of a report into a README: ``python docs/readme_block.py``."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from prgd.claims import Verdict
from prgd.reproduce.figures import pretty
from prgd.reproduce.store import write_whole

BEGIN, END = "<!-- reproduced: begin -->", "<!-- reproduced: end -->"
FIGURES = {
    "figure-3": "Margin error on a synthetic set for GD, NGD and PRGD, at two time scales",
    "figure-4-long": "Margin error on the digits: PRGD leads NGD early and is overtaken",
}


def block(claims: list[dict[str, Any]], images: str) -> str:
    r"""Return the Markdown: two figures, how many claims have each verdict, and one line for each claim.

    Examples
    --------
    >>> claim = {"statement": "a | b", "where": "Section 7", "verdict": "holds"}
    >>> print(block([claim], "docs/images").splitlines()[-1])
    | a \| b | Section 7 | ✓ holds |
    """
    pictures = [f"![{words}]({images}/{name}.png)" for name, words in FIGURES.items()]
    lines = [
        f"| {_cell(c['statement'])} | {_cell(c['where'])} | {Verdict(c['verdict']).sign} {c['verdict']} |"
        for c in claims
    ]
    return "\n".join(["", *pictures, "", "| Statement | where | verdict |", "|---|---|---|", *lines])


def _cell(text: str) -> str:
    # A star next to a letter would begin emphasis in Markdown.
    return pretty(text).replace("|", "\\|").replace("*", "\\*")


def main(report: Path = Path("report"), readme: Path = Path("README.md")) -> None:
    """Copy the figures beside the README and replace what stands between its two marks."""
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{readme} must hold {BEGIN} and {END}, each once.")
    claims = json.loads((report / "claims.json").read_text(encoding="utf-8"))
    images = readme.parent / "docs" / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name in FIGURES:
        shutil.copyfile(report / "figures" / f"{name}.png", images / f"{name}.png")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    content = f"{before}{BEGIN}\n{block(claims, 'docs/images').lstrip()}\n{END}{after}"
    write_whole(readme, content.encode())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
