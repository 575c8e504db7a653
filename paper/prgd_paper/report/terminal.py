"""What the command prints at its end: the tables that ask for it, the verdicts, and where the page is."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from prgd_paper.claims import Claim, Judgement
from prgd_paper.claims.registry import OURS_HEAD, apart, summary
from prgd_paper.report.elements import Table
from prgd_paper.reproduce.experiment import Experiment
from prgd_paper.reproduce.settings import as_option, settings_of


def _console() -> Any:
    from rich.console import Console

    # A pipe has no width of its own: 130 columns keep the tables from being folded.
    return Console() if sys.stdout.isatty() else Console(width=130)


def print_table(table: Table) -> None:
    """Print a table of the report; a line separates rows that differ in the first column."""
    from rich.table import Table as Lines
    from rich.text import Text

    lines = Lines(title=table.caption, title_justify="left")
    for column in table.columns:
        lines.add_column(Text(column), justify="right" if column in table.numbers else "left")
    for _, rows in groupby(table.rows, key=lambda row: row[0]):
        for row in rows:
            lines.add_row(*map(Text, row))
        lines.add_section()
    _console().print(lines)


def print_verdicts(claims: Sequence[Claim], page: Path, *, is_quick: bool = False) -> None:
    """Print one line for each claim, statements of ours last, the counts, and where the page is.

    ``is_quick`` says that some claims are about fewer draws and steps, which is told too.
    """
    from rich.text import Text

    console = _console()
    papers, ours = apart(claims)
    for claim in papers + ours:
        if ours and claim is ours[0]:
            console.print(OURS_HEAD, highlight=False)
        line = Text(str(claim.verdict).ljust(20), style=claim.verdict.colour)
        line.append(f"{claim.name}: ", style="default not bold")
        line.append(claim.statement, style="default")
        console.print(line, highlight=False, soft_wrap=not sys.stdout.isatty())
    console.print(f"{summary(claims)}.", highlight=False)
    for reason in dict.fromkeys(c.finding.reason for c in claims):  # those of several claims once
        if reason:
            console.print(f"Not decided: {reason}", highlight=False, soft_wrap=not sys.stdout.isatty())
    for missing in dict.fromkeys(c.finding.sentence for c in claims if c.verdict is Judgement.NOT_RUN):
        console.print(f"Not yet run: {missing}", highlight=False, soft_wrap=not sys.stdout.isatty())
    if is_quick:
        said = "(--quick takes fewer draws and steps, which decide less: leave it out for verdicts.)"
        console.print(said, highlight=False, soft_wrap=True)
    console.print(f"Report: {page}", highlight=False, soft_wrap=True)


def print_left_out(experiments: Sequence[Experiment], quick: bool, processes: int) -> None:
    """Say which studies of ours were left out, how to make them, and how long that takes."""
    work = sum(e.seconds * len(e.tasks(e.quick if quick else e.settings)) for e in experiments)
    took = "less than a minute" if quick else f"about {work / processes / 60.0 + 0.5:.0f} minutes"
    names, option = ", ".join(e.name for e in experiments), " --quick" * quick
    print(f"Left out, as ours: {names}. prgd reproduce --all{option} makes them too ({took} more here).")


def print_list(experiments: Iterable[Experiment]) -> None:
    """Print name, title, place and number of tasks of each experiment."""
    for e in experiments:
        tasks = len(e.tasks(e.settings))
        print(f"{e.name:19} {e.title} ({e.where}; {tasks} task{'s' * (tasks != 1)})")


def print_settings(experiments: Iterable[Experiment]) -> None:
    """Print the settings of each experiment as the options that set them."""
    for e in experiments:
        for name, value in settings_of(e.settings).items():
            print(as_option(e.name, name, value))
