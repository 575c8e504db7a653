"""The folder of ``prgd run --out``: what is in it, what may be overwritten, and where a run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prgd.running.result import Result

RESULT, WARMUP = "result.npz", "warmup-result.npz"
FILES = (RESULT, WARMUP, "history.csv", "warmup.csv", "gap.png")


def check_free(folder: Path) -> None:
    """Raise ``ValueError`` if the folder has files of an earlier run, which this one would overwrite."""
    if found := [name for name in FILES if (folder / name).exists()]:
        raise ValueError(
            f"{folder} has the files of an earlier run ({', '.join(found)}). Give another --out, "
            f"--resume {folder} to go on from them, or --force to replace them."
        )


def is_of(folder: Path, resumed: Path) -> bool:
    """Return whether ``--resume`` names the folder, or a file in it."""
    return folder.resolve() in (resumed.resolve(), resumed.resolve().parent)


def folder_of(resumed: Path) -> Path | None:
    """Return the folder into which a resumed run goes on; None for a file of another name than ours."""
    if resumed.is_dir():
        return resumed
    return resumed.parent if resumed.name in (RESULT, WARMUP) else None


def clear(folder: Path) -> None:
    """Remove the files of an earlier run, so that none of them is taken for one of the run that begins."""
    for name in FILES:
        (folder / name).unlink(missing_ok=True)


def load_start(at: Path, first: Any, first_steps: int, steps: int) -> tuple[Result | None, Result | None]:
    """Return the results of the warm-up and of the run that ``--resume`` names, None for what is missing.

    Parameters
    ----------
    at : Path
        The folder of an earlier run, or a file: of the warm-up if ``first`` is an algorithm, else of the run.
    first : Algorithm or None
        The algorithm of ``--warm-up``.
    first_steps, steps : int
        Steps of the warm-up and of the run.
    """
    if at.is_dir():
        return _load_folder(at, first, first_steps, steps)
    if not at.is_file():
        raise FileNotFoundError(
            f"--resume expects the result.npz of an earlier run, or its folder; found no file {at}."
        )
    result = Result.load(at)
    if first is not None:
        _check_warmup(at, result, first)
        return result, None
    if result.t >= steps:
        raise ValueError(f"{at} has taken {result.t:,} steps already: give --steps above that.")
    return None, result


def _load_folder(
    folder: Path, first: Any, first_steps: int, steps: int
) -> tuple[Result | None, Result | None]:
    warm, result = (Result.load(f) if (f := folder / name).is_file() else None for name in (WARMUP, RESULT))
    if warm is None and result is None:
        raise FileNotFoundError(
            f"--resume found neither {RESULT} nor {WARMUP} in {folder}: nothing was saved yet. "
            "Leave --resume out, or name the folder of an earlier run."
        )
    if first is None:
        if result is None:
            raise ValueError(
                f"{folder} holds a run that stopped in its warm-up: give the same --warm-up too."
            )
    elif warm is None:
        raise ValueError(f"{folder} holds a run without a warm-up: leave --warm-up out.")
    else:
        _check_warmup(folder / WARMUP, warm, first)
        if warm.t > first_steps or (result is not None and warm.t != first_steps):
            raise ValueError(f"{folder / WARMUP} holds {warm.t:,} steps of a warm-up, not {first_steps:,}.")
    if result is not None and result.t > steps:
        raise ValueError(f"{folder / RESULT} has taken {result.t:,} steps already: give --steps above that.")
    return warm, result


def _check_warmup(file: Path, result: Result, first: Any) -> None:
    if result.algorithm != repr(first):
        raise ValueError(
            f"{file} holds a run of {result.algorithm}, not of the warm-up {first!r}. "
            "If the warm-up is done, leave --warm-up out."
        )
