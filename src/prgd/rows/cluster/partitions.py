"""What runs on the workers of a cluster: a partition is loaded, becomes an engine, and answers.

Every function here is pure, so a scheduler may call it again on another worker after a loss, with the
same answer bit for bit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd._types import Array, Indices, Signs
from prgd.errors import NotFiniteError
from prgd.rows.arrays import ArrayRows, check_shape
from prgd.rows.base import Block, Query, Rows
from prgd.rows.dense import as_float, dense_storage
from prgd.rows.labels import Labels, check_weights, read_signs
from prgd.rows.out_of_core import DEFAULT_MEMORY, ChunkedRows
from prgd.rows.readers.parquet import ParquetSource, open_parquet
from prgd.rows.readers.sources import Source, file_kind, npy_source
from prgd.rows.sparse import canonical_csr, check_csr, csr_storage

MAX_LABELS = 50  # labels that a partition reports: more than these are no classes


@dataclass(frozen=True)
class Loaded:
    """A partition as it was found: labels of any kind, LIBSVM columns counted as in the file."""

    name: str
    X: Any  # an array, a CSR matrix or a `Source` that stays on disk; None if there are no rows
    y: npt.NDArray[Any] | None
    weights: Array
    is_text: bool = False

    def __sizeof__(self) -> int:
        return _size(self.X)


class Label(NamedTuple):
    """A label of a partition (None for rows z_i), its rows and their weight."""

    value: Any
    rows: int
    mass: float


class Facts(NamedTuple):
    """What the driver learns of a partition: no number for each row."""

    name: str
    n: int
    d: int
    labels: tuple[Label, ...]
    has_weights: bool
    is_text: bool
    min_column: int  # the smallest index in LIBSVM text, which tells whether columns count from 0


def _size(X: Any) -> int:
    """Return the bytes in memory, which the scheduler asks for before it moves a partition."""
    if X is None or isinstance(X, np.memmap):
        return 1000
    if hasattr(X, "indptr"):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(getattr(X, "nbytes", 1000))


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of the partition before an error."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}") from error


def load_file(url: str, label: str, labels_url: str | None, max_memory: int | None) -> Loaded:
    """Read a LIBSVM, Parquet or ``.npy`` file, through fsspec where it is not local.

    With ``max_memory`` a local file stays where it is, and every pass reads it in parts.
    """
    with _local(url) as path:
        kind, y = file_kind(path), None
        if max_memory is not None and (kind == "libsvm" or not _is_local(url)):
            raise ValueError(
                f"{url}: max_memory is for .npy and .parquet files on the disks of the workers. "
                "Leave it out, and the file is loaded into memory."
            )
        if labels_url is not None:
            if kind != "npy":
                raise ValueError(f"{url}: y is for .npy files; this one holds its labels. Leave y out.")
            with _local(labels_url) as labels_path:
                y = np.load(labels_path, allow_pickle=False)
        if kind == "libsvm":
            return _load_text(url, path)
        if kind == "npy":
            if max_memory is not None:
                return Loaded(url, npy_source(path, max_memory), y, np.empty(0))
            return read_block((np.load(path, allow_pickle=False), y), url)
        if open_parquet(path).metadata.num_rows == 0:
            return Loaded(url, None, None, np.empty(0))
        source = ParquetSource(path, label, max_memory or DEFAULT_MEMORY)
        return Loaded(url, source.whole() if max_memory is None else source, source.labels, np.empty(0))


def _load_text(url: str, path: Path) -> Loaded:
    from prgd.rows.readers.libsvm import parse_libsvm

    if path.stat().st_size == 0:
        return Loaded(url, None, None, np.empty(0), is_text=True)
    # Indices stay as they are in the file: whether they count from 0 or 1 is decided over all files.
    text = parse_libsvm(path, zero_based=True)
    return Loaded(url, text.tocsr(), text.y, np.empty(0), is_text=True)


def _is_local(url: str) -> bool:
    return "://" not in url or url.startswith("file://")


@contextmanager
def _local(url: str) -> Iterator[Path]:
    """Give the path of a file, after copying it to this worker where it lies elsewhere."""
    import fsspec.core

    files, path = fsspec.core.url_to_fs(url)
    if _is_local(url):
        if not Path(path).is_file():
            raise FileNotFoundError(f"No file {path!r} on this worker: it vanished, or is not shared.")
        yield Path(path)
        return
    if not files.exists(path):
        raise FileNotFoundError(f"No file {url!r}: it vanished, or this worker may not read it.")
    with tempfile.TemporaryDirectory(prefix="prgd-") as folder:
        copy = Path(folder) / Path(path).name
        files.get_file(path, str(copy))
        yield copy


def read_block(block: Any, name: str, label: str | None = None) -> Loaded:
    """Take ``X``, ``(X, y)``, ``(X, y, sample_weight)``, or a data frame and its label column."""
    with naming(name):
        if hasattr(block, "columns") and label is not None:
            if label not in block.columns:
                raise ValueError(f"no column {label!r}; its columns are {', '.join(map(str, block.columns))}")
            block = (block.drop(columns=label).to_numpy(), block[label].to_numpy())
        X, y, weights = (*block, None, None)[:3] if isinstance(block, (tuple, list)) else (block, None, None)
        y = None if y is None else np.asarray(y)
        if X.shape[0] == 0:
            return Loaded(name, None, y, np.empty(0))
        n, d = check_shape(X.shape)
        if hasattr(X, "tocsr"):
            X = canonical_csr(X)
            check_csr(X.data, X.indices, X.indptr, d)
        else:
            X = as_float(X)
        return Loaded(name, X, y, check_weights(weights, n))


def describe(loaded: Loaded) -> Facts:
    """Return what the driver has to know."""
    X = loaded.X
    if X is None:
        return Facts(loaded.name, 0, 0, (), False, loaded.is_text, 1)
    n, d = (X.n, X.d) if isinstance(X, Source) else X.shape
    with naming(loaded.name):
        labels = _count_labels(loaded.y, loaded.weights, n)
    lowest = int(X.indices.min(initial=1)) if loaded.is_text else 1
    return Facts(loaded.name, n, d, labels, loaded.weights.size > 0, loaded.is_text, lowest)


def _count_labels(y: npt.NDArray[Any] | None, weights: Array, n: int) -> tuple[Label, ...]:
    if y is None:
        return (Label(None, n, float(weights.sum()) if weights.size else float(n)),)
    if y.shape != (n,):
        raise ValueError(f"y must hold one label for each of the {n} rows; got shape {y.shape}.")
    if y.dtype.kind in "fc" and not np.isfinite(y).all():
        raise ValueError(f"y has a label that is not finite, at row {int(np.argmin(np.isfinite(y)))}.")
    values, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if values.size > MAX_LABELS:
        raise ValueError(f"y must hold two classes; got {values.size}. Is this the label column?")
    masses = np.bincount(codes, weights if weights.size else None, values.size)
    return tuple(map(Label, values.tolist(), counts.tolist(), masses.astype(float).tolist()))


class Partition:
    """Rows of one partition on its worker, with signs; its engine is made once and never sent."""

    def __init__(
        self, loaded: Loaded, d: int, first: int, classes: npt.NDArray[Any] | None, n_threads: int
    ) -> None:
        X = loaded.X
        if loaded.is_text:
            from scipy.sparse import csr_array

            # The last columns of one text file may be empty in another.
            X = csr_array((X.data, X.indices - np.asarray(first, X.indices.dtype), X.indptr), (X.shape[0], d))
        self.name, self.n, self.d = loaded.name, X.n if isinstance(X, Source) else X.shape[0], d
        self._X, self._y, self._weights = X, loaded.y, loaded.weights
        self._classes, self._threads = classes, n_threads

    def __sizeof__(self) -> int:
        return _size(self._X)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "engine"}

    @cached_property
    def engine(self) -> Rows:
        """The rows as an engine."""
        if isinstance(self._X, Source):
            self._X.labels = self._y
            return ChunkedRows([self._X], n_threads=self._threads, classes=self._classes)
        X = self._X
        storage = (
            csr_storage(X.data, X.indices, X.indptr, self.d) if hasattr(X, "indptr") else dense_storage(X)
        )
        signs, _ = read_signs(self._y, self.n, self._classes)
        return ArrayRows(storage, Labels(signs, self._weights, self._classes), self._threads)


def build(loaded: Loaded, d: int, first: int, classes: npt.NDArray[Any] | None, n_threads: int) -> Partition:
    """Return the partition, now that the classes and the number of columns are known."""
    return Partition(loaded, d, first, classes, n_threads)


# What the driver asks of each partition


def answer(partition: Partition, at: slice, labels: Labels | None, query: Query[Any]) -> Any:
    """Return the answer of a partition, which holds the rows ``at`` of all, or the place of a bad entry."""
    try:
        return partition.engine.ask(query.part(at), labels)
    except NotFiniteError as error:
        return NotFinite(partition.name, error.row, error.column)


class NotFinite(NamedTuple):
    """The place of an entry that is not finite: an answer, to which the driver adds the partition's place."""

    name: str
    row: int
    column: int


def take(partition: Partition, indices: Indices) -> Block:
    """Return the rows x_i of these indices of the partition."""
    return partition.engine.take(indices)


def signs(partition: Partition, indices: Indices | None = None) -> Signs:
    """Return the labels as +1 or -1, of all rows or of some."""
    labels = partition.engine.labels
    return labels.signs if indices is None else labels.at(indices)


def sample_weight(partition: Partition) -> Array:
    """Return the sample weights; ones if this partition has none."""
    found = partition.engine.labels.sample_weight
    return found if found.size else np.ones(partition.n)
