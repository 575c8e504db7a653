"""Progressive rescaling on real data: the certified gap against rows read, for five methods.

Each method runs through the origin from w = 0 on every separable set of the folder that PRGD_DATA names
(its MANIFEST.json says which are; without the variable, on two pairs of digits), and progressive-rescaling
Newton with an intercept too. The currency is rows read divided by n: a pass is 1, a product of
the conjugate gradients with the active rows is their share of n. Nothing is timed. The rows of a set are
kept in a CSV file, and sets that have one are not run again. Newton's passes: benchmarks/newton_systems.py.

    python benchmarks/progressive.py [--sets SET ...] [--quick] [--force] [--out FOLDER] [--write-docs]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from prgd_paper.theory import fit_rate
from real_sets import separable_sets

import prgd

ROOT = Path(__file__).parents[1]
LAST_GAP = 1e-9  # Newton runs on to here, for the fit
PEERS_GAP = 1e-6  # other methods run on to here
MOST_STEPS = 200
SMALL = 600_000  # sets with fewer stored numbers run longer
PASSES = {"small": 2000, "large": 600, "quick": 100}
WARM_UP = {"small": 1000, "large": 1000, "quick": 50}
COLUMNS = ("set", "n", "d", "intercept", "method", "t", "passes", "row_reads", "lower", "upper", "gap")
# name, colour (Okabe and Ito), line, and whether to draw it in front
STYLES = {
    "progressive-rescaling Newton": ("#D55E00", "-", 2.2),
    "gated PRGD": ("#0072B2", "-", 1.4),
    "dual acceleration": ("#009E73", "--", 1.4),
    "PRGD(exp) after GD": ("#CC79A7", "-.", 1.4),
    "NGD": ("#7F7F7F", ":", 1.8),
}
NEWTON = "progressive-rescaling Newton"


# Compute: rows


@dataclass(frozen=True)
class Task:
    data: prgd.datasets.Dataset
    size: str


def find_sets() -> dict[str, Callable[[], prgd.datasets.Dataset]]:
    """Return how to load each separable set, by its name."""
    found = {name: partial(prgd.datasets.load, file) for name, file in separable_sets().items()}
    return found or {f"digit-0{k}": partial(prgd.datasets.digits, 0, k) for k in (1, 4)}


def load_task(load: Callable[[], prgd.datasets.Dataset], quick: bool) -> Task:
    data = load()
    stored = data.X.nnz if hasattr(data.X, "nnz") else data.X.size
    return Task(data, "quick" if quick else "small" if stored < SMALL else "large")


def watch(problem: prgd.Problem, algorithm: Any, w0: Any, stop: Any) -> tuple[list[list[float]], Any]:
    """Run, and return (t, passes, row reads, certified bounds) at every step, and the last w."""
    rows: list[list[float]] = []

    def note(state: Any, now: Any, certificate: Any) -> None:
        reads = getattr(state, "row_reads", float(problem.passes))
        rows.append([now.t, problem.passes, reads, certificate.lower, certificate.upper])

    result = prgd.run(problem, algorithm, w0, stop=stop, record=None, observe=note)
    return rows, result.w


def curves(task: Task) -> Iterator[tuple[str, bool, list[list[float]]]]:
    """Yield method, intercept and curve; a problem of its own for each, so that passes start at 0."""

    def problem(intercept: bool = False) -> prgd.Problem:
        return prgd.Problem(task.data.X, task.data.y, fit_intercept=intercept)

    passes = PASSES[task.size]
    for intercept in (False, True):
        stop = prgd.any_of(prgd.Gap(LAST_GAP), MOST_STEPS)
        yield NEWTON, intercept, watch(problem(intercept), prgd.algorithms.ProgressiveNewton(), None, stop)[0]
    for name, algorithm in (
        ("gated PRGD", prgd.algorithms.GatedPRGD()),
        ("dual acceleration", prgd.algorithms.DualAcceleration()),
        ("NGD", prgd.NGD()),
    ):
        stop = prgd.any_of(prgd.Gap(PEERS_GAP), passes)
        yield name, False, watch(problem(), algorithm, None, stop)[0]
    same = problem()
    warm, w = watch(same, prgd.GD(), None, WARM_UP[task.size])
    after, _ = watch(same, prgd.PRGD(), w, prgd.any_of(prgd.Gap(PEERS_GAP), passes))
    yield "PRGD(exp) after GD", False, warm + after


def compute(task: Task) -> pd.DataFrame:
    table: list[tuple[Any, ...]] = []
    n, d = task.data.X.shape
    for method, intercept, curve in curves(task):
        lower, upper, kept = -math.inf, math.inf, math.inf
        for k, (t, passes, reads, margin, bound) in enumerate(curve):
            lower, upper = max(lower, margin), min(upper, bound)
            gap = max(0.0, (upper - lower) / upper)
            # a gap that fell by less than 2 % makes no difference to a table or a line
            if gap <= 0.98 * kept or k == len(curve) - 1:
                kept = gap
                table.append((task.data.name, n, d, intercept, method, t, passes, reads, lower, upper, gap))
        print(f"{task.data.name}, {method}{', intercept' * intercept}: gap {gap:.1e}", flush=True)
    return pd.DataFrame(table, columns=list(COLUMNS))


# Read: rows to tables


def reached(rows: pd.DataFrame, level: float) -> pd.Series | None:
    """Return the first row with a gap of at most ``level``."""
    found = rows[rows.gap <= level]
    return found.iloc[0] if len(found) else None


def reads_cell(rows: pd.DataFrame, level: float) -> str:
    if rows.empty:
        return "-"
    row = reached(rows, level)
    return f"{row.row_reads:,.0f}" if row is not None else f"> {rows.row_reads.iloc[-1]:,.0f}"


def peers_table(rows: pd.DataFrame) -> str:
    methods = list(STYLES)
    lines = [
        "| set | gap | " + " | ".join(methods) + " |",
        "|---|--:|" + "--:|" * len(methods),
    ]
    for name, part in rows[~rows.intercept].groupby("set", sort=False):
        for level in (1e-1, 1e-2, 1e-4):
            cells = " | ".join(reads_cell(part[part.method == method], level) for method in methods)
            lines.append(f"| {name} | {level:.0e} | ".replace("e-0", "e-") + cells + " |")
    return "\n".join(lines)


def rates_table(rows: pd.DataFrame) -> str:
    """Fit the gap of Newton on the path, from 0.5 down, by a straight line in the log and by `fit_rate`."""
    lines = [
        "| set | decimals in 100 row reads | R^2 | best of `fit_rate` | decimals in 10 passes | R^2 |",
        "|---|--:|--:|---|--:|--:|",
    ]
    for name, part in rows[(rows.method == NEWTON) & ~rows.intercept].groupby("set", sort=False):
        # once Newton has settled, steps read nothing
        part = part[(part.gap <= 0.5) & (part.gap > 0.0)].drop_duplicates("row_reads")
        decimals = np.log10(part.gap.to_numpy())
        fitted = []
        for axis in ("row_reads", "passes"):
            x = part[axis].to_numpy(dtype=float)
            slope, offset = np.polyfit(x, decimals, 1)
            fitted.append((slope, 1.0 - np.var(decimals - slope * x - offset) / np.var(decimals)))
        fit = fit_rate(part.row_reads.to_numpy(), part.gap.to_numpy())
        verdict = "too few points"
        if fit.fits:
            best = min(fit.fits, key=lambda model: fit.fits[model].residual)
            verdict = f"{best}, ahead by {fit.evidence:.1f}{'' if fit.rate == best else ' (10 decide)'}"
        (by_reads, r2_reads), (by_passes, r2_passes) = fitted
        lines.append(
            f"| {name} | {-100 * by_reads:.2f} | {r2_reads:.2f} | {verdict} "
            f"| {-10 * by_passes:.2f} | {r2_passes:.2f} |"
        )
    return "\n".join(lines)


# Draw: rows to a figure


def draw(rows: pd.DataFrame, path: Path) -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    names = list(dict.fromkeys(rows.set))
    columns = min(5, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(2.5 * columns + 0.6, 2.35 * lines + 0.9), layout="constrained")
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    end = min(2000, rows[~rows.intercept].row_reads.max())
    for place, name in zip(axes.flat, names, strict=False):
        part = rows[(rows.set == name) & ~rows.intercept]
        for method, (colour, dash, width) in reversed(STYLES.items()):
            line = part[part.method == method]
            # no separator yet: a gap of 1 or more
            gap = line.gap.where(line.gap < 1.0)
            place.plot(line.row_reads, gap, dash, color=colour, linewidth=width, label=method)
        place.set_title(f"{name}\n{part.n.iloc[0]:,} x {part.d.iloc[0]:,}", fontsize=9)
        place.set_yscale("log")
        place.set_ylim(LAST_GAP, 1.0)
        place.set_xlim(0, end)
        place.yaxis.set_major_locator(LogLocator(numticks=5))
        place.yaxis.set_minor_formatter(NullFormatter())
        place.grid(axis="y", color="#E0E0E0", linewidth=0.6)
        place.spines[["top", "right"]].set_visible(False)
        place.tick_params(labelsize=8)
    for place in axes.flat[len(names) :]:
        place.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside upper center", ncols=len(STYLES), frameon=False)
    figure.supxlabel("rows read, divided by n (products of the conjugate gradients included)", fontsize=10)
    figure.supylabel("certified relative gap", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def write_docs(page: Path, tables: dict[str, str]) -> None:
    """Put each table between its marks ``<!-- name -->`` and ``<!-- end -->``."""
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, mark, after = rest.partition("<!-- end -->")
        if not mark:
            raise SystemExit(f"{page} has no marks for the table {name!r}.")
        text = f"{before}<!-- {name} -->\n{table}\n{mark}{after}"
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", metavar="SET", help="names of data sets; default all")
    parser.add_argument("--quick", action="store_true", help="few steps, to try the script out")
    parser.add_argument("--out", type=Path, default=ROOT / "bench-results" / "progressive")
    parser.add_argument("--force", action="store_true", help="run again what is on disk")
    parser.add_argument("--write-docs", action="store_true", help="renew docs/progressive.md and its figure")
    options = parser.parse_args()
    sets = find_sets()
    if unknown := set(options.sets or ()) - set(sets):
        parser.error(f"no separable set is called {', '.join(sorted(unknown))}; there are {', '.join(sets)}")
    (options.out / "rows").mkdir(parents=True, exist_ok=True)
    files = {name: options.out / "rows" / f"{name}.csv" for name in options.sets or sets}
    for name, file in files.items():
        if options.force or not file.exists():
            compute(load_task(sets[name], options.quick)).to_csv(file, index=False)
    rows = pd.concat([pd.read_csv(file) for file in files.values()])
    tables = {"peers": peers_table(rows), "rates": rates_table(rows)}
    print("\nRow reads until a gap, through the origin:\n\n" + tables["peers"])
    print("\nThe gap of Newton against row reads, as a straight line in the log:\n\n" + tables["rates"])
    draw(rows, options.out / "progressive.png")
    if options.write_docs:
        draw(rows, ROOT / "docs" / "images" / "progressive.png")
        write_docs(ROOT / "docs" / "progressive.md", tables)


if __name__ == "__main__":
    main()
