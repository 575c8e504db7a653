"""Largest margins in any norm, of two classes or of all classes jointly: programs on a growing set of terms.

A term is a row of two classes, or a pair of a row and another class. `AnyNorm` begins with the terms of
smallest margin along the means of the classes, and solves the program of the set: a linear one in l1 and
l-infinity, a quadratic one in l2, a cone program in other norms. One pass then finds the terms of all rows
that violate the margin of the solution. They join, and the set is solved again until the gap is certified:
the weights of the set bound ``gamma_star`` from above, and the pass bounds it from below.
"""

import math

import numpy as np

from prgd.core.arithmetic import EPSILON, times_power
from prgd.core.threads import single_blas
from prgd.core.types import Array
from prgd.maxmargin.exactly import prove_exactly
from prgd.maxmargin.solve import RoundProposal, Solve
from prgd.norms import L2, moderate, norm
from prgd.rows.queries import Smallest
from prgd.running.history import Status
from prgd.solvers.programs import max_terms_at_once, solve_program
from prgd.solvers.terms import TermSet, mean_term, violators

_MIN_FIRST_TERMS, _MAX_FIRST_TERMS = 128, 1024  # terms that start the set
_MIN_NEW_TERMS = 64  # terms that join in a round, at least
_MAX_TERMS = 20_000  # above, terms leave that carry little weight
_SMALL_WEIGHT = 1e-6  # fraction of the heaviest weight below which a weight is little
_FIRST_TOLERANCE = 1e-3  # tolerance of the first program, relative to its value
_LOOSE = 0.02  # programs of a growing set are solved to this fraction of the gap
_SHRINK = 0.3  # the tolerance of programs of a growing set falls at least by this factor
_FINAL = 0.05  # the last program is solved to this fraction of the tolerance
_LAST = 1e-3  # the smallest fraction of the tolerance to which a program is solved if that was not enough
_ZERO = 1e-9  # a value below this fraction of the largest entry may be zero
_IDLE = 1e-13  # weights below this fraction of the heaviest are left out


def solve_any_norm(solve: Solve, w0: Array | None) -> Status:
    """Find the largest margin in the norm of a problem, of two classes or of all classes jointly."""
    method = AnyNorm(solve)
    with single_blas():
        method.choose_terms(w0)
        status = solve.repeat(method)
    return prove_exactly(solve, method.working, method) if status is Status.STALLED else status


class AnyNorm:
    """A set of terms and its program; the docstring of the module says how it grows.

    Attributes
    ----------
    set_tol, final_tol : float
        The relative tolerance of the next program, and the value to which it falls with the gap.
    """

    patience = 12  # rounds without progress that end a solve

    def __init__(self, solve: Solve) -> None:
        self.solve, self.problem, self.working = solve, solve.problem, TermSet(solve.problem)
        self.set_tol, self.final_tol = _FIRST_TOLERANCE, _FINAL * solve.tol

    def choose_terms(self, w: Array | None) -> None:
        """Start the set with all terms if they are few, else with those of smallest margin."""
        problem = self.problem
        if self.working.n_terms <= max_terms_at_once(problem.norm, problem.shape):
            self.working.add(self.working.all_terms())
            self.set_tol = self.final_tol
            return
        if w is None:
            w = self._first_direction()
            self.solve.count(1.0)
        w = moderate(w) if norm(w) > 0.0 else np.ones(problem.shape)
        count = min(max(_MIN_FIRST_TERMS, 2 * w.size), _MAX_FIRST_TERMS)
        smallest = problem.smallest(w, self._per_group(count))
        self.solve.count(1.0)
        self.working.add(np.concatenate([group.indices for group in smallest]))

    def _first_direction(self) -> Array:
        """Return the W of largest margin in l2 if it is quickly found, else the mean term."""
        problem = self.problem
        if problem.is_joint and self.working.n_terms <= max_terms_at_once(L2(), problem.shape):
            every = TermSet(problem)
            every.add(every.all_terms())
            found = solve_program(every.terms(math.inf), L2(), _FIRST_TOLERANCE)
            if found is not None:
                return found.w
        return mean_term(problem)

    def _per_group(self, count: int) -> int:
        """Return how many terms of each group are asked for, if about ``count`` may join in all."""
        K = self.working.K
        groups = 1 if not self.problem.fit_intercept else 2 if K == 1 else K * (K - 1)
        return -(-count // groups)

    def propose(self) -> RoundProposal | None:
        """Solve the program of the set, in units of the data."""
        solve, working, value = self.solve, self.working, math.inf
        while True:
            before, value = value, solve.certificate.upper
            found = solve_program(working.terms(value), self.problem.norm, self.set_tol)
            if found is None or (value == before < math.inf):
                return None
            p = np.where(found.p > _IDLE * found.p.max(initial=0.0), found.p, 0.0)
            if norm(found.w) > 0.0:
                break
            # A margin below the tolerance of the program is no zero: its weights tell how small it may be.
            if not solve.bound(working, RoundProposal(None, 0, 0.0, p)):
                return None
        w, b, _ = working.in_data_units(found, value)
        count = self._per_group(max(_MIN_NEW_TERMS, int(np.count_nonzero(p > EPSILON))))
        return RoundProposal(w, count, b if self.problem.is_joint else float(b[0]), p, is_spread=True)

    def learn(self, found: RoundProposal, smallest: tuple[Smallest, ...]) -> Status | None:
        """Let the terms join that violate the bound of the set, or tighten the tolerance if none does."""
        c, p, w = self.solve.certificate, np.asarray(found.p), np.asarray(found.w)
        if c.lower <= 0.0 and c.upper <= times_power(_ZERO, self.working.exponent):
            return Status.STALLED  # the terms of the set have no positive margin, up to rounding
        level = (1.0 - 0.5 * self.solve.tol) * c.upper * self.problem.norm(w)
        joining = violators(self.problem, smallest, level, self.working.n_terms)
        if joining.size:
            if self.working.size + joining.size > _MAX_TERMS:
                self.working.keep(p > _SMALL_WEIGHT * p.max())
            self.working.add(joining)
            # A tolerance that never grows brings the bound down also if it begins far above a tiny margin.
            self.set_tol = max(self.final_tol, min(_LOOSE * c.gap, _SHRINK * self.set_tol))
        elif self.set_tol > self.final_tol:
            # No term outside the set violates its bound, so the set must be solved more exactly.
            self.set_tol = self.final_tol
        elif self.set_tol > _LAST * self.final_tol:
            self.set_tol *= 0.1
        else:
            return Status.STALLED
        return None
