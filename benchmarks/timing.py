"""What the benchmarks share: turns, medians, threads, and the facts of the machine."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from statistics import median
from typing import Any

THREADS = ("PRGD_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def set_threads(threads: int) -> None:
    """Set the threads of prgd and BLAS; call this before NumPy is imported."""
    os.environ.update(dict.fromkeys(THREADS, str(threads)))


def in_turns(work: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each call, in ``rounds`` rounds after one that warms up and does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for k in range(rounds + 1):
        for name, call in work.items():
            start = time.perf_counter()
            call()
            if k:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(seconds: dict[str, list[float]], name: str, to: str) -> float:
    """Return the median over rounds of the time of one competitor over that of another."""
    return median(a / b for a, b in zip(seconds[name], seconds[to], strict=True))


def machine() -> dict[str, Any]:
    """Return what a time depends on beside the code."""
    found: dict[str, Any] = {"cores": os.cpu_count(), "system": platform.system()}
    found |= {"python": platform.python_version(), "load": round(os.getloadavg()[0], 1)}
    return found | {name: os.environ.get(name, "default") for name in THREADS}
