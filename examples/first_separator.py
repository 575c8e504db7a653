r"""
A separator and its proof
=========================

:func:`prgd.max_margin` returns the line of largest margin between two classes, and an interval that holds
the largest margin, ``gamma_star``. The proof of the interval can be drawn: it consists of two polygons and
the shortest segment between them.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull
from sklearn.datasets import make_blobs
from sklearn.svm import SVC, LinearSVC

import prgd

plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
BLUE, ORANGE = "#0072B2", "#D55E00"  # safe for colour-blind readers

X, y = make_blobs(60, centers=[[0, 0], [3.4, 2.2]], cluster_std=0.8, random_state=4)
result = prgd.max_margin(X, y)
print(result)

# %%
# Two bounds that meet
# --------------------
# The margin of a separating line is its distance to the nearest point. The largest margin of all lines is at
# least the margin of this line.
#
# Take a point in the convex hull of each class. A line that separates the classes is no farther from both
# points than half their distance, so the largest margin is at most that half. The weights ``dual_coef``,
# called p in the formulas, give such a pair: each point is a weighted mean of the rows of its class, and
# only the rows ``result.support`` have a weight that is not zero.
p = result.dual_coef.toarray().ravel()
near = np.array([p[y == label] @ X[y == label] / p[y == label].sum() for label in (0, 1)])
print("half the distance of the two points:", np.linalg.norm(near[1] - near[0]) / 2)
print("margin of the line:                 ", result.margin)

# %%
# In the picture the two bounds meet. The line stands in the middle between the two nearest points of the
# hulls, and no line can do better.
figure, axes = plt.subplots(figsize=(6, 5.2), layout="constrained")
for label, colour, marker in ((0, BLUE, "o"), (1, ORANGE, "^")):
    rows = X[y == label]
    hull = rows[ConvexHull(rows).vertices]
    axes.fill(*hull.T, facecolor=colour, edgecolor=colour, alpha=0.18, linewidth=2)
    axes.plot(*rows.T, marker, color=colour, markersize=5)
w, b = result.coef, result.intercept
grid = np.array([-3.0, 7.0])
for level, dashes in ((-1, "--"), (0, "-"), (1, "--")):
    axes.plot(grid, (level - b - w[0] * grid) / w[1], dashes, color="black", linewidth=1.3)
axes.plot(*near.T, "s-", color="black", linewidth=3, markersize=7)
axes.plot(*X[result.support].T, "o", color="black", markersize=13, fillstyle="none")
axes.annotate(
    "nearest points\nof the two hulls", near.mean(axis=0), (2.4, -1.7), arrowprops={"arrowstyle": "->"}
)
axes.set(aspect="equal", xlim=(-2.2, 5.6), ylim=(-2.2, 4.4))
axes.set_title("The best line lies halfway between the hulls")
plt.show()

# %%
# The proof does not depend on the solver: :meth:`prgd.Result.check` computes both bounds again from the
# data.
print(result.check(X, y))

# %%
# Instead of a large C
# --------------------
# The usual way to a hard margin is a support vector machine with a large ``C``. How large must ``C`` be, and
# how close is the result? The certified bound measures any separator. We take images of the digits 3 and 8
# and draw which fraction of the largest margin each separator misses.
digits = prgd.datasets.digits(3, 8)
best = prgd.max_margin(digits.X, digits.y)


def missing(model):
    """Return the fraction of the largest margin that a fitted model misses."""
    margins = digits.y * model.decision_function(digits.X) / np.linalg.norm(model.coef_)
    return 1 - margins.min() / best.upper_bound


prices = 10.0 ** np.arange(1, 11)
svc = [missing(SVC(kernel="linear", C=C).fit(digits.X, digits.y)) for C in prices]
linear_svc = [missing(LinearSVC(C=C, random_state=0).fit(digits.X, digits.y)) for C in prices]

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.loglog(prices, linear_svc, "^--", color=ORANGE)
axes.text(3e5, linear_svc[5] * 2, "LinearSVC", color=ORANGE, weight="bold")
axes.loglog(prices, svc, "o-", color=BLUE)
axes.text(3e5, svc[5] * 1.8, "SVC, linear kernel", color=BLUE, weight="bold")
axes.axhline(best.gap, color="black", linestyle=":", linewidth=2)
axes.text(3e5, best.gap * 2.5, "prgd.max_margin, proven", weight="bold")
axes.set(
    xlabel="C",
    ylabel="missing fraction of the margin",
    title="Beyond some C, a larger C does not help",
    ylim=(1e-13, 3),
)
axes.grid(alpha=0.25)
plt.show()

# %%
# At their default tolerances both solvers stop early, without a warning, and a larger ``C`` does not change
# that. Neither says how far it is from the largest margin.
#
# **What to do.** If your classes separate, replace ``SVC(kernel="linear", C=1e10)`` by
# :func:`prgd.max_margin`, or by :class:`prgd.MaxMarginClassifier` in a pipeline. There is no ``C`` to
# choose, and ``gap`` is proven. See the guide to :doc:`max margin and certificates </max_margin>` and
# :doc:`what exactly is proven </certificates>`.
