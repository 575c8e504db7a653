"""Pairwise descent: the shortest vector of a hull, or between two hulls, from the Gram matrix of its rows.

Minimise ``p^T G p / 2`` over weights p >= 0 whose sum in each group is fixed, by moving weight between
the two rows of a group for which the objective falls most (the second-order choice of LIBSVM). ``g = G p``
holds the margins ``<u, z_i>`` of the rows at ``u = Z^T p``, which are equal on the support at the optimum.
"""

from __future__ import annotations

import numpy as np

from prgd.core.types import Array, Indices
from prgd.solvers import minimal


def descend(G: Array, group: Indices, p: Array, g: Array, tol: float, max_steps: int) -> tuple[int, float]:
    """Update p and g in place; return the steps taken and the violation left, relative to ``p^T G p``.

    The violation is the largest ``g_j - g_i`` within a group, where j carries weight and i is any row. It
    bounds the relative gap of the certificate over these rows. Of G, only the first ``p.size`` rows and
    columns are used.
    """
    if not minimal.HAS_NUMBA:
        return minimal.descend(G, group, p, g, tol, max_steps)
    from prgd.solvers import _pairwise_kernel

    diagonal = np.diag(G)[: p.size].copy()  # in G each entry lies in a cache line of its own
    unit = 1.0 / max(float(diagonal.max()), minimal.MIN_CURVATURE)
    steps, violation = _pairwise_kernel.descend(G, diagonal, group, p, g, tol, max_steps, unit)
    return int(steps), float(violation)
