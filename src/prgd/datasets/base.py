"""Dataset: rows and labels under one name, with the closed-form answer if there is one, and files of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.core.types import Array
from prgd.rows.readers.cells import Wanted
from prgd.rows.readers.columns import Column, Columns
from prgd.rows.readers.files import read_file

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows, labels and what is known about them; unpacks as ``X, y = dataset``.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
        One row per sample.
    y : ndarray of shape (n,)
        Labels, numbers or strings; None for rows to predict that come without.
    name : str
        The name in captions and tables.
    w_star : ndarray of shape (d,), optional
        The direction of largest margin, of norm 1, if it is known.
    gamma_star : float, optional
        That largest margin.
    feature_names : tuple of str, optional
        The names of the columns of X, as the header of a file has them.
    notes : tuple of str
        What the command line tells its user about the reading: which column of a file without a header was
        taken as the label, which rows were dropped, which columns a model does not use.
    feature_means : ndarray of shape (d,), optional
        The means that stand for missing values, if ``missing="mean"`` asked for them.
    is_kept : ndarray of bool, optional
        For each row of a file whether X has it, if rows were dropped.

    Examples
    --------
    >>> dataset = Dataset(np.eye(2), np.array([1.0, -1.0]), "corner")
    >>> dataset
    Dataset('corner', 2 x 2, dense float64)
    >>> X, y = dataset
    >>> y
    array([ 1., -1.])
    """

    X: npt.NDArray[np.floating[Any]] | csr_array[Any]
    y: Any
    name: str
    w_star: npt.NDArray[np.float64] | None = None
    gamma_star: float | None = None
    feature_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    feature_means: npt.NDArray[np.float64] | None = None
    is_kept: npt.NDArray[np.bool_] | None = None

    def __iter__(self) -> Iterator[Any]:
        yield self.X
        yield self.y

    def __repr__(self) -> str:
        n, d = self.X.shape
        kind = "dense" if isinstance(self.X, np.ndarray) else "sparse"
        return f"Dataset({self.name!r}, {n} x {d}, {kind} {self.X.dtype})"


class ModelFeatures(NamedTuple):
    """The features of a model that is to classify the rows of a file, which may lack labels.

    Attributes
    ----------
    n : int or None
        Their number; None if there is no model, and labels are needed. A CSV or Parquet file of so many
        columns, none of which is named as a label, has no labels. A ``.npy`` file needs none. In a LIBSVM
        file, missing last columns are zero.
    names : tuple of str or None
        Columns of a file that has names too are matched by name: they are brought into this order, further
        ones are ignored with a note, and missing ones are an error that lists them.
    means : ndarray of shape (n,) or None
        What ``missing="mean"`` fills in; by default the means of the file.
    """

    n: int | None = None
    names: tuple[str, ...] | None = None
    means: Array | None = None


NO_MODEL = ModelFeatures()


def load(
    path: str | os.PathLike[str],
    *,
    label: Column | None = None,
    labels: str | os.PathLike[str] | None = None,
    features: Sequence[Column] | None = None,
    drop: Sequence[Column] = (),
    format: str | None = None,
    separator: str | None = None,
    decimal: str = ".",
    missing: str = "refuse",
    dtype: npt.DTypeLike | None = None,
    model: ModelFeatures = NO_MODEL,
) -> Dataset:
    r"""Load a data set from a LIBSVM, CSV, TSV, NPZ or Parquet file.

    Parameters
    ----------
    path : str or path
        The ending of the name tells the format: .svm, .libsvm, .svmlight (LIBSVM), .csv, .tsv, and .txt
        (LIBSVM, or a table if its first line has a separator and no index:value pairs), each also with
        .gz, .bz2 or .xz after it; .npz with the keys X and y (and feature_names, if there are some), or
        data, indices, indptr, shape and y for a CSR matrix; .npy with ``labels``; .parquet.
    label : str or int, optional
        CSV, TSV and Parquet only: name or position of the label column. By default the one called y, label,
        target or class, in any case; in a text file without a header, the last one. Columns that
        pandas stored as a row index in a Parquet file are not features.
    labels : path, optional
        A file of the labels alone, for rows that come without: .npy, or text with one label on each line.
    features, drop : list of str or int, optional
        Columns to use, in this order, or to leave out, by name or by position from 0, the label counted too.
    format : {"csv", "tsv", "libsvm", "npz", "npy", "parquet"}, optional
        The format of a file whose ending does not tell it.
    separator : str, optional
        What separates the cells of text: a character, or tab. By default a tab, semicolon, comma,
        vertical bar or space, the first of these that the first line has.
    decimal : {".", ","}
        The decimal mark of numbers in CSV and TSV text.
    missing : {"refuse", "drop", "mean"}
        What to do about missing values (empty cells, NA, NaN and ?, in any case; NaN and null in other
        formats): raise an error that names the place, drop their rows, or fill in the mean of the
        column in this file. A missing label is refused, or dropped.
    dtype : float64 or float32, optional
        Type of ``X``; by default that of an NPZ file's floats, else float64.
    model : ModelFeatures
        What a model knows of its features, for rows that it is to classify; by default there is no model.

    Returns
    -------
    Dataset
        ``X`` is a csr_array for LIBSVM and CSR files, else an ndarray; True and False in text are 1 and 0.
        Labels are as found: float64, strings if one of them is not a number, or integers if float64 cannot
        hold one of them (in a text file, their text). ``feature_names`` are those of the header. With a
        model, ``y`` is None if the file has no labels.

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
    >>> dataset, dataset.y.tolist(), dataset.feature_names
    (Dataset('iris', 2 x 2, dense float64), ['setosa', 'versicolor'], ('length', 'width'))
    """
    kind = None if dtype is None else np.dtype(dtype)
    if kind not in (None, np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype must be float64, float32 or None; got {kind}.")
    chosen = None if features is None else tuple(features)
    columns = Columns(label, chosen, tuple(drop), labels is None, model.n, model.names)
    wanted = Wanted(Path(path).expanduser(), columns, kind, separator, decimal, missing, model.means)
    name, found = read_file(wanted, None if labels is None else Path(labels).expanduser(), format)
    known: dict[str, Any] = {
        "feature_names": found.feature_names,
        "notes": found.notes,
        "feature_means": found.means,
    }
    return Dataset(found.X, found.y, name, is_kept=found.is_kept, **known)
