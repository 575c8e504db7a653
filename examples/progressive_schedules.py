r"""
How fast may the norm grow?
===========================

The paper's algorithm, PRGD, multiplies ``w`` by a factor from time to time, as its schedule says. If the
norm grows too slowly, the margin converges slowly. If it grows too fast, ``w`` can no longer turn, and
freezes in a wrong direction. This example draws both cases, and two algorithms of this library that let the
data decide when the norm may grow.

Algorithm 1 has radii :math:`R_k` and times :math:`T_k`. At :math:`T_k` it rescales ``w`` to the length
:math:`R_k`; in between it takes normalized gradient steps inside the ball of this radius. PRGD(exp) has
radii that grow like :math:`1.2^k` with phases of 5 steps, as in the paper. PRGD(poly) has radii and phases
that grow like :math:`(k + 1)^{1.2}`; the powers are chosen for this example.
"""

import matplotlib.pyplot as plt
import numpy as np
from prgd_paper.methods import GatedPRGD

import prgd
from prgd.algorithms import ProgressiveNewton
from prgd.schedules import Every, Geometric, Polynomial, PolynomialPhases

# sphinx_gallery_thumbnail_number = 2
plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#882255", "#777777"

# PRGD(exp) is that of Figures 3 and 6 of the paper. PRGD(poly) has the radii of these figures, where phases
# have 5 steps; here phases grow with the same exponent, as they do in Figure 4 (both exponents 0.6).
WARM_UP, STEPS = 1000, 3000
entrants = {  # algorithm, whether it starts after the warm-up, colour and dashes
    "GD": (prgd.GD(), False, GREY, ":"),
    "PRGD(exp)": (prgd.PRGD(Geometric(1.2), Every(5)), True, BLUE, "-"),
    "PRGD(poly)": (prgd.PRGD(Polynomial(1.2), PolynomialPhases(5, 1.2)), True, ORANGE, "--"),
    "gated PRGD": (GatedPRGD(), False, GREEN, "-."),
    "progressive Newton": (ProgressiveNewton(), False, PURPLE, "-"),
}


def race(data):
    """Return steps, margins, radii and iterates of every entrant, and whether it was certified."""
    problem = prgd.Problem(data.X, data.y)
    warm = prgd.run(problem, prgd.GD(), stop=WARM_UP)
    runs = {}
    for name, (algorithm, is_warm, _, _) in entrants.items():
        seen = []
        result = prgd.run(
            problem,
            algorithm,
            warm.w if is_warm else None,
            stop=prgd.any_of(prgd.Gap(1e-10), STEPS - WARM_UP * is_warm),
            observe=lambda state, record, certificate, seen=seen: seen.append(state.w),
        )
        t, margin = result.history["t"] + WARM_UP * is_warm, result.history["margin"].copy()
        is_certified = result.status is prgd.Status.CERTIFIED
        if is_certified:  # Newton certifies a direction that is better than its last w
            margin[-1] = result.margin
        runs[name] = (t, margin, result.history["R_k"], np.array(seen), is_certified)
    return runs


# %%
# Two sets
# --------
# Dataset I of the paper lies in the plane, and its two support vectors span the plane. The digits 0 and 1
# have 64 pixels and only 16 support vectors. The paper's exponential rate (Theorem 6.1) needs support
# vectors that span the data, so it covers the first set only.
plane, digits = prgd.datasets.synthetic_one(seed=0), prgd.datasets.digits(0, 1)
best = prgd.max_margin(digits.X, digits.y, fit_intercept=False, tol=1e-10)
print(len(best.support), "support vectors of the digits")
on_plane, on_digits = race(plane), race(digits)

# %%
# A run ends when the certified relative gap is 1e-10, which a star marks.
figure, panels = plt.subplots(2, 1, figsize=(6.2, 7.4), layout="constrained", sharex=True)
places = [  # of the names, in the order of the entrants
    [(2000, 0.4), (1170, 1e-8), (2000, 1e-3), (90, 1e-6), (90, 1e-10)],
    [(2700, 2), (1450, 2), (1400, 4e-3), (1200, 1e-5), (90, 1e-9)],
]
gamma_stars = (plane.gamma_star, best.upper_bound)
for axes, runs, gamma_star, where in zip(panels, (on_plane, on_digits), gamma_stars, places, strict=True):
    for place, (name, (t, margin, _, _, is_certified)) in zip(where, runs.items(), strict=True):
        _, _, colour, dashes = entrants[name]
        error = np.maximum(1 - margin / gamma_star, 1e-12)
        axes.semilogy(t, error, linestyle=dashes, color=colour, linewidth=2)
        axes.text(*place, name.replace(" ", "\n"), color=colour, weight="bold", va="center")
        if is_certified:
            axes.plot(t[-1], error[-1], "*", color=colour, markersize=13, clip_on=False, zorder=3)
    axes.set(ylabel="relative margin error", ylim=(3e-13, 6))
    axes.grid(alpha=0.25)
panels[0].set_title("Dataset I: fast growth is exponentially fast")
panels[1].set_title("Digits 0 and 1: fast growth freezes")
panels[1].set_xlabel("steps, warm-up included")
plt.show()

# %%
# Why it freezes
# --------------
# A normalized step has a length of at most 1 here, so it turns ``w`` by at most about :math:`1 / R_k`. With
# radii that grow geometrically the sum of these angles is finite, and soon little of it is left. The picture
# shows, for the digits, the angle from ``w`` to the best direction, and the largest angle by which the
# remaining steps could still turn ``w``.
w_star = best.coef / np.linalg.norm(best.coef)
figure, panels = plt.subplots(1, 2, figsize=(6.6, 3.8), layout="constrained", sharey=True)
for axes, name in zip(panels, ("PRGD(exp)", "PRGD(poly)"), strict=True):
    t, _, radii, w, _ = on_digits[name]
    to_go = np.degrees(np.arccos(np.clip(w @ w_star / np.linalg.norm(w, axis=1), -1, 1)))
    possible = np.degrees(np.cumsum(1 / radii[::-1])[::-1])
    colour = entrants[name][2]
    axes.semilogy(t - WARM_UP, to_go, color=colour, linewidth=2.5)
    axes.semilogy(t - WARM_UP, possible, "--", color="black", linewidth=1.5)
    axes.set(xlabel="steps after the warm-up", title=name, ylim=(1, 1000), xlim=(0, 400))
    axes.text(180, to_go[180] * 0.6, "angle to go", color=colour, weight="bold")
panels[0].text(60, 60, "turn that is\nstill possible")
panels[1].text(80, 350, "turn that is still possible\nwithin 2,000 steps")
panels[0].set(ylabel="degrees", title="PRGD(exp) cannot get there")
panels[1].set_title("PRGD(poly) can")
plt.show()

# %%
# With PRGD(exp) the dashed line falls below the angle to go: from there on no gradients could bring ``w`` to
# the best direction. With PRGD(poly) the phases become longer as the radii grow, so each phase may turn
# ``w`` as far as the phase before, and the sum has no bound. Yet it is slow.
#
# Let the data decide
# -------------------
# ``GatedPRGD`` lets the radius grow when the direction has converged at the present
# radius, a test that needs no further pass over the data. :class:`prgd.algorithms.ProgressiveNewton` uses
# the same test with Newton steps, and is the only entrant that certifies its margin on both sets. Its steps
# cost more: each solves a linear system over the rows near the margin.
figure, axes = plt.subplots(figsize=(6.2, 3.8), layout="constrained")
places = [(1580, 1e9), (2300, 5e3), (2300, 6e6), (90, 1e8)]  # of all but GD, which has no radius
for name, place in zip(list(entrants)[1:], places, strict=True):
    t, _, radii, _, _ = on_digits[name]
    _, _, colour, dashes = entrants[name]
    axes.semilogy(t, np.maximum(radii, 1), linestyle=dashes, color=colour, linewidth=2)
    axes.text(*place, name.replace(" ", "\n"), color=colour, weight="bold", va="center")
axes.set(
    xlabel="steps, warm-up included",
    ylabel="radius $R_k$",
    title="Digits 0 and 1: when each norm grows",
    ylim=(1, 1e12),
)
axes.grid(alpha=0.25)
plt.show()

# %%
# **What to do.** A ``w`` that no longer turns proves nothing; look at the certified gap. If you study the
# paper's algorithm on data with many columns, take radii that grow slowly, or gated PRGD. If you want the
# separator, :func:`prgd.max_margin` has no schedule. :doc:`Progressive rescaling beyond Algorithm 1
# </algorithms>` explains gated PRGD, and the guide shows how to :doc:`run the algorithms
# </algorithms>`.
