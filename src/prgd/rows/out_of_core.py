"""Rows out of core: parts that are loaded, summed and let go, several at a time.

A source knows its labels and loads its rows in parts; every part is a dense or CSR engine, and the
same merge ends the pass, so nothing here computes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from itertools import islice
from pathlib import Path
from threading import Semaphore
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from prgd._types import Indices
from prgd.errors import NotFiniteError
from prgd.rows.arrays import ArrayRows, Storage
from prgd.rows.base import Block, M, Query, Rows
from prgd.rows.blocks import stack_blocks
from prgd.rows.labels import Labels
from prgd.rows.readers.parquet import ParquetSource
from prgd.rows.readers.sources import Source, block_source, file_kind, libsvm_source, npy_source
from prgd.threads import default_threads, pool

DEFAULT_MEMORY = 2**26
_READERS = 2  # parts that are read ahead while every thread sums another one
_MERGE_AT_ONCE = 32  # answers of parts that are kept before they are merged

T = TypeVar("T")


class ChunkedRows(Rows):
    """Rows of several sources, summed part by part within a bound on memory.

    Use `from_blocks` for arrays that are at hand and `open_rows` for files. ``classes`` are the two labels
    where these rows may lack one of them.

    Examples
    --------
    >>> from prgd.rows.queries import MarginsAt
    >>> blocks = [(np.eye(2), [1, -1]), (np.ones((1, 2)), [1])]
    >>> ChunkedRows.from_blocks(blocks).ask(MarginsAt(np.array([3.0, 1.0])))
    array([ 3., -1.,  4.])
    """

    def __init__(
        self,
        sources: Sequence[Source],
        sample_weight: Any = None,
        *,
        n_threads: int | None = None,
        classes: npt.NDArray[Any] | None = None,
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
        y = np.concatenate([np.asarray(s.labels) for s in sources]) if all(given) else None
        self.labels = Labels.read(y, sample_weight, self.n, classes)
        self._sources, self._threads = list(sources), n_threads or default_threads()

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

    def _answers(self, query: Query[M], labels: Labels) -> Iterator[M]:
        """Yield the answers of the parts in their order; parts that the query does not want are not read."""

        def work(at: slice, part: ArrayRows) -> M:
            try:
                return part.ask(query.part(at), labels.part(at))
            except NotFiniteError as error:
                raise NotFiniteError(at.start + error.row, error.column) from None

        offset = 0
        for source in self._sources:
            places = ((part, slice(offset + part.start, offset + part.stop)) for part in source.parts())
            parts = (part for part, at in places if query.wants(at))
            yield from self._each_of(source, offset, parts, work)
            offset += source.n

    def _each_of(
        self, source: Source, offset: int, parts: Iterator[slice], work: Callable[[slice, ArrayRows], T]
    ) -> Iterator[T]:
        at_once = min(source.at_once, self._threads + _READERS)
        summing = Semaphore(self._threads)  # threads beyond these read ahead
        load = source.reading()
        if at_once == 1:
            for part in parts:
                for loaded in load(part):
                    yield work(*self._engine(offset, *loaded, self._threads))
            return

        def one(part: slice) -> list[T]:
            found = []
            for loaded in load(part):
                with summing:
                    found.append(work(*self._engine(offset, *loaded, 1)))
            return found

        waiting: deque[Future[list[T]]] = deque()
        try:
            for part in parts:
                waiting.append(pool(at_once, os.getpid()).submit(one, part))
                if len(waiting) > 2 * at_once:  # results must not pile up
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)  # after an error no thread may read on

    def _engine(self, offset: int, rows: slice, storage: Storage, n_threads: int) -> tuple[slice, ArrayRows]:
        at = slice(offset + rows.start, offset + rows.stop)
        return at, ArrayRows(storage, self.labels.part(at), n_threads)

    def pieces(self) -> Iterator[tuple[int, ArrayRows]]:
        """Yield the first row and the engine of each part; the part before is let go then."""
        offset = 0
        for source in self._sources:
            load = source.reading()
            for part in source.parts():
                for loaded in load(part):
                    at, engine = self._engine(offset, *loaded, self._threads)
                    yield at.start, engine
            offset += source.n

    def ask(self, query: Query[M], labels: Labels | None = None) -> M:
        """Answer a query by one pass, part by part."""
        found: list[M] = []
        for answer in self._answers(query, self.labels if labels is None else labels):
            found.append(answer)
            if len(found) == _MERGE_AT_ONCE:  # answers must not fill the memory
                found = [query.merge(found)]
        if not found:  # no part was wanted, and any of them gives the answer of no rows
            found = [part.ask(query.part(slice(0, 0))) for _, part in islice(self.pieces(), 1)]
        return query.merge(found)

    def take(self, indices: Indices) -> Block:
        """Return the rows x_i of these ascending indices."""
        found, offset = [], 0
        for source in self._sources:
            mine = slice(*np.searchsorted(indices, [offset, offset + source.n]).tolist())
            if mine.stop > mine.start:
                found.append(source.take(indices[mine] - offset))
            offset += source.n
        return stack_blocks(found)


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
        ``.npy`` (give ``y``), LIBSVM text (``.svm .libsvm .svmlight .txt``, also ``.gz``,
        ``.bz2``, ``.xz``; parsed once into a binary cache) or ``.parquet``.
    y : array, optional
        Labels of all rows, for ``.npy``; ``None`` means that its rows are z_i = y_i x_i.
    sample_weight : array, optional
    label : str
        The label column of Parquet files.
    max_memory : int
        Bytes that the parts in memory may take together: those that are summed and those read ahead.
    n_threads : int, optional
    cache_dir : path, optional
        Where the binary form of LIBSVM files goes (default: PRGD_CACHE, else the user's cache).

    Returns
    -------
    ChunkedRows
    """
    paths = [Path(path)] if isinstance(path, (str, Path)) else [Path(p) for p in path]
    sources: list[Source] = []
    texts: list[Source] = []
    used = 0
    if max_memory < 1:
        raise ValueError(f"max_memory must be a positive number of bytes; got {max_memory!r}.")
    for p in paths:
        if not p.is_file():
            raise FileNotFoundError(f"No file {str(p)!r}. Check the path.")
        kind = file_kind(p)
        if kind == "npy":
            source = npy_source(p, max_memory)
            if y is not None:
                source.labels = np.asarray(y)[used : used + source.n]
        elif kind == "parquet":
            source = ParquetSource(p, label, max_memory)
        else:
            source = libsvm_source(p, max_memory, cache_dir)
            texts.append(source)
        sources.append(source)
        used += source.n
    if y is not None and len(y) != used:
        raise ValueError(f"y must hold one label for each of the {used} rows; got {len(y)}.")
    for text in texts:  # The last columns of one LIBSVM file may be empty in another.
        text.d = max(other.d for other in texts)
    return ChunkedRows(sources, sample_weight, n_threads=n_threads)
