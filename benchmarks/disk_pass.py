"""One pass over a file on disk, next to a plain read of the same file; and a certified fit of it.

The file (.npy, float32) is written block by block. Passes and plain reads take turns: with the page cache
dropped before each, and with the file in the cache. A plain read fills one buffer again and again; the
faster of two sizes counts. Then `prgd.max_margin` fits the file in a process of its own, which watches the
anonymous memory it holds.

    python benchmarks/disk_pass.py [--dir FOLDER] [--rows 8000000] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from out_of_core import COLUMNS, MemoryWatch, dense_blocks, labels_of, show

import prgd
from prgd.losses import EXPONENTIAL
from prgd.rows import TallyAt

PLAIN_BUFFERS = (2**22, 2**24)
LEAST = {"cold": 0.7, "warm": 0.5}  # of the speed of a plain read
MOST_ANONYMOUS = 10**9
TOL = 1e-3


def write(path: Path, n: int) -> None:
    """Write planted rows and, beside them, their labels."""
    labels, start = np.empty(n, np.int8), 0
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n, COLUMNS)}
        np.lib.format.write_array_header_1_0(file, header)
        for X, y in dense_blocks(n):
            file.write(X.astype(np.float32).data)
            labels[start : start + y.size] = y
            start += y.size
        file.flush()
        os.fsync(file.fileno())
    np.save(labels_of(path), labels)


def drop_cache(path: Path) -> None:
    """Make the system forget the file; as root, all it holds of any file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if os.geteuid() == 0:
        Path("/proc/sys/vm/drop_caches").write_text("1")


def plain_read(path: Path, size: int) -> None:
    """Read the file into one buffer, again and again."""
    with path.open("rb", buffering=0) as file:
        left = memoryview(bytearray(size))
        while file.readinto(left):
            pass


def speed(path: Path, work: Callable[[], object], is_cold: bool) -> float:
    """Return bytes per second of one reading."""
    if is_cold:
        drop_cache(path)
    start = time.perf_counter()
    work()
    return path.stat().st_size / (time.perf_counter() - start)


def measure_passes(path: Path, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return speeds in bytes per second, cold and warm."""
    rows = prgd.open_rows(path, np.load(labels_of(path)))
    w = np.random.default_rng(1).standard_normal(COLUMNS)
    w *= 3.0 / np.linalg.norm(w)
    work: dict[str, Callable[[], object]] = {
        f"plain {size // 2**20} MB": lambda size=size: plain_read(path, size) for size in PLAIN_BUFFERS
    }
    work["pass"] = lambda: rows.ask(TallyAt(w, EXPONENTIAL))
    work["pass, two classes"] = lambda: rows.ask(TallyAt(w, EXPONENTIAL, True))
    rows.ask(TallyAt(w, EXPONENTIAL, True))  # compiles
    found: dict[str, dict[str, list[float]]] = {}
    for heat in ("cold", "warm"):
        found[heat] = {name: [] for name in work}
        if heat == "warm":
            plain_read(path, PLAIN_BUFFERS[0])
        for _ in range(rounds):
            for name, task in work.items():
                found[heat][name].append(speed(path, task, heat == "cold"))
    return found


def fit(path: Path) -> dict[str, float]:
    """Fit in this process, and watch its memory."""
    with MemoryWatch() as watch:
        start = time.perf_counter()
        rows = prgd.open_rows(path, np.load(labels_of(path)))
        result = prgd.max_margin(rows, tol=TOL)
        seconds = time.perf_counter() - start
    return {
        "peak_anonymous": watch.peak["RssAnon"],
        "seconds": seconds,
        "passes": result.passes,
        "gap": result.gap,
        "margin": result.margin,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dir", type=Path, help="where the file is written, and deleted at the end")
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit is not None:
        print(json.dumps(fit(options.fit)))
        return 0
    with tempfile.TemporaryDirectory(prefix="prgd-disk-pass-", dir=options.dir) as folder:
        path = Path(folder) / "rows.npy"
        write(path, options.rows)
        size = path.stat().st_size
        print(f"{options.rows} x {COLUMNS} float32, {show(size)}")
        speeds = measure_passes(path, options.rounds)
        child = subprocess.run(
            [sys.executable, __file__, "--fit", str(path)], capture_output=True, text=True, check=True
        )
        fitted = json.loads(child.stdout)
    is_met = True
    for heat, found in speeds.items():
        medians = {name: statistics.median(values) for name, values in found.items()}
        plain = max(value for name, value in medians.items() if name.startswith("plain"))
        for name, values in found.items():
            low, high = min(values) / 1e9, max(values) / 1e9
            share = medians[name] / plain
            verdict = ""
            if name == "pass":
                is_met &= share >= LEAST[heat]
                verdict = f", at least {LEAST[heat]:g}: {'pass' if share >= LEAST[heat] else 'MISSED'}"
            print(
                f"  {heat}  {name:<18}{medians[name] / 1e9:6.2f} GB/s ({low:.2f} to {high:.2f}), "
                f"{share:.2f} of the plain read{verdict}"
            )
    is_small = fitted["peak_anonymous"] <= MOST_ANONYMOUS
    print(f"  max_margin: gap {fitted['gap']:.1e}, {fitted['passes']:.1f} passes, {fitted['seconds']:.1f} s")
    print(
        f"  peak RssAnon {show(fitted['peak_anonymous'])}, at most {show(MOST_ANONYMOUS)}: "
        f"{'pass' if is_small else 'MISSED'}"
    )
    if options.json is not None:
        options.json.write_text(
            json.dumps({"bytes": size, "speeds": speeds, "fit": fitted}), encoding="utf-8"
        )
    return 0 if is_met and is_small else 1


if __name__ == "__main__":
    sys.exit(main())
