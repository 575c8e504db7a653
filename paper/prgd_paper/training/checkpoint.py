"""Checkpoints: written whole or not at all, with the previous one kept, and read without running any code."""

from __future__ import annotations

import os
import pickle
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from prgd.core.files import atomic_write

FORMAT = "prgd-checkpoint-1"
NEWEST, PREVIOUS, DAMAGED = "checkpoint.pt", "checkpoint-previous.pt", "checkpoint-damaged.pt"


class DamagedCheckpointWarning(UserWarning):
    """The newest checkpoint cannot be read, and the one before it takes its place."""


def save_checkpoint(folder: Path, state: dict[str, Any]) -> Path:
    """Write ``checkpoint.pt``; an earlier checkpoint becomes ``checkpoint-previous.pt``.

    The new file is complete on disk before any name changes, so that a kill at any moment leaves a whole
    checkpoint to be found.
    """
    newest = folder / NEWEST
    with atomic_write(newest) as file:
        try:
            torch.save({"format": FORMAT, **state}, file)
        except RuntimeError as error:  # torch hides the error of the system, such as a full disk
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None
        file.flush()
        os.fsync(file.fileno())
        if newest.exists():
            newest.replace(folder / PREVIOUS)
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
    try:
        # torch does not compare the checksums that it writes for each tensor.
        damaged = zipfile.ZipFile(file).testzip() if zipfile.is_zipfile(file) else None
        if damaged is not None:
            raise EOFError(f"the checksum of {damaged} is wrong")
        state: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
        known = isinstance(state, dict) and state.get("format") == FORMAT
    except (RuntimeError, pickle.UnpicklingError, EOFError, OSError, zipfile.BadZipFile) as error:
        reason = (str(error).splitlines() or ["it is empty"])[0].rstrip(".")
        raise ValueError(f"{file} cannot be read as a checkpoint ({reason}).") from error
    if not known:
        raise ValueError(
            f"{file} is not a checkpoint of this library with the format {FORMAT!r}. Name the folder of "
            "another run, or leave out --resume."
        )
    return state
