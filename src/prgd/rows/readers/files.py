"""From the path of a file to its rows, whole or as a source of parts; its ending tells the format."""

import io
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from prgd.core.checks import unknown
from prgd.rows.readers import text
from prgd.rows.readers.cells import MISSING, Found, Wanted, as_floats, check_finite, treat_missing
from prgd.rows.readers.columns import LABEL_NAMES, Columns
from prgd.rows.readers.csv_text import read_csv
from prgd.rows.readers.libsvm import ENDINGS, parse_libsvm
from prgd.rows.readers.libsvm_cache import cache_libsvm
from prgd.rows.readers.npy import load_npy, npy_source, read_npy, read_npz_file
from prgd.rows.readers.parquet import ParquetSource, read_parquet
from prgd.rows.readers.sources import BLOCK_BYTES, MemorySource, Source, entry_cuts
from prgd.rows.readers.text import BROKEN_STREAM, COMPRESSED, LabelArray, as_labels, open_stream, text_labels

FORMATS = ("csv", "tsv", "npz", "npy", "parquet", "libsvm")
_TEXT = ("csv", "tsv", "libsvm")  # formats that may be compressed
_IN_PARTS = (".npy", ".parquet", *ENDINGS)  # endings of files that are read in parts too
_BY_ENDING = {".tab": "tsv", **{f".{name}": name for name in FORMATS}, **dict.fromkeys(ENDINGS, "libsvm")}
_KNOWN = (
    "LIBSVM (.svm, .libsvm, .svmlight, and .txt unless it is a table), CSV (.csv) and TSV (.tsv, .tab), all"
    " also with .gz, .bz2 or .xz after it, NPZ (.npz), NPY (.npy), Parquet (.parquet)"
)
_SNIFFED = 2**16  # bytes that tell the format


def read_file(wanted: Wanted, labels: Path | None, format: str | None) -> tuple[str, Found]:
    """Return the name of a data set, and its rows without missing values, labels, names and notes."""
    stem, kind, wanted = format_of(wanted, format, labels)
    file = wanted.file
    check_file(file)
    found = _read(wanted, kind)
    if labels is not None:
        y, n = read_labels(labels), found.X.shape[0]
        found = replace(found, y=y)
        if len(y) != n:
            raise ValueError(f"{labels}: has {len(y):,} labels, and {file} has {n:,} rows.")
    elif found.y is None and wanted.columns.n_features is None:
        raise ValueError(f"{file}: expected labels, got none. Give a file of them: --labels FILE (labels=).")
    found = treat_missing(found, wanted)
    raw = found.X
    with np.errstate(over="ignore"):
        X = as_floats(raw, wanted) if isinstance(raw, np.ndarray) else raw.astype(wanted.dtype or raw.dtype)
    check_finite(X, found.place, found.columns, raw)
    return stem, replace(found, X=X)


def _read(wanted: Wanted, kind: str) -> Found:
    if kind == "libsvm":
        rows = parse_libsvm(wanted.file)
        # LIBSVM text does not say how many columns there are: the last ones may be zero in every row.
        d = max(rows.n_features, wanted.columns.n_features or 0)
        return Found(replace(rows, n_features=d).tocsr(), rows.y, lambda row: f"{wanted.file}, row {row}")
    readers = {"npz": read_npz_file, "npy": read_npy, "parquet": read_parquet}
    return readers.get(kind, read_csv)(wanted)


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


def format_of(wanted: Wanted, format: str | None, labels: Path | None) -> tuple[str, str, Wanted]:
    """Return the name of the data set, the format, and what is wanted of a file of that format.

    The format is the given one, or that of the ending of the file's name.
    """
    file = wanted.file
    if file.is_dir():
        check_file(file)
    stem, ending, compression = file.stem, file.suffix.lower(), ""
    if ending in COMPRESSED:
        stem, ending, compression = Path(stem).stem, Path(stem).suffix.lower(), ending
    if format is not None and format not in FORMATS:
        raise unknown("format", format, FORMATS)
    kind = format or _BY_ENDING.get(ending)
    if kind is None or (compression and kind not in _TEXT):
        raise ValueError(
            f"{file}: expected a known file name ending, got {ending + compression or 'none'!r}. Known:"
            f" {_KNOWN}. Rename the file, or name its format with --format (format=)."
        )
    if format is None and ending == ".txt" and file.is_file():
        with open_stream(file) as stream, suppress(*BROKEN_STREAM):  # The reader names a broken stream.
            kind = sniffed(stream.read(_SNIFFED))
    check_options(wanted, kind, labels)
    return stem, kind, wanted._replace(separator=wanted.separator or "tab") if kind == "tsv" else wanted


def check_options(wanted: Wanted, kind: str, labels: Path | None) -> None:
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


def check_file(file: Path) -> None:
    """Raise an error unless there is such a file."""
    if file.is_dir():
        raise ValueError(f"Expected a data file, got the folder {str(file)!r}. Name a file in it.")
    if not file.is_file():
        raise FileNotFoundError(f"Expected a data file at {file}, found none. Check the path.")


def read_labels(file: Path) -> LabelArray:
    """Return the labels of a ``.npy`` file, or of a text file with one label on each line, as (n,).

    Label sets, several numbers for each row, are returned as (n, label sets); in text, commas separate them.
    A first line that is y, label, target or class, and occurs once, or that names label sets, is a header.
    """
    if not file.is_file():
        raise FileNotFoundError(f"Expected a file of labels at {file}, found none. Check the path.")
    if file.suffix.lower() == ".npy":
        found = load_npy(file)
        return as_labels(found.ravel() if found.shape[1:] == (1,) else found, file)
    try:
        with open_stream(file) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig") as opened:
            lines = [line.strip() for line in opened.read().rstrip().splitlines()]
    except (UnicodeDecodeError, *BROKEN_STREAM) as error:
        raise ValueError(
            f"{file}: expected a .npy file, or UTF-8 text with one label on each line, got an error "
            f"({error})."
        ) from error
    if "" in lines or not lines:
        raise ValueError(f"{file}, line {lines.index('') + 1 if lines else 1}: expected a label, got none.")
    rows = [line.split(",") for line in lines]
    sets = rows if text.is_number(rows[0][0]) else rows[1:]
    if (
        sets
        and len(rows[0]) > 1
        and all(len(r) == len(rows[0]) and all(map(text.is_number, r)) for r in sets)
    ):
        return as_labels(np.array(sets, dtype=np.float64), file)
    has_header = lines[0].lower() in LABEL_NAMES and lines.count(lines[0]) == 1
    return text_labels(lines[has_header:])


def one_label_each(y: LabelArray, file: Path | str) -> LabelArray:
    """Return the labels of a file; raise ``ValueError`` if there are several for each row."""
    if y.ndim > 1:
        raise ValueError(
            f"{file} has {y.shape[1]} labels for each row; expected one. prgd fit takes all of them if DATA "
            "is read whole, and so does prgd.max_margin_batch in Python."
        )
    return y


def open_source(path: Path, columns: Columns, max_memory: int, cache_dir: str | Path | None = None) -> Source:
    """Return the source of a file, by the ending of its name; see `prgd.open_rows` for the options."""
    kind = file_kind(path)
    check_columns(path, kind, columns)
    if kind == "npy":
        return npy_source(path, max_memory)
    if kind == "parquet":
        return ParquetSource(path, columns, max_memory)
    csr = cache_libsvm(path, cache_dir)
    entry = csr.data.itemsize + csr.indices.itemsize
    # Each part has a vector of d sums to clear and to merge, so it holds many entries for every column.
    entries = max(1, min(max(BLOCK_BYTES // entry, 16 * csr.n_features), max_memory // entry))
    parts = entry_cuts(csr.indptr, entries)
    return MemorySource(csr, csr.y, parts, at_once=max(1, max_memory // (entries * entry)))


def file_kind(path: Path) -> str:
    """Return ``"npy"``, ``"parquet"`` or ``"libsvm"``, by the ending of the name."""
    ending = next((e.lower() for e in reversed(path.suffixes) if e not in COMPRESSED), "")
    if ending not in _IN_PARTS:
        raise ValueError(
            f"{path}: unknown kind of file. Out of core and on a cluster: {', '.join(_IN_PARTS)} "
            f"(the last {len(ENDINGS)} also with {', '.join(COMPRESSED)}). Other files are read whole: by "
            "prgd.datasets.load, or on the command line without --out-of-core and --cluster. Else save the "
            "table as Parquet."
        )
    return _BY_ENDING[ending]


def check_columns(path: Path | str, kind: str, columns: Columns) -> None:
    """Raise ``ValueError`` if columns are chosen in a file that is read in parts and has no names."""
    if kind != "parquet" and (columns.label is not None or not columns.is_default):
        what = "the label column" if columns.label is not None else "columns"
        raise ValueError(
            f"{path}: {what} can be chosen in Parquet files only, where a file is read in parts or on a "
            "cluster. Leave label, features and drop out; y (--labels) gives the labels of a .npy file."
        )
    if kind == "libsvm" and not columns.is_labelled:
        raise ValueError(f"{path}: each line begins with its label. Leave the labels of another file out.")
