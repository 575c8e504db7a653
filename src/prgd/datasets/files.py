"""Load rows and labels from a LIBSVM, CSV, TSV, NPZ or Parquet file; its ending tells the format."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.checks import unknown
from prgd.core.types import Array
from prgd.datasets import _csv, _npz, _parquet
from prgd.datasets._cells import MISSING, Found, Wanted, as_floats, check_finite, treat_missing
from prgd.datasets.base import Dataset, Frame
from prgd.rows.readers.columns import Column, Columns
from prgd.rows.readers.file_kinds import read_labels
from prgd.rows.readers.libsvm import parse_libsvm
from prgd.rows.readers.libsvm_text import ENDINGS
from prgd.rows.readers.streams import BROKEN_STREAM, COMPRESSED, open_stream

_KNOWN = (
    "LIBSVM (.svm, .libsvm, .svmlight, and .txt unless it is a table), CSV (.csv) and TSV (.tsv, .tab), all"
    " also with .gz, .bz2 or .xz after it, NPZ (.npz), NPY (.npy), Parquet (.parquet)"
)


def _read_libsvm(wanted: Wanted) -> Found:
    rows = parse_libsvm(wanted.file, dtype=wanted.dtype or np.float64)
    # LIBSVM text does not say how many columns there are: the last ones may be zero in every row.
    d = max(rows.n_features, wanted.columns.n_features or 0)
    return Found(replace(rows, n_features=d).tocsr(), rows.y, lambda row: f"{wanted.file}, row {row}")


def _read_tsv(wanted: Wanted) -> Found:
    return _csv.read(wanted._replace(separator=wanted.separator or "tab"))


READERS: dict[str, Callable[[Wanted], Found]] = {
    "csv": _csv.read,
    "tsv": _read_tsv,
    "npz": _npz.read,
    "npy": _npz.read_npy,
    "parquet": _parquet.read,
    "libsvm": _read_libsvm,
}
_SNIFFED = 2**16  # bytes that tell the format
_TEXT = ("csv", "tsv", "libsvm")  # formats that may be compressed
_FORMATS = {
    ".tab": "tsv",
    **{f".{name}": name for name in READERS},
    **dict.fromkeys(ENDINGS, "libsvm"),
}


def load(
    path: str | os.PathLike[str],
    *,
    label: Column | None = None,
    labels: str | os.PathLike[str] | None = None,
    features: Sequence[Column] | None = None,
    drop: Sequence[Column] = (),
    format: str | None = None,
    separator: str | None = None,
    decimal: str = ".",
    missing: str = "refuse",
    dtype: npt.DTypeLike | None = None,
) -> Dataset:
    r"""Load a data set from a LIBSVM, CSV, TSV, NPZ or Parquet file.

    Parameters
    ----------
    path : str or path
        The ending of the name tells the format: .svm, .libsvm, .svmlight (LIBSVM), .csv, .tsv, and .txt
        (LIBSVM, or a table if its first line has a separator and no index:value pairs), each also with
        .gz, .bz2 or .xz after it; .npz with the keys X and y (and feature_names, if there are some), or
        data, indices, indptr, shape and y for a CSR matrix; .npy with ``labels``; .parquet.
    label : str or int, optional
        CSV, TSV and Parquet only: name or position of the label column. By default the one called y, label,
        target or class, in any case; in a text file without a header, the last one. Columns that
        pandas stored as a row index in a Parquet file are not features.
    labels : path, optional
        A file of the labels alone, for rows that come without: .npy, or text with one label on each line.
    features, drop : list of str or int, optional
        Columns to use, in this order, or to leave out, by name or by position from 0, the label counted too.
    format : {"csv", "tsv", "libsvm", "npz", "npy", "parquet"}, optional
        The format of a file whose ending does not tell it.
    separator : str, optional
        What separates the cells of text: a character, or tab. By default a tab, semicolon, comma,
        vertical bar or space, the first of these that the first line has.
    decimal : {".", ","}
        The decimal mark of numbers in CSV and TSV text.
    missing : {"refuse", "drop", "mean"}
        What to do about missing values (empty cells, NA, NaN and ?, in any case; NaN and null in other
        formats): raise an error that names the place, drop their rows, or fill in the mean of the
        column in this file. A missing label is refused, or dropped.
    dtype : float64 or float32, optional
        Type of ``X``; by default that of an NPZ file's floats, else float64.

    Returns
    -------
    Dataset
        ``X`` is a csr_array for LIBSVM and CSR files, else an ndarray; True and False in text are 1 and 0.
        Labels are as found: float64, strings if one of them is not a number, or integers if float64 cannot
        hold one of them (in a text file, their text). ``feature_names`` are those of the header.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the format is unknown or the content is not as expected, missing values and numbers that have no
        float64 included; the message names the place. In CSV and LIBSVM text a number with a point or an
        exponent is the nearest float64, as everywhere, and the text of an integer must be exact.
    ImportError
        If pyarrow is not installed, for a Parquet file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "iris.csv"
    ...     _ = path.write_text("length,width,class\n5.1,3.5,setosa\n7.0,3.2,versicolor\n")
    ...     dataset = load(path)
    >>> dataset, dataset.y.tolist(), dataset.feature_names
    (Dataset('iris', 2 x 2, dense float64), ['setosa', 'versicolor'], ('length', 'width'))
    """
    kind = None if dtype is None else np.dtype(dtype)
    if kind not in (None, np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype must be float64, float32 or None; got {kind}.")
    columns = Columns(label, None if features is None else tuple(features), tuple(drop), labels is None)
    wanted = Wanted(Path(path).expanduser(), columns, kind, separator, decimal, missing)
    return _read(wanted, None if labels is None else Path(labels).expanduser(), format)


def load_features(
    path: str | os.PathLike[str],
    n_features: int,
    *,
    feature_names: Sequence[str] | None = None,
    feature_means: Array | None = None,
    label: Column | None = None,
    labels: str | os.PathLike[str] | None = None,
    features: Sequence[Column] | None = None,
    drop: Sequence[Column] = (),
    format: str | None = None,
    separator: str | None = None,
    decimal: str = ".",
    missing: str = "refuse",
) -> Dataset:
    """Load the rows of a file that may lack labels, e.g. to predict them.

    Parameters
    ----------
    path, label, labels, features, drop, format, separator, decimal, missing
        As for `load`; a ``.npy`` file needs no labels.
    n_features : int
        The number of features of the model. A CSV or Parquet file of so many columns, none of which is
        named as a label, has no labels. In a LIBSVM file, missing last columns are zero.
    feature_names : list of str, optional
        The names of the features of the model. Columns of a file that has names too are matched by name:
        they are brought into this order, further ones are ignored with a note, and missing ones are an
        error that lists them.
    feature_means : ndarray of shape (n_features,), optional
        What ``missing="mean"`` fills in; by default the means of the file.

    Returns
    -------
    Dataset
        ``y`` is None if the file has no labels.

    Raises
    ------
    FileNotFoundError, ValueError, ImportError
        As for `load`.
    """
    columns = Columns(
        label,
        None if features is None else tuple(features),
        tuple(drop),
        labels is None,
        n_features,
        None if feature_names is None else tuple(feature_names),
    )
    wanted = Wanted(Path(path).expanduser(), columns, None, separator, decimal, missing, feature_means)
    return _read(wanted, None if labels is None else Path(labels).expanduser(), format)


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
    if file.is_dir():
        _check_file(file)
    stem, kind = _format(file, format)
    wanted = Wanted(file, Columns(), None, separator, decimal)
    _check_options(wanted, kind, None)
    if kind not in ("csv", "tsv", "parquet"):
        raise ValueError(f"{file}: a formula needs columns with names; give a CSV, TSV or Parquet file.")
    _check_file(file)
    if kind == "parquet":
        return Frame(_parquet.read_frame(file), stem, lambda row: f"{file}, row {row}")
    separated = wanted if kind == "csv" else wanted._replace(separator=separator or "tab")
    columns, lines = _csv.read_columns(separated)
    return Frame(columns, stem, lambda row: f"{file}, line {lines[row]}")


def _check_file(file: Path) -> None:
    """Raise an error unless there is such a file."""
    if file.is_dir():
        raise ValueError(f"Expected a data file, got the folder {str(file)!r}. Name a file in it.")
    if not file.is_file():
        raise FileNotFoundError(f"Expected a data file at {file}, found none. Check the path.")


def _read(wanted: Wanted, labels: Path | None, format: str | None) -> Dataset:
    """Return the data set of a file: rows, labels, names and notes, after missing values are treated."""
    file = wanted.file
    if file.is_dir():
        _check_file(file)
    stem, kind = _format(file, format)
    _check_options(wanted, kind, labels)
    _check_file(file)
    found = READERS[kind](wanted)
    if labels is not None:
        y, n = read_labels(labels), found.X.shape[0]
        found = replace(found, y=y)
        if len(y) != n:
            raise ValueError(f"{labels}: has {len(y):,} labels, and {file} has {n:,} rows.")
    elif found.y is None and wanted.columns.n_features is None:
        raise ValueError(f"{file}: expected labels, got none. Give a file of them: --labels FILE (labels=).")
    found = treat_missing(found, wanted)
    X: Any = as_floats(found.X, wanted) if isinstance(found.X, np.ndarray) else found.X
    check_finite(X, found.place, found.columns, found.X)
    return Dataset(
        X,
        found.y,
        stem,
        feature_names=found.feature_names,
        notes=found.notes,
        feature_means=found.means,
        is_kept=found.is_kept,
    )


def sniffed(content: bytes) -> str:
    """Return the format of a file from its first bytes: ``libsvm`` or ``csv`` for text.

    Examples
    --------
    >>> sniffed(b"+1 1:0.5 3:2"), sniffed(b"a,b"), sniffed(b"PAR1...")
    ('libsvm', 'csv', 'parquet')
    """
    magic = {b"PAR1": "parquet", b"PK\x03\x04": "npz", b"\x93NUMPY": "npy"}
    for start, name in magic.items():
        if content.startswith(start):
            return name
    lines = (line.partition(b"#")[0].strip() for line in content.splitlines())
    first = next((line for line in lines if line), b"")
    tokens = first.split()[1:]
    if tokens and all(re.fullmatch(rb"(\d+|qid):\S+", token) for token in tokens):
        return "libsvm"
    is_table = any(mark in first for mark in b"\t;,|") or (tokens and b":" not in first)
    return "csv" if is_table else "libsvm"


def _format(file: Path, format: str | None) -> tuple[str, str]:
    """Return the name of the data set, and the format: the given one, or that of the file's ending."""
    stem, ending, compression = file.stem, file.suffix.lower(), ""
    if ending in COMPRESSED:
        stem, ending, compression = Path(stem).stem, Path(stem).suffix.lower(), ending
    if format is not None and format not in READERS:
        raise unknown("format", format, READERS)
    kind = format or _FORMATS.get(ending)
    if kind is None or (compression and kind not in _TEXT):
        raise ValueError(
            f"{file}: expected a known file name ending, got {ending + compression or 'none'!r}. Known:"
            f" {_KNOWN}. Rename the file, or name its format with --format (format=)."
        )
    if format is None and ending == ".txt" and file.is_file():
        with open_stream(file) as stream, suppress(*BROKEN_STREAM):  # The reader names a broken stream.
            kind = sniffed(stream.read(_SNIFFED))
    return stem, kind


def _check_options(wanted: Wanted, kind: str, labels: Path | None) -> None:
    """Raise ``ValueError`` for an option that a format does not have."""
    file, columns = wanted.file, wanted.columns
    if columns.label is not None and (kind not in ("csv", "tsv", "parquet") or labels is not None):
        raise ValueError(
            f"--label (label=) chooses a column of a CSV, TSV or Parquet file; got {columns.label!r} for"
            f" {file}, whose labels lie apart from its columns. Leave it out."
        )
    if kind == "libsvm" and not (columns.is_default and labels is None):
        raise ValueError(
            f"{file}: LIBSVM text has its label in every line, and its columns have no names. Leave"
            " --features, --drop and --labels out."
        )
    if kind not in ("csv", "tsv") and (wanted.separator is not None or wanted.decimal != "."):
        raise ValueError(f"{file}: --separator and --decimal are for CSV and TSV text. Leave them out.")
    if wanted.decimal not in (".", ","):
        raise ValueError(f"--decimal (decimal=) must be '.' or ','; got {wanted.decimal!r}.")
    if wanted.missing not in MISSING:
        raise unknown("treatment of missing values", wanted.missing, MISSING)
