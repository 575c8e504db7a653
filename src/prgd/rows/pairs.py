"""Gathered rows as pairs: ``x_i (x) (e_k - e_j)`` of a row of class k against class j, as a CSR array."""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd.core.types import Indices


def pair_rows(X: Any, plus: Indices, minus: Indices, K: int) -> Any:
    """Return ``x_t (x) (e_plus - e_minus)`` for each of the rows x_t, exactly; W is read row by row.

    Examples
    --------
    >>> pair_rows(np.array([[1.0, 2.0]]), np.array([2]), np.array([0]), 3).toarray()
    array([[-1., -2.,  0.,  0.,  1.,  2.]])
    """
    from scipy.sparse import csr_array

    X = csr_array(X)
    counts, d = np.diff(X.indptr), int(X.shape[1])
    first, second = (
        csr_array((X.data, X.indices + np.repeat(k * d, counts), X.indptr), shape=(X.shape[0], K * d))
        for k in (plus, minus)
    )
    return csr_array(first - second)
