"""Stopping rules: frozen callables that return a `Status`, or None to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from prgd.certificate import Certificate
from prgd.checks import check_integer, check_positive
from prgd.result import History, Record, Status


class Stop(Protocol):
    """A rule asked after each step."""

    def __call__(self, now: Record, certificate: Certificate, history: History) -> Status | None:
        """Return why to stop, or None."""
        ...


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
    """Stop when the certified relative gap is at most ``tol``."""

    tol: float = 1e-6

    def __post_init__(self) -> None:
        check_positive("tol of Gap", self.tol)

    def __call__(self, now: Record, certificate: Certificate, history: History) -> Status | None:
        """Return CERTIFIED when the gap is small enough."""
        return Status.CERTIFIED if certificate.gap <= self.tol else None


@dataclass(frozen=True)
class MarginError:
    """Stop when ``gamma_star - gamma(w(t))`` is at most ``tol``; for problems whose optimum is known."""

    gamma_star: float
    tol: float

    def __post_init__(self) -> None:
        check_positive("tol of MarginError", self.tol)

    def __call__(self, now: Record, certificate: Certificate, history: History) -> Status | None:
        """Return REACHED when the margin is close enough."""
        return Status.REACHED if self.gamma_star - now.margin <= self.tol else None


@dataclass(frozen=True)
class Stalled:
    """Stop when the certified gap shrank by less than the share ``least`` over ``records`` rows."""

    records: int = 1000
    least: float = 1e-3

    def __post_init__(self) -> None:
        check_integer("records of Stalled", self.records, minimum=1)
        check_positive("least of Stalled", self.least)

    def __call__(self, now: Record, certificate: Certificate, history: History) -> Status | None:
        """Return STALLED when the gap stands still."""
        if len(history) <= self.records:
            return None
        before = history.rows[-1 - self.records].gap
        return Status.STALLED if now.gap > (1.0 - self.least) * before else None


@dataclass(frozen=True)
class AnyOf:
    """Stop when the first of several rules says so."""

    rules: tuple[Stop, ...]

    def __call__(self, now: Record, certificate: Certificate, history: History) -> Status | None:
        """Return the first status."""
        for rule in self.rules:
            if (status := rule(now, certificate, history)) is not None:
                return status
        return None


def any_of(*rules: Stop | int) -> AnyOf:
    """Combine rules; a whole number is `MaxSteps`.

    Examples
    --------
    >>> any_of(Gap(1e-6), 1000)
    AnyOf(rules=(Gap(tol=1e-06), MaxSteps(t=1000)))
    """
    return AnyOf(tuple(MaxSteps(rule) if isinstance(rule, int) else rule for rule in rules))
