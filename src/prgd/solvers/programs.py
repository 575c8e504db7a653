"""The program of a norm: which method maximises the smallest of some terms over the unit ball."""

from __future__ import annotations

import math

import numpy as np

from prgd.core.types import Indices
from prgd.norms import Norm
from prgd.solvers.cone_program import solve_cone_program
from prgd.solvers.joint_interior import solve_pairs
from prgd.solvers.linear_program import solve_linear_program
from prgd.solvers.matrix_program import solve_matrix_program
from prgd.solvers.terms import Solution, Terms

_LIKE_L2 = ("spectral", "nuclear", "rows")  # norms of a matrix with rows v and -v that v has in l2
_FEW_TERMS = 256  # any method solves at most so many terms at once
_MANY_TERMS = 2**18  # more terms are never solved at once: their rows are copied
_MAX_OPERATIONS = 1e9  # operations of a step for which an interior point of our own takes all terms


def max_terms_at_once(norm: Norm, shape: tuple[int, ...]) -> int:
    """Return how many terms the method for a norm solves faster at once than by a working set."""
    step = 0.0
    if norm.name == "l2" and len(shape) == 2:
        step = shape[1] ** 2
    elif norm.name in ("spectral", "nuclear"):
        step = 2.0 * math.prod(shape) ** 2
    return max(_FEW_TERMS, min(int(_MAX_OPERATIONS / step), _MANY_TERMS)) if step else _FEW_TERMS


def solve_program(terms: Terms, norm: Norm, tol: float) -> Solution | None:
    """Return the largest smallest term over ``||w|| <= 1``, to about ``tol``; None if that fails."""
    name = norm.name
    if name in ("l1", "linf"):
        return solve_linear_program(terms, name)
    # Of two classes jointly, the best rows of W are v and -v: these norms are multiples of that of v in l2.
    if terms.minus is not None and (name == "l2" or (terms.K == 2 and name in _LIKE_L2)):
        return _solve_joint_l2(terms, terms.minus, tol)
    if name in ("spectral", "nuclear"):
        return solve_matrix_program(terms, name, tol)
    return solve_cone_program(terms, name, tol)


def _solve_joint_l2(terms: Terms, minus: Indices, tol: float) -> Solution | None:
    """Return the solution of the quadratic program with margins of at least 1, divided by its norm."""
    codes = np.zeros(terms.X.shape[0], np.int64)
    codes[terms.row] = terms.plus
    X = terms.X if isinstance(terms.X, np.ndarray) else terms.X.toarray()
    found = solve_pairs(X, codes, terms.row, minus, terms.K, terms.fit_intercept, tol)
    length, total = float(np.linalg.norm(found.W)), float(found.p.sum())
    if not (0.0 < length < math.inf and 0.0 < total < math.inf):
        return None
    return Solution(found.W / length, found.b / length, found.p / total)
