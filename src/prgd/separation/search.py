"""The search for a verdict on separability: its stages, from single passes to exact arithmetic.

Each stage proposes a direction or a partition of the rows, and `prgd.proofs` decides. The stages are, in this
order: rows that cancel and single features, an exact simplex method if entries are few, steps of dual
acceleration if rows are too many or too wide for an interior point, and columns of one sign followed by an
interior point on all rows or on growing sets of them. If these fail, an exact simplex method follows.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from prgd.algorithms import DualAcceleration
from prgd.algorithms.base import State
from prgd.core.arithmetic import SMALLEST, nearest_floats, rounding_factor, shortened
from prgd.core.threads import check_time
from prgd.core.types import Array, Indices, RationalVector
from prgd.norms import norm
from prgd.problem.certificate import Certificate, DualWeights
from prgd.problem.problem import NO_ROWS, Problem
from prgd.proofs.column_relations import ColumnStructure, column_structure, rows_obeying
from prgd.proofs.directions import margin_below, separates, smallest_margin
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.weights import Proof, prove_integer_weights, prove_weights, weights_prove
from prgd.running.history import Record, Status, any_of
from prgd.running.loop import run
from prgd.running.progress import tell_stage
from prgd.separation.proposals import (
    CLEAR,
    Found,
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
MAX_ROUNDS = 30  # times that a method may ask for more rows
STEPS = 150  # steps of dual acceleration on the rows as given
SPARSE_WIDTH = 2**15  # columns of sparse rows up to which the interior point takes all of them
MANY_ROWS = 40  # rows for each column above which the interior point starts from some of the rows
HARD_ROWS = 6  # rows for each column with which a method starts
_MODERATE = 1e150  # row norms between 1/_MODERATE and _MODERATE have squares in the floating range


class Search:
    """The stages in their order, and what is known so far."""

    def __init__(self, rows: LiftedRows) -> None:
        self.rows = rows
        self.lower, self.upper = 0.0 - rows.max_norm, math.inf  # bounds of gamma_star
        self.best: Array | None = None  # the direction of the lower bound
        self.not_strict: Found | None = None  # weights that rule out strict separation
        self.hardness = np.zeros(rows.n)  # rows of small margin, or large weight, have small numbers
        self.ranges = np.ones(rows.d)

    def find_proof(self) -> Found | None:
        """Return the first verdict that is proven; None if every stage fails."""
        rows, everything = self.rows, self.rows.counted
        self.not_strict = find_cancelling_rows(rows)
        if (found := self._by_one_feature()) is not None:
            return found
        exactly = partial(propose_exactly, rows, hardness=self.hardness)
        if rows.n * rows.width <= SMALL_ENTRIES and (found := self._grow(exactly, everything)) is not None:
            return found
        fits = fits_interior_point(rows, everything.size)
        if not fits and self.not_strict is None and (found := self._by_steps()) is not None:
            return found
        # A partition that some of very many rows show is proven with few weights, which is quick to check.
        is_wide = not fits and rows.rows.is_sparse and rows.width <= SPARSE_WIDTH
        starts = [everything] if fits or is_wide else []
        if not is_wide and (not fits or everything.size > MANY_ROWS * rows.width):
            starts.insert(0, self._hard_rows())
        tell_stage("interior point")
        for start in starts:
            for clear in (CLEAR, 0.0):
                propose = partial(propose_by_interior_point, rows, clear=clear)
                if (found := self._grow(propose, start)) is not None:
                    return found
        few = everything.size <= HARD_ROWS * rows.width
        return self._grow(exactly, everything if few else self._hard_rows())

    def _by_one_feature(self) -> Found | None:
        """Measure the range of each feature, and prove a feature that separates alone."""
        self.ranges, direction, count = scan_features(self.rows)
        if direction is None:
            return None
        source = "One feature separates alone" + (f" ({count} features do)" if count > 1 else "")
        return self._prove_separation(nearest_floats(direction), direction, source)

    def _prove_separation(self, v: Array, exact: RationalVector | None, source: str) -> Found | None:
        """Prove that v separates all rows: by its float64 numbers if possible, else by the exact ones."""
        w, _ = self.rows.split(v)
        if not 0.0 < norm(w) < math.inf:
            return None
        for direction in (None, exact) if exact is not None else (None,):
            smallest = smallest_margin(self.rows, v, direction)
            margin = margin_below(smallest.margin, w)
            if margin > self.lower:
                self.lower, self.best = margin, v
            if smallest.margin > 0.0:
                exactly = (
                    f", {smallest.exact_rows} of them computed in fractions" if smallest.exact_rows else ""
                )
                how = f"{source}; proven: every margin exceeds its rounding error{exactly}."
                return Found(Verdict.SEPARABLE, how, v=v, proof=Proof(direction=direction))
        return None

    def _by_steps(self) -> Found | None:
        """Run dual acceleration on the rows as given until an iterate is proven to separate all of them."""
        rows = self.rows
        if not 1.0 / _MODERATE < rows.max_norm < _MODERATE:
            return None
        problem, proven = Problem(rows.rows, fit_intercept=rows.fit_intercept), list[Found]()

        def observe(state: State, record: Record, certificate: Certificate) -> None:
            if state.t > 0 and state.at.smallest_margin > 0.0:
                source = f"Found by dual acceleration in {state.t} steps"
                found = self._prove_separation(rows.lift(state.w, state.at.intercept), None, source)
                proven.extend([] if found is None else [found])

        rule = any_of(lambda *_: Status.REACHED if proven else None, STEPS)
        result = run(problem, DualAcceleration(), stop=rule, record=None, observe=observe)
        self._bound(result.certificate.upper)
        if proven:
            return proven[0]
        if result.t < STEPS and result.status is not Status.DIVERGED:
            raise KeyboardInterrupt  # `run` returns after Ctrl-C, but the search must end
        self.hardness[:] = problem.margins(result.w)
        # This call tightens the lower bound.
        self._prove_separation(rows.lift(result.w, problem.at(result.w).intercept), None, "")
        return None

    def _bound(self, upper: float) -> None:
        """Keep an upper bound of gamma_star that was computed as a norm ``||Z^T p||``, rounded upward."""
        n, width = self.rows.n, self.rows.width
        # Each entry of the sum meets n roundings, the sums of p in each class another n, and the norm some.
        rounding = rounding_factor(2 * n + width + 16) * self.rows.max_norm
        rounding += n * width * SMALLEST
        self.upper = min(self.upper, upper + rounding)

    def _hard_rows(self) -> Indices:
        """Return some rows for each column: half of them the hardest, half spread over all."""
        rows, chosen = self.rows, []
        count = HARD_ROWS * rows.width // 4 + 10
        for group in (rows.counted[rows.signs[rows.counted] == sign] for sign in (1, -1)):
            order = group[np.argsort(self.hardness[group], kind="stable")]
            chosen += [order[:count], order[:: max(1, order.size // count)]]
        return np.unique(np.concatenate(chosen)).astype(np.int64)

    def _grow(self, propose: Callable[[Indices], Proposal | None], index: Indices) -> Found | None:
        """Ask for a proposal on some rows, and again with those rows that contradict it."""
        for _ in range(MAX_ROUNDS):
            check_time()
            proposal = propose(index)
            if proposal is None:
                return None
            if proposal.hardness is not None:
                self.hardness[index] = proposal.hardness
            prove = self.prove_partition if proposal.boundary.any() else self._prove_proposed_separation
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

    def prove_partition(self, proposal: Proposal) -> Found | Indices:
        """Prove a partition with boundary rows, or return the other rows that contradict it."""
        rows = self.rows
        inside = proposal.rows[proposal.boundary]
        known = column_structure(rows, inside)
        weights = None if known is None else self._prove_weights(proposal, inside, known)
        if known is None or weights is None:
            return NO_ROWS
        p, proof = weights
        count = len(proof.relations)
        relations = f" and {count} exact relation{'s' * (count > 1)} between features" if count else ""
        kind = "in exact integer arithmetic" if proof.weights else f"with bounds on all rounding{relations}"
        how = f"{proposal.source}; proven {kind}."
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
                return np.setdiff1d(outside, members, assume_unique=True)
            inside = np.sort(np.concatenate([inside, members]))
            # Weights in float64 are proven to span all rows that obey the relations; integers may not be.
            if proof.weights is not None and not weights_prove(rows, inside, p, proof):
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
        return self.not_strict or Found(Verdict.UNDECIDED, how, v=self.best)

    def result(self, found: Found) -> Separation:
        """Build the Separation result from a proven verdict, or from the best bounds found."""
        rows = self.rows
        uniform = rows.normalized_weights(rows.counts / rows.counted.size)
        self._bound(norm(rows.combine(uniform)[: rows.d]))
        lower, upper = self.lower, self.upper
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


def decide_by_weights(rows: LiftedRows, weights: DualWeights | None) -> Separation | None:
    """Return the verdict if dual weights that nearly balance the rows are enough to prove it."""
    if weights is None or not weights.indices.size or not rows.fits_dense(weights.indices.size):
        return None
    search, p = Search(rows), list(weights.integers) if weights.integers is not None else weights.values
    everywhere, source = np.ones(weights.indices.size, bool), "Found by the maximum-margin solver"
    found = search.prove_partition(Proposal(weights.indices, everywhere, p, np.zeros(rows.width), source))
    return search.result(found) if isinstance(found, Found) else None


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
