"""LIBSVM text: blocks of whole lines, parsed at C speed, with the culprit named where one fails."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ZeroBased = bool | Literal["auto"]

ENDINGS = (".svm", ".libsvm", ".svmlight", ".txt")
COMPRESSED = (".gz", ".bz2", ".xz")  # These may follow the ending of a text file.
BROKEN_STREAM = (EOFError, OSError, zlib.error, lzma.LZMAError)

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
class Options:
    """How to read a file: its path, the type of its values, and how its columns are counted."""

    path: Path
    dtype: np.dtype[Any]
    zero_based: ZeroBased
    n_features: int | None
    block_bytes: int


class Block(NamedTuple):
    """Rows of a few lines, with the indices as written in the file."""

    data: npt.NDArray[np.floating[Any]]
    indices: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    y: npt.NDArray[np.float64]
    lowest: int | None
    highest: int | None


class Outcome(NamedTuple):
    """What only the whole file tells."""

    first_index: int
    n_features: int
    index_dtype: npt.DTypeLike


def check_options(
    path: str | os.PathLike[str],
    dtype: npt.DTypeLike,
    zero_based: ZeroBased,
    n_features: int | None,
    block_bytes: int,
) -> Options:
    """Return the options when they make sense and the file is there."""
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
    return Options(file, kind, zero_based, n_features, block_bytes)


def parse_blocks(options: Options, append: Callable[[Block], None]) -> Outcome:
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
    return Outcome(int(one_based), n_features, np.int32 if narrow else np.int64)


def _line_blocks(options: Options) -> Iterator[tuple[int, bytes]]:
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


def _parse_block(text: bytes, first_line: int, options: Options) -> Block:
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
    options: Options,
) -> Block:
    lowest, highest = (int(indices.min()), int(indices.max())) if indices.size else (None, None)
    with np.errstate(over="ignore", under="ignore"):
        data = values.astype(options.dtype, copy=False)
    keep = data != 0.0
    if not keep.all():
        indptr = np.concatenate(([0], np.cumsum(keep)))[indptr]
        data, indices = data[keep], indices[keep]
    lengths = np.diff(indptr).astype(np.int64, copy=False)
    return Block(data, indices.astype(np.int64, copy=False), lengths, y, lowest, highest)


def _parse_lines(text: bytes, first_line: int, options: Options) -> Block:
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


def _feature(token: bytes, previous: int, options: Options) -> tuple[int, float]:
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
