"""The questions that a run asks of rows, each answered by one pass; `prgd.rows.measures` has others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from prgd.core.arithmetic import compensated_bound, two_product, two_sum
from prgd.core.types import Array, Indices
from prgd.losses import Loss
from prgd.rows.base import LeafRows, Query, places_within
from prgd.rows.labels import Labels
from prgd.rows.tally import Tally, merge

_ACCURATE_ENTRIES, _ACCURATE_ROWS = (
    2**20,
    2**12,
)  # dense entries or sparse rows gathered at a time


class Smallest(NamedTuple):
    """The rows of a group with the smallest margins.

    Attributes
    ----------
    smallest : float
        The smallest margin of all rows of the group that have positive weight, infinite if it has none.
    margins, indices : ndarray
        The rows of smallest margin among those that were asked for, in ascending order of margin.
    """

    smallest: float
    margins: Array
    indices: Indices


class Accurate(NamedTuple):
    """Margins and bounds on their errors: ``|margins_i - y_i (<w, x_i> + b)| <= errors_i`` is proven.

    Where no bound holds, since a product left the floating range, the margin is 0 and its error infinite.
    """

    margins: Array
    errors: Array


@dataclass(frozen=True, eq=False)
class TallyAt(Query[Tally]):
    r"""Sum all rows at ``w``: the Tally of one group, or of each class.

    .. math::

        \textstyle\sum_i \ell(\langle w, z_i\rangle), \quad \sum_i \ell'(\langle w, z_i\rangle)\, z_i, \quad
        \min_i \langle w, z_i\rangle

    With a ``second`` direction v the same pass finds the smallest ``<v, z_i>``.
    """

    w: Array
    loss: Loss
    by_class: bool = False
    second: Array | None = None
    is_repeated: bool = True  # type: ignore[misc]

    def answer(self, rows: LeafRows, labels: Labels) -> Tally:
        """Weigh the margins and combine the rows: two products instead of one pass."""
        s = labels.sample_weight if labels.sample_weight.size else np.ones(rows.n)
        second = None if self.second is None else rows.times(self.second)
        scalars, vectors = self.sums(rows.times(self.w), labels.signs, s, rows.combine, second=second)
        return Tally(np.array(scalars), np.array(vectors))

    def sums(
        self,
        products: Any,
        signs: Any,
        s: Any,
        combine: Callable[[Any], Any],
        xp: ModuleType = np,
        second: Any = None,
    ) -> Any:
        """Return the scalars and the vectors of each group, from ``<w, x_i>`` and ``combine(c) = X^T c``.

        Arrays are those of ``xp``, which is ``numpy`` or ``torch``; ``s`` are the sample weights, and
        ``second`` the products ``<v, x_i>`` with the second direction, if there is one.
        """
        groups = [signs > 0, signs < 0] if self.by_class else [signs != 0]
        weighed = [weigh(products * signs, xp.where(group, s, 0.0), self.loss, xp) for group in groups]
        scalars = [numbers for _, numbers in weighed]
        if second is not None:
            lowest = [xp.where(group & (s > 0.0), second * signs, xp.inf).min() for group in groups]
            scalars = [xp.concatenate([a, b[None]]) for a, b in zip(scalars, lowest, strict=True)]
        return scalars, [combine(terms * signs) for terms, _ in weighed]

    def merge(self, parts: Sequence[Tally]) -> Tally:
        """Merge Tallies."""
        return merge(parts)


def weigh(m: Any, s: Any, loss: Loss, xp: ModuleType = np) -> tuple[Any, Any]:
    """Return ``s_i (-l'(m_i))`` and the scalars of a Tally, all relative to the largest terms.

    Margins and weights are arrays of ``xp``, which is ``numpy`` or ``torch``, and so is the answer.
    """
    margins = xp.where(s > 0.0, m, xp.inf)
    if not bool((margins < xp.inf).any()):
        return xp.zeros_like(m), xp.asarray(Tally.identity(1, 0).scalars[0])
    log_slope, log_value = loss.log_slope(margins, xp), loss.log_value(margins, xp)
    shift, slope_shift = log_value.max(), log_slope.max()
    terms, mass = s * xp.exp(log_slope - slope_shift), s * xp.exp(log_value - shift)
    return terms, xp.stack([shift, mass.sum(), slope_shift, terms.sum(), margins.min(), s.sum()])


@dataclass(frozen=True, eq=False)
class MarginsAt(Query[Array]):
    r"""Return ``<w, z_i>`` for every row: n numbers.

    .. math:: m_i = \langle w, z_i\rangle
    """

    w: Array

    def answer(self, rows: LeafRows, labels: Labels) -> Array:
        """Multiply the rows by w."""
        return rows.times(self.w) * labels.signs

    def merge(self, parts: Sequence[Array]) -> Array:
        """Join the margins of consecutive parts."""
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class AccurateAt(Query[Accurate]):
    """Return ``y_i (<w, x_i> + b)`` for every row, summed in twice the precision of float64, with bounds.

    Dot2 of Ogita, Rump and Oishi (2005) over the d products and b; `compensated_bound` is the bound. This is
    for the rare w whose plain margins are smaller than their errors (rows with a large offset): a pass takes
    several times as long as one of `MarginsAt`. Infinite or NaN entries of w give infinite errors.

    Examples
    --------
    >>> from prgd.rows import DenseRows
    >>> rows = DenseRows([[1e16, 1.0]])
    >>> rows.ask(MarginsAt(np.ones(2))) - 1e16, rows.ask(AccurateAt(np.ones(2), -1e16)).margins
    (array([0.]), array([1.]))
    """

    w: Array
    intercept: float = 0.0
    is_repeated: ClassVar[bool] = True  # NumPy takes the columns one by one, which is slow if they are many

    def answer(self, rows: LeafRows, labels: Labels) -> Accurate:
        """Gather the rows part by part, and multiply them in NumPy."""
        step = _ACCURATE_ROWS if rows.is_sparse else max(1, _ACCURATE_ENTRIES // rows.d)
        cuts = [*range(0, rows.n, step), rows.n]
        parts = [self._products(rows.take(np.arange(i, j))) for i, j in pairwise(cuts)]
        products, corrections = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self.bounded(products, corrections, labels)

    def _products(self, block: Any) -> tuple[Array, Array]:
        """Return the products of gathered rows, and the sums of their absolute corrections."""
        total, low, size = np.full(block.shape[0], self.intercept), *np.zeros((2, block.shape[0]))
        with np.errstate(over="ignore", invalid="ignore"):  # `bounded` finds what is not finite
            for at, x, w in self._terms(block):
                product, error = two_product(x, w)
                total[at], rest = two_sum(total[at], product)
                correction = rest + error
                low[at] += correction
                size[at] += np.abs(correction)
            return total + low, size

    def _terms(self, block: Any) -> Iterator[tuple[Any, Array, Any]]:
        """Yield some rows of a block, the next entry of each and its factor, until no row has another."""
        if isinstance(block, np.ndarray):
            yield from ((slice(None), block[:, j], self.w[j]) for j in range(self.w.size))
            return
        counts = np.diff(block.indptr)
        for k in range(counts.max(initial=0)):
            at = np.flatnonzero(counts > k)
            entries = block.indptr[at] + k
            yield at, block.data[entries], self.w[block.indices[entries]]

    def bounded(self, products: Array, corrections: Array, labels: Labels) -> Accurate:
        """Return margins and errors from ``<w, x_i> + b`` and the sums of the absolute corrections."""
        errors = compensated_bound(self.w.size + 1, products, corrections)
        return Accurate(np.where(errors < np.inf, products * labels.signs, 0.0), errors)

    def merge(self, parts: Sequence[Accurate]) -> Accurate:
        """Join the margins of consecutive parts."""
        return Accurate(*(np.concatenate(numbers) for numbers in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class SmallestAt(Query[tuple[Smallest, ...]]):
    """Find the ``max_rows`` rows of smallest ``<w, z_i>``, of all rows or of each class.

    Rows ``without`` (ascending) count in `Smallest.smallest` only, and rows of sample weight 0 nowhere. The
    answer does not grow with n.
    """

    w: Array
    max_rows: int
    by_class: bool
    without: Indices
    first: int = 0  # index of the first row that this query is about
    # With a number here, margins are lower bounds of ``y_i (<w, x_i> + near)`` by compensated products.
    near: float | None = None

    def part(self, at: slice) -> SmallestAt:
        """Keep what ``without`` says about these rows."""
        mine = places_within(self.without, at)
        return replace(self, without=self.without[mine] - at.start, first=self.first + at.start)

    def answer(self, rows: LeafRows, labels: Labels) -> tuple[Smallest, ...]:
        """Pick the answer from the margins of all rows."""
        if self.near is None:
            return self.pick(rows.ask(MarginsAt(self.w), labels), labels)
        found = rows.ask(AccurateAt(self.w, self.near), labels)
        return self.pick(found.margins - found.errors, labels)

    def pick(self, margins: Array, labels: Labels) -> tuple[Smallest, ...]:
        """Pick the answer from the margins of all rows.

        Examples
        --------
        >>> query = SmallestAt(np.ones(1), 1, False, np.array([1]))
        >>> query.pick(np.array([3.0, 1.0, 2.0]), Labels.read(None, None, 3))
        (Smallest(smallest=1.0, margins=array([2.]), indices=array([2])),)
        """
        rest = np.ones(margins.size, bool)
        if labels.sample_weight.size:
            rest = labels.sample_weight > 0.0
            margins = np.where(rest, margins, np.inf)
        rest[self.without] = False
        found = []
        for group in labels.groups(self.by_class):
            outside = np.flatnonzero(rest if isinstance(group, slice) else rest & group)
            values = margins[outside]
            if values.size > self.max_rows:
                kept = np.argpartition(values, self.max_rows - 1)[: self.max_rows]
                outside, values = outside[kept], values[kept]
            order = np.argsort(values, kind="stable")
            smallest = float(margins[group].min(initial=np.inf))
            indices = (outside[order] + self.first).astype(np.int64)
            found.append(Smallest(smallest, values[order], indices))
        return tuple(found)

    def merge(self, parts: Sequence[tuple[Smallest, ...]]) -> tuple[Smallest, ...]:
        """Keep the smallest of all parts."""
        return tuple(merge_smallest(group, self.max_rows) for group in zip(*parts, strict=True))


def merge_smallest(parts: Sequence[Smallest], max_rows: int) -> Smallest:
    """Return the rows of smallest margin of a group, from those of consecutive parts."""
    margins = np.concatenate([part.margins for part in parts])
    indices = np.concatenate([part.indices for part in parts])
    order = np.lexsort((indices, margins))[:max_rows]
    return Smallest(min(part.smallest for part in parts), margins[order], indices[order])


@dataclass(frozen=True, eq=False)
class Combine(Query[Array]):
    r"""Return ``Z^T p`` for weights p, given by their non-zero entries; other rows are not read.

    .. math:: Z^\top p = \textstyle\sum_i p_i z_i
    """

    indices: Indices  # ascending
    values: Array

    @classmethod
    def of(cls, p: Array) -> Combine:
        """Take p as one number for each row."""
        carried = np.flatnonzero(p)
        return cls(carried, p[carried])

    def part(self, at: slice) -> Combine:
        """Keep the weights of these rows."""
        mine = places_within(self.indices, at)
        return Combine(self.indices[mine] - at.start, self.values[mine])

    def wants(self, at: slice) -> bool:
        """Return whether a row there carries weight."""
        mine = places_within(self.indices, at)
        return bool(mine.stop > mine.start)

    def answer(self, rows: LeafRows, labels: Labels) -> Array:
        """Combine the rows that carry weight."""
        c = np.zeros(rows.n)
        c[self.indices] = self.values * labels.at(self.indices)
        return rows.combine(c)

    def merge(self, parts: Sequence[Array]) -> Array:
        """Add the sums of the parts."""
        return np.asarray(np.sum(parts, axis=0))


@dataclass(frozen=True, eq=False)
class CurvatureAt(Query[tuple[Array, float]]):
    r"""Return ``X^T (c * X v)`` and ``sum(c * X v)`` for weights c of rows; others are not needed.

    .. math:: \textstyle\sum_i c_i \langle x_i, v\rangle x_i, \quad \sum_i c_i \langle x_i, v\rangle
    """

    v: Array
    indices: Indices  # ascending
    values: Array

    def part(self, at: slice) -> CurvatureAt:
        """Keep the weights of these rows."""
        mine = places_within(self.indices, at)
        return CurvatureAt(self.v, self.indices[mine] - at.start, self.values[mine])

    def wants(self, at: slice) -> bool:
        """Return whether a row there carries weight."""
        mine = places_within(self.indices, at)
        return bool(mine.stop > mine.start)

    def answer(self, rows: LeafRows, labels: Labels) -> tuple[Array, float]:
        """Multiply the rows by v, and combine them."""
        c = np.zeros(rows.n)
        c[self.indices] = self.values
        c *= rows.times(self.v)
        return rows.combine(c), float(c.sum())

    def merge(self, parts: Sequence[tuple[Array, float]]) -> tuple[Array, float]:
        """Add the sums of the parts."""
        vectors, sums = zip(*parts, strict=True)
        return np.asarray(np.sum(vectors, axis=0)), float(sum(sums))
