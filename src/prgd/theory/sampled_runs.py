"""Runs seen at chosen times: the iterates there, and times that are evenly spaced in log t."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.algorithms.base import State
from prgd.certificate import Certificate
from prgd.loop import run
from prgd.problem import Problem
from prgd.result import History, Record, Status
from prgd.stopping import any_of


def log_times(last: int, count: int = 300, first: int = 2) -> npt.NDArray[np.int64]:
    """Return about ``count`` integer times from first to last, evenly spaced in log t.

    Examples
    --------
    >>> log_times(100, count=5).tolist()
    [2, 5, 14, 38, 100]
    """
    return np.unique(np.geomspace(first, last, count).round().astype(np.int64))


@dataclass
class EndWhen:
    """Ends a run at the first state for which a condition is true: an observer and a stopping rule.

    Pass ``end.observe`` as observer and ``end`` as stopping rule; ``is_met`` says whether it ended the run.
    """

    condition: Callable[[State], bool]
    is_met: bool = False

    def observe(self, state: State, record: Record, certificate: Certificate) -> None:
        """Ask the condition."""
        self.is_met = self.condition(state)

    def __call__(self, now: Record, certificate: Certificate, history: History) -> Status | None:
        """Return REACHED if the condition is true for the state that was observed last."""
        return Status.REACHED if self.is_met else None


def iterates(
    problem: Problem,
    algorithm: Any,
    times: Sequence[int] | npt.NDArray[np.int64],
    w0: Any = None,
    *,
    until: Callable[[Array], bool] | None = None,
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
    wanted, found = frozenset(int(t) for t in times), []

    def is_enough(state: State) -> bool:
        if state.t not in wanted:
            return False
        found.append(state.w)
        return until is not None and until(state.w)

    end = EndWhen(is_enough)
    run(problem, algorithm, w0, stop=any_of(end, max(wanted)), record=None, observe=end.observe)
    return np.array(found)
