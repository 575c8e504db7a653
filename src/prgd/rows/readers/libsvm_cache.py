"""LIBSVM text that is parsed once into a binary file, so that neither need fit in memory."""

import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from prgd.core.files import atomic_write, naming_file
from prgd.core.types import Indices
from prgd.rows.readers.libsvm import Block, CachedCSR, check_path, parse_blocks

_CACHE_VERSION = 3
_HEADER_BYTES = 4096  # the arrays of a cache begin after its header, each at a multiple of 8 bytes
_COPY_COUNT = 1 << 20  # numbers that are copied into a cache at a time


def cache_libsvm(path: str | os.PathLike[str], cache_dir: str | os.PathLike[str] | None = None) -> CachedCSR:
    r"""Parse a LIBSVM file once into a binary cache, and memory-map that cache read-only.

    The cache is keyed by the file's path, size and modification time, and appears in one atomic rename: a
    killed process or two processes at once leave no half cache. Its checksum is compared at every call, and a
    damaged cache is made again.

    Parameters
    ----------
    path : str or path
        As for `parse_libsvm`.
    cache_dir : str or path, optional
        Where caches are kept; by default the folder that `cache_folder` names.

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
    ...     print(rows.shape, type(rows.data).__name__)
    (2, 3) memmap
    """
    text = Path(path).expanduser()
    check_path(text)
    key = _key(text)
    cache = cache_folder(cache_dir) / f"libsvm-{key}.bin"
    found = _open_cache(cache)
    if found is None:
        cache.parent.mkdir(parents=True, exist_ok=True)
        _write_cache(cache, text, key)
        found = _open_cache(cache)
    if found is None:
        raise ValueError(f"{cache}: the cache of {text} cannot be read back. Choose another folder for it.")
    return found


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return where caches are kept: ``cache_dir``, else $PRGD_CACHE, else the user's cache folder.

    The user's cache folder is $XDG_CACHE_HOME/prgd, else ~/.cache/prgd. It is not created here.

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


def _key(text: Path) -> str:
    """Return a hash of the path, size and time of a file."""
    source = text.resolve()
    stat = source.stat()
    identity = [_CACHE_VERSION, str(source), stat.st_size, stat.st_mtime_ns]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def _write_cache(cache: Path, text: Path, key: str) -> None:
    """Parse a file into temporary files, and copy these into the cache, after a header."""
    with ExitStack() as stack:
        stack.enter_context(naming_file(cache, cache))
        columns = [stack.enter_context(TemporaryFile(dir=cache.parent)) for _ in range(4)]

        def append(block: Block) -> None:
            for file, values in zip(columns, block[:4], strict=True):
                file.write(np.ascontiguousarray(values).data)

        # Only the whole file tells whether indices start at 0 or 1 and how wide they are.
        first, d, dtype = parse_blocks(text, append)
        out = stack.enter_context(atomic_write(cache))
        out.write(bytes(_HEADER_BYTES))
        data, indices, lengths, y = columns
        header: dict[str, Any] = {"n_columns": d, "arrays": {}, "checksum": 0}

        def copy(name: str, kind: npt.DTypeLike, parts: Iterator[npt.NDArray[Any]]) -> None:
            start = out.tell()
            for part in parts:
                content = np.ascontiguousarray(part, dtype=kind).data
                header["checksum"] = zlib.crc32(content, header["checksum"])
                out.write(content)
            count = (out.tell() - start) // np.dtype(kind).itemsize
            header["arrays"][name] = [np.dtype(kind).str, start, count]
            out.write(bytes(-out.tell() % 8))

        copy("data", np.float64, _parts(data, np.float64))
        copy("indices", dtype, (part - first for part in _parts(indices, np.int64)))
        copy("indptr", np.int64, _running_sums(_parts(lengths, np.int64)))
        copy("y", np.float64, _parts(y, np.float64))
        header["checksum"] = _with_header(header, header["checksum"])
        out.seek(0)
        out.write(json.dumps(header).encode())
        if _key(text) != key:
            raise ValueError(
                f"{text}: expected a file at rest, got one that changed while it was read."
                " Call again once it is written."
            )


def _with_header(header: dict[str, Any], checksum: int) -> int:
    """Return the checksum of the arrays and of what the header says of them."""
    return zlib.crc32(json.dumps([header["n_columns"], header["arrays"]]).encode(), checksum)


def _parts(file: IO[bytes], dtype: npt.DTypeLike) -> Iterator[npt.NDArray[Any]]:
    file.seek(0)
    while (part := np.fromfile(file, dtype, _COPY_COUNT)).size:
        yield part


def _running_sums(parts: Iterator[Indices]) -> Iterator[Indices]:
    total = np.zeros(1, np.int64)
    yield total
    for part in parts:
        sums = total + np.cumsum(part)
        yield sums
        total = sums[-1:]


def _open_cache(cache: Path) -> CachedCSR | None:
    """Return the mapped cache, or None if there is none that is whole."""
    try:
        with cache.open("rb") as file:
            header = json.loads(file.read(_HEADER_BYTES).rstrip(b"\0"))
        maps: dict[str, Any] = {
            name: np.memmap(cache, kind, "r", start, (count,)) if count else np.empty(0, kind)
            for name, (kind, start, count) in header["arrays"].items()
        }
        found, checksum = CachedCSR(**maps, n_features=header["n_columns"]), 0
        for name in ("data", "indices", "indptr", "y"):
            for start in range(0, maps[name].size, _COPY_COUNT):
                checksum = zlib.crc32(maps[name][start : start + _COPY_COUNT].data, checksum)
        is_whole = _with_header(header, checksum) == header["checksum"]
    except Exception:  # Whatever is wrong with a cache, the text can be parsed again.
        return None
    return found if is_whole else None
