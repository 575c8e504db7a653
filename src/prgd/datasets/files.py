"""Load rows and labels from a file: LIBSVM, CSV, NPZ or Parquet, told apart by the file's name."""

from __future__ import annotations

import csv
import io
import os
import re
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.datasets.base import Dataset

Labels = npt.NDArray[np.float64] | npt.NDArray[np.str_]
Label = str | int | None

LABEL_NAMES = ("y", "label", "target", "class")
_COMPRESSED = (".gz", ".bz2", ".xz")
_LIBSVM = (".svm", ".libsvm", ".svmlight", ".txt")
_KNOWN = (
    "LIBSVM (.svm, .libsvm, .svmlight, .txt) and CSV (.csv), both also with .gz, .bz2 or .xz after"
    " it, NPZ (.npz), Parquet (.parquet)"
)


def load(path: str | os.PathLike[str], *, label: Label = None, dtype: npt.DTypeLike | None = None) -> Dataset:
    r"""Load a data set from a LIBSVM, CSV, NPZ or Parquet file.

    Parameters
    ----------
    path : str or path
        The ending of the name tells the format: .svm, .libsvm, .svmlight, .txt (LIBSVM) and .csv,
        each also with .gz, .bz2 or .xz after it; .npz with the keys X and y, or data, indices,
        indptr, shape and y for a CSR matrix; .parquet.
    label : str or int, optional
        CSV and Parquet only: name or index of the label column. By default the one called y, label,
        target or class, in any case; in a CSV file without a header, the last one. Columns that
        pandas stored as a row index in a Parquet file are not features.
    dtype : float64 or float32, optional
        Type of ``X``; by default that of an NPZ file's floats, else float64.

    Returns
    -------
    Dataset
        ``X`` is a csr_array for LIBSVM and CSR files, else an ndarray. Labels are as found:
        float64, or strings where one of them is not a number.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    ValueError
        When the format is unknown or the content is not as expected, missing values included; the
        message names the place.
    ImportError
        For Parquet without pyarrow.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "iris.csv"
    ...     _ = path.write_text("length,width,class\n5.1,3.5,setosa\n7.0,3.2,versicolor\n")
    ...     dataset = load(path)
    >>> dataset, dataset.y.tolist()
    (Dataset('iris', 2 x 2, dense float64), ['setosa', 'versicolor'])
    """
    file = Path(path).expanduser()
    name, endings = _split_name(file)
    reader = _reader(endings)
    if reader is None:
        raise ValueError(
            f"{file}: expected a known file name ending, got {''.join(endings) or 'none'!r}. Known:"
            f" {_KNOWN}. Rename the file, or call prgd.rows.readers.libsvm.parse_libsvm for LIBSVM text"
            " under any name."
        )
    if not file.is_file():
        raise FileNotFoundError(f"Expected a data file at {file}, found none. Check the path.")
    kind = None if dtype is None else np.dtype(dtype)
    if kind not in (None, np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype must be float64, float32 or None; got {kind}.")
    if label is not None and reader in (_load_libsvm, _load_npz):
        raise ValueError(
            f"label chooses a column of a CSV or Parquet file; got label={label!r} for {file},"
            " which stores its labels apart. Leave it out."
        )
    X, y = reader(file, label, kind)
    return Dataset(X, y, name)


_Reader = Callable[[Path, Label, "np.dtype[Any] | None"], tuple[Any, Labels]]


def _split_name(file: Path) -> tuple[str, tuple[str, ...]]:
    stem, last = file.stem, file.suffix.lower()
    if last in _COMPRESSED:
        inner = Path(stem)
        return inner.stem, (inner.suffix.lower(), last)
    return stem, (last,)


def _reader(endings: tuple[str, ...]) -> _Reader | None:
    if endings[0] in _LIBSVM:
        return _load_libsvm
    if endings[0] == ".csv":
        return _load_csv
    uncompressed: dict[tuple[str, ...], _Reader] = {
        (".npz",): _load_npz,
        (".parquet",): _load_parquet,
    }
    return uncompressed.get(endings)


def _load_libsvm(file: Path, _: Label, dtype: np.dtype[Any] | None) -> tuple[Any, Labels]:
    from prgd.rows.readers.libsvm import parse_libsvm

    rows = parse_libsvm(file, dtype=dtype or np.float64)
    return rows.tocsr(), rows.y


# CSV


def _load_csv(file: Path, label: Label, dtype: np.dtype[Any] | None) -> tuple[Any, Labels]:
    records = _records(file)
    line, first = next(records, (0, []))
    if len(first) < 2:
        raise ValueError(
            f"{file}: expected rows of at least two cells separated by commas, got"
            f" {','.join(first)!r} in the first. Convert other separators to commas."
        )
    if _is_header(first, label):
        names = [cell.strip() for cell in first]
        if "" in names:
            raise ValueError(
                f"{file}, line {line}: expected a name for every column, got none for column"
                f" {names.index('')} counted from 0. Name it, or save without the row index."
            )
    else:
        names = [str(j) for j in range(len(first))]
        records = chain([(line, first)], records)
        label = -1 if label is None else label
    at = _label_column(file, names, label)
    features = names[:at] + names[at + 1 :]
    values, lines = array("d"), array("q")
    labels: list[str] = []
    for line, cells in records:
        if len(cells) != len(names):
            raise ValueError(
                f"{file}, line {line}: expected {len(names)} cells as in the first row, got"
                f" {len(cells)}. Quote cells that hold a comma."
            )
        text = cells.pop(at).strip()
        if text.lower() in ("", "nan"):
            raise ValueError(
                f"{file}, line {line}, column {names[at]!r}: expected a label, got {text!r}."
                " Fill in or drop rows without one."
            )
        labels.append(text)
        lines.append(line)
        try:
            values.extend(map(float, cells))
        except ValueError:
            j = [_is_number(cell) for cell in cells].index(False)
            raise _bad_cell(f"{file}, line {line}", features[j], cells[j]) from None
    if not labels:
        raise ValueError(f"{file}: expected rows after the header in line {line}, got none.")
    raw = np.frombuffer(values).reshape(len(labels), len(features))
    X = _as_floats(raw, dtype, file)
    if (bad := _first_bad(X)) is not None:
        raise _bad_cell(f"{file}, line {lines[bad[0]]}", features[bad[1]], raw[bad])
    try:
        return X, np.array([float(text) for text in labels])
    except ValueError:
        return X, np.array(labels)


def _records(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and cells of each row, blank lines left out."""
    from prgd.rows.readers.libsvm_text import BROKEN_STREAM, open_stream

    with (
        open_stream(file) as stream,
        io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text,
    ):
        reader = csv.reader(text, strict=True, skipinitialspace=True)
        while True:
            try:
                cells = next(reader, None)
            except (csv.Error, UnicodeDecodeError, *BROKEN_STREAM) as error:
                raise ValueError(
                    f"{file}: expected whole UTF-8 text with cells separated by commas, got an"
                    f" error after line {reader.line_num} ({error}). Fetch or save the file again."
                ) from error
            if cells is None:
                return
            if len(cells) > 1 or (cells and cells[0].strip()):
                yield reader.line_num, cells


def _is_header(cells: Sequence[str], label: Label) -> bool:
    numbers = [cell.strip() for cell in cells if _is_number(cell)]
    if isinstance(label, str) or not numbers:
        return True
    # "0,1,2,y" names columns, "5.1,3.5,y" is a row whose label happens to be y
    others = [cell.strip().lower() for cell in cells if not _is_number(cell)]
    is_counted = any(numbers == [str(k + j) for j in range(len(numbers))] for k in (0, 1))
    return is_counted and len(others) == 1 and others[0] in LABEL_NAMES


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _label_column(file: Path, names: Sequence[str], label: Label) -> int:
    listed = ", ".join(names[:10]) + (f", ... ({len(names)} in all)" if len(names) > 10 else "")
    if isinstance(label, bool) or not isinstance(label, str | int | None):
        raise TypeError(f"label must be a column's name or index, or None; got {label!r}.")
    if isinstance(label, int):
        if not -len(names) <= label < len(names):
            raise ValueError(
                f"{file}: expected a label column from 0 to {len(names) - 1}, got label={label}."
                f" Columns: {listed}."
            )
        return label % len(names)
    wanted = LABEL_NAMES if label is None else (label,)
    found = [j for j, name in enumerate(names) if (name if label else name.lower()) in wanted]
    if len(found) != 1:
        raise ValueError(
            f"{file}: expected one label column called {' or '.join(wanted)}, got {len(found)}."
            f" Columns: {listed}. Pass label= with a name or an index."
        )
    return found[0]


# NPZ


def _load_npz(file: Path, _: Label, dtype: np.dtype[Any] | None) -> tuple[Any, Labels]:
    if not zipfile.is_zipfile(file):
        raise ValueError(
            f"{file}: expected an NPZ archive, got a file that is none, or a part of one."
            " Save it with numpy.savez, or fetch it again."
        )
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays: dict[str, npt.NDArray[Any]] = {
                key: archive[key] for key in archive.files if key in _NPZ_KEYS
            }
            keys = ", ".join(archive.files) or "none"
    except (ValueError, EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{file}: expected whole arrays of numbers or strings, got an error ({error})."
            " Save them with numpy.savez, and strings as y.astype(str)."
        ) from error
    if {"X", "y"} <= arrays.keys():
        X = _as_floats(arrays["X"], dtype, file)
    elif {"data", "indices", "indptr", "shape", "y"} <= arrays.keys():
        X = _csr_from(arrays, dtype, file)
    else:
        raise ValueError(
            f"{file}: expected the keys X and y, or data, indices, indptr, shape and y for a CSR"
            f" matrix, got {keys}. Save with numpy.savez(path, X=X, y=y)."
        )
    y = _as_labels(arrays["y"], file)
    if X.ndim != 2 or y.shape != X.shape[:1] or 0 in X.shape:
        raise ValueError(
            f"{file}: expected X of shape (n, d) and y of shape (n,), none empty, got {X.shape} and"
            f" {y.shape}. Reshape and save them again."
        )
    if (bad := _first_bad(X)) is not None:
        raise _bad_cell(f"{file}, row {bad[0]}", str(bad[1]), X[bad])
    return X, y


_NPZ_KEYS = ("X", "y", "data", "indices", "indptr", "shape", "format")


def _csr_from(arrays: dict[str, npt.NDArray[Any]], dtype: np.dtype[Any] | None, file: Path) -> Any:
    from scipy.sparse import csr_array

    layout = arrays["format"].astype(str).item() if "format" in arrays else "csr"
    if layout != "csr":
        raise ValueError(f"{file}: expected a CSR matrix, got {layout}. Save X.tocsr() instead.")
    data = _as_floats(arrays["data"], dtype, file)
    try:
        n, d = (int(length) for length in arrays["shape"])
        X = csr_array((data, arrays["indices"], arrays["indptr"]), shape=(n, d))
        X.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{file}: expected the arrays of one CSR matrix, got an error ({error})."
            " Save data, indices, indptr and shape of one matrix."
        ) from error
    X.sum_duplicates()
    return X


# Parquet


def _load_parquet(file: Path, label: Label, dtype: np.dtype[Any] | None) -> tuple[Any, Labels]:
    try:
        from pyarrow import parquet, types
    except ImportError as error:
        raise ImportError(
            f"Reading {file} needs pyarrow, which is not installed. Run pip install 'prgd[report]'."
        ) from error

    try:
        with parquet.ParquetFile(file) as source:
            table = source.read()
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{file}: expected a whole Parquet file, got an error ({error}). Fetch it again."
        ) from error
    # pandas keeps a row index that is not a plain count in columns of this name
    index = re.compile(r"__index_level_\d+__")
    table = table.select([j for j, name in enumerate(table.column_names) if not index.match(name)])
    names = table.column_names
    at = _label_column(file, names, label)
    n, d = table.num_rows, len(names) - 1
    if n == 0 or d == 0:
        raise ValueError(f"{file}: expected rows with features, got {n} rows of {d} features.")
    for name, column in zip(names, table.columns, strict=True):
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise _bad_cell(f"{file}, row {row}", name, None)
    features = [j for j in range(d + 1) if j != at]
    X = np.empty((n, d), dtype=dtype or np.float64)
    for j, source_j in enumerate(features):
        column = table.column(source_j)
        kind = column.type
        if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            raise ValueError(
                f"{file}, column {names[source_j]!r}: expected numbers, got {kind}. Encode the"
                " column as numbers or leave it out of the file."
            )
        with np.errstate(over="ignore"):
            X[:, j] = column.to_numpy()
    if (bad := _first_bad(X)) is not None:
        raise _bad_cell(f"{file}, row {bad[0]}", names[features[bad[1]]], X[bad])
    column = table.column(at)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    y = column.to_numpy()
    return X, _as_labels(y.astype(str) if is_text else y, file)


# Shared


def _as_floats(X: npt.NDArray[Any], dtype: np.dtype[Any] | None, file: Path) -> npt.NDArray[Any]:
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{file}: expected numbers in X, got {X.dtype}. Encode them as numbers.")
    is_float = X.dtype in (np.dtype(np.float64), np.dtype(np.float32))
    with np.errstate(over="ignore"):
        return X.astype(dtype or (X.dtype if is_float else np.float64), copy=False)


def _as_labels(y: npt.NDArray[Any], file: Path) -> Labels:
    if y.dtype.kind == "S":
        return np.char.decode(y, "utf-8")
    if y.dtype.kind == "U":
        return y
    if y.dtype.kind not in "biuf":
        raise ValueError(f"{file}: expected labels as numbers or strings, got {y.dtype}.")
    labels = y.astype(np.float64)
    if not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels.ravel()))[0])
        raise ValueError(
            f"{file}, row {row}: expected a finite label, got {labels.ravel()[row]}."
            " Fill in or drop rows without one."
        )
    return labels


def _first_bad(X: Any) -> tuple[int, int] | None:
    """Return row and column of the first value that is not finite."""
    values = X if isinstance(X, np.ndarray) else X.data
    if np.isfinite(values).all():
        return None
    if isinstance(X, np.ndarray):
        row, column = np.argwhere(~np.isfinite(X))[0]
    else:
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        row, column = np.searchsorted(X.indptr, at, side="right") - 1, X.indices[at]
    return int(row), int(column)


def _bad_cell(place: str, column: str, value: object) -> ValueError:
    text = repr(value) if isinstance(value, str | None) else str(value)
    return ValueError(
        f"{place}, column {column!r}: expected a finite number that fits the dtype, got {text}."
        " Fill in or drop missing values, and encode text as numbers."
    )
