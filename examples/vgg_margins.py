"""
Margins of VGG-16 on CIFAR-10
=============================

Does progressive rescaling find larger margins in a real network? The library ships the records of 29
training runs of VGG-16 on CIFAR-10: several seeds of gradient descent (GD), normalized gradient descent
(NGD) and PRGD, with momentum, batches of 64 and no augmentation. This example only draws the records; the
runs took hours on a GPU.

The short answer: PRGD separates the training set, but these runs show neither a larger margin nor a better
test accuracy than those of GD.
"""

import csv
from importlib.resources import files

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
STYLES = {"GD": ("#777777", "o", "-"), "NGD": ("#D55E00", "s", "--"), "PRGD": ("#0072B2", "^", "-")}
NUMBERS = ("seed", "epoch", "test_accuracy", "train_accuracy", "log_train_loss", "normalized_margin", "norm")

text = files("prgd_paper.figures").joinpath("data/figure-5b.csv").read_text()
rows = [row | {name: float(row[name]) for name in NUMBERS} for row in csv.DictReader(text.splitlines())]
runs = {}  # the rows of each run without regularisation, by method and seed
for row in rows:
    if row["setting"] == "tuned" and row["method"] in STYLES:
        runs.setdefault((row["method"], int(row["seed"])), []).append(row)
print(f"{len(rows):,} rows, {len(runs)} runs without regularisation")


def column(run, name):
    """Return one column of a run."""
    return np.array([row[name] for row in run])


def interval(values):
    """Return the mean over seeds and half the width of its 95 % interval."""
    return np.mean(values), stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)


# %%
# The course of a run
# -------------------
# These runs have no weight decay and no dropout, so that the margin is free to grow. The rate of each
# method, and the schedule of PRGD, were chosen on a held-out tenth of the training set. A run ends when
# every training image is classified correctly and the loss is below 1e-4, or after 200 epochs. One line is
# one seed; a filled mark at its end means that all training images are correct, an open mark that a few are
# wrong. PRGD's first 31 epochs are its warm-up, in which it is GD. NGD and PRGD undo an epoch that does not
# lower the loss; such an epoch counts, but has no point in the picture.

figure, (top, bottom) = plt.subplots(2, 1, figsize=(6.2, 6.6), sharex=True, layout="constrained")
for (method, _), run in runs.items():
    colour, marker, dashes = STYLES[method]
    epoch, is_separated = column(run, "epoch"), run[-1]["train_accuracy"] == 1
    curves = 100 * column(run, "test_accuracy"), np.exp(column(run, "log_train_loss"))
    for axes, y in zip((top, bottom), curves, strict=True):
        axes.plot(epoch, y, dashes, color=colour, linewidth=1, alpha=0.45 if method == "GD" else 0.9)
        axes.plot(epoch[-1], y[-1], marker, color=colour, fillstyle="full" if is_separated else "none")
for method, epoch, accuracy, loss in (
    ("GD", 55, 83.9, 3e-4),
    ("NGD", 19, 74, 0.55),
    ("PRGD", 160, 80.9, 1.4e-5),
):
    for axes, y in ((top, accuracy), (bottom, loss)):
        axes.text(epoch, y, method, color=STYLES[method][0], weight="bold")
bottom.annotate("first rescaling", (31, 0.02), (17, 6e-5), ha="center", arrowprops={"arrowstyle": "->"})
top.set(ylim=(70, 86), ylabel="test accuracy, %", title="The methods end within about a point of each other")
bottom.set(yscale="log", xlabel="epoch", ylabel="training loss", title="GD fits the training set first")
plt.show()

# %%
# Margins at the end
# ------------------
# VGG-16 has 16 layers of weights and is homogeneous of degree 16: weights twice as long give outputs 65,536
# times as large. The *normalized margin* is the smallest margin of a training image, divided by the 16th
# power of the norm of all weights. We draw its 16th root, which is easier to compare. It is positive only if
# all training images are correct, so the other runs have no point. A bar is the 95 % interval of the mean
# over seeds.

roots = {
    key: run[-1]["normalized_margin"] ** (1 / 16)
    for key, run in runs.items()
    if run[-1]["train_accuracy"] == 1
}
accuracies = {key: 100 * run[-1]["test_accuracy"] for key, run in runs.items()}
figure, panels = plt.subplots(1, 2, figsize=(6.2, 3.8), layout="constrained")
for axes, ends, title in (
    (panels[0], roots, "16th root of the margin"),
    (panels[1], accuracies, "test accuracy, %"),
):
    for x, (method, (colour, marker, _)) in enumerate(STYLES.items()):
        values = [value for key, value in ends.items() if key[0] == method]
        mean, half = interval(values)
        axes.errorbar(x + 0.2, mean, half, color=colour, capsize=5, linewidth=2, marker="_", markersize=14)
        axes.plot(np.full(len(values), x - 0.1), values, marker, color=colour, alpha=0.8)
    axes.set(xticks=range(3), xticklabels=STYLES, xlim=(-0.5, 2.6), title=title)
    axes.grid(axis="y", alpha=0.25)
plt.show()

# %%
# **What you see.** The intervals of the margins overlap. The fair comparison is by pairs, since runs with
# one seed start from the same weights:

pairs = [
    (np.log(roots["PRGD", seed] / roots["GD", seed]), accuracies["PRGD", seed] - accuracies["GD", seed])
    for seed in range(5)
]
(log_ratio, half), (points, half_points) = (interval(values) for values in zip(*pairs, strict=True))
low, high = np.exp(log_ratio - half), np.exp(log_ratio + half)
print(f"PRGD's margin over GD's (16th roots): {np.exp(log_ratio):.3f}, 95 % interval [{low:.3f}, {high:.3f}]")
print(f"PRGD's test accuracy less GD's: {points:+.2f} points, within {half_points:.2f} either way")

# %%
# **What it means.** The interval of the ratio contains 1, and that of the difference contains 0: five seeds
# do not tell PRGD and GD apart here. NGD is ahead of both in mean test accuracy, by less than a point, and
# most of its runs still leave a few training images wrong after 200 epochs. On linear models PRGD's
# exponential speed is a theorem, under its assumptions; for deep networks there is no such theorem. So if
# you train a network for accuracy, keep your optimizer. If you study margins, try :class:`prgd.deep.PRGD`
# and measure :func:`prgd.deep.normalized_margin`, with several seeds.
#
# This is one architecture on one data set, with learning rates chosen with one seed. The page on :doc:`deep
# networks </deep>` lists these limits, and has the runs in the configuration that the paper prints. The
# :doc:`guide </deep>` says when PRGD helps.
