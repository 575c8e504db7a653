"""What runs on the workers of a cluster: a partition is loaded, becomes an engine, and answers.

Every function here is pure, so a scheduler may call it again on another worker after a loss, with the
same answer bit for bit.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from prgd.core.types import Array, Codes, Indices, Signs
from prgd.rows.base import Query, Rows
from prgd.rows.labels import Labels, check_labels, check_weights, read_codes
from prgd.rows.out_of_core import DEFAULT_MEMORY, ChunkedRows
from prgd.rows.readers.columns import Columns
from prgd.rows.readers.files import check_columns, file_kind, one_label_each, open_source, read_labels
from prgd.rows.readers.libsvm import CachedCSR, parse_libsvm
from prgd.rows.readers.npy import load_npy
from prgd.rows.readers.parquet import ParquetSource, open_parquet
from prgd.rows.readers.sources import MemorySource, Source, block_source

MAX_LABELS = 50  # labels that a partition reports: more than these are no classes


@dataclass(frozen=True)
class Loaded:
    """A partition as it was found: labels of any kind, LIBSVM columns counted as in the file."""

    name: str
    source: Source | None  # None if there are no rows, or an error
    weights: Array = field(default_factory=lambda: np.empty(0))
    error: Exception | None = None  # why the partition cannot be read

    def __sizeof__(self) -> int:
        return 1000 if self.source is None else 1000 + self.source.nbytes


class Facts(NamedTuple):
    """What the driver learns of a partition: no number for each row."""

    name: str
    n: int
    d: int
    counts: Counter[Any]  # label -> its number of rows; the label is None for rows z_i
    masses: Counter[Any]  # label -> the sum of its sample weights
    has_weights: bool
    min_column: int | None = None  # the smallest index in LIBSVM text: columns may count from 0 there
    feature_names: tuple[str, ...] | None = None
    error: Exception | None = None


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of the partition before an error."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}") from error


def load_file(url: str, labels_url: str | None, columns: Columns, max_memory: int | None) -> Loaded:
    """Read a LIBSVM, Parquet or ``.npy`` file, through fsspec if the file is not local.

    With ``max_memory`` a local file stays where it is, and every pass reads it in parts. An error about the
    content is kept for the driver, which raises it: the worker would write a traceback to its log.
    """
    try:
        return _load_file(url, labels_url, columns, max_memory)
    except (ValueError, TypeError, ImportError, OSError) as error:
        return Loaded(url, None, error=error)


def _load_file(url: str, labels_url: str | None, columns: Columns, max_memory: int | None) -> Loaded:
    with _local(url) as path:
        kind, y = file_kind(path), None
        check_columns(url, kind, columns)
        if max_memory is not None and (kind == "libsvm" or not _is_local(url)):
            raise ValueError(
                f"{url}: max_memory is for .npy and .parquet files on the disks of the workers. "
                "Leave it out, and the file is loaded into memory."
            )
        if labels_url is not None:
            with _local(labels_url) as labels_path:
                y = one_label_each(read_labels(labels_path), labels_path)
        if kind == "libsvm":
            return _load_text(url, path)
        if kind == "npy" and max_memory is None:
            return read_block((load_npy(path), y), url)
        if kind == "parquet" and open_parquet(path).metadata.num_rows == 0:
            return Loaded(url, None)
        source = open_source(path, columns, max_memory or DEFAULT_MEMORY)
        source.labels = source.labels if y is None else y
        if isinstance(source, ParquetSource) and max_memory is None:
            names, source = source.feature_names, MemorySource(source.whole(), source.labels)
            source.feature_names = names
        return Loaded(url, source)


def _load_text(url: str, path: Path) -> Loaded:
    if path.stat().st_size == 0:
        return Loaded(url, None)
    # Indices stay as they are in the file: whether they count from 0 or 1 is decided over all files.
    text = parse_libsvm(path, keep_indices=True)
    return Loaded(url, MemorySource(text, text.y))


def _is_local(url: str) -> bool:
    return "://" not in url or url.startswith("file://")


@contextmanager
def _local(url: str) -> Iterator[Path]:
    """Give the path of a file, after copying the file to this worker if it lies elsewhere."""
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


def read_block(block: Any, name: str, columns: Columns | None = None) -> Loaded:
    """Take ``X``, ``(X, y)``, ``(X, y, sample_weight)``, or a data frame that holds its labels."""
    with naming(name):
        if columns is not None:
            chosen = columns.choose("the data frame", [str(c) for c in block.columns])
            y = None if chosen.label is None else block.iloc[:, chosen.label].to_numpy()
            block = (block.iloc[:, chosen.features], y)
        X, y, weights = (*block, None, None)[:3] if isinstance(block, (tuple, list)) else (block, None, None)
        if np.shape(X)[:1] == (0,):
            return Loaded(name, None)
        source = block_source(X, y)
        return Loaded(name, source, check_weights(weights, source.n))


def describe(loaded: Loaded) -> Facts:
    """Return what the driver has to know."""
    name, source, weights = loaded.name, loaded.source, loaded.weights
    nothing = Facts(name, 0, 0, Counter(), Counter(), has_weights=False, error=loaded.error)
    if source is None:
        return nothing
    try:
        with naming(name):
            counts, masses = _count_labels(source.labels, weights, source.n)
    except (ValueError, TypeError) as error:
        return nothing._replace(error=error)
    text = _text(source)
    min_column = None if text is None else int(text.indices.min(initial=1))
    return Facts(name, source.n, source.d, counts, masses, weights.size > 0, min_column, source.feature_names)


def _count_labels(y: npt.NDArray[Any] | None, weights: Array, n: int) -> tuple[Counter[Any], Counter[Any]]:
    """Return the number of rows of each label, and the sum of their sample weights."""
    if y is None:
        mass: Any = float(weights.sum()) if weights.size else float(n)
        return Counter({None: n}), Counter({None: mass})
    values, codes, counts = np.unique(check_labels(y, n), return_inverse=True, return_counts=True)
    if values.size > MAX_LABELS:
        raise ValueError(
            f"y must hold at most {MAX_LABELS} classes; got {values.size}. Is this the label column?"
        )
    masses = np.bincount(codes, weights if weights.size else None, values.size).astype(float)
    known, mass = (Counter(dict(zip(values.tolist(), c.tolist(), strict=True))) for c in (counts, masses))
    return known, mass


def build(
    loaded: Loaded,
    d: int,
    first: int,
    classes: npt.NDArray[Any] | None,
    feature_names: tuple[str, ...] | None,
    n_jobs: int,
) -> ChunkedRows:
    """Return the engine of a partition with rows, now that the classes and the columns of all are known."""
    if loaded.error is not None:  # The file was there, and a worker that loads it once more cannot read it.
        raise loaded.error
    source = _in_order(cast(Source, loaded.source), feature_names)
    if (text := _text(source)) is not None:
        # The last columns of one text file may be empty in another.
        source = MemorySource(replace(text, indices=text.indices - first, n_features=d), text.y)
    codes, _ = read_codes(source.labels, source.n, classes)
    return ChunkedRows([source], Labels.coded(codes, classes, loaded.weights), n_jobs=n_jobs)


def _in_order(source: Source, names: tuple[str, ...] | None) -> Source:
    """Return a source whose columns have the order of ``names``."""
    if names is None or source.feature_names in (None, names):
        return source
    if isinstance(source, ParquetSource):
        return source.with_order(names)
    X, own = cast(MemorySource, source).X, source.feature_names or ()
    found = MemorySource(X[:, [own.index(name) for name in names]])
    found.labels, found.feature_names = source.labels, names
    return found


def _text(source: Source) -> CachedCSR | None:
    """Return the rows of a LIBSVM file as they were parsed, None for another source."""
    return source.X if isinstance(source, MemorySource) and isinstance(source.X, CachedCSR) else None


# The driver calls the functions below on each partition.


def answer(partition: Rows, at: slice, labels: Labels | None, query: Query[Any]) -> Any:
    """Return the answer of a partition, which holds the rows ``at`` of all.

    An error about the content is an answer too, which the driver raises: a worker would write an error of a
    task to its log, with a traceback.
    """
    try:
        return partition.ask(query.part(at), labels)
    except ValueError as error:
        return error


def signs(partition: Rows, indices: Indices | None = None) -> Signs:
    """Return the labels as +1 or -1, of all rows or of some."""
    return partition.labels.signs if indices is None else partition.labels.at(indices)


def codes(partition: Rows, indices: Indices | None = None) -> Codes:
    """Return the places of the labels among the classes, of all rows or of some."""
    return partition.labels.codes if indices is None else partition.labels.codes_at(indices)


def sample_weight(partition: Rows) -> Array:
    """Return the sample weights; ones if this partition has none."""
    found = partition.labels.sample_weight
    return found if found.size else np.ones(partition.n)
