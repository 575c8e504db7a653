"""Processor seconds of `prgd.max_margin`, 1,200 x 4,096, beside processes that keep all cores busy.

The default number of threads against one thread, and joblib with a process for each core against one call
after another: both at most 1.3, since threads that wait for a core by spinning do no work.

    env -u PRGD_NUM_THREADS -u OMP_NUM_THREADS python benchmarks/busy.py
"""

import os
import subprocess
import sys
import time

import numpy as np
from joblib import Parallel, delayed

import prgd
from prgd.core.threads import cores


def seconds(seed: int, n_jobs: int | None = None) -> float:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1200, 4096))
    y = X @ rng.standard_normal(4096) > 0.0
    prgd.max_margin(X, y, n_jobs=n_jobs)  # loads the kernels of this process
    start = time.process_time()
    prgd.max_margin(X, y, n_jobs=n_jobs)
    return time.process_time() - start


def main() -> None:
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores())]
    try:
        while os.getloadavg()[0] < cores():  # the mean of the last minute, which threads are chosen by
            time.sleep(1.0)
        one, default = (sum(seconds(k, n_jobs) for k in range(4)) for n_jobs in (1, None))
        joined = sum(Parallel(n_jobs=cores())(delayed(seconds)(k) for k in range(4)))
    finally:
        for other in others:
            other.kill()
    print(f"four calls, one thread: {one:.2f} s; by default: {default:.2f} s, ratio {default / one:.2f}")
    print(f"joblib, {cores()} processes: {joined:.2f} s, ratio {joined / default:.2f}")


if __name__ == "__main__":
    main()
