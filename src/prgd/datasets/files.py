"""Load rows and labels from a LIBSVM, CSV, NPZ or Parquet file; the ending of the name tells the format."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.datasets import _csv, _npz, _parquet
from prgd.datasets._cells import Label, Labels, Wanted
from prgd.datasets.base import Dataset
from prgd.rows.readers.libsvm import parse_libsvm
from prgd.rows.readers.libsvm_text import ENDINGS
from prgd.rows.readers.streams import COMPRESSED

_KNOWN = (
    "LIBSVM (.svm, .libsvm, .svmlight, .txt) and CSV (.csv), both also with .gz, .bz2 or .xz after"
    " it, NPZ (.npz), Parquet (.parquet)"
)


def _read_libsvm(wanted: Wanted) -> tuple[Any, Labels]:
    rows = parse_libsvm(wanted.file, dtype=wanted.dtype or np.float64)
    # LIBSVM text does not say how many columns there are: the last ones may be zero in every row.
    d = max(rows.n_features, wanted.n_features or 0)
    return replace(rows, n_features=d).tocsr(), rows.y


_READERS = {
    ".csv": _csv.read,
    ".npz": _npz.read,
    ".npy": _npz.read_npy,
    ".parquet": _parquet.read,
    **dict.fromkeys(ENDINGS, _read_libsvm),
}


def load(path: str | os.PathLike[str], *, label: Label = None, dtype: npt.DTypeLike | None = None) -> Dataset:
    r"""Load a data set from a LIBSVM, CSV, NPZ or Parquet file.

    Parameters
    ----------
    path : str or path
        The ending of the name tells the format: .svm, .libsvm, .svmlight, .txt (LIBSVM) and .csv,
        each also with .gz, .bz2 or .xz after it; .npz with the keys X and y, or data, indices,
        indptr, shape and y for a CSR matrix; .parquet.
    label : str or int, optional
        CSV and Parquet only: name or index of the label column. By default the one called y, label,
        target or class, in any case; in a CSV file without a header, the last one. Columns that
        pandas stored as a row index in a Parquet file are not features.
    dtype : float64 or float32, optional
        Type of ``X``; by default that of an NPZ file's floats, else float64.

    Returns
    -------
    Dataset
        ``X`` is a csr_array for LIBSVM and CSR files, else an ndarray. Labels are as found:
        float64, strings if one of them is not a number, or integers if float64 cannot hold one of them
        (in a CSV file, their text).

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the format is unknown or the content is not as expected, missing values and numbers that have no
        float64 included; the message names the place. In CSV and LIBSVM text a number with a point or an
        exponent is the nearest float64, as everywhere, and the text of an integer must be exact.
    ImportError
        If pyarrow is not installed, for a Parquet file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "iris.csv"
    ...     _ = path.write_text("length,width,class\n5.1,3.5,setosa\n7.0,3.2,versicolor\n")
    ...     dataset = load(path)
    >>> dataset, dataset.y.tolist()
    (Dataset('iris', 2 x 2, dense float64), ['setosa', 'versicolor'])
    """
    kind = None if dtype is None else np.dtype(dtype)
    if kind not in (None, np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype must be float64, float32 or None; got {kind}.")
    name, X, y = _read(Wanted(Path(path).expanduser(), label, kind))
    return Dataset(X, y, name)


def load_features(path: str | os.PathLike[str], n_features: int, *, label: Label = None) -> tuple[Any, Any]:
    """Load the rows of a file that may lack labels, e.g. to predict them.

    Parameters
    ----------
    path, label
        As for `load`; a ``.npy`` file, which holds features only, is welcome too.
    n_features : int
        The number of features that rows have. A CSV or Parquet file of so many columns, none of which is
        named as a label, has no labels. In a LIBSVM file, missing last columns are zero.

    Returns
    -------
    X : ndarray or csr_array
    y : ndarray, or None if the file has no labels.

    Raises
    ------
    FileNotFoundError, ValueError, ImportError
        As for `load`.
    """
    return _read(Wanted(Path(path).expanduser(), label, None, n_features))[1:]


def _read(wanted: Wanted) -> tuple[str, Any, Any]:
    """Return the stem of the file's name, the rows and the labels."""
    file, stem, ending, compression = wanted.file, wanted.file.stem, wanted.file.suffix.lower(), ""
    if ending in COMPRESSED:
        stem, ending, compression = Path(stem).stem, Path(stem).suffix.lower(), ending
    reader = _READERS.get(ending)
    is_refused = compression and ending not in (".csv", *ENDINGS)
    if reader is None or is_refused or (ending == ".npy" and wanted.n_features is None):
        raise ValueError(
            f"{file}: expected a known file name ending, got {ending + compression or 'none'!r}. Known:"
            f" {_KNOWN}. Rename the file, or call prgd.rows.readers.libsvm.parse_libsvm for LIBSVM text"
            " under any name."
        )
    if not file.is_file():
        raise FileNotFoundError(f"Expected a data file at {file}, found none. Check the path.")
    if wanted.label is not None and ending not in (".csv", ".parquet"):
        raise ValueError(
            f"label chooses a column of a CSV or Parquet file; got label={wanted.label!r} for {file},"
            " which stores its labels apart. Leave the label out."
        )
    return stem, *reader(wanted)
