"""
A file that is larger than the memory we allow
==============================================

To find and certify a separator, sums over the rows suffice; the rows need not all be in memory. So the data
may stay on disk. :func:`prgd.open_rows` opens a file and reads it in pieces, and ``max_memory`` bounds the
bytes that these pieces take together. Here a file of 160 MB is separated with about 8 MB.
"""

import tempfile
import threading
import time
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import prgd

# sphinx_gallery_thumbnail_number = 2
plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"  # safe for colour-blind readers
MB = 1e6

# %%
# Write the file
# --------------
# The file has 400,000 rows of 100 float32 numbers. It is written block by block, too:
# :func:`numpy.lib.format.open_memmap` maps an empty file of the right size, and each block is made by a
# generator of random numbers.

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.npy"
n, d, block = 400_000, 100, 20_000
rng = np.random.default_rng(0)
direction = rng.standard_normal(d) / np.sqrt(d)
y = rng.choice([-1, 1], size=n)
file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
for k in range(0, n, block):
    rows = rng.standard_normal((block, d))
    # Rows lose what they have along the direction, and get their class there, at a distance of at least 0.5.
    rows -= np.outer(rows @ direction, direction) / (direction @ direction)
    along = y[k : k + block] * (0.5 + rng.exponential(1.0, block))
    file[k : k + block] = rows + np.outer(along, direction) / np.linalg.norm(direction)
file.flush()
del file
size = path.stat().st_size
print(f"{size / MB:.0f} MB on disk")

# %%
# Fit it with 8 MB
# ----------------
# The solver is the same as for arrays in memory: it asks the rows for sums, chooses a few hundred rows of
# small margin, its *working set*, and solves on these. After every pass it knows two bounds on the largest
# margin, ``gamma_star``. In the end their relative distance is at most ``tol``.

rows = prgd.open_rows(path, y, max_memory=8_000_000)
result = prgd.max_margin(rows, tol=1e-3)
print(result)

read = result.history["passes"] * size / MB
lower, upper = result.history["margin"], result.history["upper_bound"]
figure, axes = plt.subplots(figsize=(6.2, 4.2), layout="constrained")
axes.fill_between(read, lower, upper, color="0.85")
axes.plot(read, upper, "v--", color=ORANGE, linewidth=2)
axes.plot(read, lower, "^-", color=BLUE, linewidth=2)
axes.text(read[1] + 20, upper[1] + 0.03, "no separator has a larger margin", color=ORANGE, weight="bold")
axes.text(read[1] + 20, lower[1] - 0.06, "margin of the best separator so far", color=BLUE, weight="bold")
axes.set(xlabel="MB read from the file", ylabel="bounds on the largest margin", ylim=(0.35, 0.75))
axes.set_title(f"{result.passes:.0f} passes over the file prove the margin to {result.gap:.2%}")
plt.show()

# %%
# How much memory was it?
# -----------------------
# We fit once more and measure. Python's ``tracemalloc`` counts all memory that Python and NumPy have
# allocated, and a thread records it every few milliseconds.

samples, is_done = [], threading.Event()


def watch():
    """Note the time and the memory in use."""
    while not is_done.wait(0.004):
        samples.append((time.perf_counter(), tracemalloc.get_traced_memory()[0] / MB))


tracemalloc.start()
watcher = threading.Thread(target=watch)
watcher.start()
start = time.perf_counter()
again = prgd.max_margin(prgd.open_rows(path, y, max_memory=8_000_000), tol=1e-3)
is_done.set()
watcher.join()
peak = tracemalloc.get_traced_memory()[1] / MB
tracemalloc.stop()
folder.cleanup()
print(f"{again.passes * size / MB:,.0f} MB were read, and {peak:.1f} MB of memory were in use at most")

seconds, used = np.array(samples).T
figure, axes = plt.subplots(figsize=(6.2, 3.8), layout="constrained")
axes.fill_between(seconds - start, used, color=BLUE, alpha=0.4)
axes.plot(seconds - start, used, color=BLUE, linewidth=0.8)
axes.axhline(size / MB, color=ORANGE, linestyle="--")
axes.axhline(8, color=GREEN, linestyle="-.")
axes.text(0, size / MB - 12, "size of the file", color=ORANGE, weight="bold")
axes.text(0, 14, "max_memory", color=GREEN, weight="bold")
middle = 0.5 * (seconds[-1] - start)
axes.annotate("in use", (middle, 4), (middle, 40), color=BLUE, weight="bold", arrowprops={"arrowstyle": "->"})
axes.set(
    ylim=(0, 1.08 * size / MB), xlabel="seconds", ylabel="MB of memory", title="The fit never holds the file"
)
plt.show()

# %%
# **What you see.** The memory goes up and down with the passes: pieces of the file are read, summed and
# freed. Only the working set stays between the passes. So the memory depends on the number of columns and on
# the size of the working set. For a file with a hundred times as many rows a pass takes a hundred times as
# long, but the memory grows only by one byte for each label.
#
# **What to do.** Give ``open_rows`` what you can spare. ``.parquet`` and LIBSVM text open the same way, and
# several files count as one. On the command line it is ``prgd fit rows.parquet --out-of-core --max-memory
# 8M``. If one disk is too slow, spread the files over the workers of a :ref:`cluster
# <sphx_glr_gallery_cluster.py>`. The guide to :doc:`scale </scale>` compares files, GPUs and clusters.
