"""Files of bytes, decompressed by the ending of their name and read to their last byte."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

    Parameters
    ----------
    path : Path
    decompressor : callable
        Makes the decompressor of a stream.
    padding : int
        Zeros after a stream are allowed in multiples of this; 0 if they are not.
    """

    def __init__(self, path: Path, decompressor: Callable[[], Any], padding: int = 0) -> None:
        self._file, self._make, self._padding = path.open("rb"), decompressor, padding
        self._stream, self._rest = decompressor(), b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, with at least one byte unless the last stream has ended."""
        while True:
            if self._stream.eof:
                self._rest = self._stream.unused_data or self._rest
                if not self._next_stream():
                    return 0
            if self._stream.needs_input and not self._rest:
                self._rest = self._file.read(_READ_BYTES)
                if not self._rest:
                    raise EOFError("the compressed file ends before its last stream does")
            found = self._stream.decompress(self._rest, len(buffer))
            self._rest = b""
            if found:
                buffer[: len(found)] = found
                return len(found)

    def _next_stream(self) -> bool:
        """Begin the stream after one that has ended; False if the file ends there."""
        zeros = 0
        while True:
            self._rest = self._rest or self._file.read(_READ_BYTES)
            left = self._rest.lstrip(b"\0") if self._padding else self._rest
            zeros += len(self._rest) - len(left)
            at_end, self._rest = not self._rest, left
            if at_end or left:
                break
        if zeros and zeros % self._padding:
            raise OSError(f"{zeros} zeros after a stream, which is no multiple of {self._padding}")
        if at_end:
            return False
        self._stream = self._make()
        return True
