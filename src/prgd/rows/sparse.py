"""Sparse rows in CSR form, used as they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.types import Indices
from prgd.rows.arrays import MAX_SLICES, SLICE_BYTES, ArrayRows, Storage, check_shape
from prgd.rows.base import register
from prgd.rows.exact import check_exact
from prgd.rows.labels import Labels, frozen

# A block has so many entries because w and the sum compete for the second-level cache: they alternate seldom.
_BLOCK_ENTRIES, _MAX_BLOCK = 2**17, 4096


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

    @property
    def csr_arrays(self) -> tuple[Any, Any, Any]:
        """X itself as (data, indices, indptr), with repeated entries added up."""
        data, indices, indptr = self._storage.A
        return data, indices, indptr


def canonical_csr(X: Any, name: str = "X") -> Any:
    """Return X in CSR form with float32 or float64 entries and none repeated (norms need that).

    The entries are those of ``X.toarray()``: repeated ones are added in the order in which they are stored,
    in the type of X. SciPy's ``sum_duplicates`` sorts them first, and its sums round differently.
    """
    from scipy.sparse import csr_array

    if X.dtype.kind not in "fiub":
        raise TypeError(f"X must hold real numbers; got dtype {X.dtype}. Convert it first.")
    if X.format in ("coo", "bsr"):  # their method tocsr adds up repeated entries in an order of its own
        X = X.tocoo()
        entries = np.arange(X.nnz + 1)
        order = csr_array((entries[:-1], X.row, entries), shape=(X.nnz, X.shape[0])).tocsc()
        X = csr_array((X.data[order.data], X.col[order.data], order.indptr), shape=X.shape)
    else:
        X = X.tocsr()
    check_csr(X.data, X.indices, X.indptr, X.shape[1])
    if not X.has_canonical_format:
        X = _added_up(X)
    if X.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        return X
    check_exact(X, name)
    return X.astype(np.float64)


def _added_up(X: Any) -> Any:
    """Return CSR rows with ascending columns, their repeated entries added in the order of storage."""
    from scipy.sparse import csr_array

    X = X.tocsc().tocsr()  # two counting sorts, which are stable: repeated entries keep their order
    is_first = np.append(True, np.diff(X.indices) != 0)[: X.nnz]
    starts = X.indptr[:-1]
    is_first[starts[starts < X.nnz]] = True
    if is_first.all():
        return X
    data = np.zeros(np.count_nonzero(is_first), X.dtype)
    np.add.at(data, np.cumsum(is_first) - 1, X.data)  # one after the other, unlike reduceat
    indptr = np.append(0, np.cumsum(is_first))[X.indptr]
    return csr_array((data, X.indices[is_first], indptr), shape=X.shape)


def check_csr(data: Any, indices: Any, indptr: Any, d: int) -> None:
    """Look at every index, since the kernels trust them."""
    last = int(indptr[-1])
    if (np.diff(indptr) < 0).any() or indptr[0] != 0 or last > min(data.size, indices.size):
        raise ValueError("X is not a valid CSR matrix: indptr decreases or points past the data.")
    if last > 0 and not (int(indices[:last].min()) >= 0 and int(indices[:last].max()) < d):
        raise ValueError(f"X is not a valid CSR matrix: a column index lies outside 0..{d - 1}.")


def csr_storage(
    data: npt.NDArray[Any], indices: npt.NDArray[Any], indptr: npt.NDArray[Any], d: int
) -> Storage:
    """Describe checked CSR arrays to the kernels; ``indptr`` may be that of a run of rows."""
    pointers = np.ascontiguousarray(indptr, dtype=np.int64)
    n, low, last = pointers.size - 1, int(pointers[0]), int(pointers[-1])

    def locate(row: int) -> int:
        part = slice(int(pointers[row]), int(pointers[row + 1]))
        return int(indices[part][np.argmin(np.isfinite(data[part]))])

    def gather(rows: Indices) -> Any:
        from scipy.sparse import csr_array

        counts = pointers[rows + 1] - pointers[rows]
        starts = np.concatenate(([0], np.cumsum(counts)))
        entries = np.arange(starts[-1]) + np.repeat(pointers[rows] - starts[:-1], counts)
        values = data[entries].astype(np.float64)
        return csr_array((values, indices[entries], starts), shape=(rows.size, d))

    def whole() -> Any:
        from scipy.sparse import csr_array

        values = data[low:last].astype(np.float64, copy=False)
        return csr_array((values, indices[low:last], pointers - low), shape=(n, d))

    A = (frozen(data), frozen(indices), frozen(pointers))
    entries = last - low
    # A slice owns a dense vector of d numbers, which is zeroed and merged. So wide rows get few slices,
    # enough to give two or more threads work, and many slices need many entries for every column.
    wanted = max(entries // (16 * d), min(2, entries // 2**17))
    slices = min(MAX_SLICES, wanted, entries * 12 // (SLICE_BYTES // 8))
    cuts = np.linspace(low, last, max(slices, 1) + 1)[1:-1]
    bounds = np.unique(np.concatenate(([0], np.searchsorted(pointers, cuts), [n]))).astype(np.int64)
    block = min(max(_BLOCK_ENTRIES * n // max(entries, 1), 16), _MAX_BLOCK)
    return Storage(A, n, d, block, bounds, locate, gather, entries, whole, is_sparse=True)


register(lambda X: hasattr(X, "tocsr"), SparseRows)
