"""Rows out of core: parts that are loaded, summed and let go, one after the other.

A source knows its labels and yields its rows in parts; every part is a dense or CSR engine, and the
same merge ends the pass, so nothing here computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from prgd.losses import Array, Loss
from prgd.rows.base import (
    ArrayRows,
    Measure,
    NotFiniteError,
    Signs,
    Storage,
    Worst,
    check_shape,
    read_labels,
    read_weights,
    weight_by_class,
    worst_of,
)
from prgd.rows.dense import as_float, dense_storage
from prgd.rows.libsvm import cache_libsvm
from prgd.rows.sparse import canonical_csr, check_csr, csr_storage
from prgd.tally import Tally, merge_all

DEFAULT_MEMORY = 2**26


class Source(Protocol):
    """Where parts come from: a file or a block in memory."""

    n: int
    d: int
    labels: npt.NDArray[Any] | None

    def parts(self) -> Iterator[tuple[slice, Storage]]:
        """Yield consecutive row ranges and their `Storage`."""
        ...


class ArraySource:
    """A dense array, in memory or mapped, cut into parts of bounded size."""

    def __init__(self, X: Any, y: Any = None, rows_per_part: int | None = None) -> None:
        self.n, self.d = check_shape(X.shape)
        self.labels = None if y is None else np.asarray(y)
        self._step = rows_per_part or self.n
        self._X = as_float(X)

    def parts(self) -> Iterator[tuple[slice, Storage]]:
        """Yield consecutive row ranges and their `Storage`."""
        for start in range(0, self.n, self._step):
            rows = slice(start, min(start + self._step, self.n))
            yield rows, dense_storage(self._X[rows])


class CsrSource:
    """CSR arrays, in memory or mapped, cut into parts of a bounded number of entries."""

    def __init__(self, csr: Any, d: int, y: Any = None, entries_per_part: int | None = None) -> None:
        check_csr(csr.data, csr.indices, csr.indptr, d)
        self.n, self.d = check_shape((csr.indptr.size - 1, d))
        self.labels = None if y is None else np.asarray(y)
        self._csr = csr
        self._entries = entries_per_part or max(1, csr.data.size)

    def parts(self) -> Iterator[tuple[slice, Storage]]:
        """Yield consecutive row ranges and their `Storage`."""
        csr, start = self._csr, 0
        while start < self.n:
            limit = int(csr.indptr[start]) + self._entries
            stop = int(np.searchsorted(csr.indptr, limit, side="right")) - 1
            stop = min(max(stop, start + 1), self.n)
            part = csr.indptr[start : stop + 1]
            yield slice(start, stop), csr_storage(csr.data, csr.indices, part, self.d)
            start = stop


def block_source(X: Any, y: Any = None) -> Source:
    """Return the source of a block in memory, dense or sparse."""
    if hasattr(X, "tocsr"):
        return CsrSource(canonical_csr(X), X.shape[1], y)
    return ArraySource(np.asarray(X), y)


def npy_source(path: Path, max_memory: int) -> Source:
    """Map a ``.npy`` file: no byte of it is held in anonymous memory."""
    try:
        X = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path}: cannot be read as a .npy array ({error}).") from error
    if X.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(
            f"{path}: holds {X.dtype}; out-of-core rows must be float32 or float64. Save it as such."
        )
    check_shape(X.shape)
    return ArraySource(X, None, max(1, max_memory // (X.shape[1] * X.itemsize)))


def libsvm_source(path: Path, max_memory: int, cache_dir: str | Path | None) -> Source:
    """Parse a LIBSVM text file once into a binary cache, and map that."""
    csr = cache_libsvm(path, cache_dir)
    entry = csr.data.itemsize + csr.indices.itemsize
    return CsrSource(csr, csr.n_features, csr.y, max(1, max_memory // entry))


class ParquetSource:
    """A Parquet file, read in batches of rows through pyarrow."""

    def __init__(self, path: Path, label: str, max_memory: int) -> None:
        parquet = _pyarrow_parquet()
        try:
            self._file = parquet.ParquetFile(path)
        except Exception as error:  # pyarrow's own family of errors
            raise ValueError(f"{path}: cannot be read as Parquet ({error}).") from error
        names = self._file.schema_arrow.names
        if label not in names:
            raise ValueError(f"{path}: no column {label!r}; its columns are {', '.join(names[:20])}.")
        self.columns = [name for name in names if name != label]
        types = [self._file.schema_arrow.field(name).type for name in self.columns]
        single = bool(types) and all(str(kind) == "float" for kind in types)
        self._dtype = np.dtype(np.float32 if single else np.float64)
        self._path = path
        self.labels = self._file.read([label]).column(0).to_numpy()
        self.n, self.d = check_shape((self._file.metadata.num_rows, len(self.columns)))
        # a batch is held twice: as pyarrow's columns and as our block
        self._batch = max(1, max_memory // (2 * self.d * self._dtype.itemsize))

    def parts(self) -> Iterator[tuple[slice, Storage]]:
        """Yield consecutive row ranges and their `Storage`."""
        start = 0
        for batch in self._file.iter_batches(self._batch, columns=self.columns, use_threads=False):
            block = np.empty((self.d, batch.num_rows), self._dtype)
            for j, column in enumerate(batch.columns):
                if column.null_count:
                    row = start + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                    raise ValueError(f"{self._path}: column {self.columns[j]!r} has no value at row {row}.")
                try:
                    block[j] = column.to_numpy(zero_copy_only=False)
                except (TypeError, ValueError) as error:
                    raise ValueError(
                        f"{self._path}: column {self.columns[j]!r} is not numeric. Encode it first."
                    ) from error
            yield slice(start, start + batch.num_rows), dense_storage(block.T)
            start += batch.num_rows


def _pyarrow_parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'prgd[report]'.") from error
    return pyarrow.parquet


class ChunkedRows:
    """Rows of several sources, summed part by part within a bound on memory.

    Use `from_blocks` for arrays that are at hand and `open_rows` for files.

    Examples
    --------
    >>> blocks = [(np.eye(2), [1, -1]), (np.ones((1, 2)), [1])]
    >>> ChunkedRows.from_blocks(blocks).margins(np.array([3.0, 1.0]))
    array([ 3., -1.,  4.])
    """

    def __init__(
        self,
        sources: Sequence[Source],
        sample_weight: Any = None,
        *,
        n_threads: int | None = None,
    ) -> None:
        if not sources:
            raise ValueError("ChunkedRows needs at least one block or file; got none.")
        widths = {source.d for source in sources}
        if len(widths) > 1:
            listed = ", ".join(str(source.d) for source in sources[:10])
            raise ValueError(f"All blocks must have the same number of columns; got {listed}.")
        given = [source.labels is not None for source in sources]
        if any(given) and not all(given):
            missing = given.index(False)
            raise ValueError(f"Either all blocks come with labels or none; block {missing} has none.")
        for i, source in enumerate(sources):
            if source.labels is not None and source.labels.shape != (source.n,):
                raise ValueError(f"Block {i} has {source.n} rows but labels of shape {source.labels.shape}.")
        self.n, self.d = sum(source.n for source in sources), widths.pop()
        labels = np.concatenate([np.asarray(s.labels) for s in sources]) if all(given) else None
        self._signs, self.classes = read_labels(labels, self.n)
        self._weights = read_weights(sample_weight, self.n)
        self.class_weights = weight_by_class(self._signs, self._weights)
        self._sources, self._threads = list(sources), n_threads

    @classmethod
    def from_blocks(
        cls,
        blocks: Sequence[tuple[Any, Any]],
        sample_weight: Any = None,
        *,
        n_threads: int | None = None,
    ) -> ChunkedRows:
        """Take a list of ``(X, y)`` blocks, dense or sparse; ``y`` is None where rows are z_i."""
        return cls([block_source(X, y) for X, y in blocks], sample_weight, n_threads=n_threads)

    def signs(self) -> Signs:
        """Return the labels y_i as +1 or -1."""
        return self._signs

    def weights(self) -> Array:
        """Return the sample weights, empty where all are 1."""
        return self._weights

    def _parts(self) -> Iterator[tuple[slice, ArrayRows]]:
        offset = 0
        for source in self._sources:
            for rows, storage in source.parts():
                at = slice(offset + rows.start, offset + rows.stop)
                weights = self._weights[at] if self._weights.size else self._weights
                yield at, ArrayRows(storage, self._signs[at], weights, self.classes, self._threads)
            offset += source.n

    def tallies(self, w: Array, loss: Loss, by_class: bool = False) -> tuple[Tally, ...]:
        """Sum all rows at ``w``, in one reading."""
        total: tuple[Tally, ...] = (Tally.identity(self.d),) * (2 if by_class else 1)
        for _, part in self._parts():
            found = part.tallies(w, loss, by_class)
            total = tuple(merge_all(pair) for pair in zip(total, found, strict=True))
        return total

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>`` for every row."""
        return np.concatenate([part.margins(w) for _, part in self._parts()])

    def worst(self, w: Array, most: int, by_class: bool, without: npt.NDArray[np.int64]) -> tuple[Worst, ...]:
        """Return the rows of smallest margin, of each class if asked."""
        return worst_of(self.margins(w), self._signs if by_class else None, most, without)

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p``."""
        total = np.zeros(self.d)
        for at, part in self._parts():
            if p[at].any():
                total += part.combine(p[at])
        return total

    def take(self, indices: npt.NDArray[np.int64]) -> Any:
        """Return the rows z_i of these indices, ascending, as a float64 array or CSR matrix."""
        found = []
        for at, part in self._parts():
            mine = indices[(indices >= at.start) & (indices < at.stop)]
            if mine.size:
                found.append(part.take(mine - at.start))
        if all(isinstance(block, np.ndarray) for block in found):
            return np.vstack(found)
        from scipy.sparse import csr_array, vstack

        return csr_array(vstack([csr_array(block) for block in found]))

    def measure(self) -> Measure:
        """Check that all entries are finite, and measure the row norms."""
        found = []
        for at, part in self._parts():
            try:
                found.append(part.measure())
            except NotFiniteError as error:
                raise NotFiniteError(at.start + error.row, error.column) from None
        return Measure(max(m.max_norm for m in found), sum(m.zero_rows for m in found))


def open_rows(
    path: str | Path | Sequence[str | Path],
    y: Any = None,
    sample_weight: Any = None,
    *,
    label: str = "y",
    max_memory: int = DEFAULT_MEMORY,
    n_threads: int | None = None,
    cache_dir: str | Path | None = None,
) -> ChunkedRows:
    """Open files that need not fit in memory.

    Parameters
    ----------
    path : path or list of paths
        ``.npy`` (mapped; give ``y``), LIBSVM text (``.svm .libsvm .svmlight .txt``, also ``.gz``,
        ``.bz2``, ``.xz``; parsed once into a binary cache) or ``.parquet``.
    y : array, optional
        Labels of all rows, for ``.npy``; ``None`` means that its rows are z_i = y_i x_i.
    sample_weight : array, optional
    label : str
        The label column of Parquet files.
    max_memory : int
        Bytes that a part may take at a time.
    n_threads : int, optional
    cache_dir : path, optional
        Where the binary form of LIBSVM files goes (default: PRGD_CACHE, else the user's cache).

    Returns
    -------
    ChunkedRows
    """
    paths = [Path(path)] if isinstance(path, (str, Path)) else [Path(p) for p in path]
    sources: list[Source] = []
    used = 0
    if max_memory < 1:
        raise ValueError(f"max_memory must be a positive number of bytes; got {max_memory!r}.")
    for p in paths:
        if not p.is_file():
            raise FileNotFoundError(f"No file {str(p)!r}. Check the path.")
        suffixes = [s for s in p.suffixes if s not in (".gz", ".bz2", ".xz")]
        suffix = suffixes[-1].lower() if suffixes else ""
        if suffix == ".npy":
            source = npy_source(p, max_memory)
            if y is not None:
                source.labels = np.asarray(y)[used : used + source.n]
            sources.append(source)
        elif suffix == ".parquet":
            sources.append(ParquetSource(p, label, max_memory))
        elif suffix in (".svm", ".libsvm", ".svmlight", ".txt"):
            sources.append(libsvm_source(p, max_memory, cache_dir))
        else:
            raise ValueError(
                f"{p}: unknown kind of file. Out of core: .npy, .parquet, .svm, .libsvm, .svmlight, "
                ".txt (the last four also .gz, .bz2, .xz)."
            )
        used += sources[-1].n
    if y is not None and len(y) != used:
        raise ValueError(f"y must hold one label for each of the {used} rows; got {len(y)}.")
    # the last columns of one LIBSVM file may be empty in another
    texts = [source for source in sources if isinstance(source, CsrSource)]
    for text in texts:
        text.d = max(other.d for other in texts)
    return ChunkedRows(sources, sample_weight, n_threads=n_threads)
