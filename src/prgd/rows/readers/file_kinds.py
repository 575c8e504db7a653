"""From the path of a file to the source of its rows, by the ending of its name."""

from __future__ import annotations

import math
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from prgd.rows.arrays import check_shape
from prgd.rows.exact import as_float
from prgd.rows.readers.libsvm import cache_libsvm
from prgd.rows.readers.libsvm_text import ENDINGS
from prgd.rows.readers.parquet import ParquetSource
from prgd.rows.readers.sources import BLOCK_BYTES, MemorySource, NpySource, Source, cuts, entry_cuts
from prgd.rows.readers.streams import COMPRESSED


def open_source(path: Path, label: str, max_memory: int, cache_dir: str | Path | None = None) -> Source:
    """Return the source of a file, by the ending of its name; see `prgd.open_rows` for the options."""
    kind = file_kind(path)
    if kind == "npy":
        return npy_source(path, max_memory)
    if kind == "parquet":
        return ParquetSource(path, label, max_memory)
    return libsvm_source(path, max_memory, cache_dir)


def file_kind(path: Path) -> str:
    """Return ``"npy"``, ``"parquet"`` or ``"libsvm"``, by the ending of the name."""
    kinds = {".npy": "npy", ".parquet": "parquet", **dict.fromkeys(ENDINGS, "libsvm")}
    ending = next((e.lower() for e in reversed(path.suffixes) if e not in COMPRESSED), "")
    if ending not in kinds:
        raise ValueError(
            f"{path}: unknown kind of file. Out of core: {', '.join(kinds)} "
            f"(the last {len(ENDINGS)} also with {', '.join(COMPRESSED)})."
        )
    return kinds[ending]


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
