"""How long a pass with a second direction takes, next to the plain pass over the same rows in memory.

Both take turns on each table, and a ratio is the median over turns, with the quartiles beside it. Turns in
which a pass had less than 75 % of its cores are left out, unless fewer than five remain (marked "busy"). The
script also counts the numbers of the Tally at w that the second direction changes: there must be none.

    python benchmarks/second_direction.py [--threads T] [--turns N] [--data FILE] [--quick] [--json FILE]

``--data`` names a file of rows, e.g. one of PRGD_DATA, that is measured besides the generated tables.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

from prgd import datasets
from prgd.losses import EXPONENTIAL
from prgd.rows import MarginsAt, Rows, TallyAt, as_rows

SEED = 20241
TARGET = 1.1  # most time of a pass with a second direction over that of a plain one, on dense rows
QUIET = 0.75  # a turn counts if both passes had this fraction of their cores
SPREADS = (100.0, 0.01)  # standard deviations of the margins: few rows carry weight, or all do
SHAPES = ((200_000, 256), (1_000_000, 50), (60_000, 1024), (40_000, 1536), (20_000, 4096))
SPARSE = ((200_000, 47_236, 75), (100_000, 1_000, 100), (400_000, 1_000_000, 50))


def tables(quick: bool, data: Path | None) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, the rows and the labels of each table."""
    rng, less = np.random.default_rng(SEED), 50 if quick else 1
    for dtype in (np.float64, np.float32):
        for n, d in SHAPES:
            X = rng.standard_normal((n // less, d), dtype=dtype)
            yield f"rows {len(X)} x {d} {X.dtype}", X, np.where(np.arange(len(X)) % 2, 1, -1)
        X = np.asfortranarray(rng.standard_normal((200_000 // less, 256), dtype=dtype))
        yield f"columns {len(X)} x 256 {X.dtype}", X, np.where(np.arange(len(X)) % 2, 1, -1)
    for n, d, k in SPARSE:
        m = n // less
        columns = np.sort((rng.random((m, k)) ** 2 * d).astype(np.int32), axis=1)  # frequent ones come first
        X = sp.csr_array((rng.standard_normal(m * k), columns.ravel(), np.arange(m + 1) * k), shape=(m, d))
        yield f"CSR {m} x {d}, {k} entries a row", X, np.where(np.arange(m) % 2, 1, -1)
    if data is not None:
        found = datasets.load(data)
        yield data.name.partition(".")[0], found.X, found.y


def lap(rows: Rows, query: TallyAt) -> tuple[float, float]:
    """Return the seconds of a pass, and how many cores it had."""
    start, cpu = time.perf_counter(), time.process_time()
    rows.ask(query)
    seconds = time.perf_counter() - start
    return seconds, (time.process_time() - cpu) / seconds


def measure(name: str, rows: Rows, spread: float, threads: int, turns: int) -> dict[str, Any]:
    """Let both passes take turns."""
    w, v = np.random.default_rng(SEED).standard_normal((2, rows.d))
    w *= spread / float(np.std(rows.ask(MarginsAt(w))))
    queries = TallyAt(w, EXPONENTIAL), TallyAt(w, EXPONENTIAL, second=v)
    plain, found = (rows.ask(query) for query in queries)
    changed = int(np.sum(plain.scalars != found.scalars[:, :6]) + np.sum(plain.vector != found.vector))
    laps = []
    for turn in range(turns):
        order = (0, 1) if turn % 2 else (1, 0)
        both = dict(zip(order, [lap(rows, queries[k]) for k in order], strict=True))
        laps.append((both[0][0], both[1][0], min(both[0][1], both[1][1])))
    quiet = [one for one in laps if one[2] >= QUIET * threads]
    is_busy = len(quiet) < 5
    ratios = [second / first for first, second, _ in (laps if is_busy else quiet)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    seconds = statistics.median(first for first, _, _ in (laps if is_busy else quiet))
    facts = {"table": name, "spread": spread, "threads": threads, "plain_seconds": seconds, "ratio": middle}
    return facts | {"quartiles": (low, high), "turns": len(ratios), "busy": is_busy, "changed": changed}


def main() -> None:
    """Measure, print and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--turns", type=int, default=31, help="passes of each kind")
    parser.add_argument("--data", type=Path, help="a file of rows to measure besides")
    parser.add_argument("--quick", action="store_true", help="small tables, to try the script out")
    parser.add_argument("--json", type=Path, help="write the numbers and the machine there")
    options = parser.parse_args()
    found = []
    for name, X, y in tables(options.quick, options.data):
        rows = as_rows(X, y, None, options.threads)
        found += [measure(name, rows, spread, options.threads, options.turns) for spread in SPREADS]
        print(f"{name}: {found[-2]['ratio']:.3f}, {found[-1]['ratio']:.3f}", flush=True)
    table = Table(title=f"A pass with a second direction over a plain one; target {TARGET:g} on dense rows")
    for column in ("table", "spread", "threads", "plain ms", "ratio", "quartiles", "numbers changed", ""):
        table.add_column(column)
    for one in found:
        (low, high), note = one["quartiles"], "busy" if one["busy"] else ""
        table.add_row(
            one["table"], f"{one['spread']:g}", str(one["threads"]), f"{1e3 * one['plain_seconds']:.2f}",
            f"{one['ratio']:.3f}", f"{low:.2f}-{high:.2f}", str(one["changed"]), note,
        )  # fmt: skip
    Console(width=None if os.isatty(1) else 130).print(table)
    if options.json:
        machine = {"processor": platform.processor(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
        record = {"machine": machine, "rows": found}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
