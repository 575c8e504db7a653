"""Largest margins in any norm, of two classes or of all classes jointly: programs on a growing set of terms.

A term is a row of two classes, or a pair of a row and another class. `TermSolver` begins with the terms of
smallest margin along the means of the classes, and solves the program of the set: a linear one in l1 and
l-infinity, a quadratic one in l2, a cone program in other norms. One pass then finds the terms of all rows
that violate the margin of the solution. They join, and the set is solved again until the gap is certified:
the weights of the set bound ``gamma_star`` from above, and the pass bounds it from below.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from prgd.core.arithmetic import EPSILON
from prgd.core.threads import single_blas
from prgd.core.types import Array, Indices, Intercept
from prgd.maxmargin.bounds import Round, result_of_rounds
from prgd.maxmargin.overlap import prove_overlap
from prgd.norms import L2, moderate, norm
from prgd.problem import Problem
from prgd.problem.accurate_bounds import accurate_lower, accurate_margin, accurate_upper
from prgd.problem.certificate import Certificate, DualWeights, margin_error, plain_lower
from prgd.running.history import Status
from prgd.running.result import Result
from prgd.solvers.programs import max_terms_at_once, solve_program
from prgd.solvers.term_set import TermSet
from prgd.solvers.terms import Solution

_MIN_FIRST_TERMS, _MAX_FIRST_TERMS = 128, 1024  # terms that start the set
_MIN_NEW_TERMS = 64  # terms that join in a round, at least
_MAX_TERMS = 20_000  # above, terms leave that carry little weight
_SMALL_WEIGHT = 1e-6  # fraction of the heaviest weight below which a weight is little
_PATIENCE = 12  # rounds without progress that end a solve
_MIN_PROGRESS = 1e-3  # relative decrease of the gap that counts as progress
_FIRST_TOLERANCE = 1e-3  # tolerance of the first program, relative to its value
_LOOSE = 0.02  # programs of a growing set are solved to this fraction of the gap
_SHRINK = 0.3  # the tolerance of programs of a growing set falls at least by this factor
_FINAL = 0.05  # the last program is solved to this fraction of the tolerance
_LAST = 1e-3  # the smallest fraction of the tolerance to which a program is solved if that was not enough
_ROUNDING = 0.05  # rounding may take this fraction of the tolerance; else products are compensated
_ZERO = 1e-9  # a value below this fraction of the largest entry may be zero
_ROOM = 2.0**-40  # fraction of the largest entry by which a bound at or below 0 is lowered
_IDLE = 1e-13  # weights below this fraction of the heaviest are left out
_IDLE_LEVELS = (1e-2, 1e-3, 1e-4, 1e-6, 1e-8)  # the same for the result: the first that the gap allows


def solve_terms(
    problem: Problem, w0: Array | None, tol: float, max_passes: int, tell: Callable[[Round], None]
) -> Result:
    """Return the largest margin in the norm of a problem, of two classes or of all classes jointly."""
    state = TermSolver(problem, tol, max_passes, tell)
    try:
        with single_blas():
            state.choose_terms(w0)
            status = state.run()
        if status is Status.STALLED and state.certificate.lower <= 0.0:
            proven, state.certificate = prove_overlap(problem, state.working, state.certificate)
            status = proven or status
            if proven is None and state.certificate.lower > 0.0:  # the margin is positive, and tiny
                with single_blas():
                    status = state.end_of_solve() or state.run()
    except KeyboardInterrupt:
        if state.certificate.w is None or state.certificate.dual_weights is None:
            raise  # there is no interval to return
        status = Status.INTERRUPTED
    return state.result(status)


class _Outside(NamedTuple):
    """Terms outside the set of smallest margin, at the best intercept, and the norm of w."""

    indices: Indices
    margins: Array
    length: float


@dataclass(eq=False)
class TermSolver:
    """The state of a solve in any norm; its methods are the moves that the docstring of the module describes.

    Attributes
    ----------
    certificate : Certificate
        The proven bounds, with their witnesses.
    set_tol, final_tol : float
        The relative tolerance of the next program, and the value to which it falls with the gap.
    """

    problem: Problem
    tol: float
    max_passes: int
    tell: Callable[[Round], None]
    certificate: Certificate = field(default_factory=Certificate)
    passes: float = 0.0
    rounds: list[Round] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    working: TermSet = field(init=False)
    set_tol: float = _FIRST_TOLERANCE
    final_tol: float = field(init=False)

    def __post_init__(self) -> None:
        # A gap of 1 or more proves no positive margin: classes that overlap must not be certified.
        self.tol = min(self.tol, 1.0 - EPSILON)
        self.final_tol = _FINAL * self.tol
        self.working = TermSet(self.problem)

    def run(self) -> Status:
        """Make the moves until one of them ends the solve."""
        while True:
            found = self.solve_set()
            if found is None or self.has_vanished():
                return Status.STALLED
            outside = self.bound_below(found)
            if (status := self.end_of_solve() or self.grow(outside, found.p)) is not None:
                return status

    def choose_terms(self, w: Array | None) -> None:
        """Start the set with all terms if they are few, else with those of smallest margin."""
        problem = self.problem
        if self.working.n_terms <= max_terms_at_once(problem.norm, problem.shape):
            self.working.add(self.working.all_terms())
            self.set_tol = self.final_tol
            return
        if w is None:
            w = self._first_direction()
            self.passes += 1
        w = moderate(w) if norm(w) > 0.0 else np.ones(problem.shape)
        count = min(max(_MIN_FIRST_TERMS, 2 * w.size), _MAX_FIRST_TERMS)
        smallest = problem.smallest(w, self._per_group(count))
        self.passes += 1
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
        return _mean_term(problem)

    def _per_group(self, count: int) -> int:
        """Return how many terms of each group are asked for, if about ``count`` may join in all."""
        K = self.working.K
        groups = 1 if not self.problem.fit_intercept else 2 if K == 1 else K * (K - 1)
        return -(-count // groups)

    def has_vanished(self) -> bool:
        """Say whether the terms of the set have no positive margin, up to rounding, and none is proven."""
        return self.certificate.lower <= 0.0 and (
            self.certificate.upper <= _ZERO * self.working.largest_entry
        )

    def solve_set(self) -> Solution | None:
        """Solve the program of the set, in units of the data, and bound gamma_star by its weights."""
        value = self.certificate.upper
        found = solve_program(self.working.terms(value), self.problem.norm, self.set_tol)
        if found is None or not norm(found.w) > 0.0:
            return None
        order = np.argsort(self.working.indices)
        carried = order[found.p[order] > _IDLE * found.p.max(initial=0.0)]
        weights = _normalized(self.problem, self.working.indices[carried], found.p[carried])
        if weights is None:
            return None
        self.certificate = self.certificate.with_upper(accurate_upper(self.problem, weights), weights)
        return self.working.in_data_units(found, value)

    def bound_below(self, found: Solution) -> _Outside:
        """Measure the solution by one pass over all rows, and keep its margin if it is the largest so far."""
        problem, w = self.problem, found.w
        count = max(_MIN_NEW_TERMS, int(np.count_nonzero(found.p > EPSILON)))
        length = problem.norm(w)
        is_rough = margin_error(problem, problem.coding.reach(w)) > self._allowed(length)
        near = None
        if is_rough:
            near = found.intercept if problem.is_joint else float(found.intercept[0])
        smallest = problem.smallest(w, self._per_group(count), self.working.indices, near)
        bounds = [group.smallest for group in smallest]
        margin, shift = problem.coding.best(bounds)
        if near is None:
            lower = plain_lower(problem, w, margin, shift), w, shift
        else:
            lower = accurate_margin(problem, bounds, w, near)
        self.certificate = self.certificate.with_lower(*lower)
        self.passes += 1 + self.working.size / self.working.n_terms
        c, seconds = self.certificate, time.perf_counter() - self.started
        self.rounds.append(Round(self.passes, c.lower, c.upper, c.gap, self.working.size, seconds))
        self.tell(self.rounds[-1])
        margins = [group.margins + s for group, s in zip(smallest, self._shifts(shift), strict=True)]
        indices = np.concatenate([group.indices for group in smallest])
        return _Outside(indices, np.concatenate(margins), length)

    def _allowed(self, length: float) -> float:
        """Return the error of a margin that the tolerance allows."""
        return _ROUNDING * self.tol * self.certificate.upper * length

    def _shifts(self, b: Intercept) -> list[float]:
        """Return what the intercept adds to the margins of each group."""
        if not self.problem.fit_intercept:
            return [0.0]
        if not self.problem.is_joint:
            return [float(b), -float(b)]
        b = np.asarray(b)
        shifts: list[float] = (b[:, None] - b).ravel().tolist()
        return shifts

    def end_of_solve(self) -> Status | None:
        """Return why the solve ends after this round, or None."""
        gap, rounds = self.certificate.gap, self.rounds
        if gap <= self.tol:
            return Status.CERTIFIED
        if self.passes >= self.max_passes:
            return Status.MAX_PASSES
        # The negation holds while the gap is infinite, too.
        is_stalled = len(rounds) > _PATIENCE and not gap < (1.0 - _MIN_PROGRESS) * rounds[-1 - _PATIENCE].gap
        return Status.STALLED if is_stalled else None

    def grow(self, outside: _Outside, p: Array) -> Status | None:
        """Let the terms join that violate the bound of the set, or tighten the tolerance if none does."""
        level = (1.0 - 0.5 * self.tol) * self.certificate.upper * outside.length
        joining = outside.indices[outside.margins < level]
        if joining.size:
            if self.working.size + joining.size > _MAX_TERMS:
                self.working.keep(p > _SMALL_WEIGHT * p.max())
            self.working.add(joining)
            # A tolerance that never grows brings the bound down also if it begins far above a tiny margin.
            loose = min(_LOOSE * self.certificate.gap, _SHRINK * self.set_tol)
            self.set_tol = max(self.final_tol, loose)
        elif self.set_tol > self.final_tol:
            # No term outside the set violates its bound, so the set must be solved more exactly.
            self.set_tol = self.final_tol
        elif self.set_tol > _LAST * self.final_tol:
            self.set_tol *= 0.1
        else:
            return Status.STALLED
        return None

    def result(self, status: Status) -> Result:
        """Return the outcome."""
        c = self._without_idle_weights()
        if c.w is None or c.lower <= 0.0:
            c = self._negative_margin(c)
        algorithm = f"max_margin(tol={self.tol!r})"
        return result_of_rounds(self.problem, status, c, self.rounds, self.passes, algorithm)

    def _negative_margin(self, c: Certificate) -> Certificate:
        """Return the certificate with the margin of its w, or of the mean term, by compensated products.

        A margin near zero has no relative accuracy: the bound leaves room for the rounding of the intercepts.
        """
        problem, w, b = self.problem, c.w, c.intercept
        if w is None:
            w, b = _mean_term(problem), np.zeros(self.working.K) if problem.is_joint else 0.0
            w = moderate(w) if norm(w) > 0.0 else np.eye(1, w.size)[0].reshape(w.shape)
            self.passes += 1
        lower, w, b = accurate_lower(problem, w, b)
        self.passes += 1
        return replace(c, lower=lower - _ROOM * self.working.largest_entry, w=w, intercept=b)

    def _without_idle_weights(self) -> Certificate:
        """Return the certificate without weights so small that the certified gap does not need them.

        An interior point leaves some weight on every term.
        """
        c, weights = self.certificate, self.certificate.dual_weights
        if weights is None or not c.gap <= self.tol:
            return c
        for level in _IDLE_LEVELS:
            kept = weights.values > level * weights.values.max()
            fewer = _normalized(self.problem, weights.indices[kept], weights.values[kept])
            if fewer is not None and not kept.all():
                shorter = replace(c, upper=accurate_upper(self.problem, fewer), dual_weights=fewer)
                if shorter.gap <= self.tol:
                    return shorter
        return c


def _normalized(problem: Problem, terms: Indices, p: Array) -> DualWeights | None:
    """Return weights of ascending terms on the simplex; None if they lack a class that must carry weight."""
    is_two = problem.fit_intercept and not problem.is_joint
    if not terms.size or (is_two and np.unique(problem.labels.at(terms)).size < 2):
        return None
    try:
        return DualWeights.normalized(problem, terms, p)
    except ValueError:  # these pairs cannot balance
        return None


def _mean_term(problem: Problem) -> Array:
    """Return the mean of all terms; with intercepts, the sum of the means of groups."""
    w = np.zeros(problem.shape)
    query = replace(problem.coding.tally_at(w, problem.loss), is_repeated=False)  # type: ignore[type-var]
    return problem.coding.evaluation(problem, w, problem.ask(query)).dual_vector
