"""Watch one run of a first-order method: when its margin passes each target, and when to give it up."""

import math
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np

# a run younger than this is never given up
PATIENCE = 2.0


class Caller:
    """A stopping rule of `prgd.run` that hands over w and calls back at each step, as benchopt asks.

    It says stop if the answer is no, and after ``max_steps``.
    """

    def __init__(self, callback: Callable[[], bool], take: Callable[[Any], None], max_steps: int) -> None:
        self.callback, self.take, self.steps_left = callback, take, max_steps
        self.may_give_up = True
        self.is_over = False

    def begin_phase(self) -> None:
        """Go on counting: the steps of a warm-up are steps too."""

    def __call__(self, now: Any, certificate: Any, history: Any) -> Any:
        from prgd import Status

        # At w = 0 there is no direction yet, and the objective gives it the worst score.
        self.take(np.zeros(1) if certificate.w is None else certificate.w)
        self.steps_left -= 1
        self.is_over = not self.callback() or self.steps_left <= 0
        return Status.MAX_STEPS if self.is_over else None


class Watch:
    """A stopping rule of `prgd.run` that notes the time and the w at which each target is first met.

    The margins are those that the run computes anyway. A run is given up when a slope a quarter
    steeper than at present (log of the gap over log of the time) would not meet the next target in time.
    """

    def __init__(self, gamma_star: float, targets: list[float], limit: float) -> None:
        self.gamma_star, self.targets, self.limit = gamma_star, sorted(targets, reverse=True), limit
        self.marks: list[tuple[float, np.ndarray]] = []
        self.gave_up = ""
        self.may_give_up = True
        self.last: np.ndarray | None = None
        self._times: list[float] = []
        self._gaps: list[float] = []
        self._start = self._phase = time.perf_counter()

    def start(self) -> None:
        self._start = time.perf_counter()
        self.begin_phase()

    def begin_phase(self) -> None:
        """Judge the slope from here on, not over a warm-up."""
        self._phase = time.perf_counter()
        self._times, self._gaps = [], []

    @property
    def is_over(self) -> bool:
        return bool(self.gave_up) or len(self.marks) == len(self.targets)

    def __call__(self, now: Any, certificate: Any, history: Any) -> Any:
        from prgd import Status

        elapsed = time.perf_counter() - self._start
        gap = 1.0 - certificate.lower / self.gamma_star
        while len(self.marks) < len(self.targets) and gap <= self.targets[len(self.marks)]:
            self.marks.append((elapsed, certificate.w))
        self.last = certificate.w
        if len(self.marks) == len(self.targets):
            return Status.REACHED
        if elapsed > self.limit:
            self.gave_up = "limit"
            return Status.MAX_STEPS
        if self.may_give_up and self._is_hopeless(elapsed, gap):
            self.gave_up = "hopeless"
            return Status.STALLED
        return None

    def _is_hopeless(self, elapsed: float, gap: float) -> bool:
        age = elapsed - (self._phase - self._start)
        if self._times and age - self._times[-1] < 0.05:
            return False
        if math.isfinite(gap):
            self._times.append(age)
            self._gaps.append(gap)
        if age < PATIENCE or len(self._times) < 5:
            return False
        then = min(bisect_left(self._times, age / 2.0), len(self._times) - 2)
        slope = math.log(self._gaps[then] / gap) / math.log(age / self._times[then])
        at_limit = gap * (self.limit / elapsed) ** -(1.25 * slope + 0.05)
        return at_limit > self.targets[len(self.marks)]
