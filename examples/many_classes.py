r"""
One against the rest, or all classes jointly
============================================

Ten classes can be separated one against the rest, by ten hyperplanes, or jointly, by one matrix of weights.
Joint separation is possible more often: a class in the middle of others has no hyperplane of its own.

Jointly each class has a score :math:`\langle w_k, x \rangle + b_k`, the largest score wins, and the margin
is the smallest lead of the score of the true class over another class, :math:`\langle w_y - w_j, x \rangle +
b_y - b_j`, at :math:`\|W\| = 1`.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.datasets import load_digits, make_blobs

import prgd

plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"]  # safe for colour-blind readers
MARKERS = "o^sDv"

X, y = make_blobs(
    100, centers=[[0, 0], [3, 0], [-3, 0.5], [0.3, 3], [-0.3, -3]], cluster_std=0.5, random_state=0
)

# %%
# A class in the middle
# ---------------------
# One against the rest, the four outer classes have their lines, and the class in the middle has none.
one_against_rest = [prgd.max_margin(X, y == k) for k in range(5)]
joint = prgd.max_margin(X, y, multi_class="joint")
for k, result in enumerate(one_against_rest):
    print(f"class {k} against the rest: {result.status.name.lower().replace('_', ' ')}")
print(f"all jointly: {joint.margin:.6f} <= gamma_star <= {joint.upper_bound:.6f}")

# %%
# The left picture shows the four lines. No class claims the middle, and two classes claim each corner. On
# the right the joint separator divides the whole plane and separates all points. On the dashed lines the
# largest score leads by exactly the margin.
side = np.linspace(-5, 5, 500)
grid = np.stack(np.meshgrid(side, side), axis=-1)

figure, (left, right) = plt.subplots(1, 2, figsize=(6.6, 3.6), layout="constrained")
for k, result in enumerate(one_against_rest):
    if result.is_separable:
        score = grid @ result.coef + result.intercept
        left.contourf(side, side, score, levels=[0, np.inf], colors=[COLOURS[k]], alpha=0.25)
        left.contour(side, side, score, levels=[0], colors="black", linewidths=1.2)
scores = grid @ joint.coef.T + joint.intercept
right.pcolormesh(
    side, side, scores.argmax(axis=-1), cmap=ListedColormap(COLOURS), alpha=0.25, rasterized=True
)
ordered = np.sort(scores, axis=-1)
right.contour(
    side, side, ordered[..., -1] - ordered[..., -2], levels=[1], colors="black", linestyles="--", linewidths=1
)
for axes in (left, right):
    for k in range(5):
        axes.plot(
            *X[y == k].T,
            MARKERS[k],
            color=COLOURS[k],
            markersize=4,
            markeredgecolor="black",
            markeredgewidth=0.4,
        )
    axes.set(aspect="equal", xlim=(-5, 5), ylim=(-5, 5), xticks=[], yticks=[])
left.set_title("One against the rest:\nfour lines, no line for the middle")
right.set_title("Jointly:\nall five classes separate")
plt.show()

# %%
# Ten digits
# ----------
# The same happens in 64 dimensions. Of scikit-learn's ten digits, eight can be separated from the rest one
# by one; jointly, all ten can.
X, y = load_digits(return_X_y=True)
batch = prgd.max_margin_batch(X, np.where(y[:, None] == np.arange(10), 1, -1))
joint = prgd.max_margin(X, y, multi_class="joint")
print(joint)

# %%
# The two kinds of margins are different quantities. To compare, we compute for the joint separator how far
# the images of one digit stay from the boundary to another digit, in the units of the pixels (0 to 16).
scores = X @ joint.coef.T + joint.intercept
distance = np.full((10, 10), np.nan)
for a in range(10):
    for b in set(range(10)) - {a}:
        lead = scores[y == a, a] - scores[y == a, b]
        distance[a, b] = lead.min() / np.linalg.norm(joint.coef[a] - joint.coef[b])

figure, (top, bottom) = plt.subplots(2, 1, figsize=(6, 7.6), layout="constrained", height_ratios=[1, 2.6])
margins = np.where(batch.status == prgd.Status.CERTIFIED, batch.margin, 0)
top.bar(range(10), margins, color=COLOURS[0])
for k in np.flatnonzero(margins == 0):
    top.text(k, 0.08, "none", ha="center", color=COLOURS[3], fontsize=10, weight="bold")
top.set(xticks=range(10), ylabel="margin", title="One against the rest: 8 and 9 have no hyperplane")
image = bottom.imshow(distance, cmap="cividis")
for a, b in np.argwhere(np.isfinite(distance)):
    colour = "white" if distance[a, b] < 3.5 else "black"
    bottom.text(b, a, f"{distance[a, b]:.1f}", ha="center", va="center", color=colour, fontsize=9)
bottom.set(
    xticks=range(10),
    yticks=range(10),
    ylabel="images of this digit",
    xlabel="distance from the boundary to this digit",
)
bottom.set_title("Jointly: all pairs keep a distance")
bottom.spines[:].set_visible(False)
plt.show()

# %%
# The matrix is not symmetric: the boundary between 4 and 5 may run near the fives and far from the
# fours, because the same weights of a class serve all its boundaries.
#
# **What to do.** Take ``multi_class="joint"`` if some class has no hyperplane of its own, or if you want one
# certificate for the whole classifier. :class:`prgd.MaxMarginClassifier` has both ways, and its default, one
# against the rest, falls back to soft margins with one ``C`` for all classes. :func:`prgd.max_margin_batch`
# solves all ten problems over one Gram matrix, and reports for each a certified margin or a proof that no
# hyperplane separates. The guide to :doc:`norms and classes </norms>` says more.
