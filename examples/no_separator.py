r"""
Proof that no line separates
============================

If a solver finds no separator, is there none, or did it give up too early? :func:`prgd.max_margin` and
:func:`prgd.separability` answer with a proof that can be drawn and checked by hand.

The proof is a point that belongs to the convex hulls of both classes. A line that separates the classes has
one hull on each side, so no line separates two hulls that share a point. Such a point is a weighted mean of
the rows of one class and also of the other: weights :math:`p_i \ge 0` with :math:`\sum_i p_i y_i (x_i, 1) =
0` (Gordan's theorem).
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull

import prgd

plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
BLUE, ORANGE = "#0072B2", "#D55E00"  # safe for colour-blind readers

rng = np.random.default_rng(131)
overlap = np.vstack([rng.integers(0, 11, (9, 2)), rng.integers(5, 16, (9, 2))])  # integers, to check by hand
overlap_y = np.repeat([-1, 1], 9)
touch = np.array(
    [[1, 1], [2, 4], [0, 3], [4, 1], [3, 5], [5, 3], [4, 4], [6, 5], [5, 7], [8, 4], [7, 6], [5, 5]]
)
touch_y = np.repeat([-1, 1], 6)

# %%
# Two sets and two verdicts
# -------------------------
# The first set overlaps. The second is *quasi-separable*: a line has no row on its wrong side, but rows of
# both classes lie on it, so the largest margin is zero.
for X, y in ((overlap, overlap_y), (touch, touch_y)):
    print(prgd.max_margin(X, y), end="\n\n")


# %%
# The weights are in ``dual_coef``. In the picture, the width of the line from a row to the common point is
# the weight of the row.
def draw(axes, X, y):
    """Draw both hulls and the weights that prove that they meet; return the common point."""
    p = prgd.max_margin(X, y).dual_coef.toarray().ravel()
    common = p[y == 1] @ X[y == 1] / p[y == 1].sum()
    for label, colour, marker in ((-1, BLUE, "o"), (1, ORANGE, "^")):
        rows = X[y == label]
        axes.fill(*rows[ConvexHull(rows).vertices].T, color=colour, alpha=0.18)
        axes.plot(*rows.T, marker, color=colour, markersize=6)
        for row, weight in zip(rows, p[y == label], strict=True):
            axes.plot(
                *zip(row, common, strict=True), color=colour, linewidth=24 * weight, solid_capstyle="butt"
            )
    axes.plot(*common, "*", color="black", markersize=15)
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return common


figure, row = plt.subplots(1, 2, figsize=(6.4, 3.9), layout="constrained")
draw(row[0], overlap, overlap_y)
row[0].set_title("The hulls share a point:\nno line separates")
common = draw(row[1], touch, touch_y)
row[1].axline(common, slope=-1, color="black", linestyle="--")
row[1].set_title("The hulls only touch:\nquasi-separable")
plt.show()

# %%
# How to check it
# ---------------
# Compute the weighted mean of the rows of each class. The two means agree up to rounding:
p = prgd.max_margin(overlap, overlap_y).dual_coef.toarray().ravel()
for label in (-1, 1):
    print(f"class {label:2d}: weighted mean {2 * p[overlap_y == label] @ overlap[overlap_y == label]}")

# %%
# Rounding could hide a tiny gap between the hulls, so these numbers alone are no proof. The verdict of
# :func:`prgd.separability` rests on integer weights, for which the sum is exactly zero. For the second set,
# whose hulls touch, they are small enough to check by hand: (3, 5) + (5, 3) = 2 (4, 4).
for X, y in ((overlap, overlap_y), (touch, touch_y)):
    found = prgd.separability(X, y)
    weights = found.proof.weights  # a dict from row to integer
    total = sum(
        weight * int(y[i]) * np.array([*X[i].tolist(), 1], dtype=object) for i, weight in weights.items()
    )
    print(f"{found.verdict}: {len(weights)} weights, the largest is {max(weights.values())}, sum {total}")
    print("   checked again by the library:", found.check(X, y))

# %%
# **What to do.** *Not separable*: a hard margin does not exist. Use :func:`prgd.soft_margin` or a logistic
# regression, whose estimates are all finite here. *Quasi-separable*: a positive hard margin does not exist
# either, but a logistic regression has infinite coefficients, and the finite ones are estimated from
# ``found.limiting_rows`` alone, the rows on the line. :class:`prgd.MaxMarginClassifier` warns with the proof
# and fits a soft margin. Read on: the guide to :doc:`separability </separability>`.
