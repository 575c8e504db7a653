"""Time of `prgd.separability` on dense sets of hundreds of columns whose labels are partly wrong.

fashion_1v9 and mnist_0v1 of the folder that PRGD_DATA names, 12,000 rows of 784 columns, with 5, 20 and 100
labels flipped, each with and without a feature that is non-zero in one row only; and 30,000 generated rows of
300 columns, separable or with labels flipped, beside `prgd.max_margin` on the same rows. Each verdict is
proven again by `check`, off the clock, and the table says whether that succeeds.

    python benchmarks/separability_columns.py [--threads N] [--seeds N] [--out FILE]
"""

# ruff: noqa: E402 - libraries read the number of threads when they are imported
from __future__ import annotations

import argparse
import os
from pathlib import Path

RECORD = Path(__file__).parent / "records/separability_columns.json"
options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--threads", type=int, default=2)
options.add_argument("--seeds", type=int, default=1, help="choices of the flipped labels")
options.add_argument("--out", type=Path, default=RECORD)
given = options.parse_args()
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PRGD_NUM_THREADS"):
    os.environ[name] = str(given.threads)

import json
import platform
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import prgd

SETS = ("fashion_1v9", "mnist_0v1")
FLIPS = (5, 20, 100)
GENERATED_FLIPS = (0, 3, 30, 1500)
MAX_SECONDS = 60.0


def real(name: str) -> tuple[Any, Any]:
    folder = os.environ.get("PRGD_DATA")
    if folder is None:
        raise SystemExit("Set PRGD_DATA to the folder with the real data sets.")
    data = prgd.datasets.load(Path(folder) / f"{name}.svm.bz2")
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    return X, np.where(data.y == np.max(data.y), 1, -1)


def generated(flips: int, n: int = 30_000, d: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    y = np.where(X @ w > 0.0, 1, -1)
    y[rng.choice(n, flips, replace=False)] *= -1
    return X, y


def trials(seeds: int) -> Iterator[tuple[str, Any, Any]]:
    for name in SETS:
        X, y = real(name)
        for seed in range(seeds):
            for flips in FLIPS:
                rng = np.random.default_rng(seed)
                labels = y.copy()
                labels[rng.choice(len(y), flips, replace=False)] *= -1
                rare = np.zeros((len(y), 1))
                rare[rng.integers(len(y))] = 1.0
                words = f"{name}, {flips} flipped, seed {seed}"
                yield words, X, labels
                yield f"{words}, a feature of one row", np.hstack([X, rare]), labels


def timed(words: str, X: Any, y: Any) -> dict[str, Any]:
    started, cpu_started = time.perf_counter(), time.process_time()
    found = prgd.separability(X, y)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    started = time.perf_counter()
    checked = found.check(X, y)
    check_seconds = time.perf_counter() - started
    record = {
        "trial": words,
        "n": len(X),
        "d": X.shape[1],
        "verdict": str(found.verdict),
        "separated": int(found.separated_rows.size),
        "boundary": int(found.boundary_rows.size),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),  # of all threads; a busy machine adds to both
        "check": checked,
        "check_seconds": round(check_seconds, 2),
        "how": found.how,
    }
    late = "" if seconds <= MAX_SECONDS and found.verdict != "undecided" else "  MISSED"
    print(
        f"{words:52} {found.verdict:16} {seconds:7.2f} s ({cpu_seconds:.2f} s CPU)  "
        f"check {checked} in {check_seconds:.2f} s{late}",
        flush=True,
    )
    return record


def main() -> None:
    prgd.separability(*generated(0, 200, 5))  # compiles
    records = [timed(*trial) for trial in trials(given.seeds)]
    for flips in GENERATED_FLIPS:
        X, y = generated(flips)
        record = timed(f"30,000 x 300 generated, {flips} flipped", X, y)
        started = time.perf_counter()
        fit = prgd.max_margin(X, y)
        record["fit_seconds"] = round(time.perf_counter() - started, 2)
        record["fit_status"] = fit.status.name
        print(f"{'':52} {fit.status.name:16} {record['fit_seconds']:7.2f} s  by max_margin")
        records.append(record)
    machine = {
        "threads": given.threads,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    given.out.write_text(json.dumps({"machine": machine, "trials": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
