"""Rows that lie in arrays, summed by the compiled kernels in threads: what dense and CSR rows share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from prgd.core.arithmetic import split
from prgd.core.errors import NotFiniteError
from prgd.core.threads import each, physical_memory, threads_of
from prgd.core.types import Array, Indices, lazy
from prgd.losses import EXPONENTIAL
from prgd.rows.base import Block, LeafRows
from prgd.rows.fingerprint import Fingerprint, Words, keys
from prgd.rows.gathered import GatheredRows
from prgd.rows.joint_queries import (
    JointMarginsAt,
    JointSmallestAt,
    JointTallyAt,
)
from prgd.rows.labels import Labels, frozen
from prgd.rows.queries import (
    Accurate,
    AccurateAt,
    CurvatureAt,
    MarginsAt,
    Measure,
    Measurement,
    SmallestAt,
    TallyAt,
)
from prgd.rows.tally import SECOND, Tally, merge_slices

# A slice is what one thread sums alone. Their number depends on the data only, never on the number
# of threads, so that results are bit-identical on any machine with the same instruction set.
SLICE_BYTES = 2**21
MAX_SLICES = 64
JOINT_BYTES = 2**25  # memory for the vectors of all slices of a joint pass, unless two of them take more
# Rows with at most so many entries answer queries that are not repeated by NumPy, as fast as by a kernel and
# without compiling it. The rule sees the data alone, so results do not depend on what was compiled before.
SMALL_ENTRIES = 2**17
_VECTORS = 4  # vectors of d numbers that every method holds: w, a gradient, and the sums of a pass
# The kinds of storage are C-ordered or strided rows, the transpose of Fortran-ordered rows, and CSR. A kind
# is the number of its arrays, by which the kernels tell them apart.
ROWS, COLUMNS, CSR = 1, 2, 3
# Rows of more columns than these are taken in pieces: two vectors would not stay in the first-level cache.
# The length of another tuple, that of the second direction, tells the kernel which rows are wide.
PIECE, WIDE = 1024, 2


@dataclass(frozen=True)
class Storage:
    """Arrays as the kernels take them: ``(X,)``, ``(X^T, X)`` or ``(data, indices, indptr)``."""

    A: tuple[Any, ...]
    n: int
    d: int
    block: int  # rows that a kernel keeps in the cache between the two uses of each
    bounds: Indices  # first row of each slice, and n
    locate: Callable[[int], int]  # row -> the first of its columns that is not finite
    gather: Callable[[Indices], Block]  # indices -> rows x_i as float64, dense or CSR
    entries: int  # that are stored
    whole: Callable[[], Block]  # all rows as float64, dense or CSR, without a copy if they are float64
    is_sparse: bool = False


class ArrayRows(LeafRows):
    """Rows that lie in arrays, in memory or mapped."""

    is_in_arrays = True

    def __init__(self, storage: Storage, labels: Labels, n_jobs: int | None) -> None:
        self.n, self.d, self.labels = storage.n, storage.d, labels
        self.is_sparse = storage.is_sparse
        self._storage = storage
        self._threads = min(threads_of(n_jobs), storage.bounds.size - 1)
        self.is_small = max(storage.n, storage.entries) <= SMALL_ENTRIES

    @lazy
    def gathered(self) -> LeafRows | None:
        """All rows in one block if they are small, else None."""
        return GatheredRows(self._storage.whole(), self.labels) if self.is_small else None

    def take(self, indices: Indices) -> Block:
        """Return the rows x_i of these ascending indices."""
        return self._storage.gather(indices)

    @property
    def sum_roundings(self) -> int:
        """Largest number of roundings on the way of a row into the sums of a Tally: in a slice, and after."""
        bounds = self._storage.bounds
        if self.labels.is_joint:
            bounds = self._joint_bounds(len(self.labels.class_weights), by_class=True)
        longest = int(np.diff(bounds).max())
        return longest + longest // 16 + bounds.size + 8

    def _each(self, work: Callable[[int, int], Any], slices: int | None = None) -> list[Any]:
        """Call ``work(first, last)`` on consecutive ranges of slices, one for each thread."""
        slices = self._storage.bounds.size - 1 if slices is None else slices
        threads = min(self._threads, slices)
        cuts = [slices * k // threads for k in range(threads + 1)]
        return each(lambda k: work(cuts[k], cuts[k + 1]), threads)

    def _tally(self, query: TallyAt, labels: Labels) -> Tally:
        from prgd.rows import _kernels

        s = self._storage
        slices, groups = s.bounds.size - 1, 2 if query.by_class else 1
        numbers = SECOND if query.second is None else SECOND + 1
        scalars, vectors = np.empty((slices, groups, numbers)), np.empty((slices, groups, self.d))
        w, v = frozen(query.w), self._second(query)
        is_plain = groups == 1 and query.loss == EXPONENTIAL and labels.sample_weight.size == 0
        weights = () if is_plain else (labels.sample_weight,)

        def work(first: int, last: int) -> None:
            _kernels.tally_slices(
                s.A, labels.signs, weights, w, v, query.loss.code, s.block,
                s.bounds, first, last, scalars, vectors,
            )  # fmt: skip

        self._each(work)
        return merge_slices(scalars, vectors)

    def _second(self, query: TallyAt) -> tuple[Any, ...]:
        """Return the second direction as `tally_slices` takes it."""
        if query.second is None:
            v = np.empty((0, 2) if self.is_sparse else 0)
        else:
            v = np.ascontiguousarray(query.second, dtype=np.float64)
            v = np.stack([query.w, v], axis=1) if self.is_sparse else v
        A = self._storage.A
        is_wide = self.d > PIECE and len(A) == ROWS and A[0].flags.c_contiguous
        # Pieces of about one size, of a multiple of 64 columns.
        piece = -(-self.d // (-(-self.d // PIECE) * 64)) * 64
        return (frozen(v), piece) if is_wide else (frozen(v),)

    def _joint_tally(self, query: JointTallyAt, labels: Labels) -> Tally:
        from prgd.rows import _joint_kernels

        s, (K, d) = self._storage, query.w.shape
        bounds = self._joint_bounds(K, query.by_class)
        slices, classes = bounds.size - 1, K if query.by_class else 1
        W, block = _joint_kernels.arranged(s.A, query.w), _joint_kernels.block_of(K, d, query.by_class)
        scalars, vectors = np.empty((slices, classes**2, 6)), np.empty((slices, classes, *W.shape))

        def work(first: int, last: int) -> None:
            _joint_kernels.joint_slices(
                s.A, labels.codes, labels.sample_weight, W, K, d, query.loss.code, block,
                bounds, first, last, scalars, vectors,
            )  # fmt: skip

        self._each(work, slices)
        if s.is_sparse:  # from columns of all classes to classes of all columns
            vectors = vectors.swapaxes(2, 3)
        vectors = vectors[:, :, :K, :d]
        return merge_slices(scalars, vectors.reshape(slices, classes**2, -1))

    def _joint_bounds(self, K: int, by_class: bool) -> Indices:
        """Return slices whose vectors together take little memory, each made of some of the storage's."""
        bounds = self._storage.bounds
        vector_bytes = 8 * self.d * (K * K if by_class else K)
        most = max(JOINT_BYTES // vector_bytes, 2)
        return np.append(bounds[: -1 : -(-(bounds.size - 1) // most)], bounds[-1])

    def _joint_margins(self, query: JointMarginsAt, labels: Labels) -> Array:
        return self._pair_margins(query.w, np.zeros(len(query.w)), labels)

    def _joint_smallest(self, query: JointSmallestAt, labels: Labels) -> Any:
        if query.is_accurate:
            return query.answer(self, labels)
        return query.pick(self._pair_margins(query.w, query.intercept, labels), labels)

    def _pair_margins(self, w: Array, intercept: Array, labels: Labels) -> Array:
        from prgd.rows import _joint_kernels

        s, (K, d), out = self._storage, w.shape, np.empty((self.n, len(w)))
        W, b, block = _joint_kernels.arranged(s.A, w), frozen(intercept), _joint_kernels.block_of(K, d, False)
        self._each(
            lambda i, j: _joint_kernels.joint_margins(
                s.A, labels.codes, W, b, K, d, block, s.bounds[i], s.bounds[j], out
            )
        )
        return out

    def _margins(self, query: MarginsAt, labels: Labels) -> Array:
        from prgd.rows import _kernels

        s, out, w = self._storage, np.empty(self.n), frozen(query.w)
        self._each(
            lambda a, b: _kernels.margins(s.A, labels.signs, w, s.block, s.bounds[a], s.bounds[b], out)
        )
        return out

    def _accurate(self, query: AccurateAt, labels: Labels) -> Accurate:
        from prgd.rows._accurate_kernels import accurate_products

        s, (products, corrections) = self._storage, np.empty((2, self.n))
        with np.errstate(over="ignore", invalid="ignore"):  # `bounded` finds what is not finite
            w = tuple(frozen(part) for part in (query.w, *split(query.w)))
        b = float(query.intercept)
        self._each(lambda i, j: accurate_products(s.A, w, b, s.bounds[i], s.bounds[j], products, corrections))
        return query.bounded(products, corrections, labels)

    def _smallest(self, query: SmallestAt, labels: Labels) -> Any:
        if query.near is not None:
            return query.answer(self, labels)
        return query.pick(self._margins(MarginsAt(query.w), labels), labels)

    def _measure(self, query: Measure, labels: Labels) -> Measurement:
        from prgd.rows._norm_kernels import measure

        s, norms = self._storage, np.empty(self.n)
        for row in self._each(lambda a, b: int(measure(s.A, s.bounds[a], s.bounds[b], norms))):
            if row >= 0:
                raise NotFiniteError(row, s.locate(row))
        return Measurement(float(norms.max()), int(np.count_nonzero(norms == 0.0)))

    def _fingerprint(self, query: Fingerprint, labels: Labels) -> Words:
        from prgd.rows._norm_kernels import hash_rows

        s, (low, high) = self._storage, (key.view(np.uint64) for key in keys(self.d))
        zero = (low * high).sum()
        sums = self._each(
            lambda a, b: int(hash_rows(s.A, low, high, zero, s.bounds[a], s.bounds[b], query.first))
        )
        return query.words(sum(sums), labels)

    def times(self, w: Array) -> Array:
        """Return ``<w, x_i>`` for every row."""
        return np.asarray(self._margins(MarginsAt(w), Labels.read(None, None, self.n)))

    def combine(self, c: Array) -> Array:
        """Return ``X^T c``; rows with ``c_i = 0`` are not read."""
        from prgd.rows import _kernels

        s = self._storage
        vectors = np.zeros((s.bounds.size - 1, self.d))

        def work(first: int, last: int) -> None:
            for k in range(first, last):
                _kernels.weighted_sum(s.A, c, s.block, s.bounds[k], s.bounds[k + 1], vectors[k])

        self._each(work)
        return cast(Array, vectors.sum(axis=0))

    def _curvature(self, query: CurvatureAt, labels: Labels) -> tuple[Array, float]:
        from prgd.rows import _kernels

        s, c, v = self._storage, np.zeros(self.n), frozen(query.v)
        c[query.indices] = query.values
        vectors, sums = np.zeros((s.bounds.size - 1, self.d)), np.zeros(s.bounds.size - 1)

        def work(first: int, last: int) -> None:
            for k in range(first, last):
                at = s.bounds[k], s.bounds[k + 1]
                sums[k] = _kernels.curvature_sum(s.A, labels.signs, c, v, s.block, *at, vectors[k])

        self._each(work)
        return cast(Array, vectors.sum(axis=0)), float(sums.sum())

    own_answers: ClassVar = {
        TallyAt: _tally,
        JointTallyAt: _joint_tally,
        JointMarginsAt: _joint_margins,
        JointSmallestAt: _joint_smallest,
        CurvatureAt: _curvature,
        MarginsAt: _margins,
        AccurateAt: _accurate,
        SmallestAt: _smallest,
        Measure: _measure,
        Fingerprint: _fingerprint,
    }


def even_bounds(n: int, row_bytes: float, block: int) -> Indices:
    """Cut n rows of equal size into slices at multiples of ``block`` rows."""
    slices = int(min(max(n * row_bytes // SLICE_BYTES, 1), MAX_SLICES, -(-n // block)))
    return np.unique(np.append(np.arange(slices) * n // slices // block * block, n)).astype(np.int64)


def check_shape(shape: Sequence[int]) -> tuple[int, int]:
    """Return (n, d) if X is a matrix with at least one row and one column."""
    if len(shape) != 2:
        raise ValueError(
            f"X must be a matrix of shape (rows, columns); got shape {tuple(shape)}. "
            "Use X.reshape(-1, 1) for a single feature."
        )
    if shape[0] == 0 or shape[1] == 0:
        raise ValueError(f"X must have at least one row and one column; got shape {tuple(shape)}.")
    need, memory = _VECTORS * 8 * int(shape[1]), physical_memory()
    if need > memory:
        raise ValueError(
            f"X has {int(shape[1]):,} columns: vectors of a number for each column take {need / 1e9:.3g} GB, "
            f"out of core too, and this machine has {memory / 1e9:.3g} GB. If few columns are in use, number "
            "these from 1 on, e.g. by hashing; else check the largest index of the file."
        )
    return int(shape[0]), int(shape[1])
