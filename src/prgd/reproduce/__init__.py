"""The paper's figures and tables, one file each: compute writes rows; all else reads rows only."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from prgd.checks import check_integer, check_writable, unknown
from prgd.reproduce.experiment import Experiment, experiments
from prgd.reproduce.pool import Job, jobs_of, run_jobs
from prgd.reproduce.provenance import facts
from prgd.reproduce.report import page, static
from prgd.reproduce.report.interactive import plotly_script
from prgd.reproduce.report.terminal import print_table, print_verdicts
from prgd.reproduce.store import Store, write_whole


def choose(names: Iterable[str] = ()) -> list[Experiment]:
    """Return the named experiments (default: all) in the order of the page.

    Examples
    --------
    >>> choose(["figure-33"])
    Traceback (most recent call last):
    ...
    ValueError: Unknown experiment 'figure-33'. Did you mean figure-3 or figure-6 or figure-4?
    """
    known = experiments()
    wanted = [name.strip().lower().replace("_", "-").replace(" ", "-") for name in names]
    for name in wanted:
        if name not in known:
            raise unknown("experiment", name, known)
    return [e for name, e in known.items() if not wanted or name in wanted]


def stored_rows(name: str, out: Path) -> tuple[Any, Any] | None:
    """Return an experiment's rows and settings from the folder of a full report; None if rows are missing."""
    (e,) = choose([name])
    store = Store(out, e, e.settings, _say)
    return None if store.missing() else (store.rows(), store.settings)


def reproduce(
    chosen: Sequence[Experiment],
    *,
    quick: bool = False,
    seeds: int | None = None,
    jobs: int = 1,
    out: Path = Path("report"),
    force: bool = False,
) -> Path:
    """Compute what is missing, draw, judge, and write the page; return its path.

    Parameters
    ----------
    chosen : sequence of Experiment
        See `choose`.
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
    check_integer("jobs", jobs, minimum=1)
    if seeds is not None:
        check_integer("seeds", seeds, minimum=1)
    for folder in (out, out / "rows", out / "figures"):
        check_writable(folder)
    plotly_script()  # A missing plotly is reported before the work, not after it.
    stores = [Store(out, e, e.chosen(quick, seeds), _say) for e in chosen]
    run_jobs([job for store, tasks in _missing(stores, force) for job in jobs_of(store, tasks)], jobs)
    options = (" --quick" if quick else "") + (f" --seeds {seeds}" if seeds is not None else "")
    sections = [_section(store, options) for store in stores]
    figures = [figure for section in sections for figure in section.figures]
    stale = [figure for figure in figures if not static.is_current(figure, out / "figures")]
    run_jobs([Job("figures", f.name, static.save, (f, out / "figures"), lambda _: None) for f in stale], jobs)
    left_out = {e.name for e in choose()} - {e.name for e in chosen}
    names = f" --only {' '.join(e.name for e in chosen)}" if left_out else ""
    head = {"folder": out, "command": f"prgd reproduce{names}{options}", "facts": facts()}
    html = page.render(sections, **head, is_quick=quick, left_out=len(left_out))
    write_whole(out / "index.html", html.encode())
    claims = [claim for claim, _ in page.judged(sections)]
    verdicts = json.dumps([claim.to_dict() for claim in claims], indent=1)
    write_whole(out / "claims.json", f"{verdicts}\n".encode())
    for table in (table for section in sections for table in section.tables if table.is_printed):
        print_table(table)
    print_verdicts(claims, out / "index.html")
    return out / "index.html"


def _missing(stores: Sequence[Store], force: bool) -> list[tuple[Store, list[str]]]:
    """Return what each store lacks; rows that two experiments share are computed once."""
    seen: set[Path] = set()
    found = []
    for store in sorted(stores, key=lambda store: bool(store.experiment.rows_of)):
        tasks = [task for task in store.missing(force) if store.file(task) not in seen]
        seen.update(map(store.file, tasks))
        found.append((store, tasks))
    return found


def _section(store: Store, options: str) -> page.Section:
    e, rows, settings = store.experiment, store.rows(), store.settings
    return page.Section(
        experiment=e,
        settings=settings,
        command=f"prgd reproduce --only {e.name}{options}",
        reading=e.reading(rows, settings),
        figures=tuple(e.draw(rows, settings)),
        tables=tuple(e.tables(rows, settings)),
        claims=tuple(e.claims(rows, settings)),
        files=store.publish(),
        commits=store.commits(),
    )


def _say(sentence: str) -> None:
    print(f"Warning: {sentence}", file=sys.stderr, flush=True)
