r"""The programs of norms: methods that maximise the smallest of some terms over the unit ball of a norm.

.. math:: \max \gamma \quad \text{with} \quad \langle A_t, w \rangle + \langle B_t, b \rangle \ge \gamma
    \text{ for all terms}, \ \|w\| \le 1.

A norm states its program (`prgd.norms.Norm.program`). Margins in l1 and l-infinity are linear programs,
solved by HiGHS through SciPy; in l2 a quadratic one (`prgd.solvers.joint_interior`); in the spectral
and the nuclear norm semidefinite ones (`prgd.solvers.matrix_program`); in l_p and group norms cone programs,
solved by Clarabel: ``||w||_p <= 1`` by power cones, one for each entry, group norms by second-order cones.

References
----------
Goulart and Chen (2024), Clarabel: an interior-point solver for conic programs with quadratic objectives.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from prgd.core.errors import missing_package
from prgd.core.threads import check_time, time_left
from prgd.core.types import Array, Indices
from prgd.norms import L2, Lp, Norm
from prgd.rows.exact import check_shape
from prgd.solvers.joint_interior import solve_pairs
from prgd.solvers.matrix_program import solve_matrix_program
from prgd.solvers.terms import Solution, Terms

_FEW_TERMS = 256  # any method solves at most so many terms at once
_MANY_TERMS = 2**18  # more terms are never solved at once: their rows are copied
_MAX_OPERATIONS = 1e9  # operations of a step for which an interior point of our own takes all terms
_MANY_ENTRIES = 2**15  # linear programs with so many entries are solved by interior point and crossover
# Numbers that a program holds for each entry of w, measured.
_NUMBERS = {"cross-polytope": 187, "box": 76, "second-order cones": 198, "power cones": 379}
_HIGHS_TOLERANCE = 1e-10  # the smallest feasibility tolerance that HiGHS takes
_CLARABEL_TOLERANCE = 1e-10  # rounding keeps Clarabel from smaller ones
_SMALLEST_FACTOR = 2.0**-20  # entries of l1 above its inverse mean that the value is tiny against them
_SHORTEST = 1e-3  # seconds that a solver gets at least: it refuses others
# Clarabel sometimes ends after a few steps, far from the solution, and converges in other units: factors of
# the terms, and whether Clarabel equilibrates.
_ATTEMPTS = ((1.0, True), (1.0, False), (2.0**-7, True), (2.0**7, False))


def max_terms_at_once(norm: Norm, shape: tuple[int, ...]) -> int:
    """Return how many terms the method for a norm solves faster at once than by a working set."""
    if norm.program in ("box", "cross-polytope"):  # If columns are more than rows, most rows end in the set.
        return min(max(_FEW_TERMS, math.prod(shape)), _MANY_TERMS)
    is_matrix = _PROGRAMS[norm.program] is solve_matrix_program
    step = shape[1] ** 2 if norm == L2() and len(shape) == 2 else 2.0 * is_matrix * math.prod(shape) ** 2
    return max(_FEW_TERMS, min(int(_MAX_OPERATIONS / step), _MANY_TERMS)) if step else _FEW_TERMS


def solve_program(terms: Terms, norm: Norm, tol: float) -> Solution | None:
    """Return the largest smallest term over ``||w|| <= 1``, to about ``tol``; None if that fails."""
    # Of two classes jointly, the best rows of W are v and -v: norms that rotations do not change are
    # multiples of that of v in l2. A matrix of one column has one singular value, its length.
    is_l2 = norm == L2() or (terms.K == 2 and norm.is_rotation_invariant)
    is_l2 = is_l2 or (terms.X.shape[1] == 1 and norm.program in ("spectral", "nuclear"))
    if terms.minus is not None and is_l2:
        return _solve_joint_l2(terms, terms.minus, tol)
    if not norm.is_rotation_invariant:  # else programs have as many columns as rows, at most
        check_shape(terms.X.shape, _NUMBERS[norm.program] * math.prod(terms.shape[:-1]))
    return _PROGRAMS[norm.program](terms, norm, tol)


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


def solve_linear_program(terms: Terms, norm: Norm, tol: float = 0.0) -> Solution | None:
    """Return the largest smallest term over ``||w|| <= 1`` in l1 or l-infinity; None if HiGHS fails.

    The multipliers are weights p of sum 1 with ``B^T p = 0`` that minimise ``||A^T p||_*``. The simplex
    method ends in a vertex, and so does an interior point followed by a crossover: there both are accurate
    to rounding, whatever ``tol`` is. In l1 the smallest w with terms of at least 1, if there is one, takes
    less time than the largest gamma, whose column and whose ball couple all rows and columns, but only with
    entries of about 1: where the value is tiny against the entries, the largest gamma is more accurate.
    """
    from scipy.sparse import csr_array, hstack, vstack

    A, B, is_cross_polytope = terms.matrix, terms.intercepts, norm.program == "cross-polytope"
    (m, D), k = A.shape, B.shape[1]
    # In l1, w is a difference of two vectors that are not negative; the intercepts and gamma are free.
    parts, interval = ([-A, A], [0.0, np.inf]) if is_cross_polytope else ([-A], [-1.0, 1.0])
    size, limits = len(parts) * D, np.zeros(m)
    bounds = np.vstack([np.tile(interval, (size, 1)), np.tile([-np.inf, np.inf], (k + 1, 1))])
    rows, lengths = hstack([*parts, csr_array(-B)]), np.repeat([float(is_cross_polytope), 0.0], [size, k])
    factors, found = np.repeat([np.exp2(-np.frexp(np.abs(A.data).max(initial=0.0))[1]), 1.0], [size, k]), None
    if is_cross_polytope and factors.min() >= _SMALLEST_FACTOR:
        found = _highs(lengths, rows * factors, limits - 1.0, bounds[:-1])
    if found is None or not lengths @ found[0] > 0.0:
        rows, factors = hstack([rows, csr_array(np.ones((m, 1)))]), np.ones(size + k)
        if is_cross_polytope:
            rows, limits = vstack([rows, csr_array(np.append(lengths, 0.0)[None])]), np.append(limits, 1.0)
        found = _highs(-np.eye(1, size + k + 1, size + k)[0], rows, limits, bounds)
    if found is None:
        return None
    x, p = factors * found[0][: size + k], found[1][:m]
    x = x / (float(lengths @ x) or 1.0)
    w = x[:D] - x[D:size] if is_cross_polytope else x[:D]
    return terms.solution(w, x[size:], p / p.sum())


def _highs(cost: Array, rows: Any, limits: Array, bounds: Array) -> tuple[Array, Array] | None:
    """Return a vertex of least cost with ``rows x <= limits``, and its multipliers; None if that fails."""
    from scipy.optimize import linprog

    names = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
    options = dict.fromkeys(names, _HIGHS_TOLERANCE) | {"time_limit": max(time_left(), _SHORTEST)}
    for method in ("highs-ipm", "highs-ds")[int(rows.nnz < _MANY_ENTRIES) :]:
        found = cast(Any, linprog)(cost, rows, limits, bounds=bounds, method=method, options=options)
        check_time()
        if found.x is not None and np.isfinite(found.x).all():
            return found.x, -found.ineqlin.marginals
        if found.status == 2:  # no point is feasible
            break
    return None


class _Ball(NamedTuple):
    """The unit ball as ``limits - entries x`` in a product of cones, where x is w and further variables."""

    entries: Any
    limits: Array
    cones: list[Any]


def solve_cone_program(terms: Terms, norm: Norm, tol: float) -> Solution | None:
    """Return the largest smallest term over ``||w|| <= 1``, to about ``tol``; None if Clarabel fails.

    Entries of the terms should be of moderate size, and the value of the program not far below 1. The ball is
    written with cones that Clarabel knows. There is a w in the interior of the ball, and weights in the
    interior of the simplex, so that the program and its dual have solutions of the same value.

    Raises
    ------
    ModuleNotFoundError
        If Clarabel is not installed.
    """
    try:
        import clarabel
    except ImportError as error:
        raise missing_package(f"The largest margin in the norm {norm.name!r}", "clarabel", "cones") from error
    basis = None
    if norm.is_rotation_invariant:
        terms, basis = terms.in_row_space()
    A, B = terms.matrix, terms.intercepts
    entries, best = np.arange(math.prod(terms.shape)).reshape(terms.shape), None
    if isinstance(norm, Lp):
        ball = _power_ball(clarabel, norm.p, entries.size)
    else:
        ball = _group_ball(clarabel, norm.cone_groups(entries))
    for factor, equilibrates in _ATTEMPTS:
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_threads, settings.equilibrate_enable = False, 1, equilibrates
        settings.time_limit = max(time_left(), _SHORTEST)
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = max(tol, _CLARABEL_TOLERANCE)
        x, p, is_solved = _solve(clarabel, A * factor, B, ball, settings)
        check_time()
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
    found = clarabel.DefaultSolver(quadratic, cost, csc_matrix(constraints), limits, cones, settings).solve()
    return np.array(found.x), np.array(found.z)[:m], str(found.status) in ("Solved", "AlmostSolved")


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


_PROGRAMS: dict[str, Callable[[Terms, Norm, float], Solution | None]] = {
    "box": solve_linear_program,
    "cross-polytope": solve_linear_program,
    "second-order cones": solve_cone_program,
    "power cones": solve_cone_program,
    "spectral": solve_matrix_program,
    "nuclear": solve_matrix_program,
}
