"""Rows extended by a column of their own each: the soft margin as a hard one."""

from typing import Any, ClassVar

import numpy as np

from prgd.core.types import Array, Indices
from prgd.rows.base import Block, LeafRows, Rows
from prgd.rows.blocks import Measure, Measurement
from prgd.rows.queries import Combine, MarginsAt


class ExtendedRows(LeafRows):
    r"""The rows :math:`(x_i, y_i e_i / \sqrt{c_i})` of d + n columns, over any engine.

    Their hard margin is the soft margin of the rows: the last n entries of a hyperplane are the slacks, times
    :math:`\sqrt{c_i}`.

    Parameters
    ----------
    rows : Rows
    c : ndarray of shape (n,)
        Positive weights of the slacks; rows of weight 0 do not count.

    Examples
    --------
    >>> from prgd.rows.arrays import DenseRows
    >>> rows = ExtendedRows(DenseRows(np.array([[3.0], [4.0]]), [1, -1]), np.array([4.0, 4.0]))
    >>> rows.take(np.arange(2)).toarray()
    array([[ 3. ,  0.5,  0. ],
           [ 4. ,  0. , -0.5]])
    """

    is_sparse = True

    def __init__(self, rows: Rows, c: Array) -> None:
        self._rows, self.labels = rows, rows.labels
        self.n, self.d = rows.n, rows.d + rows.n
        with np.errstate(divide="ignore"):
            self._own = np.where(c > 0.0, 1.0 / np.sqrt(c), 0.0)  # each row's own entry, times its label

    def times(self, w: Array) -> Array:
        """Return ``<w, (x_i, y_i e_i / sqrt(c_i))>`` for every row."""
        w, own = np.split(w, [self._rows.d])
        return (self._rows.ask(MarginsAt(w)) + own * self._own) * self.labels.signs

    def combine(self, c: Array) -> Array:
        """Return the sum of the extended rows, times ``c_i``."""
        z = c * self.labels.signs
        return np.concatenate([self._rows.ask(Combine.of(z)), z * self._own])

    def take(self, indices: Indices) -> Block:
        """Return the extended rows of these ascending indices, as CSR."""
        from scipy.sparse import csr_array

        block, m = csr_array(self._rows.take(indices)), indices.size
        ends = block.indptr[1:]  # a row's own entry comes after all others
        values = np.insert(block.data, ends, self._own[indices] * self.labels.at(indices))
        columns = np.insert(block.indices.astype(np.int64), ends, self._rows.d + indices)
        indptr = block.indptr.astype(np.int64) + np.arange(m + 1)
        return csr_array((values, columns, indptr), shape=(m, self.d))

    def _measure(self, query: Measure, labels: Any) -> Measurement:
        found = self._rows.ask(query, labels)
        # The square of a row's own entry is added to that of its norm.
        return Measurement(float(np.hypot(found.max_norm, self._own.max())), 0)

    own_answers: ClassVar = {Measure: _measure}
