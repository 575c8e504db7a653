"""Runs a plan in processes that share one device, and starts no run that cannot end in time.

``python -m prgd_paper.training.fleet run --folder CIFAR --out RESULTS --together 4 --minutes 24`` takes the
runs that are not done yet; ``list`` names all runs; ``job`` is one run, as ``run`` starts it. Each run is a
process: three threads of one process took as long as three runs in turn.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO

import torch

import prgd
from prgd.cli.options import add_arguments, from_options
from prgd_paper.training.checkpoint import NEWEST, load_checkpoint, save_checkpoint
from prgd_paper.training.command import open_images, prepare_device
from prgd_paper.training.images import Images
from prgd_paper.training.logs import write_csv
from prgd_paper.training.plan import CIFAR_IMAGES, SCHEDULES, Job, Plan, Results
from prgd_paper.training.settings import DEFAULT_FOLDER, Where
from prgd_paper.training.train_loop import Run

STARTUP = 15.0  # seconds from the start of a process to its first epoch
SAFETY = 1.03  # factor on estimated times
WINDOW = 60.0  # seconds over which the common speed is measured
TRIES, MAX_FAILURES = 2, 8  # tries of one run, and failures of all runs after which none is started
BATCH = 64
STOPPED = 3  # exit code of a run that was told to stop
RUNNING, UNFINISHED, WARM_UPS, DEADLINE = "running", "unfinished", "warm-ups", "deadline"


class _StoppedError(Exception):
    """The process was told to stop."""


def finish_times(remaining: Sequence[float], alone: float, shared: float) -> list[float]:
    """Return the seconds after which runs end that share a device evenly.

    Parameters
    ----------
    remaining : sequence of float
        Epochs that each run has still to go.
    alone, shared : float
        Seconds an epoch of one run takes at best, and seconds of the device that it costs among others.

    Examples
    --------
    >>> finish_times([10.0, 20.0], alone=1.0, shared=0.6)
    [12.0, 22.0]
    """
    order = sorted(range(len(remaining)), key=lambda i: remaining[i])
    found, now, passed = [0.0] * len(order), 0.0, 0.0
    for place, i in enumerate(order):
        now += (remaining[i] - passed) * max(alone, shared * (len(order) - place))
        passed, found[i] = remaining[i], now
    return found


@dataclass
class Running:
    """A run in a process of its own."""

    process: subprocess.Popen[bytes]
    epochs: int
    started: float
    log: IO[bytes]
    epoch: int = 0

    def remaining(self, seconds_per_epoch: float) -> float:
        """Return the epochs that are left, with the start of the process counted as epochs."""
        starting = STARTUP - (time.time() - self.started) if self.epoch == 0 else 0.0
        return self.epochs - self.epoch + max(starting, 0.0) / seconds_per_epoch


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
        Time on the clock of `time.time`; a file ``deadline`` in the folder of results takes its place.
    alone, shared : float
        As for `finish_times`; the second is measured as soon as runs are at work.
    """

    plan: Plan
    results: Results
    together: int
    command: list[str]
    deadline: float = math.inf
    alone: float = 1.0
    shared: float = 0.9
    running: dict[Job, Running] = field(default_factory=dict)
    failures: Counter[Job] = field(default_factory=Counter)
    _samples: list[tuple[float, int]] = field(default_factory=list)

    def go(self, poll: float = 0.5) -> None:
        """Run until nothing fits before the deadline any more, or all is done."""
        (self.results.folder / RUNNING).mkdir(parents=True, exist_ok=True)
        try:
            while True:
                self._read_deadline()
                self._collect()
                self._measure()
                while len(self.running) < self.together and (job := self._next()) is not None:
                    self._start(job)
                if not self.running or time.time() > self.deadline:
                    break
                time.sleep(poll)
        finally:
            self._stop_all()
        done, jobs = self._done()
        print(
            f"{done} of {jobs} runs that can be named now are done; {self.failures.total()} failures.",
            flush=True,
        )

    def _done(self) -> tuple[int, int]:
        jobs = self.plan.jobs(self.results)
        return len(self.results.done(jobs)), len(jobs)

    def _read_deadline(self) -> None:
        file = self.results.folder / DEADLINE
        # A file that is being written may be empty.
        if file.is_file() and (text := file.read_text().strip()):
            self.deadline = float(text)

    def _next(self) -> Job | None:
        """Return the first run that can end in time and delays no other one beyond the deadline."""
        if self.failures.total() >= MAX_FAILURES:
            return None
        left = (self.deadline - time.time()) / SAFETY
        active = [run.remaining(self.shared) for run in self.running.values()]
        ends = finish_times(active, self.alone, self.shared)
        for job in self.plan.jobs(self.results):
            if job in self.running or self.failures[job] >= TRIES or self.results.is_done(job):
                continue
            epochs = self._epochs_to_go(job)
            if epochs is None:
                continue
            own = epochs + STARTUP / self.shared
            *others, end = finish_times([*active, own], self.alone, self.shared)
            late = any(then <= left < now for then, now in zip(ends, others, strict=True))
            if end <= left and not late:
                return job
        return None

    def _epochs_to_go(self, job: Job) -> float | None:
        """Return the epochs of a run, without a warm-up that GD has done; None while GD is still at it."""
        epochs = float(job.epochs(self.plan))
        if job.method != "prgd" or self.failures[job]:
            return epochs
        steps = job.warm_up(self.plan)
        if (_warm_up_folder(self.results, job, steps) / NEWEST).is_file():
            return epochs - steps * BATCH / CIFAR_IMAGES
        twin = Job("final" if job.part == "unprojected" else job.part, "gd", job.lr, job.seed)
        return None if twin in self.running else epochs

    def _start(self, job: Job) -> None:
        log = (self.results.folder / RUNNING / f"{job.name}.log").open("wb")
        command = [*self.command, "--job", json.dumps(asdict(job))]
        if job in self.failures:
            command = [*(word for word in command if word != "--compile"), "--fresh"]
        (self.results.folder / RUNNING / job.name).unlink(missing_ok=True)
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.running[job] = Running(process, job.epochs(self.plan), time.time(), log)
        self._samples.clear()
        self._say(f"{job.name}: started, {len(self.running)} together")

    def _collect(self) -> None:
        """Read how far each run is, and take those that have ended off the list."""
        for job, run in list(self.running.items()):
            file = self.results.folder / RUNNING / job.name
            run.epoch = max(run.epoch, int(file.read_text() or 0) if file.is_file() else 0)
            if (code := run.process.poll()) is None:
                continue
            run.log.close()
            file.unlink(missing_ok=True)
            del self.running[job]
            self._samples.clear()
            if code == 0 and self.results.is_done(job):
                self._say(f"{job.name}: {self._outcome(job)}")
            else:
                log = (self.results.folder / RUNNING / f"{job.name}.log").read_text(errors="replace")
                self.failures[job] += 1
                self._say(f"{job.name}: FAILED, exit code {code}: {log.strip()[-300:]}")

    def _outcome(self, job: Job) -> str:
        last, facts = self.results.rows(job)[-1], self.results.facts(job)
        return (
            f"{100 * float(last['test_accuracy']):.2f} %, epoch {last['epoch']}, loss "
            f"{float(last['train_loss']):.3g}, "
            f"training accuracy {100 * float(last['train_accuracy']):.3f} %, {facts['seconds']:.0f} s"
        )

    def _measure(self) -> None:
        """Measure the seconds of the device that an epoch costs while the device is fully used."""
        now, active = time.time(), self.running.values()
        if len(active) < self.together or any(run.epoch == 0 for run in active):
            return
        self._samples.append((now, sum(run.epoch for run in active)))
        while self._samples[-1][0] - self._samples[0][0] > WINDOW:
            self._samples.pop(0)
        (then, before), (_, after) = self._samples[0], self._samples[-1]
        if after - before >= 4 * self.together:
            self.shared = (now - then) / (after - before)

    def _stop_all(self) -> None:
        for run in self.running.values():
            run.process.send_signal(signal.SIGTERM)
        for job, run in self.running.items():
            try:
                run.process.wait(timeout=10.0)
            except subprocess.TimeoutExpired:
                run.process.kill()
                run.process.wait()
            run.log.close()
            self._say(f"{job.name}: stopped at epoch {run.epoch} of {run.epochs}")

    def _say(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} [{self.shared:.2f} s an epoch] {text}", flush=True)


def run_job(
    plan: Plan, job: Job, images: Images, results: Results, where: Where, *, fresh: bool = False
) -> int:
    """Run one job and store it; return 0, or another exit code if the process was told to stop.

    Unless ``fresh``, GD leaves its state where a warm-up of PRGD ends, and PRGD begins there.
    """
    settings = job.settings(plan)
    is_told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: is_told.append(number))
    run = Run(settings, images, replace(where, compile=where.compile and settings.dropout == 0.0))
    progress = results.folder / RUNNING / job.name
    shares_warm_up = not fresh and _begin_after_shared_warm_up(run, job, results)
    lengths = {Job("tune", "prgd", job.lr, 0, name).warm_up(plan) for name in SCHEDULES}
    noted = -1

    def before_step() -> None:
        nonlocal noted
        if is_told:
            raise _StoppedError
        if run.epoch != noted:
            noted = run.epoch
            progress.write_text(str(noted))
        if job.method == "gd" and not fresh and run.step in lengths:
            folder = _warm_up_folder(results, job, run.step)
            folder.mkdir(parents=True, exist_ok=True)
            save_checkpoint(folder, run.state())

    started = time.monotonic()
    try:
        run.go(before_step=before_step)
    except _StoppedError:
        (results.folder / UNFINISHED).mkdir(exist_ok=True)
        if run.log.rows:
            write_csv(results.folder / UNFINISHED / f"{job.name}.csv", run.log.rows)
        return STOPPED
    progress.write_text(str(run.epoch))
    seconds = time.monotonic() - started
    versions = {"prgd": prgd.__version__, "python": platform.python_version(), "torch": torch.__version__}
    facts = {
        "settings": settings.as_dict(),
        "degree": run.degree,
        "seconds": round(seconds, 1),
        "seconds_per_epoch": round(run.seconds / max(run.epoch, 1), 3),
        "versions": versions,
        "device": torch.cuda.get_device_name(run.device) if run.device.type == "cuda" else platform.machine(),
        "compiled": run.where.compile,
        "shares_warm_up": shares_warm_up,
    }
    results.write(job, run.log.rows, facts)
    return 0


def _warm_up_folder(results: Results, job: Job, steps: int) -> Path:
    """Return the folder of the state after some steps of GD."""
    part = "final" if job.part == "unprojected" else job.part
    return results.folder / WARM_UPS / f"{part}-{job.lr:g}-{job.seed}-{steps}"


def _begin_after_shared_warm_up(run: Run, job: Job, results: Results) -> bool:
    """Let PRGD begin where its warm-up ends if GD has left its state there; return whether it has."""
    folder = _warm_up_folder(results, job, run.optimizer.warm_up)
    if job.method != "prgd" or not (folder / NEWEST).is_file():
        return False
    run.begin_after_warm_up(load_checkpoint(folder, run.device))
    return True


def _some(images: Images, n: int) -> Images:
    """Return the first n training and test images."""
    train, test = (images.train[:n], images.train_labels[:n]), (images.test[:n], images.test_labels[:n])
    return Images(images.name, *train, *test, classes=images.classes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m prgd_paper.training.fleet", description=main.__doc__)
    parser.add_argument("verb", choices=["run", "list", "job"])
    parser.add_argument("--out", type=Path, required=True, help="folder of results")
    add_arguments(parser, Plan)
    parser.add_argument("--job", default="", help="for job: the run as JSON")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="folder of CIFAR-10")
    parser.add_argument("--together", type=int, default=4, help="number of runs at a time")
    parser.add_argument("--minutes", type=float, default=math.inf, help="time limit")
    parser.add_argument("--alone", type=float, default=1.0, help="seconds of an epoch of a run alone")
    parser.add_argument("--shared", type=float, default=0.9, help="seconds of the device for an epoch")
    parser.add_argument("--compile", action="store_true", help="compile the network where it has no dropout")
    parser.add_argument("--fresh", action="store_true", help="for job: share no warm-up with other runs")
    parser.add_argument("--heuristics", action="store_true", help="let cuDNN choose kernels without timing")
    parser.add_argument("--device", default="")
    return parser


def _job(given: argparse.Namespace, plan: Plan) -> int:
    prepare_device(given.device)
    if given.heuristics:
        torch.backends.cudnn.benchmark = False
    images = open_images(plan.data, given.folder)
    images = _some(images, plan.images) if plan.images else images
    where = Where(device=given.device, compile=given.compile)
    job = Job(**json.loads(given.job))
    return run_job(plan, job, images, Results(given.out), where, fresh=given.fresh)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment of Figure 5b in several processes, or list its runs."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    given = _parser().parse_args(arguments)
    results = Results(given.out)
    try:
        plan = from_options(Plan, vars(given))
        if given.verb == "job":
            return _job(given, plan)
        if given.verb == "list":
            for job in plan.jobs(results):
                print(f"{'done' if results.is_done(job) else 'to do':6} {job.name}")
            return 0
        command = [sys.executable, "-m", "prgd_paper.training.fleet", "job", *arguments[1:]]
        deadline = time.time() + 60.0 * given.minutes
        fleet = Fleet(plan, results, given.together, command, deadline, given.alone, given.shared)
        fleet.go()
        return 2 if fleet.failures else 0
    except (ValueError, OSError, RuntimeError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
