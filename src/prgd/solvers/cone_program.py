r"""Margins in l_p and group norms are cone programs, solved by Clarabel.

.. math:: \max \gamma \quad \text{with} \quad \langle A_t, w \rangle + \langle B_t, b \rangle \ge \gamma
    \text{ for all terms}, \ \|w\| \le 1.

The ball is written with cones that Clarabel knows: ``||w||_p <= 1`` by power cones, one for each entry
(``|w_j|^p <= t_j``, ``sum_j t_j <= 1``), and group norms by second-order cones. There is a w in the interior
of the ball, and weights in the interior of the simplex, so that the program and its dual have solutions of
the same value.

References
----------
Goulart and Chen (2024), Clarabel: an interior-point solver for conic programs with quadratic objectives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from prgd.core.errors import missing_package
from prgd.core.types import Array, Indices
from prgd.solvers.terms import Solution, Terms

_SMALLEST_TOLERANCE = 1e-10  # rounding keeps Clarabel from smaller ones
# Clarabel sometimes ends after a few steps, far from the solution, and converges in other units: factors of
# the terms, and whether Clarabel equilibrates.
_ATTEMPTS = ((1.0, True), (1.0, False), (2.0**-7, True), (2.0**7, False))
_ROTATIONS = ("l2", "rows")  # norms that rotations of the columns do not change


class _Ball(NamedTuple):
    """The unit ball as ``limits - entries x`` in a product of cones, where x is w and further variables."""

    entries: Any
    limits: Array
    cones: list[Any]


def solve_cone_program(terms: Terms, norm: str, tol: float) -> Solution | None:
    """Return the largest smallest term over ``||w|| <= 1``, to about ``tol``; None if Clarabel fails.

    Entries of the terms should be of moderate size, and the value of the program not far below 1.

    Parameters
    ----------
    norm : str
        The name of the norm: ``l2``, ``lp:`` and p, ``rows`` or ``columns``.

    Raises
    ------
    ModuleNotFoundError
        If Clarabel is not installed.
    """
    try:
        import clarabel
    except ImportError as error:
        raise missing_package(f"The largest margin in the norm {norm!r}", "clarabel", "cones") from error
    basis = None
    if norm in _ROTATIONS:
        terms, basis = terms.in_row_space()
    A, B = terms.matrix, terms.intercepts
    ball, best = _ball(clarabel, norm, terms.shape), None
    for factor, equilibrates in _ATTEMPTS:
        settings = _settings(clarabel, tol, equilibrates)
        x, p, is_solved = _solve(clarabel, A * factor, B, ball, settings)
        if np.isfinite(x).all() and np.isfinite(p).all() and (is_solved or best is None):
            best = x, p, factor
        if is_solved:
            break
    if best is None:
        return None
    x, p, factor = best
    D, k = A.shape[1], B.shape[1]
    w, b, p = terms.solution(x[:D], x[D : D + k] / factor, p)
    return Solution(w if basis is None else w @ basis.T, b, p)


def _solve(clarabel: Any, A: Any, B: Array, ball: _Ball, settings: Any) -> tuple[Array, Array, bool]:
    """Return w, the intercepts and gamma, the multipliers of the terms, and whether Clarabel converged."""
    from scipy.sparse import csc_matrix, csr_array, hstack, vstack

    (m, D), k = A.shape, B.shape[1]
    others = ball.entries.shape[1] - D  # variables beside w, the intercepts and gamma
    middle = csr_array((ball.limits.size, k + 1))
    constraints = vstack(
        [
            hstack([-A, csr_array(-B), csr_array(np.ones((m, 1))), csr_array((m, others))]),
            hstack([ball.entries[:, :D], middle, ball.entries[:, D:]]),
        ]
    )
    cost = np.zeros(D + k + 1 + others)
    cost[D + k] = -1.0
    limits = np.concatenate([np.zeros(m), ball.limits])
    cones = [clarabel.NonnegativeConeT(m), *ball.cones]
    quadratic = csc_matrix((cost.size, cost.size))
    solver = clarabel.DefaultSolver(quadratic, cost, csc_matrix(constraints), limits, cones, settings)
    found = solver.solve()
    return np.array(found.x), np.array(found.z)[:m], str(found.status) in ("Solved", "AlmostSolved")


def _settings(clarabel: Any, tol: float, equilibrates: bool) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads, settings.equilibrate_enable = False, 1, equilibrates
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, name, max(tol, _SMALLEST_TOLERANCE))
    return settings


def _ball(clarabel: Any, norm: str, shape: tuple[int, ...]) -> _Ball:
    entries = np.arange(math.prod(shape)).reshape(shape)
    if norm == "l2":
        return _group_ball(clarabel, entries.reshape(1, -1))
    if norm.startswith("lp:"):
        return _power_ball(clarabel, float(norm.removeprefix("lp:")), entries.size)
    return _group_ball(clarabel, entries if norm == "rows" else entries.T)


def _csr(rows: Sequence[Any], columns: Sequence[Any], values: Sequence[Any], shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array

    at = np.concatenate(rows), np.concatenate(columns)
    filled = [np.broadcast_to(v, np.shape(r)) for v, r in zip(values, rows, strict=True)]
    return csr_array((np.concatenate(filled), at), shape=shape)


def _power_ball(clarabel: Any, p: float, D: int) -> _Ball:
    """Write ``||w||_p <= 1``: ``(t_j, 1, w_j)`` in power cones of exponent 1/p, and ``sum_j t_j <= 1``."""
    j = np.arange(D)
    rows, columns = [3 * j, 3 * j + 2, np.full(D, 3 * D)], [D + j, j, D + j]
    limits = np.append(np.tile([0.0, 1.0, 0.0], D), 1.0)
    entries = _csr(rows, columns, [-1.0, -1.0, 1.0], (3 * D + 1, 2 * D))
    return _Ball(entries, limits, [clarabel.PowerConeT(1.0 / p)] * D + [clarabel.NonnegativeConeT(1)])


def _group_ball(clarabel: Any, members: Indices) -> _Ball:
    """Write ``sum_g ||w_g||_2 <= 1`` for groups of entries: ``(t_g, w_g)`` in second-order cones."""
    groups, size = members.shape
    D, g = members.size, np.arange(groups)
    first = (size + 1) * g
    inside = (first[:, None] + 1 + np.arange(size)).ravel()
    total = np.full(groups, groups * (size + 1))
    rows, columns = [first, inside, total], [D + g, members.ravel(), D + g]
    entries = _csr(rows, columns, [-1.0, -1.0, 1.0], (groups * (size + 1) + 1, D + groups))
    limits = np.append(np.zeros(groups * (size + 1)), 1.0)
    cones = [clarabel.SecondOrderConeT(size + 1)] * groups
    return _Ball(entries, limits, [*cones, clarabel.NonnegativeConeT(1)])
