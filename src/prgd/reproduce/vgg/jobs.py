"""The runs of Figure 5b: which runs there are, which are done, and which comes next."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from prgd.deep.training.logs import write_csv
from prgd.deep.training.settings import Settings
from prgd.files import atomic_write
from prgd.options import check_choices, option

METHODS = ("prgd", "gd", "ngd")
PAPER_RATE = 1e-3
REGULARISATION: dict[str, dict[str, float]] = {"none": {}, "decay": {"weight_decay": 5e-4, "dropout": 0.5}}


@dataclass(frozen=True)
class Job:
    """One run: a method at a rate and a seed, tested on the validation split or on the test set."""

    part: str  # "validation" or "test"
    regularisation: str
    method: str
    lr: float
    seed: int

    @property
    def name(self) -> str:
        """The stem of the names of the run's files."""
        return f"{self.part}-{self.regularisation}-{self.method}-{self.lr:g}-{self.seed}"

    def settings(self, plan: Plan) -> Settings:
        """Return the settings of the run."""
        regularisation: dict[str, Any] = REGULARISATION[self.regularisation] if plan.data == "cifar10" else {}
        return Settings(
            data=plan.data,
            algorithm=self.method,  # type: ignore[arg-type]
            epochs=plan.epochs,
            lr=self.lr,
            seed=self.seed,
            validation=0.1 if self.part == "validation" else 0.0,
            amp=plan.amp,
            **regularisation,
        )


@dataclass(frozen=True)
class Plan:
    """The runs of an experiment; each field is an option of ``python -m prgd.reproduce.vgg.experiment``."""

    data: Literal["cifar10", "synthetic"] = option("cifar10", "cifar10 or synthetic.")
    epochs: int = option(60, "Passes over the training set.")
    seeds: int = option(3, "Number of seeds of each run on the test set.")
    rates: tuple[float, ...] = option(
        (1e-3, 3e-3, 1e-2, 3e-2),
        "Rates that every method tries, with seed 0, on a tenth of the training set that is held out.",
    )
    regularisations: tuple[Literal["none", "decay"], ...] = option(("none", "decay"), "none, decay or both.")
    parts: tuple[Literal["tune", "test", "paper"], ...] = option(
        ("tune", "test", "paper"),
        "tune: all rates; test: each method at its best rate; paper: each method at the paper's 1e-3.",
    )
    amp: Literal["bf16", "off"] = option("bf16", "Precision of the forward pass: bf16 or off.")

    def __post_init__(self) -> None:
        check_choices(self)

    def jobs(self, results: Results) -> list[Job]:
        """Return all runs that can be named now, the most important first.

        Runs at a tuned rate are named once all rates of that method are done.
        """
        found: list[Job] = []
        for kind in self.regularisations:
            if "tune" in self.parts:
                # All methods run at one rate before the next rate, the paper's rate first.
                found += [Job("validation", kind, m, lr, 0) for lr in self.rates for m in METHODS]
            if "test" in self.parts:
                best = {m: self.best_rate(results, kind, m) for m in METHODS}
                tuned = {m: lr for m, lr in best.items() if lr is not None}
                found += [Job("test", kind, m, tuned[m], seed) for seed in range(self.seeds) for m in tuned]
        if "paper" in self.parts:
            for kind, seed in itertools.product(self.regularisations, range(self.seeds)):
                found += [Job("test", kind, m, PAPER_RATE, seed) for m in METHODS]
        return list(dict.fromkeys(found))  # The best rate may be the paper's.

    def best_rate(self, results: Results, regularisation: str, method: str) -> float | None:
        """Return the rate of the best validation accuracy at the last epoch; None while a run is missing."""
        jobs = [Job("validation", regularisation, method, lr, 0) for lr in self.rates]
        if len(results.done(jobs)) < len(jobs):
            return None
        return max(jobs, key=lambda job: float(results.rows(job)[-1]["test_accuracy"])).lr


@dataclass(frozen=True)
class Results:
    """A folder with one CSV and one JSON for each run that is done."""

    folder: Path

    def is_done(self, job: Job) -> bool:
        """Tell whether the run's JSON file is there, which is written last."""
        return (self.folder / f"{job.name}.json").is_file()

    def rows(self, job: Job) -> list[dict[str, str]]:
        """Return the rows of a run that is done."""
        with (self.folder / f"{job.name}.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def facts(self, job: Job) -> dict[str, Any]:
        """Return the settings, the machine and the time of a run that is done."""
        return dict(json.loads((self.folder / f"{job.name}.json").read_text()))

    def write(self, job: Job, rows: list[dict[str, Any]], facts: dict[str, Any]) -> None:
        """Store a run: first its rows, then the JSON file that makes the run done."""
        write_csv(self.folder / f"{job.name}.csv", rows)
        with atomic_write(self.folder / f"{job.name}.json", "w") as file:
            file.write(json.dumps({"job": asdict(job), **facts}, indent=1) + "\n")

    def done(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the runs that are done."""
        return [job for job in jobs if self.is_done(job)]
