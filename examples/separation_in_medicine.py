r"""
A logistic regression that does not converge
============================================

A statistics program fits a logistic regression to clinical data. One coefficient comes out as 20 with a standard
error of thousands, perhaps with a warning. This example shows why, proves which coefficient is infinite, and ends
with numbers that can be reported.

The data are the 79 cases of endometrial cancer of Heinze and Schemper (2002): whether the histology grade is high
(HG), given neovascularization (NV, yes or no), the pulsality index of the arteria uterina (PI) and the height of
the endometrium (EH).
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import chi2

import prgd

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"  # safe for colour-blind readers

NV = "0000000000000000000001111100000000000000000000011110000000000000000000100011010"
HG = "0000000000000000011111111110000000000000000111111111100000000000000001111111111"
PI = """13 16 8 34 20 5 17 10 26 17 8 7 20 10 18 16 18 8 29 12 20 38 22 7 25 15 7 28 11 19 10 10 18 14 21 11 17
25 16 19 15 33 24 48 12 19 2 22 40 5 0 21 15 29 15 12 3 20 23 12 22 42 15 13 14 19 12 13 10 12 49 6 5 17 11 21 5
19 33"""
EH = """1.64 2.26 3.14 2.68 1.28 2.31 1.8 1.68 1.56 2.31 2.01 1.89 3.15 1.23 1.27 1.76 2.0 2.64 0.88 1.27 1.37
0.97 1.14 0.88 0.91 0.58 0.97 1.5 1.33 2.37 1.82 3.13 1.31 1.92 1.64 2.01 1.88 1.93 2.11 1.29 1.72 0.75 1.92
1.84 1.11 1.61 1.18 1.44 1.18 0.93 1.17 1.19 1.06 2.02 2.29 2.33 2.9 1.7 1.41 2.25 1.54 1.97 1.75 2.16 2.57 1.37
3.61 2.04 2.17 1.69 0.27 1.84 1.3 0.96 1.01 0.98 0.35 1.02 0.85"""
table = pd.DataFrame({"NV": list(NV), "PI": PI.split(), "EH": EH.split()}).astype(float)
grade = np.array(list(HG), int)

# %%
# What an optimizer sees
# ----------------------
# Newton's method, which is how ``glm`` of R and statsmodels fit, adds about 1 to the coefficient of NV in every
# iteration. It would go on for ever. The others settle.


def likelihood(X, beta):
    """Return the log-likelihood of the logistic regression, its gradient and its Hessian."""
    z = X @ beta
    p = 1 / (1 + np.exp(-z))
    value = -np.logaddexp(0, np.where(grade[: len(X)] == 1, -z, z)).sum()
    return value, X.T @ (grade[: len(X)] - p), -(X.T * (p * (1 - p))) @ X
