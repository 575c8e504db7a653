"""How long one pass of an engine takes, over one plain read of the same bytes.

The plain read is a compiled sum of the stored numbers by as many threads. "pass" is the Tally at w,
"second" the same with the margin along a second direction, "products" the two products that NumPy or SciPy
need for the same sums, and "joint" the pass over all classes jointly, of ten classes. w is zero, so that all
rows carry weight, or long, so that few do. All take turns, and a ratio is the median over rounds.

    python benchmarks/pass_ratio.py [--threads T] [--rounds N] [--rows N] [--json FILE]
"""

# ruff: noqa: E402 - libraries read the number of threads when they are imported
import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from timing import in_turns, machine, ratio, set_threads, write

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=15)
parser.add_argument("--rows", type=int, default=1_000_000, help="of dense tables; sparse ones have a tenth")
parser.add_argument("--json", type=Path)
given = parser.parse_args()
set_threads(given.threads)

import numba as nb
import numpy as np
import scipy.sparse as sp

import prgd
from prgd.losses import EXPONENTIAL
from prgd.rows import TallyAt, as_rows

COLUMNS, CLASSES, DENSITY, LONG = 50, 10, 0.01, 300.0


@nb.njit(nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def sum_of(entries: Any) -> Any:
    total = 0.0
    for i in range(entries.size):
        total += entries[i]
    return total


def tables(n: int) -> Iterator[tuple[str, Any]]:
    """Yield each table with its name: dense of both types, and CSR."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, COLUMNS))
    X /= np.linalg.norm(X, axis=1).max()
    for name in ("float64", "float32"):
        yield f"{name} rows", X.astype(name)
    random = np.random.default_rng(1)
    yield "CSR", sp.random_array((n // 10, 100 * COLUMNS), density=DENSITY, format="csr", rng=random)


def reader(X: Any, pool: ThreadPoolExecutor) -> Callable[[], Any]:
    """Return the plain read of the stored entries."""
    parts = np.array_split(X.data if sp.issparse(X) else X.ravel(order="K"), given.threads)
    return lambda: list(pool.map(sum_of, parts))


def two_products(X: Any, y: Any, w: Any) -> Any:
    m = y * (X @ w)
    p = np.exp(m.min() - m)
    return X.T @ (y * p)


def measure(name: str, X: Any, pool: ThreadPoolExecutor) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    w, v = rng.standard_normal((2, X.shape[1]))
    y, classes = np.where(X @ w > 0.0, 1, -1), rng.integers(0, CLASSES, X.shape[0])
    rows, joint = as_rows(X, y, n_jobs=given.threads), prgd.Problem(X, classes, n_jobs=given.threads)
    work: dict[str, Callable[[], Any]] = {"read": reader(X, pool)}
    for length, at in {"zero": 0.0 * w, "long": LONG * w}.items():
        work[f"pass, {length}"] = lambda at=at: rows.ask(TallyAt(at, EXPONENTIAL))
        work[f"second, {length}"] = lambda at=at: rows.ask(TallyAt(at, EXPONENTIAL, second=v))
    work["products"] = lambda: two_products(X, y, LONG * w)
    W = LONG * rng.standard_normal((CLASSES, X.shape[1]))
    work["joint, long"] = lambda: joint.at(W)
    seconds = in_turns(work, given.rounds)
    row = {"table": name, "read, ms": round(1e3 * median(seconds["read"]), 2)}
    row |= {key: round(ratio(seconds, key, "read"), 2) for key in work if key != "read"}
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def main() -> None:
    with ThreadPoolExecutor(given.threads) as pool:
        found = [measure(name, X, pool) for name, X in tables(given.rows)]
    if given.json:
        write(given.json, {"machine": machine(), "rows": found})


if __name__ == "__main__":
    main()
