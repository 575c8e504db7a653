"""How much memory `prgd.max_margin` adds to a memory-mapped file of 2 GB.

The file (.npy, float32, planted rows) is written block by block and mapped. The figure is the largest
RssAnon during the fit less that just before it, when the kernels are compiled and the labels loaded.

    python benchmarks/max_margin_memory.py [--dir FOLDER] [--rows 2000000] [--tol 1e-4]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from disk_pass import write
from out_of_core import COLUMNS, MemoryWatch, labels_of, show

import prgd

MOST = 300 * 10**6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dir", type=Path, help="where the file is written, and deleted at the end")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--tol", type=float, default=1e-4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prgd-memory-", dir=options.dir) as folder:
        path = Path(folder) / "rows.npy"
        write(path, options.rows)
        X, y = np.load(path, mmap_mode="r"), np.load(labels_of(path))
        prgd.max_margin(X[:2000], y[:2000], tol=0.1)  # compiles
        with MemoryWatch() as watch:
            before = watch.look()["RssAnon"]
            result = prgd.max_margin(X, y, tol=options.tol)
        size = path.stat().st_size
    extra = watch.peak["RssAnon"] - before
    print(f"{options.rows} x {COLUMNS} float32, {show(size)} mapped; {result.status}")
    print(f"gap {result.gap:.1e} after {result.passes:.1f} passes, {result.history.rows[-1].seconds:.1f} s")
    print(
        f"peak extra RssAnon {show(extra)} ({extra / options.rows:.0f} bytes a row), at most {show(MOST)}: "
        f"{'pass' if extra <= MOST else 'MISSED'}"
    )
    return 0 if extra <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
