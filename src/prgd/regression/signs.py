"""The search for the verdict on every coefficient: proposals in float64, which `Cone` proves exactly.

Around each point of the cone an ellipsoid lies inside the cone (Dikin's, of the logarithmic barrier). If v_j
has both signs in one of them, the coefficient is infinite with either sign; a few Newton steps towards the
centre of the cone show most of these at once. Other signs pass from row to row, or are decided one by one by
the search for the partition of the rows and ``-e_j`` or ``e_j``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from operator import mul

import numpy as np

from prgd.core.arithmetic import literal_fractions, nearest_floats, shortened
from prgd.core.threads import check_time, time_left
from prgd.core.types import Array, Indices, RationalVector
from prgd.norms import norm
from prgd.proofs.lifted_rows import KeptColumns, LiftedRows, balance, spread
from prgd.proofs.pivots import Pivots, pivot_columns
from prgd.regression.coefficients import Behaviour, Coefficients
from prgd.regression.cone import Cone, Coordinates
from prgd.regression.cone_vectors import max_margin_signs, opposite_vectors
from prgd.regression.families import ModelRows
from prgd.regression.memberships import (
    Membership,
    augmented,
    exact_membership,
    least_squares,
    passed_signs,
    prove_membership,
)
from prgd.separation.search import Search
from prgd.separation.verdict import Separation

WORKING_ENTRIES = 2**25  # entries of the reduced rows that are held at a time
MAX_ROUNDS = 30  # times that rows which contradict a proposal are added
SEARCH_WORK = 2e12  # rows times squared columns that searches for single coefficients may cost together
_ZERO = 1e-7  # length of a residual, in units of e_j, below which it may be zero but for rounding
_PRUNED = (1e-6, 1e-9, 1e-12, 0.0)  # weights below these fractions of the largest may be zero
_SMALL_MOVES = (20, 60, 200, 600, 1200, 2400, 4800)  # powers of 1/2 that are tried as lengths of a move
_ROUNDED = 1e-6  # weights above minus this fraction of the largest may be zero but for rounding


def find_coefficients(model: ModelRows, partition: Separation) -> Coefficients:
    """Decide what becomes of the coefficient of every column of a proven partition, and prove it."""
    rows, order, v = model.rows, model.columns, partition.proof.direction
    if v is None and partition.coef is not None:
        v = literal_fractions(rows.lift(partition.coef, partition.intercept))
    pivots = pivot_columns(rows, order)
    if pivots is None:
        return undecided_coefficients(order)
    kept = list(pivots.kept)
    words = dict.fromkeys(pivots.aliased, Behaviour.ALIASED)
    cone = Cone.of(KeptColumns(rows, kept), partition)
    if cone is None:
        words |= dict.fromkeys(kept, Behaviour.UNDECIDED)
        return Coefficients(words, kept, list(pivots.aliased), pivots.rows)
    infinite = {kept[j] for j in cone.infinite}
    words |= {j: Behaviour.UNDECIDED if j in infinite else Behaviour.FINITE for j in kept}
    found = Coefficients({int(j): words[int(j)] for j in order}, kept, list(pivots.aliased), pivots.rows)
    if infinite and v is not None:
        with np.errstate(all="ignore"):  # Numbers that leave the floating range end in no proposal.
            searches = (_SignSearch(cone, start) for start in _starts(cone, pivots, rows, v))
            search = next((search for search in searches if search.is_started), None)
            if search is not None:
                try:
                    search.run()
                except KeyboardInterrupt:
                    found = replace(found, is_interrupted=True)
                found = search.report(found)
    return found


def undecided_coefficients(order: Indices) -> Coefficients:
    """Return the verdicts on columns about which nothing is known."""
    return Coefficients({int(j): Behaviour.UNDECIDED for j in order}, order.tolist(), [])


def _starts(cone: Cone, pivots: Pivots, rows: LiftedRows, v: RationalVector) -> Iterator[RationalVector]:
    """Yield coordinates of vectors that may be positive on all separated rows, from a v that is."""
    yield tuple(v[pivots.kept[k]] for k in cone.free)  # this is v itself if v is zero in the aliased columns
    if not pivots.aliased:
        return
    # The margins of v belong to a vector without aliased columns too.
    index = np.union1d(np.intersect1d(pivots.rows, cone.separated), spread(cone.separated, 4 * cone.size))
    t = least_squares(cone.reduced(index), rows.margins(nearest_floats(v))[index])
    if t is not None:
        yield literal_fractions(t)


@dataclass(eq=False)
class _SignSearch:
    """The search for the signs of the infinite coefficients of a cone; columns are positions of kept ones."""

    cone: Cone
    start: RationalVector
    above: dict[int, Coordinates] = field(default_factory=dict)
    below: dict[int, Coordinates] = field(default_factory=dict)
    memberships: dict[int, Membership] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start = shortened(self.start) if any(self.start) else ()
        self.base = nearest_floats(self.start)
        self.is_started = False
        if self.start:
            self.exact = self.cone.vector(self.start)
            (contradictions,) = self.cone.prove_directions([self.start])
            self.is_started = not contradictions.size

    def run(self) -> None:
        """Look for both signs, or a proof of one, of each infinite coefficient."""
        cone = self.cone
        self.memberships |= passed_signs(cone)
        left = [j for j in cone.infinite if not self._is_decided(j)]
        index = self._first_rows()
        for _ in range(MAX_ROUNDS if left else 0):
            check_time()
            added = self._keep(self._proposals(index, left))
            left = [j for j in left if not self._is_decided(j)]
            grown = np.union1d(index, np.concatenate(added)) if added else index
            if not left or grown.size == index.size:
                break
            index = grown
        # A search takes about 20 steps of an interior point; what is too expensive stays undecided.
        affordable = int(SEARCH_WORK / (20.0 * index.size * cone.size**2))
        for j in left:
            check_time()
            if not self._sign(j):
                self._beside(j)
            elif affordable > 0:
                self._exactly(j, index)
                affordable -= 1

    def _beside(self, j: int) -> None:
        """Prove both signs of an entry that is 0 at the start, by exact moves too small for float64."""
        t, (k, slope) = self.start, next(iter(self.cone.terms[j].items()))
        for step in (Fraction(1, 2**bits) / slope for bits in _SMALL_MOVES if not self._is_decided(j)):
            self._keep({(j, sign): (*t[:k], t[k] + sign * step, *t[k + 1 :]) for sign in (1, -1)})

    def _keep(self, proposals: Mapping[tuple[int, int], Coordinates]) -> list[Indices]:
        """Keep the vectors that are proven, and return the rows that contradict the others."""
        contradictions = self.cone.prove_directions(list(proposals.values()))
        for ((j, sign), t), rows in zip(proposals.items(), contradictions, strict=True):
            if not rows.size and self.cone.entry(t, j) * sign > 0:
                (self.above if sign > 0 else self.below)[j] = t
        return [rows for rows in contradictions if rows.size]

    def report(self, found: Coefficients) -> Coefficients:
        """Return the verdicts on the columns with what was found about the infinite ones."""
        found, kept = replace(found, base=self.start), found.kept
        for j in self.cone.infinite:
            if not self._is_decided(j):
                continue
            member = self.memberships.get(j)
            if member is None:
                word = Behaviour.EITHER
            else:
                word = Behaviour.PLUS_INFINITY if member.sign > 0 else Behaviour.MINUS_INFINITY
                found.memberships[kept[j]] = member
            found.behaviours[kept[j]] = word
            for ours, theirs in ((self.above, found.above), (self.below, found.below)):
                if j in ours and member is None:
                    theirs[kept[j]] = ours[j]
        either = [j for j in self.cone.infinite if found.behaviours[kept[j]] is Behaviour.EITHER]
        if either and not found.is_interrupted:
            signs = max_margin_signs(self.cone, self.base, self._first_rows(), either)
            found.max_margin_signs.update({kept[j]: sign for j, sign in signs.items()})
        return found

    def _sign(self, j: int) -> int:
        """Return the sign of v_j in the direction that separates all rows."""
        return (self.exact[j] > 0) - (self.exact[j] < 0)

    def _is_decided(self, j: int) -> bool:
        sign = self._sign(j)
        has_both = (sign > 0 or j in self.above) and (sign < 0 or j in self.below)
        return has_both or j in self.memberships

    def _first_rows(self) -> Indices:
        """Return all separated rows if their copy is small, else those of small margin and some others."""
        separated, size = self.cone.distinct, self.cone.size
        if separated.size * size <= WORKING_ENTRIES:
            return separated
        margins = self.cone.margins(self.base)[np.searchsorted(self.cone.separated, separated)]
        count = 20 * size
        hard = separated[np.argsort(margins, kind="stable")[:count]]
        return np.union1d(hard, spread(separated, count))

    def _proposals(self, index: Indices, left: list[int]) -> dict[tuple[int, int], Array]:
        """Propose vectors of the cone with the missing sign of each coefficient, and prove memberships."""
        G = self.cone.reduced(index)
        _, first = np.unique(G, axis=0, return_index=True)
        index, G = index[np.sort(first)], G[np.sort(first)]
        G, row_powers, powers = balance(G)
        t = np.ldexp(self.base, -powers)
        C = np.ldexp(self.cone.functions[left].toarray(), powers)
        if not (np.isfinite(G).all() and np.isfinite(t).all() and np.isfinite(C).all()):
            return {}
        vectors, duals = opposite_vectors(G, t, C, np.array([self._sign(j) for j in left]))
        for k, q in duals.items():
            if time_left() < 0.0:  # Vectors that are found by now are kept.
                break
            is_positive = q.min() > -_ROUNDED * q.max()
            # No more weights of a basic solution are positive than rows can be independent.
            is_basic = is_positive and np.count_nonzero(q > _ROUNDED * q.max()) <= G.shape[1]
            j, scales = left[k], np.ldexp(1.0, row_powers)
            if not (is_basic and self._prove_membership(j, self._sign(j), index, scales * q)):
                found = self._by_least_squares(j, C[k], index, G, scales, t)
                vectors |= {(k, -self._sign(j)): vector for vector in found}
        proposals = {(left[k], sign): np.ldexp(v, powers) for (k, sign), v in vectors.items()}
        return {key: t for key, t in proposals.items() if np.isfinite(t).all()}

    def _by_least_squares(
        self, j: int, c: Array, index: Indices, G: Array, scales: Array, t: Array
    ) -> list[Array]:
        """Prove that ``sign e_j``, c in the coordinates, is a combination of rows, or propose a vector.

        The residual of the best combination is a vector of the cone in which v_j has the other sign.
        """
        from scipy.optimize import nnls

        if not (sign := self._sign(j)):
            return []
        length, count = norm(c), 2 * G.shape[1]
        c, margins = sign * c / length, G @ t
        # Rows that the move towards the other sign meets first come into question for the combination.
        meets = margins / np.maximum(G @ c, np.finfo(float).tiny)
        used = np.union1d(np.argsort(meets)[:count], np.argsort(margins)[:count])
        for _ in range(MAX_ROUNDS):
            check_time()
            try:
                q, _ = nnls(np.ascontiguousarray(G[used].T), c, maxiter=10 * (used.size + c.size))
            except (RuntimeError, ValueError):  # too many steps, or numbers beyond the floating range
                break
            residual = c - q @ G[used]
            if norm(residual) < _ZERO:
                self._prove_membership(j, sign, index[used], length * scales[used] * q)
                break
            # A small multiple of the direction t makes all margins positive and keeps the sign of v_j.
            share = 0.5 * float(residual @ residual) / float(c @ t)
            reached = share * margins - G @ residual
            worst = np.argsort(reached)[:count]
            grown = np.union1d(used, worst[reached[worst] <= 0.0])
            if grown.size == used.size:
                return [share * t - residual]
            used = grown
        return []

    def _prove_membership(self, j: int, sign: int, index: Indices, q: Array) -> bool:
        for fraction in _PRUNED:
            used = np.flatnonzero(q > fraction * q.max(initial=0.0))
            order = np.argsort(index[used])
            member = prove_membership(self.cone, j, sign, index[used][order], q[used][order])
            if member is not None:
                self.memberships[j] = member
                return True
        return False

    def _exactly(self, j: int, index: Indices) -> None:
        """Decide one coefficient by the search for the partition of the rows and ``-sign e_j``."""
        cone, sign = self.cone, self._sign(j)
        for _ in range(MAX_ROUNDS):
            search = Search(augmented(cone, j, sign, index))
            found = search.find_proof()
            last = search.rows.n - 1
            if found is None or (found.p is None and found.v is None):
                return
            if found.p is not None and last in found.boundary:
                member = exact_membership(cone, j, sign, index, found.proof, last)
                if member is not None:
                    self.memberships[j] = member
                elif found.p[last] > 0.0:
                    self._prove_membership(j, sign, index, found.p[: index.size] / found.p[last])
                return
            exact = found.proof.direction or literal_fractions(found.v)  # type: ignore[arg-type]
            is_reduced = len(exact) == cone.size
            t = tuple(map(mul, exact, cone.units)) if is_reduced else tuple(exact[k] for k in cone.free)
            # A small multiple of the separating direction makes all margins positive and keeps the sign.
            share = -sign * cone.entry(t, j) / (2 * abs(self.exact[j]))
            t = tuple(x + share * y for x, y in zip(t, self.start, strict=True))
            (contradictions,) = cone.prove_directions([t])
            if not contradictions.size:
                if cone.entry(t, j) * sign < 0:
                    (self.below if sign > 0 else self.above)[j] = t
                return
            if np.isin(contradictions, index).all():
                return
            index = np.union1d(index, contradictions)
