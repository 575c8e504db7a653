"""Files that are written whole or not at all, when to save them, and archives that are read to their end."""

import glob
import json
import os
import re
import secrets
import struct
import time
import zipfile
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from prgd.core.checks import digest
from prgd.core.threads import physical_memory

_ABANDONED = 3600.0  # seconds without a write after which a temporary file is taken for a leftover


class OtherFileError(ValueError):
    """A whole file of another kind than was expected: to fetch or make it again would not help."""


@contextmanager
def whole_file(path: str | Path, kind: str, advice: str) -> Iterator[None]:
    """Say in one sentence that a file is damaged, or of another kind; that it cannot be read passes."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, PermissionError):  # these say nothing of the content
        raise
    except OtherFileError as error:
        raise OtherFileError(f"{path}: {error}") from None
    except Exception as error:  # a damaged zip raises many kinds of error, some of many sentences
        why = re.split(r"\.\s|\.?$|\n", str(error), maxsplit=1)[0] or type(error).__name__
        raise ValueError(f"{path}: not a whole {kind} ({why}). {advice}, or take an older copy.") from error


@contextmanager
def atomic_write(path: str | Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Give a file to write to; it replaces ``path`` when the block ends without an error.

    The content is on the disk before the name changes, so that a crash of the machine too leaves a whole
    file, the old one or the new one. Threads and processes may write to one path at once: the last one to end
    has its file there. An error in writing has the path in its message.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with atomic_write(path, "w") as file:
    ...     _ = file.write("1 2 3")
    >>> path.read_text()
    '1 2 3'
    """
    path = Path(path)
    # Every write has a name of its own, and "x" refuses one that is taken. A plain open, not mkstemp, gives
    # the file the permissions of the user's umask.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with naming_file(path, temporary):
            with temporary.open(mode.replace("w", "x"), **text) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            with suppress(OSError):  # There is no old file, or the folder's file system has no permissions.
                temporary.chmod(path.stat().st_mode & 0o777)
            temporary.replace(path)
            _remove_leftovers(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_npz(path: str | Path, wanted: Container[str] | None = None) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an ``.npz`` archive, all or those of ``wanted`` names; no pickle is read.

    Every member is read to its end, where its checksum is compared: `numpy.load` stops after as many numbers
    as the header of the array announces, so a damaged header would cut an array without an error.

    Raises
    ------
    Exception
        Of many kinds, for an archive that is not whole: the caller says what to do.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    with Path(path).open("rb") as file, zipfile.ZipFile(file) as archive:
        _check_gaps(file, archive)
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name in found:
                raise ValueError(f"two arrays called {name}")
            if wanted is not None and name not in wanted:
                continue
            if member.file_size > physical_memory():
                raise ValueError(f"{name} unpacks to {member.file_size:,} bytes, more than this machine has")
            with archive.open(member) as opened:
                found[name] = np.lib.format.read_array(opened, allow_pickle=False)
                if opened.read(1):
                    raise ValueError(f"more numbers in {name} than its header announces")
    return found


def write_saved(path: str | Path, arrays: dict[str, Any]) -> None:
    """Write arrays, of which ``meta`` is JSON, and their digest to an archive, whole or not at all."""
    members = {"digest": np.array(digest(sorted(arrays.items())))} | arrays
    # On a full disk numpy.savez of NumPy 1.26 leaves an archive open, which fails again when it is collected.
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def read_saved(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the meta data and all arrays of a file that `write_saved` wrote and nobody changed since.

    Raises
    ------
    OtherFileError
        If the archive is of another kind.
    Exception
        Of many kinds, for an archive that is not whole: the caller says what to do.
    """
    arrays = read_npz(path)
    if "meta" not in arrays:
        raise OtherFileError("expected a file that prgd saved, got an archive of other arrays.")
    if str(arrays.pop("digest", "")) != digest(sorted(arrays.items())):
        raise ValueError("its digest is missing, or that of other contents")
    return json.loads(str(arrays["meta"])), arrays


def _check_gaps(file: IO[bytes], archive: zipfile.ZipFile) -> None:
    """Raise ``ValueError`` if bytes belong to no member: a damaged directory would lose an array silently."""
    end = 0
    for member in sorted(archive.infolist(), key=lambda member: member.header_offset):
        _check_gap(end, member.header_offset)
        file.seek(member.header_offset + 26)
        lengths = struct.unpack("<HH", file.read(4))  # lengths of the name and of the extra field
        end = member.header_offset + 30 + sum(lengths) + member.compress_size
    _check_gap(end, archive.start_dir)


def _check_gap(end: int, start: int) -> None:
    if not 0 <= start - end <= 24:  # 24 bytes are a data descriptor, which may follow a member
        raise ValueError(f"bytes {end} to {start} belong to no array")


@contextmanager
def naming_file(path: Path, temporary: Path) -> Iterator[None]:
    """Put the path of the file that is written into the message of an error of the system."""
    try:
        yield
    except OSError as error:
        # An error that names another file, or has no number of the system, is not about writing this one.
        if error.errno is None or error.filename not in (None, str(temporary)):
            raise
        named = type(error)(
            f"Cannot write {str(path)!r}: {error.strerror}. An earlier file of that name is kept. "
            "Make room or choose another folder, and run again."
        )
        named.errno = error.errno
        raise named from error


def _remove_leftovers(path: Path) -> None:
    """Remove the temporary files that killed processes, of this or another machine, left beside ``path``."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError):  # Another process was faster.
            if time.time() - leftover.stat().st_mtime > _ABANDONED:
                leftover.unlink()


class SaveTimer:
    """Say when to save: at once, after a second, ever more seldom, and at last every ``every`` seconds.

    Examples
    --------
    >>> timer = SaveTimer(30.0)
    >>> timer.is_due()
    True
    >>> timer.time(print, "saved")
    saved
    >>> timer.is_due()
    False
    """

    def __init__(self, every: float) -> None:
        if not every >= 0.0:
            raise ValueError(f"save_every must be a number of seconds of at least 0; got {every!r}.")
        self._every, self._pause, self._next = every, 0.5, time.monotonic()

    def is_due(self) -> bool:
        """Return whether it is time to save."""
        return time.monotonic() >= self._next

    def time(self, save: Callable[..., Any], *arguments: Any) -> None:
        """Call ``save(*arguments)`` and choose the next time: saving takes a tenth of the time at most."""
        started = time.monotonic()
        save(*arguments)
        now = time.monotonic()
        self._pause = min(2.0 * self._pause, self._every)
        self._next = now + max(self._pause, 10.0 * (now - started))
