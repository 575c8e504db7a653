"""When ``prgd run`` and ``prgd race`` give up on a gap that stands still, and what they say then."""

from __future__ import annotations

import math
from typing import Any

from prgd.algorithms import NGD, SteepestDescent
from prgd.algorithms.prgd import PRGD
from prgd.cli.options import option
from prgd.norms import L2, Norm, as_norm
from prgd.running.history import History, Status
from prgd.running.result import Result
from prgd.running.stopping import Stalled, Stop
from prgd.schedules import Every, Geometric

STILL = 1e-6  # A gap that changed by a smaller fraction stands still.
GROWTH = 1e3  # After radii grew so much, steps turn w by as much less.
SHORTEST, ROUNDING = 100, 1e-9
INSTEAD = "prgd fit finds the largest margin itself"


def patience_option(panel: str) -> Any:
    """Return the field of the option ``--patience``."""
    return option(
        None,
        "Stop when the certified gap has stood still for so many steps; 0: never.",
        panel=panel,
        metavar="STEPS",
        minimum=0,
        shown_default="190 for prgd, whose geometric radii grow a thousandfold meanwhile; else 0",
    )


def patience_of(algorithm: Any) -> int:
    """Return for how many steps an algorithm may stand still by default; 0: for any number.

    Geometric radii outgrow the step size, so that w stands still for ever. Others may only be slow, or wait
    for a gate.
    """
    if type(algorithm) is not PRGD:
        return 0
    R, T = algorithm.R, algorithm.T
    if not isinstance(R, Geometric) or not isinstance(T, Every) or R.c <= 1.0:
        return 0
    return max(SHORTEST, math.ceil(math.log(GROWTH) / math.log(R.c)) * T.steps)


def stall_rules(algorithm: Any, patience: int | None) -> list[Stop]:
    """Return the rule of ``--patience``, if there is one; None stands for the default of the algorithm."""
    steps = patience_of(algorithm) if patience is None else patience
    return [Stalled(steps, STILL)] if steps else []


def still_since(history: History) -> int:
    """Return the first recorded step whose gap is that of the last one."""
    gaps, last = history["gap"], float(history["gap"][-1])
    moved = [k for k, gap in enumerate(gaps) if not abs(gap - last) <= STILL * last]
    return int(history["t"][moved[-1] + 1 if moved else 0])


def status_text(result: Result, algorithm: Any, warm_up: Any) -> str:
    """Return why a run ended; if its gap has stood still, since which step and what to do."""
    if result.status not in (Status.STALLED, Status.MAX_STEPS) or not result.margin > 0.0:
        return str(result.status)
    since = still_since(result.history)
    if result.status is Status.MAX_STEPS and (result.t < 2 * SHORTEST or 2 * since > result.t):
        return str(result.status)
    said = stalled_text(since, result.gap, algorithm, warm_up, as_norm(result.norm))
    return f"{said} Both bounds hold."


def stalled_text(
    since: int, gap: float, algorithm: Any, warm_up: Any, norm: Norm, is_race: bool = False
) -> str:
    """Return the sentences about a gap that stands still, after a warm-up, in the norm of the margin."""
    if gap <= ROUNDING:
        return f"The gap has not changed since step {since:,}: more steps hardly help."
    if not patience_of(algorithm):
        return f"The gap has not changed since step {since:,}; {INSTEAD}."
    is_euclidean = (algorithm.norm or norm) == L2()
    other = ("ngd", NGD) if is_euclidean else ("steepest-descent", SteepestDescent)
    ways = ["--radius polynomial:0.6 --phases polynomial:5,0.6"]
    ways += [] if isinstance(warm_up, other[1]) else [f"--warm-up {other[0]}:1000"]
    if is_race:
        ways = [f'"prgd {way}" (in quotes)' for way in ways]
    return (
        f"The gap has not changed since step {since:,}, and more steps do not help: the radii outgrew the "
        f"step size. Use {', or '.join(ways)}; {INSTEAD}."
    )
