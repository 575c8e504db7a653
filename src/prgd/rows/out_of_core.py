"""Rows out of core: parts that are loaded, summed and let go, several at a time.

A source knows its labels and loads its rows in parts; every part is a dense or CSR engine, and the
same merge ends the pass, so nothing here computes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from itertools import accumulate, chain, islice
from pathlib import Path
from threading import Semaphore
from typing import Any

from prgd.core.errors import NotFiniteError
from prgd.core.threads import pool, threads_of
from prgd.core.types import Indices
from prgd.rows.arrays import ArrayRows, Storage
from prgd.rows.base import Block, M, Query, Rows, places_within, register
from prgd.rows.blocks import stack_blocks
from prgd.rows.labels import Labels, check_labels, join_labels
from prgd.rows.readers.columns import Column, Columns, check_same_names
from prgd.rows.readers.files import file_kind, open_source
from prgd.rows.readers.parquet import ParquetSource
from prgd.rows.readers.sources import Source, block_source

DEFAULT_MEMORY = 2**26
_READERS = 2  # parts that are read ahead while every thread sums another one
_MERGE_AT_ONCE = 32  # answers of parts that are kept before they are merged


class ChunkedRows(Rows):
    """Rows of several sources, summed part by part within a bound on memory.

    Use `from_blocks` for arrays that are at hand and `open_rows` for files.

    Examples
    --------
    >>> import numpy as np
    >>> from prgd.rows.queries import MarginsAt
    >>> blocks = [(np.eye(2), [1, -1]), (np.ones((1, 2)), [1])]
    >>> ChunkedRows.from_blocks(blocks).ask(MarginsAt(np.array([3.0, 1.0])))
    array([ 3., -1.,  4.])
    """

    def __init__(self, sources: Sequence[Source], labels: Labels, *, n_jobs: int | None = None) -> None:
        *starts, self.n = accumulate((source.n for source in sources), initial=0)
        self.d, self.labels, self._threads = sources[0].d, labels, threads_of(n_jobs)
        self.feature_names = sources[0].feature_names
        self._sources = list(zip(starts, sources, strict=True))  # each with the number of rows before it

    @classmethod
    def from_sources(
        cls, sources: Sequence[Source], sample_weight: Any = None, *, n_jobs: int | None = None
    ) -> ChunkedRows:
        """Check that sources fit together, and take the labels that come with them."""
        if not sources:
            raise ValueError("ChunkedRows needs at least one block or file; got none.")
        if len({source.d for source in sources}) > 1:
            listed = ", ".join(str(source.d) for source in sources[:10])
            raise ValueError(f"All blocks must have the same number of columns; got {listed}.")
        if len({source.feature_names for source in sources}) > 1:
            raise ValueError("All blocks must have the same columns in the same order; their names differ.")
        given = [source.labels for source in sources if source.labels is not None]
        if given and len(given) < len(sources):
            missing = next(i for i, source in enumerate(sources) if source.labels is None)
            raise ValueError(f"Either all blocks come with labels or none; block {missing} has none.")
        for i, (source, y) in enumerate(zip(sources, given, strict=False)):
            if y.shape != (source.n,):
                raise ValueError(f"Block {i} has {source.n} rows but labels of shape {y.shape}.")
        n = sum(source.n for source in sources)
        labels = Labels.read(join_labels(given) if given else None, sample_weight, n)
        return cls(sources, labels, n_jobs=n_jobs)

    @classmethod
    def from_blocks(
        cls, blocks: Sequence[tuple[Any, Any]], sample_weight: Any = None, *, n_jobs: int | None = None
    ) -> ChunkedRows:
        """Take a list of ``(X, y)`` blocks, dense or sparse; ``y`` is None if the rows are z_i."""
        return cls.from_sources([block_source(X, y) for X, y in blocks], sample_weight, n_jobs=n_jobs)

    @property
    def _where(self) -> str:
        return f", {len(self._sources)} source{'s' if len(self._sources) > 1 else ''}"

    def __sizeof__(self) -> int:
        # Dask asks for the bytes in memory before it moves a partition.
        return 1000 + sum(source.nbytes for _, source in self._sources)

    def _answers(self, query: Query[M], labels: Labels) -> Iterator[M]:
        """Yield the answers of the parts in their order; parts that the query does not want are not read."""

        def work(at: slice, storage: Storage, n_jobs: int) -> M:
            try:
                return ArrayRows(storage, labels.part(at), n_jobs).ask(query.part(at))
            except NotFiniteError as error:
                raise NotFiniteError(at.start + error.row, error.column) from None

        for first, source in self._sources:
            yield from self._each_part(first, source, query.wants, work)

    def _each_part(
        self,
        first: int,
        source: Source,
        wants: Callable[[slice], bool],
        work: Callable[[slice, Storage, int], M],
    ) -> Iterator[M]:
        """Yield ``work(rows, storage, n_jobs)`` of the parts of a source whose first row is ``first``."""
        parts = (part for part in source.parts() if wants(_moved(part, first)))
        at_once = min(source.at_once, self._threads + _READERS)
        summing = Semaphore(self._threads)  # threads beyond these read ahead
        load = source.reading()
        if at_once == 1:
            for part in parts:
                for rows, storage in load(part):
                    yield work(_moved(rows, first), storage, self._threads)
            return

        def one(part: slice) -> list[M]:
            found = []
            for rows, storage in load(part):
                with summing:
                    found.append(work(_moved(rows, first), storage, 1))
            return found

        waiting: deque[Future[list[M]]] = deque()
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

    def pieces(self) -> Iterator[tuple[int, ArrayRows]]:
        """Yield the first row and the engine of each part; the part before is let go then."""
        for first, source in self._sources:
            for rows, storage in chain.from_iterable(map(source.reading(), source.parts())):
                at = _moved(rows, first)
                yield at.start, ArrayRows(storage, self.labels.part(at), self._threads)

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
        found = []
        for first, source in self._sources:
            mine = places_within(indices, slice(first, first + source.n))
            if mine.stop > mine.start:
                found.append(source.take(indices[mine] - first))
        return stack_blocks(found)


def _moved(rows: slice, first: int) -> slice:
    """Return the rows of a source, whose first row is ``first`` of all, as rows of all."""
    return slice(first + rows.start, first + rows.stop)


def open_rows(
    path: str | Path | Sequence[str | Path],
    y: Any = None,
    sample_weight: Any = None,
    *,
    label: Column | None = None,
    features: Sequence[Column] | None = None,
    drop: Sequence[Column] = (),
    max_memory: int = DEFAULT_MEMORY,
    n_jobs: int | None = None,
    cache_dir: str | Path | None = None,
) -> ChunkedRows:
    """Open files that need not fit in memory.

    Parameters
    ----------
    path : path or list of paths
        ``.npy`` (give ``y``), LIBSVM text (``.svm .libsvm .svmlight .txt``, also ``.gz``,
        ``.bz2``, ``.xz``; parsed once into a binary cache) or ``.parquet``.
    y : array, optional
        Labels of all rows, for ``.npy``, and for ``.parquet`` without a label column; ``None`` means that
        the rows of a ``.npy`` file are z_i = y_i x_i.
    sample_weight : array, optional
    label : str or int, optional
        The label column of Parquet files, by name or position; by default as in `prgd.datasets.load`.
    features, drop : list of str or int, optional
        Columns of Parquet files to use, or to leave out, by name or position.
    max_memory : int
        Bytes that the parts in memory may take together: those that are summed and those read ahead.
    n_jobs : int, optional
    cache_dir : path, optional
        Where the binary form of LIBSVM files goes (default: PRGD_CACHE, else the user's cache).

    Returns
    -------
    ChunkedRows
    """
    labels = None if y is None else check_labels(y, len(y))
    columns = Columns(label, None if features is None else tuple(features), tuple(drop), labels is None)
    paths = [Path(path)] if isinstance(path, (str, Path)) else [Path(p) for p in path]
    sources: list[Source] = []
    used = 0
    if max_memory < 1:
        raise ValueError(f"max_memory must be a positive number of bytes; got {max_memory!r}.")
    for p in paths:
        if not p.is_file():
            raise FileNotFoundError(f"No file {str(p)!r}. Check the path.")
        source = open_source(p, columns, max_memory, cache_dir)
        if isinstance(source, ParquetSource) and sources and sources[0].feature_names is not None:
            # Files of one table may have their columns in different orders.
            check_same_names(sources[0].feature_names, source.feature_names, str(p), str(paths[0]))
            source = source.with_order(sources[0].feature_names)
        if labels is not None and source.labels is None:
            source.labels = labels[used : used + source.n]
        sources.append(source)
        used += source.n
    if y is not None and len(y) != used:
        raise ValueError(f"y must hold one label for each of the {used} rows; got {len(y)}.")
    # The last columns of one LIBSVM file may be empty in another.
    texts = [source for p, source in zip(paths, sources, strict=True) if file_kind(p) == "libsvm"]
    for text in texts:
        text.d = max(other.d for other in texts)
    return ChunkedRows.from_sources(sources, sample_weight, n_jobs=n_jobs)


register("str", open_rows)
register("pathlib", open_rows)
