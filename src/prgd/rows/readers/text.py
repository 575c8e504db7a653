"""Text files: bytes decompressed by the ending of the name, and labels and numbers as text has them."""

import bz2
import gzip
import io
import lzma
import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.checks import is_rounded_integer
from prgd.rows.exact import as_float

LabelArray = npt.NDArray[np.float64] | npt.NDArray[np.integer[Any]] | npt.NDArray[np.str_]
COMPRESSED = (".gz", ".bz2", ".xz")  # These may follow the ending of a text file.
BROKEN_STREAM = (EOFError, OSError, zlib.error, lzma.LZMAError)
_READ_BYTES = 2**17  # compressed bytes that are read at a time


def compression(content: bytes) -> str | None:
    """Return the ending of the compression that the first bytes show; None for other content.

    Examples
    --------
    >>> compression(gzip.compress(b"1,2")), compression(b"1,2")
    ('.gz', None)
    """
    starts = {".gz": rb"\x1f\x8b", ".bz2": rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", ".xz": rb"\xfd7zXZ\x00"}
    return next((ending for ending, start in starts.items() if re.match(start, content)), None)


def open_stream(path: Path) -> Any:
    """Open a file for reading bytes; it is decompressed if its name ends in .gz, .bz2 or .xz."""
    ending = path.suffix.lower()
    if ending == ".gz":
        return gzip.GzipFile(path, "rb")  # It refuses what follows the last member, zeros excepted.
    if ending == ".bz2":
        return io.BufferedReader(_Streams(path, bz2.BZ2Decompressor), _READ_BYTES)
    if ending == ".xz":
        reader = _Streams(path, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), padding=4)
        return io.BufferedReader(reader, _READ_BYTES)
    return path.open("rb")


class _Streams(io.RawIOBase):
    """The streams of a .bz2 or .xz file, one after the other, until its last byte.

    `bz2.BZ2File` and `lzma.LZMAFile` take bytes after the first stream that are no stream for padding and
    stop there, so a flipped bit in the header of the second stream would cut the file without an error.
    Zeros after a stream are allowed in multiples of ``padding``.
    """

    def __init__(self, path: Path, decompressor: Callable[[], Any], padding: int = 0) -> None:
        self._file = path.open("rb")
        self._parts = self._decompressed(decompressor, padding)
        self._left = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, with at least one byte unless the last stream has ended."""
        while not self._left and (part := next(self._parts, None)) is not None:
            self._left = part
        found, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(found)] = found
        return len(found)

    def _decompressed(self, decompressor: Callable[[], Any], padding: int) -> Iterator[bytes]:
        rest, stream = b"", decompressor()
        while True:
            while not stream.eof:
                if stream.needs_input and not (rest := rest or self._file.read(_READ_BYTES)):
                    raise EOFError("the compressed file ends before its last stream does")
                yield stream.decompress(rest, _READ_BYTES)
                rest = b""
            rest, zeros = stream.unused_data or self._file.read(_READ_BYTES), 0
            while padding and rest and not (left := rest.lstrip(b"\0")):
                zeros, rest = zeros + len(rest), self._file.read(_READ_BYTES)
            if padding and rest:
                zeros, rest = zeros + len(rest) - len(left), left
            if zeros and zeros % padding:
                raise OSError(f"{zeros} zeros after a stream, which is no multiple of {padding}")
            if not rest:
                return
            stream = decompressor()


# Labels are numbers if all of them are, else text.


def text_labels(labels: Sequence[str]) -> LabelArray:
    """Return labels as float64 if all are numbers that float64 can hold, else as text."""
    numbers = np.array([_number(text) for text in labels])
    return numbers if np.isfinite(numbers).all() else np.array(labels)


def as_labels(y: npt.NDArray[Any], file: Path) -> LabelArray:
    """Return labels as strings, finite float64, or integers as they are if float64 cannot hold them."""
    if y.dtype.kind == "S":
        return np.char.decode(y, "utf-8")
    if y.dtype.kind == "U":
        return y
    if y.dtype.kind not in "biuf":
        raise ValueError(f"{file}: expected labels as numbers or strings, got {y.dtype}.")
    try:
        labels = as_float(y, f"{file}: y").astype(np.float64)
    except ValueError:
        if y.dtype.kind not in "iu":
            raise
        return y
    if not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels.ravel()))[0])
        raise ValueError(
            f"{file}, row {row}: expected a finite label, got {labels.ravel()[row]}."
            " Fill in or drop rows without one."
        )
    return labels


def is_number(cell: str) -> bool:
    """Say whether a cell of text is a number, NaN and infinity included."""
    try:
        check_spelling(cell)
        float(cell)
    except ValueError:
        return False
    return True


def check_spelling(text: str) -> None:
    """Raise ``ValueError`` for what Python alone takes for a number: 1_0, and digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError("not a number")


def _number(label: str) -> float:
    """Return a label as a number, NaN if it is none or has no float64: labels stay text then."""
    value = float(label) if is_number(label) else math.nan
    return math.nan if is_rounded_integer(label, value) else value
