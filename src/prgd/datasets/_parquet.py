"""Parquet files, through pyarrow."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.datasets._cells import Found, Wanted, ignored_note
from prgd.rows.readers.parquet import fill_columns, label_values, open_parquet, read_table


def read(wanted: Wanted) -> Found:
    """Return the rows and the labels, or None for labels if the file has none."""
    file = wanted.file
    with open_parquet(file) as source:  # It says what to do if pyarrow is missing.
        table = read_table(source, file)
    chosen = wanted.columns.choose(file, table.column_names)
    n, d = table.num_rows, len(chosen.features)
    if not n:
        raise ValueError(f"{file}: expected rows with features, got {n} rows of {d} features.")
    is_kept = None
    notes, at = ignored_note(file, chosen.ignored), chosen.label
    if at is not None and wanted.missing == "drop" and (count := table.column(at).null_count):
        is_kept = table.column(at).is_valid().to_numpy(zero_copy_only=False)
        table = table.filter(table.column(at).is_valid())
        notes += (f"{file}: {count:,} of {n:,} rows have no label and were dropped.",)
    X = np.empty((table.num_rows, d), dtype=wanted.dtype or np.float64)
    names = [table.column_names[j] for j in chosen.features]
    fill_columns(X, [table.column(j) for j in chosen.features], names, file, may_lack=True)
    y = None if at is None else label_values(table.column(at), table.column_names[at], file)
    place = partial(_place, file, is_kept)
    return Found(X, y, place, chosen.names, notes, None, names, is_kept)


def read_frame(file: Path) -> Any:
    """Return all columns as a pandas data frame, without the row index that pandas stored."""
    with open_parquet(file) as source:
        table = read_table(source, file)
    # Integers beside missing values stay Python's integers, since float64 may round them.
    frame = table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    return frame.filter(regex=r"^(?!__index_level_\d+__$)")


def _place(file: Path, is_kept: npt.NDArray[np.bool_] | None, row: int) -> str:
    return f"{file}, row {row if is_kept is None else np.flatnonzero(is_kept)[row]}"
