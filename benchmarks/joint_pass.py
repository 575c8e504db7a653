"""One pass over all classes jointly, next to one plain read of the same rows.

The plain read is a compiled sum of all entries, by as many threads. Passes and reads take turns, and a ratio
is the median over the turns. The time of a pass depends on how many rows carry weight, hence four matrices W:

- zero: all pairs have the same weight, as at the first step of a run;
- small: all pairs carry weight, as in the first steps; this is the slowest;
- trained: what some steps of NGD on a sample of the rows lead to;
- long: the same direction, a hundred times longer, as after many steps of PRGD.

Arithmetic is the limit, not memory: 2 K d multiply-adds for every row take 125 cycles of a core that does 8
of them in a cycle (50 columns, ten classes), where memory delivers the row within 45.

    python benchmarks/joint_pass.py [--rows 1000000] [--columns 50] [--classes 10] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp

import prgd
from prgd.losses import as_loss
from prgd.rows import DenseRows, JointTallyAt, Rows, SparseRows

TARGET = 1.5  # of a plain read
SAMPLE, STEPS = 20_000, 300  # rows and steps of the run whose W is "trained"
LONGER = 100.0
DENSITY = 0.1  # of CSR rows


@nb.njit(nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def sum_of(entries: Any) -> Any:
    total = 0.0
    for i in range(entries.size):
        total += entries[i]
    return total


def make(n: int, d: int, K: int, dtype: str, engine: str) -> tuple[Any, Any]:
    """Return rows around K centres, of norm at most 1, and their classes."""
    rng = np.random.default_rng(0)
    centres, y = 3.0 * rng.standard_normal((K, d)), rng.integers(0, K, n)
    X = rng.standard_normal((n, d), dtype=np.float32)
    X += centres.astype(np.float32)[y]
    X /= np.linalg.norm(X, axis=1).max()
    X = X.astype(dtype)
    if engine == "csr":
        return sp.csr_array(X * (rng.random((n, d), dtype=np.float32) < DENSITY)), y
    return (np.asfortranarray(X) if engine == "columns" else X), y


def trained(X: Any, y: Any) -> Any:
    """Return W after some steps on a sample of the rows."""
    problem = prgd.Problem(X[:SAMPLE], y[:SAMPLE])
    return prgd.run(problem, prgd.NGD(), stop=STEPS).w


def reader(X: Any, threads: int) -> Callable[[], Any]:
    """Return the plain read of the stored entries by some threads."""
    entries = X.data if sp.issparse(X) else X.ravel(order="K")
    parts = np.array_split(entries, threads)
    pool = ThreadPoolExecutor(threads)
    if threads == 1:
        return lambda: sum_of(parts[0])
    return lambda: list(pool.map(sum_of, parts))


def times(work: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Let all of ``work`` take turns, and return the seconds of each turn."""
    found: dict[str, list[float]] = {name: [] for name in work}
    for name in work:
        work[name]()
    for _ in range(rounds):
        for name, call in work.items():
            start = time.perf_counter()
            call()
            found[name].append(time.perf_counter() - start)
    return found


def build(X: Any, y: Any, threads: int) -> Rows:
    return (SparseRows if sp.issparse(X) else DenseRows)(X, y, n_jobs=threads)


def measure(X: Any, y: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure every W with each number of threads."""
    W, loss, lines = trained(X, y), as_loss(options.loss), []
    matrices = {"zero": 0.0 * W, "small": 1e-3 * W / np.abs(W).max(), "trained": W, "long": LONGER * W}
    for threads in options.threads:
        rows, read = build(X, y, threads), reader(X, threads)
        work: dict[str, Callable[[], Any]] = {"read": read}
        for name, at in matrices.items():
            work[name] = partial(rows.ask, JointTallyAt(at, loss, options.by_class))
        found = times(work, options.rounds)
        for name, at in matrices.items():
            ratios = [a / b for a, b in zip(found[name], found["read"], strict=True)]
            lines.append(
                {
                    "W": name,
                    "norm": float(np.linalg.norm(at)),
                    "threads": threads,
                    "pass_ms": 1e3 * statistics.median(found[name]),
                    "read_ms": 1e3 * statistics.median(found["read"]),
                    "ratio": statistics.median(ratios),
                    "ratio_of_shortest": min(found[name]) / min(found["read"]),
                }
            )
    return lines


def facts(options: argparse.Namespace) -> dict[str, Any]:
    given = {key: value for key, value in vars(options).items() if key != "json"}
    return {**given, "machine": platform.processor() or platform.machine(), "numba": nb.__version__}


def main() -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    parser.add_argument(
        "--engine", choices=["rows", "columns", "csr"], default="rows", help="how X is stored"
    )
    parser.add_argument("--loss", choices=["exponential", "logistic"], default="exponential")
    parser.add_argument("--by-class", action="store_true", help="the pass of a problem with intercepts")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, cores}))
    parser.add_argument("--rounds", type=int, default=15, help="turns of each")
    parser.add_argument("--json", type=Path, help="write the lines and the machine there")
    options = parser.parse_args()
    if min(options.rows, options.columns, options.rounds, *options.threads) < 1 or options.classes < 3:
        parser.error("rows, columns, rounds and threads must be at least 1, and classes at least 3")
    lines = measure(
        *make(options.rows, options.columns, options.classes, options.dtype, options.engine), options
    )
    for line in lines:
        verdict = "pass" if line["ratio"] <= TARGET else f"above {TARGET}"
        print(
            f"{line['W']:8} norm {line['norm']:9.3g}  {line['threads']} threads: "
            f"pass {line['pass_ms']:7.1f} ms, read {line['read_ms']:6.1f} ms, ratio {line['ratio']:.2f} "
            f"(of the shortest times {line['ratio_of_shortest']:.2f}), {verdict}"
        )
    if options.json:
        text = json.dumps({"facts": facts(options), "lines": lines}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
