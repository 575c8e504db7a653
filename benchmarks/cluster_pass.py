"""What a pass over a cluster costs beyond the work of its partitions.

Workers are processes on this machine with one thread each. The work is what the same partitions take one
after the other in this process, by one thread; with one worker the overhead is what remains of a pass, and
with tiny partitions a pass is nothing but overhead.

    python benchmarks/cluster_pass.py [--partitions 8] [--passes 60] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from dask.delayed import delayed
from distributed import Client, LocalCluster

import prgd
from prgd.losses import EXPONENTIAL
from prgd.rows import TallyAt

MOST_S = 0.050
CASES = ((100, 256), (100, 4096), (50_000, 256), (200_000, 256))  # rows and columns of a partition


def block(seed: int, n: int, d: int) -> tuple[Any, Any]:
    """Make a partition: on a worker, so that it can be made again on another."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d), dtype=np.float32)
    y = np.where(X[:, 0] > 0.0, 1, -1)
    X[:, 0] += y
    return X, y


def median_s(work: Any, times: int) -> float:
    work()
    laps = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        laps.append(time.perf_counter() - start)
    return statistics.median(laps)


def measure(client: Any, workers: int, n: int, d: int, partitions: int, passes: int) -> dict[str, float]:
    """Return the median pass of the cluster and the work in it, in seconds."""
    w = np.random.default_rng(0).standard_normal(d)
    w *= 3.0 / np.linalg.norm(w)
    work = 0.0
    for k in range(partitions):
        rows = prgd.rows.DenseRows(*block(k, n, d), n_jobs=1)
        work += median_s(lambda rows=rows: rows.ask(TallyAt(w, EXPONENTIAL)), 5)
    blocks = [delayed(block)(k, n, d) for k in range(partitions)]
    with prgd.open_cluster(blocks, client=client) as rows:
        taken = median_s(lambda: rows.ask(TallyAt(w, EXPONENTIAL)), passes)
    return {"rows": n, "columns": d, "workers": workers, "pass_s": taken, "work_s": work}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--passes", type=int, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = []
    for workers in (1, 2):
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            for n, d in CASES:
                found.append(measure(client, workers, n, d, options.partitions, options.passes))
    print(f"{options.partitions} partitions; milliseconds, medians of {options.passes} passes")
    is_met = True
    for case in found:
        overhead = case["pass_s"] - case["work_s"] / case["workers"]
        is_met &= overhead <= MOST_S
        print(
            f"  {case['workers']} workers, {case['rows']} x {case['columns']} each: pass "
            f"{1e3 * case['pass_s']:.1f}, work {1e3 * case['work_s']:.1f} in all, "
            f"overhead {1e3 * overhead:.1f}, at most {1e3 * MOST_S:.0f}: "
            f"{'pass' if overhead <= MOST_S else 'MISSED'}"
        )
    if options.json is not None:
        options.json.write_text(json.dumps(found), encoding="utf-8")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
