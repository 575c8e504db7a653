"""The proof that no hyperplane separates the rows of a problem, from weights that nearly balance them."""

from __future__ import annotations

import numpy as np

from prgd.core.arithmetic import EPSILON
from prgd.core.types import Indices
from prgd.problem import Problem
from prgd.problem.certificate import DualWeights
from prgd.proofs.column_relations import ColumnStructure, column_structure
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.weights import prove_integer_weights, prove_weights
from prgd.rows.blocks import pair_rows


def proves_overlap(problem: Problem, weights: DualWeights) -> bool:
    """Say whether weights near these balance the rows exactly, so that gamma_star is at most 0.

    False means that no proof was found: there may be none, or it is too expensive.
    """
    if problem.is_joint:
        rows = lifted_pairs(problem, weights.indices)
        weights = DualWeights(np.arange(weights.indices.size), weights.values, weights.integers)
    else:
        rows = LiftedRows.of(problem)
    p = weights.values
    if weights.integers is not None:
        known = _structure(rows, weights.indices)
        if known is None:
            return False
        return prove_integer_weights(rows, weights.indices, weights.integers, known.relations) is not None
    # Weights below rounding may be zero in truth, and must be if the others balance alone.
    for level in (0.0, EPSILON):
        kept = np.flatnonzero(p > level * p.max(initial=0.0))
        known = _structure(rows, weights.indices[kept])
        if known is not None and prove_weights(rows, weights.indices[kept], p[kept], known) is not None:
            return True
    return False


def lifted_pairs(problem: Problem, pairs: Indices) -> LiftedRows:
    """Return the rows ``(x_i, 1) (x) (e_y - e_j)`` of ascending pairs of a joint problem, exactly.

    The columns are those of W row by row, followed by the intercepts if there are some. Those of the last
    class are left out, since only differences between classes have margins.
    """
    from scipy.sparse import csr_array, hstack

    K, d = problem.shape
    rows, at = np.unique(pairs // K, return_inverse=True)
    own, other = problem.labels.pair_classes(pairs)
    X = csr_array(problem.rows.take(rows))[at]
    Z = pair_rows(X, own, other, K)[:, : (K - 1) * d]
    if problem.fit_intercept:
        ones = pair_rows(np.ones((pairs.size, 1)), own, other, K)
        Z = hstack([Z, ones[:, : K - 1]], format="csr")
    return LiftedRows(csr_array(Z), None, fit_intercept=False)


def overlap_in_words(n_rows: int, fit_intercept: bool) -> str:
    """Return in words how weights on some rows prove that no hyperplane separates the classes."""
    balance = "give both classes the same weighted mean" if fit_intercept else "average y_i x_i to zero"
    kind = "hyperplane" if fit_intercept else "hyperplane through the origin"
    return f"positive weights on {n_rows} rows {balance}, so no {kind} lies between the classes"


def _structure(rows: LiftedRows, inside: Indices) -> ColumnStructure | None:
    """Return how the columns of the rows that carry weight depend on each other; None if these are many."""
    return column_structure(rows, inside) if inside.size and rows.fits_dense(4 * inside.size) else None
