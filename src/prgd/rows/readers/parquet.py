"""Parquet files through pyarrow: read whole, or in parts at every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.checks import TextError, as_option, bad_cell
from prgd.core.errors import imported
from prgd.core.types import Indices
from prgd.rows.exact import check_exact, in_column
from prgd.rows.readers.cells import Found, Wanted, ignored_note
from prgd.rows.readers.columns import Columns
from prgd.rows.readers.sources import BLOCK_BYTES, MIN_ROWS, FileSource
from prgd.rows.readers.text import LabelArray, as_labels


class ParquetSource(FileSource):
    """A Parquet file: a part is a row group, decoded in batches of rows."""

    def __init__(self, path: Path, columns: Columns, max_memory: int) -> None:
        file = open_parquet(path)
        names = file.schema_arrow.names
        chosen = columns.choose(path, names)
        self.columns, self.feature_names = [names[j] for j in chosen.features], chosen.names
        types = {str(file.schema_arrow.field(name).type) for name in self.columns}
        dtype = np.float32 if types == {"float"} else np.float64
        super().__init__(path, (file.metadata.num_rows, len(self.columns)), dtype)
        if chosen.label is not None:
            label = names[chosen.label]
            self.labels = label_values(read_table(file, path, [label]).column(0), label, path)
        groups = [file.metadata.row_group(g) for g in range(file.metadata.num_row_groups)]
        self._ends = np.cumsum([group.num_rows for group in groups])
        # A batch is held twice: as columns of pyarrow and as our block.
        row = 2 * self.d * self._dtype.itemsize
        self._batch = max(1, min(max(2 * BLOCK_BYTES, MIN_ROWS * row), max_memory) // row)
        # pyarrow holds the encoded bytes of a row group while it decodes the group.
        encoded = max(max(group.total_byte_size for group in groups), 0)
        self.at_once = max(1, max_memory // (encoded + self._batch * row))

    def parts(self) -> Iterable[slice]:
        """Return the row ranges of the row groups that are not empty."""
        ends = np.unique([0, *self._ends]).tolist()
        return map(slice, ends[:-1], ends[1:])

    def _open(self) -> Any:
        return open_parquet(self.path)  # A ParquetFile serves one thread at a time.

    def _blocks(self, opened: Any, part: slice) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        """Decode the row group that begins at ``part`` batch by batch."""
        group, start = int(np.searchsorted(self._ends, part.start, side="right")), part.start
        batches = opened.iter_batches(
            self._batch, row_groups=[group], columns=self.columns, use_threads=False
        )
        while (batch := _decoded(self.path, lambda: next(batches, None))) is not None:
            block = np.empty((self.d, batch.num_rows), self._dtype).T
            fill_columns(block, batch.columns, self.columns, self.path, start)
            yield slice(start, start + batch.num_rows), block
            start += batch.num_rows

    def with_order(self, names: tuple[str, ...]) -> ParquetSource:
        """Return the source with its features in another order."""
        found = copy(self)
        found.columns, found.feature_names = list(names), names
        return found

    def whole(self) -> npt.NDArray[Any]:
        """Return all rows as one array."""
        return self._gather(np.arange(self.n))

    def take(self, indices: Indices) -> Any:
        """Return the rows x_i of these indices, from the row groups that hold them."""
        return self._gather(indices).astype(np.float64, copy=False)

    def _gather(self, indices: Indices) -> npt.NDArray[Any]:
        self._check()
        found, file = np.empty((indices.size, self.d), self._dtype), self._open()
        for part in self.parts():
            if np.searchsorted(indices, part.start) == np.searchsorted(indices, part.stop):
                continue
            for rows, block in self._counted(file, part):
                mine = slice(*np.searchsorted(indices, [rows.start, rows.stop]).tolist())
                found[mine] = block[indices[mine] - rows.start]
        return found


def read_parquet(wanted: Wanted) -> Found:
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
    row_of = np.arange(n) if is_kept is None else np.flatnonzero(is_kept)
    return Found(X, y, lambda row: f"{file}, row {row_of[row]}", chosen.names, notes, None, names, is_kept)


def read_parquet_frame(file: Path) -> Any:
    """Return all columns as a pandas data frame, without the row index that pandas stored."""
    with open_parquet(file) as source:
        table = read_table(source, file)
    # Integers beside missing values stay Python's integers, since float64 may round them.
    frame = table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    return frame.filter(regex=r"^(?!__index_level_\d+__$)")


def fill_columns(
    block: npt.NDArray[Any],
    columns: Sequence[Any],
    names: Sequence[str],
    path: Path,
    first_row: int = 0,
    *,
    may_lack: bool = False,
) -> None:
    """Write Arrow columns of numbers into the columns of ``block``.

    A missing value is an error, or NaN if values ``may_lack``.
    """
    from pyarrow import types

    for j, (name, column) in enumerate(zip(names, columns, strict=True)):
        missing = None
        if may_lack and column.null_count and not types.is_dictionary(column.type):
            missing = column.is_null().to_numpy(zero_copy_only=False)
            # Arrow turns integers beside missing values into floats, rounded: only the others are converted.
            column = column.drop_null()
        column = plain_column(column, name, path, first_row)
        kind = column.type
        numeric = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal)
        if not any(is_kind(kind) for is_kind in numeric):
            raise TextError(
                f"{path}, column {name!r}: expected numbers, got {kind}. Leave the column out"
                f" (--drop {as_option([name])}), or encode it as numbers."
            )
        values = _decoded(path, partial(column.to_numpy, zero_copy_only=False))
        check_exact(values, place=in_column(f"{path},", name, first_row), column=name)
        rows = slice(None) if missing is None else ~missing
        if len(values) != len(block[rows, j]):
            raise _not_whole(path, f"{len(values)} values of {name!r} for {len(block)} rows")
        with np.errstate(over="ignore"):
            block[rows, j] = values
        if missing is not None:
            block[missing, j] = np.nan


def plain_column(column: Any, name: str, path: Path, first_row: int = 0) -> Any:
    """Return an Arrow column with its dictionary decoded; a missing value is an error."""
    from pyarrow import types

    if column.null_count:
        row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise bad_cell(f"{path}, row {row}", name, None)
    if types.is_dictionary(column.type):
        return _decoded(path, partial(column.cast, column.type.value_type))
    return column


def label_values(column: Any, name: str, path: Path) -> LabelArray:
    """Return the labels of an Arrow column as `as_labels` does; a missing label is an error."""
    column = plain_column(column, name, path)
    values = np.asarray(_decoded(path, column.to_numpy))
    is_text = str(column.type) in ("string", "large_string")
    return as_labels(values.astype(str) if is_text else values, path)


def read_table(file: Any, path: Path, columns: Sequence[str] | None = None) -> Any:
    """Return the columns of an open Parquet file, after counting their rows."""
    table = _decoded(path, lambda: file.read(columns))
    announced = file.metadata.num_rows
    if columns is not None and table.column_names != list(columns):
        raise _not_whole(path, f"the columns {', '.join(table.column_names)}")
    if table.num_rows != announced or any(len(column) != announced for column in table.columns):
        raise _not_whole(path, f"{table.num_rows} rows where {announced} are announced")
    return table


def open_parquet(path: Path) -> Any:
    """Return the open `pyarrow.parquet.ParquetFile`."""
    parquet = imported("pyarrow.parquet", f"Reading {path}", "report")
    file = _decoded(path, lambda: parquet.ParquetFile(path, page_checksum_verification=True))
    facts = file.metadata
    counts = [facts.row_group(g).num_rows for g in range(facts.num_row_groups)]
    if sum(counts) != facts.num_rows or min(counts, default=0) < 0:
        raise _not_whole(path, f"row groups of {sum(counts)} rows where {facts.num_rows} are announced")
    return file


def _decoded(path: Path, read: Callable[[], Any]) -> Any:
    """Return what pyarrow reads; its errors, which share no base class, become one that names the file."""
    try:
        return read()
    except Exception as error:
        raise _not_whole(path, f"an error ({error})") from error


def _not_whole(path: Path, found: str) -> ValueError:
    return ValueError(f"{path}: expected a whole Parquet file, got {found}. Fetch it again.")
