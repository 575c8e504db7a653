"""Array namespaces: one code for NumPy arrays, and for torch tensors on the device where the rows lie."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from prgd.core.types import Array


def namespace(array: Any) -> ModuleType:
    """Return ``numpy`` or ``torch``, the module whose functions take this array.

    Functions of one name serve both: ``amin``, ``sqrt``, ``where``, ``clip``, with ``axis`` and ``keepdims``.
    """
    return np if isinstance(array, (np.ndarray, np.generic)) else sys.modules["torch"]


def like(array: Any, values: Any) -> Any:
    """Return values as an array of the namespace, device and type of ``array``."""
    if isinstance(array, np.ndarray):
        return np.asarray(values, dtype=array.dtype)
    if isinstance(values, np.ndarray):
        values = sys.modules["torch"].from_numpy(np.array(values))  # a copy: torch warns of read-only arrays
    return values.to(array.device, array.dtype)


def to_host(array: Any) -> Array:
    """Return an array or tensor as a NumPy array."""
    return array if isinstance(array, np.ndarray) else np.asarray(array.cpu().numpy())


def dot(a: Any, b: Any) -> Any:
    """Return ``<a, b>`` along the last axis: a number for vectors, a column of them for a batch."""
    return a @ b if a.ndim == 1 else (a * b).sum(-1, keepdims=True)


def total(v: Any) -> Any:
    """Return the sum along the last axis: a number for a vector, a column of numbers for a batch."""
    return v.sum() if v.ndim == 1 else v.sum(-1, keepdims=True)


def smallest(v: Any) -> Any:
    """Return the smallest entry along the last axis: a number for a vector, a column of them for a batch."""
    return v.min() if v.ndim == 1 else v.amin(-1, keepdims=True)


def at_least(v: Any, low: float) -> Any:
    """Return the larger of an array, or of a number that its namespace has made, and a bound."""
    return np.maximum(v, low) if namespace(v) is np else v.clamp(min=low)


def add_to_diagonal(matrix: Any, value: Any) -> None:
    """Add a number, or one for each row, to the diagonals of contiguous square matrices, in place."""
    m = matrix.shape[-1]
    matrix.reshape(*matrix.shape[:-2], m * m)[..., :: m + 1] += value


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that a device has no room left."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
