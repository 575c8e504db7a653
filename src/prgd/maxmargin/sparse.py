"""A solve for all sparse rows at once, before the moves on a working set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prgd.norms import norm
from prgd.running.history import Status
from prgd.solvers.coordinate_descent import row_weights
from prgd.solvers.working_set import WorkingSet

if TYPE_CHECKING:
    from prgd.maxmargin.moves import SolverState


def solve_by_rows(state: SolverState) -> Status | None:
    """Find weights by coordinate descent and certify them; None if a working set must go on from there.

    The rows that carry weight become the working set of the state, without their Gram matrix.
    """
    found = row_weights(state.problem, state.tol, state.max_passes)
    if found is None:
        return None
    state.passes += found.passes
    state.working, state.p = WorkingSet(state.problem, state.threads), found.p
    state.working.add(found.indices)
    state.u = state.working.combine(state.p) / state.working.groups
    upper = norm(state.u)
    state.bounds.above(state.working, state.p, upper)
    if not upper > 0.0:
        return None
    state.certify(upper)
    return state.end_of_solve()
