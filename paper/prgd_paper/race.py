"""A race: several algorithms on one problem, both bounds at every recorded step, as rows and as a figure.

``python -m benchmarks.race`` races solvers of other libraries for the time to a gap, each in a process of its
own; a race here follows algorithms, which `prgd.run` drives, step by step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from prgd.algorithms.base import State
from prgd.problem import Problem
from prgd.problem.certificate import Certificate
from prgd.running.history import Gap, Record, Status, Stop, any_of
from prgd.running.loop import run
from prgd.running.result import Result
from prgd_paper.report import elements as fig
from prgd_paper.reproduce.curves import record_times

BEST, DOUBT = fig.Style(fig.GREY, "dash"), "how far the best known margin may be off"


@dataclass(frozen=True)
class Entrant:
    """An algorithm under its name in the race; a warm-up, if any, is part of its budget of steps."""

    name: str
    algorithm: Any
    warm_up: Any = None
    warm_up_steps: int = 0
    rules: tuple[Stop, ...] = ()  # that end its run, beside those of the race


class Finish(NamedTuple):
    """How an algorithm ended: status, best bounds, steps, passes and seconds; and its rows on the way."""

    name: str
    status: Status
    certificate: Certificate
    steps: int
    passes: int
    seconds: float
    rows: list[dict[str, Any]]


def race(
    problem: Problem,
    entrants: Sequence[Entrant],
    *,
    steps: int,
    gap: float | None = None,
    progress: bool = False,
) -> list[Finish]:
    """Run each algorithm in turn, from w = 0 or from its warm-up, for as many steps; return how each ended.

    Parameters
    ----------
    problem : Problem
    entrants : sequence of Entrant
    steps : int
        Step limit of each algorithm, its warm-up counted.
    gap : float, optional
        An algorithm ends at this certified relative gap.
    progress : bool
        Show a live line (on a terminal only).

    Returns
    -------
    list of Finish
        Fewer than entrants if Ctrl-C came before the next one; a run that it stopped is the last. Rows
        hold the algorithm, the part (warm-up or run), step, seconds, passes, the margin of w, and the best
        bounds so far.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.3))
    >>> found = race(problem, [Entrant("ngd", prgd.NGD())], steps=50)
    >>> found[0].name, found[0].steps, found[0].passes
    ('ngd', 50, 51)
    """
    for entrant in entrants:
        if entrant.warm_up_steps >= steps:
            raise ValueError(
                f"{entrant.name}: its warm-up takes {entrant.warm_up_steps:,} of the {steps:,} steps, which "
                "leaves none. Give more steps, or a shorter warm-up."
            )
    found: list[Finish] = []
    for entrant in entrants:
        # The first call of a kernel compiles it, which is no part of the race.
        brief = replace(entrant, warm_up_steps=min(entrant.warm_up_steps, 2))
        try:
            if _follow(problem, brief, 4, None, False).status is Status.INTERRUPTED:
                break
            found.append(_follow(problem, entrant, steps, gap, progress))
        except KeyboardInterrupt:  # before its first step
            break
        if found[-1].status is Status.INTERRUPTED:
            break
    return found


def check_starts(problem: Problem, entrants: Sequence[Entrant]) -> None:
    """Start each algorithm, so that one that is not for this problem says so before others have cost time."""
    # An algorithm with a warm-up starts at some w that is not zero.
    somewhere = np.full(problem.shape, math.sqrt(problem.unit / problem.d))
    for entrant in entrants:
        with _named(entrant):
            if entrant.warm_up_steps:
                entrant.warm_up.init(problem, np.zeros(problem.shape))
            w0 = somewhere if entrant.warm_up_steps else np.zeros(problem.shape)
            entrant.algorithm.init(problem, w0)


@contextmanager
def _named(entrant: Entrant) -> Iterator[None]:
    """Put the name of an algorithm before the message of its error."""
    try:
        yield
    except ValueError as error:  # written for the user
        raise ValueError(f"{entrant.name}: {error}") from error
    except Exception as error:
        said = str(error).rstrip(".")
        raise ValueError(f"{entrant.name} failed with {type(error).__name__}: {said}.") from error


def _follow(problem: Problem, entrant: Entrant, steps: int, gap: float | None, progress: bool) -> Finish:
    """Run one algorithm after its warm-up, and keep rows at times that are evenly spaced in log t."""
    times = frozenset(record_times(steps).tolist())
    rows: list[dict[str, Any]] = []
    best, offset, first = (-math.inf, math.inf), 0, problem.passes
    part, begun = "warm-up", time.perf_counter()

    def keep(state: State, now: Record, certificate: Certificate) -> None:
        nonlocal best
        best = max(best[0], certificate.lower), min(best[1], certificate.upper)
        t = offset + now.t
        last = {"algorithm": entrant.name, "part": part, "t": t, "seconds": time.perf_counter() - begun}
        last |= {"passes": problem.passes - first, "margin": now.margin, "lower": best[0], "upper": best[1]}
        if t in times and (not rows or rows[-1]["t"] < t):
            rows.append(last)

    def go(algorithm: Any, limit: int, w0: Any) -> Result:
        goal = [] if gap is None else [Gap(gap)]
        stop = any_of(*goal, *(entrant.rules if part == "run" else ()), limit)
        label = progress and f"{entrant.name}{', warm-up' * (part == 'warm-up')}"
        return run(problem, algorithm, w0, stop=stop, record=None, observe=keep, progress=label)

    warm: Result | None = None
    with _named(entrant):
        if entrant.warm_up_steps:
            warm = result = go(entrant.warm_up, entrant.warm_up_steps, None)
            offset = warm.t
        if warm is None or warm.status is Status.MAX_STEPS:
            part = "run"
            result = go(entrant.algorithm, steps - offset, None if warm is None else warm.w)
    seconds = time.perf_counter() - begun
    certificate = result.certificate if warm is None else result.certificate.best(warm.certificate)
    t = result.t + (0 if result is warm else offset)
    passes = problem.passes - first
    if not rows or rows[-1]["t"] < t:
        ends = {"margin": result.margin, "lower": certificate.lower, "upper": certificate.upper}
        where = {"algorithm": entrant.name, "part": part, "t": t, "seconds": seconds, "passes": passes}
        rows.append(where | ends)
    return Finish(entrant.name, result.status, certificate, t, passes, seconds, rows)


def figure(finishes: Sequence[Finish], known: tuple[float, float], title: str) -> fig.Figure:
    """Return four panels: both bounds, and the distance of each to the best known margin.

    Parameters
    ----------
    finishes : sequence of Finish
    known : (float, float)
        The best known margin, and the smallest upper bound on gamma_star.
    title : str
    """
    best, upper = known
    error, above = "best known margin - lower bound", "upper bound - best known margin"
    steps, seconds = "step t, warm-up counted", "seconds, warm-up counted"
    # Errors below this are not known: gamma_star may be this much larger than the best known margin.
    doubt = max(upper - best, 1e-16 * best)
    margins = {finish.name: [best - row["lower"] for row in finish.rows] for finish in finishes}
    uppers = {finish.name: [row["upper"] - best for row in finish.rows] for finish in finishes}
    return fig.Figure(
        "race",
        title,
        f"Bounds on the margin of {', '.join(margins)} against steps, and their distance to the best known "
        f"margin, {best:.6g}, against steps and seconds.",
        (
            _bounds(finishes, best),
            _distance(finishes, margins, "t", "Error of the margin, against steps", (steps, error), doubt),
            _distance(
                finishes, margins, "seconds", "Error of the margin, against time", (seconds, error), doubt
            ),
            _distance(finishes, uppers, "t", "Error of the upper bound", (steps, above), doubt),
        ),
        columns=2,
    )


def _styles(finishes: Sequence[Finish]) -> dict[str, fig.Style]:
    """Return the styles by name: those of the report for its methods, and spare ones for all others."""
    own = {name.lower().replace(" ", "-"): style for name, style in fig.STYLES.items()}
    spare = cycle(fig.SPARE)
    return {f.name: own.get(f.name) or next(spare) for f in finishes}


def _bounds(finishes: Sequence[Finish], best: float) -> fig.Panel:
    marks: list[fig.Mark] = []
    styles = _styles(finishes)
    for finish in finishes:
        t = [row["t"] for row in finish.rows]
        for end in ("lower", "upper"):
            y = [row[end] for row in finish.rows]
            marks.append(fig.Line(finish.name, t, y, has_markers=end == "lower", style=styles[finish.name]))
    title = "Both bounds: margins (markers) and upper bounds"
    ends = (0.0, 2.0 * best) if best > 0.0 else None
    return fig.Panel(title, tuple(marks), "step t, warm-up counted", "margin", x_log=True, y_range=ends)


def _distance(
    finishes: Sequence[Finish],
    distances: dict[str, list[float]],
    x: str,
    title: str,
    labels: tuple[str, str],
    doubt: float,
) -> fig.Panel:
    lines: list[fig.Line] = []
    styles = _styles(finishes)
    for finish in finishes:
        shown = [(row[x], max(d, doubt)) for row, d in zip(finish.rows, distances[finish.name], strict=True)]
        if finite := [(at, d) for at, d in shown if math.isfinite(d) and at > 0.0]:
            at, y = zip(*finite, strict=True)
            lines.append(fig.Line(finish.name, at, y, style=styles[finish.name]))
    if not lines:
        return fig.Panel(title, (), *labels)
    lowest, highest = min(min(line.y) for line in lines), max(max(line.y) for line in lines)
    marks: list[fig.Mark] = [*lines]
    if lowest < 100.0 * doubt:
        ends = [min(min(line.x) for line in lines), max(max(line.x) for line in lines)]
        marks.append(fig.Line(DOUBT, ends, [doubt] * 2, 1.0, has_markers=False, style=BEST))
        lowest = doubt
    bottom, top = math.floor(math.log10(lowest / 1.5)), math.ceil(math.log10(highest))
    return fig.log_log(title, marks, *labels, 10.0**bottom, 10.0**top)
