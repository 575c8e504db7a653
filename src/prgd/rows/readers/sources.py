"""Sources of out-of-core rows: blocks in memory and files, cut into parts that threads load and sum.

The cut depends on the data and on the bound on memory, never on the number of threads, so results do not
depend on the number of threads either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd._types import Indices
from prgd.errors import RowsLostError
from prgd.rows.arrays import Storage, check_shape
from prgd.rows.dense import as_float, dense_storage
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

    @property
    def nbytes(self) -> int:
        """Bytes of the rows in memory; 0 if they stay in a file."""
        return 0

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

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(array.nbytes) for array in self.storage(slice(0, self.n)).A[1:])

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
        self, csr: Any, y: Any = None, entries_per_part: int | None = None, at_once: int = 1
    ) -> None:
        super().__init__(csr.shape, y)
        check_csr(csr.data, csr.indices, csr.indptr, self.d)
        self.csr, self.at_once = csr, at_once
        self._indptr = np.ascontiguousarray(csr.indptr, dtype=np.int64)  # as the kernels take it
        self._entries = entries_per_part or max(1, csr.data.size)

    def parts(self) -> Iterable[slice]:
        """Yield row ranges with about the same number of entries."""
        indptr, start = self._indptr, 0
        while start < self.n:
            limit = int(indptr[start]) + self._entries
            stop = int(np.searchsorted(indptr, limit, side="right")) - 1
            stop = min(max(stop, start + 1), self.n)
            yield slice(start, stop)
            start = stop

    def storage(self, rows: slice) -> Storage:
        """Describe a range of rows to the kernels."""
        return csr_storage(self.csr.data, self.csr.indices, self._indptr[rows.start : rows.stop + 1], self.d)


def cuts(first: int, last: int, step: int) -> Iterator[slice]:
    """Yield the rows from ``first`` to ``last`` as ranges of ``step`` rows."""
    for start in range(first, last, step):
        yield slice(start, min(start + step, last))


def block_source(X: Any, y: Any = None) -> Source:
    """Return the source of a block in memory, dense or sparse."""
    if hasattr(X, "tocsr"):
        return CsrSource(canonical_csr(X), y)
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
