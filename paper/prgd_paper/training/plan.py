"""The runs that decide Figure 5b: rates and schedules are tuned first, then methods are compared over seeds.

Four parts, the most important first. ``tune``: without regularisation, every rate for every method, then
PRGD's schedules at PRGD's best rate, judged on a tenth of the training set that is held out. ``printed``: the
configuration of Appendix E.2. ``final``: without regularisation, each method as tuned. ``unprojected``: PRGD
as tuned, without the projection of Algorithm 1.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from prgd.cli.options import option
from prgd.core.files import atomic_write
from prgd_paper.training.logs import write_csv
from prgd_paper.training.settings import Settings, check_choices

METHODS = ("gd", "ngd", "prgd")
PRINTED = "printed"  # name of the schedule of Appendix E.2, and of the part with all of its configuration
PRINTED_RATE = 1e-3
PRINTED_REGULARISATION = {"weight_decay": 5e-4, "dropout": 0.5}
# Warm-ups are written out where beta differs, since T_0 = 3000 2^beta would change with beta.
SCHEDULES: dict[str, dict[str, Any]] = {
    PRINTED: {},
    "alpha-0.1": {"alpha": 0.1},
    "alpha-0.4": {"alpha": 0.4},
    "warm-up-12000": {"warm_up": 12_000},
    "warm-up-48000": {"warm_up": 48_000},
    "beta-2": {"beta": 2.0, "warm_up": 24_000},
    "beta-4": {"beta": 4.0, "warm_up": 24_000},
    "momentum-scale": {"on_rescale": "scale"},
    "momentum-reset": {"on_rescale": "reset"},
    "alpha-0.6-beta-1.6": {"alpha": 0.6, "beta": 1.6, "warm_up": 24_000},
}


@dataclass(frozen=True)
class Job:
    """One run: a method at a rate, a seed and, for PRGD, a schedule."""

    part: str
    method: str
    lr: float
    seed: int
    schedule: str = PRINTED

    @property
    def name(self) -> str:
        """The stem of the names of the run's files."""
        schedule = f"{self.schedule}-" if self.schedule != PRINTED else ""
        return f"{self.part}-{self.method}-{self.lr:g}-{schedule}{self.seed}"

    def settings(self, plan: Plan) -> Settings:
        """Return the settings of the run."""
        options: dict[str, Any] = dict(SCHEDULES[self.schedule])
        if self.part == PRINTED:
            options |= PRINTED_REGULARISATION if plan.data == "cifar10" else {}
        else:
            options["stop_loss"] = plan.stop_loss
        if self.part == "tune":
            options["validation"] = 0.1
        return Settings(
            data=plan.data,
            algorithm=self.method,  # type: ignore[arg-type]
            epochs=plan.epochs if self.part in ("final", "unprojected") else plan.tuning_epochs,
            lr=self.lr,
            seed=self.seed,
            project=self.part != "unprojected",
            amp=plan.amp,
            **options,
        )


@dataclass(frozen=True)
class Plan:
    """The runs of the experiment; each field is an option of ``python -m prgd_paper.training.fleet``."""

    data: Literal["cifar10", "synthetic"] = option("cifar10", "cifar10 or synthetic.")
    epochs: int = option(200, "Passes over the training set in the final runs, at most.")
    tuning_epochs: int = option(100, "Passes of tuning runs, at most, and of the printed configuration.")
    stop_loss: float = option(1e-4, "Loss at which a run without regularisation ends if it separates.")
    seeds: int = option(5, "Number of seeds of the final runs.")
    printed_seeds: int = option(3, "Number of seeds of the printed configuration.")
    rates: tuple[float, ...] = option((1e-2, 1e-3, 3e-3, 3e-4), "Rates that every method tries.")
    schedules: tuple[str, ...] = option(tuple(SCHEDULES), "Schedules that PRGD tries.")
    parts: tuple[Literal["tune", "printed", "final", "unprojected"], ...] = option(
        ("tune", "printed", "final", "unprojected"), "Parts, in their order."
    )
    amp: Literal["bf16", "off"] = option("bf16", "Precision of the forward pass: bf16 or off.")
    images: int = option(0, "Number of training images, and of test images, for a trial; 0 for all.")

    def __post_init__(self) -> None:
        check_choices(self)

    def jobs(self, results: Results) -> list[Job]:
        """Return all runs that can be named now, in the order in which they should be run.

        PRGD's schedules are named once its rates are done, and final runs once a method is tuned.
        """
        found: list[Job] = []
        for part in self.parts:
            if part == "tune":
                found += [Job(part, method, lr, 0) for method in METHODS for lr in self.rates]
                found += self._schedule_jobs(results)
            elif part == PRINTED:
                seeds = range(self.printed_seeds)
                found += [Job(part, method, PRINTED_RATE, seed) for seed in seeds for method in METHODS]
            else:
                methods = METHODS if part == "final" else ("prgd",)
                tuned = [job for method in methods if (job := self.best(results, method)) is not None]
                for seed in range(self.seeds):
                    found += [Job(part, job.method, job.lr, seed, job.schedule) for job in tuned]
        return list(dict.fromkeys(found))

    def best(self, results: Results, method: str) -> Job | None:
        """Return the tuning run of the best validation accuracy at its last epoch; None while one misses."""
        rates = [Job("tune", method, lr, 0) for lr in self.rates]
        if len(results.done(rates)) < len(rates):
            return None
        best = max(rates, key=results.last_accuracy)
        if method != "prgd":
            return best
        jobs = [best, *self._schedule_jobs(results)]
        return max(jobs, key=results.last_accuracy) if len(results.done(jobs)) == len(jobs) else None

    def _schedule_jobs(self, results: Results) -> list[Job]:
        """Return the runs of all schedules at PRGD's best rate; none while a rate is missing."""
        rates = [Job("tune", "prgd", lr, 0) for lr in self.rates]
        if len(results.done(rates)) < len(rates):
            return []
        lr = max(rates, key=results.last_accuracy).lr
        return [Job("tune", "prgd", lr, 0, schedule) for schedule in self.schedules if schedule != PRINTED]


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

    def last_accuracy(self, job: Job) -> float:
        """Return the accuracy at the last epoch of a run that is done."""
        return float(self.rows(job)[-1]["test_accuracy"])

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
