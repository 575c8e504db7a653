r"""
GD, NGD, PRGD and dual acceleration, step by step
=================================================

Four first-order methods look for the same separator. The largest margin of this set, :math:`\gamma^\star`,
is known, so we can draw how far the margin :math:`\gamma(w)` of each method is from it after every step.

The set is the paper's first synthetic one: 100 points on the unit circle, with labels by the sign of the
first coordinate. The best direction is :math:`w^\star = (1, 0)`, and its margin is :math:`\gamma^\star =
\sin(\pi / 100)`, about 0.031.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import prgd

# sphinx_gallery_thumbnail_number = 2
plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
GREY, ORANGE, GREEN, BLUE = "#777777", "#D55E00", "#009E73", "#0072B2"  # safe for colour-blind readers

data = prgd.datasets.synthetic_one(seed=0)
problem = prgd.Problem(data.X, data.y)

figure, axes = plt.subplots(figsize=(4.4, 4.2), layout="constrained")
for label, colour, marker in ((1, BLUE, "o"), (-1, ORANGE, "^")):
    axes.plot(*data.X[data.y == label].T, marker, color=colour, markersize=4.5)
axes.axvspan(-data.gamma_star, data.gamma_star, color=GREY, alpha=0.35)
axes.annotate(
    "the margin\n(both sides)", (0.04, -0.25), (0.15, -0.55), fontsize=11, arrowprops={"arrowstyle": "->"}
)
axes.plot(*data.X[:2].T, "o", color="black", markersize=11, fillstyle="none")
axes.annotate(
    "these two points\ndecide it", (0.05, 0.93), (0.1, 0.25), fontsize=11, arrowprops={"arrowstyle": "->"}
)
axes.set(aspect="equal", title="100 points and a narrow gap between them")
plt.show()

# %%
# The race
# --------
# :class:`prgd.Problem` holds the data and :func:`prgd.run` is the one loop for every algorithm. A step of
# each method reads the data once, so the number of steps is a fair measure of work. GD is gradient descent,
# NGD is normalized gradient descent. PRGD, the paper's algorithm, needs a warm start: it begins where 1,000
# steps of GD end, and these steps count.
STEPS = 3000
warm = prgd.run(problem, prgd.GD(), stop=1000)
runs = [
    ("GD", prgd.GD(), None, GREY, ":"),
    ("NGD", prgd.NGD(), None, ORANGE, "--"),
    ("dual acceleration", prgd.algorithms.DualAcceleration(), None, GREEN, "-."),
    ("PRGD after GD", prgd.PRGD(), warm, BLUE, "-"),
]

errors = {}
for name, algorithm, start, _, _ in runs:
    first = start.t if start else 0
    result = prgd.run(problem, algorithm, start.w if start else None, stop=STEPS - first)
    t, margin = result.history["t"], result.history["margin"]
    errors[name] = (t[t > 0] + first, np.maximum(data.gamma_star - margin[t > 0], 1e-17))

figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
labels = {
    "GD": (2700, 1.2e-2),
    "NGD": (2600, 4e-5),
    "dual acceleration": (340, 1e-8),
    "PRGD after GD": (1180, 1e-13),
}
for name, _, _, colour, dashes in runs:
    axes.semilogy(*errors[name], dashes, color=colour, linewidth=2.2)
    axes.text(*labels[name], name.replace(" ", "\n", 1), color=colour, weight="bold")
axes.set(
    xlabel="steps, warm-up included (each reads the data once)",
    ylabel=r"margin error $\gamma^\star - \gamma(w)$",
    title="Two of four reach the answer to the last digit",
    ylim=(1e-17, 1),
)
axes.grid(alpha=0.25)
if len(sys.argv) > 1:  # python examples/margin_race.py docs/images/margin_race.png draws the README's picture
    figure.savefig(sys.argv[1], dpi=150)
plt.show()

# %%
# What you see
# ------------
# - **GD** passes the best direction once by chance and leaves it again. Its direction error falls like
#   :math:`1 / \log t`, too slowly to matter within 3,000 steps.
# - **NGD**, which divides the gradient by the loss, has an error that falls like :math:`1 / t`.
# - **PRGD** multiplies ``w`` by 1.2 every five steps. A longer ``w`` puts all weight on the points that are
#   nearest to the line, and here two points fix the answer. The error falls exponentially.
# - **Dual acceleration** (Ji et al. 2021) needs no warm start, and the fewest steps in total on this set.
#
# A line at :math:`10^{-17}` means that the margin equals :math:`\gamma^\star` in floating-point numbers.
#
# What to do
# ----------
# To study an algorithm, run it as above; the guide to :doc:`the paper's algorithms </algorithms>` says
# more. If you only want the separator, :func:`prgd.max_margin` finds it, with a proof.
result = prgd.max_margin(data.X, data.y, fit_intercept=False)
print(f"{result.margin:.12f} <= gamma_star <= {result.upper_bound:.12f}")
print(f"{data.gamma_star:.12f} is the known value")
