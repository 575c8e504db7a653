"""CSV files, with or without a header, labels and compression."""

from __future__ import annotations

import csv
import io
import math
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from prgd._types import Array
from prgd.checks import bad_cell, is_rounded_integer, not_exact
from prgd.datasets._cells import LABEL_NAMES, Label, Labels, Wanted, as_floats, check_finite, label_column
from prgd.rows.exact import MAX_INTEGER
from prgd.rows.readers.streams import BROKEN_STREAM, open_stream

Records = Iterator[tuple[int, list[str]]]  # The line number and the cells of each row.


def read(wanted: Wanted) -> tuple[Any, Labels | None]:
    """Return X and the labels, or None for labels if the file has none."""
    file = wanted.file
    line, names, at, records = _columns(wanted)
    features = [name for j, name in enumerate(names) if j != at]
    values, lines = array("d"), array("q")
    labels: list[str] = []
    for line, cells in records:
        place = f"{file}, line {line}"
        if len(cells) != len(names):
            raise ValueError(
                f"{place}: expected {len(names)} cells as in the first row, got {len(cells)}."
                " Quote cells that hold a comma."
            )
        if at is not None:
            labels.append(cells.pop(at).strip())
            if labels[-1].lower() in ("", "nan"):
                raise ValueError(
                    f"{place}, column {names[at]!r}: expected a label, got {labels[-1]!r}."
                    " Fill in or drop rows without one."
                )
        lines.append(line)
        try:
            _check_spelling("".join(cells))
            values.extend(map(float, cells))
        except ValueError:
            j = [_is_number(cell) for cell in cells].index(False)
            if at is None and j == len(names) - 1:
                raise ValueError(
                    f"{file}: the last column, {names[j]!r}, is not numeric. If it holds labels, pass"
                    " label= (on the command line: --label)."
                ) from None
            raise bad_cell(place, features[j], cells[j]) from None
    if not lines:
        raise ValueError(f"{file}: expected rows after the header in line {line}, got none.")
    raw = np.frombuffer(values).reshape(len(lines), len(features))
    _check_integers(wanted, raw, lines)
    X = check_finite(as_floats(raw, wanted), lambda row: f"{file}, line {lines[row]}", features, raw)
    if at is None:
        return X, None
    numbers = np.array([_number(text) for text in labels])
    return X, numbers if np.isfinite(numbers).all() else np.array(labels)


def _check_integers(wanted: Wanted, raw: Array, lines: Sequence[int]) -> None:
    """Read the file again if there are integers that may have been rounded, and name the first that was."""
    large = np.argwhere(np.abs(raw) >= MAX_INTEGER).tolist()
    if not large:
        return
    _, names, at, records = _columns(wanted)
    columns = [j for j in range(len(names)) if j != at]
    places: dict[int, list[int]] = {lines[row]: [] for row, _ in large}
    for row, column in large:
        places[lines[row]].append(columns[column])
    for line, cells in records:
        for j in places.get(line, ()):
            if is_rounded_integer(cells[j], float(cells[j])):
                raise not_exact(f"{wanted.file}, line {line}, column {names[j]!r}", cells[j].strip())


def _columns(wanted: Wanted) -> tuple[int, list[str], int | None, Records]:
    """Return the number of the first line, the names, the index of the label column, and the rows."""
    file, records = wanted.file, _records(wanted.file)
    line, first = next(records, (0, []))
    if len(first) < 2:
        raise ValueError(
            f"{file}: expected rows of at least two cells separated by commas, got"
            f" {','.join(first)!r} in the first. Convert other separators to commas."
        )
    if not _is_header(first, wanted.label):
        names = [str(j) for j in range(len(first))]
        return line, names, label_column(wanted, names, default=-1), chain([(line, first)], records)
    names = [cell.strip() for cell in first]
    if "" in names:
        raise ValueError(
            f"{file}, line {line}: expected a name for every column, got none for column"
            f" {names.index('')} counted from 0. Name it, or save without the row index."
        )
    return line, names, label_column(wanted, names), records


def _records(file: Path) -> Records:
    """Yield the line number and cells of each row, blank lines left out."""
    with open_stream(file) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True, skipinitialspace=True)
        try:
            for cells in reader:
                if len(cells) > 1 or (cells and cells[0].strip()):
                    yield reader.line_num, cells
        except (csv.Error, UnicodeDecodeError, *BROKEN_STREAM) as error:
            raise ValueError(
                f"{file}: expected whole UTF-8 text with cells separated by commas, got an"
                f" error after line {reader.line_num} ({error}). Fetch or save the file again."
            ) from error


def _is_header(cells: Sequence[str], label: Label) -> bool:
    numbers = [cell.strip() for cell in cells if _is_number(cell)]
    if isinstance(label, str) or not numbers:
        return True
    # "0,1,2,y" names columns, while "5.1,3.5,y" is a row whose label happens to be y.
    others = [cell.strip().lower() for cell in cells if not _is_number(cell)]
    is_counted = any(numbers == [str(k + j) for j in range(len(numbers))] for k in (0, 1))
    return is_counted and len(others) == 1 and others[0] in LABEL_NAMES


def _is_number(cell: str) -> bool:
    try:
        _check_spelling(cell)
        float(cell)
    except ValueError:
        return False
    return True


def _check_spelling(text: str) -> None:
    """Raise ``ValueError`` for what Python alone takes for a number: 1_0, and digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError("not a number")


def _number(label: str) -> float:
    """Return a label as a number, NaN if it is none or has no float64: labels stay text then."""
    value = float(label) if _is_number(label) else math.nan
    return math.nan if is_rounded_integer(label, value) else value
