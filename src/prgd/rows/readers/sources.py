"""Sources of out-of-core rows: blocks in memory and files, cut into parts that threads load and sum.

The cut depends on the data and on the bound on memory, never on the number of threads, so results do not
depend on the number of threads either.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.errors import RowsLostError
from prgd.core.types import Indices
from prgd.rows.arrays import Storage, csr_storage, dense_storage
from prgd.rows.exact import as_float, canonical_csr, check_csr, check_shape, column_names
from prgd.rows.labels import label_array

# Bytes that a thread reads at a time. They stay in the second-level cache until they are summed, which made a
# warm pass twice as fast as with 32 MB, and no slower with a cold cache.
BLOCK_BYTES = 2**22
MIN_ROWS = 64  # Rows in a block of wide rows, at least: each part has a vector of d sums to merge.

Load = Callable[[slice], Iterator[tuple[slice, Storage]]]


class Source(ABC):
    """A file or a block in memory, from which the rows of a part are loaded.

    Attributes
    ----------
    n, d : int
    labels : ndarray of shape (n,) or None
    feature_names : tuple of str or None
    at_once : int
        Parts that may be loaded at the same time; 1 if the rows lie in memory, where threads share a part.
    """

    n: int
    d: int
    labels: npt.NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None
    at_once: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes of the rows in memory; 0 if they stay in a file."""
        return 0

    @abstractmethod
    def parts(self) -> Iterable[slice]:
        """Return consecutive row ranges."""

    @abstractmethod
    def reading(self) -> Load:
        """Return the function that loads a part in one pass, as row ranges and their `Storage`.

        A `Storage` is valid only until the next one is asked for.
        """

    @abstractmethod
    def take(self, indices: Indices) -> Any:
        """Return the rows x_i of these ascending indices, as a float64 array or CSR array."""


class MemorySource(Source):
    """Rows in memory or mapped, which the kernels read where they lie: an array, or CSR arrays.

    ``X`` has ``data``, ``indices`` and ``indptr`` if it is sparse; ``parts`` is one range by default.
    """

    def __init__(self, X: Any, y: Any = None, parts: Iterable[slice] | None = None, at_once: int = 1) -> None:
        self.n, self.d = check_shape(X.shape)
        self.labels = None if y is None else label_array(y)
        if not isinstance(X, np.ndarray):
            check_csr(X.data, X.indices, X.indptr, self.d)
        self.X, self._parts, self.at_once = X, list(parts or [slice(0, self.n)]), at_once

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        X = self.X
        arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
        return sum(int(array.nbytes) for array in arrays)

    def parts(self) -> Iterable[slice]:
        """Return consecutive row ranges."""
        return self._parts

    def reading(self) -> Load:
        """Return the function that describes a part; nothing is opened."""
        return lambda rows: iter([(rows, self._storage(rows))])

    def take(self, indices: Indices) -> Any:
        """Return the rows x_i of these indices."""
        return self._storage(slice(0, self.n)).gather(indices)

    def _storage(self, rows: slice) -> Storage:
        X = self.X
        if isinstance(X, np.ndarray):
            return dense_storage(X[rows])
        return csr_storage(X.data, X.indices, X.indptr[rows.start : rows.stop + 1], self.d)


def block_source(X: Any, y: Any = None) -> Source:
    """Return the source of a block in memory, dense or sparse."""
    source = MemorySource(canonical_csr(X) if hasattr(X, "tocsr") else as_float(X), y)
    source.feature_names = column_names(X)
    return source


def cuts(first: int, last: int, step: int) -> Iterator[slice]:
    """Yield the rows from ``first`` to ``last`` as ranges of ``step`` rows."""
    for start in range(first, last, step):
        yield slice(start, min(start + step, last))


def entry_cuts(indptr: Indices, entries: int) -> Iterator[slice]:
    """Yield row ranges of at most so many entries, or of one row."""
    start, n = 0, indptr.size - 1
    while start < n:
        stop = int(np.searchsorted(indptr, int(indptr[start]) + entries, side="right")) - 1
        stop = min(max(stop, start + 1), n)
        yield slice(start, stop)
        start = stop


class FileSource(Source):
    """A file that is read in blocks of dense rows; every pass must find the file as it was when opened."""

    def __init__(self, path: Path, shape: tuple[int, int], dtype: npt.DTypeLike) -> None:
        self.path, self._dtype = path, np.dtype(dtype)
        self.n, self.d = check_shape(shape)
        self._facts = _facts(path)

    @abstractmethod
    def _open(self) -> Any:
        """Return what one thread needs to read, e.g. a buffer; a later part uses it again."""

    @abstractmethod
    def _blocks(self, opened: Any, part: slice) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        """Yield the row ranges of a part and their rows, each valid until the next."""

    def reading(self) -> Load:
        """Return the function that reads a part of the file."""
        self._check()
        free: list[Any] = []

        def load(part: slice) -> Iterator[tuple[slice, Storage]]:
            opened = free.pop() if free else self._open()
            for rows, block in self._counted(opened, part):
                yield rows, dense_storage(block)
            free.append(opened)

        return load

    def _counted(self, opened: Any, part: slice) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        """Yield the blocks of a part; an error tells if the file gives other rows than it announced."""
        end = part.start
        for rows, block in self._blocks(opened, part):
            if rows.start != end or rows.stop > part.stop or len(block) != rows.stop - rows.start:
                break
            end = rows.stop
            yield rows, block
        if end != part.stop:
            self._check()
            raise ValueError(
                f"{self.path}: announces {self.n} rows, and does not give rows {end} to {part.stop - 1}: the "
                "file is damaged. Fetch or write it again."
            )

    def _check(self) -> None:
        """Raise `RowsLostError` unless the file is still the same."""
        try:
            now = _facts(self.path)
        except OSError as error:
            raise RowsLostError(
                f"{self.path}: was there when the rows were opened, and cannot be read now "
                f"({error.strerror}). Put the file back and go on from the last state."
            ) from error
        if now != self._facts:
            raise RowsLostError(
                f"{self.path}: changed since the rows were opened ({self._facts[0]} bytes then,"
                f" {now[0]} now). Open it again, and start anew: a run over two versions of a file means"
                " nothing."
            )


def _facts(path: Path) -> tuple[int, int]:
    """Return the size of a file and the time of its last change."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns
