"""Time of `prgd.separability` on dense sets of hundreds of columns whose labels are partly wrong.

fashion_1v9 and mnist_0v1 of the folder that PRGD_DATA names, 12,000 rows of 784 columns, with 5, 20 and 100
labels flipped, each with and without a feature that is non-zero in one row only; and 30,000 generated rows of
300 columns, separable or with labels flipped, beside `prgd.max_margin` on the same rows. Sparse rows of the
dummies of one and two factors, of which some levels have one response alone. Each verdict is
proven again by `check`, off the clock, and the table says whether that succeeds.

    python benchmarks/separability_columns.py [--threads N] [--seeds N] [--out FILE]
"""

# ruff: noqa: E402 - libraries read the number of threads when they are imported
import argparse
from pathlib import Path

from timing import machine, real, set_threads, write

RECORD = Path(__file__).parent / "records/separability_columns.json"
options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--threads", type=int, default=2)
options.add_argument("--seeds", type=int, default=1, help="choices of the flipped labels")
options.add_argument("--out", type=Path, default=RECORD)
given = options.parse_args()
set_threads(given.threads)

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack

import prgd

SETS = ("fashion_1v9", "mnist_0v1")
FLIPS = (5, 20, 100)
GENERATED_FLIPS = (0, 3, 30, 1500)
FIXED_EFFECTS = (100_000, (6000,)), (200_000, (7000, 3000)), (1_000_000, (10_000, 10_000))
MAX_SECONDS = 60.0


def generated(flips: int, n: int = 30_000, d: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    y = np.where(X @ w > 0.0, 1, -1)
    y[rng.choice(n, flips, replace=False)] *= -1
    return X, y


def fixed_effects(n: int, levels: tuple[int, ...], seed: int) -> tuple[Any, Any]:
    """Return three columns and the dummies of factors, of which 30 levels each have one response alone."""
    rng = np.random.default_rng(seed)
    codes = [rng.permutation(np.append(np.arange(k), rng.integers(k, size=n - k))) for k in levels]
    X = rng.standard_normal((n, 3))
    score = 0.4 * X.sum(axis=1) + sum(
        0.7 * rng.standard_normal(k)[c] for k, c in zip(levels, codes, strict=True)
    )
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-score)), 1, -1)
    for k, c in zip(levels, codes, strict=True):
        alone = rng.choice(k, 30, replace=False)
        y[np.isin(c, alone)] = np.where(c[np.isin(c, alone)] % 2, 1, -1)
    dummies = [csr_array((np.ones(n), (np.arange(n), c)), shape=(n, c.max() + 1))[:, 1:] for c in codes]
    return hstack([csr_array(X), *dummies], format="csr"), y


def rare_indicator(seed: int) -> tuple[Any, Any]:
    X, y = generated(60, 12_000, 780)
    rare = np.zeros((len(y), 1))
    rare[np.flatnonzero(y > 0)[seed : seed + 4]] = 1.0
    return np.hstack([X, rare]), y


def trials(seeds: int) -> Iterator[tuple[str, Any, Any]]:
    for seed in range(seeds):
        yield f"12,000 x 781, seed {seed}, an indicator of 4 rows", *rare_indicator(seed)
        for n, levels in FIXED_EFFECTS:
            yield f"{n:,} rows, seed {seed}, dummies of {levels}", *fixed_effects(n, levels, seed)
    for name in SETS:
        X, y = real(f"{name}.svm.bz2")
        X = X.toarray()
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
    record = {"trial": words, "n": X.shape[0], "d": X.shape[1], "verdict": str(found.verdict)}
    record |= {"separated": int(found.separated_rows.size), "boundary": int(found.boundary_rows.size)}
    # CPU seconds are those of all threads; a busy machine adds to both.
    record |= {"seconds": round(seconds, 2), "cpu_seconds": round(cpu_seconds, 2)}
    record |= {"check": checked, "check_seconds": round(check_seconds, 2), "how": found.how}
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
    write(given.out, {"machine": machine() | {"numpy": np.__version__}, "trials": records})


if __name__ == "__main__":
    main()
