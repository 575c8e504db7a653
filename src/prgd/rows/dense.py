"""Dense rows: C order, Fortran order or strided, float32 or float64, in memory or mapped, no copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.types import Array, Indices
from prgd.rows.arrays import ArrayRows, Storage, check_shape, even_bounds
from prgd.rows.base import register
from prgd.rows.exact import as_float
from prgd.rows.labels import Labels, frozen

_BLOCK = 16  # rows of a block: they are so few that the memory never waits for the exponentials
_COLUMN_BLOCK_BYTES = 2**18  # a block of columns stays in the second-level cache between its two uses


class DenseRows(ArrayRows):
    """Rows of a two-dimensional array.

    Parameters
    ----------
    X : array of shape (n, d)
        float32 and float64 are used as they lie; sums are in float64 for both. Other types are
        converted once, exactly: a number that has no float64 is refused.
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
        super().__init__(dense_storage(X), Labels.read(y, sample_weight, n), n_jobs)
        self._X = X

    @property
    def plain_array(self) -> Array | None:
        """X itself if it lies as float64 in C order, else None."""
        is_plain = self._X.dtype == np.float64 and self._X.flags.c_contiguous
        return self._X if is_plain else None


def dense_storage(X: npt.NDArray[Any]) -> Storage:
    """Describe an array to the kernels."""
    n, d = X.shape
    block, by_columns = _BLOCK, X.flags.f_contiguous and not X.flags.c_contiguous
    if by_columns:
        block = max(_BLOCK, min(_COLUMN_BLOCK_BYTES // (X.itemsize * d), 1024) // 8 * 8)

    def locate(row: int) -> int:
        return int(np.argmin(np.isfinite(X[row])))

    def gather(indices: Indices) -> Array:
        return X[indices].astype(np.float64, copy=False)  # indexing has copied the rows already

    def whole() -> Array:
        return frozen(X).astype(np.float64, copy=False)

    A = (frozen(X.T), frozen(X)) if by_columns else (frozen(X),)
    return Storage(A, n, d, block, even_bounds(n, d * X.itemsize, block), locate, gather, n * d, whole)


register(lambda X: True, DenseRows, last=True)  # dense rows take whatever NumPy can read
