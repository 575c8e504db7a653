"""Proofs that no hyperplane separates, for solves in any norm: separability does not depend on the norm."""

from fractions import Fraction

import numpy as np

from prgd.core.threads import check_time
from prgd.core.types import Array, Indices, Intercept
from prgd.maxmargin.solve import Solve
from prgd.norms import L2
from prgd.problem import Problem
from prgd.problem.accurate_bounds import accurate_lower
from prgd.problem.certificate import DualWeights
from prgd.proofs.hyperplanes import lifted_pairs
from prgd.proofs.lifted_rows import LiftedRows
from prgd.running.history import Status
from prgd.separation.search import decide, decide_by_weights
from prgd.separation.verdict import INTERRUPTED, Separation, Verdict
from prgd.solvers.terms import TermSet
from prgd.solvers.working_set import ZERO_MARGIN

_MAX_ENTRIES = 2**26  # entries of the pairs about which a verdict is sought; of more, those of the set


def prove_overlap(solve: Solve, working: TermSet | None = None, by_search: bool = True) -> Status | None:
    """Prove that no hyperplane separates the classes, or find one that does, which `solve` keeps.

    The weights of the solve prove it, or the search of `prgd.separability` decides. ``working`` is the set of
    a joint problem.

    Returns
    -------
    Status or None
        None if no proof was found, or if the classes are separable.
    """
    problem = solve.problem
    pairs: Indices | None = None
    if working is not None and problem.is_joint:
        is_small = 2 * working.n_terms * problem.d <= _MAX_ENTRIES
        pairs = working.all_terms() if is_small else np.sort(working.indices)
    rows = LiftedRows.of(problem) if pairs is None else lifted_pairs(problem, pairs)
    found = _by_weights(solve, rows, pairs)
    if found is None and by_search:
        found = decide(rows)
    if found is None:
        return None
    if found.dual_weights is not None:
        # Some of the pairs prove that no hyperplane separates, never that one has no row on its wrong side.
        is_whole = pairs is None or working is None or pairs.size == working.all_terms().size
        is_quasi = is_whole and found.verdict is Verdict.QUASI_SEPARABLE
        solve.overlap(_balancing_weights(problem, found, pairs))
        return Status.QUASI_SEPARABLE if is_quasi else Status.NOT_SEPARABLE
    if found.verdict is Verdict.SEPARABLE and found.coef is not None:
        if problem.is_joint or problem.norm != L2():
            hyperplane: tuple[Array, Intercept] = found.coef, found.intercept
            if pairs is not None:
                hyperplane = _joint_hyperplane(problem, found.coef)
            solve.separate(*accurate_lower(problem, *hyperplane))
            return None
        exact = found.proof.direction
        if exact is None and found.margin == 0.0:  # the margin is positive, and below the floating range
            exact = tuple(Fraction(float(v)) for v in [*found.coef, found.intercept][: rows.width])
        solve.separate(found.margin, found.coef, found.intercept, exact)
    elif found.how == INTERRUPTED:
        check_time()
        raise KeyboardInterrupt  # `decide` returns after Ctrl-C, but the solve must end
    return None


def _by_weights(solve: Solve, rows: LiftedRows, pairs: Indices | None) -> Separation | None:
    """Return the verdict that the weights of the solve prove, if they nearly balance the rows."""
    weights, problem = solve.certificate.dual_weights, solve.problem
    largest = problem.max_norm * problem.norm.dual_ratio(problem.shape)
    if weights is None or solve.certificate.upper > ZERO_MARGIN * largest:
        return None
    at = weights.indices if pairs is None else np.searchsorted(pairs, weights.indices)
    return decide_by_weights(rows, DualWeights(at, weights.values, weights.integers))


def _balancing_weights(problem: Problem, found: Separation, pairs: Indices | None) -> DualWeights:
    """Return the dual weights of rows, or of pairs, that prove that no hyperplane separates them."""
    p = np.asarray(found.dual_weights)
    indices, exact = np.flatnonzero(p), found.proof.weights
    integers = None if exact is None else tuple(exact[i] for i in indices.tolist())
    if pairs is None:
        return DualWeights(indices, p[indices], integers)
    if integers is not None:
        return DualWeights(pairs[indices], p[indices] / p[indices].sum(), integers)
    return DualWeights.normalized(problem, pairs[indices], p[indices])


def _joint_hyperplane(problem: Problem, v: Array) -> tuple[Array, Array]:
    """Return W and intercepts from a direction in the columns of `lifted_pairs`; the last class has zeros."""
    K, d = problem.shape
    W, b = np.zeros((K, d)), np.zeros(K)
    W[:-1] = v[: (K - 1) * d].reshape(K - 1, d)
    if problem.fit_intercept:
        b[:-1] = v[(K - 1) * d :]
    return W, b
