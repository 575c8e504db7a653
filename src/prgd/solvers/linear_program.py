r"""Margins in l1 and l-infinity are linear programs, solved by HiGHS through SciPy.

.. math:: \max \gamma \quad \text{with} \quad \langle A_t, w \rangle + \langle B_t, b \rangle \ge \gamma
    \text{ for all terms}, \ \|w\| \le 1.

The program has a solution whatever the data, and its multipliers are weights p of sum 1 with ``B^T p = 0``
that minimise ``||A^T p||_*``. The simplex method ends in a vertex, and so does an interior point followed by
a crossover: there both are accurate to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd.solvers.terms import Solution, Terms

_MANY_ENTRIES = 2**15  # programs with so many entries are solved by interior point and crossover
_TOLERANCE = 1e-10  # the smallest feasibility tolerance that HiGHS takes


def solve_linear_program(terms: Terms, norm: str) -> Solution | None:
    """Return the largest smallest term over ``||w|| <= 1`` in ``l1`` or ``linf``; None if HiGHS fails.

    Entries of the terms should be of moderate size, and the value of the program not far below 1.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack, vstack

    A, B = terms.matrix, terms.intercepts
    (m, D), k = A.shape, B.shape[1]
    free = np.tile([-np.inf, np.inf], (k + 1, 1))  # the intercepts and gamma
    tail = csr_array(np.hstack([-B, np.ones((m, 1))]))
    limits = np.zeros(m)
    if norm == "l1":  # w is a difference of two vectors that are not negative
        rows = hstack([-A, A, tail])
        ball = csr_array(np.concatenate([np.ones(2 * D), np.zeros(k + 1)])[None])
        rows, limits = vstack([rows, ball]), np.append(limits, 1.0)
        bounds = np.vstack([np.tile([0.0, np.inf], (2 * D, 1)), free])
    else:
        rows = hstack([-A, tail])
        bounds = np.vstack([np.tile([-1.0, 1.0], (D, 1)), free])
    cost = np.zeros(rows.shape[1])
    cost[-1] = -1.0
    names = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
    for method in ("highs-ipm", "highs-ds")[int(rows.nnz < _MANY_ENTRIES) :]:
        found: Any = linprog(  # type: ignore[call-overload]  # the stubs do not know an array of bounds
            cost, rows, limits, bounds=bounds, method=method, options=dict.fromkeys(names, _TOLERANCE)
        )
        if found.x is not None and np.isfinite(found.x).all():
            break
    else:
        return None
    x = found.x
    w = x[:D] - x[D : 2 * D] if norm == "l1" else x[:D]
    return terms.solution(w, x[rows.shape[1] - k - 1 : -1], -found.ineqlin.marginals[:m])
