r"""The dual vector of NGD: step sizes, distances and the rate of docs/note/note.md.

NGD is entropic mirror descent on :math:`\|Z^\top p\|_*^2 / 2`, seen from the primal: the dual weights
``p = softmax(-Zw)`` of its iterates are those of mirror descent, and the dual vector is ``u = Z^T p``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prgd.core.types import Array, Indices
from prgd_paper.theory.entropies import classes_of
from prgd_paper.theory.expansion import orthogonal_parts, path_expansion

SHORTEST = 0.5  # diameters are taken to be at least this fraction of the largest row norm: a smaller step


def diameter(Z: Array, q: float = 2.0, groups: Any = None) -> float:
    """Return the largest distance ``||z_i - z_j||_q`` of two rows, of one class if there are groups.

    Examples
    --------
    >>> diameter(np.array([[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]]), groups=[0, 0, 1])
    5.0
    """
    found = 0.0
    for members in classes_of(len(Z), groups):
        rows = Z[members]
        found = max(found, *(float(np.linalg.norm(rows - row, q, axis=1).max()) for row in rows))
    return found


def largest_step(Z: Array, q: float = 2.0, groups: Any = None) -> float:
    """Return a step that Lemma 1 allows: ``4 / D^2`` in l2, and ``4 / ((q - 1) D^2)`` where q is dual to p.

    Rows whose diameter is small, or 0, get the step size of half of their largest norm.
    """
    longest = float(np.linalg.norm(Z, q, axis=1).max())
    return 4.0 / ((q - 1.0) * max(diameter(Z, q, groups), SHORTEST * longest) ** 2)


def divergence(p: Array, groups: Any = None) -> float:
    """Return ``KL(p || uniform) = log n - H_1(p)``; with groups, of sum 1/2 each, the mean over the classes.

    Examples
    --------
    >>> round(divergence(np.array([1.0, 0.0])), 6)
    0.693147
    """
    parts = []
    for members in classes_of(len(p), groups):
        part = p[members] / p[members].sum()
        kept = part[part > 0.0]
        parts.append(math.log(len(part)) + float(kept @ np.log(kept)))
    return float(np.mean(parts))


def linear_rate(Z: Array, w_star: Array, margin_rows: Indices, eta: float) -> float:
    r"""Return c: under strict complementarity the error of u falls like ``e^-ct`` in the end (Theorem 3).

    .. math:: c = \min\{-\log(1 - \eta \lambda), \; \eta \gamma^\star (\gamma' - \gamma^\star)\}

    The first number is that of gradient descent orthogonal to w_star: lambda is the smallest positive
    eigenvalue of the covariance of the margin rows under their limiting weights. The second is that of the
    weights of the other rows, of which gamma' is the smallest margin along w_star.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
    w_star : ndarray of shape (d,), of norm 1.
    margin_rows : ndarray of int
    eta : float, at most ``4 / D^2``.

    Examples
    --------
    >>> Z = np.array([[1.0, 1.0], [1.0, -1.0], [2.0, 0.0]])
    >>> round(linear_rate(Z, np.array([1.0, 0.0]), np.array([0, 1]), 0.1), 12)  # -log 0.9 is more
    0.1
    """
    margins = Z @ w_star
    gamma_star = float(margins[margin_rows].min())
    others = float(np.delete(margins, margin_rows).min(initial=math.inf))
    size = eta * path_expansion(orthogonal_parts(Z[margin_rows], w_star)).curvature
    return min(-math.log1p(-size) if size < 1.0 else math.inf, eta * gamma_star * (others - gamma_star))
