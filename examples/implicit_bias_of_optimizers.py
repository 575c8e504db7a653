"""
Every optimizer has a norm of its own
=====================================

If two classes can be separated, a logistic or exponential loss has no minimum: the weights grow without end.
Only their *direction* settles, and which direction that is depends on the optimizer. Gradient descent ends
at the separator of largest margin in the Euclidean norm (l2). Sign descent and Adam end at that of the
l-infinity norm, and coordinate descent (boosting) at that of the l1 norm. The loss does not mention these
norms, so this is called the *implicit bias* of the optimizer.

Here all of them run on the same 40 points, and are compared with the three directions that
:func:`prgd.max_margin` certifies.
"""

import matplotlib.pyplot as plt
import numpy as np
from prgd_paper.methods import Adam

import prgd
from prgd.algorithms import SteepestDescent

# sphinx_gallery_thumbnail_number = 2
plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#9E5A83"  # safe for colour-blind readers
NORMS = {"l2": (BLUE, "-"), "linf": (ORANGE, "--"), "l1": (GREEN, "-.")}
NAMES = {"l2": "l2", "linf": "l-infinity", "l1": "l1"}


def degrees(w):
    """Return the angle of a direction in the plane."""
    return np.degrees(np.arctan2(w[1], w[0]))


rng = np.random.default_rng(20)
y = np.repeat([1, -1], 20)
turn = np.array([[np.cos(0.9), np.sin(0.9)], [-np.sin(0.9), np.cos(0.9)]])
X = (rng.normal(size=(40, 2)) * [0.6, 0.27]) @ turn + y[:, None] * [1.1, 0.55]

# %%
# Three largest margins
# ---------------------
# The margin of :math:`w` in a norm is :math:`\min_i y_i \langle w, x_i \rangle / \|w\|`: the score of the
# worst point, for a :math:`w` on the unit ball of that norm. Each norm has its own unit ball, and so its own
# best direction. ``gap`` bounds the relative distance to the largest margin; it is proven.

best = {norm: prgd.max_margin(X, y, norm=norm, fit_intercept=False) for norm in NORMS}
for norm, result in best.items():
    angle = degrees(result.coef)
    print(f"{NAMES[norm]:10} angle {angle:5.2f} degrees, margin {result.margin:.4f}, gap {result.gap:.0e}")

figure, (left, right) = plt.subplots(1, 2, figsize=(6.2, 3.2), layout="constrained")
left.plot(*X[y == 1].T, "o", color="0.25", markersize=5)
left.plot(*X[y == -1].T, "^", color="0.25", fillstyle="none", markersize=6)
circle = np.linspace(0, 2 * np.pi, 400)
around = np.array([np.cos(circle), np.sin(circle)])
size = {"l2": np.hypot(*around), "linf": np.abs(around).max(axis=0), "l1": np.abs(around).sum(axis=0)}
for norm, (colour, dashes) in NORMS.items():
    w = best[norm].coef / np.linalg.norm(best[norm].coef)
    left.plot([-2.4 * w[1], 2.4 * w[1]], [2.4 * w[0], -2.4 * w[0]], dashes, color=colour, linewidth=2)
    right.plot(*(around / size[norm]), dashes, color=colour, linewidth=1.2)
    scale = 1 / {"l2": 1.0, "linf": np.abs(w).max(), "l1": np.abs(w).sum()}[norm]
    right.annotate("", scale * w, (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2})
    lift = {"l2": 0.04, "linf": 0.0, "l1": -0.12}[norm]  # keeps the names apart
    right.text(1.07, 1.1 * scale * w[1] - 0.06 + lift, NAMES[norm], color=colour, weight="bold")
left.set(aspect="equal", xlim=(-2.6, 2.6), ylim=(-2.3, 2.3), title="One set, three separators")
right.set(aspect="equal", xlim=(-1.2, 1.75), ylim=(-1.3, 1.3), title="Best direction of each unit ball")
plt.show()

# %%
# Where the optimizers go
# -----------------------
# Every algorithm starts at 0 and takes 20,000 steps. An observer of :func:`prgd.run` keeps the angle of
# :math:`w` at each of them. The horizontal lines are the certified directions from above.

problem = prgd.Problem(X, y)
STEPS = 20_000


def angles_of(algorithm):
    """Return the angle of w after each step."""
    seen = []
    prgd.run(problem, algorithm, stop=STEPS, record=None, observe=lambda s, *_: seen.append(degrees(s.w)))
    return seen


runs = [
    ("gradient descent", prgd.GD(), "#777777", ":", (700, 18.8)),
    ("normalized GD", prgd.NGD(), BLUE, "-", (60, 13.0)),
    ("sign descent", SteepestDescent(norm="linf"), ORANGE, "--", (75, 36)),
    ("Adam", Adam(), PURPLE, (0, (6, 1, 1, 1, 1, 1)), (12, 33)),
    ("coordinate descent", SteepestDescent(norm="l1"), GREEN, "-.", (1.2, 2)),
]
figure, axes = plt.subplots(figsize=(6.2, 4.8), layout="constrained")
for name, algorithm, colour, dashes, at in runs:
    angles = angles_of(algorithm)
    axes.semilogx(np.arange(1, STEPS + 1), angles[1:], color=colour, linestyle=dashes, linewidth=2)
    axes.text(*at, name, color=colour, weight="bold")
    away = {NAMES[norm]: abs(angles[-1] - degrees(result.coef)) for norm, result in best.items()}
    nearest = min(away, key=away.get)
    print(f"{name:18} ends at {angles[-1]:5.2f} degrees, {away[nearest]:.2f} from the {nearest} direction")
for norm, (colour, _) in NORMS.items():
    axes.axhline(degrees(best[norm].coef), color=colour, linewidth=0.8, zorder=0)
    axes.text(STEPS * 1.15, degrees(best[norm].coef), NAMES[norm], color=colour, va="center")
axes.set(xlim=(1, STEPS), xlabel="step", ylabel="angle of w, degrees")
axes.set_title("Each optimizer goes to the separator of its own norm")
plt.show()

# %%
# **What you see.** No optimizer turns straight to its final direction. The first steps follow the mean of
# the data; only when the worst points dominate the loss does the direction turn to the separator of the
# optimizer's norm. Plain gradient descent, and Adam with its falling steps, are slow: both are still more
# than a degree away. Steps that are divided by the loss (normalized GD, and here sign and coordinate
# descent) come much closer in the same time.
#
# **What it means.** There is one maximum-margin classifier for each norm: a linear model that is trained by
# Adam does not approach the separator that a support vector machine finds.
#
# **What to do.** If you want a certain separator, ask for its norm, ``prgd.max_margin(X, y, norm="linf")``,
# and compare the last direction of your optimizer with it, as above. :class:`prgd.PRGD` takes a ``norm``
# too. Read on: :doc:`norms and classes </norms>`, and :doc:`progressive rescaling in any norm
# </any_norm>`.
