"""Checkpoints: written whole or not at all, with the previous one kept, and read without running any code."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import torch

from prgd.files import atomic_write

FORMAT = "prgd-checkpoint-1"
NEWEST, PREVIOUS = "checkpoint.pt", "checkpoint-previous.pt"


def save_checkpoint(folder: Path, state: dict[str, Any]) -> Path:
    """Write ``checkpoint.pt``; an earlier checkpoint becomes ``checkpoint-previous.pt``.

    The new file is complete on disk before any name changes, so that a kill at any moment leaves a whole
    checkpoint to be found.
    """
    newest = folder / NEWEST
    with atomic_write(newest) as file:
        torch.save({"format": FORMAT, **state}, file)
        file.flush()
        os.fsync(file.fileno())
        if newest.exists():
            newest.replace(folder / PREVIOUS)
    return newest


def load_checkpoint(folder: Path, device: torch.device) -> dict[str, Any]:
    """Return the newest checkpoint of a folder.

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
        state: dict[str, Any] = torch.load(found[0], map_location=device, weights_only=True)
        known = isinstance(state, dict) and state.get("format") == FORMAT
    except (RuntimeError, pickle.UnpicklingError, EOFError, OSError) as error:
        raise ValueError(
            f"{found[0]} cannot be read as a checkpoint ({str(error).splitlines()[0]}). Delete it, and "
            "--resume takes the previous one."
        ) from error
    if not known:
        raise ValueError(
            f"{found[0]} is not a checkpoint of this library with the format {FORMAT!r}. Name the folder of "
            "another run, or leave out --resume."
        )
    return state
