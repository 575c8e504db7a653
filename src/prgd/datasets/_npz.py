"""NPZ archives of X and y, dense or CSR, and NPY files of X alone."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.files import read_npz
from prgd.datasets._cells import Found, Wanted, as_floats, check_numbers, ignored_note
from prgd.rows.exact import canonical_csr, check_shape
from prgd.rows.readers.file_kinds import load_npy
from prgd.rows.readers.label_text import as_labels

CSR_KEYS = {"data", "indices", "indptr", "shape"}


def read_npy(wanted: Wanted) -> Found:
    """Return X of a file that holds one array."""
    X = as_floats(load_npy(wanted.file), wanted)
    check_shape(X.shape)
    return _chosen(X, None, wanted, None)


def read(wanted: Wanted) -> Found:
    """Return X and y of an archive, or None for y if the archive has none and may lack it."""
    file = wanted.file
    try:
        arrays = read_npz(file, {"X", "y", "format", "feature_names", *CSR_KEYS})
    except Exception as error:  # A damaged archive raises errors of many kinds.
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"{file}: expected an NPZ archive of whole arrays of numbers or strings, got an error ({reason})."
            " Save it with numpy.savez, strings as y.astype(str), or fetch it again."
        ) from error
    is_labelled = wanted.columns.is_labelled
    may_lack = {"y"} if wanted.columns.n_features is not None or not is_labelled else set()
    if {"X", "y"} - may_lack <= arrays.keys():
        X = as_floats(arrays["X"], wanted)
    elif (CSR_KEYS | {"y"}) - may_lack <= arrays.keys():
        X = _csr_from(arrays, wanted)
    else:
        raise ValueError(
            f"{file}: expected the keys X and y, or data, indices, indptr, shape and y for a CSR"
            f" matrix, got {', '.join(_names(file)) or 'none'}. Save with numpy.savez(path, X=X, y=y)."
        )
    if "y" in arrays and not is_labelled:
        raise ValueError(f"{file}: holds labels y of its own beside those of --labels. Leave --labels out.")
    y = as_labels(arrays["y"], file) if "y" in arrays else None
    if X.ndim != 2 or 0 in X.shape or (y is not None and y.shape != X.shape[:1]):
        raise ValueError(
            f"{file}: expected X of shape (n, d) and y of shape (n,), none empty, got {X.shape} and"
            f" {None if y is None else y.shape}. Reshape and save them again."
        )
    return _chosen(X, y, wanted, arrays.get("feature_names"))


def _names(file: Path) -> list[str]:
    with zipfile.ZipFile(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def _chosen(X: Any, y: Any, wanted: Wanted, names: npt.NDArray[Any] | None) -> Found:
    """Return the columns of X that are wanted, all without a copy unless some are chosen."""
    file, d = wanted.file, X.shape[1]
    listed = [str(j) for j in range(d)] if names is None else names.astype(str).tolist()
    if len(listed) != d:
        raise ValueError(f"{file}: expected {d} feature_names, one for each column of X, got {len(listed)}.")
    if wanted.columns.label is not None:
        raise ValueError(
            f"{file}: stores its labels apart from the columns, as y or in the file of --labels. Leave the"
            " label out (--label)."
        )
    columns = replace(wanted.columns, is_labelled=False)
    if names is None and columns.has_names:
        raise ValueError(f"{file}: its columns have no names. Give positions from 0 to {d - 1}.")
    chosen = columns.choose(file, listed, is_named=names is not None)
    if chosen.features != list(range(d)):
        X = X[:, chosen.features]
    notes = ignored_note(file, chosen.ignored)
    return Found(X, y, lambda row: f"{file}, row {row}", chosen.names, notes, None, chosen.names)


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
