"""The command ``prgd reproduce``. Quick to import."""

from __future__ import annotations

import hashlib
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from prgd.cli.common import Debug, one_line_errors, option
from prgd.core.threads import cores

Only = Annotated[
    list[str] | None,
    option(
        None,
        "These experiments only, e.g. --only figure-3 table-2. The page keeps what it has of the others.",
        metavar="NAME...",
        show_default=False,
    ),
]
Changes = Annotated[
    list[str] | None,
    option(
        None,
        "Change a setting, e.g. --set figure-4.alpha=0.9; may be repeated. Without --only the "
        "experiments that it names are run.",
        "--set",
        metavar="NAME.SETTING=VALUE",
        show_default=False,
    ),
]


Own = Annotated[
    str | None,
    option(
        None,
        "An algorithm of yours beside those of Figures 3 and 4 and of Table 2, which are run.",
        metavar="FILE.py:NAME",
        show_default=False,
    ),
]
RACED = ("figure-3", "figure-4", "table-2")  # experiments that take an algorithm of the user


def reproduce_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Experiments, as after --only; --list shows their names. Default: those of the paper.",
            show_default=False,
        ),
    ] = None,
    only: Only = None,
    changes: Changes = None,
    algorithm: Own = None,
    everything: Annotated[bool, option(None, "Our own studies too.", "--all")] = False,
    show_list: Annotated[
        bool, option(None, "List the experiments, with their settings if --only names some.", "--list")
    ] = False,
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
    keep_rows: Annotated[bool, option(None, "Keep rows that other code computed.", "--keep-rows")] = False,
    show_page: Annotated[bool, option(None, "Open the page in a browser at the end.", "--open")] = False,
    debug: Debug = False,
) -> None:
    """Make every figure and table of the paper again, and a page that says what holds.

    The page grows: it can be opened as soon as the first figure is done. Rows are kept in the folder of the
    report: a second run is quick, and one that was stopped goes on. They are computed again if a setting or
    the code that computes them changed. Our own studies are made by --all, or by their names.

    With --list the command names the experiments and runs none.

    Example: prgd reproduce --only figure-3 table-2 --quick --open
    """
    with one_line_errors(debug):
        from prgd_paper.report.terminal import print_left_out, print_list, print_settings
        from prgd_paper.reproduce.experiment import choose
        from prgd_paper.reproduce.make import reproduce
        from prgd_paper.reproduce.settings import split_changes

        # An option takes one value, so further names after --only arrive as arguments.
        wanted = [name for given in [*(only or []), *(names or [])] for name in given.split(",") if name]
        changed = split_changes(changes or [])
        for name in (wanted or RACED) if algorithm else ():
            changed.setdefault(name, {})["algorithm"] = _with_hash(str(algorithm))
        chosen = choose(wanted or changed)
        if show_list:
            (print_settings if wanted else print_list)(chosen)
            return
        ours = [] if wanted or changed or everything else [e for e in chosen if not e.is_for_the_paper]
        chosen = [e for e in chosen if e not in ours]
        jobs = cores() if jobs is None else jobs
        how: dict[str, Any] = {"quick": quick, "seeds": seeds, "changes": changed, "jobs": jobs, "out": out}
        page = reproduce(chosen, **how, force=force, keep_rows=keep_rows)
        if ours:
            print_left_out(ours, quick, jobs)
        if show_page:
            webbrowser.open(page.resolve().as_uri())


def _with_hash(algorithm: str) -> str:
    """Return the name of an algorithm with a hash of its file: rows of an older text are computed again."""
    from prgd_paper.cli.race import read_entrant

    read_entrant(algorithm)  # says what is wrong with it before anything is run
    name, ending, _ = algorithm.partition(".py:")
    return (
        f"{algorithm}#{hashlib.sha256(Path(f'{name}.py').read_bytes()).hexdigest()[:8]}"
        if ending
        else algorithm
    )
