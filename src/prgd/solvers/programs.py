"""The program of a norm: which method maximises the smallest of some terms over the unit ball."""

from __future__ import annotations

from prgd.norms import Norm
from prgd.solvers.cone_program import solve_cone_program
from prgd.solvers.linear_program import solve_linear_program
from prgd.solvers.terms import Solution, Terms


def solve_program(terms: Terms, norm: Norm, tol: float) -> Solution | None:
    """Return the largest smallest term over ``||w|| <= 1``, to about ``tol``; None if that fails."""
    if norm.name in ("l1", "linf"):
        return solve_linear_program(terms, norm.name)
    return solve_cone_program(terms, norm.name, tol)
