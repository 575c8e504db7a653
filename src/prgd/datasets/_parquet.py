"""Parquet files, through pyarrow."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from prgd.checks import unexpected
from prgd.datasets._cells import Labels, Wanted, as_labels, bad_cell, first_bad, label_column
from prgd.rows.readers.sources import open_parquet


def read(wanted: Wanted) -> tuple[Any, Labels | None]:
    """Return X and the labels, None if the file has none."""
    file = wanted.file
    with open_parquet(file) as source:
        table = source.read()
    from pyarrow import types  # `open_parquet` has said what to do if pyarrow is missing.

    # A row index of pandas that is not a plain count lies in columns of this name.
    index = re.compile(r"__index_level_\d+__")
    table = table.select([j for j, name in enumerate(table.column_names) if not index.match(name)])
    names = table.column_names
    at = label_column(wanted, names)
    features = [j for j in range(len(names)) if j != at]
    n, d = table.num_rows, len(features)
    if n == 0 or d == 0:
        raise unexpected(file, "rows with features", f"{n} rows of {d} features", "")
    for name, column in zip(names, table.columns, strict=True):
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise bad_cell(f"{file}, row {row}", name, None)
    X = np.empty((n, d), dtype=wanted.dtype or np.float64)
    for j, source_j in enumerate(features):
        column = table.column(source_j)
        kind = column.type
        if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            raise unexpected(
                f"{file}, column {names[source_j]!r}",
                "numbers",
                kind,
                "Encode the column as numbers or leave it out of the file.",
            )
        with np.errstate(over="ignore"):
            X[:, j] = column.to_numpy()
    if (bad := first_bad(X)) is not None:
        raise bad_cell(f"{file}, row {bad[0]}", names[features[bad[1]]], X[bad])
    if at is None:
        return X, None
    column = table.column(at)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    y = column.to_numpy()
    return X, as_labels(y.astype(str) if is_text else y, file)
