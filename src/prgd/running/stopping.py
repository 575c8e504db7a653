"""Stopping rules: frozen callables that return a `Status`, or None to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from prgd.core.checks import check_integer, check_positive
from prgd.problem.certificate import Certificate
from prgd.running.history import History, Record, Status


class Stop(Protocol):
    """A rule asked after each step.

    A rule that compares with earlier steps has an attribute ``window``: so many steps back, `prgd.run` keeps
    the certified gap of every step in ``history.recent_gaps``, however few rows are recorded.
    """

    def __call__(self, now: Record, certificate: Certificate, history: History) -> Status | None:
        """Return why to stop, or None."""


@dataclass(frozen=True)
class MaxSteps:
    """Stop at step t, counted from the start of the algorithm, resumed parts included."""

    t: int

    def __post_init__(self) -> None:
        check_integer("MaxSteps", self.t, minimum=0)

    def __call__(self, now: Record, certificate: Certificate, history: History) -> Status | None:
        """Return MAX_STEPS at step t."""
        return Status.MAX_STEPS if now.t >= self.t else None


@dataclass(frozen=True)
class Gap:
    r"""Stop when the certified relative gap is at most ``tol``.

    .. math:: (\overline\gamma - \underline\gamma) / \overline\gamma \le \mathrm{tol}
    """

    tol: float = 1e-6

    def __post_init__(self) -> None:
        check_positive("tol of Gap", self.tol)

    def __call__(self, now: Record, certificate: Certificate, history: History) -> Status | None:
        """Return CERTIFIED when the gap is small enough."""
        return Status.CERTIFIED if certificate.gap <= self.tol else None


@dataclass(frozen=True)
class MarginError:
    r"""Stop when ``gamma_star - gamma(w(t))`` is at most ``tol``; for problems whose optimum is known.

    .. math:: \gamma^\star - \gamma(w(t)) \le \mathrm{tol}
    """

    gamma_star: float
    tol: float

    def __post_init__(self) -> None:
        check_positive("tol of MarginError", self.tol)

    def __call__(self, now: Record, certificate: Certificate, history: History) -> Status | None:
        """Return REACHED when the margin is close enough."""
        return Status.REACHED if self.gamma_star - now.margin <= self.tol else None


@dataclass(frozen=True)
class Stalled:
    """Stop when the certified gap changed by less than the fraction ``min_decrease`` over ``steps`` steps.

    The gap grows as long as no iterate separates the classes and the upper bound falls: that is no stall.
    """

    steps: int = 1000
    min_decrease: float = 1e-3

    def __post_init__(self) -> None:
        check_integer("steps of Stalled", self.steps, minimum=1)
        check_positive("min_decrease of Stalled", self.min_decrease)

    @property
    def window(self) -> int:
        """How many steps back this rule looks."""
        return self.steps

    def __call__(self, now: Record, certificate: Certificate, history: History) -> Status | None:
        """Return STALLED when the gap stands still."""
        gaps = history.recent_gaps
        if len(gaps) <= self.steps:
            return None
        then = gaps[-1 - self.steps]
        return Status.STALLED if abs(now.gap - then) < self.min_decrease * then else None


@dataclass(frozen=True)
class AnyOf:
    """Stop when the first of several rules says so."""

    rules: tuple[Stop, ...]

    @property
    def window(self) -> int:
        """How many steps back any of the rules looks."""
        return max((getattr(rule, "window", 0) for rule in self.rules), default=0)

    def __call__(self, now: Record, certificate: Certificate, history: History) -> Status | None:
        """Return the first status."""
        for rule in self.rules:
            if (status := rule(now, certificate, history)) is not None:
                return status
        return None


def any_of(*rules: Stop | int) -> AnyOf:
    """Combine rules; an integer is `MaxSteps`.

    Examples
    --------
    >>> any_of(Gap(1e-6), 1000)
    AnyOf(rules=(Gap(tol=1e-06), MaxSteps(t=1000)))
    """
    return AnyOf(tuple(_as_rule(rule) for rule in rules))


def _as_rule(rule: Any) -> Stop:
    if isinstance(rule, (int, np.integer)) and not isinstance(rule, bool):
        return MaxSteps(int(rule))
    if isinstance(rule, type) or not callable(rule):
        shown = rule.__name__ if isinstance(rule, type) else repr(rule)
        raise TypeError(
            "stop must be an integer, the number of steps, or a rule such as prgd.Gap(1e-6), of which "
            f"prgd.any_of combines several; got {shown}."
        )
    return cast(Stop, rule)
