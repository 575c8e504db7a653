"""Checkpoints: written whole or not at all, the one before kept, read without running any code."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import torch

FORMAT = "prgd-checkpoint-1"
NEWEST, PREVIOUS = "checkpoint.pt", "checkpoint-previous.pt"


def save_checkpoint(folder: Path, state: dict[str, Any]) -> Path:
    """Write ``checkpoint.pt``; the one that was there becomes ``checkpoint-previous.pt``.

    The new file is complete on disk before any name changes, so that a kill at any moment leaves the
    newest whole checkpoint to be found.
    """
    newest, previous = folder / NEWEST, folder / PREVIOUS
    temporary = folder / f".{NEWEST}.{os.getpid()}.tmp"
    try:
        with temporary.open("wb") as file:
            torch.save({"format": FORMAT, **state}, file)
            file.flush()
            os.fsync(file.fileno())
        if newest.exists():
            newest.replace(previous)
        temporary.replace(newest)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return newest


def load_checkpoint(folder: Path, device: torch.device) -> dict[str, Any]:
    """Return the newest checkpoint of a folder.

    Raises
    ------
    ValueError
        When there is none, or it is no checkpoint of this library.
    """
    found = [folder / name for name in (NEWEST, PREVIOUS) if (folder / name).is_file()]
    if not found:
        raise ValueError(
            f"No checkpoint in {str(folder)!r}. Leave out --resume, or name the folder of a run."
        )
    try:
        state: dict[str, Any] = torch.load(found[0], map_location=device, weights_only=True)
        known = isinstance(state, dict) and state.get("format") == FORMAT
    except (RuntimeError, pickle.UnpicklingError, EOFError, OSError) as error:
        raise ValueError(
            f"{found[0]} cannot be read as a checkpoint ({str(error).splitlines()[0]})."
        ) from error
    if not known:
        raise ValueError(f"{found[0]} is not a checkpoint of this library.")
    return state
