"""Runs a plan in processes that share one device, as many at a time as asked for, until a deadline.

``python -m prgd_paper.training.fleet run --folder CIFAR --out RESULTS --together 4 --minutes 24`` takes the
runs that are not done yet, those that were stopped from their last checkpoint; ``list`` names all runs;
``job`` is one run, as ``run`` starts it. Each run is a process: three threads of one process took as long as
three runs in turn.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

import prgd
from prgd.cli.options import from_options
from prgd_paper.training.checkpoint import NEWEST
from prgd_paper.training.command import open_images, prepare_device
from prgd_paper.training.images import Images
from prgd_paper.training.plan import Job, Plan, Results
from prgd_paper.training.settings import DEFAULT_FOLDER, Where, add_arguments
from prgd_paper.training.train_loop import Run

TRIES, MAX_FAILURES = 2, 8  # tries of one run, and failures of all runs after which none is started
RUNNING = "running"


@dataclass
class Fleet:
    """Starts the runs of a plan as processes, until the deadline.

    Parameters
    ----------
    plan : Plan
    results : Results
    together : int
        Number of runs at a time.
    command : list of str
        Command that runs one job; the option ``--job`` is added to it.
    deadline : float
        Time on the clock of `time.time` at which runs are stopped; a later fleet takes them up.
    """

    plan: Plan
    results: Results
    together: int
    command: list[str]
    deadline: float = math.inf
    running: dict[Job, subprocess.Popen[bytes]] = field(default_factory=dict)
    failures: Counter[Job] = field(default_factory=Counter)

    def go(self, poll: float = 0.5) -> None:
        """Run until all is done, or the deadline has come."""
        (self.results.folder / RUNNING).mkdir(parents=True, exist_ok=True)
        try:
            while time.time() < self.deadline:
                self._collect()
                while len(self.running) < self.together and (job := self._next()) is not None:
                    self._start(job)
                if not self.running:
                    break
                time.sleep(poll)
        finally:
            for process in self.running.values():
                process.terminate()
            for job, process in self.running.items():
                process.wait()
                _say(f"{job.name}: stopped; the next fleet goes on from its last checkpoint")
        jobs = self.plan.jobs(self.results)
        _say(
            f"{len(self.results.done(jobs))} of {len(jobs)} runs that can be named now are done; "
            f"{self.failures.total()} failures."
        )

    def _next(self) -> Job | None:
        """Return the first run that is to do."""
        if self.failures.total() >= MAX_FAILURES:
            return None
        jobs = (job for job in self.plan.jobs(self.results) if job not in self.running)
        return next((j for j in jobs if self.failures[j] < TRIES and not self.results.is_done(j)), None)

    def _start(self, job: Job) -> None:
        with self._log(job).open("wb") as log:
            command = [*self.command, "--job", json.dumps(asdict(job))]
            self.running[job] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        _say(f"{job.name}: started, {len(self.running)} together")

    def _log(self, job: Job) -> Path:
        return self.results.folder / RUNNING / f"{job.name}.log"

    def _collect(self) -> None:
        """Take the runs that have ended off the list."""
        for job, process in list(self.running.items()):
            if (code := process.poll()) is None:
                continue
            del self.running[job]
            if code == 0 and self.results.is_done(job):
                last = self.results.rows(job)[-1]
                _say(f"{job.name}: epoch {last['epoch']}, {100 * float(last['test_accuracy']):.2f} %")
            else:
                self.failures[job] += 1
                words = self._log(job).read_text(errors="replace").strip()[-300:]
                _say(f"{job.name}: FAILED, exit code {code}: {words}")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def run_job(plan: Plan, job: Job, images: Images, results: Results, where: Where) -> None:
    """Run one job, from its checkpoint if it was stopped, and store its rows and facts."""
    settings = job.settings(plan)
    folder = results.folder / RUNNING / job.name
    folder.mkdir(parents=True, exist_ok=True)
    is_compiled = where.compile and settings.dropout == 0.0
    where = replace(where, out=folder, resume=(folder / NEWEST).is_file(), compile=is_compiled)
    run = Run(settings, images, where)
    run.go()
    facts = {
        "settings": settings.as_dict(),
        "degree": run.degree,
        "seconds": round(run.seconds, 1),
        "seconds_per_epoch": round(run.seconds / max(run.epoch, 1), 3),
        "versions": {
            "prgd": prgd.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "device": torch.cuda.get_device_name(run.device) if run.device.type == "cuda" else platform.machine(),
        "compiled": is_compiled,
    }
    results.write(job, run.log.rows, facts)
    shutil.rmtree(folder)


def _some(images: Images, n: int) -> Images:
    """Return the first n training and test images."""
    train, test = (images.train[:n], images.train_labels[:n]), (images.test[:n], images.test_labels[:n])
    return Images(images.name, *train, *test, classes=images.classes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment of Figure 5b in several processes, or list its runs."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="python -m prgd_paper.training.fleet", description=main.__doc__)
    parser.add_argument("verb", choices=["run", "list", "job"])
    parser.add_argument("--out", type=Path, required=True, help="folder of results")
    add_arguments(parser, Plan)
    parser.add_argument("--job", default="", help="for job: the run as JSON")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="folder of CIFAR-10")
    parser.add_argument("--together", type=int, default=4, help="number of runs at a time")
    parser.add_argument("--minutes", type=float, default=math.inf, help="time limit")
    parser.add_argument("--compile", action="store_true", help="compile the network where it has no dropout")
    parser.add_argument("--device", default="")
    given = parser.parse_args(arguments)
    results = Results(given.out)
    try:
        plan = from_options(Plan, vars(given))
        if given.verb == "job":
            prepare_device(given.device)
            images = open_images(plan.data, given.folder)
            images = _some(images, plan.images) if plan.images else images
            where = Where(device=given.device, compile=given.compile)
            run_job(plan, Job(**json.loads(given.job)), images, results, where)
            return 0
        if given.verb == "list":
            for job in plan.jobs(results):
                print(f"{'done' if results.is_done(job) else 'to do':6} {job.name}")
            return 0
        command = [sys.executable, "-m", "prgd_paper.training.fleet", "job", *arguments[1:]]
        fleet = Fleet(plan, results, given.together, command, time.time() + 60.0 * given.minutes)
        fleet.go()
        return 2 if fleet.failures else 0
    except (ValueError, OSError, RuntimeError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
