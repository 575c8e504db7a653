"""The search for a verdict on separability: its stages, from single passes to exact arithmetic.

Each stage proposes a direction or a partition of the rows, and `prgd.proofs` decides. The stages are, in this
order: rows that cancel and single features (`first_checks`), an exact simplex method if entries are few, some
steps of dual acceleration, and an interior point on all rows or on growing sets of them (`proposals`). If
these fail, dual acceleration on scaled rows, linear programming and an exact simplex method follow.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from prgd.algorithms import DualAcceleration
from prgd.algorithms.base import State
from prgd.core.arithmetic import SMALLEST, nearest_floats, rounding_factor, shortened
from prgd.core.errors import ZeroRowWarning
from prgd.core.types import Array, Indices, RationalVector
from prgd.norms import norm
from prgd.problem.certificate import Certificate, DualWeights
from prgd.problem.problem import NO_ROWS, Problem
from prgd.proofs.column_relations import ColumnStructure, column_structure, rows_obeying
from prgd.proofs.directions import margin_below, separates, smallest_margin
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.power_scaling import balance_sparse
from prgd.proofs.weights import Proof, prove_integer_weights, prove_weights, weights_prove
from prgd.running.history import Record, Status, any_of
from prgd.running.loop import run
from prgd.running.progress import tell_stage
from prgd.separation import proposals
from prgd.separation.proposals import (
    CLEAR,
    Found,
    LinearProgram,
    Proposal,
    coarse_direction,
    find_cancelling_rows,
    fits_interior_point,
    propose_by_interior_point,
    propose_exactly,
    scan_features,
)
from prgd.separation.verdict import INTERRUPTED, Separation, Verdict

SMALL_ENTRIES = 600  # a matrix with at most so many entries goes to exact arithmetic at once
PROGRAM_ENTRIES = 500_000  # above so many entries linear programming starts from some of the rows
MAX_ROUNDS = 30  # times that linear programming may ask for more rows
MAX_ZOOMS = 3  # times that linear programming may zoom in on the boundary
PLAIN_STEPS, MAX_STEPS = 150, 3000  # steps of dual acceleration on the rows as given, and on scaled rows
STEP_ENTRIES = 2e10  # entries that dual acceleration may read on scaled rows
MANY_ROWS = 400  # rows for each column above which the interior point starts from some of the rows
FEW_STEPS = 32  # steps of dual acceleration on the rows as given, if the interior point may take all rows
TRIAL_STEPS = (32, 128)  # steps after which a partition may be sought on a few of the rows
_DENSE_FRACTION = 0.3  # a scaled copy with a larger fraction of non-zeros is stored as a dense array
_MODERATE = 1e150  # row norms between 1/_MODERATE and _MODERATE have squares in the floating range


class Search:
    """The stages in their order, and what is known so far."""

    def __init__(self, rows: LiftedRows) -> None:
        self.rows = rows
        self.certificate = Certificate(lower=0.0 - rows.max_norm)
        self.not_strict: Found | None = None  # weights that rule out strict separation
        self.hardness = np.zeros(rows.n)  # rows of small margin, or large weight, have small numbers
        self.ranges = np.ones(rows.d)
        self.program = LinearProgram(rows)

    def find_proof(self) -> Found | None:
        """Return the first verdict that is proven; None if every stage fails."""
        rows = self.rows
        everything = rows.counted
        self.not_strict = find_cancelling_rows(rows)
        if (found := self._by_one_feature()) is not None:
            return found
        is_small = rows.n * rows.width <= SMALL_ENTRIES
        if is_small and (found := self._grow(self._exactly, everything)) is not None:
            return found
        fits = fits_interior_point(rows, everything.size)
        # A few steps separate easy rows; for the others an interior point is quicker than many steps.
        plain_steps = FEW_STEPS if fits else PLAIN_STEPS
        if self.not_strict is None and (found := self._by_plain_steps(plain_steps)) is not None:
            return found
        # A partition that some of very many rows show is proven with few weights, which is quick to check.
        starts = [everything] if fits else []
        if not fits or everything.size > MANY_ROWS * rows.width:
            starts.insert(0, self._hard_rows(6))
        tell_stage("interior point")
        for start in starts:
            for propose in (self._early, self._late):
                if (found := self._grow(propose, start)) is not None:
                    return found
        if self.not_strict is None and (found := self._by_scaled_steps()) is not None:
            return found
        tell_stage("linear programming")
        start = everything if rows.n * rows.width <= PROGRAM_ENTRIES else self._hard_rows(6)
        for _ in range(MAX_ZOOMS):
            if (found := self._grow(self.program.propose, start)) is not None:
                return found
            if not self.program.zoom():
                break
        return self._grow(self._exactly, start if start.size <= 6 * rows.width else self._hard_rows(6))

    def by_weights(self, weights: DualWeights) -> Found | None:
        """Prove by weights that the maximum-margin solver found that no hyperplane separates."""
        if not weights.indices.size or not self.rows.fits_dense(weights.indices.size):
            return None
        p = list(weights.integers) if weights.integers is not None else weights.values
        everywhere, source = np.ones(weights.indices.size, bool), "Found by the maximum-margin solver"
        outcome = self._prove_partition(
            Proposal(weights.indices, everywhere, p, np.zeros(self.rows.width), source)
        )
        return outcome if isinstance(outcome, Found) else None

    def _early(self, index: Indices) -> Proposal | None:
        return propose_by_interior_point(self.rows, index, CLEAR)

    def _late(self, index: Indices) -> Proposal | None:
        return propose_by_interior_point(self.rows, index, 0.0)

    def _exactly(self, index: Indices) -> Proposal | None:
        return propose_exactly(self.rows, index, self.hardness)

    def _by_one_feature(self) -> Found | None:
        """Measure the range of each feature, and prove a feature that separates alone."""
        self.ranges, direction, count = scan_features(self.rows)
        if direction is None:
            return None
        source = "One feature separates alone" + (f" ({count} features do)" if count > 1 else "")
        return self._prove_separation(nearest_floats(direction), direction, source)

    def _prove_separation(self, v: Array, exact: RationalVector | None, source: str) -> Found | None:
        """Prove that v separates all rows: by its float64 numbers if possible, else by the exact ones."""
        w, intercept = self.rows.split(v)
        if not 0.0 < norm(w) < math.inf:
            return None
        for direction in (None, exact) if exact is not None else (None,):
            smallest = smallest_margin(self.rows, v, direction)
            margin = margin_below(smallest.margin, w)
            self.certificate = self.certificate.with_lower(margin, w, intercept)
            if smallest.margin > 0.0:
                exactly = (
                    f", {smallest.exact_rows} of them computed in fractions" if smallest.exact_rows else ""
                )
                how = f"{source}; proven: every margin exceeds its rounding error{exactly}."
                return Found(Verdict.SEPARABLE, how, v=v, proof=Proof(direction=direction))
        return None

    def _by_plain_steps(self, steps: int) -> Found | None:
        """Look for a separating direction by dual acceleration on the rows as given."""
        rows = self.rows
        if not 1.0 / _MODERATE < rows.max_norm < _MODERATE:
            return None
        problem = Problem(rows.rows, fit_intercept=rows.fit_intercept)
        return self._steps(problem, steps, np.zeros(rows.width, np.int64))

    def _by_scaled_steps(self) -> Found | None:
        """Look for a separating direction by dual acceleration on a copy of the rows, scaled."""
        rows = self.rows
        copy = rows.sparse(rows.counted, proposals.MAX_COPY_ENTRIES)
        if copy is None:
            return None
        Z, _, columns = balance_sparse(copy)
        is_dense = Z.nnz > _DENSE_FRACTION * rows.n * rows.width
        steps = int(np.clip(STEP_ENTRIES / Z.nnz, PLAIN_STEPS, MAX_STEPS))
        # A small linear program is quicker than many steps.
        steps = steps if rows.n * rows.width > PROGRAM_ENTRIES else steps // 5
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZeroRowWarning)  # a scaled row may vanish, the given one did not
            problem = Problem(Z.toarray() if is_dense else Z)
        return self._steps(problem, steps, columns)

    def _steps(self, problem: Problem, steps: int, columns: Indices) -> Found | None:
        """Run dual acceleration until an iterate, its columns scaled back, is proven to separate all rows."""
        proven: list[Found] = []

        def observe(state: State, record: Record, certificate: Certificate) -> None:
            if state.t > 0 and (found := self._proof_at(problem, state, columns)) is not None:
                proven.append(found)

        rule = any_of(lambda *_: Status.REACHED if proven else None, steps)
        result = run(problem, DualAcceleration(), stop=rule, record=None, observe=observe)
        is_plain = problem.rows is self.rows.rows
        if is_plain:
            self._bound(result.certificate.upper)
        if proven:
            return proven[0]
        if result.t < steps and result.status is not Status.DIVERGED:
            raise KeyboardInterrupt  # `run` returns after Ctrl-C, but the search must end
        self.hardness[:] = np.inf
        self.hardness[slice(None) if is_plain else self.rows.counted] = problem.margins(result.w)
        if is_plain:
            v = self.rows.lift(result.w, problem.at(result.w).intercept)
            self._prove_separation(v, None, "")  # this call tightens the lower bound
        return None

    def _proof_at(self, problem: Problem, state: State, columns: Indices) -> Found | None:
        """Prove separation by an iterate that separates the rows of its problem, or overlap by a few rows."""
        rows, is_plain = self.rows, problem.rows is self.rows.rows
        if state.at.smallest_margin > 0.0:
            v = rows.lift(state.w, state.at.intercept) if is_plain else state.w
            source = f"Found by dual acceleration in {state.t} steps"
            if (found := self._prove_separation(np.ldexp(v, columns), None, source)) is not None:
                return found
        if is_plain and state.t in TRIAL_STEPS:
            self.hardness = problem.margins(state.w)
            # If many rows are on the wrong side, some of them and of the others may show the overlap.
            if np.count_nonzero(self.hardness[rows.counted] < 0.0) > 2 * rows.width:
                hard = self._hard_rows(5)
                propose = self._early if fits_interior_point(rows, hard.size) else self.program.propose
                return self._grow(propose, hard, rounds=2)
        return None

    def _bound(self, upper: float) -> None:
        """Keep an upper bound of gamma_star that was computed as a norm ``||Z^T p||``, rounded upward."""
        n, width = self.rows.n, self.rows.width
        # Each entry of the sum meets n roundings, the sums of p in each class another n, and the norm some.
        rounding = rounding_factor(2 * n + width + 16) * self.rows.max_norm
        rounding += n * width * SMALLEST
        self.certificate = self.certificate.with_upper(upper + rounding)

    def _hard_rows(self, times: int) -> Indices:
        """Return about ``times`` rows for each column: half of them the hardest, half spread over all."""
        rows, chosen = self.rows, []
        count = times * rows.width // 4 + 10
        for group in (rows.counted[rows.signs[rows.counted] == sign] for sign in (1, -1)):
            order = group[np.argsort(self.hardness[group], kind="stable")]
            chosen += [order[:count], order[:: max(1, order.size // count)]]
        return np.unique(np.concatenate(chosen)).astype(np.int64)

    def _grow(
        self, propose: Callable[[Indices], Proposal | None], index: Indices, rounds: int = MAX_ROUNDS
    ) -> Found | None:
        """Ask for a proposal on some rows, and again with those rows that contradict it."""
        for _ in range(rounds):
            proposal = propose(index)
            if proposal is None:
                return None
            if proposal.hardness is not None:
                self.hardness[index] = proposal.hardness
            prove = self._prove_partition if proposal.boundary.any() else self._prove_proposed_separation
            outcome = prove(proposal)
            if isinstance(outcome, Found):
                return outcome
            if not outcome.size:
                return None
            margins = self.rows.margins(proposal.direction)[outcome]
            worst = outcome[np.argsort(margins, kind="stable")[: max(200, index.size)]]
            index = np.union1d(index, worst)
        return None

    def _outside(self, index: Indices) -> Indices:
        """Return the rows that count and are not in ``index``."""
        is_outside = self.rows.counts.copy()
        is_outside[index] = False
        return np.flatnonzero(is_outside).astype(np.int64)

    def _prove_proposed_separation(self, proposal: Proposal) -> Found | Indices:
        """Prove that the direction separates all rows, or return the other rows that it does not separate."""
        found = self._prove_separation(proposal.direction, proposal.exact, proposal.source)
        if found is not None:
            return found
        outside = self._outside(proposal.rows)
        return outside[self.rows.margins(proposal.direction)[outside] <= 0.0]

    def _prove_partition(self, proposal: Proposal) -> Found | Indices:
        """Prove a partition with boundary rows, or return the other rows that contradict it."""
        rows = self.rows
        inside = proposal.rows[proposal.boundary]
        known = column_structure(rows, inside)
        weights = None if known is None else self._prove_weights(proposal, inside, known)
        if known is None or weights is None:
            return NO_ROWS
        p, proof = weights
        how = _how(proposal.source, proof)
        self.not_strict = Found(Verdict.UNDECIDED, how, p=p, proof=proof, boundary=inside)
        direction: RationalVector | None = None
        outside, separated = self._outside(inside), NO_ROWS
        # If the boundary rows span all columns, only v = 0 vanishes on them.
        if known.others and not proposal.boundary.all():
            separated = proposal.rows[~proposal.boundary]
            direction = self._exact_direction(proposal, known, inside)
            if direction is None:
                return NO_ROWS
            outside = self._outside(proposal.rows)
            v = nearest_floats(direction)
            margins = rows.margins(v)[outside]
            slack = rounding_factor(rows.width + 9) * (rows.max_norm + 1.0) * norm(v)
            if (margins < -slack).any():
                return outside[margins < -slack]
            separated = np.union1d(separated, outside[margins > slack])
            outside = outside[~(margins > slack)]  # rows whose margin is NaN are kept
        if outside.size:
            if known.relations is None:
                return outside
            members = rows_obeying(rows, known.relations, outside)
            if members.size < outside.size:
                return np.setdiff1d(outside, members)
            inside = np.union1d(inside, members)
            if not weights_prove(rows, inside, p, proof):
                return NO_ROWS
        if direction is None:
            return Found(Verdict.NOT_SEPARABLE, how, p=p, proof=proof, boundary=inside)
        if not separates(rows, direction, separated, inside):
            return NO_ROWS
        v, proof = nearest_floats(direction), replace(proof, direction=direction)
        return Found(Verdict.QUASI_SEPARABLE, how, v=v, p=p, proof=proof, boundary=inside)

    def _prove_weights(
        self, proposal: Proposal, inside: Indices, known: ColumnStructure
    ) -> tuple[Array, Proof] | None:
        """Prove the dual weights of the boundary rows: as integers, or by absorbing their residual."""
        if not isinstance(proposal.weights, np.ndarray):
            integers = [w for w, on in zip(proposal.weights, proposal.boundary, strict=True) if on]
            return prove_integer_weights(self.rows, inside, integers, known.relations)
        if inside.size * self.rows.width > proposals.MAX_COPY_ENTRIES:
            return None
        p = np.zeros(self.rows.n)
        p[inside] = proposal.weights[proposal.boundary]
        p = self.rows.normalized_weights(p)
        self._bound(norm(self.rows.combine(p)[: self.rows.d]))
        return prove_weights(self.rows, inside, p[inside], known)

    def _exact_direction(
        self, proposal: Proposal, known: ColumnStructure, inside: Indices
    ) -> RationalVector | None:
        """Return an exact direction that is zero on the boundary and positive on the separated rows."""
        if proposal.exact is not None:
            return proposal.exact
        if not np.isfinite(proposal.direction).all():
            return None
        separated = proposal.rows[~proposal.boundary]
        for bits in (4, 12, 30, 52):  # few bits give short fractions and readable coefficients
            values = coarse_direction(proposal.direction, self.ranges, bits)
            exact = known.null_vector([values[j] for j in known.others])
            if exact is None:
                return None
            exact = shortened(exact)
            if separates(self.rows, exact, separated, inside):
                return exact
        return None

    def best_bounds(self, how: str) -> Found:
        """Return what is known without a verdict: weights that rule out strict separation, or a direction."""
        w, b = self.certificate.w, self.certificate.intercept
        v = None if w is None else self.rows.lift(w, b)
        return self.not_strict or Found(Verdict.UNDECIDED, how, v=v)

    def result(self, found: Found) -> Separation:
        """Build the Separation result from a proven verdict, or from the best bounds found."""
        rows = self.rows
        uniform = rows.normalized_weights(rows.counts / rows.counted.size)
        self._bound(norm(rows.combine(uniform)[: rows.d]))
        lower, upper = self.certificate.lower, self.certificate.upper
        if found.p is not None:
            upper = 0.0
            lower = 0.0 if found.verdict is Verdict.QUASI_SEPARABLE else min(lower, 0.0)
        coef, intercept, features = None, 0.0, NO_ROWS
        if found.v is not None:
            coef, intercept = rows.split(found.v)
            with np.errstate(over="ignore"):
                importance = np.abs(coef) * self.ranges
            order = np.lexsort((-np.abs(coef), -importance))
            features = order[coef[order] != 0.0].astype(np.int64)
        is_partition = found.verdict is not Verdict.UNDECIDED
        return Separation(
            verdict=found.verdict,
            fit_intercept=rows.fit_intercept,
            coef=coef,
            intercept=intercept,
            margin=math.nan if coef is None else lower,
            dual_weights=found.p,
            residual=math.nan if found.p is None else norm(rows.combine(found.p)),
            lower=lower,
            upper=upper,
            separated_rows=self._outside(found.boundary) if is_partition else NO_ROWS,
            boundary_rows=found.boundary,
            features=features,
            feature_names=rows.rows.feature_names,
            proof=found.proof,
            how=found.how,
        )


def _how(source: str, proof: Proof) -> str:
    if proof.weights is not None:
        return f"{source}; proven in exact integer arithmetic."
    count = len(proof.relations)
    plural = "" if count == 1 else "s"
    columns = f" and {count} exact relation{plural} between features" if count else ""
    return f"{source}; proven with bounds on all rounding{columns}."


def decide_by_weights(rows: LiftedRows, weights: DualWeights | None) -> Separation | None:
    """Return the verdict if dual weights that nearly balance the rows are enough to prove it."""
    search = Search(rows)
    found = None if weights is None else search.by_weights(weights)
    return None if found is None else search.result(found)


def decide(rows: LiftedRows) -> Separation:
    """Return the verdict on some rows."""
    tell_stage(f"{rows.n:,} rows of {rows.width:,} columns")
    search = Search(rows)
    try:
        found = search.find_proof() or search.best_bounds("No method found a proof.")
    except KeyboardInterrupt:
        found = search.best_bounds(INTERRUPTED)
        if found.how != INTERRUPTED:  # That no hyperplane separates strictly is proven already.
            found = found._replace(how=f"{found.how} {INTERRUPTED}")
    return search.result(found)
