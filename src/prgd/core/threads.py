"""The threads of this process: how many, how work is given to them, and attributes that need no lock.

The memory of the machine is here too, and the seconds that work may take, however deep its calls go.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache, cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

_end: ContextVar[float] = ContextVar("_end", default=math.inf)  # when the time of `limited` is spent
_inside = threading.local()  # whether a thread is at work for `each` already
SMALL_FLOPS = 2.0**25  # multiplications of a matrix product that one thread does in about 2 ms


def threads_of(n_jobs: Any) -> int:
    """Return the number of threads that was asked for; None stands for `default_threads`."""
    if n_jobs is None:
        return default_threads()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs < 1:
        raise ValueError(f"n_jobs must be a positive integer, or None for all cores; got {n_jobs!r}.")
    return int(n_jobs)


def default_threads() -> int:
    """Return PRGD_NUM_THREADS, else the number of cores that this process may use and others leave free."""
    given = os.environ.get("PRGD_NUM_THREADS")
    if given is not None:
        if not given.isdigit() or int(given) < 1:
            raise ValueError(f"PRGD_NUM_THREADS must be a positive integer; got {given!r}.")
        return int(given)
    return max(1, cores() - _others())


def _others() -> int:
    """Return how many threads of others run or wait for a core, now and in the last minute; 0 if not known.

    Threads that share a core wait for each other: with others on both of two cores, two threads of BLAS took
    twice the time of one, and twice its work.
    """
    try:
        load, _, _, running, _ = Path("/proc/loadavg").read_text(encoding="ascii").split()
        return max(0, min(int(float(load)), int(running.split("/")[0]) - 1))
    except (OSError, ValueError):  # pragma: no cover - systems without /proc
        return 0


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
    """Return ``work(k)`` for each thread k; the calling thread takes the last k instead of waiting.

    Work that calls `each` itself does all parts of it in turn: threads that wait for each other would wait
    for ever.
    """
    if threads == 1 or getattr(_inside, "each", False):
        return [work(k) for k in range(threads)]

    def part(k: int) -> Any:
        _inside.each = True
        try:
            return work(k)
        finally:
            _inside.each = False

    others = [pool(threads - 1, os.getpid()).submit(part, k) for k in range(threads - 1)]
    mine = part(threads - 1)
    return [*(other.result() for other in others), mine]


@cache
def _blas(pid: int) -> Any:
    """Return the handle of the BLAS libraries of a process."""
    import scipy.linalg  # noqa: F401 - a BLAS of its own, which must be there to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def single_blas(flops: float = 0.0) -> AbstractContextManager[Any]:
    """Let BLAS use one thread while Python's threads call it, or while its products are small.

    The threads of BLAS wait for each other by spinning, many times in one least-squares solution: on small
    matrices, and cores that others use too, that took ten times as long as the solution itself. If the
    largest product takes more than `SMALL_FLOPS` multiplications, nothing is changed.
    """
    blas = _blas(os.getpid())
    # To set and restore the limit takes a millisecond, to read it far less.
    if flops > SMALL_FLOPS or all(library.num_threads == 1 for library in blas.lib_controllers):
        return nullcontext()
    # The limit is the process's; of several threads that ask for it, threadpoolctl lets one set it.
    return cast(AbstractContextManager[Any], blas.limit(limits=1))


class TimeSpentError(KeyboardInterrupt):
    """The seconds of a `limited` block are spent: work ends as after Ctrl-C, with what is proven by then."""


def time_left() -> float:
    """Return the seconds that are left; infinite without a limit."""
    return _end.get() - time.perf_counter()


def check_time(nanoseconds: float = 0.0) -> None:
    """Raise `TimeSpentError` if no time is left for work that takes about so long."""
    if time_left() < 1e-9 * nanoseconds:
        raise TimeSpentError


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End the work inside after so many seconds; the error goes on if a limit around this one is met, too.

    Examples
    --------
    >>> with limited(0.0):
    ...     check_time()
    ...     print("never")
    """
    before = _end.get()
    token = _end.set(min(before, time.perf_counter() + seconds))
    try:
        yield
    except TimeSpentError:
        if before <= _end.get():
            raise
    finally:
        _end.reset(token)


if TYPE_CHECKING:
    lazy = cached_property
else:

    class lazy:  # noqa: N801 - used as a decorator, like property
        """A property computed once. `functools.cached_property` takes a lock on Python 3.11.

        That lock was a third of the time of a step on a small problem; here two threads may compute the same
        value, which does no harm.

        Examples
        --------
        >>> class Square:
        ...     @lazy
        ...     def area(self):
        ...         return 4.0
        >>> Square().area
        4.0
        """

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: object | None, owner: type) -> Any:
            """Compute the value, and store it where the next access finds it without coming here."""
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value
