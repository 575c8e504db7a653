"""The rows of all runs of Figure 5b that are done, merged into the small files that the reproduction draws.

``python -m prgd_paper.training.merge --out benchmarks/records/vgg --to paper/prgd_paper/figures/data --docs
docs/deep.md`` also writes their tables and findings into the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from prgd.cli.options import from_options
from prgd_paper.training.logs import Row, write_csv
from prgd_paper.training.plan import METHODS, SCHEDULES, Job, Plan, Results
from prgd_paper.training.settings import add_arguments

KEPT = ("test_accuracy", "train_accuracy", "log_train_loss", "normalized_margin", "norm")
NAMES = {"gd": "GD", "ngd": "NGD", "prgd": "PRGD"}
TABLES = ("figure-5b.csv", "figure-5b-tuning.csv")
BEGIN, END = "<!-- figure-5b: begin -->", "<!-- figure-5b: end -->"
SETTINGS = {"printed": "as printed", "final": "tuned", "unprojected": "tuned"}


def merge(plan: Plan, results: Results, folder: Path) -> list[Path]:
    """Write ``figure-5b.csv``, ``figure-5b-tuning.csv`` and ``figure-5b.json``; return their paths.

    Numbers keep six digits. A row of an epoch that was undone repeats the numbers of the row before, so it
    is left out unless it is the last one of its run: nothing is lost, and the files stay small.
    """
    jobs = results.done(plan.jobs(results))
    if not jobs:
        raise ValueError(f"No run is done in {results.folder}. Run the experiment first.")
    runs = [job for part in SETTINGS for job in jobs if job.part == part]
    rows = [row for job in runs for row in _run_rows(results, job)]
    tuning = _tuning_rows(plan, results, [job for job in jobs if job.part == "tune"])
    tables = dict(zip(TABLES, (rows, tuning), strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / name for name, table in tables.items() if table]
    for path in written:
        write_csv(path, tables[path.name])
    record = folder / "figure-5b.json"
    missing = [job.name for job in plan.jobs(results) if job not in jobs]
    lines = ",\n".join(json.dumps(results.facts(job)) for job in runs)
    record.write_text(f'{{"missing": {json.dumps(missing)}, "runs": [\n{lines}\n]}}\n')
    return [*written, record]


def _run_rows(results: Results, job: Job) -> list[Row]:
    found = results.rows(job)
    name = NAMES[job.method] + (", no projection" if job.part == "unprojected" else "")
    head = {"setting": SETTINGS[job.part], "method": name, "seed": job.seed, "lr": job.lr}
    head["schedule"] = job.schedule if job.method == "prgd" else ""
    rows, undone = [], 0
    for i, row in enumerate(found):
        undone += int(row["undone"] or 0)
        repeats = i > 0 and all(row[column] == found[i - 1][column] for column in KEPT)
        if not repeats or i == len(found) - 1:
            numbers = {column: _short(row[column]) for column in KEPT}
            rows.append({**head, "epoch": row["epoch"], **numbers, "undone": undone})
    return rows


def _tuning_rows(plan: Plan, results: Results, jobs: Sequence[Job]) -> list[Row]:
    best = {plan.best(results, method) for method in METHODS}
    order = list(SCHEDULES)
    rows = []
    for job in sorted(jobs, key=lambda job: (METHODS.index(job.method), order.index(job.schedule), job.lr)):
        last = results.rows(job)[-1]
        rows.append(
            {
                "method": NAMES[job.method],
                "lr": job.lr,
                "schedule": job.schedule if job.method == "prgd" else "",
                "epochs": last["epoch"],
                "accuracy": last["test_accuracy"],
                "train_accuracy": _short(last["train_accuracy"]),
                "train_loss": _short(last["train_loss"]),
                "chosen": int(job in best),
            }
        )
    return rows


def findings(folder: Path) -> str:
    """Return what the merged files show, as Markdown: what was run, tables, claims with their verdicts."""
    from prgd_paper.figures import figure_5b
    from prgd_paper.reproduce.store import frame, to_csv

    settings = figure_5b.Settings(*(str(folder.resolve() / name) for name in TABLES))
    rows = frame(to_csv(figure_5b.compute(settings, "stored")))
    record = json.loads((folder / "figure-5b.json").read_text())
    *ends, tuning = figure_5b.tables(rows, settings)
    missing = f" Not yet run: {', '.join(record['missing'])}." if record["missing"] else ""
    parts = [f"{len(record['runs'])} runs beside {len(tuning.rows)} of the tuning are stored.{missing}"]
    for table in (*ends, tuning):
        lines = [table.columns, ["---"] * len(table.columns), *table.rows]
        parts.append(f"{table.caption}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
    for claim in (figure_5b.prgd_generalizes_better, figure_5b.prgd_ends_with_a_larger_margin):
        found = claim(rows, settings)
        parts.append(f"*{found.statement}* **{str(found.verdict).capitalize()}.** {found.sentence}")
    return "\n\n".join(parts)


def write_findings(page: Path, folder: Path) -> None:
    """Put the findings between the marks of a page."""
    head, rest = page.read_text(encoding="utf-8").split(BEGIN)
    _, tail = rest.split(END)
    page.write_text(f"{head}{BEGIN}\n\n{findings(folder)}\n\n{END}{tail}", encoding="utf-8")


def _short(text: str) -> str:
    """Return a number with six digits."""
    return f"{float(text):.6g}" if text else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the stored rows of Figure 5b."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of results")
    parser.add_argument("--to", type=Path, required=True, help="folder for figure-5b.csv and its companions")
    parser.add_argument("--docs", type=Path, help="page whose tables and findings are written anew")
    add_arguments(parser, Plan)
    given = parser.parse_args(arguments)
    try:
        for file in merge(from_options(Plan, vars(given)), Results(given.out), given.to):
            print(file)
        if given.docs:
            write_findings(given.docs, given.to)
    except (ValueError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
