"""Walk the ladders of one peer on one set, leaving out what cannot win."""

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

# a gap met to rounding is met
SLACK = 1.0 + 1e-6


@dataclass(frozen=True)
class Rules:
    """What a sweep may spend."""

    targets: tuple[float, ...] = (1e-2, 1e-4, 1e-6)
    limit: float = 60.0  # of one run
    budget: float = 90.0  # of one sweep: once spent, no further run begins

    def repetitions(self, seconds: float) -> int:
        """Return how often a run of this length is timed; its median counts."""
        return 5 if seconds < 1.0 else 3 if seconds < 5.0 else 1


def time_to(run: dict[str, Any], target: float) -> float:
    """Return the median time in which this run met the target, or infinity."""
    found = [_one_time(lap, target) for lap in run["laps"]]
    return statistics.median(found) if found else math.inf


def _one_time(lap: dict[str, Any], target: float) -> float:
    if "marks" in lap:
        return min((seconds for seconds, gap in lap["marks"] if gap <= target * SLACK), default=math.inf)
    gap = max(lap.get("gap", math.inf), lap.get("certified", -math.inf))
    return lap["seconds"] if gap <= target * SLACK else math.inf


def sweep(
    ladders: Iterable[list[dict[str, Any]]],
    run_once: Callable[[dict[str, Any], float], dict[str, Any]],
    rules: Rules,
    tell: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Return the runs made, each with its parameters and laps.

    Nothing is run that is known to be useless: a run may take no longer than the best one that met every
    target; a ladder ends at the rung that met every target, that reached the limit, or after two rungs
    that brought the gap no lower.
    """
    runs: list[dict[str, Any]] = []
    spent = 0.0

    def best(target: float) -> float:
        return min((time_to(run, target) for run in runs), default=math.inf)

    def ceiling() -> float:
        slowest = max(best(target) for target in rules.targets)
        return min(rules.limit, max(1.0, 1.2 * slowest))

    for ladder in ladders:
        lowest, idle = math.inf, 0
        for parameters in ladder:
            if spent >= rules.budget:
                runs.append({"parameters": parameters, "status": "left out", "reason": "budget", "laps": []})
                return _repeat(runs, run_once, rules)
            most = ceiling()
            tell(f"{show(parameters)}, at most {most:.3g} s")
            lap = run_once(parameters, most)
            run = {
                "parameters": parameters,
                "status": lap["status"],
                "reason": lap.get("reason", ""),
                "laps": [lap] if lap["status"] not in ("skipped", "error", "limit") else [],
            }
            runs.append(run)
            spent += lap.get("seconds", 0.0)
            if lap["status"] == "limit" and most < rules.limit:
                run["status"] = "slower"  # than a run that met every target
            if lap["status"] in ("skipped", "limit"):
                break
            if time_to(run, min(rules.targets)) < math.inf or lap.get("seconds", 0.0) >= most:
                break
            idle = 0 if lap.get("gap", math.inf) < 0.9 * lowest else idle + 1
            lowest = min(lowest, lap.get("gap", math.inf))
            if idle == 2:
                break
    return _repeat(runs, run_once, rules)


def _repeat(
    runs: list[dict[str, Any]],
    run_once: Callable[[dict[str, Any], float], dict[str, Any]],
    rules: Rules,
) -> list[dict[str, Any]]:
    """Time the winners again until no winner is left with too few laps."""
    while True:
        winners = [min(runs, key=lambda run, t=target: time_to(run, t)) for target in rules.targets]
        thin = [
            run
            for run, target in zip(winners, rules.targets, strict=True)
            if time_to(run, target) < math.inf
            and len(run["laps"]) < rules.repetitions(run["laps"][0]["seconds"])
        ]
        if not thin:
            return runs
        lap = run_once(thin[0]["parameters"], rules.limit)
        if lap["status"] in ("skipped", "error"):
            return runs
        if lap["status"] == "limit":
            lap |= {"gap": math.inf}
        thin[0]["laps"].append(lap)


def show(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in parameters.items())
