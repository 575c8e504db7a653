"""From the path of a file to the source of its rows, by the ending of its name, and files of labels."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from prgd.rows.exact import as_float, check_shape
from prgd.rows.readers.columns import LABEL_NAMES, Columns
from prgd.rows.readers.label_text import LabelArray, as_labels, text_labels
from prgd.rows.readers.libsvm import cache_libsvm
from prgd.rows.readers.libsvm_text import ENDINGS
from prgd.rows.readers.parquet import ParquetSource
from prgd.rows.readers.sources import BLOCK_BYTES, MemorySource, NpySource, Source, cuts, entry_cuts
from prgd.rows.readers.streams import BROKEN_STREAM, COMPRESSED, open_stream


def open_source(path: Path, columns: Columns, max_memory: int, cache_dir: str | Path | None = None) -> Source:
    """Return the source of a file, by the ending of its name; see `prgd.open_rows` for the options."""
    kind = file_kind(path)
    check_columns(path, kind, columns)
    if kind == "npy":
        return npy_source(path, max_memory)
    if kind == "parquet":
        return ParquetSource(path, columns, max_memory)
    return libsvm_source(path, max_memory, cache_dir)


def file_kind(path: Path) -> str:
    """Return ``"npy"``, ``"parquet"`` or ``"libsvm"``, by the ending of the name."""
    kinds = {".npy": "npy", ".parquet": "parquet", **dict.fromkeys(ENDINGS, "libsvm")}
    ending = next((e.lower() for e in reversed(path.suffixes) if e not in COMPRESSED), "")
    if ending not in kinds:
        raise ValueError(
            f"{path}: unknown kind of file. Out of core and on a cluster: {', '.join(kinds)} "
            f"(the last {len(ENDINGS)} also with {', '.join(COMPRESSED)}). Other files are read whole: by "
            "prgd.datasets.load, or on the command line without --out-of-core and --cluster. Else save the "
            "table as Parquet."
        )
    return kinds[ending]


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


def load_npy(path: Path, mmap_mode: Literal["r"] | None = None) -> npt.NDArray[Any]:
    """Return the array of a ``.npy`` file, which must hold this array and nothing else."""
    try:
        with path.open("rb") as file:
            dtype, size, start = _npy_header(file)
        ends = start + size * dtype.itemsize
        if ends != path.stat().st_size:
            raise ValueError(f"its header announces {ends} bytes, and it has {path.stat().st_size}")
        found: npt.NDArray[Any] = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except FileNotFoundError:
        raise
    except Exception as error:  # A broken header raises errors of many kinds, e.g. of Python's tokenizer.
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"{path}: cannot be read as a .npy array ({reason}). Save it again with numpy.save."
        ) from error
    return found


def read_labels(file: Path) -> LabelArray:
    """Return the labels of a ``.npy`` file, or of a text file with one label on each line.

    A first line that is y, label, target or class, and occurs once, is a header.
    """
    if not file.is_file():
        raise FileNotFoundError(f"Expected a file of labels at {file}, found none. Check the path.")
    if file.suffix.lower() == ".npy":
        found = load_npy(file)
        return as_labels(found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found, file)
    try:
        with open_stream(file) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig") as text:
            lines = [line.strip() for line in text.read().rstrip().splitlines()]
    except (UnicodeDecodeError, *BROKEN_STREAM) as error:
        raise ValueError(
            f"{file}: expected a .npy file, or UTF-8 text with one label on each line, got an error "
            f"({error})."
        ) from error
    if "" in lines or not lines:
        raise ValueError(f"{file}, line {lines.index('') + 1 if lines else 1}: expected a label, got none.")
    has_header = lines[0].lower() in LABEL_NAMES and lines.count(lines[0]) == 1
    return text_labels(lines[has_header:])


def _npy_header(file: IO[bytes]) -> tuple[np.dtype[Any], int, int]:
    """Return the type and the number of entries that a ``.npy`` file announces, and where they start."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"version {version} of the format is unknown")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    # Version 3 differs by the encoding of field names alone, which arrays of numbers do not have.
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    return dtype, math.prod(shape), file.tell()


def npy_source(path: Path, max_memory: int) -> Source:
    """Open a ``.npy`` file: it is read in parts in C order, and mapped in Fortran order."""
    X = load_npy(path, "r")
    if X.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(
            f"{path}: holds {X.dtype}; out-of-core rows must be float32 or float64. Save it as one of them."
        )
    check_shape(X.shape)
    if X.flags.c_contiguous:
        return NpySource(path, X, max_memory)
    step = max(1, max_memory // (X.shape[1] * X.itemsize))
    return MemorySource(as_float(X), parts=cuts(0, len(X), step))


def libsvm_source(path: Path, max_memory: int, cache_dir: str | Path | None) -> Source:
    """Parse a LIBSVM text file once into a binary cache, and map the cache."""
    csr = cache_libsvm(path, cache_dir)
    entry = csr.data.itemsize + csr.indices.itemsize
    # Each part has a vector of d sums to clear and to merge, so it holds many entries for every column.
    entries = max(1, min(max(BLOCK_BYTES // entry, 16 * csr.n_features), max_memory // entry))
    parts = entry_cuts(csr.indptr, entries)
    return MemorySource(csr, csr.y, parts, at_once=max(1, max_memory // (entries * entry)))
