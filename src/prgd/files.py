"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


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
