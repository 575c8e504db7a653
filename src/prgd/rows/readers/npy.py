"""NPY files, read whole or in parts at every pass, and NPZ archives of X and y, dense or CSR."""

import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from prgd.core.errors import RowsLostError
from prgd.core.files import read_npz
from prgd.core.types import Indices
from prgd.rows.exact import as_float, canonical_csr, check_shape
from prgd.rows.readers.cells import Found, Wanted, as_floats, check_numbers, ignored_note
from prgd.rows.readers.columns import Columns
from prgd.rows.readers.sources import BLOCK_BYTES, MIN_ROWS, FileSource, MemorySource, Source, cuts
from prgd.rows.readers.text import as_labels

CSR_KEYS = {"data", "indices", "indptr", "shape"}
_BLOCKS = 4  # blocks in a part: with fewer parts, less is handed from thread to thread
_PAGE = 4096


def load_npy(path: Path, mmap_mode: Literal["r"] | None = None) -> npt.NDArray[Any]:
    """Return the array of a ``.npy`` file, which must hold this array and nothing else."""
    try:
        mapped: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        ends, size = mapped.offset + mapped.nbytes, path.stat().st_size
        if ends != size:
            raise ValueError(f"its header announces {ends} bytes, and it has {size}")
    except FileNotFoundError:
        raise
    except Exception as error:  # A broken header raises errors of many kinds, e.g. of Python's tokenizer.
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"{path}: cannot be read as a .npy array ({reason}). Save it again with numpy.save."
        ) from error
    return np.asarray(mapped) if mmap_mode is None else cast(npt.NDArray[Any], mapped)


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


class NpySource(FileSource):
    """A ``.npy`` file in C order, read into a few small buffers.

    Reading is faster than mapping: with a cold cache large reads keep the disk busier than page faults do,
    and with a warm one a buffer that stays in the processor's cache costs less than page tables. Also, a file
    that shrinks during a pass raises an error, while a map would end the process.
    """

    def __init__(self, path: Path, mapped: Any, max_memory: int) -> None:
        super().__init__(path, mapped.shape, mapped.dtype)
        self._offset, self._row = mapped.offset, self.d * mapped.itemsize
        self._step = max(1, min(max(BLOCK_BYTES, MIN_ROWS * self._row), max_memory) // self._row)
        self.at_once = max(1, max_memory // (self._step * self._row))

    def parts(self) -> Iterable[slice]:
        """Return consecutive row ranges."""
        return cuts(0, self.n, _BLOCKS * self._step)

    def _open(self) -> npt.NDArray[Any]:
        # The buffer lies in its pages as the rows do in those of the file, else copies take twice as long.
        raw = np.empty(self._step * self._row + _PAGE, np.uint8)
        first = (self._offset - raw.ctypes.data) % _PAGE
        rows: npt.NDArray[Any] = raw[first : first + self._step * self._row].view(self._dtype)
        return rows.reshape(self._step, self.d)

    def _blocks(self, opened: npt.NDArray[Any], part: slice) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        # The system reads ahead for each open file, so every part opens the file for itself.
        with self.path.open("rb", buffering=0) as file:
            for rows in cuts(part.start, part.stop, self._step):
                block = opened[: rows.stop - rows.start]
                self._fill(file, block, rows.start)
                yield rows, block

    def _fill(self, file: FileIO, block: npt.NDArray[Any], start: int) -> None:
        left = block.data.cast("B")
        file.seek(self._offset + start * self._row)
        while count := file.readinto(left):
            left = left[count:]
        if len(left):
            self._check()
            raise RowsLostError(f"{self.path}: ends before its last row. Write it again.")

    def take(self, indices: Indices) -> Any:
        """Return the rows x_i of these indices."""
        found = np.empty((indices.size, self.d), self._dtype)
        self._check()
        with self.path.open("rb", buffering=0) as file:
            for k, row in enumerate(indices.tolist()):
                self._fill(file, found[k], row)
        return found.astype(np.float64)


def read_npy(wanted: Wanted) -> Found:
    """Return X of a file that holds one array."""
    X = as_floats(load_npy(wanted.file), wanted)
    check_shape(X.shape)
    return _chosen(X, None, wanted, None)


def read_npz_file(wanted: Wanted) -> Found:
    """Return X and y of an archive, or None for y if the archive has none and may lack it."""
    file = wanted.file
    try:
        own = {"X"} if "X" in _names(file) else {"format", *CSR_KEYS}
        arrays = read_npz(file, {"y", "feature_names", *own})
    except Exception as error:  # A damaged archive raises errors of many kinds.
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"{file}: expected an NPZ archive of whole arrays of numbers or strings, got an error ({reason})."
            " Save it with numpy.savez, strings as y.astype(str), or fetch it again."
        ) from error
    is_labelled = wanted.columns.is_labelled
    may_lack = {"y"} if wanted.columns.n_features is not None or not is_labelled else set()
    if {"X", "y"} - may_lack <= arrays.keys():
        X = as_floats(arrays["X"], wanted)
    elif (CSR_KEYS | {"y"}) - may_lack <= arrays.keys():
        X = _csr_from(arrays, wanted)
    else:
        raise ValueError(
            f"{file}: expected the keys X and y, or data, indices, indptr, shape and y for a CSR"
            f" matrix, got {', '.join(_names(file)) or 'none'}. Save with numpy.savez(path, X=X, y=y)."
        )
    if "y" in arrays and not is_labelled:
        raise ValueError(f"{file}: holds labels y of its own beside those of --labels. Leave --labels out.")
    y = as_labels(arrays["y"], file) if "y" in arrays else None
    if X.ndim != 2 or 0 in X.shape or (y is not None and y.shape != X.shape[:1]):
        raise ValueError(
            f"{file}: expected X of shape (n, d) and y of shape (n,), none empty, got {X.shape} and"
            f" {None if y is None else y.shape}. Reshape and save them again."
        )
    return _chosen(X, y, wanted, arrays.get("feature_names"))


def _names(file: Path) -> list[str]:
    with zipfile.ZipFile(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def _chosen(X: Any, y: Any, wanted: Wanted, names: npt.NDArray[Any] | None) -> Found:
    """Return the columns of X that are wanted, all without a copy unless some are chosen."""
    file, d = wanted.file, X.shape[1]
    if names is None and wanted.columns == Columns(is_labelled=wanted.columns.is_labelled):
        return Found(X, y, lambda row: f"{file}, row {row}")  # Positions of millions of columns are no names.
    listed = [str(j) for j in range(d)] if names is None else names.astype(str).tolist()
    if len(listed) != d:
        raise ValueError(f"{file}: expected {d} feature_names, one for each column of X, got {len(listed)}.")
    if wanted.columns.label is not None:
        raise ValueError(
            f"{file}: stores its labels apart from the columns, as y or in the file of --labels. Leave the"
            " label out (--label)."
        )
    columns = replace(wanted.columns, is_labelled=False)
    if names is None and columns.has_names:
        raise ValueError(f"{file}: its columns have no names. Give positions from 0 to {d - 1}.")
    chosen = columns.choose(file, listed, is_named=names is not None)
    if chosen.features != list(range(d)):
        X = X[:, chosen.features]
    notes = ignored_note(file, chosen.ignored)
    return Found(X, y, lambda row: f"{file}, row {row}", chosen.names, notes, None, chosen.names)


def _csr_from(arrays: dict[str, npt.NDArray[Any]], wanted: Wanted) -> Any:
    from scipy.sparse import csr_array

    layout = str(arrays["format"].astype(str)) if "format" in arrays else "csr"
    if layout != "csr":
        raise ValueError(f"{wanted.file}: expected a CSR matrix, got {layout}. Save X.tocsr() instead.")
    check_numbers(arrays["data"], wanted)
    try:
        n, d = (int(length) for length in arrays["shape"])
        X = csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(n, d))
        X.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"{wanted.file}: expected the arrays of one CSR matrix, got an error ({error})."
            " Save data, indices, indptr and shape of one matrix."
        ) from error
    X = canonical_csr(X, f"{wanted.file}: X")
    with np.errstate(over="ignore"):
        return X.astype(wanted.dtype or X.dtype, copy=False)
