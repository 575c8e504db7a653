"""How long one pass of an engine takes, next to one plain read of the same bytes.

A case is a table of rows, a type and a norm of w. Four competitors work on it: the engine's pass, a
threaded sum of the stored numbers, one product X @ w, and the two products that NumPy or SciPy need
for what the pass returns. Each lives in a process of its own, since BLAS threads that spin between
calls would slow the others down; they make the same data from the same seed, and take turns.

    python benchmarks/pass_ratio.py [--threads T] [--rounds N] [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

from prgd.losses import EXPONENTIAL
from prgd.rows import TallyAt

SEED = 20240
COMPETITORS = ("pass", "sum", "product", "two products")
BLAS_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# all competitors must find the same mean row; sgemv sums in float32
AGREEMENT = {"float64": 1e-9, "float32": 2e-3}
# a repetition counts when the competitor had this share of its cores; a turn on a machine that others
# use is repeated until there are this many, for at most so many times the rounds
QUIET = 0.75
LEAST_LAPS = 20
MOST_ROUNDS = 4


@dataclass(frozen=True)
class Case:
    """A table of standard normal entries and a w under which margins have this standard deviation.

    At spread 100 few rows carry weight and the pass reads them once; at 0.01 all rows do, and each
    is used twice while it is in cache. For dense rows the spread is the norm of w.
    """

    name: str
    n: int
    d: int
    density: float
    dtype: str
    spread: float
    is_judged: bool = True

    @property
    def norm(self) -> float:
        return self.spread / self.density**0.5

    @property
    def most_of_read(self) -> float | None:
        """The target for pass / read; None where the plan sets none."""
        if self.density < 1.0 or not self.is_judged:
            return None
        if self.spread >= 1.0:
            return 1.3
        return 1.75 if self.dtype == "float64" else 2.1

    @property
    def most_of_products(self) -> float | None:
        return 0.6 if self.is_judged else None


def cases(quick: bool) -> list[Case]:
    shapes = [
        ("dense", 200_000, 256, 1.0),
        ("dense", 1_000_000, 50, 1.0),
        ("CSR", 20_000, 50_000, 0.001),
    ]
    if quick:
        shapes = [(kind, n // 50, d, density) for kind, n, d, density in shapes]
    return [
        # small tables lie in the caches: there the targets, which compare with memory, mean nothing
        Case(f"{kind} {n} x {d}", n, d, density, dtype, spread, is_judged=not quick)
        for kind, n, d, density in shapes
        for dtype in ("float64", "float32")
        for spread in (100.0, 0.01)
    ]


class Lap(NamedTuple):
    """One repetition: how long it took, and how many cores the process had meanwhile."""

    seconds: float
    cores: float


# One competitor, in its own process


def make_data(case: Case) -> tuple[Any, np.ndarray]:
    """Return X and the labels; the same in every process."""
    rng = np.random.default_rng(SEED)
    dtype = np.dtype(case.dtype)
    y = np.where(rng.random(case.n) < 0.5, -1.0, 1.0)
    if case.density == 1.0:
        return rng.standard_normal((case.n, case.d), dtype=dtype), y
    counts = rng.binomial(case.d, case.density, case.n)
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    indices = np.concatenate([np.sort(rng.choice(case.d, k, replace=False)) for k in counts])
    data = rng.standard_normal(indices.size, dtype=dtype)
    return sp.csr_array((data, indices.astype(np.int32), indptr), shape=(case.n, case.d)), y


def make_w(case: Case) -> np.ndarray:
    w = np.random.default_rng(SEED + 1).standard_normal(case.d)
    return w * (case.norm / np.linalg.norm(w))


def stored_arrays(X: Any) -> list[np.ndarray]:
    """Return what one pass has to read, as flat arrays."""
    return [X.reshape(-1)] if isinstance(X, np.ndarray) else [X.data, X.indices]


class Pass:
    """One pass of the engine: loss, gradient, margin and bound of every row at w."""

    def __init__(self, X: Any, y: np.ndarray, dtype: str, threads: int) -> None:
        from prgd.rows import DenseRows, SparseRows

        engine = DenseRows if isinstance(X, np.ndarray) else SparseRows
        self.rows = engine(X, y, n_jobs=threads)

    def aim(self, w: np.ndarray) -> None:
        self.w = w

    def __call__(self) -> Any:
        return self.rows.ask(TallyAt(self.w, EXPONENTIAL))

    def mean_row(self) -> np.ndarray:
        return self().mean_rows[0]


class Sum:
    """A sum of the stored numbers, an equal part for each thread: the least a reader can do."""

    def __init__(self, X: Any, y: np.ndarray, dtype: str, threads: int) -> None:
        import numba

        @numba.njit(nogil=True, fastmath=True)
        def total(x: Any) -> Any:
            result = x.dtype.type(0)
            for i in range(x.size):
                result += x[i]
            return result

        arrays = stored_arrays(X)
        self.parts = [[np.array_split(a, threads)[k] for a in arrays] for k in range(threads)]
        self.pool = ThreadPoolExecutor(threads)
        self.total = total

    def aim(self, w: np.ndarray) -> None:
        pass

    def _part(self, arrays: list[np.ndarray]) -> float:
        return sum(self.total(a) for a in arrays)

    def __call__(self) -> Any:
        if len(self.parts) == 1:
            return self._part(self.parts[0])
        return list(self.pool.map(self._part, self.parts))


class Product:
    """X @ w: BLAS for dense rows, SciPy for CSR."""

    def __init__(self, X: Any, y: np.ndarray, dtype: str, threads: int) -> None:
        self.X, self.dtype = X, dtype

    def aim(self, w: np.ndarray) -> None:
        self.w = w.astype(self.dtype)

    def __call__(self) -> Any:
        return self.X @ self.w


class TwoProducts(Product):
    """X @ w, its softmax p, X.T @ p: the mean row as written with NumPy or SciPy."""

    def __init__(self, X: Any, y: np.ndarray, dtype: str, threads: int) -> None:
        super().__init__(X, y, dtype, threads)
        self.y = y.astype(dtype)

    def __call__(self) -> Any:
        margins = self.y * (self.X @ self.w)
        p = np.exp(margins.min() - margins)
        p /= p.sum()
        return self.X.T @ (p * self.y)

    def mean_row(self) -> np.ndarray:
        return self()


def serve(connection: Any, competitor: str, case: Case, threads: int) -> None:
    """Make the data, then answer: a norm to aim at, a number of repetitions to time."""
    makers: dict[str, Callable[..., Any]] = dict(
        zip(COMPETITORS, (Pass, Sum, Product, TwoProducts), strict=True)
    )
    X, y = make_data(case)
    work = makers[competitor](X, y, case.dtype, threads)
    connection.send({"bytes": sum(a.nbytes for a in stored_arrays(X)), "blas": blas_facts()})
    while (order := next_order(connection)) is not None:
        if isinstance(order, Case):
            work.aim(make_w(order))
            connection.send(work.mean_row() if hasattr(work, "mean_row") else None)
            continue
        # off the clock: refills the caches after the others' turns and lets threads find their cores
        for _ in range(order // 3 + 1):
            work()
        laps = []
        for _ in range(order):
            start, cpu = time.perf_counter(), time.process_time()
            work()
            seconds = time.perf_counter() - start
            laps.append(Lap(seconds, (time.process_time() - cpu) / seconds))
        connection.send(laps)


def next_order(connection: Any) -> Any:
    try:
        return connection.recv()
    except EOFError:  # the parent was stopped
        return None


def blas_facts() -> list[str]:
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return ["threadpoolctl is not installed: BLAS threads are as set in the environment"]
    return [
        f"{lib['internal_api']} {lib['version']}, {lib['num_threads']} threads" for lib in threadpool_info()
    ]


# The parent: processes, turns and medians


class Worker:
    """A competitor's process and the pipe to it; silent while it is not asked."""

    def __init__(self, competitor: str, case: Case, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, competitor, case, threads), daemon=True)
        self.process.start()
        theirs.close()
        self.facts = self.answer()

    def answer(self) -> Any:
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            raise RuntimeError(
                f"A worker ended with code {self.process.exitcode} before it answered; its message is above."
            ) from None

    def ask(self, order: Any) -> Any:
        self.pipe.send(order)
        return self.answer()


@contextmanager
def workers_for(case: Case, threads: int) -> Any:
    workers: dict[str, Worker] = {}
    try:
        # one after the other: making the data must not compete with the timing of anything
        for competitor in COMPETITORS:
            workers[competitor] = Worker(competitor, case, threads)
        yield workers
    finally:
        for worker in workers.values():
            if worker.process.is_alive():
                worker.pipe.send(None)
        for worker in workers.values():
            worker.process.join()
        gc.collect()


@dataclass(frozen=True)
class Row:
    """One line of the table; times in seconds, all medians."""

    case: str
    dtype: str
    norm: float
    threads: int
    bytes: int
    times: dict[str, float]
    quiet: dict[str, float]
    yardstick: str
    ratio: float
    ratio_range: tuple[float, float]
    ratio_target: float | None
    products_ratio: float
    products_range: tuple[float, float]
    products_target: float | None
    disagreement: float
    is_disturbed: bool

    @property
    def verdict(self) -> str:
        missed = [
            name
            for name, found, target in (
                ("read", self.ratio, self.ratio_target),
                ("products", self.products_ratio, self.products_target),
            )
            if target is not None and found > target
        ]
        if self.products_target is None:
            return "not judged"
        verdict = f"FAIL ({', '.join(missed)})" if missed else "pass"
        return f"{verdict}, disturbed" if self.is_disturbed else verdict


def measure(case: Case, workers: dict[str, Worker], threads: int, rounds: int, seconds: float) -> Row:
    """Let the competitors take turns for some rounds of about ``seconds`` each."""
    found = {name: worker.ask(case) for name, worker in workers.items()}
    reference = found["two products"].astype(np.float64)
    difference = np.linalg.norm(found["pass"] - reference) / np.linalg.norm(reference)
    if not difference < AGREEMENT[case.dtype]:
        raise RuntimeError(f"{case}: the pass and the two products differ by {difference:.1e}.")
    # the same number of repetitions in every round, chosen after a first look
    repetitions = {
        name: min(max(int(seconds / min(lap.seconds for lap in worker.ask(3))), 3), 200)
        for name, worker in workers.items()
    }
    needed = {name: QUIET * cores_wanted(name, case, threads) for name in workers}
    turns: dict[str, list[list[Lap]]] = {name: [] for name in workers}

    def quiet_laps(name: str) -> list[float]:
        return [lap.seconds for turn in turns[name] for lap in turn if lap.cores >= needed[name]]

    for done in range(MOST_ROUNDS * rounds if case.is_judged else rounds):
        if done >= rounds and all(len(quiet_laps(name)) >= LEAST_LAPS for name in workers):
            break
        for name, worker in workers.items():
            turns[name].append(worker.ask(repetitions[name]))
    quiet = {name: len(quiet_laps(name)) / sum(map(len, turns[name])) for name in workers}
    if any(len(quiet_laps(name)) < LEAST_LAPS for name in workers):
        needed = dict.fromkeys(workers, 0.0)  # the verdict says so
    times = {name: statistics.median(quiet_laps(name)) for name in workers}
    yardstick = min(("sum", "product"), key=times.__getitem__)

    def ratio(other: str) -> tuple[float, tuple[float, float]]:
        each = []
        for ours, theirs in zip(turns["pass"], turns[other], strict=True):
            a = [lap.seconds for lap in ours if lap.cores >= needed["pass"]]
            b = [lap.seconds for lap in theirs if lap.cores >= needed[other]]
            if a and b:
                each.append(statistics.median(a) / statistics.median(b))
        # within a round, since the speed of a shared memory changes from minute to minute
        each = each or [times["pass"] / times[other]]
        return statistics.median(each), (min(each), max(each))

    to_read, to_products = ratio(yardstick), ratio("two products")
    return Row(
        case=case.name,
        dtype=case.dtype,
        norm=case.norm,
        threads=threads,
        bytes=workers["pass"].facts["bytes"],
        times=times,
        quiet=quiet,
        yardstick=yardstick,
        ratio=to_read[0],
        ratio_range=to_read[1],
        ratio_target=case.most_of_read,
        products_ratio=to_products[0],
        products_range=to_products[1],
        products_target=case.most_of_products,
        disagreement=float(difference),
        is_disturbed=not all(needed.values()),
    )


def cores_wanted(competitor: str, case: Case, threads: int) -> int:
    """Return how many cores a competitor keeps busy when it is left alone."""
    # SciPy's sparse products have one thread; a sum of few entries ends before the second one wakes
    return threads if case.density == 1.0 or competitor == "pass" else 1


def machine_facts() -> dict[str, str]:
    import numba

    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].partition(":")[2].strip() if lines else name
    return {
        "CPU": name,
        "cores": str(available_cores()),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "Numba": numba.__version__,
    }


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def print_table(rows: list[Row], facts: dict[str, Any], console: Console) -> None:
    table = Table(title="One pass over the rows against one plain read of them", title_justify="left")
    columns = ("case", "dtype", "||w||", "pass ms", "read ms", "by", "GB/s", "pass / read", "target")
    for name in (*columns, "/ products", "target", "quiet", ""):
        table.add_column(name, justify="left" if name in ("case", "dtype", "by", "") else "right")
    for row in rows:
        read = row.times[row.yardstick]
        table.add_row(
            row.case,
            row.dtype,
            f"{row.norm:.4g}",
            f"{1e3 * row.times['pass']:.2f}",
            f"{1e3 * read:.2f}",
            row.yardstick,
            f"{row.bytes / read / 1e9:.1f}",
            show_ratio(row.ratio, row.ratio_range),
            show_target(row.ratio_target),
            show_ratio(row.products_ratio, row.products_range),
            show_target(row.products_target),
            f"{min(row.quiet.values()):.0%}",
            row.verdict,
        )
    console.print(table)
    console.print(
        "Times are medians; a ratio is the median over rounds, with the smallest and largest in brackets. "
        "Products: X @ w, softmax and X.T @ p by NumPy or SciPy. Quiet: the share of repetitions that had "
        "their cores to themselves, of the most disturbed competitor; only those count, unless there were "
        "too few (disturbed)."
    )
    console.print(", ".join(f"{key} {value}" for key, value in facts.items()))


def show_target(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def show_ratio(value: float, span: tuple[float, float]) -> str:
    return f"{value:.2f} ({span[0]:.2f}-{span[1]:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=available_cores(), help="of every competitor")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each competitor")
    parser.add_argument("--quick", action="store_true", help="small tables, to try the script out")
    parser.add_argument("--json", type=Path, help="write the rows and the machine there")
    options = parser.parse_args()
    if options.threads < 1 or options.rounds < 1:
        parser.error("--threads and --rounds must be at least 1")
    # read by the workers when they load BLAS
    os.environ.update(dict.fromkeys(BLAS_VARIABLES, str(options.threads)))
    console = Console(width=None if os.isatty(1) else 165)
    facts: dict[str, Any] = {**machine_facts(), "threads": options.threads, "rounds": options.rounds}
    rows: list[Row] = []
    chosen = cases(options.quick)
    while chosen:
        # cases on the same table share its processes, and only w changes
        same = [case for case in chosen if replace(case, spread=chosen[0].spread) == chosen[0]]
        chosen = chosen[len(same) :]
        with workers_for(same[0], options.threads) as workers:
            facts["BLAS"] = "; ".join(workers["product"].facts["blas"])
            for case in same:
                rows.append(
                    measure(case, workers, options.threads, options.rounds, 0.02 if options.quick else 0.3)
                )
                print(f"{rows[-1].case} {rows[-1].dtype}, norm {case.norm:.4g}: measured", flush=True)
    print_table(rows, facts, console)
    if options.json:
        text = json.dumps({"machine": facts, "rows": [asdict(row) for row in rows]}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
