"""Rows of all runs that are done, as the small files that the reproduction draws."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from prgd.reproduce.vgg.jobs import LABELS, METHODS, PAPER_RATE, Job, Plan, Results

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
NAMES = {"gd": "GD", "ngd": "NGD", "prgd": "PRGD"}


def merge(plan: Plan, results: Results, folder: Path) -> list[Path]:
    """Write ``figure-5b.csv``, ``figure-5b-tuning.csv`` and ``figure-5b.json``; return their paths.

    A method's rows stand under its regularisation at the rate that the validation split chose, and once
    more under the paper's rate. Numbers keep six digits, so that the files stay small.
    """
    rows, facts = _test_rows(plan, results)
    tuning = _tuning_rows(plan, results)
    if not rows and not tuning:
        raise ValueError(f"No run is done in {results.folder}. Run the experiment first.")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, table in (("figure-5b.csv", rows), ("figure-5b-tuning.csv", tuning)):
        if table:
            _write(folder / name, table)
            written.append(folder / name)
    record = folder / "figure-5b.json"
    record.write_text(
        json.dumps({"epochs": plan.epochs, "rates": plan.rates, "runs": facts}, indent=1) + "\n"
    )
    return [*written, record]


def _test_rows(plan: Plan, results: Results) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    facts: dict[str, dict[str, Any]] = {}
    for kind in plan.regularisations:
        for setting in (LABELS[kind], f"{LABELS[kind]}, rate {PAPER_RATE:g}"):
            for method in sorted(METHODS, key=list(NAMES).index):
                rate = plan.best_rate(results, kind, method) if setting == LABELS[kind] else PAPER_RATE
                jobs = [] if rate is None else [Job("test", kind, method, rate, s) for s in range(plan.seeds)]
                for job in results.done(jobs):
                    head = {"setting": setting, "method": NAMES[method], "seed": job.seed, "lr": rate}
                    rows += [
                        {**head, **{name: _short(row[name]) for name in KEPT}} for row in results.rows(job)
                    ]
                    facts[job.name] = results.facts(job)
    return rows, list(facts.values())


def _tuning_rows(plan: Plan, results: Results) -> list[dict[str, Any]]:
    rows = []
    for kind in plan.regularisations:
        for method in sorted(METHODS, key=list(NAMES).index):
            best = plan.best_rate(results, kind, method)
            for lr in plan.rates:
                found = results.rows(Job("validation", kind, method, lr, 0))
                if found:
                    accuracies = [float(row["test_accuracy"]) for row in found]
                    rows.append(
                        {
                            "setting": LABELS[kind],
                            "method": NAMES[method],
                            "lr": lr,
                            "last": accuracies[-1],
                            "best": max(accuracies),
                            "train_loss": _short(found[-1]["train_loss"]),
                            "chosen": int(lr == best),
                        }
                    )
    return rows


def _short(text: str) -> str:
    """Return a number with six digits."""
    return f"{float(text):.6g}" if text else ""


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
