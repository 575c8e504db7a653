"""The check of all input: numbers become float32 or float64 exactly, or are refused with their place.

A certificate is about the data as given. An integer above 2^53, a Decimal 0.1 or a long double would be
rounded by NumPy without a word, and the bounds would be about other rows. Text is the exception: ``0.1`` in
a CSV or LIBSVM file means the nearest float64, as everywhere, and only the text of an integer must be exact.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.checks import TextError, not_exact
from prgd.core.threads import physical_memory

MAX_INTEGER = 2**53  # every integer up to here has a float64
_VECTORS = 11  # vectors of d numbers that a soft margin holds, measured; a hard one holds 2 to 4
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))

Place = Callable[[tuple[int, ...]], str]  # the index of an entry -> the words that name the entry


def as_float(X: Any, name: str = "X") -> npt.NDArray[Any]:
    """Return X as native float32 or float64, without a copy if it is that already.

    Parameters
    ----------
    X : array, data frame or nested lists
        Numbers of any type: booleans, integers, floats, long doubles, Decimals, Fractions.
    name : str
        What errors call X.

    Raises
    ------
    ValueError
        If float64 cannot hold an entry exactly, or an entry is masked, missing or no number.
    TypeError
        If the type of X is not one of real numbers, e.g. of text or times.

    Examples
    --------
    >>> as_float([[True, 2**60]]).tolist()
    [[1.0, 1.152921504606847e+18]]
    """
    if _has_typed_columns(X):
        return _frame_as_float(X, name)
    found = as_array(X, name)
    if found.dtype in _FLOATS:
        return found
    check_exact(found, name)
    if found.dtype == object:
        return _objects_as_float(found, name)
    if found.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must hold real numbers; got dtype {found.dtype}. Encode or convert it first."
        )
    native = found.dtype.newbyteorder("=")
    return np.asarray(found, dtype=native if native in _FLOATS else np.float64)


def check_exact(X: Any, name: str = "X", place: Place | None = None, column: str | None = None) -> Any:
    """Return X (`canonical_csr` if it is sparse), or raise an error if a number of X has no float64.

    Text is a ``ValueError`` too, and times are a ``TypeError``.
    Other entries that are no numbers are left to the conversion.

    ``place`` names an entry by its index; by default its row and column are given, counting from 0.
    ``column`` is the name of a column that the command line can leave out.
    """
    if _has_typed_columns(X):
        for label, values in _columns(X, name):
            check_exact(values, f"Column {label!r} of {name}", in_column(f"{name} at", label))
        return X
    if hasattr(X, "tocsr"):
        return canonical_csr(X, name)
    found = as_array(X, name)
    if found.dtype in _FLOATS or not found.size:
        return X
    if found.dtype.kind in "mM":
        raise TypeError(
            f"{name} must hold real numbers; got dtype {found.dtype}. Encode or convert it first."
        )
    bad = _rounded_objects(found, name) if found.dtype == object else _rounded(found)
    if bad is not None and bad.any():
        at = tuple(np.argwhere(bad)[0].tolist())
        raise not_exact(place(at) if place else _row_and_column(name, at), found[at], column)
    return X


def is_frame(X: Any) -> bool:
    """Say whether X is a data frame: named columns, and an array of them."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame; None if one is no text, and for other data.

    Positions, which pandas gives to columns without names, are no names (scikit-learn has the same rule).
    """
    names = tuple(X.columns) if is_frame(X) else ()
    return tuple(map(str, names)) if names and all(isinstance(name, str) for name in names) else None


def _has_typed_columns(X: Any) -> bool:
    """Say whether X is a data frame of pandas or polars, whose columns have types of their own."""
    return is_frame(X) and hasattr(X, "dtypes")


def as_array(X: Any, name: str = "X") -> npt.NDArray[Any]:
    """Return X as an array with nothing lost: no mask is dropped, and no integer of a list is rounded."""
    if isinstance(X, np.ma.MaskedArray):
        if count := int(np.ma.getmaskarray(X).sum()):
            raise ValueError(
                f"{name} is a masked array with {count} masked entries, whose values would count. Fill them "
                f"in with {name}.filled(...), or drop their rows."
            )
        return np.asarray(X.data)
    found = np.asarray(X.to_numpy() if is_frame(X) else X)
    if found.dtype == np.float64 and isinstance(X, (list, tuple)) and found.size:
        # NumPy makes [2**53 + 1, 0.5] floats; integers that it may have rounded are no smaller than 2^53.
        with np.errstate(invalid="ignore"):
            is_large = bool((np.abs(found) >= MAX_INTEGER).any())
        objects = np.array(X, dtype=object) if is_large else found
        return objects if objects.shape == found.shape else found
    return found


def in_column(start: str, label: str, first_row: int = 0) -> Place:
    """Return the words for an entry of a named column, of which ``first_row`` rows came before."""
    return lambda at: f"{start} row {first_row + at[0]}, column {label!r}"


def _row_and_column(name: str, at: tuple[int, ...]) -> str:
    return f"{name} at " + ", ".join(f"{word} {k}" for word, k in zip(("row", "column"), at, strict=False))


def _rounded(X: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | None:
    """Return which numbers of an array have no float64; None if its type and its range exclude that."""
    kind, size = X.dtype.kind, X.dtype.itemsize
    if kind in "iu" and size == 8:
        if X.max() <= MAX_INTEGER and (kind == "u" or X.min() >= -MAX_INTEGER):
            return None
        floats = X.astype(np.float64)
        inside = floats < 2.0 ** (63 if kind == "i" else 64)  # beyond, a cast to integers is not defined
        return np.asarray(~inside | (np.where(inside, floats, 0.0).astype(X.dtype) != X))
    if kind == "f" and size > 8:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return np.asarray((X.astype(np.float64) != X) & ~np.isnan(X))
    return None


def _rounded_objects(X: npt.NDArray[Any], name: str) -> npt.NDArray[np.bool_]:
    if (text := next((x for x in X.flat if isinstance(x, (str, bytes))), None)) is not None:
        raise TextError(f"{name} must hold numbers only: got {text!r}. Encode text columns first.")
    return np.array([_is_rounded(x) for x in X.flat], dtype=bool).reshape(X.shape)


def _is_rounded(x: Any) -> bool:
    """Say whether x is a number that has no float64; Python compares exactly, NumPy's integers do not."""
    if isinstance(x, float) or _is_no_number(x):
        return False
    if isinstance(x, np.integer):
        x = int(x)
    try:
        return bool(float(x) != x) and bool(x == x)
    except OverflowError:
        return True
    except (TypeError, ValueError, ArithmeticError):
        return False


def _is_no_number(x: Any) -> bool:
    return x is None or isinstance(x, (str, bytes, np.datetime64, np.timedelta64))


def _objects_as_float(X: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    try:
        if any(_is_no_number(x) for x in X.flat):
            raise ValueError("got None or a time")
        return X.astype(np.float64)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(
            f"{name} must hold numbers only: {error}. Encode text columns first, and fill in what is missing."
        ) from error


def _frame_as_float(X: Any, name: str) -> npt.NDArray[Any]:
    """Return the columns of a data frame, each converted by itself, as one array."""
    whole = np.asarray(X.to_numpy())
    if whole.dtype in _FLOATS and all(str(kind).lower() in ("float32", "float64") for kind in X.dtypes):
        return np.asarray(whole)
    check_exact(X, name)
    columns = [as_float(column, f"Column {label!r} of {name}") for label, column in _columns(X, name)]
    return np.column_stack(columns) if columns else np.empty((len(X), 0))


def _columns(X: Any, name: str) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the names and the values of a data frame's columns, integers and Decimals as they are."""
    for j, label in enumerate(X.columns):
        column = X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]
        missing = np.asarray(column.isna() if hasattr(column, "isna") else column.is_null())
        kind = str(column.dtype).lower()
        if missing.any() and "float" not in kind and "double" not in kind:
            raise ValueError(
                f"{name} at row {int(np.argmax(missing))}, column {str(label)!r}: expected a number, got "
                "none (a missing value, NaN). Fill it in, or drop the row."
            )
        # polars turns Decimals and 128-bit integers into floats, rounded.
        is_wide = kind.startswith(("decimal", "int128", "uint128"))
        yield (
            str(label),
            np.array(column.to_list(), dtype=object) if is_wide else np.asarray(column.to_numpy()),
        )


def canonical_csr(X: Any, name: str = "X") -> Any:
    """Return X in CSR form with float32 or float64 entries and none repeated (norms need that).

    An entry that is stored in parts is their exact sum. If adding two of them rounds, they are refused with
    their place: 1e16 + 1 - 1e16 would be 0.
    """
    from scipy.sparse import csr_array

    if X.dtype.kind not in "fiub":
        raise TypeError(f"X must hold real numbers; got dtype {X.dtype}. Convert it first.")
    is_truth, kind = X.dtype == bool, X.dtype if X.dtype in _FLOATS else np.float64
    if X.dtype not in _FLOATS:
        at = X.tocoo()
        check_exact(at.data, name, lambda k: _row_and_column(name, (at.row[k[0]], at.col[k[0]])))
    if X.format not in ("coo", "bsr"):  # their method tocsr adds up repeated entries
        X = X.tocsr()
        check_csr(X.data, X.indices, X.indptr, X.shape[1])
        if X.has_canonical_format:
            return X.astype(kind, copy=False)
        X = X.tocsc().tocsr()  # two counting sorts
    X = X.tocoo()
    order = np.lexsort((X.col, X.row))
    rows, columns, data = X.row[order], X.col[order], X.data[order].astype(kind)
    while (is_repeated := (np.diff(rows) == 0) & (np.diff(columns) == 0)).any():
        # Of each run of equal places the second entry is added to the first, the fourth to the third.
        place = np.arange(rows.size)
        rank = place - np.maximum.accumulate(np.where(np.append(False, is_repeated), 0, place))
        odd = np.flatnonzero(rank % 2)
        first, second = data[odd - 1], data[odd]
        with np.errstate(over="ignore", invalid="ignore"):  # Numbers that are not finite are refused later.
            total = np.maximum(first, second) if is_truth else first + second  # True + True is True.
            error = (first - (total - (total - first))) + (second - (total - first))  # Knuth's TwoSum
        if (wrong := odd[(error != 0.0) & np.isfinite(total) & (not is_truth)]).size:
            at = _row_and_column(name, (int(rows[wrong[0]]), int(columns[wrong[0]])))
            raise ValueError(
                f"{at}: repeated entries add up with rounding, and bounds and verdicts would be about rounded"
                " data. Call X.sum_duplicates() first to take the rounded sums."
            )
        data[odd - 1] = total
        rows, columns, data = (np.delete(array, odd) for array in (rows, columns, data))
    return csr_array((data, (rows, columns)), shape=X.shape)


def check_csr(data: Any, indices: Any, indptr: Any, d: int) -> None:
    """Look at every index, since the kernels trust them."""
    last = int(indptr[-1])
    if (np.diff(indptr) < 0).any() or indptr[0] != 0 or last > min(data.size, indices.size):
        raise ValueError("X is not a valid CSR matrix: indptr decreases or points past the data.")
    if last > 0 and not (int(indices[:last].min()) >= 0 and int(indices[:last].max()) < d):
        raise ValueError(f"X is not a valid CSR matrix: a column index lies outside 0..{d - 1}.")


def check_shape(shape: Sequence[int], vectors: int = _VECTORS) -> tuple[int, int]:
    """Return (n, d) if X is a matrix with rows and columns, and ``vectors`` of d numbers fit in memory."""
    if len(shape) != 2:
        raise ValueError(
            f"X must be a matrix of shape (rows, columns); got shape {tuple(shape)}. "
            "Use X.reshape(-1, 1) for a single feature."
        )
    if shape[0] == 0 or shape[1] == 0:
        raise ValueError(f"X must have at least one row and one column; got shape {tuple(shape)}.")
    need, memory = vectors * 8 * int(shape[1]), physical_memory()
    if need > memory:
        raise ValueError(
            f"X has {int(shape[1]):,} columns: {vectors} numbers for each column take {need / 1e9:.3g} GB, "
            f"out of core too, and this machine has {memory / 1e9:.3g} GB. If few columns are in use, number "
            "these from 1 on, e.g. by hashing; else check the largest index of the file."
        )
    return int(shape[0]), int(shape[1])
