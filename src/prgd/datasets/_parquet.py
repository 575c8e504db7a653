"""Parquet files, through pyarrow."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from prgd.checks import bad_cell
from prgd.datasets._cells import Labels, Wanted, as_labels, check_finite, label_column
from prgd.rows.readers.parquet import fill_columns, open_parquet


def read(wanted: Wanted) -> tuple[Any, Labels | None]:
    """Return X and the labels, or None for labels if the file has none."""
    file = wanted.file
    with open_parquet(file) as source:  # It says what to do if pyarrow is missing.
        table = source.read()
    from pyarrow import types

    # pandas stores a row index that is not a plain count in columns of this name.
    index = re.compile(r"__index_level_\d+__")
    table = table.select([j for j, name in enumerate(table.column_names) if not index.match(name)])
    at = label_column(wanted, table.column_names)
    features = [j for j in range(table.num_columns) if j != at]
    names = [table.column_names[j] for j in features]
    if not (table.num_rows and features):
        raise ValueError(
            f"{file}: expected rows with features, got {table.num_rows} rows of {len(features)} features."
        )
    X = np.empty((table.num_rows, len(features)), dtype=wanted.dtype or np.float64)
    fill_columns(X, [table.column(j) for j in features], names, file)
    check_finite(X, lambda row: f"{file}, row {row}", names)
    if at is None:
        return X, None
    column = table.column(at)
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise bad_cell(f"{file}, row {row}", table.column_names[at], None)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    y = column.to_numpy()
    return X, as_labels(y.astype(str) if is_text else y, file)
