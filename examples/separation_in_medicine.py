r"""
An infinite odds ratio in a medical study
=========================================

A statistics program fits a logistic regression to clinical data. One coefficient comes out as 20 with a
standard error of thousands, perhaps with a warning. This example shows why, proves which coefficient is
infinite, and ends with numbers that can be reported.

The data are the 79 cases of endometrial cancer of Heinze and Schemper (2002): whether the histology grade is
high (HG), given neovascularization (NV, yes or no), the pulsatility index of the uterine artery (PI) and the
height of the endometrium (EH).
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.optimize import brentq, minimize
from scipy.stats import chi2

import prgd

# sphinx_gallery_thumbnail_number = 2
plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"  # safe for colour-blind readers

NV = "0000000000000000000001111100000000000000000000011110000000000000000000100011010"
HG = "0000000000000000011111111110000000000000000111111111100000000000000001111111111"
PI = """13 16 8 34 20 5 17 10 26 17 8 7 20 10 18 16 18 8 29 12 20 38 22 7 25 15 7 28 11 19 10 10 18 14 21 11
17 25 16 19 15 33 24 48 12 19 2 22 40 5 0 21 15 29 15 12 3 20 23 12 22 42 15 13 14 19 12 13 10 12 49
6 5 17 11 21 5 19 33"""
EH = """1.64 2.26 3.14 2.68 1.28 2.31 1.8 1.68 1.56 2.31 2.01 1.89 3.15 1.23 1.27 1.76 2.0 2.64 0.88 1.27
1.37 0.97 1.14 0.88 0.91 0.58 0.97 1.5 1.33 2.37 1.82 3.13 1.31 1.92 1.64 2.01 1.88 1.93 2.11 1.29
1.72 0.75 1.92 1.84 1.11 1.61 1.18 1.44 1.18 0.93 1.17 1.19 1.06 2.02 2.29 2.33 2.9 1.7 1.41 2.25
1.54 1.97 1.75 2.16 2.57 1.37 3.61 2.04 2.17 1.69 0.27 1.84 1.3 0.96 1.01 0.98 0.35 1.02 0.85"""
table = pd.DataFrame({"NV": list(NV), "PI": PI.split(), "EH": EH.split()}).astype(float)
grade = np.array(list(HG), int)

# %%
# What an optimizer sees
# ----------------------
# Newton's method, by which R's ``glm`` and statsmodels fit, adds about 1 to the coefficient of NV in every
# iteration, without end. The other coefficients converge.


def newton(X, y, offset=0.0, steps=25):
    """Return the coefficients of a logistic regression after each Newton step."""
    path = [np.zeros(X.shape[1])]
    for _ in range(steps):
        p = 1 / (1 + np.exp(-(X @ path[-1] + offset)))
        path.append(path[-1] + np.linalg.solve((X.T * (p * (1 - p))) @ X, X.T @ (y - p)))
    return np.array(path)


design = np.column_stack([np.ones(len(table)), table])
path = newton(design, grade, steps=16)

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for k, name, colour, dashes in ((1, "NV", ORANGE, "o-"), (2, "PI", BLUE, "^--"), (3, "EH", GREEN, "s-.")):
    axes.plot(path[:, k], dashes, color=colour, markersize=5)
    axes.text(16.3, path[-1, k], name, color=colour, weight="bold", va="center")
axes.set(xlabel="Newton steps", ylabel="coefficient", title="NV grows by one with every step", xlim=(0, 17.5))
plt.show()

# %%
# The verdict
# -----------
# :func:`prgd.separability` decides each coefficient and proves it in exact arithmetic. All 13 cases with
# neovascularization have a high grade, so the likelihood always grows with the coefficient of NV. The other
# three coefficients have finite estimates.
found = prgd.separability(table, grade)
print(found)
print(found.check(table, grade))  # proves all of it once more

# %%
# The profile likelihood
# ----------------------
# Fix one coefficient, fit the others, and write down how far the log-likelihood lies below its supremum.
# This is the profile likelihood. The profile of EH has a peak. The profile of NV rises to a plateau: the
# data say that the coefficient is large, but not how large.
#
# The supremum can be computed without infinite numbers. As the coefficient of NV goes to infinity, the 13
# rows with NV = 1 are fitted perfectly and add nothing to the log-likelihood. So the supremum is the maximum
# over the other rows, ``found.limiting_rows``.


def log_likelihood(X, y, beta, offset=0.0):
    """Return the logarithm of the likelihood."""
    return -np.logaddexp(0, np.where(y == 1, -1, 1) * (X @ beta + offset)).sum()


rest, kept = found.limiting_rows, [0, 2, 3]  # NV is 0 in all limiting rows
limiting_design, limiting_grade = design[rest][:, kept], grade[rest]
limit = newton(limiting_design, limiting_grade)[-1]
supremum = log_likelihood(limiting_design, limiting_grade, limit)


def profile(X, y, k, value):
    """Return the largest log-likelihood with coefficient k fixed, less the supremum."""
    others, offset = np.delete(X, k, axis=1), X[:, k] * value
    start = np.zeros(others.shape[1])
    return -minimize(lambda beta: -log_likelihood(others, y, beta, offset), start).fun - supremum


def profile_nv(value):
    """Return the profile of NV, over all rows."""
    return profile(design, grade, 1, value)


def profile_eh(value):
    """Return the profile of EH, over the limiting rows."""
    return profile(limiting_design, limiting_grade, 2, value)


level = -chi2.ppf(0.95, df=1) / 2  # the 95 % interval is where the profile lies above this level
lower = brentq(lambda value: profile_nv(value) - level, -1, 5)
interval = [brentq(lambda value: profile_eh(value) - level, limit[2], end) for end in (-6, 0)]

figure, row = plt.subplots(1, 2, figsize=(6.4, 3.6), layout="constrained", sharey=True)
for axes, name, profile_of, colour, values in (
    (row[0], "NV", profile_nv, ORANGE, np.linspace(-1, 9, 40)),
    (row[1], "EH", profile_eh, GREEN, np.linspace(-6, 0, 40)),
):
    axes.plot(values, [profile_of(value) for value in values], color=colour, linewidth=2.5)
    axes.axhline(level, color=GREY, linestyle="--")
    axes.set(xlabel=f"coefficient of {name}", ylim=(-6, 0.8))
row[0].axhline(0, color="black", linestyle=":")
row[0].text(-0.9, 0.2, "supremum, never reached")
row[0].plot([lower, 9], [-5.4, -5.4], color="black", linewidth=3)
row[0].plot(8.8, -5.4, ">", color="black", markersize=9)
row[0].text(lower, -5.1, f"95 %: {lower:.2f} to infinity")
row[1].plot(interval, [-5.4, -5.4], color="black", linewidth=3)
row[1].text(interval[0], -5.1, f"95 %: {interval[0]:.2f} to {interval[1]:.2f}")
row[0].set(ylabel="log-likelihood below supremum", title="A plateau: infinite")
row[1].set(title="A peak: finite")
plt.show()

# %%
# What to report
# --------------
# ``fit`` has these numbers, with likelihood-ratio tests. They need neither a prior nor a penalty.
print(found.fit())

# %%
# NV has a clear effect, although a table of Wald tests would give it a p-value of about 1. If you need a
# finite number, use Firth's penalty, and say that the number comes from it. These are the estimates that
# Heinze and Schemper (2002) made known.
print(found.fit("firth"))

# %%
# **What to do.** If a logistic regression does not converge, or has huge standard errors, ask
# :func:`prgd.separability` first. It takes arrays, data frames, formulas and models of statsmodels. The
# guide to :doc:`separability </separability>` leads from the warning to a table for a paper.
