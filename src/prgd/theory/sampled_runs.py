"""Runs seen at chosen times: the iterates there, and times that are evenly spaced in log t."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.loop import run
from prgd.problem import Problem


def log_times(last: int, count: int = 300, first: int = 2) -> npt.NDArray[np.int64]:
    """Return about ``count`` integer times from first to last, evenly spaced in log t.

    Examples
    --------
    >>> log_times(100, count=5).tolist()
    [2, 5, 14, 38, 100]
    """
    return np.unique(np.geomspace(first, last, count).round().astype(np.int64))


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
    result = run(problem, algorithm, w0, stop=0)
    found = []
    for t in times:
        result = run(problem, algorithm, resume=result, stop=int(t), record=2**62)
        found.append(result.w)
        if until is not None and until(result.w):
            break
    return np.array(found)
