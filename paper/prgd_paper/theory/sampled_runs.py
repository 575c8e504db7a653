"""Runs seen at chosen times: the iterates there, and times that are evenly spaced in log t."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.algorithms.base import State, states
from prgd.core.types import Array
from prgd.problem import Problem
from prgd.problem.certificate import Certificate
from prgd.running.history import History, Record, Status, any_of
from prgd.running.loop import run
from prgd.running.result import Result

Until = Callable[[Array], bool]  # whether a run ends at this w
Times = Sequence[int] | npt.NDArray[np.int64]


def log_times(last: int, count: int = 300, first: int = 2) -> npt.NDArray[np.int64]:
    """Return about ``count`` integer times from first to last, evenly spaced in log t.

    Examples
    --------
    >>> log_times(100, count=5).tolist()
    [2, 5, 14, 38, 100]
    """
    return np.unique(np.geomspace(first, last, count).round().astype(np.int64))


def run_until(
    problem: Problem, algorithm: Any, condition: Callable[[State], bool], max_steps: int, w0: Any = None
) -> Result:
    """Run an algorithm until a condition on its state is true, which ends it with REACHED.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.6))
    >>> run_until(problem, prgd.NGD(), lambda state: state.w[0] > 5.0, 100).t
    9
    """
    is_met = False

    def observe(state: State, record: Record, certificate: Certificate) -> None:
        nonlocal is_met
        is_met = condition(state)

    def stop(now: Record, certificate: Certificate, history: History) -> Status | None:
        return Status.REACHED if is_met else None

    return run(problem, algorithm, w0, stop=any_of(stop, max_steps), record=None, observe=observe)


def iterates(
    problem: Problem, algorithm: Any, times: Times, w0: Any = None, *, until: Until | None = None
) -> Array:
    """Run an algorithm and return its iterates at some times.

    Parameters
    ----------
    problem : Problem
    algorithm : Algorithm, e.g. `prgd.NGD`.
    times : increasing integers of at least 0.
    w0 : array of shape (d,), optional
    until : callable, optional
        The run ends at the first of the times at which ``until(w)`` is true.

    Returns
    -------
    ndarray of shape (m, d)
        One row for each time that was reached.

    Examples
    --------
    >>> import prgd
    >>> iterates(prgd.Problem(*prgd.datasets.toy(0.6)), prgd.NGD(), [0, 1]).round(3).tolist()
    [[0.0, 0.0], [0.6, 0.267]]
    """
    found: list[Array] = []
    walk = states(problem, algorithm, None if w0 is None else np.array(w0, dtype=np.float64))
    for t in times:
        state = next(state for state in walk if state.t >= t)
        found.append(state.w)
        if until is not None and until(state.w):
            break
    return np.array(found)
