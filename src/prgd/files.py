"""Files that are written whole or not at all, and archives that are read to their end."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt


@contextmanager
def atomic_write(path: str | Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Give a file to write to; it replaces ``path`` when the block ends without an error.

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
    # A plain open, not mkstemp, so that the file gets the permissions of the user's umask.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open(mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
        temporary.replace(path)
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
        members = archive.infolist()
        if members and min(member.header_offset for member in members) > 0:
            raise ValueError("bytes before the first array")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in found:
                raise ValueError(f"two arrays called {name}")
            if wanted is not None and name not in wanted:
                continue
            with archive.open(member) as opened:
                found[name] = np.lib.format.read_array(opened, allow_pickle=False)
                if opened.read(1):
                    raise ValueError(f"more numbers in {name} than its header announces")
    return found
