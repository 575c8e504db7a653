"""Labels and numbers as text has them: labels are numbers if all of them are, else text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.checks import is_rounded_integer
from prgd.rows.exact import as_float

LabelArray = npt.NDArray[np.float64] | npt.NDArray[np.integer[Any]] | npt.NDArray[np.str_]


def text_labels(labels: Sequence[str]) -> LabelArray:
    """Return labels as float64 if all are numbers that float64 can hold, else as text."""
    numbers = np.array([_number(text) for text in labels])
    return numbers if np.isfinite(numbers).all() else np.array(labels)


def as_labels(y: npt.NDArray[Any], file: Path) -> LabelArray:
    """Return labels as strings, finite float64, or integers as they are if float64 cannot hold them."""
    if y.dtype.kind == "S":
        return np.char.decode(y, "utf-8")
    if y.dtype.kind == "U":
        return y
    if y.dtype.kind not in "biuf":
        raise ValueError(f"{file}: expected labels as numbers or strings, got {y.dtype}.")
    try:
        labels = as_float(y, f"{file}: y").astype(np.float64)
    except ValueError:
        if y.dtype.kind not in "iu":
            raise
        return y
    if not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels.ravel()))[0])
        raise ValueError(
            f"{file}, row {row}: expected a finite label, got {labels.ravel()[row]}."
            " Fill in or drop rows without one."
        )
    return labels


def is_number(cell: str) -> bool:
    """Say whether a cell of text is a number, NaN and infinity included."""
    try:
        check_spelling(cell)
        float(cell)
    except ValueError:
        return False
    return True


def check_spelling(text: str) -> None:
    """Raise ``ValueError`` for what Python alone takes for a number: 1_0, and digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError("not a number")


def _number(label: str) -> float:
    """Return a label as a number, NaN if it is none or has no float64: labels stay text then."""
    value = float(label) if is_number(label) else math.nan
    return math.nan if is_rounded_integer(label, value) else value
