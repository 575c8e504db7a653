"""The command ``prgd reproduce``. Quick to import."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from prgd.cli.common import Debug, one_line_errors, option
from prgd.threads import cores


def reproduce_command(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", hidden=True)] = None,
    only: Annotated[
        list[str] | None,
        option(None, "These only, e.g. --only figure-3 table-2.", metavar="NAME...", show_default=False),
    ] = None,
    show_list: Annotated[bool, option(None, "List the experiments and stop.", "--list")] = False,
    quick: Annotated[bool, option(None, "Fewer draws and steps: under a minute.", "--quick")] = False,
    seeds: Annotated[
        int | None,
        option(
            None, "Random draws of each experiment.", default="its own, 100 for table-2", min=1, metavar="N"
        ),
    ] = None,
    jobs: Annotated[
        int | None, option(None, "Processes at a time.", default="all cores", min=1, metavar="N")
    ] = None,
    out: Annotated[Path, option(None, "Folder of the report.", metavar="DIR")] = Path("report"),
    force: Annotated[bool, option(None, "Compute all rows again.", "--force")] = False,
    show_page: Annotated[bool, option(None, "Open the page in a browser at the end.", "--open")] = False,
    debug: Debug = False,
) -> None:
    """Make every figure and table of the paper again, and a page that says what holds.

    Rows are kept in the folder of the report: a second run is quick, and one that was stopped goes on.

    Example: prgd reproduce --only figure-3 table-2 --quick --open
    """
    with one_line_errors(debug):
        from prgd.reproduce import choose, reproduce
        from prgd.reproduce.report.terminal import print_list

        if show_list:
            print_list(choose())
            return
        # An option takes one value, so further names after --only arrive as arguments.
        wanted = [name for given in [*(only or []), *(names or [])] for name in given.split(",") if name]
        processes = cores() if jobs is None else jobs
        page = reproduce(choose(wanted), quick=quick, seeds=seeds, jobs=processes, out=out, force=force)
        if show_page:
            webbrowser.open(page.resolve().as_uri())
