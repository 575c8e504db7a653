"""What the readers of the formats share: the request, the answer, and the treatment of missing values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.core.checks import CellError, bad_cell
from prgd.core.types import Array
from prgd.rows.blocks import non_finite_entry
from prgd.rows.exact import as_float
from prgd.rows.readers.columns import Columns, some
from prgd.rows.readers.text import LabelArray

MISSING = ("refuse", "drop", "mean")  # what is done about missing values


class Wanted(NamedTuple):
    """What a reader is asked for; `prgd.datasets.load` explains the options."""

    file: Path
    columns: Columns
    dtype: np.dtype[Any] | None = None
    separator: str | None = None
    decimal: str = "."
    missing: str = "refuse"
    means: Array | None = None  # means of the features of a model, which replace missing values


@dataclass(frozen=True)
class Found:
    """What a reader found, before missing values are treated.

    Attributes
    ----------
    X : ndarray or csr_array
        NaN stands for a missing value.
    y : ndarray, or None if the file has no labels
    place : callable
        Row -> the words that name its place in the file.
    feature_names : tuple of str or None
    notes : tuple of str
        What a user should be told.
    unlabelled : ndarray of bool, or None
        Rows whose label is missing.
    columns : sequence of str, or None
        What errors call the columns; their positions in X by default.
    is_kept : ndarray of bool, or None
        For each row of the file whether X has it; None if X has all.
    means : ndarray, or None
        The means that were filled in, or would have been.
    """

    X: Any
    y: LabelArray | None
    place: Callable[[int], str]
    feature_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    unlabelled: npt.NDArray[np.bool_] | None = None
    columns: Sequence[str] | None = None
    is_kept: npt.NDArray[np.bool_] | None = None
    means: Array | None = None


def ignored_note(file: Path, ignored: Sequence[str]) -> tuple[str, ...]:
    """Return the note on columns that a model does not use, if there are some."""
    if not ignored:
        return ()
    return (
        f"{file}: the model was not fitted on {some(ignored)}, which {'is' if len(ignored) == 1 else 'are'} "
        "ignored."
        " If it has the labels in such a column, name the column with --label.",
    )


def treat_missing(found: Found, wanted: Wanted) -> Found:
    """Return the rows without missing values: these are refused, their rows dropped, or means filled in."""
    X, file = found.X, wanted.file
    if wanted.missing == "mean" and isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        return _with_means(found, wanted)
    is_lost = np.zeros(X.shape[0], bool) if found.unlabelled is None else found.unlabelled
    if isinstance(X, np.ndarray) and X.dtype.kind == "f" and not np.isfinite(X).all():
        holes = np.isnan(X)
        is_lost = is_lost | holes.any(axis=1)
    count = int(np.count_nonzero(is_lost))
    if not count:
        return found
    if wanted.missing == "refuse":
        row = int(np.argmax(is_lost))
        raise missing_cell(found.place(row), _name(found, int(np.argmax(holes[row]))), X[row][holes[row]][0])
    many = f"{count:,} of {len(is_lost):,} rows"
    if count == len(is_lost):
        raise ValueError(f"{file}: every row has a missing value, so that none is left after dropping.")
    kept = np.flatnonzero(~is_lost)
    y = None if found.y is None else found.y[kept]
    is_kept = np.ones(len(is_lost), bool) if found.is_kept is None else found.is_kept.copy()
    is_kept[is_kept] = ~is_lost
    return replace(
        found,
        X=X[kept],
        y=y,
        place=lambda row: found.place(int(kept[row])),
        notes=(*found.notes, f"{file}: {many} have missing values and were dropped."),
        is_kept=is_kept,
    )


def _with_means(found: Found, wanted: Wanted) -> Found:
    """Return the rows with means in place of missing values: those of a model, else those of the file."""
    X, file, means = found.X, wanted.file, wanted.means
    holes, source = np.isnan(X), "of the rows that the model was fitted on"
    if means is None:
        source = "of their columns in this file"
        if (is_empty := holes.all(axis=0)).any():
            name = _name(found, int(np.argmax(is_empty)))
            raise ValueError(
                f"{file}, column {name!r}: every value is missing, so there is no mean. Drop it."
            )
        with np.errstate(invalid="ignore"):  # Infinite values are refused later, by their place.
            means = np.nanmean(X, axis=0, dtype=np.float64)
    elif len(means) != X.shape[1]:
        raise ValueError(
            f"{file} has {X.shape[1]:,} features, and the model was fitted on {len(means):,}. "
            "Give the same columns in the same order."
        )
    if not (count := int(np.count_nonzero(holes.any(axis=1)))):
        return replace(found, means=means)
    note = f"{file}: {count:,} of {len(X):,} rows have missing values; the means {source} were filled in."
    X = np.where(holes, means.astype(X.dtype), X)
    return replace(found, X=X, means=means, notes=(*found.notes, note))


def missing_cell(place: str, column: str, value: object) -> ValueError:
    """Return the error for a missing value."""
    text = repr(value) if isinstance(value, str) else str(value)
    return CellError(
        f"{place}, column {column!r}: expected a finite number, got {text}: the value is missing. Fill it"
        " in, or choose what to do about missing values: --missing drop (their rows) or --missing mean."
    )


def _name(found: Found, column: int) -> str:
    return str(column) if found.columns is None else found.columns[column]


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


def check_finite(X: Any, place: Callable[[int], str], names: Sequence[str] | None, raw: Any) -> None:
    """Raise ``ValueError`` for a value that is not finite, with its place; ``raw`` has those of the file."""
    if found := non_finite_entry(X):
        row, column = found
        raise bad_cell(place(row), str(column) if names is None else names[column], raw[row, column])
