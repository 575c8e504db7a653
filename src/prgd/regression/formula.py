"""Regressions that are written as formulas, such as ``HG ~ NV + PI + EH``, over data frames.

Formulaic reads formulas, makes sparse matrices, and orders, codes and names terms nearly as R does. Columns
are brought to pandas first, since it codes other frames differently.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from prgd.core.checks import unknown
from prgd.core.errors import imported
from prgd.core.types import Array
from prgd.regression.formula_limits import check_safe, check_size, check_terms, names_in
from prgd.regression.responses import INTERCEPT
from prgd.regression.result import Separability
from prgd.regression.separability import Regression, factor_levels, labels_of, predictors, shares_as_counts
from prgd.regression.words import answers
from prgd.rows.exact import as_float, check_exact

_DENSE_FRACTION = 0.3  # a design matrix with a larger fraction of non-zeros is stored as a dense array
# What is cut from messages of formulaic: colours, places, and a consequence that is not drawn here.
_MARKS = re.compile(r"\x1b\[[\d;]*m|[⧛⧚]| \(<unknown>.*?\)| They are being cast to nan.*")
_HINTS = {  # what to do about messages of formulaic, which say it in the words of its own parser
    "[KeyError": "Write names with spaces or marks in backticks, without Q.",
    "Missing operator": "Write + between terms, and names with spaces in backticks.",
    "operator '='": "Write ~ between the response and the terms.",
    "context marker": "A parenthesis lacks its partner.",
    "categories outside": "The model has no coefficient for them: leave their rows out.",
    "Operator `|`": "There are no random effects here: write (1|g) as g.",
}
_INSTEAD = {"factor": "C", "ns": "cr", "numpy": "np"}  # names of R and Python -> those of formulas here
_OFFSET = re.compile(r"offset\((.*)\)")


@answers
def from_formula(
    formula: str,
    data: Any,
    *,
    family: str = "binomial",
    sample_weight: Any = None,
    max_seconds: float = math.inf,
) -> Separability:
    r"""Say which coefficients of a regression, written as a formula, are infinite, and prove it.

    Parameters
    ----------
    formula : str
        A response and terms, as in R: ``"HG ~ NV + PI + EH"``, ``"y ~ age * C(stage) - 1"``. Counts of
        successes and failures are ``"cbind(successes, failures) ~ ..."`` or ``"successes + failures ~ ..."``.
        Text, categories and truth values are factors with treatment coding: the first level, in the order
        of a categorical or else sorted, is the reference. Of a response with two levels the second one is
        the event. A term ``offset(...)`` does not change the verdict, and ``fit`` uses it. Expressions are
        run as Python code: read no formula of strangers.
    data : data frame or mapping
        A frame of pandas, polars or pyarrow, or a dict from names to columns. Only the columns that the
        formula uses are read, and no value of them may be missing.
    family : {"binomial", "multinomial", "ordinal", "poisson"}
    sample_weight : array of shape (n,) or str, optional
        Weights or counts of the rows, or the name of their column. Rows of weight 0 do not count.
    max_seconds : float
        Seconds after which what is not proven yet is ``undecided``.

    Returns
    -------
    Separability
        The intercept is called ``(Intercept)``, other coefficients as columns: ``age``, ``C(stage)[T.IV]``.

    Raises
    ------
    ValueError
        If the formula cannot be read, a column is not in the data, or a value is missing; it names the place.

    Examples
    --------
    >>> data = {"cured": ["no", "yes", "no", "yes", "yes"], "dose": [1, 2, 3, 4, 2], "drug": list("aaaab")}
    >>> found = from_formula("cured ~ dose + drug", data)
    >>> found.coefficients
    {'(Intercept)': 'finite', 'dose': 'finite', 'drug[T.b]': '+inf'}
    """
    regression = read_formula(formula, data, family=family, sample_weight=sample_weight)
    return regression.decide(max_seconds)


def read_formula(
    formula: str,
    data: Any,
    *,
    family: str = "binomial",
    sample_weight: Any = None,
    is_python: bool = True,
    is_full: bool = False,
) -> Regression:
    """Return the regression of a formula over a data frame; the arguments are those of `from_formula`.

    Without ``is_python``, expressions are refused that call other functions than those of `_SAFE`.
    ``is_full`` gives each level of a factor a column, the first one too.

    Examples
    --------
    >>> read = read_formula("y ~ x + g", {"y": [0, 1, 1], "x": [1, 2, 3], "g": ["u", "v", "u"]})
    >>> read.X.tolist(), read.names, read.y.tolist(), read.fit_intercept
    ([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], ('x', 'g[T.v]'), [0, 1, 1], True)
    """
    column = sample_weight if isinstance(sample_weight, str) else None
    table = FormulaColumns(data)
    parsed = Parsed.read(formula, table.names, is_python)
    frame = table.frame(parsed.used, parsed.looked_up)
    check_size(formula, parsed.formula.rhs, frame)
    if column is not None:
        sample_weight = as_float(table.column(column), f"Column {column!r}")
    matrices = parsed.matrices(parsed.formula, frame, is_full)
    left, right = matrices.lhs, matrices.rhs
    (X, names), fit_intercept = features_of(right, parsed.has_intercept), parsed.has_intercept
    if family == "ordinal" and not (names and fit_intercept):
        words = "an ordinal model has thresholds in place of an intercept. Leave 0 or - 1 out."
        words = "expected a term that varies beside the thresholds, got none." if fit_intercept else words
        raise ValueError(f"Formula {formula!r}: {words}")
    if fit_intercept and not names:  # Rows must have a column.
        X, names, fit_intercept = np.ones((len(frame), 1)), (INTERCEPT,), False
    if not names and not parsed.has_intercept:
        raise ValueError(f"Formula {formula!r}: expected terms after ~, got none. Add a column, or 1.")
    notes = tuple(f"The offset {words} does not change the verdict; fit uses it." for words in parsed.offsets)
    y = _response(left, parsed, frame)
    if family == "binomial" and getattr(y, "ndim", 0) == 1 and y.dtype.kind == "f":
        y = shares_as_counts(y)
    read = partial(read_formula, formula, family=family, is_python=is_python, sample_weight=column)
    own = {"read": read, "factors": factor_levels(right.model_spec), "row_labels": labels_of(data)}
    own |= {"offset": _offset(matrices), "variables": predictors(frame, right.model_spec)}
    own["design"] = partial(parsed.new_design, matrices.model_spec)
    return Regression(X, y, names, family, fit_intercept, sample_weight, notes, **own)


def columns_of(formula: str, names: Sequence[str], is_python: bool = True) -> tuple[str, ...]:
    """Return the columns that a formula uses, of those that the data have."""
    return Parsed.read(formula, names, is_python).used


class FormulaColumns:
    """The columns of a data frame of any library, or of a dict, one by one as pandas takes them."""

    def __init__(self, data: Any) -> None:
        named: Any = None
        if isinstance(data, Mapping):
            named = list(data)
        elif hasattr(data, "__getitem__") and not hasattr(data, "collect"):
            named = getattr(data, "column_names", None) or getattr(data, "columns", None)
        if named is None:
            raise TypeError(
                "data must be a data frame of pandas, polars or pyarrow, or a dict from names to columns; "
                f"got {type(data).__name__}. Collect a lazy frame, or give an array's columns names."
            )
        self._data, self._keys = data, {str(name): name for name in named}
        self.names = list(self._keys)

    def column(self, name: str, used: Sequence[str] = ()) -> Any:
        """Return a column without missing values, as a pandas Series of numbers, truth values or levels."""
        if name not in self.names:
            raise unknown("column", name, self.names)
        values = self._data[self._keys[name]]
        if getattr(values, "ndim", 1) != 1:
            raise ValueError(
                f"Column {name!r} of data must be one column; got shape {values.shape}. Rename columns of "
                "one name, and give each column of an array a name of its own."
            )
        series = _series(values)
        if (missing := series.isna().to_numpy()).any():
            raise ValueError(
                f"data at row {int(np.argmax(missing))}, column {name!r}: the value is missing, as in "
                f"{int(missing.sum()):,} of {missing.size:,} rows. Fill it in, or drop the rows: "
                f"data.dropna(subset={list(used) or [name]})."
            )
        return _checked(series, name)

    def frame(self, names: Sequence[str], looked_up: frozenset[str]) -> Any:
        """Return some columns as a pandas data frame; truth values are levels if only ``looked_up``."""
        import pandas as pd

        columns = {name: self.column(name, names) for name in names}
        for name, series in columns.items():
            if series.dtype == bool and name in looked_up:
                columns[name] = pd.Series(pd.Categorical(series, categories=[False, True]))
                columns[name] = columns[name].cat.remove_unused_categories()
        lengths = {name: len(series) for name, series in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"All columns of data must have one length; got {lengths}.")
        if not any(lengths.values()):
            raise ValueError("data must have rows; got none, or a formula without columns.")
        return pd.DataFrame(columns)


def _series(values: Any) -> Any:
    """Return a column of any library as a pandas Series; the order of declared levels is kept."""
    import pandas as pd

    if type(values).__module__.startswith("pyarrow"):
        values = values.to_pandas()
    elif type(getattr(values, "dtype", None)).__name__ == "Enum":  # polars
        values = pd.Categorical(values.to_list(), categories=values.dtype.categories.to_list())
    elif type(values).__module__.startswith("polars"):
        is_wide = str(values.dtype).startswith(("Decimal", "Int128"))  # to_numpy would round them
        values = np.array(values.to_list(), object) if is_wide else values.to_numpy()
    return pd.Series(values).reset_index(drop=True).infer_objects()


def _checked(series: Any, name: str) -> Any:
    """Return a column whose numbers are finite and exact in float64, and whose text are levels."""
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return series.cat.remove_unused_categories()  # R drops them too.
    if pd.api.types.is_bool_dtype(dtype):
        return series.astype(bool)
    is_mixed = pd.api.types.is_object_dtype(dtype)
    if all(isinstance(x, str) for x in series) if is_mixed else pd.api.types.is_string_dtype(dtype):
        return series
    what = f"Column {name!r} of data"
    values = series.to_numpy(getattr(dtype, "numpy_dtype", None))
    values = as_float(values, what) if values.dtype == object else check_exact(values, what)
    if not (finite := np.isfinite(values)).all():
        row = int(np.argmin(finite))
        raise ValueError(f"data at row {row}, column {name!r}: expected a finite number, got {values[row]}.")
    return pd.Series(values)


@dataclass(frozen=True)
class Parsed:
    """A formula that formulaic has read.

    Attributes
    ----------
    text, response : str
    formula : formulaic.Formula
        Its terms, with those of offsets apart.
    used : tuple of str
        The columns that it uses.
    looked_up : frozenset of str
        Those that are terms, or parts of interactions, by themselves and never inside an expression.
    """

    text: str
    response: str
    formula: Any
    used: tuple[str, ...]
    looked_up: frozenset[str]
    has_intercept: bool
    offsets: tuple[str, ...]

    @classmethod
    def read(cls, text: str, columns: Sequence[str], is_python: bool) -> Parsed:
        """Parse a formula; ``columns`` are those of the data, among which ``.`` stands for all others."""
        imported("formulaic", "A formula", "formula")
        from formulaic import Formula
        from formulaic.parser import DefaultFormulaParser
        from formulaic.transforms import TRANSFORMS

        if not isinstance(text, str):
            raise TypeError(f"formula must be text such as 'y ~ x1 + x2'; got {type(text).__name__}.")
        context = {"__formulaic_variables_available__": list(columns)}
        try:
            check_terms(DefaultFormulaParser().get_ast(text, context=context), len(columns))
            whole = Formula(text, _context=context)
        except Exception as error:  # Formulaic lets errors of Python's own parser through.
            raise _failed(text, error) from error
        left: Any = getattr(whole, "lhs", ())
        right: Any = getattr(whole, "rhs", ())
        if not len(left) or isinstance(left, tuple) or isinstance(right, tuple):
            raise ValueError(
                f"Formula {text!r}: expected a response, ~ and terms, such as 'y ~ x1 + x2'; counts are "
                "'cbind(successes, failures) ~ x1 + x2'."
            )
        offsets = [term for term in right if _OFFSET.fullmatch(str(term))]
        kept = [term for term in right if term not in offsets]
        factors = [factor for term in (*left, *right) for factor in term.factors]
        alone = {factor.expr for factor in factors if factor.eval_method.value == "lookup"}
        expressions = [factor.expr for factor in factors if factor.eval_method.value == "python"]
        found = [names_in(expression) for expression in expressions]
        inside = {name for values, _ in found for name in values if name in columns or name not in TRANSFORMS}
        functions = {name for _, called in found for name in called} - {"cbind", "offset", *TRANSFORMS}
        names = alone | inside | functions
        if lost := sorted(names - set(columns)):
            raise ValueError(f"Formula {text!r}: {_unknown_name(lost[0], columns, functions)}")
        check_safe(text, [] if is_python else expressions, columns)
        return cls(
            text,
            text.partition("~")[0].strip(" `"),
            Formula(lhs=list(left), rhs=kept, **({"offset": offsets} if offsets else {})),
            tuple(name for name in columns if name in names),
            frozenset(names - inside),
            any(str(term) == "1" for term in kept),
            tuple(str(term)[len("offset(") : -1] for term in offsets),
        )

    def new_design(self, specs: Any, data: Any) -> tuple[Any, Array | None]:
        """Return the features, without the intercept, and the offset of other data."""
        table = FormulaColumns(data)
        # Columns that the response alone names need not be there.
        used = [x for x in self.used if x != self.response and (x in table.names or x not in self.response)]
        frame = table.frame(used, self.looked_up)
        parts = {name: spec for name, spec in specs._structure.items() if name != "lhs"}
        found = self.matrices(type(specs)(**parts), frame)
        X, names = features_of(found.rhs, self.has_intercept)
        return X if names else np.ones((len(frame), 1)), _offset(found)

    def matrices(self, formula: Any, frame: Any, is_full: bool = False) -> Any:
        """Return the sparse matrices of a formula, or of specifications learnt from other data."""
        context = {"cbind": _bound, "offset": lambda column: column}
        options: Any = {"context": context, "output": "sparse", "ensure_full_rank": not is_full}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.filterwarnings("error", message="Data has categories outside")
            try:
                found = formula.get_model_matrix(frame, na_action="ignore", **options)
            except Exception as error:  # An expression of a formula may raise anything.
                raise _failed(self.text, error) from error
        for matrix in found._structure.values():
            if not np.isfinite(matrix.data).all():
                at = matrix.tocoo()
                k = int(np.flatnonzero(~np.isfinite(at.data))[0])
                words = f"{matrix.model_spec.column_names[at.col[k]]} is {at.data[k]} at row {at.row[k]}"
                advice = "Change the expression, or drop the row."
                raise ValueError(f"Formula {self.text!r}: {words}, and must be finite. {advice}")
        return found


def _offset(found: Any) -> Array | None:
    """Return the sum of the offsets of a formula; None if it has none."""
    matrix = getattr(found, "offset", None)
    return None if matrix is None else np.asarray(matrix.sum(axis=1), np.float64).ravel()


def _bound(*columns: Any) -> Any:
    """Return the columns of ``cbind(...)`` of R as a data frame."""
    import pandas as pd

    named = [pd.Series(column) for column in columns]
    return pd.concat([column.rename(column.name or k) for k, column in enumerate(named)], axis=1)


def _unknown_name(name: str, columns: Sequence[str], functions: set[str]) -> str:
    """Return what is said about a name of a formula that is neither a column nor a function."""
    if name in _INSTEAD:
        return f"Unknown name {name!r}: write {_INSTEAD[name]} instead."
    if name not in functions:
        return str(unknown("column", name, columns))
    from formulaic.transforms import TRANSFORMS

    advice = "Functions are those of formulaic and np: compute others first, as columns of the data."
    return f"{unknown('function', name, TRANSFORMS)} {advice}"


def _failed(text: str, error: Exception) -> ValueError:
    """Return the error for a formula that cannot be read, as one line."""
    words = _MARKS.sub("", " ".join(str(error).split())).removesuffix(text).strip()
    hints = "".join(f" {hint}" for mark, hint in _HINTS.items() if mark in words)
    return ValueError(f"Formula {text!r}: {words or type(error).__name__}{hints}")


def features_of(matrix: Any, has_intercept: bool) -> tuple[Any, tuple[str, ...]]:
    """Return the design matrix without its intercept, dense unless that is wasteful, and its names."""
    from scipy.sparse import csr_array

    names = tuple(map(str, matrix.model_spec.column_names))[int(has_intercept) :]
    X = csr_array(matrix.tocsr()[:, int(has_intercept) :], dtype=np.float64)
    is_dense = X.nnz > _DENSE_FRACTION * X.shape[0] * X.shape[1]
    return X.toarray() if is_dense or not names else X, names


def _response(matrix: Any, parsed: Parsed, frame: Any) -> Any:
    """Return the response under its name: numbers, labels or levels, or a frame with two counts."""
    import pandas as pd

    name = parsed.response
    if name in frame and name in parsed.looked_up:
        return frame[name]
    states = list(matrix.model_spec.encoder_state.values())
    levels = [list(state["categories"]) for kind, state in states if kind.value == "categorical"]
    if levels and len(states) > 1:
        raise ValueError(
            f"The response {name!r} mixes levels and other columns. Give one column, or two counts."
        )
    if levels:  # Levels in another order than the sorted one were given by the user.
        y = pd.Categorical.from_codes(matrix.tocsr().indices, levels[0])
        return pd.Series(y if levels[0] != sorted(levels[0]) else np.asarray(y), name=name)
    names = [
        str(column).removeprefix(f"{name}[").removesuffix("]") for column in matrix.model_spec.column_names
    ]
    values = pd.DataFrame(matrix.toarray(), columns=names)
    return values.iloc[:, 0].rename(name) if len(names) == 1 else values
