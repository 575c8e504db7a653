"""The response and the design of a regression as a user gives them, checked: classes, counts, numbers.

Errors name the column and the first row that is wrong, since data frames of statisticians have both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.core.checks import TextError, class_text
from prgd.core.errors import NotFiniteError
from prgd.core.types import Array, Indices
from prgd.rows.blocks import non_finite_entry
from prgd.rows.exact import as_array, as_float, canonical_csr, check_shape, column_names, is_frame
from prgd.rows.labels import check_labels, read_weights

INTERCEPT = "(Intercept)"
_SHOWN = 5  # classes that an error lists
_SHARE_ROUNDING = 1e-12  # distance from 1 of the sum of two shares that counts as rounding


class Classes(NamedTuple):
    """The classes of a response.

    Attributes
    ----------
    codes : ndarray of int of shape (n,)
        The class of each observation, as its place in ``labels``.
    labels : tuple of str
        The classes that occur: sorted, or in the order of a categorical.
    is_ordered : bool
        Whether the order means something: that of numbers or of a categorical, not the alphabet's.
    """

    codes: Indices
    labels: tuple[str, ...]
    is_ordered: bool


class Design(NamedTuple):
    """The design of a regression: X as an array or CSR, the names of its columns, and which rows count."""

    X: Any
    feature_names: tuple[str, ...] | None
    fit_intercept: bool
    weight: Array  # the weights of the observations, one or as many

    @classmethod
    def read(
        cls, X: Any, fit_intercept: bool, sample_weight: Any, names: tuple[str, ...] | None = None
    ) -> Design:
        """Check the data that a user gave; ``names`` are those of a data frame's columns by default."""
        names, X = names or column_names(X), read_design(X)
        weight = read_weights(sample_weight, X.shape[0])
        return cls(X, names, fit_intercept, weight if weight.size else np.ones(X.shape[0]))

    @property
    def n(self) -> int:
        """Number of observations."""
        return int(self.X.shape[0])

    def not_finite(self, row: int, column: int) -> NotFiniteError:
        """Return the error for an entry that is not finite, with the name of its column if it has one."""
        return NotFiniteError(row, column, None if self.feature_names is None else self.feature_names[column])

    def check_finite(self) -> None:
        """Raise `NotFiniteError` unless all entries of X are finite."""
        if (at := non_finite_entry(self.X)) is not None:
            raise self.not_finite(*at)

    @property
    def counted(self) -> Indices:
        """The observations that count: all but those of weight 0."""
        return np.flatnonzero(self.weight)

    def names(self, d: int, *, has_intercept: bool) -> tuple[str, ...]:
        """Return the names of d features, after that of the intercept if there is one."""
        names = self.feature_names or tuple(f"x{j}" for j in range(d))
        names = (INTERCEPT, *names) if has_intercept else names
        name, count = Counter(names).most_common(1)[0]
        if count > 1:
            instead = ", or use fit_intercept=False" if name == INTERCEPT else ""
            raise ValueError(f"Two coefficients would be called {name!r}. Rename a column of X{instead}.")
        return names

    def classes(self, y: Any, family: str) -> Classes:
        """Return the classes of the response, which must suit the family and have some weight each."""
        classes, name = read_classes(y, self.n), response_name(y)
        count = len(classes.labels)
        shown = ", ".join(classes.labels[:_SHOWN]) + (", ..." if count > _SHOWN else "")
        if family == "binomial" and count > 2:
            raise ValueError(
                f"{name} must hold two classes with family='binomial'; got {count} ({shown}). Use "
                "family='multinomial' for classes, 'ordinal' for ordered classes or 'poisson' for counts; "
                "give proportions as two columns, successes and failures."
            )
        if count < 2:
            least = "two classes" if family == "binomial" else "at least two classes"
            raise ValueError(
                f"{name} must hold {least}; got {count} ({shown}). Is this the response, and are all rows "
                "there?"
            )
        if family == "ordinal" and count > 2 and not classes.is_ordered:
            raise ValueError(
                f"{name} holds text, whose alphabetical order ({shown}) says nothing about the order of the "
                "classes. Give numbers, or a categorical with its categories in order."
            )
        if not (kept := np.bincount(classes.codes, self.weight > 0.0)).all():
            label = classes.labels[int(np.argmin(kept))]
            raise ValueError(
                f"Every row of class {label} of {name} has sample_weight 0, so nothing is known about it. "
                "Drop its rows, or check the weights."
            )
        return classes


def response_name(y: Any) -> str:
    """Return what errors call the response: ``y``, and the name of its column if it has one."""
    columns = column_names(y)
    name = columns[0] if columns is not None and len(columns) == 1 else getattr(y, "name", None)
    return f"y ({name!r})" if isinstance(name, str) and name else "y"


def response_names(y: Any) -> tuple[str, ...]:
    """Return the name of the response, or those of its two columns of counts, as sentences say them."""
    if len(np.shape(y)) == 2 and np.shape(y)[1] == 2:
        return column_names(y) or ("successes", "failures")
    columns = column_names(y) or (getattr(y, "name", None),)
    return (columns[0] if isinstance(columns[0], str) and columns[0] else "y",)


def column_of(data: Any, name: str) -> Any:
    """Return the column of a name of a data frame or a dict; of a matrix the names are x0, x1 and so on."""
    if isinstance(data, Mapping) or name in getattr(data, "column_names", getattr(data, "columns", ())):
        return data[name]
    X = read_design(data)
    return X[:, [int(name[1:])]].toarray()[:, 0] if hasattr(X, "tocsr") else X[:, int(name[1:])]


def read_classes(y: Any, n: int) -> Classes:
    """Return the classes of n observations; categories without an observation are left out.

    Examples
    --------
    >>> read_classes(["b", "a", "b"], 3)
    Classes(codes=array([1, 0, 1]), labels=('a', 'b'), is_ordered=False)
    """
    name = response_name(y)
    if is_frame(y) and y.shape[1] == 1:
        y = y.iloc[:, 0] if hasattr(y, "iloc") else y.to_series()
    if (known := _categories(y)) is None:
        labels = check_labels(y, n, name)
        try:
            categories = np.unique(labels)
        except TypeError as error:
            raise ValueError(f"{name} must hold numbers or text that can be sorted: {error}.") from error
        names = tuple(map(class_text, categories.tolist()))
        return Classes(np.searchsorted(categories, labels), names, not isinstance(categories[0], str | bytes))
    codes, values = known
    if codes.shape != (n,):
        raise ValueError(f"{name} must hold one label for each of the {n} rows of X; got {codes.size}.")
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise ValueError(f"{name} has no label at row {row}. Fill it in, or drop the row.")
    used, codes = np.unique(codes, return_inverse=True)
    return Classes(codes.astype(np.int64), tuple(class_text(values[k]) for k in used.tolist()), True)


def read_counts(y: Any, n: int) -> Array:
    """Return the successes and failures of n observations, in two columns: counts, or shares of sum 1."""
    counts = _read_numbers(y, "y")
    if counts.shape != (n, 2):
        raise ValueError(
            f"y must hold successes and failures for each of the {n} rows of X; got shape {counts.shape}."
        )
    is_share = (np.abs(counts.sum(axis=1) - 1.0) < _SHARE_ROUNDING).all()
    bad = (counts < 0.0) | ((counts != np.floor(counts)) & (not is_share))
    if bad.any():
        row, column = (int(k) for k in np.argwhere(bad)[0])
        word = ("successes", "failures")[column]
        raise ValueError(
            f"{_place(y, 'y', row, column)}: expected a number of {word}, an integer of at least 0; got "
            f"{counts[row, column]:g}. Correct it, or use sample_weight for weights that are no counts."
        )
    return counts


def read_amounts(y: Any, n: int) -> Array:
    """Return the response of a Poisson regression: numbers of at least 0, integers or not."""
    name = response_name(y)
    amounts = _read_numbers(y, name)
    amounts = amounts[:, 0] if amounts.ndim == 2 and amounts.shape[1] == 1 else amounts
    if amounts.shape != (n,):
        raise ValueError(
            f"{name} must hold one number for each of the {n} rows of X; got shape {amounts.shape}."
        )
    if (amounts < 0.0).any():
        row = int(np.argmax(amounts < 0.0))
        raise ValueError(
            f"{name} must not be negative with family='poisson'; row {row} has {amounts[row]:g}. Is this the "
            "response?"
        )
    return amounts


def read_design(X: Any) -> Any:
    """Return X as floating-point numbers, dense or CSR; no copy is made if X holds such numbers."""
    if hasattr(X, "tocsr"):
        check_shape(X.shape)
        return canonical_csr(X)
    if not is_frame(X):  # Of a data frame `as_float` names the column of a value that is missing.
        X = as_array(X)
        _check_missing(X, X, "X")
    try:
        X = as_float(X)
    except TextError as error:
        raise ValueError(f"{error} separability.from_formula does so: 'y ~ age + stage'.") from None
    check_shape(X.shape)
    return X


def _categories(y: Any) -> tuple[Indices, list[Any]] | None:
    """Return codes and categories of a categorical of pandas or an Enum of polars; None of other data.

    The codes of a missing value are negative. The categories of a polars Categorical have no order.
    """
    dtype: Any = getattr(y, "dtype", None)
    if type(dtype).__name__ == "Enum":
        return y.to_physical().cast(int).fill_null(-1).to_numpy(), dtype.categories.to_list()
    if type(dtype).__name__ != "CategoricalDtype":
        return None
    return np.asarray(getattr(y, "cat", y).codes, np.int64), list(dtype.categories)


def _read_numbers(y: Any, name: str) -> Array:
    """Return numbers as float64; a missing one is an error that names its row."""
    found = as_array(y, name)
    _check_missing(y, found, name)
    numbers = np.asarray(as_float(y if is_frame(y) else found, name), np.float64)
    if not np.isfinite(numbers).all():
        at = tuple(np.argwhere(~np.isfinite(numbers))[0].tolist())
        raise ValueError(
            f"{_place(y, name, *at)}: expected a finite number; got {numbers[at]}. Fill it in, or drop it."
        )
    return numbers


def _check_missing(data: Any, found: npt.NDArray[Any], name: str) -> None:
    """Raise ``ValueError`` if an array of objects has an entry None, NaN or NA."""
    if found.dtype != object or not found.size:
        return
    missing = np.array([x is None or type(x).__name__ == "NAType" or x != x for x in found.flat], bool)
    if missing.any():
        at = np.unravel_index(int(np.argmax(missing)), found.shape)
        raise ValueError(
            f"{_place(data, name, *map(int, at))}: expected a number, got none (a missing value). "
            "Fill it in, or drop the row."
        )


def _place(data: Any, name: str, row: int, column: int = 0) -> str:
    """Return the words for an entry: its row, and the name or the number of its column in a matrix."""
    if np.ndim(data) < 2 and not is_frame(data):
        return f"{name} at row {row}"
    names = column_names(data)
    return f"{name} at row {row}, column {column if names is None else repr(names[column])}"
