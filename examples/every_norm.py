r"""
One set, five norms, five separators
====================================

The margin of a line depends on how distances are measured. This example draws the line of largest margin of
one set of points in five norms, and shows why the lines differ.

The margin is a smallest score, divided by the norm of the weights, :math:`\gamma(w) = \min_i y_i (\langle w,
x_i \rangle + b) / \|w\|_p`. It equals the distance from the line to the nearest point in the *dual* norm
:math:`\ell_q`, with :math:`1/p + 1/q = 1`. So for :math:`\ell_1` the points within some distance of a point
form a square, for :math:`\ell_\infty` a diamond, and for :math:`\ell_2` a circle.
"""

import matplotlib.pyplot as plt
import numpy as np

import prgd

plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
BLUE, ORANGE = "#0072B2", "#D55E00"  # safe for colour-blind readers

rng = np.random.default_rng(1)
behind = rng.uniform(size=(40, 2)) @ [[0.0, -1.8], [-1.8, 1.8]]  # none of these is nearest in any norm
X = np.vstack([[0, 0], behind[:20] - [0.1, 0], [2, 1], [2.1, 1] - behind[20:]])
y = np.repeat([-1, 1], 21)

# %%
# Five solves
# -----------
# Only the argument ``norm`` changes. Each result has its own proven interval, and ``gap`` is its relative
# width.
norms = {"l1": np.inf, "lp:1.5": 3.0, "l2": 2.0, "lp:4": 4 / 3, "linf": 1.0}  # each with its dual q
results = {norm: prgd.max_margin(X, y, norm=norm) for norm in norms}
for norm, result in results.items():
    w = result.coef / np.abs(result.coef).max()
    print(f"{norm:7} w = ({w[0]:.3f}, {w[1]:.3f})  margin {result.margin:.6f}  gap {result.gap:.0e}")


# %%
# Balls that touch the line
# -------------------------
# Draw around the nearest point of each class the ball of its norm, with the margin as radius. Both balls
# touch the line, and no other line leaves room for larger ones.
def ball(q, radius):
    """Return the outline of the l_q ball."""
    angle = np.linspace(0, 2 * np.pi, 721)
    circle = np.array([np.cos(angle), np.sin(angle)])
    return radius * circle / np.linalg.norm(circle, ord=q, axis=0)


def draw_points(axes):
    """Draw both classes."""
    axes.plot(*X[y == -1].T, "o", color=BLUE, markersize=5)
    axes.plot(*X[y == 1].T, "^", color=ORANGE, markersize=5)
    axes.set(aspect="equal", xlim=(-2, 4), ylim=(-2.2, 3.2), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def line(result):
    """Return two points of the separating line."""
    (w_1, w_2), b = result.coef, result.intercept
    vertical = np.array([-4.0, 5.0])
    return -(b + w_2 * vertical) / w_1, vertical


names = {"l1": "1", "lp:1.5": "1.5", "l2": "2", "lp:4": "4", "linf": r"\infty"}
dashes = {"l1": "-", "lp:1.5": "--", "l2": "-", "lp:4": "-.", "linf": ":"}
figure, grid = plt.subplots(3, 2, figsize=(6, 8), layout="constrained")
for axes, (norm, q) in zip(grid.flat, norms.items(), strict=False):
    result = results[norm]
    draw_points(axes)
    axes.plot(*line(result), color="black", linewidth=2)
    for row, colour in zip(X[result.support], (BLUE, ORANGE), strict=True):
        axes.fill(*(row[:, None] + ball(q, result.margin)), color=colour, alpha=0.25)
        axes.plot(*(row[:, None] + ball(q, result.margin)), color=colour)
    axes.set_title(rf"$\|w\|_{{{names[norm]}}}$: margin {result.margin:.3f}")
draw_points(grid[2, 1])
for norm, result in results.items():
    grid[2, 1].plot(*line(result), dashes[norm], color="black", linewidth=1.6)
    x_1 = -(result.intercept - 2.0 * result.coef[1]) / result.coef[0]
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    grid[2, 1].text(x_1, -2.0, f"${names[norm]}$", ha="center", va="center", fontsize=10, bbox=box)
grid[2, 1].set_title("all five lines, by norm")
plt.show()

# %%
# From left to right and top to bottom the line turns: in :math:`\ell_1` only the first coordinate has a
# weight, in :math:`\ell_\infty` both weights are equal. Margins in different norms are different quantities
# and cannot be compared.
#
# The weights of pixels
# ---------------------
# The same happens in many dimensions. These are the separators of the digits 0 and 1,
# one weight for each of the 64 pixels. In :math:`\ell_1` few pixels have a weight, which is what you want
# when features are costly. In :math:`\ell_\infty` most weights have the same size, so no single pixel
# matters much.
digits = prgd.datasets.digits(0, 1)
figure, row = plt.subplots(1, 3, figsize=(6, 2.7), layout="constrained")
for axes, norm in zip(row, ("l1", "l2", "linf"), strict=True):
    w = prgd.max_margin(digits.X, digits.y, norm=norm).coef
    w = w / np.abs(w).max()
    axes.imshow(w.reshape(8, 8), cmap="PuOr", vmin=-1, vmax=1)
    axes.set(xticks=[], yticks=[], title=rf"$\|w\|_{{{names[norm]}}}$")
    axes.set_xlabel(f"{np.sum(np.abs(w) > 1e-6)} pixels used,\n{np.sum(np.abs(w) > 1 - 1e-6)} at the bound")
plt.show()

# %%
# **What to do.** Take :math:`\ell_2` unless you have a reason. Take ``norm="l1"`` to select features, and
# scale the columns first if their units are arbitrary. The guide to :doc:`norms and classes </norms>`
# says which norm measures what, and :doc:`a table of norms </max_margin>` what each costs and which
# algorithms maximise its margin: sign descent and Adam, for instance, go to the :math:`\ell_\infty`
# separator.
