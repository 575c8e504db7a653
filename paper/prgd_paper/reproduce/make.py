"""Make the report: compute the rows that are missing, draw, judge, and write the page."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from prgd.core.checks import check_integer, check_writable, unknown
from prgd_paper.claims import Claim
from prgd_paper.report import page, static
from prgd_paper.report.terminal import print_table, print_verdicts
from prgd_paper.reproduce.experiment import Experiment, choose, load, modules
from prgd_paper.reproduce.pool import Call, jobs_of, run_jobs
from prgd_paper.reproduce.settings import from_record
from prgd_paper.reproduce.store import Store, facts, warn, write_whole


def stored_rows(name: str, out: Path) -> tuple[Any, Any] | None:
    """Return an experiment's rows and settings from the folder of a full report; None if rows are missing.

    Rows are taken whatever code computed them, since reading a report computes nothing; a note says so.
    """
    (e,) = choose([name])
    store = Store(out, e, e.settings, keeps_rows=True)
    if store.missing():
        return None
    if others := store.other_code():
        _note(f"{name}: {out} has rows that other code computed: {others}.")
    return store.rows(), store.settings


def reproduce(
    chosen: Sequence[Experiment],
    *,
    quick: bool = False,
    seeds: int | None = None,
    changes: Mapping[str, Mapping[str, str]] | None = None,
    jobs: int = 1,
    out: Path = Path("report"),
    force: bool = False,
    keep_rows: bool = False,
) -> Path:
    """Compute what is missing, draw, judge, and write the page; return its path.

    The page keeps the sections of other experiments whose rows the folder has.

    Parameters
    ----------
    chosen : sequence of Experiment
        See `choose`.
    quick : bool
        Fewer draws and steps.
    seeds : int, optional
        Random draws, of every experiment that has some.
    changes : mapping, optional
        Texts by name of the setting, by name of the experiment: ``{"figure-4": {"alpha": "0.9"}}``.
    jobs : int
        Processes at a time; rows do not depend on it.
    out : Path
        Folder of the report.
    force : bool
        Compute everything again.
    keep_rows : bool
        Take stored rows that other code computed, and say so on the page.
    """
    check_integer("jobs", jobs, minimum=1)
    if seeds is not None:
        check_integer("seeds", seeds, minimum=1)
    changes = changes or {}
    for name in changes:
        if name not in {e.name for e in chosen}:
            raise unknown("experiment", name, [e.name for e in chosen])
    settings = [e.chosen(quick, seeds, changes.get(e.name)) for e in chosen]
    for folder in (out, out / "rows", out / "figures"):
        check_writable(folder)
    page.check_packages()  # A missing package is reported before the work, not after it.
    stores = [Store(out, e, s, keeps_rows=keep_rows) for e, s in zip(chosen, settings, strict=True)]
    work = [job for store, tasks in _missing(stores, force) for job in jobs_of(store, tasks)]
    if work and (there := len({store.file(task) for store in stores for task in store.tasks}) - len(work)):
        _note(f"{there} tasks have their rows already, {len(work)} are computed now.")
    sections: dict[Store, page.Section] = {}

    def add(chosen: Sequence[Store]) -> list[page.Section]:
        """Make the sections of stores that have all rows, and return all in order."""
        sections.update({store: _section(store) for store in chosen})
        return sorted(sections.values(), key=lambda section: section.experiment.order)

    def grow(owner: str) -> None:
        """Write the page so far, with the experiments whose rows these are."""
        _write(add([store for store in stores if owner == store.experiment.rows_name]), out)

    run_jobs(work, jobs, when_done=grow)
    asked = {e.name for e in chosen}
    shown = add([store for store in stores + _others(asked, out) if store not in sections])
    places = [(f, out / "figures") for section in shown for f in section.figures]
    stale = [place for place in places if not static.is_current(*place)]
    run_jobs([Call("figures", p[0].name, static.save, p, lambda _: None) for p in stale], jobs)
    _publish(shown, asked, out, quick)
    return out / "index.html"


def _write(sections: Sequence[page.Section], out: Path) -> list[Claim]:
    """Write the page and the verdicts, which are returned."""
    quick = [s.experiment.name for s in sections if s.experiment.is_quick(s.settings)]
    left_out = set(modules()) - {section.experiment.name for section in sections}
    head = {"folder": out, "quick": quick, "left_out": len(left_out), "facts": facts()}
    names = [section.experiment.name for section in sections]
    only = f" --only {' '.join(names)}" if left_out else " --all"
    only = "" if names == [e.name for e in choose() if e.is_for_the_paper] else only
    # Sections that were made one by one, with several options, have their commands beside them.
    options = {section.options for section in sections}
    head["command"] = f"prgd reproduce{only}{options.pop()}" if len(options) == 1 else ""
    write_whole(out / "index.html", page.render(sections, **head).encode())
    claims = [claim for claim, _ in page.judged(sections)]
    verdicts = json.dumps([claim.to_dict() for claim in claims], indent=1)
    write_whole(out / "claims.json", f"{verdicts}\n".encode())
    return claims


def _publish(sections: Sequence[page.Section], asked: set[str], out: Path, is_quick: bool) -> None:
    """Write the page and the verdicts, and print those of the experiments that were asked for."""
    claims = _write(sections, out)
    shown = [section for section in sections if section.experiment.name in asked]
    for table in (table for section in shown for table in section.tables if table.is_printed):
        print_table(table)
    about = {claim.name for section in shown for claim in section.claims}
    judged = [claim for claim in claims if claim.name in about]
    is_less = any(section.experiment.is_partial(section.settings) for section in shown)
    print_verdicts(judged, out / "index.html", is_quick=is_quick and is_less)
    if kept := [s.experiment.name for s in sections if s.experiment.name not in asked]:
        print(f"On the page too, from stored rows: {', '.join(kept)}.")


def _others(names: set[str], out: Path) -> list[Store]:
    """Return the stores of the other experiments that the page of this folder shows already."""
    found = []
    for name in modules():
        record = out / "rows" / f"{name}.json"
        if name in names or not record.is_file():
            continue
        e = load(name)
        try:
            settings = from_record(e.settings, json.loads(record.read_bytes())["settings"])
            store = Store(out, e, settings, keeps_rows=True)
            is_whole = not store.missing()
        except (ValueError, KeyError, TypeError, AttributeError):
            is_whole = False
        if is_whole:
            found.append(store)
        else:
            warn(f"{e.name} is left out of the page: its stored rows are damaged or of an earlier version.")
    return found


def _missing(stores: Sequence[Store], force: bool) -> list[tuple[Store, list[str]]]:
    """Return what each store lacks; rows that two experiments share are computed once."""
    seen: set[Path] = set()
    found = []
    for store in sorted(stores, key=lambda store: bool(store.experiment.rows_of)):
        tasks = [task for task in store.missing(force) if store.file(task) not in seen]
        seen.update(map(store.file, tasks))
        if tasks and not force and (why := store.why_again(tasks)):
            _note(why)
        found.append((store, tasks))
    return found


def _section(store: Store) -> page.Section:
    e, rows, settings = store.experiment, store.rows(), store.settings
    return page.Section(
        experiment=e,
        settings=settings,
        options=e.options(settings),
        reading=e.reading(rows, settings),
        figures=tuple(e.draw(rows, settings)),
        tables=tuple(e.tables(rows, settings)),
        claims=tuple(e.claims(rows, settings)),
        files=store.publish(),
        commits=store.commits(),
        other_code=store.other_code(),
    )


@cache
def _note(sentence: str) -> None:
    """Print a sentence on standard error, once: several claims read the same rows."""
    print(f"Note: {sentence}", file=sys.stderr, flush=True)
