"""NPZ archives of X and y, dense or CSR, and NPY files of X alone."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.datasets._cells import Labels, Wanted, as_floats, as_labels, check_finite, check_numbers
from prgd.files import read_npz
from prgd.rows.arrays import check_shape
from prgd.rows.readers.file_kinds import load_npy
from prgd.rows.sparse import canonical_csr

CSR_KEYS = {"data", "indices", "indptr", "shape"}


def read_npy(wanted: Wanted) -> tuple[Any, None]:
    """Return X of a file that holds one array."""
    X = as_floats(load_npy(wanted.file), wanted)
    check_shape(X.shape)
    return _check_rows(X, wanted), None


def read(wanted: Wanted) -> tuple[Any, Labels | None]:
    """Return X and y of an archive, or None for y if the archive has none and may lack it."""
    file = wanted.file
    try:
        arrays = read_npz(file, {"X", "y", "format", *CSR_KEYS})
    except Exception as error:  # A damaged archive raises errors of many kinds.
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"{file}: expected an NPZ archive of whole arrays of numbers or strings, got an error ({reason})."
            " Save it with numpy.savez, strings as y.astype(str), or fetch it again."
        ) from error
    may_lack = {"y"} if wanted.n_features is not None else set()
    if {"X", "y"} - may_lack <= arrays.keys():
        X = as_floats(arrays["X"], wanted)
    elif (CSR_KEYS | {"y"}) - may_lack <= arrays.keys():
        X = _csr_from(arrays, wanted)
    else:
        raise ValueError(
            f"{file}: expected the keys X and y, or data, indices, indptr, shape and y for a CSR"
            f" matrix, got {', '.join(_names(file)) or 'none'}. Save with numpy.savez(path, X=X, y=y)."
        )
    y = as_labels(arrays["y"], file) if "y" in arrays else None
    if X.ndim != 2 or 0 in X.shape or (y is not None and y.shape != X.shape[:1]):
        raise ValueError(
            f"{file}: expected X of shape (n, d) and y of shape (n,), none empty, got {X.shape} and"
            f" {None if y is None else y.shape}. Reshape and save them again."
        )
    return _check_rows(X, wanted), y


def _names(file: Path) -> list[str]:
    with zipfile.ZipFile(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def _check_rows(X: Any, wanted: Wanted) -> Any:
    return check_finite(X, lambda row: f"{wanted.file}, row {row}")


def _csr_from(arrays: dict[str, npt.NDArray[Any]], wanted: Wanted) -> Any:
    from scipy.sparse import csr_array

    layout = str(arrays["format"].astype(str)) if "format" in arrays else "csr"
    if layout != "csr":
        raise ValueError(f"{wanted.file}: expected a CSR matrix, got {layout}. Save X.tocsr() instead.")
    check_numbers(arrays["data"], wanted)
    try:
        n, d = (int(length) for length in arrays["shape"])
        X = csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(n, d))
        X.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"{wanted.file}: expected the arrays of one CSR matrix, got an error ({error})."
            " Save data, indices, indptr and shape of one matrix."
        ) from error
    X = canonical_csr(X, f"{wanted.file}: X")
    with np.errstate(over="ignore"):
        return X.astype(wanted.dtype or X.dtype, copy=False)
