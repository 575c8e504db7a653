"""The paper's figures and tables, one file each: compute writes rows; all else reads rows only."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prgd.reproduce.experiment import Experiment
    from prgd.reproduce.report import Section
    from prgd.reproduce.store import Store

MODULES = (
    "figure_1",
    "figure_2",
    "figure_3",
    "figure_4",
    "figure_5a",
    "figure_5b",
    "figure_6",
    "table_1",
    "table_2",
    "schedule_sweep",
    "growing_dimension",
    "gated_schedule",
)


def experiments() -> dict[str, Experiment]:
    """Return every experiment by name, in the order of the page.

    Examples
    --------
    >>> list(experiments())[:2]
    ['figure-1', 'figure-2']
    """
    from importlib import import_module

    from prgd.reproduce.gated_schedule import available

    found = [import_module(f"prgd.reproduce.{module}").EXPERIMENT for module in MODULES]
    return {e.name: e for e in found if e.name != "gated-schedule" or available()}


def choose(names: Iterable[str] = ()) -> list[Experiment]:
    """Return the named experiments (default: all) in the order of the page; else say which names are near.

    Examples
    --------
    >>> choose(["figure-33"])
    Traceback (most recent call last):
    ...
    ValueError: Unknown experiment 'figure-33'. Did you mean figure-3 or figure-6 or figure-4?
    """
    from prgd.checks import unknown

    known = experiments()
    wanted = [name.strip().lower().replace("_", "-").replace(" ", "-") for name in names]
    for name in wanted:
        if name not in known:
            raise unknown("experiment", name, known)
    return [e for name, e in known.items() if not wanted or name in wanted]


def list_experiments() -> None:
    """Print the name, place and title of each experiment."""
    from prgd.reproduce.terminal import print_list

    print_list(experiments().values())


def main(
    *,
    only: Sequence[str] = (),
    quick: bool = False,
    seeds: int | None = None,
    jobs: int = 1,
    out: Path = Path("report"),
    force: bool = False,
) -> Path:
    """Compute what is missing, draw, judge, and write the page; return its path.

    Parameters
    ----------
    only : sequence of str
        Names of experiments (default: all).
    quick : bool
        Fewer draws and steps.
    seeds : int, optional
        Random draws, of every experiment that has some.
    jobs : int
        Processes at a time; rows do not depend on it.
    out : Path
        Folder of the report.
    force : bool
        Compute everything again.
    """
    from prgd.checks import check_integer, check_writable

    chosen = choose(only)
    check_integer("jobs", jobs, minimum=1)
    if seeds is not None:
        check_integer("seeds", seeds, minimum=1)
    for folder in (out, out / "rows", out / "figures"):
        check_writable(folder)
    return reproduce(chosen, quick=quick, seeds=seeds, jobs=jobs, out=out, force=force)


def reproduce(
    chosen: Sequence[Experiment], *, quick: bool, seeds: int | None, jobs: int, out: Path, force: bool
) -> Path:
    """Do what `main` says, for experiments given as values."""
    import json

    from prgd.reproduce import report, static
    from prgd.reproduce.experiment import Pending
    from prgd.reproduce.facts import facts
    from prgd.reproduce.interactive import plotly_script
    from prgd.reproduce.pool import Job, jobs_of, run_jobs
    from prgd.reproduce.store import Store, write_atomically
    from prgd.reproduce.terminal import print_table, print_verdicts

    plotly_script()  # fail before the work, not after, where it is not installed
    stores = [Store(out, e, e.chosen(quick, seeds), _say) for e in chosen]
    run_jobs([job for store, tasks in _missing(stores, force) for job in jobs_of(store, tasks)], jobs, _label)
    options = (" --quick" if quick else "") + (f" --seeds {seeds}" if seeds is not None else "")
    sections = [_section(store, options) for store in stores]
    figures = [figure for section in sections for figure in section.figures]
    stale = [figure for figure in figures if not static.is_current(figure, out / "figures")]
    run_jobs(
        [Job("figures", f.name, static.save, (f, out / "figures"), lambda _: None) for f in stale],
        jobs,
        _label,
    )
    known = experiments()
    names = "" if len(chosen) == len(known) else f" --only {' '.join(e.name for e in chosen)}"
    command = f"prgd reproduce{names}{options}"
    head = report.Page(
        out, command, facts(), quick, sum(name not in {e.name for e in chosen} for name in known)
    )
    html = report.render(head, sections)
    claims = [claim for claim, _ in report.judged(sections)]
    page = out / "index.html"
    write_atomically(page, html.encode())
    plain = [c._asdict() if isinstance(c, Pending) else c.to_dict() for c in claims]
    write_atomically(out / "claims.json", (json.dumps(plain, indent=1) + "\n").encode())
    for section in sections:
        if section.experiment.name == "table-2":
            for table in section.tables:
                print_table(table)
    print_verdicts(claims, page)
    return page


def _missing(stores: Sequence[Store], force: bool) -> list[tuple[Store, list[str]]]:
    """Return what each store lacks; rows that two experiments share are computed once."""
    seen: set[Path] = set()
    found = []
    for store in sorted(stores, key=lambda store: bool(store.experiment.rows_of)):
        tasks = [task for task in store.missing(force) if store.file(task) not in seen]
        seen.update(map(store.file, tasks))
        found.append((store, tasks))
    return found


def _section(store: Store, options: str) -> Section:
    from prgd.reproduce.report import Section

    e, rows = store.experiment, store.rows()
    arguments: tuple[Any, Any] = (rows, store.settings)
    tasks = store.manifest()["tasks"]
    return Section(
        e,
        store.settings,
        f"prgd reproduce --only {e.name}{options}",
        e.reading(*arguments),
        tuple(e.draw(*arguments)),
        tuple(e.tables(*arguments)),
        tuple(e.claims(*arguments)),
        store.publish(),
        tuple(sorted({tasks[task]["commit"] for task in store.tasks})),
    )


def _label(owner: str) -> str:
    return owner


def _say(sentence: str) -> None:
    print(f"Warning: {sentence}", file=sys.stderr, flush=True)
