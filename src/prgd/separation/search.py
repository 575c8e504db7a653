"""The search for a verdict on separability: its stages, from quick looks to exact arithmetic."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.algorithms import DualAcceleration
from prgd.errors import ZeroRowWarning
from prgd.norms import norm
from prgd.problem import Problem
from prgd.proofs.exact import (
    Index,
    Structure,
    Vector,
    partition,
    scaled,
    whole_numbers,
)
from prgd.proofs.lifted_rows import (
    TINY,
    LiftedRows,
    Proof,
    column_structure,
    is_zero_on,
    normalised,
    obeying,
    proven_weights,
    rounding,
    smallest_margin,
    weights_prove,
    whole_weights,
)
from prgd.rows import Combine
from prgd.separation.verdict import Separability, Verdict, rounded

SMALL = 600  # entries of a table that goes to exact arithmetic at once
EXACT_SECONDS = 30.0  # what exact arithmetic may take as the last resort, by an estimate that is not timed
MOST_ENTRIES = 2**25  # entries of the largest copy that is made of the data
PROGRAMME_ENTRIES = 500_000  # entries above which linear programming starts from some of the rows
TIME_LIMIT = 60.0  # seconds for one linear program
ROUNDS = 30  # times that linear programming may ask for more rows
ZOOMS = 3  # times that it may look closer
PLAIN_STEPS, MOST_STEPS = 150, 3000
STEP_ENTRIES = 2e10  # entries that dual acceleration may read on scaled rows
FIRST_LOOKS = (32, 128)  # steps after which linear programming may be tried on a few of the rows


class Found(NamedTuple):
    """A proven verdict: the direction v or the weights p, and the rows on the boundary."""

    verdict: Verdict
    how: str
    v: Array | None = None
    p: Array | None = None
    proof: Proof = Proof()
    boundary: Index = np.empty(0, np.int64)


class Proposal(NamedTuple):
    """What linear programming or exact arithmetic says about some of the rows, their numbers in ``rows``."""

    rows: Index
    boundary: npt.NDArray[np.bool_]
    weights: Array | list[int]
    direction: Array
    exact: Vector | None
    source: str


class Search:
    """The stages in their order, and what is known so far."""

    def __init__(self, rows: LiftedRows) -> None:
        self.rows = rows
        self.lower, self.best = 0.0 - rows.max_norm, np.empty(0)  # a margin, and the v that has it
        self.upper = math.inf
        self.gordan: Found | None = None
        self.hardness = np.zeros(rows.n)  # the rows of least margin, or most weight, come first
        self.ranges = np.ones(rows.d)
        self.coordinates: Array | None = None  # of linear programming, where it looks closer
        self.flat: tuple[Any, Index] | None = None  # its boundary rows, and the scales of their columns
        self.is_interrupted = False

    def found(self) -> Found | None:
        """Return the first verdict that is proven."""
        rows = self.rows
        everything = np.arange(rows.n)
        self.gordan = _cancelling_rows(rows)
        if (found := self._by_one_feature()) is not None:
            return found
        if rows.n * rows.width <= SMALL and (found := self._grow(self._exact, everything)) is not None:
            return found
        if self.gordan is None and (found := self._by_steps()) is not None:
            return found
        start = everything if rows.n * rows.width <= PROGRAMME_ENTRIES else self._hard_rows(6)
        for _ in range(ZOOMS):
            if (found := self._grow(self._programme, start)) is not None:
                return found
            if not self._look_closer():
                break
        return self._grow(self._exact, start if start.size <= 6 * rows.width else self._hard_rows(6))

    def _by_one_feature(self) -> Found | None:
        """Look for a feature that separates alone, and measure the range of each."""
        rows = self.rows
        low, high = np.full((2, rows.width), math.inf), np.full((2, rows.width), -math.inf)
        for index, Z in rows.blocks(np.arange(rows.n), as_stored=True):
            for k, sign in enumerate((1, -1)):
                part = Z[rows.signs[index] == sign]
                if part.shape[0]:
                    least, most = part.min(axis=0), part.max(axis=0)
                    dense = [x if isinstance(x, np.ndarray) else x.toarray().ravel() for x in (least, most)]
                    low[k], high[k] = np.minimum(low[k], dense[0]), np.maximum(high[k], dense[1])
        with np.errstate(over="ignore", invalid="ignore"):
            x_low, x_high = np.minimum(low[0], -high[1]), np.maximum(high[0], -low[1])
            self.ranges = np.minimum(x_high - x_low, np.finfo(np.float64).max)[: rows.d]
            # what the two classes are apart, by the feature and by its negative
            apart = np.stack([low, -high])
            gaps = apart.sum(axis=1) if rows.fit_intercept else 2.0 * apart.min(axis=1)
        gaps = gaps[:, : rows.d]
        way, feature = (int(k) for k in np.unravel_index(np.argmax(gaps), gaps.shape))
        if not gaps[way, feature] > 0.0:
            return None
        exact = [Fraction(0)] * rows.width
        exact[feature] = Fraction(1 - 2 * way)
        if rows.fit_intercept:
            plus, minus = (Fraction(float(value)) for value in apart[way, :, feature])
            exact[rows.d] = (minus - plus) / 2
        exact = list(_shortened(exact)) if max(abs(x) for x in exact) > 2**900 else exact
        alone = int(np.count_nonzero((gaps > 0.0).any(axis=0)))
        others = f" ({alone} features do)" if alone > 1 else ""
        return self._witness(rounded(exact), tuple(exact), f"One feature separates alone{others}")

    def _witness(self, v: Array, exact: Vector | None, source: str) -> Found | None:
        """Prove that v separates all rows, by its float64 numbers if they do."""
        rows = self.rows
        length = norm(v[: rows.d]) * (1.0 + 1e-14)
        if not 0.0 < length < math.inf:
            return None
        for direction in (None, exact) if exact is not None else (None,):
            least = smallest_margin(rows, v, direction)
            margin = max(least.margin / length, TINY) if least.margin > 0.0 else least.margin / length
            if margin > self.lower:
                self.lower, self.best = margin, v
            if least.margin > 0.0:
                exactly = f", {least.exact_rows} of them in fractions" if least.exact_rows else ""
                how = f"{source}; proven: the margins exceed the bound on their rounding{exactly}."
                return Found(Verdict.SEPARABLE, how, v=v, proof=Proof(direction=direction))
        return None

    def _by_steps(self) -> Found | None:
        """Look for a witness by dual acceleration: on the rows as they are, then on scaled ones."""
        rows = self.rows
        if 1e-150 < rows.max_norm < 1e150:
            problem = Problem(rows.rows, fit_intercept=rows.fit_intercept)
            if (found := self._steps(problem, PLAIN_STEPS, np.zeros(rows.width, np.int64))) is not None:
                return found
        copy = rows.sparse(np.arange(rows.n), MOST_ENTRIES)
        if copy is None:
            return None
        Z, _, columns = _balanced(copy)
        is_dense = Z.nnz > 0.3 * rows.n * rows.width
        steps = int(np.clip(STEP_ENTRIES / Z.nnz, PLAIN_STEPS, MOST_STEPS))
        # where linear programming is quick, it is better than many steps
        steps = steps if rows.n * rows.width > PROGRAMME_ENTRIES else steps // 5
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZeroRowWarning)  # a row may vanish here, but not in the data
            problem = Problem(Z.toarray() if is_dense else Z)
        return self._steps(problem, steps, columns)

    def _steps(self, problem: Problem, steps: int, columns: Index) -> Found | None:
        rows, algorithm = self.rows, DualAcceleration()
        is_plain = problem.rows is rows.rows
        state = algorithm.init(problem, np.zeros(problem.d))
        for t in range(1, steps + 1):
            state = algorithm.step(problem, state)
            if is_plain:
                self._bound(state.at.upper)
            if state.at.smallest_margin > 0.0:
                v = np.append(state.w, state.at.intercept) if problem.fit_intercept else state.w
                found = self._witness(np.ldexp(v, columns), None, f"Found by dual acceleration in {t} steps")
                if found is not None:
                    return found
            if t in FIRST_LOOKS and is_plain:
                self.hardness = problem.margins(state.w)
                # many rows are on the wrong side: a few of them and of the others may show the overlap
                if np.count_nonzero(self.hardness < 0.0) > 2 * rows.width:
                    found = self._grow(self._programme, self._hard_rows(5), rounds=2)
                    if found is not None:
                        return found
        self.hardness = problem.margins(state.w)
        if is_plain:
            v = np.append(state.w, state.at.intercept) if problem.fit_intercept else state.w
            self._witness(v, None, "")  # for the lower bound
        return None

    def _bound(self, upper: float) -> None:
        n = self.rows.n
        self.upper = min(self.upper, upper + rounding(n + 9) * self.rows.max_norm + n * TINY)

    def _hard_rows(self, times: int) -> Index:
        """Return ``times`` as many rows as there are columns: hard ones, and as many of all degrees."""
        rows, chosen = self.rows, []
        each = times * rows.width // 4 + 10
        for group in (np.flatnonzero(rows.signs > 0), np.flatnonzero(rows.signs < 0)):
            order = group[np.argsort(self.hardness[group], kind="stable")]
            chosen += [order[:each], order[:: max(1, order.size // each)]]
        return np.unique(np.concatenate(chosen)).astype(np.int64)

    def _programme(self, index: Index) -> Proposal | None:
        r"""Propose the partition of some rows by linear programming.

        ``max sum_i min(p_i, 1)`` over ``p >= 0`` with ``Z^T p = 0``; the dual is a v with margins of at least
        1 on the rows of weight 0 and of 0 on the others.
        """
        Z = self.rows.sparse(index, MOST_ENTRIES)
        if Z is None:
            return None
        if self.coordinates is not None:
            Z = type(Z)(Z @ self.coordinates)
        # the new coordinates have their sizes for the sake of the boundary rows: leave them
        Z, row_powers, columns = _balanced(Z, by_columns=self.coordinates is None)
        # at margins of about its tolerance HiGHS may fail; with a loose one it calls them zero
        solved = _solved_programme(Z, 1e-7) or _solved_programme(Z, 1e-5)
        if solved is None:
            return None
        p, v = solved
        margins = Z @ v
        boundary = p > np.maximum(0.5, margins)
        self.hardness[index] = np.where(boundary, -p, margins)
        self.flat = Z[boundary], columns
        v = np.ldexp(v, columns)
        direction = v if self.coordinates is None else self.coordinates @ v
        source = "Found by linear programming"
        return Proposal(index, boundary, np.ldexp(p, row_powers), direction, None, source)

    def _look_closer(self) -> bool:
        """Choose coordinates in which the boundary rows are alike in all directions.

        Rows within 1e-9 of a hyperplane look as if they lay on it; divided by their singular values they do
        not.
        """
        if self.flat is None:
            return False
        (flat, columns), self.flat = self.flat, None
        if flat.shape[0] < self.rows.width or flat.shape[0] * flat.shape[1] > MOST_ENTRIES // 16:
            return False
        _, sizes, directions = np.linalg.svd(flat.toarray(), full_matrices=False)
        steps = np.ldexp((directions / np.maximum(sizes, 1e-15 * sizes[0])[:, None]).T, columns[:, None])
        self.coordinates = steps if self.coordinates is None else self.coordinates @ steps
        return True

    def _exact(self, index: Index) -> Proposal | None:
        """Propose the partition of some rows by the exact simplex method, where that is affordable."""
        n, d = index.size, self.rows.width
        if n * d > MOST_ENTRIES // 64:
            return None
        Z = self.rows.take(index)
        rank = min(n, d)
        digits = rank * scaled(Z, by_columns=True).bits / 30.0
        if 5.0 * rank * rank * (n + d) * (2e-6 + 5e-9 * digits * digits) > EXACT_SECONDS:
            return None
        order = np.argsort(self.hardness[index], kind="stable")
        split = partition(Z, order.tolist(), most_pivots=100 * rank + 100)
        if split is None:
            return None
        exact = _shortened(split.direction)
        return Proposal(
            index, split.boundary, split.weights, rounded(exact), exact, "Found by an exact simplex method"
        )

    def _grow(
        self, oracle: Callable[[Index], Proposal | None], index: Index, rounds: int = ROUNDS
    ) -> Found | None:
        """Ask an oracle about some rows, and again with those rows that its answer does not fit."""
        for _ in range(rounds):
            proposal = oracle(index)
            if proposal is None:
                return None
            outcome = self._separating(proposal) if not proposal.boundary.any() else self._partition(proposal)
            if isinstance(outcome, Found):
                return outcome
            if not outcome.size:
                return None
            most = max(200, index.size)
            worst = outcome[np.argsort(self.rows.margins(proposal.direction)[outcome], kind="stable")[:most]]
            index = np.union1d(index, worst)
        return None

    def _outside(self, index: Index) -> Index:
        mask = np.ones(self.rows.n, np.bool_)
        mask[index] = False
        return np.flatnonzero(mask).astype(np.int64)

    def _separating(self, proposal: Proposal) -> Found | Index:
        """Prove that a direction separates all rows, or return others that it does not."""
        found = self._witness(proposal.direction, proposal.exact, proposal.source)
        if found is not None:
            return found
        outside = self._outside(proposal.rows)
        return outside[self.rows.margins(proposal.direction)[outside] <= 0.0]

    def _partition(self, proposal: Proposal) -> Found | Index:
        """Prove a partition with boundary rows, or return other rows that it does not fit."""
        rows, nothing = self.rows, np.empty(0, np.int64)
        inside = proposal.rows[proposal.boundary]
        known = column_structure(rows, inside)
        weights = None if known is None else self._weights(proposal, inside, known)
        if known is None or weights is None:
            return nothing
        p, proof = weights
        how = _how(proposal.source, proof)
        self.gordan = Found(Verdict.UNDECIDED, how, p=p, proof=proof, boundary=inside)
        direction: tuple[Array, Vector] | None = None
        outside = self._outside(inside)
        separated = np.empty(0, np.int64)
        # where the boundary rows span everything, no direction is left
        if known.others and not proposal.boundary.all():
            separated = proposal.rows[~proposal.boundary]
            direction = self._direction(proposal, known, inside)
            if direction is None:
                return nothing
            outside = self._outside(proposal.rows)
            margins = rows.margins(direction[0])[outside]
            slack = rounding(rows.width + 9) * (rows.max_norm + 1.0) * norm(direction[0])
            if (margins < -slack).any():
                return outside[margins < -slack]
            separated = np.union1d(separated, outside[margins > slack])
            outside = outside[margins <= slack]
        if outside.size:
            if known.relations is None:
                return outside
            members = obeying(rows, known.relations, outside)
            if members.size < outside.size:
                return np.setdiff1d(outside, members)
            inside = np.union1d(inside, members)
            if not weights_prove(rows, inside, p, proof):
                return nothing
        if direction is None:
            return Found(Verdict.NOT_SEPARABLE, how, p=p, proof=proof, boundary=inside)
        v, exact = direction
        is_proven = (
            is_zero_on(rows, exact, inside) and smallest_margin(rows, v, exact, separated).margin > 0.0
        )
        if not is_proven:
            return nothing
        proof = replace(proof, direction=exact)
        return Found(Verdict.QUASI_SEPARABLE, how, v=v, p=p, proof=proof, boundary=inside)

    def _weights(self, proposal: Proposal, inside: Index, known: Structure) -> tuple[Array, Proof] | None:
        """Prove the weights of the boundary rows: as exact ones, or by absorbing their residual."""
        if not isinstance(proposal.weights, np.ndarray):
            whole = [w for w, on in zip(proposal.weights, proposal.boundary, strict=True) if on]
            return whole_weights(self.rows, inside, whole, known.relations)
        if inside.size * self.rows.width > MOST_ENTRIES:
            return None
        p = np.zeros(self.rows.n)
        p[inside] = proposal.weights[proposal.boundary]
        p = normalised(p, self.rows)
        self._bound(norm(self.rows.rows.ask(Combine.of(p))))
        return proven_weights(self.rows, inside, p[inside], known)

    def _direction(self, proposal: Proposal, known: Structure, inside: Index) -> tuple[Array, Vector] | None:
        """Return an exact direction that is zero on the boundary and positive on the rows proposed so."""
        if proposal.exact is not None:
            return proposal.direction, proposal.exact
        rows, separated = self.rows, proposal.rows[~proposal.boundary]
        for bits in (4, 12, 30, 52):
            values = _coarse(proposal.direction, self.ranges, bits)
            exact = known.null_vector([values[j] for j in known.others])
            if exact is None:
                return None
            exact = _shortened(exact)
            v = rounded(exact)
            if smallest_margin(rows, v, exact, separated).margin > 0.0 and is_zero_on(rows, exact, inside):
                return v, exact
        return None

    def result(self, found: Found | None, names: list[str] | None) -> Separability:
        """Put what was found, or what there is, into words and numbers."""
        rows = self.rows
        if found is None:
            how = "Interrupted before a proof was found." if self.is_interrupted else "All proofs failed."
            found = self.gordan or Found(Verdict.UNDECIDED, how, v=self.best if self.best.size else None)
        p, v = found.p, found.v
        self._bound(norm(rows.rows.ask(Combine.of(normalised(np.full(rows.n, 1.0 / rows.n), rows)))))
        lower, upper = self.lower, self.upper
        if p is not None:
            upper = 0.0
            lower = 0.0 if found.verdict is Verdict.QUASI_SEPARABLE else min(lower, 0.0)
        coef = None if v is None else v[: rows.d]
        features = np.empty(0, np.int64)
        if coef is not None:
            with np.errstate(over="ignore"):
                share = np.abs(coef) * self.ranges
            order = np.lexsort((-np.abs(coef), -share))
            features = order[coef[order] != 0.0].astype(np.int64)
        boundary = found.boundary
        is_partition = found.verdict is not Verdict.UNDECIDED
        return Separability(
            verdict=found.verdict,
            fit_intercept=rows.fit_intercept,
            coef=coef,
            intercept=float(v[rows.d]) if v is not None and rows.fit_intercept else 0.0,
            margin=lower if coef is not None else math.nan,
            weights=p,
            residual=math.nan if p is None else norm(rows.combine(p)),
            lower=lower,
            upper=upper,
            separated_rows=self._outside(boundary) if is_partition else np.empty(0, np.int64),
            boundary_rows=boundary,
            features=features,
            feature_names=names,
            proof=found.proof,
            how=found.how,
        )


def _cancelling_rows(rows: LiftedRows) -> Found | None:
    """Look for a zero row, or two rows z_i = -z_j: copies with opposite labels."""
    random = np.random.default_rng(0).standard_normal(rows.width)
    with np.errstate(over="ignore", invalid="ignore"):
        key = rows.margins(random)
        # equal rows have equal keys but for rounding
        order = np.argsort(np.abs(key), kind="stable")
        ahead, behind = order[:-1], order[1:]
        near = np.abs(key[ahead] + key[behind]) <= 1e-9 * np.abs(key[ahead])
    candidates = [[int(i)] for i in np.flatnonzero(key == 0.0)]
    candidates += np.stack([ahead[near], behind[near]], axis=1).tolist()
    for candidate in candidates[:1000]:
        index = np.sort(np.array(candidate, np.int64))
        p = np.zeros(rows.n)
        p[index] = 1.0 / index.size
        proof = Proof(weights=dict.fromkeys(index.tolist(), 1))
        if weights_prove(rows, index, p, proof):
            how = f"Row {index[0]} is zero." if index.size == 1 else f"Rows {index[0]} and {index[1]} cancel."
            return Found(Verdict.UNDECIDED, how, p=p, proof=proof, boundary=index)
    return None


def _balanced(Z: Any, *, by_columns: bool = True) -> tuple[Any, Index, Index]:
    """Return ``2**r_i Z_ij 2**c_j``, with columns and rows of like size, r and c; no margin changes sign."""
    n, d = Z.shape
    row_of = np.repeat(np.arange(n), np.diff(Z.indptr))
    data = np.array(Z.data)
    rows, columns = np.zeros(n, np.int64), np.zeros(d, np.int64)
    for groups, powers in ((Z.indices, columns), (row_of, rows)) if by_columns else ((row_of, rows),):
        # first the largest entry to [1/2, 1), so that no square leaves the floating range, then the mean
        largest = np.zeros(powers.size)
        np.maximum.at(largest, groups, np.abs(data))
        powers -= np.frexp(largest)[1]
        squares = np.zeros(powers.size)
        np.add.at(squares, groups, np.ldexp(data, powers[groups]) ** 2)
        if powers is columns:
            squares /= np.maximum(np.bincount(groups, minlength=d), 1)
        powers -= np.round(0.5 * np.log2(np.where(squares > 0.0, squares, 1.0))).astype(np.int64)
        data = np.ldexp(data, powers[groups])
    return type(Z)((data, Z.indices, Z.indptr), shape=Z.shape), rows, columns


def _solved_programme(Z: Any, tolerance: float) -> tuple[Array, Array] | None:
    """Return weights p and direction v of the linear program, where HiGHS finds them in reasonable time."""
    from scipy.optimize import linprog
    from scipy.sparse import hstack

    n, d = Z.shape
    bounds = np.zeros((2 * n, 2))
    bounds[:n, 1], bounds[n:, 1] = 1.0, np.inf
    solved: Any = linprog(  # type: ignore[call-overload]  # a table of bounds is welcome too
        np.repeat([-1.0, 0.0], n),
        A_eq=hstack([Z.T, Z.T], format="csc"),
        b_eq=np.zeros(d),
        bounds=bounds,
        method="highs-ds",
        options={
            "time_limit": TIME_LIMIT,
            "maxiter": 2 * n + 20 * d + 1000,
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
        },
    )
    if solved.status != 0:
        return None
    return solved.x[:n] + solved.x[n:], -solved.eqlin.marginals


def _coarse(v: Array, ranges: Array, bits: int) -> list[Fraction]:
    """Round a direction to ``bits`` bits of its largest entry, each entry measured by its feature's range."""
    size = np.append(ranges, np.ones(v.size - ranges.size))
    size = np.where((size > 0.0) & np.isfinite(size), size, 1.0)
    top = np.frexp(np.abs(v * size).max())[1]
    steps = top - bits - np.frexp(size)[1]
    return [
        Fraction(round(float(np.ldexp(x, -k)))) * Fraction(2) ** int(k) for x, k in zip(v, steps, strict=True)
    ]


def _shortened(v: Sequence[Fraction]) -> Vector:
    """Return a positive multiple of v: coprime whole numbers where they are short, else of size about 1."""
    whole = whole_numbers(v)
    common = math.gcd(*whole) or 1
    length = max(abs(x) // common for x in whole).bit_length()
    scale = 1 if length <= 20 else 2**length
    return tuple(Fraction(x // common, scale) for x in whole)


def _how(source: str, proof: Proof) -> str:
    if proof.weights is not None:
        return f"{source}; proven: the weights, as whole numbers, balance exactly."
    count = len(proof.relations)
    plural = "" if count == 1 else "s"
    columns = f", with {count} exact relation{plural} between features" if count else ""
    return f"{source}; proven: a correction smaller than the weights makes their residual zero{columns}."
