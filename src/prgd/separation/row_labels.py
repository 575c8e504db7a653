"""Labels of the rows of a data frame: a verdict counts rows from 0, and users select them by their labels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from prgd.separation.verdict import Separability

_REPEATED = "The labels of the data repeat: call data.reset_index(drop=True) before the model is made."


def labels_of(data: Any) -> Any:
    """Return the labels of the rows of a pandas frame or series; None for what has none.

    Examples
    --------
    >>> import pandas as pd
    >>> list(labels_of(pd.DataFrame({"x": [1, 2]}, index=["u", "v"]))), labels_of([1, 2])
    (['u', 'v'], None)
    """
    return data.index if hasattr(data, "iloc") else None


def with_labels(found: Separability, labels: Any) -> Separability:
    """Return a verdict that knows the labels of its rows, with a note if they are not 0, 1, 2 and so on."""
    if labels is None or np.array_equal(np.asarray(labels), np.arange(len(labels))):
        return found
    rows = "X[found.limiting_labels]" if isinstance(labels, np.ndarray) else "data.loc[found.limiting_labels]"
    select = f"The limiting rows of the data are {rows}." if _is_unique(labels) else _REPEATED
    note = f"Row numbers count the rows of the model from 0, and are not the labels of the data. {select}"
    # A verdict without separated rows prints no row numbers, and all of its rows are limiting rows.
    notes = (*found.notes, note) if found.separated_rows.size else found.notes
    return replace(found, row_labels=labels, notes=notes)


def limiting_labels(found: Separability) -> Any:
    """Return the labels of the limiting rows; their numbers if the data have no labels of their own."""
    if found.row_labels is None:
        return found.limiting_rows
    if not _is_unique(found.row_labels):
        raise ValueError(_REPEATED)
    return found.row_labels[found.limiting_rows]


def _is_unique(labels: Any) -> bool:
    return isinstance(labels, np.ndarray) or bool(labels.is_unique)
