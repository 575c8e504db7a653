"""NPZ archives of X and y, dense or CSR, and NPY files of X alone."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.checks import unexpected
from prgd.datasets._cells import Labels, Wanted, as_floats, as_labels, bad_cell, first_bad
from prgd.rows.arrays import check_shape
from prgd.rows.readers.sources import load_npy

KEYS = ("X", "y", "data", "indices", "indptr", "shape", "format")


def read_npy(wanted: Wanted) -> tuple[Any, None]:
    """Return X of a file that holds one array."""
    X = as_floats(load_npy(wanted.file), wanted)
    check_shape(X.shape)
    return _check_finite(wanted.file, X), None


def read(wanted: Wanted) -> tuple[Any, Labels | None]:
    """Return X and y of an archive; y is None if the archive has none and may lack it."""
    file = wanted.file
    if not zipfile.is_zipfile(file):
        raise unexpected(
            file,
            "an NPZ archive",
            "a file that is none, or a part of one",
            "Save it with numpy.savez, or fetch it again.",
        )
    try:
        with np.load(file, allow_pickle=False) as archive:
            keys = archive.files
            arrays: dict[str, npt.NDArray[Any]] = {key: archive[key] for key in keys if key in KEYS}
    except (ValueError, EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
        raise unexpected(
            file,
            "whole arrays of numbers or strings",
            f"an error ({error})",
            "Save them with numpy.savez, and strings as y.astype(str).",
        ) from error
    may_lack = {"y"} if wanted.n_features is not None else set()
    if {"X", "y"} - may_lack <= arrays.keys():
        X = as_floats(arrays["X"], wanted)
    elif {"data", "indices", "indptr", "shape", "y"} - may_lack <= arrays.keys():
        X = _csr_from(arrays, wanted)
    else:
        raise unexpected(
            file,
            "the keys X and y, or data, indices, indptr, shape and y for a CSR matrix",
            ", ".join(keys) or "none",
            "Save with numpy.savez(path, X=X, y=y).",
        )
    y = as_labels(arrays["y"], file) if "y" in arrays else None
    if X.ndim != 2 or 0 in X.shape or (y is not None and y.shape != X.shape[:1]):
        raise unexpected(
            file,
            "X of shape (n, d) and y of shape (n,), none empty",
            X.shape if y is None else f"{X.shape} and {y.shape}",
            "Reshape and save them again.",
        )
    return _check_finite(file, X), y


def _check_finite(file: Path, X: Any) -> Any:
    if (bad := first_bad(X)) is not None:
        raise bad_cell(f"{file}, row {bad[0]}", str(bad[1]), X[bad])
    return X


def _csr_from(arrays: dict[str, npt.NDArray[Any]], wanted: Wanted) -> Any:
    from scipy.sparse import csr_array

    layout = arrays["format"].astype(str).item() if "format" in arrays else "csr"
    if layout != "csr":
        raise unexpected(wanted.file, "a CSR matrix", layout, "Save X.tocsr() instead.")
    data = as_floats(arrays["data"], wanted)
    try:
        n, d = (int(length) for length in arrays["shape"])
        X = csr_array((data, arrays["indices"], arrays["indptr"]), shape=(n, d))
        X.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise unexpected(
            wanted.file,
            "the arrays of one CSR matrix",
            f"an error ({error})",
            "Save data, indices, indptr and shape of one matrix.",
        ) from error
    X.sum_duplicates()
    return X
