"""Dataset: rows and labels under one name, with the closed-form answer if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows, labels and what is known about them; unpacks as ``X, y = dataset``.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
        One row per sample.
    y : ndarray of shape (n,)
        Labels, numbers or strings; None for rows to predict that come without.
    name : str
        The name in captions and tables.
    w_star : ndarray of shape (d,), optional
        The direction of largest margin, of norm 1, if it is known.
    gamma_star : float, optional
        That largest margin.
    feature_names : tuple of str, optional
        The names of the columns of X, as the header of a file has them.
    notes : tuple of str
        What the command line tells its user about the reading: which column of a file without a header was
        taken as the label, which rows were dropped, which columns a model does not use.
    feature_means : ndarray of shape (d,), optional
        The means that stand for missing values, if ``missing="mean"`` asked for them.
    is_kept : ndarray of bool, optional
        For each row of a file whether X has it, if rows were dropped.

    Examples
    --------
    >>> dataset = Dataset(np.eye(2), np.array([1.0, -1.0]), "corner")
    >>> dataset
    Dataset('corner', 2 x 2, dense float64)
    >>> X, y = dataset
    >>> y
    array([ 1., -1.])
    """

    X: npt.NDArray[np.floating[Any]] | csr_array[Any]
    y: Any
    name: str
    w_star: npt.NDArray[np.float64] | None = None
    gamma_star: float | None = None
    feature_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    feature_means: npt.NDArray[np.float64] | None = None
    is_kept: npt.NDArray[np.bool_] | None = None

    def __iter__(self) -> Iterator[Any]:
        yield self.X
        yield self.y

    def __repr__(self) -> str:
        n, d = self.X.shape
        kind = "dense" if isinstance(self.X, np.ndarray) else "sparse"
        return f"Dataset({self.name!r}, {n} x {d}, {kind} {self.X.dtype})"
