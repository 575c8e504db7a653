"""Table 2: the number of iterations to a stated margin error on the two synthetic sets.

The paper's counts leave the 1,000 warm-up steps of PRGD out, so both counts are shown here; dual
acceleration and game dynamics, which need no warm-up, stand beside them. A count is a first passage.
In two dimensions the direction of w may swing through w_star by chance on its way elsewhere (GD does
on some seeds), so a last column says on how many seeds the error still holds at twice that step.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prgd import datasets
from prgd.algorithms import GD, NGD, PRGD, DualAcceleration, GameDynamics
from prgd.problem import Problem
from prgd.result import Status
from prgd.run import run
from prgd.schedules import Every, Geometric, Polynomial
from prgd.stopping import MarginError, any_of

WARM_UP = 1000


@dataclass(frozen=True)
class Method:
    """One column of the table: an algorithm, its warm-up steps and the steps it is given at most."""

    name: str
    algorithm: Any
    warm_up: int
    limit: int
    paper: tuple[str, str]


METHODS = (
    Method("GD", GD(), 0, 20_000, ("+inf", "+inf")),
    Method("NGD", NGD(), 0, 100_000, ("12,508", "5,027")),
    Method("PRGD(exp)", PRGD(Geometric(1.2), Every(5)), WARM_UP, 10_000, ("106", "94")),
    Method("PRGD(poly)", PRGD(Polynomial(1.2), Every(5)), WARM_UP, 10_000, ("142", "95")),
    Method("dual acceleration", DualAcceleration(), 0, 20_000, ("-", "-")),
    Method("game dynamics", GameDynamics(), 0, 20_000, ("-", "-")),
)


class Task(NamedTuple):
    """One row of the table: a dataset, its margin error, and its number in the paper."""

    name: str
    make: Callable[[int], datasets.Dataset]
    error: float


TASKS = (
    Task("I", datasets.synthetic_one, 1e-6),
    Task("II", datasets.synthetic_two, 1e-4),
)


class Row(NamedTuple):
    """Steps that one method took on one dataset; ``steps`` is -1 where the error was not reached.

    ``lasting`` is 1 where the error still holds at twice as many steps, and 100 more.
    """

    dataset: str
    error: float
    seed: int
    method: str
    warm_up: int
    steps: int
    lasting: int


def compute(seed: int) -> list[Row]:
    """Return the rows of one seed: every method on both datasets."""
    rows = []
    for task in TASKS:
        data = task.make(seed)
        assert data.gamma_star is not None  # noqa: S101 - for the type checker: the sets know it
        problem = Problem(data.X, data.y, scale="none", n_threads=1)
        warm = run(problem, GD(), stop=WARM_UP, record=WARM_UP)
        reached = MarginError(data.gamma_star, task.error)
        for method in METHODS:
            w0 = warm.w if method.warm_up else None
            first = run(problem, method.algorithm, w0, stop=any_of(reached, method.limit), record=10**9)
            steps, lasting = -1, 0
            if first.status is Status.REACHED:
                steps = first.t
                later = run(problem, method.algorithm, resume=first, stop=2 * steps + 100, record=10**9)
                lasting = int(data.gamma_star - problem.gamma(later.w) <= task.error)
            rows.append(Row(task.name, task.error, seed, method.name, method.warm_up, steps, lasting))
    return rows


def _pin_threads() -> None:
    # one core for each process; the engines look at this when they are made
    os.environ["PRGD_NUM_THREADS"] = "1"


def compute_all(seeds: int, jobs: int) -> list[Row]:
    """Return the rows of seeds 0 to ``seeds - 1``, computed in parallel, in a fixed order."""
    if jobs == 1:
        return [row for seed in _watched(range(seeds), seeds) for row in compute(seed)]
    # spawn: a forked child would inherit the locks of our threads
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_pin_threads) as pool:
        futures = {pool.submit(compute, seed): seed for seed in range(seeds)}
        done = {futures[f]: f.result() for f in _watched(as_completed(futures), seeds)}
    return [row for seed in range(seeds) for row in done[seed]]


def _watched(items: Iterable[Any], total: int) -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(items, "Table 2", total=total, console=console, disable=not console.is_terminal)


def summarise(rows: list[Row]) -> list[dict[str, str]]:
    """Return the lines of the printed table, from rows only."""
    lines = []
    for number, task in enumerate(TASKS):
        for method in METHODS:
            found = [r for r in rows if r.dataset == task.name and r.method == method.name]
            # an unreached error counts as infinitely many steps: medians stay honest
            steps = np.array([np.inf if r.steps < 0 else r.steps for r in found])
            median = _quantile(steps, 0.5)
            missed = int(np.isinf(steps).sum())
            lines.append(
                {
                    "dataset": f"{task.name}, {task.error:.0e}",
                    "method": method.name,
                    "paper": method.paper[number],
                    "median": _count(median),
                    "5 to 95 %": f"{_count(_quantile(steps, 0.05))} to {_count(_quantile(steps, 0.95))}",
                    "with warm-up": _count(median + method.warm_up),
                    "not reached": f"{missed} in {method.limit:,}" if missed else "0",
                    "still there at 2t": f"{sum(r.lasting for r in found)} of {steps.size}",
                }
            )
    return lines


def _quantile(steps: np.ndarray[Any, np.dtype[np.float64]], q: float) -> float:
    # the smallest count that at least a share q of the seeds needs: never a mean with infinity
    return float(np.sort(steps)[max(0, int(np.ceil(q * steps.size)) - 1)])


def _count(steps: float) -> str:
    return "+inf" if np.isinf(steps) else f"{steps:,.0f}"


def main(seeds: int, jobs: int, out: Path) -> None:
    """Compute, write ``table-2.csv`` and ``table-2.json`` to ``out``, and print the table."""
    from rich.console import Console
    from rich.table import Table

    rows = compute_all(seeds, jobs)
    with (out / "table-2.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows(rows)
    (out / "table-2.json").write_text(json.dumps(facts(seeds), indent=2) + "\n", encoding="utf-8")

    lines = summarise(rows)
    # a pipe has no width of its own: do not fold the columns
    console = Console() if sys.stdout.isatty() else Console(width=130)
    title = f"Table 2: steps to a margin error, seeds 0 to {seeds - 1}; warm-up is GD for {WARM_UP:,} steps"
    table = Table(title=title, title_justify="left")
    for column in lines[0]:
        table.add_column(column, justify="left" if column in ("dataset", "method") else "right")
    last = ""
    for line in lines:
        if last and line["dataset"] != last:
            table.add_section()
        last = line["dataset"]
        table.add_row(*line.values())
    console.print(table)
    console.print(f"Rows: {out / 'table-2.csv'}", highlight=False, soft_wrap=True)


def facts(seeds: int) -> dict[str, Any]:
    """Return settings, versions and machine: what another person needs to get the same rows."""
    import numba
    import scipy

    import prgd

    methods = [asdict(m) | {"algorithm": repr(m.algorithm)} for m in METHODS]
    return {
        "experiment": "table-2",
        "seeds": seeds,
        "methods": methods,
        "versions": {
            "prgd": prgd.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "numba": numba.__version__,
        },
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
    }
