"""The threads of this process: how many, and how work is given to them; and the memory of the machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec
from typing import Any


def default_threads() -> int:
    """Return PRGD_NUM_THREADS, else the number of cores that this process may use."""
    given = os.environ.get("PRGD_NUM_THREADS")
    if given is not None:
        if not given.isdigit() or int(given) < 1:
            raise ValueError(f"PRGD_NUM_THREADS must be a positive integer; got {given!r}.")
        return int(given)
    return cores()


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover - systems without affinity


def physical_memory() -> float:
    """Return the bytes of memory of this machine, infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # pragma: no cover - systems without sysconf
        return float("inf")


@cache
def pool(workers: int, pid: int) -> ThreadPoolExecutor:
    """Return the shared threads of process ``pid``; threads do not survive a fork, so a child has its own."""
    return ThreadPoolExecutor(workers, thread_name_prefix="prgd")


def each(work: Callable[[int], Any], threads: int) -> list[Any]:
    """Return ``work(k)`` for each thread k; the calling thread takes the last k instead of waiting."""
    if threads == 1:
        return [work(0)]
    others = [pool(threads - 1, os.getpid()).submit(work, k) for k in range(threads - 1)]
    mine = work(threads - 1)
    return [*(other.result() for other in others), mine]


def single_blas() -> AbstractContextManager[Any]:
    """Let BLAS use one thread while Python's threads call it: its own threads would wait for each other."""
    if find_spec("threadpoolctl") is None:  # it comes with scikit-learn
        return nullcontext()
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits
