"""The questions that a run asks of rows, each answered by one pass; `prgd.rows.blocks` has others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np

from prgd.core.arithmetic import compensated_bound, split, to_host, two_product, two_sum
from prgd.core.types import Array, Indices
from prgd.losses import Loss
from prgd.rows.base import LeafRows, M, Query, places_within
from prgd.rows.blocks import is_sparse
from prgd.rows.labels import Labels, frozen
from prgd.rows.tally import Tally, merge

# Rows with at most so many entries answer queries that are not repeated by NumPy, as fast as by a kernel and
# without compiling it. The rule sees the data alone, so results do not depend on what was compiled before.
SMALL_ENTRIES = 2**17
_ACCURATE_ENTRIES = 2**20  # entries of the rows that are multiplied at a time in twice the precision


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
        signs, s = labels.signs, labels.sample_weight if labels.sample_weight.size else np.ones(rows.n)
        groups = [signs > 0, signs < 0] if self.by_class else [signs != 0]
        margins = rows.times(self.w) * signs
        terms, scalars = zip(
            *(weigh(margins, np.where(group, s, 0.0), self.loss) for group in groups), strict=True
        )
        vectors = np.array([rows.combine(term * signs) for term in terms])
        if self.second is None:
            return Tally(np.array(scalars), vectors)
        beside = rows.times(self.second) * signs
        lowest = [np.where(group & (s > 0.0), beside, np.inf).min() for group in groups]
        return Tally(np.column_stack([scalars, lowest]), vectors)

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

    def answer(self, rows: LeafRows, labels: Labels) -> Accurate:
        """Add both parts of the products."""
        high, low, corrections = self.parts(rows)
        with np.errstate(invalid="ignore"):
            products = high + low
        errors = compensated_bound(self.w.size + 1, products, corrections)
        return Accurate(np.where(errors < np.inf, products * labels.signs, 0.0), errors)

    def parts(self, rows: LeafRows) -> tuple[Array, Array, Array]:
        """Return both parts of ``<w, x_i> + b`` of every row, and the sums of the absolute corrections.

        Rows are multiplied part by part, in the memory of this process; small ones without a kernel.
        """
        if rows.n * rows.row_entries <= SMALL_ENTRIES:
            return self._plain_products(rows.take(np.arange(rows.n)))
        from prgd.rows._kernels import accurate_products

        found = np.empty((3, rows.n))
        with np.errstate(over="ignore", invalid="ignore"):  # `compensated_bound` finds what is not finite
            w = tuple(frozen(part) for part in (self.w, *split(self.w)))
        for at, block in rows.blocks(max(1, _ACCURATE_ENTRIES // rows.row_entries)):
            A = (block.data, block.indices, block.indptr) if is_sparse(block) else (to_host(block),)
            accurate_products(tuple(map(frozen, A)), w, float(self.intercept), *found[:, at])
        return found[0], found[1], found[2]

    def _plain_products(self, block: Any) -> tuple[Array, Array, Array]:
        """Return the parts of the products of gathered rows, and the sums of their absolute corrections."""
        total, low, size = np.full(block.shape[0], self.intercept), *np.zeros((2, block.shape[0]))
        with np.errstate(over="ignore", invalid="ignore"):  # `compensated_bound` finds what is not finite
            for at, x, w in self._terms(block):
                product, error = two_product(x, w)
                total[at], rest = two_sum(total[at], product)
                low[at] += rest + error
                size[at] += np.abs(rest + error)
        return total, low, size

    def _terms(self, block: Any) -> Iterator[tuple[Any, Array, Any]]:
        """Yield some rows of a block, the next entry of each and its factor, until no row has another."""
        if not is_sparse(block):
            yield from ((slice(None), block[:, j], self.w[j]) for j in range(self.w.size))
            return
        counts = np.diff(block.indptr)
        for k in range(counts.max(initial=0)):
            at = np.flatnonzero(counts > k)
            entries = block.indptr[at] + k
            yield at, block.data[entries], self.w[block.indices[entries]]

    def merge(self, parts: Sequence[Accurate]) -> Accurate:
        """Join the margins of consecutive parts."""
        return Accurate(*(np.concatenate(numbers) for numbers in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class SmallestQuery(Query[tuple[Smallest, ...]]):
    """Find the smallest margins along w, at most ``max_rows`` of each group."""

    w: Array
    max_rows: int
    by_class: bool
    without: Indices

    def merge(self, parts: Sequence[tuple[Smallest, ...]]) -> tuple[Smallest, ...]:
        """Keep the smallest of all parts."""
        return tuple(merge_smallest(group, self.max_rows) for group in zip(*parts, strict=True))


@dataclass(frozen=True, eq=False)
class SmallestAt(SmallestQuery):
    """Find the ``max_rows`` rows of smallest ``<w, z_i>``, of all rows or of each class.

    Rows ``without`` (ascending) count in `Smallest.smallest` only, and rows of sample weight 0 nowhere. The
    answer does not grow with n.
    """

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
            smallest = float(margins[group].min(initial=np.inf))
            found.append(smallest_of(margins, outside, self.max_rows, smallest, self.first))
        return tuple(found)


def smallest_of(margins: Array, places: Indices, max_rows: int, smallest: float, first: int) -> Smallest:
    """Return the smallest margins at some places, which are counted from ``first`` on in the answer."""
    values = margins[places]
    if values.size > max_rows:
        kept = np.argpartition(values, max_rows - 1)[:max_rows]
        places, values = places[kept], values[kept]
    order = np.argsort(values, kind="stable")
    return Smallest(smallest, values[order], (places[order] + first).astype(np.int64))


def merge_smallest(parts: Sequence[Smallest], max_rows: int) -> Smallest:
    """Return the rows of smallest margin of a group, from those of consecutive parts."""
    margins = np.concatenate([part.margins for part in parts])
    indices = np.concatenate([part.indices for part in parts])
    order = np.lexsort((indices, margins))[:max_rows]
    return Smallest(min(part.smallest for part in parts), margins[order], indices[order])


class _Weighted(Query[M]):
    """A query about rows that carry weight, given by their ascending indices; other rows are not read."""

    indices: Indices
    values: Array

    def part(self, at: slice) -> Any:
        """Keep the weights of these rows."""
        mine = places_within(self.indices, at)
        return replace(cast(Any, self), indices=self.indices[mine] - at.start, values=self.values[mine])

    def wants(self, at: slice) -> bool:
        """Return whether a row there carries weight."""
        mine = places_within(self.indices, at)
        return bool(mine.stop > mine.start)


@dataclass(frozen=True, eq=False)
class Combine(_Weighted[Array]):
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

    def answer(self, rows: LeafRows, labels: Labels) -> Array:
        """Combine the rows that carry weight."""
        c = np.zeros(rows.n)
        c[self.indices] = self.values * labels.at(self.indices)
        return rows.combine(c)

    def merge(self, parts: Sequence[Array]) -> Array:
        """Add the sums of the parts."""
        return np.asarray(np.sum(parts, axis=0))


@dataclass(frozen=True, eq=False)
class CurvatureAt(_Weighted[tuple[Array, float]]):
    r"""Return ``X^T (c * X v)`` and ``sum(c * X v)`` for weights c of rows; others are not needed.

    .. math:: \textstyle\sum_i c_i \langle x_i, v\rangle x_i, \quad \sum_i c_i \langle x_i, v\rangle
    """

    v: Array
    indices: Indices  # ascending
    values: Array

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
