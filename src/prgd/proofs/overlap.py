"""The proof that no hyperplane separates the rows of a problem, from dual weights that nearly balance them."""

from __future__ import annotations

import numpy as np

from prgd.certificate import DualWeights
from prgd.problem import Problem
from prgd.proofs.column_relations import column_structure
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.weights import prove_integer_weights, prove_weights


def proves_overlap(problem: Problem, weights: DualWeights) -> bool:
    """Say whether weights near these balance the rows exactly, so that gamma_star is at most 0.

    False means that no proof was found: there may be none, or it is too expensive.
    """
    rows, p = LiftedRows(problem.rows, None, fit_intercept=problem.fit_intercept), weights.values
    # Weights below rounding may be zero in truth, and must be if the others balance alone.
    for level in (0.0, 2.0**-52):
        kept = np.flatnonzero(p > level * p.max(initial=0.0))
        inside = weights.indices[kept]
        if not inside.size or not rows.fits_dense(4 * inside.size):
            return False
        known = column_structure(rows, inside)
        if known is None:
            return False
        if weights.integers is not None:
            integers = [weights.integers[k] for k in kept.tolist()]
            if prove_integer_weights(rows, inside, integers, known.relations) is not None:
                return True
        elif prove_weights(rows, inside, p[kept], known) is not None:
            return True
    return False
