"""Figure 5b: GD, NGD and PRGD for VGG-16 on CIFAR-10, several runs sharing one device.

``python -m prgd.reproduce.vgg.experiment run --folder CIFAR --out RESULTS --minutes 9`` takes the runs
that are not done yet, starts only those that can end in time, and may be called again; ``list`` names all
runs. ``benchmarks/merge_vgg.py`` writes the stored rows of the figure. PyTorch and NumPy are enough.
"""

from __future__ import annotations

import argparse
import math
import platform
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

import prgd
from prgd.checks import check_writable
from prgd.deep.training.checkpoint import NEWEST
from prgd.deep.training.command import open_images, prepare_device
from prgd.deep.training.images import Images
from prgd.deep.training.settings import DEFAULT_FOLDER, Where
from prgd.deep.training.train_loop import Run
from prgd.options import add_arguments, from_options
from prgd.replay import recordings_within
from prgd.reproduce.vgg.jobs import Job, Plan, Results
from prgd.reproduce.vgg.turns import Turns

SLACK = 1.1  # factor on the time of the slowest run, to estimate the time of the next run
STEADY_EPOCHS = 5  # number of epochs after which the slow first epoch counts for little in the mean time


class Queue:
    """Hands out the runs of a plan until the time is up.

    Parameters
    ----------
    plan : Plan
    results : Results
    deadline : float
        Time on the clock of `time.monotonic`.
    """

    def __init__(self, plan: Plan, results: Results, deadline: float = math.inf) -> None:
        self.plan, self.results, self.deadline = plan, results, deadline
        self.running: dict[Job, Run | None] = {}
        self.seconds_per_epoch: list[float] = []  # means of the runs that have ended
        self.failures: list[str] = []
        self.changed = threading.Condition()
        self.turns = Turns()

    def take(self) -> Job | None:
        """Return the next run; wait while running ones may name more, and return None at the end."""
        with self.changed:
            while True:
                jobs = self.plan.jobs(self.results)
                waiting = [j for j in jobs if j not in self.running and not self.results.is_done(j)]
                if self.failures or time.monotonic() + self.estimate() > self.deadline:
                    return None
                if waiting:
                    self.running[waiting[0]] = None
                    return waiting[0]
                if not self.running:
                    return None
                self.changed.wait(timeout=1.0)

    def estimate(self) -> float:
        """Return the seconds that a run takes, from the slowest run so far; 0 before the first."""
        runs = [run for run in self.running.values() if run is not None and run.epoch >= STEADY_EPOCHS]
        seen = [*self.seconds_per_epoch, *(run.seconds / run.epoch for run in runs)]
        return SLACK * self.plan.epochs * max(seen, default=0.0)

    def give_back(self, job: Job) -> None:
        """Note that a run has ended or was stopped."""
        with self.changed:
            run = self.running.pop(job, None)
            if run is not None and run.epoch == self.plan.epochs:
                self.seconds_per_epoch.append(run.seconds / run.epoch)
            self.changed.notify_all()


def work(queue: Queue, images: Images, device: str, keep: bool, say: Callable[[str], None]) -> None:
    """Take runs from the queue until there is none left."""
    while (job := queue.take()) is not None:
        try:
            with queue.turns.working():
                _run(queue, job, images, device, keep, say)
        except Exception as error:  # reported at the end, so that the other threads go on
            queue.failures.append(f"{job.name}: {type(error).__name__}: {error}")
        finally:
            queue.give_back(job)


def _run(queue: Queue, job: Job, images: Images, device: str, keep: bool, say: Callable[[str], None]) -> None:
    settings = job.settings(queue.plan)
    out = queue.results.folder / "unfinished" / job.name if keep else None
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    is_begun = out is not None and (out / NEWEST).is_file()
    run = Run(settings, images, Where(device=device, out=out, resume=is_begun))
    queue.running[job] = run
    started = time.monotonic()
    is_finished = run.go(deadline=queue.deadline, before_step=queue.turns.pause)
    seconds = time.monotonic() - started
    if not is_finished:
        say(f"{job.name}: stopped at epoch {run.epoch} of {settings.epochs}")
        return
    versions = {"prgd": prgd.__version__, "python": platform.python_version(), "torch": torch.__version__}
    facts = {
        "settings": settings.as_dict(),
        "degree": run.degree,
        "seconds": round(seconds, 1),
        "seconds_per_epoch": round(run.seconds / settings.epochs, 3),
        "versions": versions,
        "device": torch.cuda.get_device_name(run.device) if run.device.type == "cuda" else platform.machine(),
    }
    queue.results.write(job, run.log.rows, facts)
    if out is not None:
        shutil.rmtree(out)
    last = run.log.rows[-1]
    say(
        f"{job.name}: {100 * last['test_accuracy']:.2f} %, loss {last['train_loss']:.3g}, "
        f"margin {last['normalized_margin']:.2e}, {seconds:.0f} s"
    )


def run_plan(
    plan: Plan,
    images: Images,
    out: Path,
    *,
    together: int = 1,
    minutes: float = math.inf,
    device: str = "",
    keep: bool = False,
    say: Callable[[str], None] = print,
) -> Results:
    """Run the missing runs of a plan, ``together`` runs at a time, for at most ``minutes``.

    Parameters
    ----------
    plan : Plan
    images : Images
    out : Path
        Folder of results; a run whose files are there is not run again.
    together : int
        Number of runs at a time. They are threads with CUDA streams of their own: the kernels of several
        small batches fill a device that one run would leave half idle.
    minutes : float
    device : str
    keep : bool
        Keep a checkpoint of a run that the time limit stops, to go on with the run at the next call.

    Raises
    ------
    RuntimeError
        If a run failed; the other runs are finished first.
    """
    check_writable(out)
    queue = Queue(plan, Results(out), time.monotonic() + 60.0 * minutes)
    threads = [
        threading.Thread(target=work, args=(queue, images, device, keep, say), daemon=True)
        for _ in range(together)
    ]
    with recordings_within(queue.turns.alone):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    jobs = plan.jobs(queue.results)
    say(f"{len(queue.results.done(jobs))} of {len(jobs)} runs that can be named now are done.")
    if queue.failures:
        raise RuntimeError("; ".join(queue.failures))
    return queue.results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment of Figure 5b, or list its runs."""
    parser = argparse.ArgumentParser(prog="python -m prgd.reproduce.vgg.experiment", description=main.__doc__)
    parser.add_argument("command", choices=["run", "list"])
    parser.add_argument("--out", type=Path, required=True, help="folder of results")
    add_arguments(parser, Plan)
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="folder of CIFAR-10")
    parser.add_argument("--together", type=int, default=1, help="number of runs at a time")
    parser.add_argument("--minutes", type=float, default=math.inf, help="time limit")
    parser.add_argument("--keep", action="store_true", help="keep checkpoints of runs that are stopped")
    parser.add_argument("--device", default="")
    given = parser.parse_args(arguments)
    results = Results(given.out)
    try:
        plan = from_options(Plan, vars(given))
        if given.command == "list":
            for job in plan.jobs(results):
                print(f"{'done' if results.is_done(job) else 'to do':6} {job.name}")
        else:
            started = time.monotonic()
            prepare_device(given.device)
            images = open_images(plan.data, given.folder)
            left = given.minutes - (time.monotonic() - started) / 60.0
            options = {name: getattr(given, name) for name in ("together", "device", "keep")}
            run_plan(plan, images, given.out, minutes=left, say=partial(print, flush=True), **options)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
