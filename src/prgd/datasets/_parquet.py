"""Parquet files, through pyarrow."""

from __future__ import annotations

import numpy as np

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
    notes, at = ignored_note(file, chosen.ignored), chosen.label
    if at is not None and wanted.missing == "drop" and (count := table.column(at).null_count):
        table = table.filter(table.column(at).is_valid())
        notes += (f"{file}: {count:,} of {n:,} rows have no label and were dropped.",)
    X = np.empty((table.num_rows, d), dtype=wanted.dtype or np.float64)
    names = [table.column_names[j] for j in chosen.features]
    fill_columns(X, [table.column(j) for j in chosen.features], names, file, may_lack=True)
    y = None if at is None else label_values(table.column(at), table.column_names[at], file)
    return Found(X, y, lambda row: f"{file}, row {row}", chosen.names, notes, None, names)
