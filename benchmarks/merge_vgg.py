"""The rows of all runs of Figure 5b that are done, merged into the small files that the reproduction draws.

python benchmarks/merge_vgg.py --out RESULTS --to src/prgd/reproduce/data
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prgd.deep.training.logs import Row, write_csv
from prgd.options import add_arguments, from_options
from prgd.reproduce.vgg.jobs import PAPER_RATE, Job, Plan, Results

KEPT = (
    "epoch",
    "step",
    "test_accuracy",
    "train_accuracy",
    "train_loss",
    "log_train_loss",
    "normalized_margin",
    "norm",
    "undone",
)
LABELS = {"none": "no regularisation", "decay": "weight decay and dropout"}
NAMES = {"gd": "GD", "ngd": "NGD", "prgd": "PRGD"}


def merge(plan: Plan, results: Results, folder: Path) -> list[Path]:
    """Write ``figure-5b.csv``, ``figure-5b-tuning.csv`` and ``figure-5b.json``; return their paths.

    The rows of a method stand under its regularisation at the rate that the validation split chose, and once
    more under the paper's rate. Numbers keep six digits, so that the files stay small.
    """
    rows, facts = _test_rows(plan, results)
    tables = {"figure-5b.csv": rows, "figure-5b-tuning.csv": _tuning_rows(plan, results)}
    if not any(tables.values()):
        raise ValueError(f"No run is done in {results.folder}. Run the experiment first.")
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / name for name, table in tables.items() if table]
    for path in written:
        write_csv(path, tables[path.name])
    record = folder / "figure-5b.json"
    content = {"epochs": plan.epochs, "rates": plan.rates, "runs": facts}
    record.write_text(json.dumps(content, indent=1) + "\n")
    return [*written, record]


def _test_rows(plan: Plan, results: Results) -> tuple[list[Row], list[dict[str, Any]]]:
    rows: list[Row] = []
    facts: dict[str, dict[str, Any]] = {}
    for kind in plan.regularisations:
        for setting in (LABELS[kind], f"{LABELS[kind]}, rate {PAPER_RATE:g}"):
            for method, name in NAMES.items():
                rate = plan.best_rate(results, kind, method) if setting == LABELS[kind] else PAPER_RATE
                jobs = [] if rate is None else [Job("test", kind, method, rate, s) for s in range(plan.seeds)]
                for job in results.done(jobs):
                    head = {"setting": setting, "method": name, "seed": job.seed, "lr": rate}
                    rows += [
                        {**head, **{column: _short(row[column]) for column in KEPT}}
                        for row in results.rows(job)
                    ]
                    facts[job.name] = results.facts(job)
    return rows, list(facts.values())


def _tuning_rows(plan: Plan, results: Results) -> list[Row]:
    rows = []
    for kind in plan.regularisations:
        for method, name in NAMES.items():
            best = plan.best_rate(results, kind, method)
            for job in results.done(Job("validation", kind, method, lr, 0) for lr in plan.rates):
                found = results.rows(job)
                accuracies = [float(row["test_accuracy"]) for row in found]
                rows.append(
                    {
                        "setting": LABELS[kind],
                        "method": name,
                        "lr": job.lr,
                        "last": accuracies[-1],
                        "best": max(accuracies),
                        "train_loss": _short(found[-1]["train_loss"]),
                        "chosen": int(job.lr == best),
                    }
                )
    return rows


def _short(text: str) -> str:
    """Return a number with six digits."""
    return f"{float(text):.6g}" if text else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the stored rows of Figure 5b."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of results")
    parser.add_argument("--to", type=Path, required=True, help="folder for figure-5b.csv and its companions")
    add_arguments(parser, Plan)
    given = parser.parse_args(arguments)
    try:
        for file in merge(from_options(Plan, vars(given)), Results(given.out), given.to):
            print(file)
    except (ValueError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
