"""What the readers of the formats share: the request, the label column, and checks of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.checks import bad_cell
from prgd.rows.exact import as_float

Labels = npt.NDArray[np.float64] | npt.NDArray[np.integer[Any]] | npt.NDArray[np.str_]
Label = str | int | None

LABEL_NAMES = ("y", "label", "target", "class")


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
    file, label = wanted.file, wanted.label
    listed = ", ".join(names[:10]) + (f", ... ({len(names)} in all)" if len(names) > 10 else "")
    if isinstance(label, bool) or not isinstance(label, str | int | None):
        raise TypeError(f"label must be a column's name or index, or None; got {label!r}.")
    lowered = [name.lower() for name in names]
    if label is None:
        if len(names) == wanted.n_features and set(LABEL_NAMES).isdisjoint(lowered):
            return None
        label = default
    if isinstance(label, int):
        if not -len(names) <= label < len(names):
            raise ValueError(
                f"{file}: expected a label column from 0 to {len(names) - 1}, got label={label}."
                f" Columns: {listed}."
            )
        return label % len(names)
    asked = LABEL_NAMES if label is None else (label,)
    found = [j for j, name in enumerate(names if label else lowered) if name in asked]
    if len(found) != 1:
        raise ValueError(
            f"{file}: expected one label column called {' or '.join(asked)}, got {len(found)}."
            f" Columns: {listed}. Pass label= (on the command line: --label) with a name or an index."
        )
    return found[0]


def as_floats(X: npt.NDArray[Any], wanted: Wanted) -> npt.NDArray[Any]:
    """Return X as floats of the wanted type; a value out of its range becomes infinite."""
    check_numbers(X, wanted)
    X = as_float(X, f"{wanted.file}: X")
    with np.errstate(over="ignore"):
        return X.astype(wanted.dtype or X.dtype, copy=False)


def check_numbers(X: npt.NDArray[Any], wanted: Wanted) -> None:
    """Raise ``ValueError`` unless the type of X is one of real numbers."""
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{wanted.file}: expected numbers in X, got {X.dtype}. Encode them as numbers.")


def as_labels(y: npt.NDArray[Any], file: Path) -> Labels:
    """Return labels as strings, finite float64, or integers as they are if float64 cannot hold them."""
    if y.dtype.kind == "S":
        return np.char.decode(y, "utf-8")
    if y.dtype.kind == "U":
        return y
    if y.dtype.kind not in "biuf":
        raise ValueError(f"{file}: expected labels as numbers or strings, got {y.dtype}.")
    try:
        labels = as_float(y, f"{file}: y").astype(np.float64)
    except ValueError:
        if y.dtype.kind not in "iu":
            raise
        return y
    if not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels.ravel()))[0])
        raise ValueError(
            f"{file}, row {row}: expected a finite label, got {labels.ravel()[row]}."
            " Fill in or drop rows without one."
        )
    return labels


def check_finite(
    X: Any, place: Callable[[int], str], names: Sequence[str] | None = None, raw: Any = None
) -> Any:
    """Return X if every value is finite, else name the place; ``raw`` has the values of the file."""
    values = X if isinstance(X, np.ndarray) else X.data
    if np.isfinite(values).all():
        return X
    if isinstance(X, np.ndarray):
        row, column = np.argwhere(~np.isfinite(X))[0].tolist()
    else:
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        row, column = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
    name = str(column) if names is None else names[column]
    raise bad_cell(place(row), name, (X if raw is None else raw)[row, column])
