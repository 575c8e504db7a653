"""Write the race of all methods into docs/every_method.md, and copy its figure.

First ``prgd reproduce --only every-method``, then ``python docs/write_every_method.py``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from prgd_paper.report.elements import Table, pretty
from prgd_paper.reproduce.make import stored_rows
from prgd_paper.reproduce.store import write_whole
from prgd_paper.studies._every_method_views import reading, tables

BEGIN, END = "<!-- race: begin -->", "<!-- race: end -->"
FIGURES = ("every-method", "every-method-passes")


def as_markdown(table: Table) -> str:
    r"""Return a table with its caption above it.

    Examples
    --------
    >>> print(as_markdown(Table("Errors.", ("method", "a"), (("NGD", "1.0"),), numbers=("a",))))
    Errors.
    <BLANKLINE>
    | method | a |
    |---|---:|
    | NGD | 1.0 |
    """
    lines = ["---:" if column in table.numbers else "---" for column in table.columns]
    cells = [table.columns, *table.rows]
    head, *body = (f"| {' | '.join(cell_text(cell) for cell in row)} |" for row in cells)
    return "\n".join([cell_text(table.caption), "", head, f"|{'|'.join(lines)}|", *body])


def cell_text(text: str) -> str:
    """Return text as Markdown, with the paper's symbols."""
    # A star next to a letter would begin emphasis in Markdown.
    return pretty(text).replace("|", "\\|").replace("*", "\\*")


def main(report: Path = Path("report"), root: Path = Path()) -> None:
    """Write what stands between the two marks of docs/every_method.md."""
    page = root / "docs" / "every_method.md"
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{page} must hold {BEGIN} and {END}, each once.")
    found = stored_rows("every-method", report)
    if found is None:
        raise ValueError(f"{report} lacks rows: run prgd reproduce --only every-method first.")
    parts = [cell_text(reading(*found)), *map(as_markdown, tables(*found))]
    for name in FIGURES:
        shutil.copyfile(report / "figures" / f"{name}.png", root / "docs" / "images" / f"{name}.png")
    before, rest = text.split(BEGIN)
    written = "\n\n".join(parts)
    write_whole(page, f"{before}{BEGIN}\n{written}\n{END}{rest.split(END)[1]}".encode())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
