"""What ``prgd fit --out`` writes and ``prgd predict`` reads: the model, and rows with or without labels."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from prgd import datasets
from prgd._types import Array
from prgd.cli.data import built_in, data_file, label_column
from prgd.datasets.files import LABEL_NAMES
from prgd.maxmargin import MaxMarginResult
from prgd.result import Status
from prgd.rows import Rows
from prgd.rows.base import check_shape
from prgd.rows.dense import as_float

_FORMAT = "prgd-model-1"


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted hyperplane with its certificate, as ``prgd fit --out`` keeps it: plain arrays, no pickle.

    The weights of the certificate are ``dual_weights`` on the rows ``dual_indices`` of the ``n_rows``.
    """

    coef: Array
    intercept: float
    classes: npt.NDArray[Any]
    margin: float
    upper_bound: float
    status: str
    fit_intercept: bool
    n_features: int
    n_rows: int
    dual_indices: npt.NDArray[np.int64]
    dual_weights: Array

    @classmethod
    def of(cls, result: MaxMarginResult, rows: Rows) -> Model:
        """Take what a result says about these rows."""
        return cls(
            coef=result.coef,
            intercept=result.intercept,
            classes=classes_of(rows),
            margin=result.margin,
            upper_bound=result.upper_bound,
            status=result.status.name,
            fit_intercept=result.fit_intercept,
            n_features=rows.d,
            n_rows=rows.n,
            dual_indices=result.dual_coef.indices.astype(np.int64),
            dual_weights=result.dual_coef.data,
        )

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        arrays: dict[str, Any] = {"format": np.array(_FORMAT), **vars(self)}
        write_whole(path, "wb", lambda file: np.savez(file, **arrays))

    @classmethod
    def load(cls, path: Path) -> Model:
        """Read a file that `save` wrote."""
        if not path.is_file():
            raise FileNotFoundError(f"MODEL expects a file that prgd fit --out wrote; found none at {path}.")
        try:
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            if str(arrays.pop("format")) != _FORMAT:
                raise ValueError("another format")
            model = cls(**{name: a if a.ndim else a.item() for name, a in arrays.items()})
            if model.coef.shape != (model.n_features,) or model.classes.shape != (2,):
                raise ValueError("shapes that do not fit")
        except Exception as error:  # a damaged zip raises many kinds of error
            raise ValueError(f"{path}: not a whole model of prgd fit ({error}). Fit it again.") from error
        if not model.margin > 0.0:
            raise ValueError(
                f"{path}: holds no separator to predict with. {Status[model.status]} "
                "See prgd separability; a regularised classifier may serve on such data."
            )
        return model

    def score(self, X: Any) -> Array:
        """Return ``<coef, x> + intercept`` for every row; features that X lacks are zero."""
        return np.asarray(X @ self.coef[: X.shape[1]] + self.intercept, dtype=np.float64)


def classes_of(rows: Rows) -> npt.NDArray[Any]:
    """Return the two classes; rows z_i = y_i x_i without labels have -1 and 1."""
    # through a list: strings of a data frame are objects, which only pickle can save
    return np.array([-1.0, 1.0] if rows.classes is None else rows.classes.tolist())


def class_text(label: Any) -> str:
    """Return a class as its file had it: 1, not 1.0."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def write_whole(path: Path, mode: str, write: Callable[[IO[Any]], object]) -> None:
    """Write a file whole or not at all."""
    # a plain open, not mkstemp: the file gets the permissions that the user's umask says
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    text: dict[str, Any] = {} if "b" in mode else {"newline": "", "encoding": "utf-8"}
    try:
        with temporary.open(mode, **text) as file:
            write(file)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


# Rows to predict, with or without labels


def load_features(data: str, label: str | None, d: int) -> tuple[Any, Any]:
    """Return X of d features and the labels, None where the data have none.

    LIBSVM text does not say how many features there are: its X may have fewer.
    """
    dataset = built_in(data)
    if dataset is not None:
        if label is not None:
            raise ValueError(f"--label is for files, and {data} is built in. Leave it out.")
        X, y = dataset
        is_text = False
    else:
        file = data_file(data)
        ending = next((e for e in reversed(file.suffixes) if e not in (".gz", ".bz2", ".xz")), "").lower()
        X, y = _load_unlabelled(file, ending, d) if label is None and file.is_file() else None, None
        if X is None:
            X, y = datasets.load(file, label=label_column(label))
        is_text = not isinstance(X, np.ndarray) and ending != ".npz"
    width = check_shape(X.shape)[1]
    if width > d or (width < d and not is_text):
        raise ValueError(
            f"{data} has {width:,} features, and the model was fitted on {d:,}. "
            "Give the same columns in the same order."
        )
    if not np.isfinite(X if isinstance(X, np.ndarray) else X.data).all():
        raise ValueError(f"{data} has an entry that is NaN or infinite. Fill it in, or remove the row.")
    return X, y


def _load_unlabelled(file: Path, ending: str, d: int) -> Any:
    """Return X where the file has features only, else None."""
    if ending == ".npy":
        return as_float(np.load(file, allow_pickle=False))
    if ending == ".npz":
        return _npz_features(file)
    if ending not in (".csv", ".parquet"):
        return None
    names = _column_names(file, ending)
    if len(names) != d or any(name.strip().lower() in LABEL_NAMES for name in names):
        return None
    # every column is a feature: the last one is loaded as if it were the label, and put back
    X, last = datasets.load(file, label=-1)
    if last.dtype.kind != "f":
        raise ValueError(f"{file}: the last column, {names[-1]!r}, is not numeric. Name it in --label.")
    return np.column_stack([X, last])


def _column_names(file: Path, ending: str) -> list[str]:
    """Return the cells of the first row (CSV) or the names of the columns, empty where none can be read."""
    try:
        if ending == ".parquet":
            from pyarrow import parquet

            names = [str(name) for name in parquet.read_schema(file).names]
            return [name for name in names if not name.startswith("__index_level_")]
        from prgd.rows.readers.libsvm_text import open_stream

        with open_stream(file) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
            return next((cells for cells in csv.reader(text) if any(cells)), [])
    except Exception:  # the loader will say what is wrong with the file
        return []


def _npz_features(file: Path) -> Any:
    """Return X, dense or CSR, of an archive without y; None where it has one or is not whole."""
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
            arrays = {} if "y" in archive.files else {name: archive[name] for name in archive.files}
    except Exception:  # the loader will say what is wrong with the file
        return None
    if "X" in arrays:
        return as_float(arrays["X"])
    if {"data", "indices", "indptr", "shape"} <= arrays.keys():
        from scipy.sparse import csr_array

        parts = (as_float(arrays["data"]), arrays["indices"], arrays["indptr"])
        return csr_array(parts, shape=tuple(arrays["shape"].tolist()))
    return None
