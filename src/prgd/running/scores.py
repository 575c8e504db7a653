"""Scores of rows by hyperplanes, and the classes that they predict."""

from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.errors import NotFiniteError
from prgd.core.types import Array
from prgd.rows.base import as_rows
from prgd.rows.blocks import non_finite_entry
from prgd.rows.readers.columns import in_order

_BLOCK_ROWS = 2**14  # rows that are multiplied together


def decision(X: Any, coef: Array, intercept: Any) -> Array:
    """Return ``<coef, x> + intercept`` for every row x of X: of shape (n,) if there is one hyperplane."""
    scores: Array = X @ coef.T + intercept
    return scores.ravel() if scores.shape[1] == 1 else scores


def classify(scores: Array, classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the class of each row from its scores: of two classes, the second one if they are positive."""
    codes = (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    found: npt.NDArray[Any] = classes[codes]
    return found


def scores_of(X: Any, coef: Array, intercept: Any, names: tuple[str, ...] | None = None) -> Array:
    """Return a column of scores for each row of ``coef``, of data in any form that `prgd.max_margin` takes.

    The columns of a data frame are matched by their ``names``.
    """
    rows = as_rows(in_order(X, names))
    if rows.d != coef.shape[1]:
        raise ValueError(f"X must have {coef.shape[1]} columns, as the data of the fit; got {rows.d}.")
    parts = []
    for first, piece in rows.pieces():
        for start in range(0, piece.n, _BLOCK_ROWS):
            block = piece.take(np.arange(start, min(start + _BLOCK_ROWS, piece.n)))
            if (at := non_finite_entry(block)) is not None:
                raise NotFiniteError(first + start + at[0], at[1])
            parts.append(np.asarray(block @ coef.T + intercept))
    return np.concatenate(parts)
