"""Write the table and figures of docs/any_norm.md from the rows of ``prgd reproduce --only any-norm``.

First ``prgd reproduce --only any-norm``, then ``python docs/write_any_norm.py [FOLDER OF THE REPORT]``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from prgd_paper.report import static
from prgd_paper.report.elements import Table
from prgd_paper.reproduce.store import Store, write_whole
from prgd_paper.studies.any_norm import EXPERIMENT

DOCS = Path(__file__).parent
PARTS = (None, "space", None)  # the marks of the experiment's tables; the report shows those without one


def markdown(table: Table) -> str:
    """Return a table in Markdown.

    Examples
    --------
    >>> print(markdown(Table("Errors", ("method", "error"), (("plain", "1e-02"),), numbers=("error",))))
    | method | error |
    |---|--:|
    | plain | 1e-02 |
    """
    rule = "|".join("--:" if column in table.numbers else "---" for column in table.columns)
    lines = [table.columns, *table.rows]
    text = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([text[0], f"|{rule}|", *text[1:]])


def main(report: Path) -> None:
    """Replace what stands between the markers of the page, and the figures beside it."""
    settings = EXPERIMENT.settings
    rows = Store(report, EXPERIMENT, settings, keeps_rows=True).rows()
    page = DOCS / "any_norm.md"
    text = page.read_text(encoding="utf-8")
    for part, table in zip(PARTS, EXPERIMENT.tables(rows, settings), strict=True):
        if part is None:
            continue
        begin = f"<!-- {part} -->\n"
        head, _, rest = text.partition(begin)
        _, end, tail = rest.partition("<!-- end -->")
        text = f"{head}{begin}{markdown(table)}\n{end}{tail}"
    write_whole(page, text.encode())
    for figure in EXPERIMENT.draw(rows, settings):
        static.save(figure, report / "figures")
        shutil.copy(report / "figures" / f"{figure.name}.png", DOCS / "images" / f"{figure.name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "report"))
