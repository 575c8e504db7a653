"""Label sets: the columns of Y, checked, and the rows that all label sets of a block share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.arithmetic import like, to_host
from prgd.core.types import Array
from prgd.norms import norm
from prgd.problem import Problem
from prgd.rows.base import Rows, as_rows
from prgd.rows.blocks import divide_by_power, is_sparse, row_squares
from prgd.rows.exact import as_array, as_float
from prgd.rows.labels import Labels
from prgd.solvers.working_set import RowsInPlace, center_and_exponent, extend_gram

CLASSES = np.array([-1, 1])
# With an intercept rows may be moved. It costs little for many label sets, and keeps digits of their products
# if the mean of the rows is longer than this fraction of the longest.
_FAR = 0.5


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows, and the label sets over them.

    Attributes
    ----------
    rows : Rows
    Y : ndarray of int8 of shape (label sets, n)
        +1 and -1, and 0 for the rows that a label set leaves out.
    takes_threads : bool
        Label sets may be solved in threads, since no pass over the rows uses threads of its own.
    name : str
        "X", or "X[b]" for block b of a list.
    is_binary : bool
        The labels were given as 0 and 1, and 0 was read as the class -1.
    """

    rows: Rows
    Y: npt.NDArray[np.int8]
    takes_threads: bool
    name: str
    is_binary: bool = False

    def labels(self, k: int) -> Labels:
        """Return label set k; rows that it leaves out have the sample weight 0."""
        y = self.Y[k]
        weight = np.empty(0) if y.all() else (y != 0).astype(np.float64)
        return Labels(np.where(y < 0, -1, 1).astype(np.int8), weight, CLASSES)


def read_blocks(X: Any, Y: Any) -> list[LabelledRows]:
    """Return the rows and label sets of one X, or of each of a list, after checking that they fit."""
    if not is_list(X):
        return [_read_block(X, Y, "X", "Y")]
    if not len(X):
        raise ValueError("X is an empty list. Give at least one block of rows.")
    is_shared = not is_list(Y)
    if not is_shared and len(X) != len(Y):
        raise ValueError(
            f"X has {len(X)} blocks of rows and Y has {len(Y)} of label sets. Give one Y for each X, or one "
            "array Y for all."
        )
    given = [(Y, "Y") if is_shared else (Y[b], f"Y[{b}]") for b in range(len(X))]
    return [_read_block(x, y, f"X[{b}]", name) for b, (x, (y, name)) in enumerate(zip(X, given, strict=True))]


def is_list(X: Any) -> bool:
    """Say whether this is a list of matrices, not a matrix written as a list of lists of numbers."""
    if not isinstance(X, (list, tuple)):
        return False
    return not X or any(isinstance(x, Rows) or len(getattr(x, "shape", ())) == 2 for x in X)


def _read_block(X: Any, Y: Any, rows_name: str, name: str) -> LabelledRows:
    is_engine, is_tensor = isinstance(X, Rows), type(X).__module__.partition(".")[0] == "torch"
    with errors_naming(rows_name):
        rows = as_rows(X, n_jobs=None if is_engine or is_tensor else 1)
    if hasattr(Y, "device") and hasattr(Y, "cpu"):
        device = getattr(rows, "device", None)
        if device is not None and Y.device != device:
            raise ValueError(
                f"{name} must be on the device of {rows_name}, {device}; it is on {Y.device}. "
                f"Use {name}.to({str(device)!r})."
            )
        Y = Y.detach().cpu()
        Y = (Y.double() if Y.is_floating_point() else Y).numpy()  # NumPy has no bfloat16
    label_sets, is_binary = read_label_sets(Y, rows.n, name, rows_name)
    return LabelledRows(rows, label_sets, rows.is_on_device or not is_engine, rows_name, is_binary)


@contextmanager
def errors_naming(name: str) -> Iterator[None]:
    """Put the name of a block of a list before the sentences of errors about its rows."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if name == "X":
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}") from error


def read_label_sets(
    Y: Any, n: int, name: str = "Y", rows_name: str = "X", is_binary: bool | None = None
) -> tuple[npt.NDArray[np.int8], bool]:
    """Return label sets as one row of +1, -1 and 0 for each, and whether 0 was read as -1.

    0 leaves a row out. If no label is negative, that would leave no label set two classes: 0 is a class then.
    If ``is_binary`` says which reading to take of labels none of which is negative, columns of one class are
    accepted.

    Examples
    --------
    >>> read_label_sets([[1, 0], [-1, 1], [1, -1]], 3)
    (array([[ 1, -1,  1],
           [ 0,  1, -1]], dtype=int8), False)
    >>> read_label_sets([[1, 0], [0, 1], [1, 1]], 3)
    (array([[ 1, -1,  1],
           [-1,  1,  1]], dtype=int8), True)
    """
    Y = Y.toarray() if hasattr(Y, "toarray") else Y
    values = as_array(Y, name)
    if values.dtype != np.bool_:
        values = as_float(Y, name)
    if values.ndim != 2 or values.shape[0] != n or not values.shape[1]:
        hint = f" Use {name}[:, None] for one label set." if values.shape == (n,) else ""
        raise ValueError(
            f"{name} must hold a row for each of the {n} rows of {rows_name} and a column for each label "
            f"set; got shape {values.shape}.{hint}"
        )
    is_sign = (values == 1.0) | (values == -1.0) | (values == 0.0)
    if not is_sign.all():
        column = int(np.argmin(is_sign.all(axis=0)))
        row = int(np.argmin(is_sign[:, column]))
        raise ValueError(
            f"{name} must hold 1, -1, and 0 for rows that are left out, or booleans; column {column} has "
            f"{values[row, column].item()!r} at row {row}."
        )
    signs = np.ascontiguousarray(values.T, dtype=np.int8)
    needs_both, is_bool = is_binary is None, values.dtype == np.bool_
    has_only_0_and_1 = not (signs < 0).any() and (is_binary or bool((signs == 0).any()))
    is_binary = is_bool or (has_only_0_and_1 and is_binary is not False)
    signs = 2 * signs - 1 if is_binary else signs
    for sign in (1, -1) if needs_both else ():
        lacks = ~(signs == sign).any(axis=1)
        if lacks.any():
            column = int(np.argmax(lacks))
            found = " and ".join(map(str, np.unique(values[:, column].astype(int))[::-1].tolist()))
            raise ValueError(
                f"Column {column} of {name} must hold both classes, 1 and -1; it has {found} alone. 0 leaves "
                "a row out if a label is -1: labels of 0 and 1 are given as booleans, or as 2 * Y - 1."
            )
    return signs, is_binary


@dataclass(frozen=True, eq=False)
class SharedProducts:
    """The rows of a block as the solver works on them, and their Gram matrix, which serves all label sets.

    Attributes
    ----------
    X : array of shape (n, d), CSR array or tensor
        The rows ``(x_i - center) / 2^exponent``.
    G : array of shape (n, n)
        ``X X^T``.
    center : ndarray of shape (d,) or None
    exponent : int
    max_norm : float
        At least the largest norm of a row of X.
    """

    X: Any
    G: Any
    center: Array | None
    exponent: int
    max_norm: float

    @classmethod
    def of(cls, problem: Problem, threads: int = 1) -> SharedProducts:
        """Gather the rows of a problem, and multiply them."""
        center, exponent = center_and_exponent(problem, problem.rows.gather)
        X = problem.rows.gather(np.arange(problem.n))
        if center is None and problem.fit_intercept and not is_sparse(X) and not exponent:
            mean = to_host(X.mean(0))
            center = mean if norm(mean) > _FAR * problem.max_norm else None
        if center is not None:
            X -= like(X, center)
        if exponent:
            divide_by_power(X, exponent)
        if isinstance(X, np.ndarray) or is_sparse(X):
            G = np.empty((problem.n, problem.n))
            extend_gram(G, X, 0, threads)
        else:
            G = X @ X.T
        return cls(X, G, center, exponent, float(row_squares(X).max()) ** 0.5)

    def label_set(self, problem: Problem) -> RowsInPlace:
        """Return all rows that a label set, the labels of a problem, keeps."""
        return RowsInPlace(problem, self.X, self.G, self.center, self.exponent, self.max_norm)
