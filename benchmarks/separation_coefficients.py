"""Time of `prgd.separability`, with the verdict on each coefficient, against HiGHS on linear programs.

Whether a coefficient is finite, +inf, -inf or either is decided by the largest and the smallest v_j over the
recession cone ``{v : z_i . v >= 0}`` and the box ``|v_k| <= 1``: two linear programs for each coefficient
that is not aliased. HiGHS gets these columns for nothing, and solves as many of its programs as it can in
``--seconds``; the time of all of them is the mean of those solved times their number. If it solves none, that
limit counts as the time of one. The table shows both figures. HiGHS proves nothing; the words that it implies
are compared with ours.

The sets are the sparse ones of the folder that PRGD_DATA names, and six others: wide factors with
empty cells, 10^6 rows of 30 columns, classes that overlap in few rows, dense pixels with some labels
flipped, so that some columns separate rows and the others overlap, and two factors of 3,000 levels. CPU time
of one thread.

    python benchmarks/separation_coefficients.py [--seconds S] [--only NAME ...] [--out FILE]
"""

# ruff: noqa: E402 - libraries read the number of threads when they are imported
from __future__ import annotations

import argparse
from pathlib import Path

from timing import machine, real, set_threads, write

RECORD = Path(__file__).parent / "records/separation_coefficients.json"
options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--seconds", type=float, default=60.0, help="time that HiGHS has for each set")
options.add_argument("--only", nargs="*", help="names of the sets")
options.add_argument("--out", type=Path, default=RECORD)
given = options.parse_args()
set_threads(1)

import math
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack

import prgd

SETS = (
    "spambase",
    "mushrooms",
    "mnist_0v1",
    "fashion_1v9",
    "pcmac",
    "basehock",
    "rcv1_vw1500",
    "reuters_grain",
    "movie_polarity",
    "reuters_earn_acq",
)
MAX_RATIO = 0.2
TOLERANCE = 1e-6  # values of the linear programs below this count as zero


def dummies(codes: Any, levels: int) -> Any:
    """Return one column for each level but the first."""
    n = len(codes)
    full = csr_array((np.ones(n), (np.arange(n), codes)), shape=(n, levels))
    return full[:, 1:]


def logistic_labels(score: Any, rng: np.random.Generator) -> Any:
    return np.where(rng.random(len(score)) < 1.0 / (1.0 + np.exp(-score)), 1, -1)


def wide_factors(n: int = 20_000) -> tuple[Any, Any]:
    """Return three factors of many rare levels, some of which occur in one class only."""
    rng = np.random.default_rng(0)
    parts, score = [rng.integers(-3, 4, (n, 4)).astype(float)], np.zeros(n)
    for levels in (40, 120, 360):
        codes = np.minimum(rng.zipf(1.3, n) - 1, levels - 1)
        parts.append(dummies(codes, levels))
        score += rng.standard_normal(levels)[codes]
    return hstack([csr_array(part) for part in parts], format="csr"), logistic_labels(score, rng)


def million_rows(n: int = 1_000_000) -> tuple[Any, Any]:
    """Return two factors and some sparse counts; one level of the second factor occurs in one class only."""
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 12, n), np.minimum(rng.geometric(0.4, n) - 1, 11)
    counts = rng.poisson(0.2, (n, 8)).astype(float)
    score = rng.standard_normal(12)[first] + counts @ rng.standard_normal(8) - 1.0
    y = logistic_labels(score, rng)
    y[second == 11] = 1
    return hstack([dummies(first, 12), dummies(second, 12), csr_array(counts)], format="csr"), y


def near_separation(n: int = 5_000, d: int = 40) -> tuple[Any, Any]:
    """Return classes that a hyperplane separates but for some rows next to it."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3)
    margins = X @ rng.standard_normal(d)
    return csr_array(X), np.where(margins + 0.3 * rng.standard_normal(n) > 0.0, 1, -1)


def flipped(name: str, flips: int) -> tuple[Any, Any]:
    """Return dense pixels with some labels flipped; a few pixels are not zero in one class only."""
    X, y = real(f"{name}.svm.bz2")
    y[np.random.default_rng(0).choice(len(y), flips, replace=False)] *= -1
    return X.toarray(), y


def two_factors(n: int = 100_000, levels: int = 3000) -> tuple[Any, Any]:
    """Return all dummies of two factors, of which 30 levels each have one response alone."""
    rng = np.random.default_rng(3)
    codes = [rng.permutation(np.append(np.arange(levels), rng.integers(levels, size=n - levels)))] * 2
    codes[1] = rng.permutation(codes[1])
    y = logistic_labels(rng.standard_normal(levels)[codes[0]], rng)
    for code in codes:
        y[code < 30] = 1 - 2 * (code[code < 30] % 2)
    return hstack([csr_array((np.ones(n), (np.arange(n), c))) for c in codes], format="csr"), y


GENERATED: dict[str, Callable[[], tuple[Any, Any]]] = {
    "wide factors": wide_factors,
    "10^6 x 30": million_rows,
    "near-separation": near_separation,
    "fashion, 300 flipped": partial(flipped, "fashion_1v9", 300),
    "mnist, 100 flipped": partial(flipped, "mnist_0v1", 100),
    "two factors": two_factors,
}


def seconds_of(work: Callable[[], Any]) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.process_time() - cpu, time.perf_counter() - wall, result


def by_highs(Z: Any, limit: float) -> tuple[float, list[str]]:
    """Return the CPU time of HiGHS, and the words for the coefficients that it decided in that time."""
    started, words = time.process_time(), list[str]()
    A, b, d = -Z, np.zeros(Z.shape[0]), Z.shape[1]
    for j in range(d):
        bounds = []
        for sign in (-1.0, 1.0):
            c = np.zeros(d)
            c[j] = sign
            left = limit - (time.process_time() - started)
            if left <= 0.0:
                return time.process_time() - started, words
            found = linprog(c, A, b, bounds=(-1.0, 1.0), method="highs", options={"time_limit": left})
            if found.status != 0:
                return time.process_time() - started, words
            bounds.append(sign * found.fun)
        is_above, is_below = bounds[0] > TOLERANCE, bounds[1] < -TOLERANCE
        words.append({(0, 0): "finite", (1, 0): "+inf", (0, 1): "-inf", (1, 1): "either"}[is_above, is_below])
    return time.process_time() - started, words


def timed(name: str, X: Any, y: Any) -> dict[str, Any]:
    cpu, wall, found = seconds_of(lambda: prgd.separability(X, y))
    check_cpu, _, checked = seconds_of(lambda: found.check(X, y))
    kept = [k for k, word in enumerate(found.coefficients.values()) if word != "aliased"]
    ours = [str(word) for word in found.coefficients.values() if word != "aliased"]
    with_intercept = hstack([csr_array(np.ones((len(y), 1))), X], format="csc")[:, kept]
    Z = csr_array(with_intercept.multiply(y[:, None]))
    highs, words = by_highs(Z, given.seconds)
    total = highs if len(words) == len(kept) else highs / max(len(words), 0.5) * len(kept)
    record = {"set": name, "n": X.shape[0], "d": X.shape[1], "verdict": str(found.verdict)}
    record |= {"coefficients": dict(Counter(map(str, found.coefficients.values())))}
    record |= {"seconds": round(cpu, 3), "wall_seconds": round(wall, 3)}
    record |= {"check": checked, "check_seconds": round(check_cpu, 3)}
    record |= {"highs_seconds": round(highs, 3), "highs_decided": len(words), "highs_needed": len(kept)}
    record |= {"highs_total_seconds": round(total, 1), "ratio": cpu / total}
    record |= {"highs_agrees": sum(a == b for a, b in zip(ours, words, strict=False))}
    estimate = "" if len(words) == len(kept) else f" ({len(words)} in {highs:.1f} s, the rest by their mean)"
    print(
        f"{name:18} {found.verdict:15} {cpu:8.2f} s, check {checked} {check_cpu:.2f} s; "
        f"HiGHS for {len(kept)} coefficients {total:10.1f} s{estimate}, "
        f"{record['highs_agrees']} words agree; "
        f"ratio {record['ratio']:.4f}; {record['coefficients']}",
        flush=True,
    )
    return record


def written(records: list[dict[str, Any]]) -> float:
    """Write the record of the sets so far, and return the geometric mean of their ratios."""
    mean = math.exp(sum(math.log(record["ratio"]) for record in records) / len(records))
    facts = machine() | {"scipy": scipy.__version__, "highs_limit_seconds": given.seconds}
    write(given.out, {"machine": facts, "geometric_mean": mean, "max_ratio": MAX_RATIO, "sets": records})
    return mean


def main() -> None:
    prgd.separability(*near_separation(200, 5))  # compiles
    records, mean = list[dict[str, Any]](), math.nan
    for name in given.only or [*SETS, *GENERATED]:
        records.append(timed(name, *(GENERATED[name]() if name in GENERATED else real(f"{name}.svm.bz2"))))
        mean = written(records)
    print(f"geometric mean of the ratios: {mean:.4f} (at most {MAX_RATIO})")


if __name__ == "__main__":
    main()
