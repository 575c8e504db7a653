"""Rows that lie in arrays, dense or CSR, in memory or mapped: summed by compiled kernels in threads.

NumPy and SciPy (`PlainRows`) answer queries without a kernel, and all rare queries about small rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from prgd.core.threads import each, lazy, single_blas, threads_of
from prgd.core.types import Array, Indices
from prgd.losses import EXPONENTIAL, Loss
from prgd.rows.base import Block, LeafRows, M, Query, register
from prgd.rows.blocks import Measure, Measurement
from prgd.rows.exact import as_float, canonical_csr, check_shape
from prgd.rows.joint_queries import JointTallyAt
from prgd.rows.labels import Labels, frozen
from prgd.rows.queries import SMALL_ENTRIES, Combine, CurvatureAt, MarginsAt, SmallestAt, TallyAt
from prgd.rows.tally import SECOND, Tally, merge_slices

# A slice is what one thread sums alone. Their number depends on the data only, never on the number
# of threads, so that results are bit-identical on any machine with the same instruction set.
SLICE_BYTES, MAX_SLICES = 2**21, 64
JOINT_BYTES = 2**25  # memory for the vectors of all slices of a joint pass, unless two of them take more
PLAIN_SLICES = 16  # largest number of slices that NumPy or SciPy sum: each takes them 0.1 ms
_SMALL_PRODUCT = 2**18  # multiplications of a product up to which BLAS takes one thread by itself
ROWS, CSR = 1, 3  # the kinds of storage, by the number of their arrays
_BLOCK = 16  # rows of a dense block: they are so few that the memory never waits for the exponentials
_SPARSE_BLOCK_ENTRIES, _MAX_SPARSE_BLOCK = 2**17, 4096  # w and the sum share the second-level cache with it


@dataclass(frozen=True)
class Storage:
    """Arrays as the kernels take them: ``(X,)`` or ``(data, indices, indptr)``."""

    A: tuple[Any, ...]
    n: int
    d: int
    block: int  # rows that a kernel keeps in the cache between the two uses of each
    bounds: Indices  # first row of each slice, and n
    gather: Callable[[Indices], Block]  # indices -> rows x_i as float64, dense or CSR
    part: Callable[[int, int], Block]  # consecutive rows as float64, without a copy if they are float64
    entries: int  # that are stored
    is_sparse: bool = False


class PlainRows(LeafRows):
    """Some consecutive rows of a `Storage`, with no faster way for any query than products by NumPy or SciPy.

    Examples
    --------
    >>> rows = PlainRows(dense_storage(np.array([[1.0, 0.0], [0.0, 2.0]])), Labels.read([1, -1], None, 2))
    >>> rows.times(np.array([3.0, 1.0])), rows.combine(np.array([1.0, -1.0]))
    (array([3., 2.]), array([ 1., -2.]))
    """

    def __init__(self, storage: Storage, labels: Labels, first: int = 0, last: int | None = None) -> None:
        self._storage, self._first, self.labels = storage, first, labels
        self.n, self.d = (storage.n if last is None else last) - first, storage.d
        self.is_sparse = storage.is_sparse

    def take(self, indices: Indices) -> Block:
        """Return the rows x_i of these indices."""
        return self._storage.gather(indices + self._first)

    def blocks(self, max_rows: int) -> Iterator[tuple[slice, Block]]:
        """Yield the rows part by part, float64 rows without a copy."""
        for start in range(0, self.n, max_rows):
            stop = min(start + max_rows, self.n)
            yield slice(start, stop), self._storage.part(self._first + start, self._first + stop)

    @property
    def row_entries(self) -> int:
        """Mean number of stored entries of a row, at least 1."""
        return max(self._storage.entries // self._storage.n, 1)

    def times(self, w: Array) -> Array:
        """Return ``<w, x_i>`` for every row."""
        # Unlike BLAS, einsum gives the same bits on any number of threads.
        return np.asarray(self._all @ w if self.is_sparse else np.einsum("ij,j->i", self._all, w))

    def combine(self, c: Array) -> Array:
        """Return ``X^T c``."""
        return np.asarray(self._transpose @ c if self.is_sparse else np.einsum("ij,i->j", self._all, c))

    @lazy
    def _all(self) -> Block:
        return self._storage.part(self._first, self._first + self.n)

    @lazy
    def _transpose(self) -> Block:
        # SciPy checks the arrays of a new transpose, which takes longer than the product of small rows.
        return self._all.T


class ArrayRows(PlainRows):
    """All rows of arrays, in memory or mapped."""

    is_in_arrays = True

    def __init__(self, storage: Storage, labels: Labels, n_jobs: int | None) -> None:
        super().__init__(storage, labels)
        self._threads = min(threads_of(n_jobs), storage.bounds.size - 1)
        self.is_small = max(storage.n, storage.entries) <= SMALL_ENTRIES
        self._plain = PlainRows(storage, labels)

    def ask(self, query: Query[M], labels: Labels | None = None) -> M:
        """Answer a query by a kernel, or by NumPy: in slices unless the rows are small."""
        labels = self.labels if labels is None else labels
        if type(query) in self.own_answers and (query.is_repeated or not self.is_small):
            return super().ask(query, labels)
        is_large = isinstance(query, JointTallyAt) and self.n * query.numbers > _SMALL_PRODUCT
        if self.is_small and not is_large:
            return query.answer(self._plain, labels)
        slices = [slice(int(a), int(b)) for a, b in pairwise(self._slices_of(query))]

        def work(first: int, last: int) -> list[M]:
            found = []
            for at in slices[first:last]:
                mine = labels.part(at)
                found.append(query.part(at).answer(PlainRows(self._storage, mine, at.start, at.stop), mine))
            return found

        with single_blas():
            return query.merge([answer for part in self._each(work, len(slices)) for answer in part])

    def _slices_of(self, query: Query[Any]) -> Indices:
        """Return the bounds of slices whose answers together take little memory."""
        bounds, numbers = self._storage.bounds, query.numbers if isinstance(query, JointTallyAt) else 1
        most = min(max(JOINT_BYTES // (8 * numbers), 2), PLAIN_SLICES)
        return np.append(bounds[: -1 : -(-(bounds.size - 1) // most)], bounds[-1])

    @property
    def sum_roundings(self) -> int:
        """Largest number of roundings on the way of a row into the sums of a Tally: in a slice, and after."""
        bounds, classes = self._storage.bounds, len(self.labels.class_weights)
        if self.labels.is_joint:
            bounds = self._slices_of(JointTallyAt(np.empty((classes, self.d)), EXPONENTIAL, by_class=True))
        longest = int(np.diff(bounds).max())
        return longest + longest // 16 + bounds.size + classes + 8

    def _each(self, work: Callable[[int, int], Any], slices: int | None = None) -> list[Any]:
        """Call ``work(first, last)`` on consecutive ranges of slices, one for each thread."""
        slices = self._storage.bounds.size - 1 if slices is None else slices
        threads = min(self._threads, slices)
        cuts = [slices * k // threads for k in range(threads + 1)]
        return each(lambda k: work(cuts[k], cuts[k + 1]), threads)

    @property
    def is_one_block(self) -> bool:
        """Whether the rows are dense float64 rows that one thread sums in one slice."""
        s = self._storage
        return len(s.A) == ROWS and s.bounds.size == 2 and s.A[0].dtype == np.float64

    def arguments(self, loss: Loss, by_class: bool, labels: Labels) -> tuple[Any, ...]:
        """Return rows, signs, weights, block and bounds as the kernels of a pass take them."""
        is_plain = not by_class and loss == EXPONENTIAL and labels.sample_weight.size == 0
        s, weights = self._storage, () if is_plain else (labels.sample_weight,)
        return s.A, labels.signs, weights, s.block, s.bounds

    def _tally(self, query: TallyAt, labels: Labels) -> Tally:
        from prgd.rows import _kernels

        A, y, weights, block, bounds = self.arguments(query.loss, query.by_class, labels)
        slices, groups = bounds.size - 1, 2 if query.by_class else 1
        numbers = SECOND if query.second is None else SECOND + 1
        scalars, vectors = np.empty((slices, groups, numbers)), np.empty((slices, groups, self.d))
        w, v = frozen(query.w), self._second(query)

        def work(first: int, last: int) -> None:
            _kernels.tally_slices(
                A, y, weights, w, v, query.loss.code, block, bounds, first, last, scalars, vectors
            )

        self._each(work)
        return merge_slices(scalars, vectors)

    def _second(self, query: TallyAt) -> Any:
        """Return the second direction as `tally_slices` takes it."""
        if query.second is None:
            return frozen(np.empty((0, 2) if self.is_sparse else 0))
        v = np.ascontiguousarray(query.second, dtype=np.float64)
        return frozen(np.stack([query.w, v], axis=1) if self.is_sparse else v)

    def _margins(self, query: MarginsAt, labels: Labels) -> Array:
        from prgd.rows import _kernels

        s, out, w = self._storage, np.empty(self.n), frozen(query.w)
        self._each(
            lambda a, b: _kernels.margins(s.A, labels.signs, w, s.block, s.bounds[a], s.bounds[b], out)
        )
        return out

    def _measure(self, query: Measure, labels: Labels) -> Measurement:
        from prgd.rows import _kernels

        s, squares = self._storage, np.empty(self.n)
        self._each(lambda a, b: _kernels.row_squares(s.A, s.bounds[a], s.bounds[b], squares))
        return query.of_squares(squares) or query.answer(self, labels)

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
        CurvatureAt: _curvature,
        MarginsAt: _margins,
        Measure: _measure,
        SmallestAt: lambda self, query, labels: query.answer(self, labels),  # The query asks for all margins.
    }


class DenseRows(ArrayRows):
    """Rows of a two-dimensional array.

    Parameters
    ----------
    X : array of shape (n, d)
        float32 and float64 are used as they lie; sums are in float64 for both. Other types are
        converted once, exactly: a number that has no float64 is refused. Rows in Fortran order, as those of
        data frames, are copied once, unless they are mapped.
    y : array of shape (n,), optional
        Labels of two classes, applied on the fly. ``None``: the rows are z_i = y_i x_i already.
    sample_weight : array of shape (n,), optional
    n_jobs : int, optional
        Default: PRGD_NUM_THREADS, else all cores.

    Examples
    --------
    >>> rows = DenseRows(np.array([[1.0, 0.0], [0.0, 2.0]]), [1, -1])
    >>> rows.times(np.array([3.0, 1.0]))
    array([3., 2.])
    """

    def __init__(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, n_jobs: int | None = None
    ) -> None:
        X = as_float(X)
        n, _ = check_shape(X.shape)
        if X.flags.f_contiguous and not isinstance(X if X.base is None else X.base, np.memmap):
            X = np.ascontiguousarray(X)
        super().__init__(dense_storage(X), Labels.read(y, sample_weight, n), n_jobs)
        self._X = X

    @property
    def plain_array(self) -> Array | None:
        """X itself if it lies as float64 in C order, else None."""
        is_plain = self._X.dtype == np.float64 and self._X.flags.c_contiguous
        return self._X if is_plain else None


def dense_storage(X: npt.NDArray[Any]) -> Storage:
    """Describe an array to the kernels."""
    (n, d), block = X.shape, _BLOCK

    def gather(indices: Indices) -> Array:
        return X[indices].astype(np.float64, copy=False)  # indexing has copied the rows already

    def part(first: int, last: int) -> Array:
        return frozen(X[first:last]).astype(np.float64, copy=False)

    # Rows of equal size are cut at multiples of a block.
    slices = int(min(max(n * d * X.itemsize // SLICE_BYTES, 1), MAX_SLICES, -(-n // block)))
    bounds = np.array(sorted({n, *(n * k // slices // block * block for k in range(slices))}), np.int64)
    return Storage((frozen(X),), n, d, block, bounds, gather, part, n * d)


class SparseRows(ArrayRows):
    """Rows of a SciPy sparse matrix or array (other formats are converted to CSR once).

    Parameters
    ----------
    X : sparse of shape (n, d)
        float32 and float64 are used as they lie; other types are converted once, exactly.
    y, sample_weight, n_jobs
        As for `DenseRows`.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> rows = SparseRows(sp.csr_array([[1.0, 0.0], [0.0, 2.0]]), [1, -1])
    >>> rows.times(np.array([3.0, 1.0]))
    array([3., 2.])
    """

    def __init__(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, n_jobs: int | None = None
    ) -> None:
        n, d = check_shape(X.shape)
        X = canonical_csr(X)
        storage = csr_storage(X.data, X.indices, X.indptr, d)
        super().__init__(storage, Labels.read(y, sample_weight, n), n_jobs)

    own_answers: ClassVar = {
        **ArrayRows.own_answers,
        Combine: lambda self, query, labels: query.answer(self, labels),  # SciPy would build a transpose
    }

    @property
    def csr_arrays(self) -> tuple[Any, Any, Any]:
        """X itself as (data, indices, indptr), with repeated entries added up."""
        data, indices, indptr = self._storage.A
        return data, indices, indptr


def csr_storage(
    data: npt.NDArray[Any], indices: npt.NDArray[Any], indptr: npt.NDArray[Any], d: int
) -> Storage:
    """Describe checked CSR arrays to the kernels; ``indptr`` may be that of a run of rows."""
    from scipy.sparse import csr_array  # slow to load

    pointers = np.ascontiguousarray(indptr, dtype=np.int64)
    n, low, last = pointers.size - 1, int(pointers[0]), int(pointers[-1])

    def gather(rows: Indices) -> Any:
        counts = pointers[rows + 1] - pointers[rows]
        starts = np.concatenate(([0], np.cumsum(counts)))
        entries = np.arange(starts[-1]) + np.repeat(pointers[rows] - starts[:-1], counts)
        values = data[entries].astype(np.float64)
        return csr_array((values, indices[entries], starts), shape=(rows.size, d))

    def part(first: int, last: int) -> Any:
        starts = pointers[first : last + 1]
        at = slice(int(starts[0]), int(starts[-1]))
        values = data[at].astype(np.float64, copy=False)
        return csr_array((values, indices[at], starts - starts[0]), shape=(last - first, d))

    A, entries = (frozen(data), frozen(indices), frozen(pointers)), last - low
    # A slice owns a dense vector of d numbers, which is zeroed and merged. So wide rows get few slices,
    # enough to give two or more threads work, and many slices need many entries for every column.
    wanted = max(entries // (16 * d), min(2, entries // 2**17))
    slices = min(MAX_SLICES, wanted, entries * 12 // (SLICE_BYTES // 8))
    cuts = np.linspace(low, last, max(slices, 1) + 1)[1:-1]
    bounds = np.unique(np.concatenate(([0], np.searchsorted(pointers, cuts), [n]))).astype(np.int64)
    block = min(max(_SPARSE_BLOCK_ENTRIES * n // max(entries, 1), 16), _MAX_SPARSE_BLOCK)
    return Storage(A, n, d, block, bounds, gather, part, entries, is_sparse=True)


register(lambda X: True, DenseRows, last=True)  # dense rows take whatever NumPy can read
register(lambda X: hasattr(X, "tocsr"), SparseRows)
