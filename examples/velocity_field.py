r"""
Why rescaling helps: the velocity field
=======================================

Normalized gradient descent (NGD) finds the largest margin, but slowly: its direction error falls like 1/t.
The paper explains this by a picture. Every point :math:`w` of the plane has a *centripetal velocity*: how
fast a normalized gradient step brings :math:`w` nearer to the ray of the best direction :math:`w^\star`. NGD
moves into a strip beside the ray where this velocity is about zero, and stays there. PRGD, the paper's
algorithm, also rescales :math:`w`: it lifts the iterate out of the strip, to where the velocity is large.

The data are the toy set of Section 4: three points of norm 1 in the plane, best direction :math:`w^\star =
(1, 0)`, largest margin 0.3.
"""

import matplotlib.pyplot as plt
import numpy as np
from prgd_paper.theory.cylinder import favorable_cylinder
from prgd_paper.theory.samples import random_nondegenerate
from prgd_paper.theory.velocity import centripetal_velocity, direction_error, toy_attractor, velocity_field

import prgd

plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
GREEN, ORANGE, BLUE = "#009E73", "#D55E00", "#0072B2"  # safe for colour-blind readers
STEPS = 8


def path(problem, algorithm, w0, steps):
    """Return the iterates of an algorithm, one in each row."""
    seen = []
    prgd.run(problem, algorithm, w0, stop=steps, observe=lambda state, *_: seen.append(state.w))
    return np.array(seen)


data = prgd.datasets.toy(0.3)
problem = prgd.Problem(data.X, data.y)
start = prgd.run(problem, prgd.NGD(), stop=1).w  # both begin after one NGD step from 0
lift = prgd.schedules.LiftTo(1.0, np.array([1.0, 0.0]))  # rescale until the second coordinate is 1
progressive = prgd.PRGD(lift, prgd.schedules.Every(2))  # a rescaling, a gradient step, a rescaling, ...
paths = {"NGD": path(problem, prgd.NGD(), start, STEPS), "PRGD": path(problem, progressive, start, STEPS)}

# %%
# The field
# ---------
# ``velocity_field`` gives the direction of descent (arrows) and the centripetal velocity (shades) on a grid,
# and ``toy_attractor`` the strip that traps NGD.

strip = toy_attractor(0.3)
arrows = velocity_field(data, data.w_star, np.linspace(0, 13.5, 25), np.linspace(-0.35, 1.3, 9))
shades = velocity_field(data, data.w_star, np.linspace(-0.4, 14, 60), np.linspace(-0.5, 1.45, 201))

figure, axes = plt.subplots(figsize=(6.2, 4.8), layout="constrained")
image = axes.pcolormesh(
    shades.x, shades.y, shades.velocity, cmap="PuOr", vmin=-1, vmax=1, alpha=0.55, zorder=0
)
figure.colorbar(
    image, label="centripetal velocity", location="bottom", shrink=0.6, aspect=40, ticks=[-1, 0, 1]
)
axes.quiver(*np.meshgrid(arrows.x, arrows.y), *np.moveaxis(arrows.direction, 2, 0), color="0.45", width=0.002)
axes.axhspan(strip.lower, strip.upper, color=GREEN, alpha=0.3, zorder=1)
axes.axhline(0, color="black", linewidth=1.5, linestyle=(0, (6, 3)))
for name, colour, marker in (("NGD", ORANGE, "o"), ("PRGD", BLUE, "^")):
    axes.plot(*paths[name].T, color=colour, marker=marker, linewidth=2.2, markersize=7)
box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
axes.text(3.1, 0.29, "NGD creeps", color=ORANGE, weight="bold", bbox=box)
axes.text(7.3, 1.1, "PRGD: rescale ...", color=BLUE, weight="bold", bbox=box)
axes.text(12.8, 0.72, "... and step", color=BLUE, weight="bold", ha="right", bbox=box)
axes.text(9.0, 0.29, "the strip (attractor)", color="#00664B", bbox=box)
axes.text(13.8, -0.12, "the ray of $w^\\star$", ha="right", va="center", bbox=box)
axes.set(xlim=(-0.4, 14), ylim=(-0.5, 1.45), xlabel="$w_1$", ylabel="$w_2$")
axes.set_title(f"{STEPS} steps: NGD creeps along the strip, PRGD leaps out of it")
plt.show()

# %%
# **What you see.** Where the shade is purple, a step turns the iterate towards the ray; where it is orange,
# away from it. The green strip lies where the two meet, and all arrows lead into it. NGD (circles) lands in
# the strip with its first step. From then on it moves along the strip, parallel to the ray, by a step of the
# same length each time. Its direction improves only because the height above the ray stays the same while
# the distance from the origin grows.
#
# PRGD (triangles) alternates. A rescaling moves the iterate straight away from the origin: the direction
# stays, and the iterate comes out where the velocity is large. One step then takes it back to the strip, but
# farther out. Distances grow by a factor with every phase, so the direction error falls exponentially:

figure, axes = plt.subplots(figsize=(6.2, 3.6), layout="constrained")
for name, algorithm, colour, dashes in (("NGD", prgd.NGD(), ORANGE, "--"), ("PRGD", progressive, BLUE, "-")):
    error = direction_error(path(problem, algorithm, start, 60), data.w_star)
    axes.semilogy(error, color=colour, linestyle=dashes, linewidth=2)
    print(f"{name:4} direction error after {STEPS} steps {error[STEPS]:.2g}, after 60 steps {error[60]:.1e}")
axes.text(35, 0.1, "NGD, like 1/t", color=ORANGE, weight="bold")
axes.text(36, 2e-6, "PRGD, exponentially", color=BLUE, weight="bold")
axes.set(xlabel="step", ylabel="direction error", title="Exponentially fast instead of like 1/t")
axes.grid(alpha=0.25)
plt.show()

# %%
# The cylinder
# ------------
# In more dimensions the region beside the ray is a hollow cylinder around it, between the distances D and
# 2D. Theorem 5.5 of the paper says, under its Assumption 5.4: if D is large enough, then the velocity has a
# positive lower bound everywhere in the cylinder. Here is a random set in space. We measure the velocity on
# rings around the ray, all of them 8 units along it, and take D from ``favorable_cylinder``,
# whose bound is proven.

space = random_nondegenerate(16, rank=3, support=4, others=6, dimension=3)
bound = favorable_cylinder(space).convexity  # D and the lower bound mu, from convexity
frame, _ = np.linalg.qr(np.column_stack([space.w_star, np.eye(3)]))
in_space = prgd.Problem(space.X, space.y)
turns = np.linspace(0, 2 * np.pi, 90, endpoint=False)
ring = np.cos(turns)[:, None] * frame[:, 1] + np.sin(turns)[:, None] * frame[:, 2]
distances = np.geomspace(0.1, 100, 60)
velocity = [
    [centripetal_velocity(in_space, 8 * space.w_star + r * v, space.w_star) for v in ring] for r in distances
]
low, high = np.min(velocity, axis=1), np.max(velocity, axis=1)

figure, axes = plt.subplots(figsize=(6.2, 4), layout="constrained")
axes.fill_between(distances, low, high, color=BLUE, alpha=0.25)
axes.semilogx(distances, low, color=BLUE, linewidth=2)
axes.axvspan(bound.D, 2 * bound.D, color=GREEN, alpha=0.25)
axes.plot([bound.D, 2 * bound.D], [bound.mu, bound.mu], color="#00664B", linewidth=3)
axes.axhline(0, color="black", linewidth=1)
axes.text(2.6, 0.44, "from slowest\nto fastest point\nof the ring", color=BLUE)
axes.text(0.11, -0.17, "some points move away", color="black")
axes.text(1.42 * bound.D, 0.7, "cylinder\nD to 2D", color="#00664B", ha="center")
axes.text(
    0.9 * bound.D, bound.mu, "proven\nlower bound", color="#00664B", ha="right", va="center", weight="bold"
)
axes.set(xlim=(0.1, 100), ylim=(-0.22, 1.0), xlabel="distance from the ray", ylabel="centripetal velocity")
axes.set_title("Far enough from the ray, every step helps")
plt.show()

# %%
# **What it means.** Close to the ray some points move away from it, which is where NGD comes to rest. Far
# from it all points move towards it, at no less than a constant speed. The proven bound is cautious: the
# velocity is positive from a much smaller distance on.
#
# **What to do.** :class:`prgd.PRGD` does the lifting by radii that grow, without knowing :math:`w^\star`.
# How fast they should grow is the subject of :ref:`the example of schedules
# <sphx_glr_gallery_progressive_schedules.py>`. In the :doc:`explorer </explorer>` you can drag the points,
# and :doc:`theory </theory>` has the proofs.
