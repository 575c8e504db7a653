"""Status, Record, History and the rules that stop a run: frozen callables that return a `Status`, or None."""

from __future__ import annotations

import csv
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from prgd.core.checks import check_integer, check_positive
from prgd.core.errors import imported
from prgd.core.files import atomic_write
from prgd.core.types import Array, Indices, Mask
from prgd.problem.certificate import Certificate

ROUNDING = 1e-9  # a relative gap that rounding explains


class Status(Enum):
    """Why a run ended; the value is the sentence that a user reads."""

    MAX_STEPS = "The limit on steps was reached; both bounds hold, and further steps may tighten them."
    MAX_PASSES = (
        "The limit on passes over the data was reached before the relative gap fell to the tolerance; "
        "both bounds hold."
    )
    MAX_SECONDS = (
        "The limit on seconds was reached before the relative gap fell to the tolerance; both bounds hold."
    )
    CERTIFIED = "Certified: the relative gap between the two bounds on the margin is within the tolerance."
    REACHED = "The margin is within the tolerance of the given maximum, gamma_star."
    STALLED = (
        "The bounds stopped improving before the relative gap fell to the tolerance; both hold, but the "
        "margin is not proven to be the maximum."
    )
    CONVERGED = "Converged: the bounds stopped improving at a relative gap of rounding; both hold."
    NOT_SEPARABLE = "The classes are not linearly separable; the dual weights prove it."
    QUASI_SEPARABLE = (
        "The classes are only quasi-separable, which is proven: a linear classifier can have no row on its "
        "wrong side, but then some rows lie on the boundary between classes."
    )
    DIVERGED = (
        "The next iterate is infinite or not a number; the last finite one is kept. Use a smaller step size "
        "(eta); if this is step 0, w0 may be 0 and the algorithm divide by its norm: pass a warm start as w0."
    )
    INTERRUPTED = "Interrupted; the state after the last complete step is kept."

    def __str__(self) -> str:
        return self.value


class Record(NamedTuple):
    """One row of the history of a run. Margins and bounds are in the units of the data.

    ``gap`` is the best certified relative gap up to t; ``margin`` is NaN at w = 0, and ``R_k`` is NaN
    for algorithms without a radius.
    """

    t: int
    phase: int
    R_k: float
    log_loss: float
    margin: float
    upper_bound: float
    gap: float


class Round(NamedTuple):
    """One row of the history of `max_margin`: the bounds after a round, and what it took to get there."""

    passes: float
    margin: float
    upper_bound: float
    gap: float
    working_set: int
    seconds: float


class History:
    """The recorded rows of a run, in order: named tuples of one kind, such as `Record`.

    Attributes
    ----------
    rows : list of named tuples
        ``history["margin"]`` is NaN where w = 0, as at t = 0 of a run without ``w0``: running maxima are
        ``np.fmax.accumulate``, which passes over NaN.
    recent_gaps : deque of float
        The certified gap after each of the last steps, recorded or not, as far back as a stopping rule looks.
    """

    def __init__(
        self,
        rows: Sequence[Any] = (),
        columns: Sequence[str] = Record._fields,
        recent_gaps: Sequence[float] = (),
        window: int = 0,
    ) -> None:
        self._rows: list[Any] = list(rows)
        self._later: list[list[Any]] = []  # columns of further rows: lists, or arrays
        self.columns = tuple(columns)
        self.recent_gaps = deque(recent_gaps, maxlen=window + 1)

    @property
    def rows(self) -> list[Any]:
        """All rows; those that were added as columns are made when they are first asked for."""
        while self._later:
            columns = (c if isinstance(c, list) else c.tolist() for c in self._later.pop(0))
            self._rows += map(Record, *columns)
        return self._rows

    @property
    def last_t(self) -> int:
        """The step of the last row; -1 if there is none."""
        if self._later:
            return int(self._later[-1][0][-1])
        return int(self._rows[-1].t) if self._rows else -1

    def add(self, columns: list[Any]) -> None:
        """Add rows, given as columns."""
        if len(columns[0]):
            self._later.append(columns)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"History({len(self)} rows of {', '.join(self.columns)})"

    def __getitem__(self, column: str) -> Array:
        """Return one column as an array of floats."""
        k = self.columns.index(column)
        return np.array([row[k] for row in self.rows], dtype=np.float64)

    def ending_with(self, row: Any) -> History:
        """Return these rows and, unless it is the last of them already, another one."""
        gaps, window = list(self.recent_gaps), (self.recent_gaps.maxlen or 1) - 1
        found = History(self._rows, self.columns, gaps, window)
        found._later = list(self._later)
        if self.last_t < row.t:
            found.add([[number] for number in row])
        return found

    def to_dataframe(self) -> Any:
        """Return the rows as a pandas data frame."""
        return imported("pandas", "to_dataframe", "report").DataFrame(self.rows, columns=self.columns)

    def to_csv(self, path: str | Path) -> None:
        """Write the rows as CSV with a header; numbers are written so that they read back exactly."""
        with atomic_write(path, "w") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(self.rows)


class Columns(NamedTuple):
    """Numbers of consecutive steps, and the certified gaps of the steps before them."""

    t: Indices
    margin: Array
    gap: Array
    gaps_before: Array


class Stop(Protocol):
    """A rule asked after each step.

    A rule that compares with earlier steps has an attribute ``window``: so many steps back, `prgd.run` keeps
    the certified gap of every step in ``history.recent_gaps``, however few rows are recorded. A rule that has
    ``met(columns)`` too, which says of `Columns` at which steps it stops, is asked about many steps at once.
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

    def met(self, columns: Columns) -> Mask:
        """Say at which steps t has come."""
        return np.asarray(columns.t >= self.t)


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

    def met(self, columns: Columns) -> Mask:
        """Say at which steps the gap is small enough."""
        return np.asarray(columns.gap <= self.tol)


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

    def met(self, columns: Columns) -> Mask:
        """Say at which steps the margin is close enough."""
        return np.asarray(self.gamma_star - columns.margin <= self.tol)


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
        """Return STALLED when the gap stands still, CONVERGED if rounding explains what is left of it."""
        gaps = history.recent_gaps
        if len(gaps) <= self.steps:
            return None
        then = gaps[-1 - self.steps]
        if not abs(now.gap - then) < self.min_decrease * then:
            return None
        return Status.CONVERGED if now.gap <= ROUNDING else Status.STALLED

    def met(self, columns: Columns) -> Mask:
        """Say at which steps the gap stands still."""
        gaps = np.concatenate([columns.gaps_before, columns.gap])
        then = np.full(gaps.size, math.nan)
        then[self.steps :] = gaps[: -self.steps]
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(gaps - then) < self.min_decrease * then)[columns.gaps_before.size :]


@dataclass(frozen=True)
class AnyOf:
    """Stop when the first of several rules says so."""

    rules: tuple[Stop, ...]

    @property
    def window(self) -> int:
        """How many steps back any of the rules looks."""
        return max((getattr(rule, "window", 0) for rule in self.rules), default=0)

    @property
    def last_step(self) -> float:
        """The step at which a limit on steps ends the run; infinite without one."""
        return min((rule.t for rule in self.rules if isinstance(rule, MaxSteps)), default=math.inf)

    @property
    def is_limit(self) -> bool:
        """Whether all rules are limits on steps."""
        return all(isinstance(rule, MaxSteps) for rule in self.rules)

    @property
    def is_uncertified(self) -> bool:
        """Whether no rule looks at the certificate or the gaps."""
        return all(isinstance(rule, (MaxSteps, MarginError)) for rule in self.rules)

    @property
    def has_met(self) -> bool:
        """Whether all rules can be asked for many steps at once."""
        return all(hasattr(rule, "met") for rule in self.rules)

    def met(self, columns: Columns) -> Mask:
        """Say at which steps a rule stops."""
        found = [cast(Any, rule).met(columns) for rule in self.rules]
        return np.logical_or.reduce(found) if found else np.zeros(columns.t.size, bool)

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
    flat = (rule.rules if isinstance(rule, AnyOf) else (_as_rule(rule),) for rule in rules)
    return AnyOf(tuple(chain.from_iterable(flat)))


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
