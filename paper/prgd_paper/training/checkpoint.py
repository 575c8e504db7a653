"""Checkpoints: written whole or not at all, with the previous one kept, and read without running any code."""

from __future__ import annotations

import shutil
import warnings
import zipfile
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import torch

from prgd.core.files import OtherFileError, atomic_write, whole_file

FORMAT = "prgd-checkpoint-1"
NEWEST, PREVIOUS, DAMAGED = "checkpoint.pt", "checkpoint-previous.pt", "checkpoint-damaged.pt"


class DamagedCheckpointWarning(UserWarning):
    """The newest checkpoint cannot be read, and the one before it takes its place."""


def whole_checkpoint(path: Path) -> AbstractContextManager[None]:
    """Say in one sentence that what is read from this path is not the checkpoint of a run."""
    return whole_file(path, "checkpoint", "Leave out --resume")


def save_checkpoint(folder: Path, state: dict[str, Any]) -> Path:
    """Write ``checkpoint.pt``; an earlier checkpoint is copied to ``checkpoint-previous.pt`` before.

    Both files are replaced by whole ones, so that a kill at any moment leaves a whole checkpoint to be found,
    and so do two runs that save to one folder.
    """
    newest = folder / NEWEST
    with suppress(FileNotFoundError), newest.open("rb") as earlier, atomic_write(folder / PREVIOUS) as file:
        shutil.copyfileobj(earlier, file)
    with atomic_write(newest) as file:
        try:
            torch.save({"format": FORMAT, **state}, file)
        except RuntimeError as error:  # torch hides the error of the system, such as a full disk
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None
    return newest


def load_checkpoint(folder: Path, device: torch.device) -> dict[str, Any]:
    """Return the newest whole checkpoint of a folder; warn if the newest file is damaged.

    Raises
    ------
    ValueError
        If there is none, or the file is no checkpoint of this library.
    """
    found = [folder / name for name in (NEWEST, PREVIOUS) if (folder / name).is_file()]
    if not found:
        raise ValueError(
            f"No checkpoint in {str(folder)!r}. Leave out --resume, or name the folder of a run."
        )
    try:
        return _load(found[0], device)
    except ValueError as error:
        if len(found) == 1:
            raise
        try:
            state = _load(found[1], device)
        except ValueError:
            raise error from None  # The newest file is the one that a user looks for.
        # The next checkpoint must not put the damaged file in the place of the whole one.
        with suppress(OSError):
            found[0].replace(folder / DAMAGED)
        warnings.warn(f"{error} The run goes on from {found[1]}.", DamagedCheckpointWarning, stacklevel=2)
        return state


def _load(file: Path, device: torch.device) -> dict[str, Any]:
    with whole_checkpoint(file), file.open("rb") as opened, zipfile.ZipFile(opened) as archive:
        # torch compares no checksums, and takes a record with attributes for a folder of zeros.
        if (damaged := archive.testzip()) or any(member.external_attr for member in archive.infolist()):
            raise ValueError(f"{damaged or 'a record'} is not what was written")
        opened.seek(0)
        state: dict[str, Any] = torch.load(opened, map_location=device, weights_only=True)
        if not (isinstance(state, dict) and state.get("format") == FORMAT):
            raise OtherFileError(
                f"expected a checkpoint of the format {FORMAT!r}. Name the folder of another run, or leave "
                "out --resume."
            )
        return state
