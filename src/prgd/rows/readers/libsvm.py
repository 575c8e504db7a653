"""LIBSVM (svmlight) text files, parsed once by blocks of lines into memory or into a cache on disk.

A line reads ``<label> <index>:<value> ...`` with ascending indices; ``#`` starts a comment, and a
``qid:`` token is ignored. `parse_libsvm` keeps the arrays in memory. `cache_libsvm` writes them to
a folder while it reads, so that neither the text nor the matrix needs to fit in memory, and later
calls only map that folder: scikit-learn's reader and joblib's cache hold the whole matrix in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.files import naming_file
from prgd.rows.readers.libsvm_text import Block, CachedCSR, Options, ZeroBased, parse_blocks

_FORMAT_VERSION = 2
_ARRAYS = ("data", "indices", "indptr", "y")
_BLOCK_BYTES = 1 << 24
_COPY_COUNT = 1 << 20  # Indices are copied so many at a time.
_LEFTOVER_AGE_S = 86_400.0  # A process that is alive has written to its folder within a day.


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
        Plain text, or compressed if the name ends in .gz, .bz2 or .xz.
    n_features : int, optional
        Number of columns; by default as many as the largest index needs.
    zero_based : bool or "auto"
        Whether indices count from 0; "auto" says yes if an index 0 occurs anywhere in the file.
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
    options = Options(Path(path).expanduser(), np.dtype(dtype), zero_based, n_features, block_bytes)
    blocks: list[Block] = []
    first_index, n_features, index_dtype = parse_blocks(options, blocks.append)
    data, indices, lengths, y = (np.concatenate(parts) for parts in list(zip(*blocks, strict=True))[:4])
    indptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return CachedCSR(data, (indices - first_index).astype(index_dtype), indptr, y, n_features)


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
    process or two processes at once leave no half cache. Its checksums are compared at every call, and a
    damaged cache is made again.

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
    ...     print(rows.shape, type(rows.data).__name__)
    (2, 3) memmap
    """
    options = Options(Path(path).expanduser(), np.dtype(dtype), zero_based, n_features, block_bytes)
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
        with naming_file(folder, made):
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
        Taken as it is if given.

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


@contextmanager
def _npy_writer(path: Path, dtype: npt.DTypeLike) -> Iterator[Callable[[npt.NDArray[Any]], object]]:
    """Yield a function that appends arrays to a one-dimensional .npy file; the header comes last."""
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (0,)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        start = file.tell()
        yield lambda values: file.write(np.ascontiguousarray(values, dtype=dtype).data)
        # NumPy pads headers for growth in place, so the second header is as long as the first.
        header["shape"] = ((file.tell() - start) // np.dtype(dtype).itemsize,)
        file.seek(0)
        np.lib.format.write_array_header_1_0(file, header)
        file.flush()
        os.fsync(file.fileno())


def _identity(options: Options) -> dict[str, Any]:
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


def _write_cache(folder: Path, options: Options, identity: dict[str, Any]) -> None:
    raw_path, n_entries = folder / "indices.raw", 0
    with (
        _npy_writer(folder / "data.npy", options.dtype) as add_data,
        _npy_writer(folder / "indptr.npy", np.int64) as add_indptr,
        _npy_writer(folder / "y.npy", np.float64) as add_labels,
        raw_path.open("wb") as raw,
    ):
        add_indptr(np.zeros(1))

        def append(block: Block) -> None:
            nonlocal n_entries
            add_indptr(n_entries + np.cumsum(block.lengths))
            n_entries += block.data.size
            add_data(block.data)
            raw.write(np.ascontiguousarray(block.indices).data)
            add_labels(block.y)

        first_index, n_features, index_dtype = parse_blocks(options, append)
    # Only the whole file tells whether indices start at 0 or 1 and how wide they are.
    with raw_path.open("rb") as source, _npy_writer(folder / "indices.npy", index_dtype) as add_indices:
        while (part := np.fromfile(source, dtype=np.int64, count=_COPY_COUNT)).size:
            add_indices(part - first_index)
    raw_path.unlink()
    meta = {**identity, "n_columns": n_features, "checksums": _checksums(folder)}
    (folder / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _open_cache(folder: Path) -> CachedCSR | None:
    """Return the mapped cache, or None if there is none that is whole."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        maps: dict[str, Any] = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
        cached = CachedCSR(**maps, n_features=int(meta["n_columns"]))
        is_whole = (
            _checksums(folder) == meta["checksums"]
            and cached.indptr.size == cached.y.size + 1
            and cached.indptr[-1] == cached.data.size == cached.indices.size
        )
    except Exception:  # Whatever is wrong with a cache, the text can be parsed again.
        return None
    return cached if is_whole else None


def _checksums(folder: Path) -> dict[str, int]:
    """Return the CRC-32 of each array's file: one plain read of a cache, where a damaged number would lie."""
    return {name: _checksum(folder / f"{name}.npy") for name in _ARRAYS}


def _checksum(path: Path) -> int:
    found, buffer = 0, bytearray(_COPY_COUNT)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            found = zlib.crc32(memoryview(buffer)[:count], found)
    return found


def _publish(made: Path, folder: Path) -> CachedCSR:
    """Rename a finished cache into place; if another process was first, take its cache."""
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
    """Remove the folders that killed processes left beside this cache."""
    for leftover in folder.parent.glob(f"{folder.name}.tmp-*"):
        with suppress(OSError):
            newest = max(file.stat().st_mtime for file in (leftover, *leftover.iterdir()))
            if time.time() - newest > _LEFTOVER_AGE_S:
                shutil.rmtree(leftover, ignore_errors=True)
