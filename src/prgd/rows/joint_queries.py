"""The questions about all K classes jointly, each answered by one pass.

With W of shape (K, d), a row of class y has a margin ``m_ij = <w_y - w_j, x_i>`` against every other class j.
Such a pair (i, j) is one row ``x_i (x) (e_y - e_j)`` of a binary problem, which is never formed. Pairs are
numbered ``i K + j``; those of a row with its own class do not exist, and their margins are infinite.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from prgd.core.arithmetic import compensated_bound, like, namespace, to_host, two_sum
from prgd.core.types import Array
from prgd.rows.base import Block, LeafRows, places_within
from prgd.rows.blocks import is_sparse
from prgd.rows.labels import Labels
from prgd.rows.queries import (
    Accurate,
    AccurateAt,
    MarginsAt,
    Smallest,
    SmallestQuery,
    TallyAt,
    smallest_of,
    weigh,
)
from prgd.rows.tally import MARGIN, Tally, merge

_BLOCK_ENTRIES = 2**16  # entries of the rows that are multiplied at a time: they stay in the cache


def block_rows(rows: LeafRows, numbers: int) -> int:
    """Return the rows of a block that stays in the cache, many more than vectors of so many numbers take."""
    return max(_BLOCK_ENTRIES, 8 * numbers) // rows.row_entries


def pair_margins(rows: LeafRows, W: Array, intercept: Array | None, labels: Labels) -> Array:
    """Return the margin of every row against every class, of shape (n, K), infinite for its own."""
    blocks = rows.blocks(block_rows(rows, W.size))
    with np.errstate(over="ignore", invalid="ignore"):  # products may leave the floating range
        products = np.concatenate(
            [to_host(block @ (W.T if is_sparse(block) else like(block, W.T))) for _, block in blocks]
        )
        products = products if intercept is None else products + intercept
        own = np.arange(len(products)), labels.codes
        margins = products[own][:, None] - products
    margins[own] = np.inf
    return np.asarray(margins)


def _combined(weights: Any, block: Any) -> Any:
    return (weights if isinstance(weights, np.ndarray) else like(block, weights)) @ block


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

    @property
    def numbers(self) -> int:
        """Number of entries of the vectors of the answer."""
        return int(self.w.size) * (len(self.w) if self.by_class else 1)

    def answer(self, rows: LeafRows, labels: Labels) -> Tally:
        """Multiply each block of rows by the vectors of all classes, and by the weights that follow."""
        return self.of_blocks(rows.blocks(block_rows(rows, self.numbers)), labels)

    def of_blocks(self, blocks: Iterable[tuple[slice, Block]], labels: Labels) -> Tally:
        """Return the Tally of consecutive blocks, which are arrays, CSR arrays or tensors."""
        found: list[Tally] = []
        for at, block in blocks:
            codes, s = labels.of_block(at)
            if self.by_class:  # rows of a class come together
                order = namespace(codes).argsort(codes)
                block = block.take(order, 0) if isinstance(block, np.ndarray) else block[order]
                codes, s = codes[order], None if s is None else s[order]
            with np.errstate(invalid="ignore", over="ignore"):
                is_host = isinstance(codes, np.ndarray)
                products = self.w @ block.T if is_host else (like(block, self.w) @ block.T).double()
                tally = self._tally_by_class if self.by_class else self._tally
                found.append(tally(block, products, codes, s))
        return merge(found)

    def _tally(self, block: Block, products: Any, codes: Any, s: Any) -> Tally:
        """Return the Tally of a block from its products, of shape (K, rows)."""
        xp, at = namespace(products), np.arange(len(codes))
        s = xp.ones_like(products[0]) if s is None else s
        products -= products[codes, at]  # minus the margins
        products[codes, at] = -xp.inf
        top = xp.amax(products, 0)
        products -= top
        relative = xp.exp(products)
        total = relative.sum(0)
        terms, scalars = weigh(-top - xp.log(total), s, self.loss, xp)
        scalars[MARGIN] = xp.where(s > 0.0, -top, xp.inf).min()
        relative *= -terms / total
        relative[codes, at] = terms
        vector = to_host(_combined(relative, block))
        return Tally(to_host(scalars)[None], np.asarray(vector, np.float64).reshape(1, -1))

    def _tally_by_class(self, block: Block, products: Any, codes: Any, s: Any) -> Tally:
        """Return the Tally of a block for each pair of classes, whose codes ascend."""
        xp, (K, d) = namespace(products), self.w.shape
        tally = Tally.identity(K * K, d)
        scalars, vectors = tally.scalars.reshape(K, K, -1), tally.vector.reshape(K, K, d)
        ends = np.cumsum(to_host(xp.bincount(codes, minlength=K))).tolist()
        for k, (first, last) in enumerate(pairwise([0, *ends])):
            if first == last:
                continue
            gaps = products[:, first:last] - products[k, first:last]
            mass = xp.ones_like(gaps[0]) if s is None else s[first:last]
            gaps[:, mass == 0.0] = -xp.inf
            top = xp.amax(gaps, 1)
            weights = xp.exp(gaps - xp.where(top > -xp.inf, top, 0.0)[:, None]) * mass
            weights[k] = 0.0
            vectors[k] = to_host(_combined(weights, block[first:last]))
            top, sums = to_host(top), to_host(weights.sum(1))
            scalars[k] = np.stack([top, sums, top, sums, -top, np.full(K, float(mass.sum()))], axis=1)
            scalars[k, k] = Tally.identity(1, 0).scalars[0]
        return tally


@dataclass(frozen=True, eq=False)
class JointMarginsAt(MarginsAt):
    r"""Return ``m_ij`` for every pair as an array of shape (n, K), infinite for the class of the row.

    .. math:: m_{ij} = \langle w_{y_i} - w_j, x_i\rangle
    """

    def answer(self, rows: LeafRows, labels: Labels) -> Array:
        """Multiply the rows by the vector of each class."""
        return pair_margins(rows, self.w, None, labels)


@dataclass(frozen=True, eq=False)
class JointAccurateAt(AccurateAt):
    """Return ``<w_y - w_j, x_i> + b_y - b_j`` for every pair, with proven bounds on the errors.

    The products of each class are those of `AccurateAt`, whose parts are subtracted before they are rounded.
    """

    intercept: Array  # type: ignore[assignment]

    def answer(self, rows: LeafRows, labels: Labels) -> Accurate:
        """Multiply the rows by the vector of each class, in twice the precision of float64."""
        parts = [AccurateAt(w, b).parts(rows) for w, b in zip(self.w, self.intercept.tolist(), strict=True)]
        high, low, corrections = (np.stack(numbers, axis=1) for numbers in zip(*parts, strict=True))
        at = np.arange(rows.n)
        own = at, labels.codes
        with np.errstate(over="ignore", invalid="ignore"):
            total, rest = two_sum(high[own][:, None], -high)
            margins = total + (rest + (low[own][:, None] - low))
            # Beside both products, this adds three small numbers to a large one.
            corrections = corrections[own][:, None] + corrections + np.abs(rest)
            bound = compensated_bound(2 * self.w.shape[1] + 8, margins, corrections)
        margins[~np.isfinite(bound)] = 0.0
        margins[own], bound[own] = np.inf, 0.0
        return Accurate(margins, bound)


@dataclass(frozen=True, eq=False)
class JointSmallestAt(SmallestQuery):
    """Find the ``max_rows`` pairs of smallest margin, of all pairs or of each pair of classes.

    The group of class k against class j is the group ``k K + j``. Pairs ``without`` (ascending) count in
    `Smallest.smallest` only, and rows of sample weight 0 nowhere.
    """

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
        return self.pick(pair_margins(rows, self.w, self.intercept, labels), labels)

    def pick(self, margins: Array, labels: Labels) -> tuple[Smallest, ...]:
        """Pick the answer from the margins of all pairs."""
        K, first = len(self.w), self.first * len(self.w)
        if labels.sample_weight.size:
            margins[labels.sample_weight == 0.0] = np.inf
        codes, flat = labels.codes, margins.ravel()
        rest = np.isfinite(flat)
        rest[self.without] = False
        if not self.by_class:
            smallest = float(flat.min(initial=np.inf))
            return (smallest_of(flat, np.flatnonzero(rest), self.max_rows, smallest, first),)
        found = []
        for k in range(K):
            rows = np.flatnonzero(codes == k)
            for j in range(K):
                pairs = rows * K + j
                smallest = float(flat[pairs].min(initial=np.inf)) if j != k else np.inf
                found.append(smallest_of(flat, pairs[rest[pairs]], self.max_rows, smallest, first))
        return tuple(found)
