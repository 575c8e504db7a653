"""Measure the constants of docs/scale.md, predict runs with them, run them, and project to larger ones.

Constants come from small data, predictions are for data several times larger, and both are printed with
what was measured. Projections state what they assume of machines that are not at hand; GPU constants are
read from a record that benchmarks/gpu_pass.py leaves, where there is one. BLAS has one thread, since two
that spin against another program make small products ten times slower.

    OPENBLAS_NUM_THREADS=1 python benchmarks/cost_model.py [--dir FOLDER] [--write-docs] [--gpu FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cluster_pass
import numpy as np
from dask.delayed import delayed
from disk_pass import drop_cache, plain_read, write
from distributed import Client, LocalCluster
from out_of_core import COLUMNS, dense_blocks, labels_of
from pass_ratio import Sum

import prgd
from prgd.losses import EXPONENTIAL
from prgd.rows import MarginsAt, Measure, TallyAt

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
THREADS = len(os.sched_getaffinity(0))
SMALL, LARGE = 250_000, 1_000_000  # rows: constants, predictions
PARTITIONS = 8
ROW = 4 * COLUMNS
GAPS = (1e-1, 1e-2, 1e-3)

# What is assumed of machines that are not here
TERABYTE, COLUMNS_TB = 1e12, 250
SERVER_READ = 100e9  # bytes per second from the memory of one server
NETWORK = 1.25e9  # bytes per second: 10 Gbit Ethernet
MACHINES, GPUS = 10, 8


@dataclass
class Constants:
    """Speeds in bytes per second, times in seconds."""

    memory_read: float
    memory_pass: float  # where all rows carry weight, the slowest case
    memory_measure: float  # the first pass, which measures row norms
    one_thread_pass: float
    one_thread_measure: float
    disk_read: float
    disk_pass_cold: float
    disk_pass_warm: float
    round_trip: float
    passes: dict[float, float]  # to each gap
    inner_s: dict[float, float]  # seconds outside of passes, to each gap


def planted(n: int) -> tuple[Any, Any]:
    """Return planted rows in memory."""
    X, y, start = np.empty((n, COLUMNS), np.float32), np.empty(n, np.int8), 0
    for block, labels in dense_blocks(n):
        X[start : start + labels.size], y[start : start + labels.size] = block, labels
        start += labels.size
    return X, y


def median_s(
    work: Callable[[], object], times: int = 5, before: Callable[[], object] = lambda: None
) -> float:
    laps = []
    for _ in range(times):
        before()
        start = time.perf_counter()
        work()
        laps.append(time.perf_counter() - start)
    return statistics.median(laps)


def aim() -> Any:
    """Return a w of small norm: all rows carry weight, as in the first steps of a run."""
    w = np.random.default_rng(1).standard_normal(COLUMNS)
    return w * (0.3 / np.linalg.norm(w))


def measure(folder: Path) -> Constants:
    """Measure the constants on small data."""
    w, size = aim(), SMALL * ROW
    X, y = planted(SMALL)
    plain = Sum(X, y, "float32", THREADS)
    plain()
    rows = prgd.rows.DenseRows(X, y)
    rows.ask(TallyAt(w, EXPONENTIAL, True))
    memory_read, memory_pass = median_s(plain), median_s(lambda: rows.ask(TallyAt(w, EXPONENTIAL, True)))
    one = prgd.rows.DenseRows(X, y, n_jobs=1)
    one_thread = median_s(lambda: one.ask(TallyAt(w, EXPONENTIAL, True)))
    rows.ask(Measure())
    both_measure, one_measure = median_s(rows.measure), median_s(one.measure)
    prgd.max_margin(X[:2000], y[:2000], tol=GAPS[-1])  # compiles
    result = prgd.max_margin(X, y, tol=GAPS[-1])
    first = {gap: next(h for h in result.history if h["gap"] <= gap) for gap in GAPS}
    path = folder / "small.npy"
    write(path, SMALL)
    disk = prgd.open_rows(path, np.load(labels_of(path)))

    def cold() -> None:
        drop_cache(path)

    disk_read = median_s(lambda: plain_read(path, 2**24), before=cold)
    disk_cold = median_s(lambda: disk.ask(TallyAt(w, EXPONENTIAL, True)), before=cold)
    disk_warm = median_s(lambda: disk.ask(TallyAt(w, EXPONENTIAL, True)))
    with local_workers() as client:
        trip = cluster_pass.measure(client, 2, 100, COLUMNS, PARTITIONS, 40)["pass_s"]
    return Constants(
        memory_read=size / memory_read,
        memory_pass=size / memory_pass,
        memory_measure=size / both_measure,
        one_thread_pass=size / one_thread,
        one_thread_measure=size / one_measure,
        disk_read=size / disk_read,
        disk_pass_cold=size / disk_cold,
        disk_pass_warm=size / disk_warm,
        round_trip=trip,
        passes={gap: h["passes"] for gap, h in first.items()},
        inner_s={gap: h["seconds"] - h["passes"] * memory_pass for gap, h in first.items()},
    )


@contextmanager
def local_workers() -> Iterator[Any]:
    """Start two worker processes of one thread."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@dataclass
class Run:
    """A run that was predicted, and then made; seconds."""

    name: str
    predicted: float
    measured: float


def check(c: Constants, folder: Path) -> list[Run]:
    """Predict runs on larger data, and make them."""
    size, steps = LARGE * ROW, 20
    X, y = planted(LARGE)
    runs = []

    def timed(name: str, predicted: float, work: Callable[[], object]) -> None:
        start = time.perf_counter()
        work()
        runs.append(Run(name, predicted, time.perf_counter() - start))

    def ngd(rows: Any) -> None:
        prgd.run(prgd.Problem(rows, fit_intercept=True), prgd.NGD(), stop=steps)

    dense = prgd.rows.DenseRows(X, y)
    looks = steps + 1
    measuring = size / c.memory_measure
    predicted = measuring + looks * size / c.memory_pass
    timed(f"NGD, {steps} steps, in memory", predicted, lambda: ngd(dense))
    gap = 1e-3
    timed(
        f"`max_margin` to {gap:g}, in memory",
        measuring + c.passes[gap] * size / c.memory_pass + c.inner_s[gap],
        lambda: prgd.max_margin(dense, tol=gap),
    )
    blocks = [delayed(cluster_pass.block)(k, LARGE // PARTITIONS, COLUMNS) for k in range(PARTITIONS)]
    with local_workers() as client, prgd.open_cluster(blocks, client=client) as rows:
        rows.ask(MarginsAt(aim()))  # every partition is there, and compiled
        trip = c.round_trip + size / (2 * c.one_thread_pass)
        predicted = c.round_trip + size / (2 * c.one_thread_measure) + looks * trip
        timed(f"NGD, {steps} steps, {PARTITIONS} partitions on 2 workers", predicted, lambda: ngd(rows))
    path = folder / "large.npy"
    write(path, LARGE)
    disk = prgd.open_rows(path, np.load(labels_of(path)))
    plain_read(path, 2**24)
    predicted = measuring + looks * size / c.disk_pass_warm
    timed(f"NGD, {steps} steps, file in the cache", predicted, lambda: ngd(disk))

    def cold_passes() -> None:
        for _ in range(3):
            drop_cache(path)
            disk.ask(TallyAt(aim(), EXPONENTIAL, True))

    timed("3 passes, file not in the cache", 3 * size / c.disk_pass_cold, cold_passes)
    return runs


def project(c: Constants, gpu: dict[str, Any] | None) -> list[tuple[str, str, str, str]]:
    """Return what 1 TB would take: one pass, a certified fit to 1e-3, and what this rests on."""
    share = c.memory_pass / c.memory_read
    passes = c.passes[1e-3]
    d = COLUMNS_TB
    wire = MACHINES * PARTITIONS * 8 * (d + 2 * (d + 6)) / NETWORK
    lines = []

    def add(where: str, seconds: float | None, rests_on: str) -> None:
        text = (
            ("not measured yet",) * 2
            if seconds is None
            else (f"{seconds:.3g} s", f"{_time(seconds * passes)}")
        )
        lines.append((where, *text, rests_on))

    add(
        f"{MACHINES} machines, rows in memory",
        TERABYTE / MACHINES / (SERVER_READ * share) + c.round_trip + wire,
        f"assumed: {SERVER_READ / 1e9:.0f} GB/s of memory each, {NETWORK / 1e9:g} GB/s of network; "
        f"measured: {share:.2f} of a plain read, {1e3 * c.round_trip:.0f} ms a round trip",
    )
    add(
        f"{MACHINES} machines, rows on disk",
        TERABYTE / MACHINES / c.disk_pass_cold + c.round_trip + wire,
        f"each with the disk of this machine: {c.disk_pass_cold / 1e9:.1f} GB/s in a pass, measured",
    )
    seconds, origin = None, "no record at benchmarks/records/gpu_pass.json"
    if gpu is not None:
        # the shape that is nearest to a row of the terabyte
        case = min((c for c in gpu["cases"] if c["dtype"] == "float32"), key=lambda c: abs(c["d"] - d))
        speed, fraction = case["read_bytes_per_second"], case["fractions"]["by_class"]
        seconds = TERABYTE / GPUS / (speed * fraction)
        origin = f"measured on one {gpu['device']}: {fraction:.2f} of a plain read at {speed / 1e12:.1f} TB/s"
    add(f"{GPUS} H200s, float32 in their memory", seconds, origin)
    add(
        "one laptop, rows on its disk",
        TERABYTE / c.disk_pass_cold,
        f"the disk of this machine: {c.disk_pass_cold / 1e9:.1f} GB/s in a pass, measured",
    )
    return lines


def _time(seconds: float) -> str:
    if seconds < 120.0:
        return f"{seconds:.0f} s" if seconds >= 10.0 else f"{seconds:.2g} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.1f} h"


def render(c: Constants, runs: list[Run], lines: list[tuple[str, str, str, str]]) -> str:
    """Return the three tables as Markdown."""
    gb = 1e9
    text = [
        f"Measured by `benchmarks/cost_model.py` on {THREADS} cores ({platform.machine()}, "
        f"{platform.system()}), float32 rows of {COLUMNS} columns, two classes.",
        "",
        "| constant | here |",
        "|---|---|",
        f"| plain read of memory | {c.memory_read / gb:.1f} GB/s |",
        f"| pass over memory | {c.memory_pass / gb:.1f} GB/s, {c.memory_pass / c.memory_read:.2f} of that |",
        f"| first pass, which measures the rows | {c.memory_measure / gb:.1f} GB/s |",
        f"| plain read of the disk, cache dropped | {c.disk_read / gb:.1f} GB/s |",
        f"| pass over the disk, cache dropped | {c.disk_pass_cold / gb:.1f} GB/s, "
        f"{c.disk_pass_cold / c.disk_read:.2f} of that |",
        f"| pass over a file in the cache | {c.disk_pass_warm / gb:.1f} GB/s |",
        f"| round trip of a pass, {PARTITIONS} partitions, 2 workers | {1e3 * c.round_trip:.0f} ms |",
        "| passes of `max_margin` to a gap of "
        + ", ".join(f"{gap:g}" for gap in GAPS)
        + " | "
        + ", ".join(f"{c.passes[gap]:.0f}" for gap in GAPS)
        + " |",
        "| seconds on its working set, whatever the number of rows | "
        + ", ".join(f"{c.inner_s[gap]:.1f}" for gap in GAPS)
        + " |",
        "",
        f"Predicted from these, which come from {SMALL:,} rows, for {LARGE:,} rows "
        f"({LARGE * ROW / gb:.2f} GB):",
        "",
        "| run | predicted | measured | measured / predicted |",
        "|---|---|---|---|",
        *(
            f"| {r.name} | {r.predicted:.2f} s | {r.measured:.2f} s | {r.measured / r.predicted:.2f} |"
            for r in runs
        ),
        "",
        f"Projected for 1 TB ({TERABYTE / 4 / COLUMNS_TB:.0e} rows of {COLUMNS_TB} float32 columns), with "
        "the passes to 1e-3 of the table above:",
        "",
        "| where | one pass | certified to 1e-3 | rests on |",
        "|---|---|---|---|",
        *(f"| {' | '.join(line)} |" for line in lines),
    ]
    return "\n".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dir", type=Path, help="where files are written, and deleted at the end")
    parser.add_argument("--gpu", type=Path, default=ROOT / "benchmarks" / "records" / "gpu_pass.json")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/scale.md")
    options = parser.parse_args()
    gpu = json.loads(options.gpu.read_text(encoding="utf-8")) if options.gpu.exists() else None
    with tempfile.TemporaryDirectory(prefix="prgd-cost-", dir=options.dir) as folder:
        constants = measure(Path(folder))
        runs = check(constants, Path(folder))
    text = render(constants, runs, project(constants, gpu))
    print(text)
    if options.write_docs:
        page = DOCS.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        DOCS.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
