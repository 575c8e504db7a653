"""The rate of a run of the race: how fast its error falls at the end, beside what was published."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from prgd._types import Array
from prgd.claims import Finding, Verdict
from prgd.reproduce.curves import lasting_passage, span, where
from prgd.reproduce.published_rates import DUAL, MARGIN, RISK, SEPARATOR, Rate

CLOSE = 0.1  # a slope agrees with that of a published rate if it is smaller by no more than this
SHARE = 0.5  # a rate holds if it shows on this share of the runs that could show one
DECADE, HALF = 10.0, 2.0  # the tail of a run is its last decade of t, its end the last factor of 2
MIN_POINTS = 4
BRIEF = 20  # a run that meets the resolution within this many steps shows no rate
LEVELS = (1e-2, 1e-6, 1e-10)  # an exponential fall takes about as long from each of these to the next
SLOWER = 2.0  # the second fall may take this many times the steps of the first: t^-a takes 10^(4/a) times


class Run(NamedTuple):
    """One run: its errors at the recorded times, and the facts about it."""

    name: str  # of the set, with the seed
    curve: Any  # data frame with t, worst, upper, log_loss
    fact: Any  # row with gamma_star, floor, n, unit, separated, ended

    @property
    def is_brief(self) -> bool:
        """Whether the run met what can be resolved before a rate could show."""
        return self.fact.ended == "resolution" and float(self.curve.t.max()) <= BRIEF

    def points(self, quantity: str) -> tuple[Array, Array]:
        """Return times above 1, and the logarithm of a quantity there as far as it can be resolved."""
        curve = self.curve[self.curve.t > 1]
        if quantity == RISK:
            return curve.t.to_numpy(float), curve.log_loss.to_numpy(float)
        error = (curve.upper if quantity == DUAL else curve.worst).to_numpy(float)
        lost = np.flatnonzero(error <= self.fact.floor)
        last = int(lost[0]) if lost.size else error.size
        return curve.t.to_numpy(float)[:last], np.log(error[:last])


class Tail(NamedTuple):
    """Slopes of the logarithm of a quantity against log t, over the last decade and at the very end."""

    slope: float
    local: float
    expected: float  # those of the published rate over the same times; NaN if there is none
    expected_local: float


def runs_of(rows: Any, method: str) -> list[Run]:
    """Return the runs of a method, those that were not run left out."""
    found = []
    for (name, seed), some in where(rows, method=method).groupby(["set", "seed"], sort=False):
        fact = where(some, kind="run").iloc[0]
        if not str(fact.ended).startswith("not run"):
            found.append(Run(f"{name}, seed {seed:.0f}", where(some, kind="curve"), fact))
    return found


def _slope(x: Array, y: Array) -> float:
    if x.size < MIN_POINTS:
        return math.nan
    centred = x - x.mean()
    return float(-(centred @ y) / (centred @ centred))


def tail(run: Run, quantity: str = MARGIN, rate: Rate | None = None) -> Tail:
    """Return the slopes at the end of a run; NaN if too few points can be resolved or nothing separates."""
    t, y = run.points(quantity)
    slopes = []
    for values in (y, rate.log(t) if rate else np.full_like(y, math.nan)):
        for span in (DECADE, HALF):
            used = t >= t[-1] / span if t.size else t > 0
            is_usable = quantity == RISK or bool((y[used] < 0.0).all())  # a margin error of 1 does not separate
            slopes.append(_slope(np.log(t[used]), values[used]) if is_usable else math.nan)
    return Tail(*slopes)


class Fall(NamedTuple):
    """Steps from each of the three levels to the next; -1 where the last is not reached."""

    first: int
    second: int

    @property
    def is_reached(self) -> bool:
        """Whether the error came below the last level, for good."""
        return self.second >= 0

    @property
    def is_exponential(self) -> bool:
        """Whether later decimals take no more steps than an exponential or faster fall allows."""
        return self.is_reached and self.second <= SLOWER * max(self.first, 1)


def fall(run: Run) -> Fall:
    """Return how many steps the error takes between the three levels."""
    error, t = run.curve.worst.to_numpy(float), run.curve.t.to_numpy()
    places = [lasting_passage(error, max(level, run.fact.floor)) for level in LEVELS]
    if min(places) < 0 or run.fact.floor > LEVELS[-1]:
        return Fall(-1, -1)
    high, middle, low = (int(t[k]) for k in places)
    return Fall(middle - high, low - middle)


def answers(run: Run, rate: Rate) -> bool | None:
    """Return whether a run agrees with a published rate; None if it does not say."""
    fact = run.fact
    gamma_squared = float(fact.gamma_star) ** 2 * float(fact.unit)  # of rows of norm at most 1
    if rate.quantity == SEPARATOR:
        # From w = 0 some iterate separates within (1 + 2 log(n) / eta) / gamma^2 steps, by `AdaptiveGD`'s notes.
        limit = (1.0 + 2.0 * math.log(float(fact.n)) / float(fact.eta)) / gamma_squared
        return bool(0 < fact.separated <= limit) if fact.ended != "diverged" else False
    if math.isfinite(rate.constant):
        bound = rate.constant / (gamma_squared * np.sqrt(run.curve.t.to_numpy(float)))
        if (run.curve.worst.to_numpy(float) > bound * (1.0 + 1e-9) + fact.floor).any():
            return False
    if rate.is_exponential:
        found = fall(run)
        return found.is_exponential if found.is_reached else None
    found_tail = tail(run, rate.quantity, rate)
    steep = found_tail.slope >= found_tail.expected - CLOSE
    steep_at_end = found_tail.local >= found_tail.expected_local - CLOSE
    if math.isnan(found_tail.slope) or math.isnan(found_tail.local) or steep != steep_at_end:
        return None
    return steep


class Tally(NamedTuple):
    """What the runs of a method say about a rate, by their names."""

    agree: list[str]
    disagree: list[str]
    silent: list[str]
    brief: list[str]

    @property
    def n(self) -> int:
        """How many runs could show a rate."""
        return len(self.agree) + len(self.disagree) + len(self.silent)


def tally(rows: Any, method: str, rate: Rate) -> Tally:
    """Sort the runs of a method by what they say about a rate."""
    found = Tally([], [], [], [])
    for run in runs_of(rows, method):
        if run.is_brief and rate.quantity != SEPARATOR:
            found.brief.append(run.name)
            continue
        said = answers(run, rate)
        (found.silent if said is None else found.agree if said else found.disagree).append(run.name)
    return found


def judged(rows: Any, settings: Any, method: str, rate: Rate) -> Finding:
    """Return what the race says about a published rate."""
    said, slope = tally(rows, method, rate), spread(rows, method, rate)
    measured = (
        f"{len(said.agree)} of {said.n} runs agree, {len(said.disagree)} disagree, {len(said.silent)} do not "
        f"say{f', {len(said.brief)} more end at once' if said.brief else ''}. {slope}"
    )
    setting = f"{settings.steps:,} steps on {', '.join(dict.fromkeys(_sets(rows, method)))}."
    common: dict[str, Any] = {
        "setting": setting,
        "given_in": rate.source,
        "would_change": _would_change(rate),
        "figures": {"agree": len(said.agree), "disagree": len(said.disagree), "silent": len(said.silent)},
    }
    if rate.not_ours or not said.n:
        reason = rate.not_ours or "No run is long enough to show a rate."
        return Finding(Verdict.NOT_DECIDED, f"{measured} {reason}", **common)
    ends = (len(said.agree) / said.n, (said.n - len(said.disagree)) / said.n)
    needed = SHARE if rate.is_asymptotic else 1.0
    slower = "; ".join(said.disagree[:4]) + (" and others" if len(said.disagree) > 4 else "")
    return Finding(
        (ends, ">=", needed),
        measured,
        f"It falls more slowly at this horizon on {slower}." if said.disagree else "",
        what="share of runs",
        not_given="the step from which on its asymptotic rate must show" if rate.is_asymptotic else "",
        **common,
    )


def _sets(rows: Any, method: str) -> Iterator[str]:
    yield from where(rows, method=method, kind="run")["set"]


def _would_change(rate: Rate) -> str:
    if rate.not_ours:
        return "Runs of the algorithm that the theorem is about."
    if not rate.is_asymptotic:
        return "One run beyond the bound, which holds at every step."
    return "A slower fall, on most runs, at ever longer horizons."


def spread(rows: Any, method: str, rate: Rate | None) -> str:
    """Return the fitted rate of a method in a sentence or two."""
    runs = [run for run in runs_of(rows, method) if not run.is_brief]
    quantity = rate.quantity if rate and rate.quantity == RISK else MARGIN
    parts = []
    if rate is not None and rate.quantity == SEPARATOR:
        found = [float(r.fact.separated) * float(r.fact.gamma_star) ** 2 * float(r.fact.unit) for r in runs]
        parts.append(f"A separator after {span(found, '.2g')} times 1 / gamma_star^2 steps.")
    if slopes := slopes_of(runs, quantity):
        last, end = (np.array([getattr(s, name) for s in slopes]) for name in ("slope", "local"))
        parts.append(
            f"The {quantity} falls like t^-a over the last decade of t, with a = {np.median(last):.2f} in the "
            f"median ({last.min():.2f} to {last.max():.2f}), and {np.nanmedian(end):.2f} at the end."
        )
    if fast := exponential(runs):
        each = span([round((f.first + f.second) / 8.0, 1) for f in fast], ",.3g")
        parts.append(f"{len(fast)} of {len(runs)} runs fall exponentially, a decimal in {each} steps.")
    return " ".join(parts)


def slopes_of(runs: list[Run], quantity: str) -> list[Tail]:
    """Return the slopes of the runs that have one and do not fall exponentially."""
    found = [tail(run, quantity) for run in runs if quantity == RISK or not fall(run).is_exponential]
    return [each for each in found if not math.isnan(each.slope)]


def exponential(runs: list[Run]) -> list[Fall]:
    """Return the falls of the runs whose error falls exponentially or faster."""
    return [found for run in runs if (found := fall(run)).is_exponential]
