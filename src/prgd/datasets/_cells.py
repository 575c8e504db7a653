"""What the readers of the formats share: the request, the label column, and checks of values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.checks import unexpected

Labels = npt.NDArray[np.float64] | npt.NDArray[np.str_]
Label = str | int | None

LABEL_NAMES = ("y", "label", "target", "class")
NO_LABEL = "Fill in or drop rows without one."
NOT_FINITE = "Fill in or drop missing values, and encode text as numbers."


class Wanted(NamedTuple):
    """What a reader is asked for.

    ``n_features`` is None if labels are required. Else a file without labels is fine, and a CSV or Parquet
    file is taken for one if it has so many columns and none of them is named as a label.
    """

    file: Path
    label: Label
    dtype: np.dtype[Any] | None
    n_features: int | None = None


def label_column(wanted: Wanted, names: Sequence[str], default: int | None = None) -> int | None:
    """Return the index of the label column, or None if the file has features only."""
    label = wanted.label
    listed = ", ".join(names[:10]) + (f", ... ({len(names)} in all)" if len(names) > 10 else "")
    if isinstance(label, bool) or not isinstance(label, str | int | None):
        raise TypeError(f"label must be a column's name or index, or None; got {label!r}.")
    lowered = [name.lower() for name in names]
    if label is None and len(names) == wanted.n_features and set(LABEL_NAMES).isdisjoint(lowered):
        return None
    label = default if label is None else label
    if isinstance(label, int):
        if not -len(names) <= label < len(names):
            span = f"a label column from 0 to {len(names) - 1}"
            raise unexpected(wanted.file, span, f"label={label}", f"Columns: {listed}.")
        return label % len(names)
    asked = LABEL_NAMES if label is None else (label,)
    found = [j for j, name in enumerate(names if label else lowered) if name in asked]
    if len(found) != 1:
        raise unexpected(
            wanted.file,
            f"one label column called {' or '.join(asked)}",
            len(found),
            f"Columns: {listed}. Pass label= with a name or an index.",
        )
    return found[0]


def as_floats(X: npt.NDArray[Any], wanted: Wanted) -> npt.NDArray[Any]:
    """Return X as floats of the wanted type; a value out of range becomes infinite."""
    if X.dtype.kind not in "biuf":
        raise unexpected(wanted.file, "numbers in X", X.dtype, "Encode them as numbers.")
    is_float = X.dtype in (np.dtype(np.float64), np.dtype(np.float32))
    with np.errstate(over="ignore"):
        return X.astype(wanted.dtype or (X.dtype if is_float else np.float64), copy=False)


def as_labels(y: npt.NDArray[Any], file: Path) -> Labels:
    """Return labels as strings or finite float64."""
    if y.dtype.kind == "S":
        return np.char.decode(y, "utf-8")
    if y.dtype.kind == "U":
        return y
    if y.dtype.kind not in "biuf":
        raise unexpected(file, "labels as numbers or strings", y.dtype, "")
    labels = y.astype(np.float64)
    if not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels.ravel()))[0])
        raise unexpected(f"{file}, row {row}", "a finite label", labels.ravel()[row], NO_LABEL)
    return labels


def first_bad(X: Any) -> tuple[int, int] | None:
    """Return row and column of the first value that is not finite, or None."""
    values = X if isinstance(X, np.ndarray) else X.data
    if np.isfinite(values).all():
        return None
    if isinstance(X, np.ndarray):
        row, column = np.argwhere(~np.isfinite(X))[0]
    else:
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        row, column = np.searchsorted(X.indptr, at, side="right") - 1, X.indices[at]
    return int(row), int(column)


def bad_cell(place: str, column: str, value: object) -> ValueError:
    """Return the error for a value that is no finite number."""
    text = repr(value) if isinstance(value, str | None) else str(value)
    return unexpected(f"{place}, column {column!r}", "a finite number that fits the dtype", text, NOT_FINITE)
