"""Dataset: rows and labels under one name, with the closed-form answer if there is one; Frame: columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prgd.core.errors import missing_package

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


@dataclass(frozen=True, eq=False)
class Frame:
    """The columns of a file as a formula takes them: numbers, truth values and text, some of them missing.

    Attributes
    ----------
    columns : dict from name to array, or pandas data frame
    name : str
        The name of the file without its ending.
    place : callable
        Row -> the words that name its place in the file.
    notes : tuple of str
        What the command line tells its user.
    kept, dropped : ndarray of int, optional
        The rows of the file that these are, and those that were dropped, if some were.
    """

    columns: Any
    name: str
    place: Callable[[int], str]
    notes: tuple[str, ...] = ()
    kept: npt.NDArray[np.int64] | None = None
    dropped: npt.NDArray[np.int64] | None = None

    def complete(self, used: Sequence[str], *, drop: bool) -> Frame:
        """Return some of the columns; a missing value is an error that names its place, or drops its row."""
        try:
            import pandas as pd
        except ImportError as error:
            raise missing_package("A formula", "pandas", "formula") from error
        frame = pd.DataFrame({name: self.columns[name] for name in used})
        missing = frame.isna().to_numpy()
        rows = missing.any(axis=1)
        if not rows.any():
            return replace(self, columns=frame)
        row = int(np.argmax(rows))
        if not drop or rows.all():
            name = used[int(np.argmax(missing[row]))]
            raise ValueError(
                f"{self.place(row)}, column {name!r}: the value is missing. Fill it in, or drop such rows: "
                "--missing drop."
            )
        kept = np.flatnonzero(~rows)
        note = (
            f"{int(rows.sum()):,} of {rows.size:,} rows have missing values and were dropped; row "
            "numbers are those of the file, from 0."
        )
        frame = frame.iloc[kept].reset_index(drop=True).infer_objects()
        place, notes = (lambda k: self.place(int(kept[k]))), (*self.notes, note)
        return replace(self, columns=frame, place=place, notes=notes, kept=kept, dropped=np.flatnonzero(rows))
