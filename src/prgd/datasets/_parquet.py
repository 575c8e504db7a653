"""Parquet files, through pyarrow."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from prgd.datasets._cells import Labels, Wanted, as_labels, check_finite, label_column
from prgd.rows.readers.parquet import fill_columns, label_values, open_parquet, read_table


def read(wanted: Wanted) -> tuple[Any, Labels | None]:
    """Return X and the labels, or None for labels if the file has none."""
    file = wanted.file
    with open_parquet(file) as source:  # It says what to do if pyarrow is missing.
        table = read_table(source, file)
    # pandas stores a row index that is not a plain count in columns of this name.
    index = re.compile(r"__index_level_\d+__")
    table = table.select([j for j, name in enumerate(table.column_names) if not index.match(name)])
    at = label_column(wanted, table.column_names)
    features = table if at is None else table.remove_column(at)
    n, d = table.num_rows, features.num_columns
    if not (n and d):
        raise ValueError(f"{file}: expected rows with features, got {n} rows of {d} features.")
    X = np.empty((n, d), dtype=wanted.dtype or np.float64)
    fill_columns(X, features.columns, features.column_names, file)
    check_finite(X, lambda row: f"{file}, row {row}", features.column_names)
    if at is None:
        return X, None
    y = label_values(table.column(at), table.column_names[at], file)
    return X, as_labels(y, file)
