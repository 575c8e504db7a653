"""What the command prints at its end: Table 2, the verdicts, and where the page is."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prgd.reproduce.experiment import Experiment, Judged
from prgd.reproduce.figures import Table
from prgd.reproduce.report import summary

COLOURS = {"holds": "green", "holds with a caveat": "yellow", "does not hold": "red", "not yet run": "dim"}


def _console() -> Any:
    from rich.console import Console

    # a pipe has no width of its own: do not fold the columns
    return Console() if sys.stdout.isatty() else Console(width=130)


def print_table(table: Table) -> None:
    """Print a table of the report."""
    from rich.table import Table as Lines
    from rich.text import Text

    lines = Lines(title=table.caption, title_justify="left")
    for column in table.columns:
        lines.add_column(Text(column), justify="right" if column in table.numbers else "left")
    last = None
    for row in table.rows:
        if last is not None and row[0] != last:
            lines.add_section()
        last = row[0]
        lines.add_row(*map(Text, row))
    _console().print(lines)


def print_verdicts(claims: Iterable[Judged], page: Path) -> None:
    """Print one line a claim, the counts, and where the page is."""
    from rich.text import Text

    console = _console()
    claims = list(claims)
    for claim in claims:
        verdict = str(claim.verdict)
        line = Text(verdict.ljust(20), style=COLOURS[verdict])
        line.append(f"{claim.name}: ", style="default not bold")
        line.append(claim.statement, style="default")
        console.print(line, highlight=False, soft_wrap=not sys.stdout.isatty())
    console.print(f"{summary(claims)}.", highlight=False)
    console.print(f"Report: {page}", highlight=False, soft_wrap=True)


def print_list(experiments: Iterable[Experiment]) -> None:
    """Print name, place and title of each experiment."""
    experiments = list(experiments)
    width = max(len(e.name) for e in experiments)
    for e in experiments:
        tasks = len(e.tasks(e.settings))
        work = f"{tasks} task{'s' if tasks != 1 else ''}"
        print(f"{e.name.ljust(width)}  {e.title} ({e.where}; {work})")
