r"""
How the price C moves a separator
=================================

Many data sets have no separator. :func:`prgd.soft_margin` lets rows violate the margin and adds a cost for
each of them; the price ``C`` says how much. This example draws the solutions for a range of ``C``, certifies
each of them, and compares their accuracy with that of scikit-learn's classifiers.

The problem is :math:`\min_{w, b} \tfrac12 \|w\|^2 + \tfrac C2 \sum_i \xi_i^2` with :math:`y_i (\langle w,
x_i \rangle + b) \ge 1 - \xi_i`. It equals the hard-margin problem of rows with extra columns, so it has the
same kind of certificate: an interval that provably holds the best value.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import prgd

plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"  # safe for colour-blind readers

X, y = make_blobs(80, centers=[[0, 0], [2.4, 1.2]], cluster_std=[0.8, 1.1], random_state=7)

# %%
# Three prices
# ------------
# A small ``C`` gives a wide band and many violations. A large ``C`` gives few violations and a narrow band.
# Thin lines lead from the rows that violate the margin to the edge of the band on their side: the longer a
# line, the larger the slack :math:`\xi_i`.
figure, row = plt.subplots(1, 3, figsize=(6.6, 3), layout="constrained", sharey=True)
for axes, C in zip(row, (0.01, 0.1, 10.0), strict=True):
    result = prgd.soft_margin(X, y, C=C)
    w, b = result.coef, result.intercept
    slack = np.maximum(0, 1 - (2 * y - 1) * (X @ w + b))
    for label, colour, marker in ((0, BLUE, "o"), (1, ORANGE, "^")):
        axes.plot(*X[y == label].T, marker, color=colour, markersize=3.5)
    for point, label, xi in zip(X, y, slack, strict=True):
        edge = point + (2 * label - 1) * xi * w / (w @ w)
        axes.plot(*zip(point, edge, strict=True), color=(BLUE, ORANGE)[label], linewidth=0.7, alpha=0.7)
    for level, dashes in ((-1, "--"), (0, "-"), (1, "--")):
        axes.axline(
            ((level - b) / w[0], 0), slope=-w[0] / w[1], color="black", linestyle=dashes, linewidth=1.2
        )
    axes.set(aspect="equal", xlim=(-2.2, 5), ylim=(-3, 4.8), xticks=[], yticks=[], title=f"C = {C:g}")
    axes.spines[:].set_visible(False)
plt.show()

# %%
# A path with proof
# -----------------
# Solve for 25 prices, each starting from the solution before. ``gap`` bounds how far each margin can be from
# the exact one, and ``cosine`` bounds the angle between each direction and the exact one.
prices = np.logspace(-3, 3, 25)
path, start = [], {}
for C in prices:
    result = prgd.soft_margin(X, y, C=C, **start)
    path.append(result)
    start = {"w0": result.coef, "intercept0": result.intercept}
print("all certified:", all(result.status is prgd.Status.CERTIFIED for result in path))
print(f"largest gap {max(result.gap for result in path):.1e}")
print(f"smallest proven cosine 1 - {max(1 - result.cosine for result in path):.1e}")

figure, (top, bottom) = plt.subplots(2, 1, figsize=(6, 5.4), layout="constrained", sharex=True)
weights = np.array([[*result.coef, result.intercept] for result in path])
for k, name, colour, dashes in ((0, "$w_1$", BLUE, "-"), (1, "$w_2$", ORANGE, "--"), (2, "$b$", GREEN, "-.")):
    top.semilogx(prices, weights[:, k], dashes, color=colour, linewidth=2)
    top.text(prices[-1] * 1.2, weights[-1, k], name, color=colour, weight="bold", va="center")
top.set(ylabel="weights", title="From C = 10 on the weights hardly change")
bottom.loglog(prices, [result.gap for result in path], "o", color="black", markersize=5)
bottom.axhline(1e-6, color=GREY, linestyle="--")
bottom.text(prices[0], 2e-6, "the tolerance, 1e-6")
bottom.set(
    xlabel="C", ylabel="certified gap", title="Every point of the path is certified", ylim=(1e-14, 1e-4)
)
plt.show()

# %%
# Accuracy against scikit-learn
# -----------------------------
# The breast cancer data separate once the columns are standardised, so a hard margin exists. It is not the
# best classifier: it fits every row, and some rows are noise. We compare the accuracy on five held-out
# folds. ``C`` means the same in ``LinearSVC``, which solves nearly the same problem (it also penalises the
# intercept).
data, target = load_breast_cancer(return_X_y=True)
folds = StratifiedKFold(5, shuffle=True, random_state=0)


def accuracy(model):
    """Return the mean accuracy on the held-out folds, in per cent."""
    return 100 * cross_val_score(make_pipeline(StandardScaler(), model), data, target, cv=folds).mean()


prices = np.logspace(-3, 4, 8)
curves = [
    ("LogisticRegression", BLUE, "^--", [accuracy(LogisticRegression(C=C, max_iter=2000)) for C in prices]),
    ("LinearSVC", GREEN, "s:", [accuracy(LinearSVC(C=C, max_iter=10_000)) for C in prices]),
    ("soft margin", ORANGE, "o-", [accuracy(prgd.MaxMarginClassifier(C=C)) for C in prices]),
]
hard = accuracy(prgd.MaxMarginClassifier())

figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for name, colour, dashes, scores in curves:
    axes.semilogx(
        prices, scores, dashes, color=colour, linewidth=2, label=f"{name}, best {max(scores):.1f} %"
    )
axes.semilogx(1e6, hard, "*", color="black", markersize=14)
axes.text(1e6, hard - 0.4, f"hard margin\n{hard:.1f} %", ha="center", va="top")
axes.legend(frameon=False, loc="lower right")
axes.set(
    xlabel="C", ylabel="held-out accuracy, per cent", title="A moderate price predicts best", xlim=(5e-4, 1e7)
)
axes.grid(alpha=0.25)
plt.show()

# %%
# From C = 0.1 on, the curves of the two squared-hinge models nearly coincide, and the peaks of all three
# models are nearly equal. As ``C`` grows, the soft margin approaches the hard one, and accuracy falls.
#
# **What to do.** If classes overlap, leave ``C`` out: :class:`prgd.MaxMarginClassifier` then proves that
# there is no separator, warns, and chooses ``C`` on held-out folds. If they separate only because there are
# many columns, or if labels are noisy, choose a finite ``C`` by cross-validation as above. The guide to
# :doc:`soft margins </soft_margin>` says more.
