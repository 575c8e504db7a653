"""From runs to times, from times to ratios and verdicts."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .sweep import time_to

OURS = "prgd"
BEST_QP = "best QP"
QP = ("Clarabel", "PIQP")


class Case(NamedTuple):
    """A set and how its separator may lie."""

    data: str
    variant: str

    def __str__(self) -> str:
        return f"{self.data}, {self.variant}"


class Time(NamedTuple):
    """The fastest run of a sweep that met the gap; at the limit where none did."""

    seconds: float
    is_capped: bool
    parameters: dict[str, Any] | None = None

    def __str__(self) -> str:
        return f">{self.seconds:.0f}" if self.is_capped else three_digits(self.seconds)


class Aim(NamedTuple):
    """What the plan asks of our time over a peer's at a gap of 1e-6."""

    peer: str
    mean: float
    worst: float | None


AIMS = (Aim("LIBLINEAR", 1.0, 1.0), Aim("LIBSVM", 0.1, 2.0), Aim(BEST_QP, 0.1, 1.5))


def best_time(runs: list[dict[str, Any]], target: float, limit: float) -> Time:
    winner = min(runs, key=lambda run: time_to(run, target), default=None)
    seconds = math.inf if winner is None else time_to(winner, target)
    if winner is None or seconds > limit:
        return Time(limit, True)
    return Time(seconds, False, winner["parameters"])


@dataclass
class Scores:
    """``times[target][case][peer]``; a peer that was skipped altogether is not there."""

    targets: tuple[float, ...]
    limit: float
    times: dict[float, dict[Case, dict[str, Time]]] = field(default_factory=dict)

    def add(self, case: Case, peer: str, runs: list[dict[str, Any]]) -> None:
        for target in self.targets:
            row = self.times.setdefault(target, {}).setdefault(case, {})
            row[peer] = best_time(runs, target, self.limit)
            if peer in QP:
                row[BEST_QP] = min((row[name] for name in QP if name in row), key=lambda time: time.seconds)

    def peers(self, *, with_best: bool = False) -> list[str]:
        found: dict[str, None] = {}
        for rows in self.times.values():
            for row in rows.values():
                found |= dict.fromkeys(row)
        return [peer for peer in found if with_best or peer != BEST_QP]

    def ratios(self, target: float, peer: str) -> dict[Case, tuple[float, bool]]:
        """Return our time over the peer's, and whether either was capped."""
        found = {}
        for case, row in self.times.get(target, {}).items():
            if OURS in row and peer in row:
                ours, theirs = row[OURS], row[peer]
                found[case] = (ours.seconds / theirs.seconds, ours.is_capped or theirs.is_capped)
        return found


class Mean(NamedTuple):
    """Geometric means of our time over a peer's, and the worst case."""

    peer: str
    cases: int
    capped: int
    mean: float
    mean_uncapped: float
    worst: float
    worst_case: Case | None


def summarise(scores: Scores, target: float, peer: str) -> Mean:
    ratios = scores.ratios(target, peer)
    capped = [case for case, (_, is_capped) in ratios.items() if is_capped]
    worst = max(ratios, key=lambda case: ratios[case][0], default=None)
    return Mean(
        peer,
        len(ratios),
        len(capped),
        geometric_mean([ratio for ratio, _ in ratios.values()]),
        geometric_mean([ratio for ratio, is_capped in ratios.values() if not is_capped]),
        ratios[worst][0] if worst else math.nan,
        worst,
    )


def verdict(found: Mean, aim: Aim) -> str:
    if not found.cases:
        return "not run"
    missed = []
    if found.mean > aim.mean:
        missed.append(f"mean {three_digits(found.mean)} > {aim.mean:g}")
    if aim.worst is not None and found.worst > aim.worst:
        missed.append(f"worst {three_digits(found.worst)} > {aim.worst:g}")
    return f"MISSED ({', '.join(missed)})" if missed else "met"


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def power(target: float) -> str:
    """Write a target as people say it: 1e-6."""
    exponent = round(math.log10(target))
    return f"1e{exponent}" if math.isclose(target, 10.0**exponent) else f"{target:g}"


def three_digits(value: float) -> str:
    """Write a positive number with three digits and no exponent where it is not tiny."""
    if not math.isfinite(value):
        return "-"
    if value < 1e-3:
        return f"{value:.1e}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def profile(scores: Scores, target: float, peer: str) -> list[tuple[float, float]]:
    """Return the performance profile: the share of cases solved within each ratio of the fastest."""
    peers = scores.peers()
    rows = [row for row in scores.times.get(target, {}).values() if row]
    ratios = []
    for row in rows:
        fastest = min((row[p].seconds for p in peers if p in row and not row[p].is_capped), default=math.inf)
        if peer in row and not row[peer].is_capped:
            ratios.append(row[peer].seconds / fastest)
    return [(ratio, (k + 1) / len(rows)) for k, ratio in enumerate(sorted(ratios))]
