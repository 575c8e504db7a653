"""`separability`: whether the classes separate and which coefficients are infinite, with the proof.

`prgd.separation` decides about the rows of a model, and `prgd.regression.signs` about its coefficients.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from prgd.core.checks import check_positive
from prgd.core.threads import limited, single_blas
from prgd.core.types import Array, Indices, Mask
from prgd.proofs.column_relations import near_relations
from prgd.proofs.lifted_rows import KeptColumns
from prgd.regression.advice import listed, sum_in_words
from prgd.regression.coefficients import Coefficients
from prgd.regression.families import ModelRows, Name, limiting_rows, model_rows
from prgd.regression.responses import INTERCEPT
from prgd.regression.result import INTERRUPTED_LATE, REPEATED_LABELS, Separability, is_unique
from prgd.regression.signs import find_coefficients, undecided_coefficients
from prgd.regression.words import answers
from prgd.rows.exact import check_shape
from prgd.running.progress import tell_stage
from prgd.separation.search import decide
from prgd.separation.verdict import Separation, Verdict

_GLM_TOLERANCE = 1e-11  # residual, as a fraction of the column, below which R's glm reports NA
_NOTES = 4  # nearly aliased columns that have a note of their own
_TERMS = 6  # terms of a combination that a note shows
_VECTORS = 46  # numbers, names and fractions that a verdict holds for each column, measured in numbers
_SECONDS, _SECONDS_PER_ENTRY = 30.0, 1e-5  # what a verdict may take, if the caller says nothing
_PANELS = 64  # parts in which a decomposition multiplies the columns


@answers
def separability(
    X: Any,
    y: Any = None,
    *,
    family: str = "binomial",
    fit_intercept: bool = True,
    sample_weight: Any = None,
    max_seconds: float = math.inf,
) -> Separability:
    r"""Say whether the classes separate and which coefficients of a regression are infinite, and prove it.

    With ``z_i = y_i (x_i, 1)`` and ``v = (w, b)``, exactly one is true:

    - ``separable``: some v has :math:`Z v > 0`;
    - ``quasi-separable``: none has, but some has :math:`Z v \ge 0` and :math:`Z v \ne 0`;
    - ``not separable``: some :math:`p > 0` has :math:`Z^\top p = 0` (Stiemke).

    Parameters
    ----------
    X : array, sparse matrix, data frame or Rows
        Dense or sparse, in memory, mapped or chunked. A data frame's column names are used in the
        explanation. The verdict is about these float64 numbers, taken literally. Large data are read in
        passes; only some of their rows are copied.
    y : array of shape (n,), or (n, 2) of counts: successes, failures
        The response. Of two labels the second in order (1, True) is the event; the order is that of a
        categorical if y is one. None if X is an engine that holds the labels.
    family : {"binomial", "multinomial", "poisson", "ordinal"}
        The model whose coefficients are asked about. The rows z_i of the other families stand in
        ``prgd.regression.families.model_rows``.
    fit_intercept : bool
        False asks for a hyperplane through the origin.
    sample_weight : array of shape (n,), optional
        Counts or other weights. Observations of weight 0 do not count; the size of the others changes
        nothing. Nor does an offset, so none is taken.
    max_seconds : float
        Seconds after which what is not proven yet is ``undecided``, as after Ctrl-C. Without a limit it is
        30 s and 10 microseconds for each number of the model's rows.

    Returns
    -------
    Separability
        ``print`` explains the verdict, ``coefficients`` has a word for each coefficient, and ``check`` proves
        all of them again.

    Raises
    ------
    ValueError
        If y does not suit the family (one class, three classes without multinomial, negative counts), a
        value is missing or not finite, or X holds numbers that float64 cannot; column and row are named.

    Notes
    -----
    Duplicate rows with opposite labels, or one feature that separates alone, are found in one pass, and an
    exact simplex method decides small problems. Then some steps of dual acceleration look for a separating
    direction, and a self-dual interior point for the partition into separated and boundary rows, once
    columns of one sign have separated theirs. Every proposal is proven with bounds
    on all rounding, or in integers. Ctrl-C returns ``undecided`` with the interval so far, or the
    verdict with the coefficients that are decided by then.

    See Also
    --------
    separability.from_formula : The same for a formula over a data frame: ``"HG ~ NV + PI + EH"``.
    separability.from_statsmodels : The same for a model or the results of statsmodels.

    References
    ----------
    Gordan (1873); Stiemke (1915); Goldman and Tucker (1956); Albert and Anderson (1984), On the existence
    of maximum likelihood estimates in logistic regression models; Konis (2007), the R package
    detectseparation.

    Examples
    --------
    >>> X = [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0], [1.0, 2.0]]
    >>> found = separability(X, ["no", "yes", "no", "yes", "yes"])
    >>> print(found)
    quasi-separable: x0 is infinite; (Intercept) and x1 are finite.
      the only row with x0 = 1 has y yes.
      the event is yes, against no: a coefficient of +inf is for it.
      quasi-complete separation: a hyperplane has no row on its wrong side, but each such one passes
        through rows.
      rows strictly on their correct side: 1 (number 4); on the hyperplane: 4 (numbers 0, 1, 2, 3).
      the hyperplane uses x0 (+1).
      Found by an exact simplex method; proven in exact integer arithmetic.
    -----------------------------------
    coefficient  verdict  rows involved
    -----------------------------------
    (Intercept)  finite
    x0           +inf     1 (number 4)
    x1           finite
    -----------------------------------
    x0 is infinite: drop x0, or use Firth's penalty or a prior; fit() estimates (Intercept) and x1 from
    the 4 limiting_rows.
    >>> found.check(X, ["no", "yes", "no", "yes", "yes"])
    True
    """
    regression = Regression(X, y, None, family, fit_intercept, sample_weight, row_labels=labels_of(X))
    return regression.decide(max_seconds)


def decide_model(model: ModelRows) -> Separability:
    """Return the verdict on the rows of a model with those on its coefficients."""
    check_shape((model.rows.n, model.rows.width), _VECTORS)
    # Decompositions multiply a panel of columns at a time, and most products are as small.
    with single_blas(model.rows.n * model.rows.width**2 / _PANELS):
        found = decide(model.rows)
        if found.verdict is Verdict.UNDECIDED:
            return with_evidence(found, model, undecided_coefficients(model.columns))
        tell_stage(f"{found.verdict}; the coefficients")
        try:
            evidence = find_coefficients(model, found)
        except KeyboardInterrupt:
            evidence = replace(undecided_coefficients(model.columns), is_interrupted=True)
        near, notes = _near_notes(model, evidence)
        return replace(with_evidence(found, model, evidence), nearly_aliased=near, notes=tuple(notes))


def _near_notes(model: ModelRows, evidence: Coefficients) -> tuple[tuple[str, ...], list[str]]:
    """Return the columns of a model that are combinations of earlier ones up to rounding, and notes on them.

    In exact arithmetic such columns, as of centimetres and inches, are independent, so no verdict changes;
    but the user must know, since their difference is rounding and R's glm leaves them out.
    """
    bare = {
        j: name if isinstance(name, str) else name[1]
        for j, name in zip(model.columns.tolist(), model.names, strict=True)
        # The columns of a multinomial model repeat for each class; those of one class hold all observations.
        if isinstance(name, str) or name[0] == model.names[0][0]
    }
    kept = [j for j in evidence.kept if j in bare]
    if not evidence.basis.size or evidence.is_interrupted:
        return (), []
    try:
        relations = near_relations(KeptColumns(model.rows, kept))
    except KeyboardInterrupt:  # The verdict is complete without the notes.
        return (), []
    is_ordinal = model.family == "ordinal"
    constants = model.columns[: len(model.classes) - 1 if is_ordinal else int(model.fit_intercept)].tolist()
    names = tuple(bare[kept[relation.column]] for relation in relations)
    notes = []
    for name, relation in zip(names[:_NOTES], relations, strict=False):
        terms = {kept[k]: c for k, c in relation.terms.items()}
        features = {bare[j]: c for j, c in terms.items() if j not in constants}
        # A constant column is minus the sum of all thresholds, which have the other sign than coefficients.
        for c in [terms[j] for j in constants[:1] if j in terms]:
            features[""] = -c if is_ordinal else c
        words = sum_in_words(dict(sorted(features.items(), key=lambda term: term[1] < 0.0)), _TERMS)
        size = f"{max(relation.residual, np.finfo(float).eps):.0e}"
        is_glm = model.family in ("binomial", "poisson") and relation.residual < _GLM_TOLERANCE
        glm = ": R's glm would report NA for it" if is_glm else ""
        notes.append(
            f"{name} is {words} up to rounding ({size} of its size){glm}. The verdicts take the numbers "
            f"literally; drop {name} and ask again."
        )
    if others := names[_NOTES:]:
        depend = "depends" if len(others) == 1 else "depend"
        notes.append(f"Up to rounding, {listed(others)} {depend} on earlier columns too.")
    return names, notes


def with_evidence(found: Separation, model: ModelRows, evidence: Coefficients) -> Separability:
    """Return a verdict on the rows of a model with those on its coefficients."""
    columns = model.columns.tolist()
    named = dict(zip(columns, model.names, strict=True))
    known = {
        **vars(found),
        "fit_intercept": model.fit_intercept,
        "feature_names": model.feature_names,
        "how": f"{found.how} {INTERRUPTED_LATE}" if evidence.is_interrupted else found.how,
    }
    return Separability(
        **known,
        family=model.family,
        coefficients={named[j]: evidence.behaviours[j] for j in columns},
        max_margin_signs={named[j]: sign for j, sign in evidence.max_margin_signs.items()},
        limiting_rows=limiting_rows(model, found.boundary_rows),
        classes=model.classes,
        model=model,
        _evidence=evidence,
    )


@dataclass(frozen=True, eq=False)
class Regression:
    """A regression as a formula or a model of statsmodels states it.

    Attributes
    ----------
    X : array, sparse matrix, data frame or Rows of shape (n, d)
        The columns of the design matrix but for an intercept that ``fit_intercept`` adds.
    y : array of shape (n,), array of counts of shape (n, 2), or pandas Series of categories
    names : tuple of str or None
        The names of the columns of X; None for those of a data frame.
    family : str
    fit_intercept : bool
    sample_weight : ndarray of shape (n,) or None
    notes : tuple of str
        What the user should be told, such as that an offset does not matter.
    own_names : tuple of str
        What the user calls the intercept, or the thresholds of an ordinal model, if not as R does.
    read : function or None
        Returns the regression of other data, or another model, that are given in the same way.
    factors : dict from str to tuple
        The levels of each factor, by the expression that names its columns.
    row_labels : pandas Index, ndarray or None
        The labels of the rows in the user's data.
    variables : pandas DataFrame or None
        The columns of the user's data from which a formula has made X; None if X has the user's columns.
    offset : ndarray of shape (n,) or None
        What the model adds to the linear predictor.
    link : str
    design : function or None
        Returns X and the offset of other data.
    is_given : ndarray of bool of shape (n,), or True
        Which rows are data; others, which have missing values, only keep the place of their row numbers.
    """

    X: Any
    y: Any
    names: tuple[str, ...] | None
    family: str = "binomial"
    fit_intercept: bool = True
    sample_weight: Array | None = None
    notes: tuple[str, ...] = ()
    own_names: tuple[str, ...] = ()
    read: Callable[..., Regression] | None = None
    factors: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    row_labels: Any = None
    variables: Any = None
    offset: Array | None = None
    link: str = "logit"
    design: Callable[[Any], tuple[Any, Array | None]] | None = None
    is_given: Mask | bool = True

    def decide(self, max_seconds: float = math.inf) -> Separability:
        """Return the verdict on this regression."""
        if max_seconds != math.inf:
            check_positive("max_seconds", max_seconds)
        model = self.model()
        with limited(min(max_seconds, _SECONDS + _SECONDS_PER_ENTRY * model.rows.n * model.rows.width)):
            found = decide_model(model)
        own: Any = {"_read": self.read, "_factors": self.factors, "_regression": self}
        found = replace(found, notes=(*self.notes, *found.notes), **own)
        return with_labels(found, self.row_labels)

    def placed(self, rows: Indices, n: int) -> Regression:
        """Return the same regression among n rows, of which it is these; the others have weight 0."""
        weight = np.zeros(n)
        weight[rows] = 1.0 if self.sample_weight is None else self.sample_weight
        source = np.zeros(n, np.int64)  # Rows that do not count are copies of the first one.
        source[rows] = np.arange(rows.size)
        y = self.y.iloc[source] if hasattr(self.y, "iloc") else self.y[source]
        table = None if self.variables is None else self.variables.iloc[source]
        offset = None if self.offset is None else self.offset[source]
        fields = {"X": self.X[source], "y": y, "sample_weight": weight, "variables": table, "offset": offset}
        return replace(self, **fields, is_given=np.isin(np.arange(n), rows), read=None, row_labels=None)

    def model(self) -> ModelRows:
        """Return the rows of this regression, with the user's names of the coefficients."""
        model = model_rows(
            self.X,
            self.y,
            family=self.family,
            fit_intercept=self.fit_intercept,
            sample_weight=self.sample_weight,
            feature_names=self.names,
        )
        return replace(model, names=self._renamed(model.names), offset=self.offset, link=self.link)

    def _renamed(self, names: tuple[Name, ...]) -> tuple[Name, ...]:
        """Return the names of the coefficients with the user's own names for intercept and thresholds."""
        if not self.own_names:
            return names
        if self.family == "ordinal":
            return (*self.own_names, *names[len(self.own_names) :])
        own = {INTERCEPT: self.own_names[0]}
        return tuple(
            own.get(name, name) if isinstance(name, str) else (name[0], own.get(name[1], name[1]))
            for name in names
        )


def shares_as_counts(y: Any) -> Any:
    """Return shares of successes between 0 and 1 as two columns; other numbers, and labels, as they are.

    Examples
    --------
    >>> shares_as_counts(np.array([0.0, 0.25, 1.0])).tolist()
    [[0.0, 1.0], [0.25, 0.75], [1.0, 0.0]]
    """
    if ((y >= 0) & (y <= 1)).all() and ((y > 0) & (y < 1)).any():
        return np.column_stack([y, 1.0 - y])
    return y


def factor_levels(spec: Any) -> dict[str, tuple[Any, ...]]:
    """Return the levels of the factors of a design that formulaic, or patsy, has made; None has none."""
    return {
        name: tuple(level.item() if isinstance(level, np.generic) else level for level in levels)
        for name, levels in _expressions(spec).items()
        if levels is not None
    }


def _expressions(spec: Any) -> dict[str, Any]:
    """Return the expressions of a design in the words of its formula, with the levels of factors."""
    if hasattr(spec, "factor_infos"):
        return {k.name(): info.categories for k, info in spec.factor_infos.items()}
    states = getattr(spec, "encoder_state", {})
    return {str(k): state.get("categories") for k, (_, state) in states.items()}


def predictors(frame: Any, spec: Any) -> Any:
    """Return the columns of a data frame that a design uses; numbers that it takes as levels become levels.

    Examples
    --------
    >>> import pandas as pd
    >>> from formulaic import Formula
    >>> frame = pd.DataFrame({"y": [0, 1], "stage": [1, 2], "dose": [2.0, 4.0]})
    >>> spec = Formula("C(stage) + np.log(dose)").get_model_matrix(frame).model_spec
    >>> predictors(frame, spec).dtypes.astype(str).to_dict()
    {'stage': 'object', 'dose': 'float64'}
    """
    found = {}
    for name in frame.columns:
        # A word in quotes is no name, unless Q marks it as one, nor is one that is called.
        word = re.compile(rf"(?<![\w.]){re.escape(str(name))}(?![\w.(])")
        texts = {re.sub(r"(?<!Q\()(['\"]).*?\1", "", text): of for text, of in _expressions(spec).items()}
        using = [levels for text, levels in texts.items() if word.search(text)]
        levels = {level for levels in using if levels is not None for level in levels}
        if using:
            is_factor = levels >= set(frame[name].tolist())
            found[name] = frame[name].astype(object) if is_factor else frame[name]
    return type(frame)(found)


def labels_of(data: Any) -> Any:
    """Return the labels of the rows of a pandas frame or series; None for what has none.

    Examples
    --------
    >>> import pandas as pd
    >>> list(labels_of(pd.DataFrame({"x": [1, 2]}, index=["u", "v"]))), labels_of([1, 2])
    (['u', 'v'], None)
    """
    return data.index if hasattr(data, "iloc") else None


def with_labels(found: Separability, labels: Any) -> Separability:
    """Return a verdict that knows the labels of its rows, with a note if they are not 0, 1, 2 and so on."""
    if labels is None or np.array_equal(np.asarray(labels), np.arange(len(labels))):
        return found
    rows = "X[found.limiting_labels]" if isinstance(labels, np.ndarray) else "data.loc[found.limiting_labels]"
    select = f"The limiting rows of the data are {rows}." if is_unique(labels) else REPEATED_LABELS
    note = f"Row numbers count the rows of the model from 0, and are not the labels of the data. {select}"
    # A verdict without separated rows prints no row numbers, and all of its rows are limiting rows.
    notes = (*found.notes, note) if found.separated_rows.size else found.notes
    return replace(found, row_labels=labels, notes=notes)
