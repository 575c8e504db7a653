"""LIBSVM (svmlight) text files: parsed once, by blocks of lines, then only memory-mapped.

A line reads ``<label> <index>:<value> ...`` with ascending indices; ``#`` starts a comment, and a
``qid:`` token is ignored. `parse_libsvm` keeps the arrays in memory. `cache_libsvm` writes them to
a folder while it reads, so that neither the text nor the matrix needs to fit in memory.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import math
import os
import re
import shutil
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ZeroBased = bool | Literal["auto"]

COMPRESSED = (".gz", ".bz2", ".xz")
BROKEN_STREAM = (EOFError, OSError, zlib.error, lzma.LZMAError)

_FORMAT_VERSION = 1
_ARRAYS = ("data", "indices", "indptr", "y")
_BLOCK_BYTES = 1 << 24
_COPY_COUNT = 1 << 20
_LEFTOVER_AGE_S = 86_400.0
_LINE_FORM = "Lines read '<label> <index>:<value> <index>:<value> ...'."


@dataclass(frozen=True, eq=False)
class CachedCSR:
    """Rows in compressed sparse row form with their labels, in memory or memory-mapped.

    Attributes
    ----------
    data : ndarray of shape (nnz,), float64 or float32
        Non-zero values, row by row.
    indices : ndarray of shape (nnz,), int32, or int64 where int32 is too narrow
        Column of each value, from 0 on, ascending within a row.
    indptr : ndarray of shape (n + 1,), int64
        Row i holds ``data[indptr[i]:indptr[i + 1]]``.
    y : ndarray of shape (n,), float64
        Labels as found in the file.
    n_features : int
        Number of columns.
    """

    data: npt.NDArray[np.floating[Any]]
    indices: npt.NDArray[np.signedinteger[Any]]
    indptr: npt.NDArray[np.int64]
    y: npt.NDArray[np.float64]
    n_features: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.y.size, self.n_features

    def tocsr(self) -> csr_array[Any]:
        """Return the rows as a SciPy array, which shares ``data``."""
        from scipy.sparse import csr_array

        return csr_array((self.data, self.indices, self.indptr), shape=self.shape)


def parse_libsvm(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    dtype: npt.DTypeLike = "float64",
    block_bytes: int = _BLOCK_BYTES,
) -> CachedCSR:
    r"""Parse a LIBSVM file into memory.

    Parameters
    ----------
    path : str or path
        Plain text, or compressed when the name ends in .gz, .bz2 or .xz.
    n_features : int, optional
        Number of columns; by default as many as the largest index needs.
    zero_based : bool or "auto"
        Whether indices count from 0; "auto" says yes when an index 0 occurs anywhere in the file.
    dtype : float64 or float32
        Type of the values.
    block_bytes : int
        Text parsed at a time; one line may be longer.

    Returns
    -------
    CachedCSR
        Explicit zeros are left out, though their indices count towards ``n_features``.

    Raises
    ------
    ValueError
        With file, line and token, for a line that is not of the form above; with the last good
        line, for a broken compressed stream; for a file without rows.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.svm"
    ...     _ = path.write_text("+1 1:0.5 3:2  # a comment\n-1 2:4\n")
    ...     rows = parse_libsvm(path)
    >>> rows.shape, rows.indices.tolist(), rows.y.tolist()
    ((2, 3), [0, 2, 1], [1.0, -1.0])
    """
    options = _check_options(path, dtype, zero_based, n_features, block_bytes)
    blocks: list[_Block] = []
    outcome = _parse(options, blocks.append)
    lengths = np.concatenate([block.lengths for block in blocks])
    indices = np.concatenate([block.indices for block in blocks])
    return CachedCSR(
        data=np.concatenate([block.data for block in blocks]),
        indices=(indices - outcome.first_index).astype(outcome.index_dtype),
        indptr=np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))),
        y=np.concatenate([block.y for block in blocks]),
        n_features=outcome.n_features,
    )


def cache_libsvm(
    path: str | os.PathLike[str],
    cache_dir: str | os.PathLike[str] | None = None,
    *,
    dtype: npt.DTypeLike = "float64",
    zero_based: ZeroBased = "auto",
    n_features: int | None = None,
    block_bytes: int = _BLOCK_BYTES,
) -> CachedCSR:
    r"""Parse a LIBSVM file once into a binary cache, and memory-map that cache read-only.

    Memory stays bounded by a multiple of ``block_bytes``. The cache is keyed by the file's path,
    size and modification time and by the options, and appears in one atomic rename: a killed
    process or two processes at once leave no half cache. A damaged cache is made again.

    Parameters
    ----------
    path : str or path
        As for `parse_libsvm`.
    cache_dir : str or path, optional
        Where caches are kept; by default the folder that `cache_folder` names.
    dtype, zero_based, n_features, block_bytes
        As for `parse_libsvm`.

    Returns
    -------
    CachedCSR
        Its arrays are read-only memory maps.

    Raises
    ------
    ValueError
        As for `parse_libsvm`, and when the file changes while it is read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.svm"
    ...     _ = path.write_text("+1 1:0.5 3:2\n-1 2:4\n")
    ...     rows = cache_libsvm(path, folder)
    ...     print(rows.shape, rows.data.flags.writeable)
    (2, 3) False
    """
    options = _check_options(path, dtype, zero_based, n_features, block_bytes)
    identity = _identity(options)
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]
    folder = cache_folder(cache_dir) / f"libsvm-{digest}"
    cached = _open_cache(folder)
    if cached is not None:
        return cached
    _drop_leftovers(folder)
    made = _sibling(folder)
    made.mkdir(parents=True)
    try:
        _write_cache(made, options, identity)
        if _identity(options) != identity:
            raise ValueError(
                f"{options.path}: expected a file at rest, got one that changed while it was read."
                " Call again once it is written."
            )
        return _publish(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return where caches are kept: ``cache_dir``, else $PRGD_CACHE, else the user's cache folder.

    Parameters
    ----------
    cache_dir : str or path, optional
        Taken as it is when given.

    Returns
    -------
    Path
        Not created here. The user's cache folder is $XDG_CACHE_HOME/prgd, else ~/.cache/prgd.

    Examples
    --------
    >>> cache_folder("here").name
    'here'
    """
    chosen = cache_dir or os.environ.get("PRGD_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "prgd"


def open_stream(path: Path) -> gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile | io.BufferedReader:
    """Open a file for reading bytes, decompressed when its name ends in .gz, .bz2 or .xz."""
    match path.suffix.lower():
        case ".gz":
            return gzip.GzipFile(path, "rb")
        case ".bz2":
            return bz2.BZ2File(path, "rb")
        case ".xz":
            return lzma.LZMAFile(path, "rb")
        case _:
            return path.open("rb")


# Parsing, shared by both functions


@dataclass(frozen=True)
class _Options:
    path: Path
    dtype: np.dtype[Any]
    zero_based: ZeroBased
    n_features: int | None
    block_bytes: int


class _Block(NamedTuple):
    """Rows of a few lines, with the indices as written in the file."""

    data: npt.NDArray[np.floating[Any]]
    indices: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    y: npt.NDArray[np.float64]
    lowest: int | None
    highest: int | None


class _Outcome(NamedTuple):
    """What only the whole file tells."""

    first_index: int
    n_features: int
    index_dtype: npt.DTypeLike


def _check_options(
    path: str | os.PathLike[str],
    dtype: npt.DTypeLike,
    zero_based: ZeroBased,
    n_features: int | None,
    block_bytes: int,
) -> _Options:
    file, kind = Path(path).expanduser(), np.dtype(dtype)
    if not file.is_file():
        raise FileNotFoundError(f"Expected a LIBSVM file at {file}, found none. Check the path.")
    if kind not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype must be float64 or float32; got {kind}.")
    if zero_based not in (True, False, "auto"):
        raise ValueError(f"zero_based must be True, False or 'auto'; got {zero_based!r}.")
    if n_features is not None and n_features < 1:
        raise ValueError(f"n_features must be at least 1, or None; got {n_features}.")
    if block_bytes < 1:
        raise ValueError(f"block_bytes must be at least 1; got {block_bytes}.")
    return _Options(file, kind, zero_based, n_features, block_bytes)


def _parse(options: _Options, append: Callable[[_Block], None]) -> _Outcome:
    """Hand each block of rows to ``append``, then say how its indices are to be read."""
    n_rows, lowest, highest = 0, math.inf, -1
    for first_line, text in _line_blocks(options):
        block = _parse_block(text, first_line, options)
        n_rows += block.y.size
        if block.lowest is not None and block.highest is not None:
            lowest, highest = min(lowest, block.lowest), max(highest, block.highest)
        append(block)
    if n_rows == 0:
        raise ValueError(
            f"{options.path}: expected at least one row, got an empty file or comments only. {_LINE_FORM}"
        )
    if highest < 0 and options.n_features is None:
        raise ValueError(
            f"{options.path}: expected at least one index:value, got labels only."
            " Pass n_features if every row is meant to be zero."
        )
    one_based = lowest >= 1 if options.zero_based == "auto" else not options.zero_based
    needed = highest + 1 - one_based
    n_features = needed if options.n_features is None else options.n_features
    if n_features < needed:
        raise ValueError(
            f"{options.path}: expected indices that fit n_features={n_features}, got index"
            f" {highest} counted from {int(one_based)}. Pass n_features={needed} or more, or None."
        )
    narrow = n_features <= np.iinfo(np.int32).max
    return _Outcome(int(one_based), n_features, np.int32 if narrow else np.int64)


def _line_blocks(options: _Options) -> Iterator[tuple[int, bytes]]:
    """Yield the number of a first line and whole lines of about ``block_bytes`` from there on."""
    path, first_line = options.path, 1
    parts: list[bytes] = []
    size = 0
    with open_stream(path) as stream:
        while True:
            try:
                # read1 hands over each decompressed piece, so what precedes a break is not lost
                piece = stream.read1(options.block_bytes)
            except BROKEN_STREAM as error:
                if path.suffix.lower() not in COMPRESSED:
                    raise
                last = first_line - 1 + sum(part.count(b"\n") for part in parts)
                raise ValueError(
                    f"{path}: expected a whole {path.suffix} stream, got one that breaks after line"
                    f" {last} ({error}). Fetch or compress the file again."
                ) from error
            parts.append(piece)
            size += len(piece)
            if not piece:
                break
            if size >= options.block_bytes and b"\n" in piece:
                text, _, rest = b"".join(parts).rpartition(b"\n")
                yield first_line, text
                first_line += text.count(b"\n") + 1
                parts, size = [rest], len(rest)
    yield first_line, b"".join(parts)


def _parse_block(text: bytes, first_line: int, options: _Options) -> _Block:
    from sklearn.datasets import load_svmlight_file

    if b"#" in text:
        text = re.sub(rb"#[^\n]*", b"", text)
    try:
        X, y = load_svmlight_file(io.BytesIO(text), zero_based=True)
    except (ValueError, OverflowError):
        return _parse_lines(text, first_line, options)
    block = _build_block(X.data, X.indices, X.indptr, y, options)
    is_suspicious = (
        b"_" in text  # int() and float() read 1_0 as 10
        or not np.isfinite(block.data).all()
        or not np.isfinite(y).all()
        or (options.zero_based is False and block.lowest == 0)
    )
    return _parse_lines(text, first_line, options) if is_suspicious else block


def _build_block(
    values: npt.NDArray[np.float64],
    indices: npt.NDArray[np.signedinteger[Any]],
    indptr: npt.NDArray[np.signedinteger[Any]],
    y: npt.NDArray[np.float64],
    options: _Options,
) -> _Block:
    lowest, highest = (int(indices.min()), int(indices.max())) if indices.size else (None, None)
    with np.errstate(over="ignore", under="ignore"):
        data = values.astype(options.dtype, copy=False)
    keep = data != 0.0
    if not keep.all():
        indptr = np.concatenate(([0], np.cumsum(keep)))[indptr]
        data, indices = data[keep], indices[keep]
    lengths = np.diff(indptr).astype(np.int64, copy=False)
    return _Block(data, indices.astype(np.int64, copy=False), lengths, y, lowest, highest)


def _parse_lines(text: bytes, first_line: int, options: _Options) -> _Block:
    """Parse in plain Python, to name the line and token at fault, or to take what is unusual."""
    values: list[float] = []
    indices: list[int] = []
    indptr, y = [0], []
    for number, line in enumerate(text.split(b"\n"), first_line):
        tokens = line.split()
        if not tokens:
            continue
        try:
            y.append(_label(tokens[0]))
            previous = -1
            for token in tokens[1:]:
                if token.startswith(b"qid:"):
                    continue
                index, value = _feature(token, previous, options)
                indices.append(index)
                values.append(value)
                previous = index
        except _BadTokenError as error:
            found = error.token.decode(errors="replace")
            raise ValueError(
                f"{options.path}, line {number}: expected {error.expected}, got {found!r}. {error.advice}"
            ) from None
        indptr.append(len(values))
    return _build_block(
        np.array(values, dtype=np.float64),
        np.array(indices, dtype=np.int64),
        np.array(indptr),
        np.array(y, dtype=np.float64),
        options,
    )


class _BadTokenError(Exception):
    def __init__(self, token: bytes, expected: str, advice: str = _LINE_FORM) -> None:
        super().__init__(token, expected, advice)
        self.token, self.expected, self.advice = token, expected, advice


def _label(token: bytes) -> float:
    try:
        label = float(token)
    except ValueError:
        raise _BadTokenError(token, "a number as label") from None
    if b"_" in token or not math.isfinite(label):
        raise _BadTokenError(token, "a finite number as label")
    return label


def _feature(token: bytes, previous: int, options: _Options) -> tuple[int, float]:
    left, colon, right = token.partition(b":")
    if not colon:
        raise _BadTokenError(token, "index:value")
    try:
        index = int(left)
    except ValueError:
        raise _BadTokenError(token, "a whole number before the colon") from None
    if b"_" in left:
        raise _BadTokenError(token, "a whole number before the colon")
    first = int(options.zero_based is False)
    if index < first:
        advice = "Pass zero_based=True or 'auto' if indices count from 0; none is negative."
        raise _BadTokenError(token, f"an index of at least {first}", advice)
    if index >= np.iinfo(np.int64).max:
        raise _BadTokenError(token, "an index below 2**63 - 1")
    if index <= previous:
        advice = "Sort each line by index and keep each index once."
        raise _BadTokenError(token, f"an index above {previous}, the one before it", advice)
    if not right:
        advice = "Write the value, or leave the index out where the value is 0."
        raise _BadTokenError(token, "a value after the colon", advice)
    try:
        value = float(right)
    except ValueError:
        raise _BadTokenError(token, "a number after the colon") from None
    if b"_" in right:
        raise _BadTokenError(token, "a number after the colon")
    if not abs(value) <= float(np.finfo(options.dtype).max):
        advice = "Fill in or drop missing values; pass dtype='float64' for numbers past 3e38."
        raise _BadTokenError(token, f"a finite {options.dtype} value after the colon", advice)
    return index, value


# The cache folder


class _NpyWriter:
    """A one-dimensional .npy file that grows by blocks; its header is settled when it closes."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.size = 0
        self.file = path.open("wb")
        self._write_header()

    def __enter__(self) -> _NpyWriter:
        return self

    def __exit__(self, *error: object) -> None:
        with self.file:
            # NumPy pads headers for growth in place, so the second one is as long as the first
            self.file.seek(0)
            self._write_header()
            self.file.flush()
            os.fsync(self.file.fileno())

    def _write_header(self) -> None:
        descr = np.lib.format.dtype_to_descr(self.dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self.size,)}
        np.lib.format.write_array_header_1_0(self.file, header)

    def append(self, values: npt.NDArray[Any]) -> None:
        self.file.write(np.ascontiguousarray(values, dtype=self.dtype).data)
        self.size += values.size


def _identity(options: _Options) -> dict[str, Any]:
    source = options.path.resolve()
    stat = source.stat()
    return {
        "format": _FORMAT_VERSION,
        "source": str(source),
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "dtype": str(options.dtype),
        "zero_based": options.zero_based,
        "n_features": options.n_features,
    }


def _write_cache(folder: Path, options: _Options, identity: dict[str, Any]) -> None:
    raw_path = folder / "indices.raw"
    with ExitStack() as stack:
        data = stack.enter_context(_NpyWriter(folder / "data.npy", options.dtype))
        indptr = stack.enter_context(_NpyWriter(folder / "indptr.npy", np.int64))
        labels = stack.enter_context(_NpyWriter(folder / "y.npy", np.float64))
        raw = stack.enter_context(raw_path.open("wb"))
        indptr.append(np.zeros(1, dtype=np.int64))

        def append(block: _Block) -> None:
            indptr.append(data.size + np.cumsum(block.lengths))
            data.append(block.data)
            raw.write(np.ascontiguousarray(block.indices).data)
            labels.append(block.y)

        outcome = _parse(options, append)
    # only the whole file tells where indices start and how wide they are
    with (
        raw_path.open("rb") as source,
        _NpyWriter(folder / "indices.npy", outcome.index_dtype) as indices,
    ):
        while (part := np.fromfile(source, dtype=np.int64, count=_COPY_COUNT)).size:
            indices.append(part - outcome.first_index)
    raw_path.unlink()
    sizes = {name: (folder / f"{name}.npy").stat().st_size for name in _ARRAYS}
    meta = {**identity, "n_columns": outcome.n_features, "bytes": sizes}
    (folder / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _open_cache(folder: Path) -> CachedCSR | None:
    """Map a cache, or return None where there is none that is whole."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        sizes = {name: (folder / f"{name}.npy").stat().st_size for name in _ARRAYS}
        maps: dict[str, Any] = {
            name: np.lib.format.open_memmap(folder / f"{name}.npy", mode="r") for name in _ARRAYS
        }
        cached = CachedCSR(**maps, n_features=int(meta["n_columns"]))
        is_whole = (
            sizes == meta["bytes"]
            and cached.indptr.size == cached.y.size + 1
            and cached.indptr[-1] == cached.data.size == cached.indices.size
        )
    except Exception:  # whatever is wrong with a cache, the text is there to be parsed again
        return None
    return cached if is_whole else None


def _publish(made: Path, folder: Path) -> CachedCSR:
    """Rename a finished cache into place; where another process was first, take that one."""
    while True:
        try:
            made.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        cached = _open_cache(folder)
        if cached is not None:
            return cached
        damaged = _sibling(folder)
        with suppress(FileNotFoundError):
            folder.rename(damaged)
        shutil.rmtree(damaged, ignore_errors=True)


def _sibling(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.tmp-{uuid.uuid4().hex}")


def _drop_leftovers(folder: Path) -> None:
    """Remove what killed processes left of this cache; a live one has written within the day."""
    for leftover in folder.parent.glob(f"{folder.name}.tmp-*"):
        with suppress(OSError):
            newest = max(file.stat().st_mtime for file in (leftover, *leftover.iterdir()))
            if time.time() - newest > _LEFTOVER_AGE_S:
                shutil.rmtree(leftover, ignore_errors=True)
