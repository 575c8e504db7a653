"""Sources of out-of-core rows: blocks in memory and files, cut into parts that threads load and sum.

The cut depends on the data and on the bound on memory, never on the number of threads, so results do not
depend on the number of threads either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from prgd._types import Indices
from prgd.checks import bad_cell
from prgd.errors import RowsLostError
from prgd.rows.arrays import Storage, check_shape
from prgd.rows.dense import as_float, dense_storage
from prgd.rows.readers.libsvm import cache_libsvm
from prgd.rows.readers.libsvm_text import COMPRESSED, ENDINGS
from prgd.rows.sparse import canonical_csr, check_csr, csr_storage

# Bytes that a thread reads at a time. They stay in the second-level cache until they are summed, which made a
# warm pass twice as fast as with 32 MB, and no slower with a cold cache.
BLOCK_BYTES = 2**22
BLOCKS = 4  # Blocks in a part: with fewer parts, less is handed from thread to thread.
MIN_ROWS = 64  # Rows in a block of wide rows, at least: each part has a vector of d sums to merge.
_PAGE = 4096

Load = Callable[[slice], Iterator[tuple[slice, Storage]]]


class Source(ABC):
    """A file or a block in memory, from which the rows of a part are loaded.

    Attributes
    ----------
    n, d : int
    labels : ndarray of shape (n,) or None
    at_once : int
        Parts that may be loaded at the same time; 1 if the rows lie in memory, where threads share a part.
    """

    n: int
    d: int
    labels: npt.NDArray[Any] | None = None
    at_once: int = 1

    @abstractmethod
    def parts(self) -> Iterable[slice]:
        """Yield consecutive row ranges."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Load]:
        """Open the source for one pass; the function given loads a part, as row ranges and their `Storage`.

        A `Storage` is valid only until the next one is asked for.
        """

    @abstractmethod
    def take(self, indices: Indices) -> Any:
        """Return the rows x_i of these ascending indices, as a float64 array or CSR array."""


class _MemorySource(Source):
    """Rows in memory or mapped, which the kernels read where they lie."""

    def __init__(self, shape: tuple[int, int], y: Any) -> None:
        self.n, self.d = check_shape(shape)
        self.labels = None if y is None else np.asarray(y)

    @abstractmethod
    def storage(self, rows: slice) -> Storage:
        """Describe a range of rows to the kernels."""

    def reading(self) -> AbstractContextManager[Load]:
        """Give the function that describes a part; nothing is opened."""
        return nullcontext(lambda rows: iter([(rows, self.storage(rows))]))

    def take(self, indices: Indices) -> Any:
        """Return the rows x_i of these indices."""
        return self.storage(slice(0, self.n)).gather(indices)


class ArraySource(_MemorySource):
    """A dense array, in memory or mapped."""

    def __init__(self, X: Any, y: Any = None, rows_per_part: int | None = None) -> None:
        super().__init__(X.shape, y)
        self._X, self._step = as_float(X), rows_per_part or self.n

    def parts(self) -> Iterable[slice]:
        """Yield row ranges of one length."""
        return cuts(0, self.n, self._step)

    def storage(self, rows: slice) -> Storage:
        """Describe a range of rows to the kernels."""
        return dense_storage(self._X[rows])


class CsrSource(_MemorySource):
    """CSR arrays, in memory or mapped, cut into parts of a bounded number of entries."""

    def __init__(
        self, csr: Any, d: int, y: Any = None, entries_per_part: int | None = None, at_once: int = 1
    ) -> None:
        check_csr(csr.data, csr.indices, csr.indptr, d)
        super().__init__((csr.indptr.size - 1, d), y)
        self._csr, self.at_once = csr, at_once
        self._entries = entries_per_part or max(1, csr.data.size)

    def parts(self) -> Iterable[slice]:
        """Yield row ranges with about the same number of entries."""
        indptr, start = self._csr.indptr, 0
        while start < self.n:
            limit = int(indptr[start]) + self._entries
            stop = int(np.searchsorted(indptr, limit, side="right")) - 1
            stop = min(max(stop, start + 1), self.n)
            yield slice(start, stop)
            start = stop

    def storage(self, rows: slice) -> Storage:
        """Describe a range of rows to the kernels."""
        csr = self._csr
        return csr_storage(csr.data, csr.indices, csr.indptr[rows.start : rows.stop + 1], self.d)


def cuts(first: int, last: int, step: int) -> Iterator[slice]:
    """Yield the rows from ``first`` to ``last`` as ranges of ``step`` rows."""
    for start in range(first, last, step):
        yield slice(start, min(start + step, last))


def block_source(X: Any, y: Any = None) -> Source:
    """Return the source of a block in memory, dense or sparse."""
    if hasattr(X, "tocsr"):
        return CsrSource(canonical_csr(X), X.shape[1], y)
    return ArraySource(np.asarray(X), y)


@dataclass(frozen=True)
class DataFile:
    """The size and time of a file when it was first opened: every later pass must find the same file."""

    path: Path
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> DataFile:
        """Return the facts of the file as it is now."""
        facts = path.stat()
        return cls(path, facts.st_size, facts.st_mtime_ns)

    def check(self) -> None:
        """Raise `RowsLostError` unless the file is still the same."""
        try:
            now = DataFile.of(self.path)
        except OSError as error:
            raise RowsLostError(
                f"{self.path}: was there when the rows were opened, and cannot be read now "
                f"({error.strerror}). Put the file back and go on from the last state."
            ) from error
        if now != self:
            raise RowsLostError(
                f"{self.path}: changed since the rows were opened ({self.size} bytes then, {now.size} now). "
                "Open it again, and start anew: a run over two versions of a file means nothing."
            )


class NpySource(Source):
    """A ``.npy`` file in C order, read into a few small buffers.

    Reading is faster than mapping: with a cold cache large reads keep the disk busier than page faults do,
    and with a warm one a buffer that stays in the processor's cache costs less than page tables. Also, a file
    that shrinks during a pass raises an error, while a map would end the process.
    """

    def __init__(self, path: Path, mapped: Any, max_memory: int) -> None:
        self.n, self.d = mapped.shape
        self._file, self._dtype, self._offset = DataFile.of(path), mapped.dtype, mapped.offset
        self._row = self.d * self._dtype.itemsize
        size = min(max(BLOCK_BYTES, MIN_ROWS * self._row), max_memory)
        self._step = max(1, size // self._row)
        self.at_once = max(1, max_memory // (self._step * self._row))

    def parts(self) -> Iterable[slice]:
        """Yield consecutive row ranges."""
        return cuts(0, self.n, BLOCKS * self._step)

    @contextmanager
    def reading(self) -> Iterator[Load]:
        """Give the function that reads a part; the next part uses the buffers again."""
        self._file.check()
        free: list[npt.NDArray[Any]] = []

        def load(rows: slice) -> Iterator[tuple[slice, Storage]]:
            buffer = free.pop() if free else self._buffer()
            # The system reads ahead for each open file, so every part opens the file for itself.
            with self._file.path.open("rb", buffering=0) as file:
                for piece in cuts(rows.start, rows.stop, self._step):
                    block = buffer[: piece.stop - piece.start]
                    self._fill(file, block, piece.start)
                    yield piece, dense_storage(block)
            free.append(buffer)

        yield load

    def _buffer(self) -> npt.NDArray[Any]:
        # The buffer lies in its pages as the rows do in those of the file, else copies take twice as long.
        raw = np.empty(self._step * self._row + _PAGE, np.uint8)
        first = (self._offset - raw.ctypes.data) % _PAGE
        rows: npt.NDArray[Any] = raw[first : first + self._step * self._row].view(self._dtype)
        return rows.reshape(self._step, self.d)

    def _fill(self, file: FileIO, block: npt.NDArray[Any], start: int) -> None:
        left = block.data.cast("B")
        file.seek(self._offset + start * self._row)
        while count := file.readinto(left):
            left = left[count:]
        if len(left):
            self._file.check()
            raise RowsLostError(f"{self._file.path}: ends before its last row. Write it again.")

    def take(self, indices: Indices) -> Any:
        """Return the rows x_i of these indices."""
        found = np.empty((indices.size, self.d), self._dtype)
        self._file.check()
        with self._file.path.open("rb", buffering=0) as file:
            for k, row in enumerate(indices.tolist()):
                self._fill(file, found[k], row)
        return found.astype(np.float64)


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
    """Return the array of a ``.npy`` file."""
    try:
        found: npt.NDArray[Any] = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path}: cannot be read as a .npy array ({error}).") from error
    return found


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
    return ArraySource(X, None, max(1, max_memory // (X.shape[1] * X.itemsize)))


def libsvm_source(path: Path, max_memory: int, cache_dir: str | Path | None) -> Source:
    """Parse a LIBSVM text file once into a binary cache, and map the cache."""
    csr = cache_libsvm(path, cache_dir)
    entry = csr.data.itemsize + csr.indices.itemsize
    # Each part has a vector of d sums to clear and to merge, so it holds many entries for every column.
    entries = max(1, min(max(BLOCK_BYTES // entry, 16 * csr.n_features), max_memory // entry))
    return CsrSource(csr, csr.n_features, csr.y, entries, max(1, max_memory // (entries * entry)))


class ParquetSource(Source):
    """A Parquet file: a part is a row group, decoded in batches of rows through pyarrow."""

    def __init__(self, path: Path, label: str, max_memory: int) -> None:
        file = open_parquet(path)
        names = file.schema_arrow.names
        if label not in names:
            raise ValueError(f"{path}: no column {label!r}; its columns are {', '.join(names[:20])}.")
        self.columns = [name for name in names if name != label]
        types = [file.schema_arrow.field(name).type for name in self.columns]
        single = bool(types) and all(str(kind) == "float" for kind in types)
        self._dtype = np.dtype(np.float32 if single else np.float64)
        self._file = DataFile.of(path)
        self.labels = file.read([label]).column(0).to_numpy()
        groups = [file.metadata.row_group(g) for g in range(file.metadata.num_row_groups)]
        self._ends = np.cumsum([group.num_rows for group in groups])
        self.n, self.d = check_shape((file.metadata.num_rows, len(self.columns)))
        # A batch is held twice: as columns of pyarrow and as our block.
        row = 2 * self.d * self._dtype.itemsize
        self._batch = max(1, min(max(2 * BLOCK_BYTES, MIN_ROWS * row), max_memory) // row)
        # pyarrow holds the encoded bytes of a row group while it decodes the group.
        encoded = max(group.total_byte_size for group in groups)
        self.at_once = max(1, max_memory // (encoded + self._batch * row))

    def parts(self) -> Iterable[slice]:
        """Yield the row ranges of the row groups."""
        for start, stop in zip([0, *self._ends[:-1].tolist()], self._ends.tolist(), strict=True):
            if stop > start:
                yield slice(start, stop)

    @contextmanager
    def reading(self) -> Iterator[Load]:
        """Open the file for one pass."""
        self._file.check()
        free: list[Any] = []  # A ParquetFile serves one thread at a time.

        def load(rows: slice) -> Iterator[tuple[slice, Storage]]:
            file = free.pop() if free else open_parquet(self._file.path)
            for batch_rows, block in self._blocks(file, rows):
                yield batch_rows, dense_storage(block)
            free.append(file)

        yield load

    def _blocks(self, file: Any, rows: slice) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        """Decode the row group that begins at ``rows`` batch by batch."""
        group, start = int(np.searchsorted(self._ends, rows.start, side="right")), rows.start
        for batch in file.iter_batches(
            self._batch, row_groups=[group], columns=self.columns, use_threads=False
        ):
            block = np.empty((self.d, batch.num_rows), self._dtype).T
            fill_columns(block, batch.columns, self.columns, self._file.path, start)
            yield slice(start, start + batch.num_rows), block
            start += batch.num_rows

    def whole(self) -> npt.NDArray[Any]:
        """Return all rows as one array."""
        X, file = np.empty((self.n, self.d), self._dtype), open_parquet(self._file.path)
        for part in self.parts():
            for rows, block in self._blocks(file, part):
                X[rows] = block
        return X

    def take(self, indices: Indices) -> Any:
        """Return the rows x_i of these indices, from the row groups that hold them."""
        found = np.empty((indices.size, self.d))
        with self.reading() as load:
            for part in self.parts():
                if np.searchsorted(indices, part.start) == np.searchsorted(indices, part.stop):
                    continue
                for rows, storage in load(part):
                    mine = slice(*np.searchsorted(indices, [rows.start, rows.stop]).tolist())
                    if mine.stop > mine.start:
                        found[mine] = storage.gather(indices[mine] - rows.start)
        return found


def fill_columns(
    block: npt.NDArray[Any], columns: Sequence[Any], names: Sequence[str], path: Path, first_row: int = 0
) -> None:
    """Write Arrow columns into the columns of ``block``, which must all be numbers without missing values."""
    from pyarrow import types

    for j, (name, column) in enumerate(zip(names, columns, strict=True)):
        if column.null_count:
            row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise bad_cell(f"{path}, row {row}", name, None)
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        kind = column.type
        numeric = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal)
        if not any(is_kind(kind) for is_kind in numeric):
            raise ValueError(
                f"{path}, column {name!r}: expected numbers, got {kind}. Encode the"
                " column as numbers or leave it out of the file."
            )
        with np.errstate(over="ignore"):
            block[:, j] = column.to_numpy(zero_copy_only=False)


def open_parquet(path: Path) -> Any:
    """Return the open `pyarrow.parquet.ParquetFile`."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"Reading {path} needs pyarrow: pip install 'prgd[report]'.") from error
    try:
        return pyarrow.parquet.ParquetFile(path)
    except Exception as error:  # pyarrow raises errors of its own that share no base class.
        raise ValueError(
            f"{path}: expected a whole Parquet file, got an error ({error}). Fetch it again."
        ) from error
