"""One pool of processes for the tasks of all experiments: one thread each, longest tasks first.

Why not joblib: its unordered results come without the task that they belong to, and its limit on threads
does not reach the engines of prgd. Naming a failed task, starting long tasks first, showing bars and ending
a worker with its parent would stay our code, which is nearly all of this module.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from prgd_paper.reproduce.experiment import Row
from prgd_paper.reproduce.store import Store

# The engines read the first variable when they are made; libraries read the others when they are loaded.
ONE_THREAD = (
    "PRGD_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)
TELL_EACH = 20.0  # seconds between two lines about the work, where no bars are shown


class TaskError(ValueError):
    """A task failed; the rows of the tasks that ended are kept."""


class Call(NamedTuple):
    """A call for the pool: its owner, its name, the call, and what is done with its result."""

    owner: str
    name: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    then: Callable[[Any], None]
    seconds: float = 1.0


def jobs_of(store: Store, tasks: Iterable[str]) -> list[Call]:
    """Return the jobs that compute these tasks and keep their rows."""
    e = store.experiment
    return [
        Call(e.name, task, timed, (e.compute, store.settings, task), partial(store.write, task), e.seconds)
        for task in tasks
    ]


def timed(compute: Callable[[Any, str], list[Row]], settings: Any, task: str) -> tuple[list[Row], float]:
    """Return the rows of a task and the seconds that they took."""
    started = time.perf_counter()
    return compute(settings, task), time.perf_counter() - started


def run_jobs(
    jobs: list[Call],
    processes: int,
    *,
    show: bool | None = None,
    when_done: Callable[[str], None] = lambda owner: None,
) -> None:
    """Run jobs in parallel processes, each result handed to its ``then`` as soon as it is there.

    Parameters
    ----------
    jobs : list of Call
    processes : int
        How many run at a time. One process is a process of its own too: rows do not depend on the number.
    show : bool, optional
        Draw bars on stderr, else a line now and then; by default if stderr is a terminal.
    when_done : callable
        Called with the name of each owner whose last job has ended.

    Raises
    ------
    TaskError
        When a job fails or its process dies.
    """
    if not jobs:
        return
    ordered = sorted(jobs, key=lambda job: -job.seconds)
    left = Counter(job.owner for job in jobs)
    with _shown(jobs, show) as advance, _executor(min(processes, len(jobs))) as pool:
        futures: dict[Future[Any], Call] = {pool.submit(job.call, *job.arguments): job for job in ordered}
        for future in as_completed(futures):
            job = futures[future]
            try:
                found = future.result()
            except BrokenProcessPool as error:
                raise TaskError(
                    f"A process died in {job.owner} ({job.name}), perhaps for want of memory. The rows so "
                    "far are kept: run again, with --jobs 1."
                ) from error
            except Exception as error:
                raise TaskError(
                    f"{job.owner} ({job.name}) failed with {type(error).__name__}: {error} The rows so far "
                    "are kept."
                ) from error
            job.then(found)
            left[job.owner] -= 1
            advance(job, left[job.owner] == 0)
            if left[job.owner] == 0:
                when_done(job.owner)


@contextmanager
def _executor(processes: int) -> Iterator[ProcessPoolExecutor]:
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    known = set(multiprocessing.active_children())
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    # Workers are spawned: a forked child would inherit locks of other threads, and BLAS with its threads.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_begin)
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - known:
            child.terminate()
        raise
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _begin() -> None:
    """Prepare a worker: the parent handles Ctrl-C, and a worker ends when its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:  # A parent that is killed cannot stop its workers: they watch it themselves.

        def watch() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _shown(jobs: list[Call], show: bool | None) -> Iterator[Callable[[Call, bool], None]]:
    """Show how much of the work is done: a bar with the time that is left on a terminal, else lines."""
    from rich.console import Console
    from rich.progress import Progress

    console, started, is_over = Console(stderr=True, highlight=False), time.monotonic(), threading.Event()
    is_shown = console.is_terminal if show is None else show
    with Progress(console=console, disable=not is_shown) as progress:
        bar = progress.add_task("computing", total=sum(job.seconds for job in jobs))

        def tell() -> None:
            while not is_over.wait(TELL_EACH):
                share, took = progress.tasks[0].percentage / 100.0, time.monotonic() - started
                left = f"about {took / share - took:.0f} s are left" if share else "none is finished yet"
                console.print(f"{share:.0%} of the work is done after {took:.0f} s; {left}.")

        def advance(job: Call, is_last: bool) -> None:
            progress.advance(bar, job.seconds)
            if is_last:
                console.print(f"{job.owner}: done after {time.monotonic() - started:.0f} s")

        if not is_shown:
            threading.Thread(target=tell, daemon=True).start()
        try:
            yield advance
        finally:
            is_over.set()
