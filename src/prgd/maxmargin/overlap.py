"""Proofs that no hyperplane separates, for solves in any norm: separability does not depend on the norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prgd.core.types import Array, Indices, Intercept
from prgd.problem import Problem
from prgd.problem.accurate_bounds import accurate_lower
from prgd.problem.certificate import Certificate, DualWeights
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.overlap import lifted_pairs
from prgd.running.history import Status
from prgd.separation.search import decide, decide_by_weights
from prgd.separation.verdict import Separation, Verdict

if TYPE_CHECKING:
    from prgd.solvers.term_set import TermSet

_MAX_ENTRIES = 2**26  # entries of the pairs about which a verdict is sought; of more, those of the set


def balancing_weights(found: Separation) -> DualWeights:
    """Return the dual weights that prove that no hyperplane separates the rows."""
    p = np.asarray(found.dual_weights)
    indices, exact = np.flatnonzero(p), found.proof.weights
    integers = None if exact is None else tuple(exact[i] for i in indices.tolist())
    return DualWeights(indices, p[indices], integers)


def status_of(found: Separation) -> Status:
    """Return the status of a solve for which no hyperplane separates."""
    is_quasi = found.verdict is Verdict.QUASI_SEPARABLE
    return Status.QUASI_SEPARABLE if is_quasi else Status.NOT_SEPARABLE


def prove_overlap(
    problem: Problem, working: TermSet, certificate: Certificate
) -> tuple[Status | None, Certificate]:
    """Prove that no hyperplane separates the classes, or find one that does.

    Returns
    -------
    status : Status or None
        None if no proof was found, or if the classes are separable.
    certificate : Certificate
        The one given, with what was found: weights of an upper bound of 0, or a hyperplane.
    """
    terms = _terms(problem, working)
    rows = LiftedRows.of(problem) if terms is None else lifted_pairs(problem, terms)
    found = _by_weights(rows, terms, certificate.dual_weights) or decide(rows)
    if found.dual_weights is not None:
        # Some of the pairs prove that no hyperplane separates, never that one has no row on its wrong side.
        is_whole = terms is None or terms.size == working.all_terms().size
        weights = balancing_weights(found)
        if terms is not None:
            weights = _of_pairs(problem, weights, terms)
        status = status_of(found) if is_whole else Status.NOT_SEPARABLE
        return status, certificate.with_upper(0.0, weights)
    if found.verdict is Verdict.SEPARABLE and found.coef is not None:
        hyperplane: tuple[Array, Intercept] = found.coef, found.intercept
        if terms is not None:
            hyperplane = _joint_hyperplane(problem, found.coef)
        certificate = certificate.with_lower(*accurate_lower(problem, *hyperplane))
    return None, certificate


def _terms(problem: Problem, working: TermSet) -> Indices | None:
    """Return the pairs about which a verdict is sought: all, or those of the set; None for two classes."""
    if not problem.is_joint:
        return None
    if 2 * working.n_terms * problem.d <= _MAX_ENTRIES:
        return working.all_terms()
    return np.sort(working.indices)


def _by_weights(rows: LiftedRows, terms: Indices | None, weights: DualWeights | None) -> Separation | None:
    """Return the verdict that the weights of the solve prove."""
    if weights is None:
        return None
    at = weights.indices if terms is None else np.searchsorted(terms, weights.indices)
    return decide_by_weights(rows, DualWeights(at, weights.values, weights.integers))


def _of_pairs(problem: Problem, weights: DualWeights, terms: Indices) -> DualWeights:
    """Return weights of the rows of `lifted_pairs` as those of pairs."""
    pairs = terms[weights.indices]
    if weights.integers is not None:
        return DualWeights(pairs, weights.values / weights.values.sum(), weights.integers)
    return DualWeights.normalized(problem, pairs, weights.values)


def _joint_hyperplane(problem: Problem, v: Array) -> tuple[Array, Array]:
    """Return W and intercepts from a direction in the columns of `lifted_pairs`; the last class has zeros."""
    K, d = problem.shape
    W, b = np.zeros((K, d)), np.zeros(K)
    W[:-1] = v[: (K - 1) * d].reshape(K - 1, d)
    if problem.fit_intercept:
        b[:-1] = v[(K - 1) * d :]
    return W, b
