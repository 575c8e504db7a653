"""The rate of a run of the race: how fast its error falls at the end, beside what was published."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array
from prgd_paper.claims import Finding, Judgement
from prgd_paper.reproduce.curves import lasting_passage, span, where
from prgd_paper.studies._published_rates import DUAL, MARGIN, RISK, SEPARATOR, Rate

CLOSE = 0.1  # a slope agrees with that of a published rate if it is smaller by no more than this
DECADE, HALF = 10.0, 2.0  # the tail of a run is its last decade of t, its end the last factor of 2
MIN_POINTS = 4
BRIEF = 20  # a run that meets the resolution within this many steps shows no rate
LEVELS = (1e-2, 1e-6, 1e-10)  # an exponential fall takes about as long from each of these to the next
SLOWER = 2.0  # the second fall may take this many times the steps of the first: t^-a takes 10^(4/a) times


FACTS = ["gamma_star", "unit", "floor", "n", "eta", "separated", "ended"]


class RaceRun(NamedTuple):
    """One run of a method: its errors at the recorded times, and the facts about it.

    ``worst`` is the largest margin error since the time before, ``upper`` the error of the best bound.
    """

    set: str
    seed: int
    t: Array
    worst: Array
    upper: Array
    log_loss: Array
    gamma_squared: float  # the square of the largest margin, for rows of norm at most 1
    floor: float  # the smallest error that can be resolved
    n: float
    eta: float
    separated: float
    ended: str

    @property
    def name(self) -> str:
        """The set and the seed."""
        return f"{self.set} (seed {self.seed})"

    @property
    def is_brief(self) -> bool:
        """Whether the run met what can be resolved before a rate could show."""
        return self.ended == "resolution" and float(self.t[-1]) <= BRIEF

    def points(self, quantity: str) -> tuple[Array, Array]:
        """Return times above 1, and the logarithm of a quantity there as far as it can be resolved."""
        later = self.t > 1.0
        if quantity == RISK:
            return self.t[later], self.log_loss[later]
        error = (self.upper if quantity == DUAL else self.worst)[later]
        lost = np.flatnonzero(error <= self.floor)
        last = int(lost[0]) if lost.size else error.size
        return self.t[later][:last], np.log(error[:last])


class Tail(NamedTuple):
    """Slopes of the logarithm of a quantity against log t, over the last decade and at the very end."""

    slope: float
    local: float
    expected: float  # those of the published rate over the same times; NaN if there is none
    expected_local: float


def races(rows: Any) -> dict[str, list[RaceRun]]:
    """Return the runs of each method; a method that could not be run has none."""
    found: dict[str, list[RaceRun]] = {method: [] for method in rows.method.unique()}
    keys = ["method", "set", "seed"]
    facts = {fact[:3]: fact[3:] for fact in where(rows, kind="run")[[*keys, *FACTS]].itertuples(index=False)}
    columns = ["t", "worst", "upper", "log_loss"]
    for key, curve in where(rows, kind="curve")[[*keys, *columns]].groupby(keys, sort=False):
        method, name, seed = key
        gamma_star, unit, floor, n, eta, separated, ended = facts[key]
        squared = float(gamma_star) ** 2 * float(unit)
        t, worst, upper, log_loss = curve[columns].to_numpy(float).T
        run = RaceRun(name, int(seed), t, worst, upper, log_loss, squared, floor, n, eta, separated, ended)
        found[method].append(run)
    return found


def runs_of(rows: Any, method: str) -> list[RaceRun]:
    """Return the runs of one method."""
    return races(where(rows, method=method)).get(method, [])


def long_enough(runs: list[RaceRun]) -> list[RaceRun]:
    """Return the runs that could show a rate."""
    return [run for run in runs if not run.is_brief]


def _slope(x: Array, y: Array) -> float:
    if x.size < MIN_POINTS:
        return math.nan
    centred = x - x.mean()
    return float(-(centred @ y) / (centred @ centred))


def tail(run: RaceRun, quantity: str = MARGIN, rate: Rate | None = None) -> Tail:
    """Return the slopes at the end of a run; NaN if too few points can be resolved or nothing separates."""
    t, y = run.points(quantity)
    slopes = []
    for values in (y, rate.log(t) if rate else np.full_like(y, math.nan)):
        for length in (DECADE, HALF):
            used = t >= t[-1] / length if t.size else t > 0
            # With a margin error of 1 or more w does not separate yet: the run is too short.
            is_usable = quantity == RISK or bool((y[used] < 0.0).all())
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


def fall(run: RaceRun, quantity: str = MARGIN) -> Fall:
    """Return how many steps the margin error, or the dual one, takes between the three levels."""
    error = run.upper if quantity == DUAL else run.worst
    places = [lasting_passage(error, level) for level in LEVELS]
    if min(places) < 0 or run.floor > LEVELS[-1]:
        return Fall(-1, -1)
    high, middle, low = (int(run.t[k]) for k in places)
    return Fall(middle - high, low - middle)


def answer(run: RaceRun, rate: Rate) -> bool | None:
    """Return whether a run agrees with a published rate; None if it does not say."""
    if rate.quantity == SEPARATOR:
        # From w = 0 some iterate separates within this many steps, by the notes of `AdaptiveGD`.
        limit = (1.0 + 2.0 * math.log(run.n) / run.eta) / run.gamma_squared
        if run.separated < 0:  # a run that is shorter than the bound says nothing
            return False if run.t[-1] > limit else None
        return run.separated <= limit
    bound = rate.constant / (run.gamma_squared * np.sqrt(run.t))
    if (run.worst > bound + run.floor).any():
        return False
    if rate.is_exponential:
        found = fall(run, rate.quantity)
        return found.is_exponential if found.is_reached else None
    slopes = tail(run, rate.quantity, rate)
    is_steep = slopes.slope >= slopes.expected - CLOSE
    is_steep_at_end = slopes.local >= slopes.expected_local - CLOSE
    if math.isnan(slopes.slope) or math.isnan(slopes.local) or is_steep != is_steep_at_end:
        return None
    return is_steep


class Votes(NamedTuple):
    """What the runs of a method say about a rate, by their names."""

    agree: list[str]
    disagree: list[str]
    silent: list[str]
    brief: list[str]

    @property
    def n(self) -> int:
        """How many runs could show a rate."""
        return len(self.agree) + len(self.disagree) + len(self.silent)


def tally(runs: list[RaceRun], rate: Rate) -> Votes:
    """Sort the runs of a method by what they say about a rate."""
    found = Votes([], [], [], [])
    for run in runs:
        if run.is_brief and rate.quantity != SEPARATOR:
            found.brief.append(run.name)
            continue
        said = answer(run, rate)
        (found.silent if said is None else found.agree if said else found.disagree).append(run.name)
    return found


def judged(rows: Any, settings: Any, method: str, rate: Rate) -> Finding:
    """Count the runs that agree with the rate: they fall as fast at their end, or stay in its bound."""
    return verdict_on(runs_of(rows, method), settings, rate)


def verdict_on(runs: list[RaceRun], settings: Any, rate: Rate) -> Finding:
    """Return what some runs say about a published rate."""
    said = tally(runs, rate)
    counts = [(said.disagree, "disagree"), (said.silent, "do not say"), (said.brief, "end at once")]
    others = ", ".join(f"{len(names)} {words}" for names, words in counts if names)
    measured = (
        f"{len(said.agree)} of {said.n} runs agree{f', {others}' if others else ''}. {spread(runs, rate)}"
    )
    common: dict[str, Any] = {
        "setting": f"{settings.steps:,} steps on {', '.join(dict.fromkeys(run.set for run in runs))}.",
        "given_in": rate.source,
        "would_change": _would_change(rate),
        "figures": {"agree": len(said.agree), "disagree": len(said.disagree), "silent": len(said.silent)},
    }
    if rate.not_ours or not said.n:
        reason = rate.not_ours or "No run is long enough to show a rate."
        return Finding(Judgement.NOT_DECIDED, f"{measured} {reason}", **common)
    slower = "; ".join(said.disagree[:4]) + (" and others" if len(said.disagree) > 4 else "")
    return Finding(
        ((len(said.agree) / said.n, (said.n - len(said.disagree)) / said.n), ">=", rate.share),
        measured,
        f"The fall is slower at this horizon on {slower}." if said.disagree else "",
        what="share of runs that agree",
        not_given="the step from which on its asymptotic rate must show" if rate.is_asymptotic else "",
        **common,
    )


def _would_change(rate: Rate) -> str:
    if rate.not_ours:
        return "Runs of the algorithm that the theorem is about."
    if not rate.is_asymptotic:
        return "One run beyond the bound, which is for every step."
    return "A slower fall, on most runs, at ever longer horizons."


def spread(runs: list[RaceRun], rate: Rate | None) -> str:
    """Return the fitted rate of some runs in a sentence or two."""
    runs = long_enough(runs)
    quantity = RISK if rate and rate.quantity == RISK else MARGIN
    parts = []
    if rate and rate.quantity == SEPARATOR and (found := [r.separated * r.gamma_squared for r in runs]):
        parts.append(f"A separator after {span(found, '.2g')} times 1 / gamma_star^2 steps.")
    if slopes := slopes_of(runs, quantity):
        last, end = (np.array([getattr(s, name) for s in slopes]) for name in ("slope", "local"))
        parts.append(
            f"The {quantity} falls like t^-a over the last decade of t, with a = {np.median(last):.2f} in "
            f"the median ({last.min():.2f} to {last.max():.2f}), and {np.nanmedian(end):.2f} at the end."
        )
    if fast := exponential(runs):
        each = span([(f.first + f.second) / 8.0 for f in fast], ",.3g")
        parts.append(f"{len(fast)} of {len(runs)} runs fall exponentially, a decimal in {each} steps.")
    return " ".join(parts)


def slopes_of(runs: list[RaceRun], quantity: str) -> list[Tail]:
    """Return the slopes of the runs that have one and do not fall exponentially."""
    found = [tail(run, quantity) for run in runs if quantity == RISK or not fall(run).is_exponential]
    return [each for each in found if not math.isnan(each.slope)]


def exponential(runs: list[RaceRun]) -> list[Fall]:
    """Return the falls of the runs whose error falls exponentially or faster."""
    return [found for run in runs if (found := fall(run)).is_exponential]
