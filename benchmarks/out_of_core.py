"""A fit of a file that is at least four times larger than the memory the process is allowed.

For each kind of file (.npy, LIBSVM text, Parquet) one process fits it through `prgd.open_rows` under a
hard limit on its private memory, and watches how much it holds; another loads the whole file and fits
it from memory. Both must find the same w and the same certificate.

    python benchmarks/out_of_core.py [--kinds npy,libsvm,parquet] [--size 1.2GB] [--allow 256MB] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SEED = 20240
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9}
TIMES_LARGER = 4.0
AGREEMENT = 1e-12
CHILD_S = 900
BLOCK_BYTES = 2**25
# what Python, Numba and the BLAS buffers take, and for LIBSVM scikit-learn's parser, fits in these
ALLOW = {"npy": 256 * 10**6, "libsvm": 448 * 10**6, "parquet": 512 * 10**6}
# NGD steps, then as many of PRGD from there; Parquet is decoded again in every pass
STEPS = {"npy": 30, "libsvm": 15, "parquet": 5}
THREADS = 2  # of both processes; the limit counts each thread's stack
COLUMNS = 256  # of the dense files
ENTRIES, STRIDE, FIRST = 50, 1_800, 10_000  # of a LIBSVM row: one entry in each of 50 runs of columns
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


# Files, written block by block


def write_npy(path: Path, size: int) -> None:
    """Write float32 rows and, beside them, their labels."""
    import numpy as np

    n = -(-size // (4 * COLUMNS))
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (n, COLUMNS))
    labels = np.empty(n, np.int8)
    start = 0
    for X, y in dense_blocks(n):
        rows[start : start + y.size], labels[start : start + y.size] = X, y
        start += y.size
    rows.flush()
    np.save(labels_of(path), labels)


def write_parquet(path: Path, size: int) -> None:
    """Write float32 columns and a label column, one row group for each block."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = -(-size // (4 * COLUMNS))
    names = [f"x{j}" for j in range(COLUMNS)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int8())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for X, y in dense_blocks(n, 2**13):
            columns = [pa.array(np.ascontiguousarray(column)) for column in X.T]
            writer.write_table(pa.Table.from_arrays([*columns, pa.array(y)], schema=schema))


def dense_blocks(n: int, rows: int = BLOCK_BYTES // (4 * COLUMNS)) -> Any:
    """Yield normal rows and labels that a planted w separates with margin 0.5."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    planted = rng.standard_normal(COLUMNS).astype(np.float32)
    planted /= np.linalg.norm(planted)
    for start in range(0, n, rows):
        X = rng.standard_normal((min(rows, n - start), COLUMNS), dtype=np.float32)
        y = np.where(X @ planted > 0.0, 1, -1).astype(np.int8)
        yield X + np.outer(0.5 * y, planted), y


def write_libsvm(path: Path, size: int) -> None:
    """Write lines '+1 10123:+0.57 ...', labelled by a planted w; all are of the same length."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    planted = rng.standard_normal(FIRST + ENTRIES * STRIDE)
    width = len(" 10123:+0.57")
    line = 2 + ENTRIES * width + 1
    rows = BLOCK_BYTES // (8 * line)
    with path.open("wb") as file:
        while file.tell() < size:
            index = FIRST + np.arange(ENTRIES) * STRIDE + rng.integers(STRIDE, size=(rows, ENTRIES))
            cents, sign = rng.integers(1, 100, size=index.shape), rng.choice([-1, 1], size=index.shape)
            label = np.where((planted[index] * cents * sign).sum(axis=1) > 0.0, 1, -1)
            text = np.empty((rows, line), np.uint8)
            text[:, 0], text[:, 1], text[:, -1] = np.where(label > 0, ord("+"), ord("-")), ord("1"), ord("\n")
            entries = text[:, 2:-1].reshape(rows, ENTRIES, width)
            entries[:] = np.frombuffer(b" 00000:+0.00", np.uint8)
            for k in range(5):
                entries[:, :, 1 + k] += (index // 10 ** (4 - k) % 10).astype(np.uint8)
            entries[:, :, 7] = np.where(sign > 0, ord("+"), ord("-"))
            entries[:, :, 10] += (cents // 10).astype(np.uint8)
            entries[:, :, 11] += (cents % 10).astype(np.uint8)
            text[:, 2:-1] = entries.reshape(rows, -1)
            file.write(text.data)


WRITERS = {"npy": write_npy, "libsvm": write_libsvm, "parquet": write_parquet}


def labels_of(path: Path) -> Path:
    return path.with_name(path.stem + "-labels.npy")


# The two children: one in bounded memory, one that loads everything


@dataclass
class Task:
    """What a child is told, on its command line."""

    kind: str
    path: str
    out: str
    steps: int
    allow: int | None  # None: load the whole file


class MemoryWatch:
    """Sample this process's memory from a thread; keeps the largest values seen, in bytes."""

    FIELDS = ("RssAnon", "RssFile", "VmData")

    def __init__(self, interval: float = 0.003) -> None:
        self.peak = dict.fromkeys(self.FIELDS, 0)
        self.samples = 0
        self._interval, self._done = interval, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.is_set():
            self.look()
            self._done.wait(self._interval)

    def look(self) -> dict[str, int]:
        found = {}
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in self.FIELDS:
                found[name] = 1024 * int(value.split()[0])
                self.peak[name] = max(self.peak[name], found[name])
        self.samples += 1
        return found

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
        self.look()


def run_child(task: Task) -> None:
    if task.allow is not None:
        # private writable memory, counted when it is reserved; mapped files are not part of it
        resource.setrlimit(resource.RLIMIT_DATA, (task.allow, task.allow))
    with MemoryWatch() as watch:
        import numpy as np

        import prgd
        from prgd.rows import _kernels  # noqa: F401 - loads the compiler

        baseline = watch.look()
        start = time.perf_counter()
        problem = (open_bounded if task.allow is not None else load_whole)(task)
        opened = time.perf_counter()
        warm = prgd.run(problem, prgd.NGD(), stop=task.steps)
        result = prgd.run(problem, prgd.PRGD(), warm.w, stop=task.steps)
        ended = time.perf_counter()
    # The ends of the certificate also hold a bound on rounding, which depends on the way of summation.
    last = result.history.rows[-1]
    np.savez(task.out, warm=warm.w, w=result.w, bounds=[last.margin, last.upper_bound])
    facts = {
        "peak": watch.peak,
        "baseline": baseline,
        "samples": watch.samples,
        "open_s": opened - start,
        "fit_s": ended - opened,
        "passes": problem.passes + 1,  # and one that measures the rows
        "shape": [problem.n, problem.d],
    }
    Path(task.out).with_suffix(".json").write_text(json.dumps(facts), encoding="utf-8")


def open_bounded(task: Task) -> Any:
    import numpy as np

    import prgd

    path = Path(task.path)
    y = np.load(labels_of(path)) if task.kind == "npy" else None
    # a part is a small share: the interpreter, the compiler and the labels need the rest
    rows = prgd.open_rows(path, y, max_memory=task.allow // 16, cache_dir=path.parent, n_jobs=THREADS)
    return prgd.Problem(rows)


def load_whole(task: Task) -> Any:
    import numpy as np

    import prgd

    path = Path(task.path)
    if task.kind == "npy":
        return prgd.Problem(np.load(path), np.load(labels_of(path)), n_jobs=THREADS)
    if task.kind == "libsvm":
        from scipy.sparse import csr_array

        from prgd.rows.readers.libsvm_cache import cache_libsvm

        # what the other child parsed, but read whole
        csr = cache_libsvm(path, path.parent)
        arrays = tuple(np.array(a) for a in (csr.data, csr.indices, csr.indptr))
        return prgd.Problem(csr_array(arrays, shape=csr.shape), np.array(csr.y), n_jobs=THREADS)
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    X = np.empty((table.num_rows, COLUMNS), np.float32)
    for j in range(COLUMNS):
        X[:, j] = table[f"x{j}"].to_numpy()
    return prgd.Problem(X, table["y"].to_numpy(), n_jobs=THREADS)


# The parent


class ChildError(Exception):
    """A child failed; the message says what it wrote."""


def spawn(task: Task) -> tuple[dict[str, Any], Any]:
    """Run a child and return its facts and results; its arrays never pass through this process."""
    import numpy as np

    environment = {**os.environ, **dict.fromkeys(BLAS_VARIABLES, "1")}
    # pyarrow's own allocator reserves a gigabyte that it does not use, and the limit counts that
    environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    command = [sys.executable, str(Path(__file__).resolve()), "--child", json.dumps(asdict(task))]
    under = "without a limit" if task.allow is None else f"under a limit of {task.allow:,} bytes"
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=CHILD_S
        )
    except subprocess.TimeoutExpired:
        raise ChildError(
            f"The {task.kind} child did not end within {CHILD_S} s {under}. OpenBLAS tries forever to "
            "reserve its buffers of some 32 MB where a limit forbids it: allow more, or take a smaller file."
        ) from None
    if done.returncode != 0:
        raise ChildError(f"The {task.kind} child failed {under}: {done.stderr.strip()[-2000:]}")
    facts = json.loads(Path(task.out).with_suffix(".json").read_text(encoding="utf-8"))
    with np.load(task.out) as arrays:
        return facts, {name: arrays[name] for name in arrays.files}


def measure(kind: str, folder: Path, size: int, allow: int, steps: int) -> dict[str, Any]:
    """Return the outcome of one kind of file; sizes in bytes, times in seconds."""
    import numpy as np

    suffix = "svm" if kind == "libsvm" else kind
    path, tiny = folder / f"rows.{suffix}", folder / f"tiny.{suffix}"
    WRITERS[kind](tiny, 10**6)
    WRITERS[kind](path, size)
    # fills the cache of compiled kernels, so that the bounded process need not hold LLVM at work
    spawn(Task(kind, str(tiny), str(folder / "tiny.npz"), 1, None))
    bounded, found = spawn(Task(kind, str(path), str(folder / "bounded.npz"), steps, allow))
    whole, expected = spawn(Task(kind, str(path), str(folder / "whole.npz"), steps, None))

    def difference(*names: str) -> float:
        return max(float(np.linalg.norm(found[k] - expected[k]) / np.linalg.norm(expected[k])) for k in names)

    file_bytes = path.stat().st_size
    w, bounds = difference("warm", "w"), difference("bounds")
    peak = bounded["peak"]
    is_met = file_bytes >= TIMES_LARGER * allow and peak["RssAnon"] <= allow and max(w, bounds) <= AGREEMENT
    outcome = {key: bounded[key] for key in ("shape", "samples", "passes", "open_s", "fit_s")}
    outcome |= {"kind": kind, "file_bytes": file_bytes, "allow": allow, "is_met": is_met}
    outcome |= {"peak_anonymous": peak["RssAnon"], "peak_mapped": peak["RssFile"]}
    outcome |= {"peak_reserved": peak["VmData"], "baseline_anonymous": bounded["baseline"]["RssAnon"]}
    outcome |= {"whole_anonymous": whole["peak"]["RssAnon"], "whole_fit_s": whole["fit_s"]}
    return outcome | {"w_difference": w, "bounds_difference": bounds}


def print_outcome(o: dict[str, Any]) -> None:
    size = {key: f"{o[key] / 1e6:,.0f} MB" for key in o if isinstance(o[key], int)}
    print(f"{o['kind']}: {o['shape'][0]} x {o['shape'][1]}, {size['file_bytes']}; allowed {size['allow']}")
    print(f"  peak RssAnon {size['peak_anonymous']}, {size['baseline_anonymous']} of it after the imports")
    print(f"  mapped {size['peak_mapped']}, reserved {size['peak_reserved']}")
    print(f"  whole in memory: {size['whole_anonymous']}, {o['whole_fit_s']:.1f} s")
    print(f"  open {o['open_s']:.1f} s, {o['passes']} passes {o['fit_s']:.1f} s")
    print(f"  w to {o['w_difference']:.1e}, margin and bound to {o['bounds_difference']:.1e}")
    print(f"  {'pass' if o['is_met'] else 'FAIL'}")


def parse_size(text: str) -> int:
    """Read a size such as 256MB or 1.2GB."""
    return int(float(text[:-2]) * UNITS[text[-2:].upper()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(WRITERS), help="of files, separated by commas")
    parser.add_argument("--size", type=parse_size, help="of a file; default 4.2 times --allow")
    parser.add_argument("--allow", type=parse_size, help="private memory; default 256 to 512 MB by kind")
    parser.add_argument("--steps", type=int, help="of NGD, and then of PRGD")
    parser.add_argument("--dir", type=Path, help="where the temporary folder is made")
    parser.add_argument("--json", type=Path, help="write the outcomes there")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child(Task(**json.loads(options.child)))
        return
    kinds = options.kinds.split(",")
    if unknown := set(kinds) - set(WRITERS):
        parser.error(f"--kinds: expected some of {', '.join(WRITERS)}; got {', '.join(sorted(unknown))}")
    if not Path("/proc/self/status").exists():
        parser.error("memory is read from /proc, which this system does not have")
    rows: list[dict[str, Any]] = []
    for kind in kinds:
        allow = options.allow or ALLOW[kind]
        size, steps = options.size or int(4.2 * allow), options.steps or STEPS[kind]
        with tempfile.TemporaryDirectory(dir=options.dir, prefix="prgd-out-of-core-") as folder:
            try:
                outcome = measure(kind, Path(folder), size, allow, steps)
            except ChildError as error:
                print(f"{kind}\n  verdict           FAIL: {error}", flush=True)
                rows.append({"kind": kind, "allow": allow, "is_met": False, "error": str(error)})
                continue
        print_outcome(outcome)
        rows.append(outcome)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
