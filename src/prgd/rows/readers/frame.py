"""The columns of a CSV, TSV or Parquet file as a formula takes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.errors import imported
from prgd.rows.readers.cells import Wanted
from prgd.rows.readers.columns import Columns
from prgd.rows.readers.csv_text import read_columns
from prgd.rows.readers.files import check_file, format_of
from prgd.rows.readers.parquet import read_parquet_frame


@dataclass(frozen=True, eq=False)
class Frame:
    """The columns of a file as a formula takes them: numbers, truth values and text, some of them missing.

    Attributes
    ----------
    columns : dict from name to array, or pandas data frame
    name : str
        The name of the file without its ending.
    place : callable
        Row -> the words that name its place in the file.
    notes : tuple of str
        What the command line tells its user.
    kept, dropped : ndarray of int, optional
        The rows of the file that these are, and those that were dropped, if some were.
    """

    columns: Any
    name: str
    place: Callable[[int], str]
    notes: tuple[str, ...] = ()
    kept: npt.NDArray[np.int64] | None = None
    dropped: npt.NDArray[np.int64] | None = None

    def complete(self, used: Sequence[str], *, drop: bool) -> Frame:
        """Return some of the columns; a missing value is an error that names its place, or drops its row."""
        pd = imported("pandas", "A formula", "formula")
        frame = pd.DataFrame({name: self.columns[name] for name in used})
        missing = frame.isna().to_numpy()
        rows = missing.any(axis=1)
        if not rows.any():
            return replace(self, columns=frame)
        row = int(np.argmax(rows))
        if not drop or rows.all():
            name = used[int(np.argmax(missing[row]))]
            raise ValueError(
                f"{self.place(row)}, column {name!r}: the value is missing. Fill it in, or drop such rows: "
                "--missing drop."
            )
        kept = np.flatnonzero(~rows)
        note = (
            f"{int(rows.sum()):,} of {rows.size:,} rows have missing values and were dropped; row "
            "numbers are those of the file, from 0."
        )
        frame = frame.iloc[kept].reset_index(drop=True).infer_objects()
        place, notes = (lambda k: self.place(int(kept[k]))), (*self.notes, note)
        return replace(self, columns=frame, place=place, notes=notes, kept=kept, dropped=np.flatnonzero(rows))


def load_frame(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    separator: str | None = None,
    decimal: str = ".",
) -> Frame:
    """Load the columns of a CSV, TSV or Parquet file, text and missing values included, for a formula.

    Parameters
    ----------
    path, format, separator, decimal
        As for `load`.

    Returns
    -------
    Frame
    """
    file = Path(path).expanduser()
    stem, kind, wanted = format_of(Wanted(file, Columns(), None, separator, decimal), format, None)
    if kind not in ("csv", "tsv", "parquet"):
        raise ValueError(f"{file}: a formula needs columns with names; give a CSV, TSV or Parquet file.")
    check_file(file)
    if kind == "parquet":
        return Frame(read_parquet_frame(file), stem, lambda row: f"{file}, row {row}")
    columns, lines = read_columns(wanted)
    return Frame(columns, stem, lambda row: f"{file}, line {lines[row]}")
