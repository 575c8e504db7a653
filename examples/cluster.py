"""
Rows on a cluster, and the same bits as on one machine
======================================================

When data are too large for one machine, the rows can stay on the workers of a Dask cluster.
:func:`prgd.open_cluster` tells every worker to load its partitions. After that, a pass sends only vectors
over the network. Even if a worker is lost during the run, the result is the same to the last bit.

Here the "cluster" is two workers inside this process, so that you can run the script anywhere. For a real
one pass the address of its scheduler, ``client="tcp://scheduler:8786"``.
"""

import logging

import matplotlib.pyplot as plt
import numpy as np
from dask import delayed
from distributed import Client, LocalCluster

import prgd

plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"  # safe for colour-blind readers
PARTITIONS, ROWS, COLUMNS = 8, 5000, 50


def partition(k):
    """Return the rows and labels of one partition; a worker calls this, and would read a file here."""
    rng = np.random.default_rng(k)
    y = rng.choice([-1, 1], size=ROWS)
    X = rng.standard_normal((ROWS, COLUMNS))
    X[:, 0] = y * (0.3 + rng.exponential(1.0, ROWS))  # the first column tells the classes apart
    return X, y


cluster = LocalCluster(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=logging.CRITICAL
)
client = Client(cluster)

# %%
# Fit
# ---
# A partition is a task that a worker can repeat, a delayed function here, or a file (``"part-*.parquet"``).
# The solver is the same as for arrays in memory: it only asks the rows for sums.

rows = prgd.open_cluster([delayed(partition)(k) for k in range(PARTITIONS)], client=client)
result = prgd.max_margin(rows, tol=1e-4)
print(result)

local = prgd.rows.ChunkedRows.from_blocks([partition(k) for k in range(PARTITIONS)])
same = prgd.max_margin(local, tol=1e-4)
print("the same bits on one machine:", np.array_equal(result.coef, same.coef), result.margin == same.margin)

# %%
# Lose a worker
# -------------
# The step-by-step algorithms run on a cluster, too. An observer takes one of the two workers away after 30
# steps of dual acceleration. The other worker loads its partitions, and the run goes on.

STEPS, LOST_AT = 80, 30


def lose_a_worker(state, record, certificate):
    """Close a worker after some steps."""
    if state.t == LOST_AT:
        cluster.loop.add_callback(next(iter(cluster.workers.values())).close)


algorithm = prgd.algorithms.DualAcceleration()
spread = prgd.run(prgd.Problem(rows), algorithm, stop=STEPS, observe=lose_a_worker)
alone = prgd.run(prgd.Problem(local), algorithm, stop=STEPS)
workers = len(client.scheduler_info()["workers"])
print(f"workers left: {workers}, the same bits: {np.array_equal(spread.w, alone.w)}")
rows.close()
client.close()
cluster.close()

figure, axes = plt.subplots(figsize=(6.2, 4.4), layout="constrained")
for column, colour in (("upper_bound", ORANGE), ("margin", BLUE)):
    axes.plot(spread.history[column], color=colour, linewidth=2.5)
    axes.plot(range(4, STEPS + 1, 4), alone.history[column][4::4], "o", color="black", fillstyle="none")
axes.axhline(result.margin, color=GREEN, linestyle="--", zorder=0)
axes.annotate("a worker is lost", (LOST_AT, 0.76), (LOST_AT + 8, 1.08), arrowprops={"arrowstyle": "->"})
axes.text(9, 1.2, "no separator has a larger margin", color=ORANGE, weight="bold")
axes.text(20, 0.12, "margin of the iterate", color=BLUE, weight="bold")
axes.text(1, 0.33, "max_margin", color="#00664B", weight="bold")
axes.set(ylim=(0, 1.35), xlim=(0, STEPS + 1), xlabel="step", ylabel="bounds on the largest margin")
axes.text(47, 0.73, "lines: on the cluster\ncircles: on one machine")
axes.set_title("The same bits at every step, although a worker was lost")
plt.show()

# %%
# What travels
# ------------
# A pass over the data sends :math:`w`, d numbers, to every partition. Each answers with 6 + d numbers for
# each class, 8 bytes each, whatever the number of its rows. (``max_margin`` also fetches a few hundred rows
# of small margin for its working set.) The picture compares these bytes with the bytes that one pass reads,
# for rows of 1,000 float32 columns. Both lines are computed from these formulas, not measured:

partitions, d, classes = 100, 1000, 2
n = np.geomspace(1e5, 1e9, 50)
read = 4 * n * d
sent = np.full(n.size, partitions * 8 * (d + classes * (d + 6)))
figure, axes = plt.subplots(figsize=(6.2, 3.8), layout="constrained")
axes.loglog(n, read, color=BLUE, linewidth=2.5)
axes.loglog(n, sent, "--", color=ORANGE, linewidth=2.5)
axes.fill_between(n, sent, read, color=BLUE, alpha=0.12)
axes.text(1.3e7, 3e9, "read by the workers\nfrom their own rows", color=BLUE, weight="bold")
axes.text(
    1.3e7, 4e6, f"sent over the network, {partitions} partitions", color=ORANGE, weight="bold", ha="center"
)
axes.set(xlabel="rows", ylabel="bytes in one pass", xlim=(1e5, 1e9), ylim=(1e6, 1e13))
axes.set_yticks([1e6, 1e9, 1e12], ["1 MB", "1 GB", "1 TB"])
axes.set_title("The messages do not grow with the data")
plt.show()

# %%
# **What it means.** The messages are small compared with the data. So with many rows a pass on k machines
# should take about a k-th of the time; the :doc:`cost model </scale>` has measurements. The driver adds the
# answers in the order of the partitions, never in the order of their arrival; this is why the bits are the
# same.
#
# **What to do.** Make at least one partition per core, and leave large files on the workers' disks with
# ``max_memory``. If all workers are lost, :class:`prgd.RowsLostError` holds the result so far, and
# ``prgd.run(..., resume=...)`` goes on from there.
