"""Text tables (CSV, TSV and their kin), with or without a header, labels and compression."""

import csv
import io
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.checks import bad_cell, is_rounded_integer, not_exact
from prgd.core.types import Array
from prgd.rows.exact import MAX_INTEGER
from prgd.rows.readers.cells import Found, Wanted, ignored_note, missing_cell
from prgd.rows.readers.columns import LABEL_NAMES, Choice
from prgd.rows.readers.text import (
    BROKEN_STREAM,
    LabelArray,
    check_spelling,
    compression,
    is_number,
    open_stream,
    text_labels,
)

Records = Iterator[tuple[int, list[str]]]  # The line number and the cells of each row.

MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
_NO_LABEL = MISSING - {"null", "none"}  # a class may have one of these two names
_TRUTH = {"true": 1.0, "false": 0.0}
_POINTED = r"[+-]?(\d{1,3}(\.\d{3})+(,\d+)?|\d+\.\d+)"  # thousands, or a decimal point
_SEPARATORS = "\t;,| "  # in the order in which the first line is searched for them
_NAMED = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "space": " "}


def read_csv(wanted: Wanted) -> Found:
    """Return the rows and the labels, or None for labels if the table has none."""
    line, names, is_named, chosen, records = _open(wanted)
    file, at, features = wanted.file, chosen.label, chosen.features
    numbers = _Numbers(wanted, [names[j] for j in features])
    labels: list[str] = []
    for line, cells in records:
        _check_width(wanted, line, cells, len(names))
        if at is not None:
            labels.append(cells[at].strip())
            if labels[-1].lower() in _NO_LABEL and wanted.missing != "drop":
                raise ValueError(
                    f"{file}, line {line}, column {names[at]!r}: expected a label, got {labels[-1]!r}."
                    " Fill in or drop rows without one (--missing drop)."
                )
        numbers.add(line, [cells[j] for j in features], ends_in_label=at is None)
    if not numbers.lines:
        raise ValueError(f"{file}: expected rows after the header in line {line}, got none.")
    X = numbers.matrix()
    notes = ignored_note(file, chosen.ignored)
    if not is_named and at is not None and wanted.columns.label is None:
        notes += (_label_note(file, at, labels),)
    y, unlabelled = (None, None) if at is None else _labels(labels)
    lines = numbers.lines

    def place(row: int) -> str:
        return f"{file}, line {lines[row]}"

    return Found(X, y, place, chosen.names, notes, unlabelled, numbers.names)


def read_columns(wanted: Wanted) -> tuple[dict[str, npt.NDArray[Any]], Sequence[int]]:
    """Return all columns of a table with a header, by their names, and the number of each row's line.

    A column whose cells are all numbers is of floats, NaN where one is missing; True and False are truth
    values; any other column is of text, None where a cell is missing.
    """
    file, separator = wanted.file, _separator(wanted)
    records = _records(file, separator)
    line, names = next(records, (0, []))
    names = _filled(names)
    if all(is_number(name) for name in names):
        found = f"numbers in line {line}" if names else "an empty file"
        raise ValueError(f"{file}: a formula needs a header that names the columns; got {found}.")
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{file}: several columns are called {repeated[0]!r}. Rename them.")
    lines, cells = array("q"), []
    for line, row in records:
        _check_width(wanted, line, row, len(names))
        lines.append(line)
        cells.append(row)
    if not cells:
        raise ValueError(f"{file}: expected rows after the header in line {line}, got none.")
    columns = zip(names, zip(*cells, strict=True), strict=True)
    return {name: _typed(wanted, name, column, lines) for name, column in columns}, lines


def _typed(wanted: Wanted, name: str, cells: Sequence[str], lines: Sequence[int]) -> npt.NDArray[Any]:
    """Return a column as numbers, truth values or text, whichever all of its cells are."""
    texts = [None if (text := cell.strip()).lower() in _NO_LABEL else text for cell in cells]
    known = [text for text in texts if text is not None]
    if all(text.lower() in _TRUTH for text in known):
        truths = [None if text is None else text.lower() == "true" for text in texts]
        return np.array(truths, bool if len(known) == len(texts) else object)
    has_comma = wanted.decimal == ","
    numerals = [_with_point(text) if has_comma and text is not None else text for text in texts]
    if not all(text is None or is_number(text) for text in numerals):
        return np.array(texts, object)
    values = np.array([math.nan if text is None else float(text) for text in numerals])
    for line, numeral, value in zip(lines, numerals, values.tolist(), strict=True):
        if numeral is not None and is_rounded_integer(numeral, value):
            raise not_exact(f"{wanted.file}, line {line}, column {name!r}", numeral)
    return values


def _check_width(wanted: Wanted, line: int, cells: Sequence[str], width: int) -> None:
    """Raise ``ValueError`` unless a row has as many cells as the first one."""
    if len(cells) != width:
        raise ValueError(
            f"{wanted.file}, line {line}: expected {width} cells as in the first row, got {len(cells)}."
            f" Quote cells that hold the separator {_separator(wanted)!r}, or choose another one."
        )


def _labels(labels: Sequence[str]) -> tuple[LabelArray, npt.NDArray[np.bool_]]:
    """Return the labels, those that are missing with the value of another one, and which are missing."""
    is_missing = np.array([label.lower() in _NO_LABEL for label in labels])
    known = [label for label, is_lost in zip(labels, is_missing, strict=True) if not is_lost]
    y = text_labels(known) if known else np.array(labels)
    return (y[np.maximum(np.cumsum(~is_missing) - 1, 0)] if len(known) < len(labels) else y), is_missing


class _Numbers:
    """The numbers of a table, row by row."""

    def __init__(self, wanted: Wanted, names: Sequence[str]) -> None:
        self._wanted, self.names = wanted, names
        self._values, self.lines = array("d"), array("q")
        self._truths: dict[int, int] = {}  # column of True and False -> the first line that has one

    def add(self, line: int, cells: Sequence[str], *, ends_in_label: bool) -> None:
        """Add the cells of one line; most are plain numbers, which are converted at once."""
        given, cells = cells, [_with_point(cell) if self._wanted.decimal == "," else cell for cell in cells]
        for k in self._truths:
            cells[k] = str(_TRUTH.get(cells[k].strip().lower(), cells[k]))
        try:
            check_spelling("".join(cells))
            numbers = [*map(float, cells)]
        except ValueError:
            numbers = [
                float(cell) if is_number(cell) else self._number(line, k, given[k], ends_in_label)
                for k, cell in enumerate(cells)
            ]
        if not (max(numbers) < MAX_INTEGER and min(numbers) > -MAX_INTEGER):  # NaN may come first
            self._check_integers(line, cells, numbers)
        self._values.extend(numbers)
        self.lines.append(line)

    def _check_integers(self, line: int, cells: Sequence[str], numbers: Sequence[float]) -> None:
        """Raise ``ValueError`` for an integer that was rounded, and for a number beyond the largest float."""
        for name, cell, number in zip(self.names, cells, numbers, strict=True):
            if is_rounded_integer(cell, number):
                place = f"{self._wanted.file}, line {line}, column {name!r}"
                raise not_exact(place, cell.strip(), name)
            if math.isinf(number):
                raise bad_cell(f"{self._wanted.file}, line {line}", name, cell.strip())

    def _number(self, line: int, k: int, cell: str, ends_in_label: bool) -> float:
        """Return the number that a cell means which has other text than Python's, or raise ``ValueError``."""
        file, name, text = self._wanted.file, self.names[k], cell.strip()
        if text.lower() in _TRUTH:
            self._truths.setdefault(k, line)
            return _TRUTH[text.lower()]
        if text.lower() in MISSING:
            if self._wanted.missing == "refuse":
                raise missing_cell(f"{file}, line {line}", name, text)
            return math.nan
        if ends_in_label and k == len(self.names) - 1 and self._wanted.columns.is_labelled:
            raise ValueError(
                f"{file}: the last column, {name!r}, is not numeric. If it holds labels, name"
                " it with --label (label=)."
            )
        place = f"{file}, line {line}, column {name!r}"
        if self._wanted.decimal == "," and re.fullmatch(_POINTED, text):
            raise ValueError(
                f"{place}: expected a number with a decimal comma, got {text!r}. Points as thousands"
                " separators are not read: remove them. If they are decimal marks, leave --decimal out."
            )
        if self._wanted.decimal == "." and re.fullmatch(r"[+-]?\d+,\d+([eE][+-]?\d+)?", text):
            raise ValueError(
                f"{place}: expected a finite number, got {text!r}. If the comma"
                " is its decimal mark, pass --decimal ',' (decimal=',')."
            )
        raise bad_cell(f"{file}, line {line}", name, cell)

    def matrix(self) -> Array:
        """Return all rows, after checking columns of True and False for other numbers."""
        X = np.frombuffer(self._values).reshape(len(self.lines), len(self.names))
        for k, line in self._truths.items():
            others = ~np.isin(X[:, k], [0.0, 1.0]) & ~np.isnan(X[:, k])
            if others.any():
                row = int(np.argmax(others))
                raise ValueError(
                    f"{self._wanted.file}, column {self.names[k]!r}: has True or False in line {line} and"
                    f" {X[row, k]:g} in line {self.lines[row]}. Encode the column as numbers."
                )
        return X


def _with_point(cell: str) -> str:
    """Return a number with a decimal comma as Python has it; one with a point, which is none, as text."""
    return f"'{cell}'" if "." in cell else cell.replace(",", ".", 1)


def _label_note(file: Path, at: int, labels: Sequence[str]) -> str:
    counts = {label: labels.count(label) for label in list(dict.fromkeys(labels))[:5]}
    shown = ", ".join(f"{label} ({count:,} row{'s' * (count > 1)})" for label, count in counts.items())
    more = ", ..." if sum(counts.values()) < len(labels) else ""
    return (
        f"{file} has no header: its last column, {at} counted from 0, is taken as the label, with the values"
        f" {shown}{more}. --label chooses another column."
    )


def _open(wanted: Wanted) -> tuple[int, list[str], bool, Choice, Records]:
    """Return the number of the first line, all names, whether a header has them, the choice, and the rows."""
    file, columns, separator = wanted.file, wanted.columns, _separator(wanted)
    records = _records(file, separator)
    line, first = next(records, (0, []))
    if not first:
        raise ValueError(f"{file}: the file is empty. Expected rows, with or without a header.")
    if len(first) < (2 if columns.is_labelled and columns.n_features is None else 1):
        shown = {"\t": "tabs", ",": "commas"}.get(separator, repr(separator))
        raise ValueError(
            f"{file}: expected rows of at least two cells separated by {shown}, got"
            f" {separator.join(first)!r} in the first. Name the separator with --separator (separator=)."
        )
    is_named = _is_header(first, wanted)
    names = [str(j) for j in range(len(first))]
    if is_named:
        names = _filled(first)
    else:
        records = chain([(line, first)], records)
    return line, names, is_named, columns.choose(file, names, is_named=is_named), records


def _filled(names: Sequence[str]) -> list[str]:
    """Return the names of a header; pandas calls a column without one so, such as that of its row index."""
    return [name.strip() or f"Unnamed: {j}" for j, name in enumerate(names)]


def _separator(wanted: Wanted) -> str:
    """Return what separates cells: the one that was asked for, or the first that the first line has."""
    asked = wanted.separator
    if asked is None:
        with open_stream(wanted.file) as stream:
            line = ""
            try:
                while not line and (read := stream.readline(2**20)):
                    line = re.sub(r'"[^"]*"', "", read.decode("utf-8-sig", errors="replace").strip(" \r\n"))
            except BROKEN_STREAM:  # The reader of the records says so.
                pass
        return next((mark for mark in _SEPARATORS if mark in line), ",")
    mark = _NAMED.get(asked, asked)
    if len(mark) != 1 or mark.isalnum() or mark in "+-.\"'\r\n" or mark == wanted.decimal:
        raise ValueError(
            f"--separator (separator=) must be one character that no number has ({wanted.decimal} is the"
            f" decimal mark), or tab, comma, semicolon or space; got {asked!r}."
        )
    return mark


def _records(file: Path, separator: str) -> Records:
    """Yield the line number and cells of each row, blank lines left out."""
    with open_stream(file) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        # Spaces at the ends of a line separate nothing; several in a row count as one.
        lines = (line.strip(" \r\n") for line in text) if separator == " " else text
        reader = csv.reader(lines, strict=True, skipinitialspace=True, delimiter=separator)
        try:
            for cells in reader:
                if len(cells) > 1 or (cells and cells[0].strip()):
                    yield reader.line_num, cells
        except UnicodeDecodeError as error:
            advice = "If it has another encoding, save it as UTF-8, e.g. with iconv -f latin1 -t utf8."
            if (ending := compression(error.object)) is not None:
                advice = f"It is compressed: give it a name that ends in {ending}."
            raise ValueError(
                f"{file}: expected whole UTF-8 text, got the byte 0x{error.object[error.start]:02x} after"
                f" line {reader.line_num}. {advice}"
            ) from error
        except (csv.Error, *BROKEN_STREAM) as error:
            raise ValueError(
                f"{file}: expected whole UTF-8 text with cells separated by {separator!r}, got an"
                f" error after line {reader.line_num} ({error}). Fetch or save the file again."
            ) from error


def _is_header(cells: Sequence[str], wanted: Wanted) -> bool:
    if wanted.decimal == ",":
        cells = [_with_point(cell) for cell in cells]
    numbers = [cell.strip() for cell in cells if is_number(cell)]
    if wanted.columns.has_names or not numbers:
        return True
    # "0,1,2,y" names columns, while "5.1,3.5,y" is a row whose label happens to be y.
    others = [cell.strip().lower() for cell in cells if not is_number(cell)]
    is_counted = any(numbers == [str(k + j) for j in range(len(numbers))] for k in (0, 1))
    return is_counted and len(others) == 1 and others[0] in LABEL_NAMES
