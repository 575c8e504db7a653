"""The questions about all K classes jointly, each answered by one pass.

With W of shape (K, d), a row of class y has a margin ``m_ij = <w_y - w_j, x_i>`` against every other class j.
Such a pair (i, j) is one row ``x_i (x) (e_y - e_j)`` of a binary problem, which is never formed. Pairs are
numbered ``i K + j``; those of a row with its own class do not exist, and their margins are infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from prgd.core.arithmetic import UNIT_ROUNDOFF
from prgd.core.types import Array, Indices
from prgd.rows.base import LeafRows, Query, places_within
from prgd.rows.labels import Labels
from prgd.rows.queries import Accurate, AccurateAt, MarginsAt, Smallest, TallyAt, merge_smallest, weigh
from prgd.rows.tally import MARGIN, Tally


def products_of(rows: LeafRows, W: Array) -> Array:
    """Return ``<w_k, x_i>`` for every row and class, as an array of shape (n, K)."""
    return np.stack([rows.times(w) for w in W], axis=1)


def pair_margins(products: Any, codes: Any, xp: ModuleType = np) -> Any:
    """Return the margin of every row against every class, infinite for its own; ``xp`` is numpy or torch."""
    at = xp.arange(products.shape[0]) if xp is np else xp.arange(products.shape[0], device=products.device)
    with np.errstate(invalid="ignore", over="ignore"):
        margins = products[at, codes][:, None] - products
    margins[at, codes] = xp.inf
    return margins


@dataclass(frozen=True, eq=False)
class JointTallyAt(TallyAt):
    """Sum all pairs at W: the Tally of one group, or of each pair of classes.

    The loss of a row is ``l(s_i)`` with the soft margin ``s_i = -log sum_j exp(-m_ij)``: the sum of the
    exponentials of its pairs for the exponential loss, cross-entropy for the logistic one. The weight of a
    pair is ``p_ij = -l'(s_i) exp(s_i - m_ij)``.

    - One group has a vector of K d numbers, row by row of the matrix ``sum_ij p_ij (e_y - e_j) x_i^T``.
    - ``by_class`` (exponential loss only) sums the pairs of class k against class j in the group ``k K + j``:
      ``sum_i exp(-m_ij) x_i``, a vector of d numbers. The groups k = j are those of no rows.
    """

    def answer(self, rows: LeafRows, labels: Labels) -> Tally:
        """Weigh the margins and combine the rows: two products instead of one pass."""
        s = labels.sample_weight if labels.sample_weight.size else np.ones(rows.n)
        scalars, vectors = self.sums(products_of(rows, self.w), labels.codes, s, rows.combine)
        return Tally(np.array(scalars), np.array(vectors))

    def sums(
        self,
        products: Any,
        codes: Any,
        s: Any,
        combine: Callable[[Any], Any],
        xp: ModuleType = np,
        second: None = None,
    ) -> Any:
        """Return the scalars and the vectors of each group, from ``<w_k, x_i>`` and ``combine(c) = X^T c``.

        Arrays are those of ``xp``, which is ``numpy`` or ``torch``; ``s`` are the sample weights. There
        is no second direction.
        """
        m, K = pair_margins(products, codes, xp), len(self.w)
        if self.by_class:
            groups = [
                (m[:, j], xp.where((codes == k) & (k != j), s, 0.0)) for k in range(K) for j in range(K)
            ]
            weighed = [weigh(margins, mine, self.loss, xp) for margins, mine in groups]
            return [scalars for _, scalars in weighed], [combine(terms) for terms, _ in weighed]
        low = xp.amin(m, 1)
        relative = xp.exp(low[:, None] - m)
        total = relative.sum(1)
        terms, scalars = weigh(low - xp.log(total), s, self.loss, xp)
        counted = low[s > 0.0]
        scalars[MARGIN] = counted.min() if len(counted) else xp.inf
        factors = -(terms / total)[:, None] * relative
        vectors = [combine(xp.where(codes == k, terms, factors[:, k])) for k in range(K)]
        return [scalars], [xp.concatenate(vectors)]


@dataclass(frozen=True, eq=False)
class JointMarginsAt(MarginsAt):
    r"""Return ``m_ij`` for every pair as an array of shape (n, K), infinite for the class of the row.

    .. math:: m_{ij} = \langle w_{y_i} - w_j, x_i\rangle
    """

    def answer(self, rows: LeafRows, labels: Labels) -> Array:
        """Multiply the rows by the vector of each class."""
        return np.asarray(pair_margins(products_of(rows, self.w), labels.codes))


@dataclass(frozen=True, eq=False)
class JointAccurateAt(Query[Accurate]):
    """Return ``<w_y - w_j, x_i> + b_y - b_j`` for every pair, with proven bounds on the errors.

    The products of each class are those of `AccurateAt`.
    """

    w: Array
    intercept: Array

    def answer(self, rows: LeafRows, labels: Labels) -> Accurate:
        """Multiply the rows by the vector of each class, in twice the precision of float64."""
        parts = [
            rows.ask(AccurateAt(w, b), labels) for w, b in zip(self.w, self.intercept.tolist(), strict=True)
        ]
        products, errors = (np.stack(numbers, axis=1) for numbers in zip(*parts, strict=True))
        margins, at = pair_margins(products, labels.codes), np.arange(rows.n)
        bound = errors[at, labels.codes][:, None] + errors
        with np.errstate(invalid="ignore"):
            bound = (bound + 2.0 * UNIT_ROUNDOFF * np.abs(margins)) * (1.0 + 8.0 * UNIT_ROUNDOFF)
        margins[~np.isfinite(bound)] = 0.0
        margins[at, labels.codes], bound[at, labels.codes] = np.inf, 0.0
        return Accurate(margins, bound)

    def merge(self, parts: Sequence[Accurate]) -> Accurate:
        """Join the margins of consecutive parts."""
        return Accurate(*(np.concatenate(numbers) for numbers in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class JointSmallestAt(Query[tuple[Smallest, ...]]):
    """Find the ``max_rows`` pairs of smallest margin, of all pairs or of each pair of classes.

    The group of class k against class j is the group ``k K + j``. Pairs ``without`` (ascending) count in
    `Smallest.smallest` only, and rows of sample weight 0 nowhere.
    """

    w: Array
    max_rows: int
    by_class: bool
    without: Indices
    intercept: Array  # one number for each class, added to the products
    first: int = 0  # index of the first row that this query is about
    is_accurate: bool = False  # margins are lower bounds by compensated products

    def part(self, at: slice) -> JointSmallestAt:
        """Keep what ``without`` says about these rows."""
        K = len(self.w)
        mine = places_within(self.without, slice(at.start * K, at.stop * K))
        return replace(self, without=self.without[mine] - at.start * K, first=self.first + at.start)

    def answer(self, rows: LeafRows, labels: Labels) -> tuple[Smallest, ...]:
        """Pick the answer from the margins of all pairs."""
        if self.is_accurate:
            found = rows.ask(JointAccurateAt(self.w, self.intercept), labels)
            return self.pick(found.margins - found.errors, labels)
        return self.pick(pair_margins(products_of(rows, self.w) + self.intercept, labels.codes), labels)

    def pick(self, margins: Array, labels: Labels) -> tuple[Smallest, ...]:
        """Pick the answer from the margins of all pairs."""
        K = len(self.w)
        if labels.sample_weight.size:
            margins[labels.sample_weight == 0.0] = np.inf
        codes, flat = labels.codes, margins.ravel()
        rest = np.isfinite(flat)
        rest[self.without] = False
        if not self.by_class:
            return (self._group(flat, np.flatnonzero(rest), float(flat.min(initial=np.inf))),)
        found = []
        for k in range(K):
            rows = np.flatnonzero(codes == k)
            for j in range(K):
                pairs = rows * K + j
                smallest = float(flat[pairs].min(initial=np.inf)) if j != k else np.inf
                found.append(self._group(flat, pairs[rest[pairs]], smallest))
        return tuple(found)

    def _group(self, margins: Array, pairs: Indices, smallest: float) -> Smallest:
        values = margins[pairs]
        if values.size > self.max_rows:
            kept = np.argpartition(values, self.max_rows - 1)[: self.max_rows]
            pairs, values = pairs[kept], values[kept]
        order = np.argsort(values, kind="stable")
        indices = (pairs[order] + self.first * len(self.w)).astype(np.int64)
        return Smallest(smallest, values[order], indices)

    def merge(self, parts: Sequence[tuple[Smallest, ...]]) -> tuple[Smallest, ...]:
        """Keep the smallest of all parts."""
        return tuple(merge_smallest(group, self.max_rows) for group in zip(*parts, strict=True))
