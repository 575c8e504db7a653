"""LIBSVM (svmlight) text files, parsed by blocks of lines.

A line reads ``<label> <index>:<value> ...`` with ascending indices; ``#`` starts a comment, and a ``qid:``
token is ignored.

scikit-learn's ``load_svmlight_file`` parses each block. It is not called on whole files for three reasons:
it keeps everything in memory, it does not say in which line of a broken file the fault lies, and it accepts
NaN, infinite values and ``1_0`` as numbers. So each block that it refuses, or that looks suspicious, is
parsed again line by line in Python, which names the token at fault.
"""

from __future__ import annotations

import io
import math
import os
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.core.checks import is_rounded_integer, not_exact
from prgd.core.types import Array, Indices
from prgd.rows.exact import MAX_INTEGER
from prgd.rows.readers.text import BROKEN_STREAM, COMPRESSED, open_stream

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ENDINGS = (".svm", ".libsvm", ".svmlight", ".txt")
LINE_FORM = "Lines read '<label> <index>:<value> <index>:<value> ...'."
BLOCK_BYTES = 1 << 24  # text that is parsed at a time; one line may be longer


@dataclass(frozen=True, eq=False)
class CachedCSR:
    """Rows in compressed sparse row form with their labels, in memory or memory-mapped.

    Attributes
    ----------
    data : ndarray of shape (nnz,), float64
        Non-zero values, row by row.
    indices : ndarray of shape (nnz,), int32, or int64 if int32 is too narrow
        Column of each value, from 0 on, ascending within a row.
    indptr : ndarray of shape (n + 1,), int64
        Row i holds ``data[indptr[i]:indptr[i + 1]]``.
    y : ndarray of shape (n,), float64
        Labels as found in the file.
    n_features : int
        Number of columns.
    """

    data: Array
    indices: npt.NDArray[np.signedinteger[Any]]
    indptr: Indices
    y: Array
    n_features: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.y.size, self.n_features

    def tocsr(self) -> csr_array[Any]:
        """Return the rows as a SciPy array, which shares ``data``."""
        from scipy.sparse import csr_array

        return csr_array((self.data, self.indices, self.indptr), shape=self.shape)


class Block(NamedTuple):
    """Rows of a few lines, with the indices as they are in the file; explicit zeros are left out.

    ``lowest`` and ``highest`` are the bounds of all indices, those of zeros included.
    """

    data: Array
    indices: Indices
    lengths: Indices
    y: Array
    lowest: float
    highest: int


def parse_libsvm(path: str | os.PathLike[str], *, keep_indices: bool = False) -> CachedCSR:
    r"""Parse a LIBSVM file into memory.

    Parameters
    ----------
    path : str or path
        Plain text, or compressed if the name ends in .gz, .bz2 or .xz.
    keep_indices : bool
        Keep the indices of the file as columns, also if no index 0 says that they count from 0.

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
    blocks: list[Block] = []
    first, d, dtype = parse_blocks(Path(path).expanduser(), blocks.append, keep_indices)
    data, indices, lengths, y = (np.concatenate(parts) for parts in list(zip(*blocks, strict=True))[:4])
    indptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return CachedCSR(data, (indices - first).astype(dtype), indptr, y, d)


def check_path(path: Path) -> None:
    """Raise ``FileNotFoundError`` unless there is such a file."""
    if not path.is_file():
        raise FileNotFoundError(f"Expected a LIBSVM file at {path}, found none. Check the path.")


def parse_blocks(
    path: Path, append: Callable[[Block], None], keep_indices: bool = False
) -> tuple[int, int, npt.DTypeLike]:
    """Hand each block of rows to ``append``, and return what only the whole file tells.

    These are the first index, 0 or 1, the number of columns, and a type that is wide enough for indices.
    """
    check_path(path)
    n_rows, lowest, highest = 0, math.inf, -1
    for first_line, text in _line_blocks(path):
        block = _parse_block(text, first_line, path)
        n_rows += block.y.size
        lowest, highest = min(lowest, block.lowest), max(highest, block.highest)
        append(block)
    if n_rows == 0:
        raise ValueError(
            f"{path}: expected at least one row, got an empty file or comments only. {LINE_FORM}"
        )
    if highest < 0:
        raise ValueError(f"{path}: expected at least one index:value, got labels only. {LINE_FORM}")
    first = int(lowest >= 1 and not keep_indices)
    d = highest + 1 - first
    return first, d, np.int32 if d <= np.iinfo(np.int32).max else np.int64


def _line_blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number of a first line and whole lines of about BLOCK_BYTES from there on."""
    first_line, lines, size = 1, list[bytes](), 0
    with open_stream(path) as stream:
        try:
            for line in stream:
                lines.append(line)
                size += len(line)
                if size >= BLOCK_BYTES:
                    yield first_line, b"".join(lines)
                    first_line, lines, size = first_line + len(lines), [], 0
        except BROKEN_STREAM as error:
            if path.suffix.lower() not in COMPRESSED:
                raise
            raise ValueError(
                f"{path}: expected a whole {path.suffix} stream, got one that breaks after line"
                f" {first_line - 1 + len(lines)} ({error}). Fetch or compress the file again."
            ) from error
    yield first_line, b"".join(lines)


def _parse_block(text: bytes, first_line: int, path: Path) -> Block:
    from sklearn.datasets import load_svmlight_file

    if b"#" in text:
        text = re.sub(rb"#[^\n]*", b"", text)
    try:
        X, y = load_svmlight_file(io.BytesIO(text), zero_based=True)
    except (ValueError, OverflowError):
        return _parse_lines(text, first_line, path)
    block = _build_block(X.data, X.indices, X.indptr, y)
    is_suspicious = (
        b"_" in text  # int() and float() read 1_0 as 10.
        or _has_large(X.data)
        or _has_large(y)
        or not (np.isfinite(block.data).all() and np.isfinite(y).all())
    )
    return _parse_lines(text, first_line, path) if is_suspicious else block


def _has_large(values: Array) -> bool:
    """Say whether a value may be an integer that was rounded to float64."""
    return bool(values.size) and max(float(values.max()), -float(values.min())) >= MAX_INTEGER


def _build_block(data: Array, indices: Any, indptr: Any, y: Array) -> Block:
    lowest, highest = (int(indices.min()), int(indices.max())) if indices.size else (math.inf, -1)
    keep = data != 0.0
    if not keep.all():
        indptr = np.concatenate(([0], np.cumsum(keep)))[indptr]
        data, indices = data[keep], indices[keep]
    lengths = np.diff(indptr).astype(np.int64, copy=False)
    return Block(data, indices.astype(np.int64, copy=False), lengths, y, lowest, highest)


def _parse_lines(text: bytes, first_line: int, path: Path) -> Block:
    """Parse a block in Python, to name the line and token at fault, or to read indices beyond int32."""
    values, indices, indptr, y = array("d"), array("q"), array("q", [0]), array("d")
    for number, line in enumerate(text.split(b"\n"), first_line):
        tokens = line.split()
        previous = -1
        for k, token in enumerate(tokens):
            try:
                if k == 0:
                    y.append(_label(token))
                elif not token.startswith(b"qid:"):
                    previous, value = _feature(token, previous)
                    indices.append(previous)
                    values.append(value)
            except OverflowError as error:  # the text of an integer that has no float64
                raise not_exact(f"{path}, line {number}, token {k + 1}", error) from None
            except ValueError as error:
                (expected, advice), found = error.args, token.decode(errors="replace")
                raise ValueError(
                    f"{path}, line {number}: expected {expected}, got {found!r}. {advice}"
                ) from None
        if tokens:
            indptr.append(len(values))
    return _build_block(np.array(values), np.array(indices), np.array(indptr), np.array(y))


def _bad_token(expected: str, advice: str = LINE_FORM) -> ValueError:
    return ValueError(expected, advice)


def _exact_float(text: bytes) -> float:
    """Return the float of a text; the text of an integer must have one that is equal."""
    value = float(text)
    if abs(value) >= MAX_INTEGER and is_rounded_integer(text.decode(), value):
        raise OverflowError(text.decode())
    return value


def _number(kind: Callable[[bytes], Any], text: bytes, expected: str) -> Any:
    try:
        if b"_" not in text:  # Python reads 1_0 as 10.
            return kind(text)
    except ValueError:
        pass
    raise _bad_token(expected)


def _label(token: bytes) -> float:
    label: float = _number(_exact_float, token, "a number as label")
    if not math.isfinite(label):
        raise _bad_token("a finite number as label")
    return label


def _feature(token: bytes, previous: int) -> tuple[int, float]:
    """Return the index and the value of ``index:value``."""
    left, colon, right = token.partition(b":")
    if not colon:
        raise _bad_token("index:value")
    index = _number(int, left, "an integer before the colon")
    if index < 0:
        raise _bad_token("an index of at least 0", "Indices count from 1, or from 0; none is negative.")
    if index >= np.iinfo(np.int64).max:
        raise _bad_token("an index below 2**63 - 1")
    if index <= previous:
        advice = "Sort each line by index and keep each index once."
        raise _bad_token(f"an index above {previous}, the one before it", advice)
    if not right:
        advice = "Write the value, or leave the index out if the value is 0."
        raise _bad_token("a value after the colon", advice)
    value = _number(_exact_float, right, "a number after the colon")
    if not math.isfinite(value):
        raise _bad_token("a finite float64 value after the colon", "Fill in or drop missing values.")
    return index, value
