"""Models and results of statsmodels, read by their class and attributes without importing statsmodels."""

from functools import partial
from typing import Any

import numpy as np

from prgd.core.types import Array
from prgd.regression.result import Separability
from prgd.regression.separability import Regression, factor_levels, predictors, shares_as_counts
from prgd.regression.words import answers
from prgd.rows.exact import as_float

# The family of each class of models, and for each family of GLM the links for which the verdict holds.
_FAMILIES = {
    "Logit": "binomial",
    "Probit": "binomial",
    "Poisson": "poisson",
    "MNLogit": "multinomial",
    "OrderedModel": "ordinal",
}
_LINKS = {"Binomial": ("Logit", "Probit", "CLogLog", "LogLog", "Cauchy"), "Poisson": ("Log",)}
_ACCEPTED = (
    "Logit, Probit, Poisson, MNLogit, OrderedModel, and GLM with the families Binomial (links Logit, Probit, "
    "CLogLog, LogLog, Cauchy) and Poisson (link Log)"
)


@answers
def from_statsmodels(model_or_results: Any) -> Separability:
    """Say which coefficients of a model of statsmodels are infinite, and prove it.

    Parameters
    ----------
    model_or_results : model or results of statsmodels
        Logit, Probit, Poisson, MNLogit, OrderedModel, or GLM with the family Binomial (one column or two) or
        Poisson. It need not be fitted. Rows whose ``freq_weights`` or ``var_weights`` are 0 do not count, and
        an offset or an exposure does not matter.

    Returns
    -------
    Separability
        Its coefficients have the names that statsmodels prints, ``(class, name)`` for MNLogit. Rows are
        numbered as in ``model.exog``, from 0. ``data.loc[found.limiting_labels]`` selects the limiting rows
        of a data frame, even if statsmodels has left some out (missing values, ``subset=``). The verdict is
        on the likelihood without a penalty; a note says so if results are those of ``fit_regularized``.

    Raises
    ------
    TypeError
        If the model is of another class, family or link.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> X = sm.add_constant([[0.0], [1.0], [2.0], [2.0], [3.0]])
    >>> found = from_statsmodels(sm.Logit([0, 0, 0, 1, 1], X))
    >>> found.coefficients
    {'const': '-inf', 'x1': '+inf'}
    """
    return read_model(model_or_results).decide()


def read_model(model_or_results: Any, sample_weight: None = None) -> Regression:
    """Return the regression of a model of statsmodels; the argument is that of `from_statsmodels`."""
    if sample_weight is not None:
        raise ValueError("A model of statsmodels has its own weights; got sample_weight too. Leave it out.")
    model = getattr(model_or_results, "model", model_or_results)
    family = _family(model)
    X, names = as_float(model.exog, "exog of the model"), [str(name) for name in model.exog_names]
    own_names = names[X.shape[1] :] if X.ndim == 2 and family == "ordinal" else []  # those of thresholds
    if X.ndim != 2 or len(names) - len(own_names) != X.shape[1]:
        raise ValueError(f"The model must have a name for each column of exog; got {len(names)}, {X.shape}.")
    y, weight = _response(model, family), _weights(model)
    # The exposure that a model of statsmodels stores is its logarithm.
    given = {word: getattr(model, word, None) for word in ("offset", "exposure")}
    added = {word: np.asarray(values, np.float64) for word, values in given.items() if np.any(values)}
    notes = tuple(f"The {word} of the model does not change the verdict; fit uses it." for word in added)
    dropped, labels = _labelled_rows(model)
    kind = type(getattr(model_or_results, "_results", model_or_results)).__name__
    if kind.startswith(("L1", "Regularized")):
        notes += ("The penalty of fit_regularized is ignored: the verdict is on the likelihood without it.",)
    notes += dropped
    spec = getattr(model.data, "model_spec", None) or getattr(model.data, "design_info", None)
    if family == "ordinal":
        d = X.shape[1]
        features, has_intercept, own = (X, y, tuple(names[:d])), True, tuple(names[d:])
    else:
        has_intercept = X.shape[1] > 1 and bool((X[:, 0] == 1.0).all())
        first = int(has_intercept)
        features, own = (X[:, first:], y, tuple(names[first:])), tuple(names[:first])
    offset = sum(added.values(), np.zeros(len(X))) if added else None
    design = None if spec is None else partial(_new_design, spec, has_intercept and family != "ordinal")
    known: Any = {"factors": factor_levels(spec), "row_labels": labels, "link": _link(model)}
    known |= {"read": _read_again, "offset": offset, "design": design, "variables": _variables(model, spec)}
    return Regression(*features, family, has_intercept, weight, notes, own, **known)


def _variables(model: Any, spec: Any) -> Any:
    """Return the columns of the data frame that the formula of a model uses; None without a formula."""
    frame = getattr(model.data, "frame", None)
    if spec is None or frame is None:
        return None
    dropped = getattr(model.data, "missing_row_idx", None)
    frame = frame if dropped is None else frame.drop(frame.index[list(dropped)])
    return predictors(frame, spec) if len(frame) == len(model.exog) else None


def _new_design(spec: Any, has_intercept: bool, data: Any) -> tuple[Array, None]:
    """Return the design matrix of other data by the formula of a model, without the intercept."""
    if not hasattr(spec, "get_model_matrix"):
        from patsy import dmatrix

        return np.asarray(dmatrix(spec, data, NA_action="raise"))[:, int(has_intercept) :], None
    return np.asarray(spec.get_model_matrix(data, na_action="raise"))[:, int(has_intercept) :], None


def _link(model: Any) -> str:
    """Return the name of the link of a model in lower case: ``logit`` if it is the one that fit knows."""
    link = model.distr.name if hasattr(model, "distr") else _kinds(model)[0].__name__
    link = type(model.family.link).__name__ if hasattr(model, "family") else link
    own = {"norm": "probit"} | dict.fromkeys(("log", "poisson", "mnlogit", "logistic"), "logit")
    return own.get(link.lower(), str(link).lower())


def _read_again(model_or_results: Any, sample_weight: None = None) -> Regression:
    """Return the regression of the model that `Separability.check` is given."""
    if not _kinds(model := getattr(model_or_results, "model", model_or_results)):
        raise TypeError(
            "check needs the model of statsmodels that the verdict is on, or its results; got "
            f"{type(model).__name__}. Call found.check(model)."
        )
    return read_model(model, sample_weight)


def _labelled_rows(model: Any) -> tuple[tuple[str, ...], Any]:
    """Return a note if statsmodels has dropped rows with missing values, and the labels of the others.

    Rows of arrays have no labels. If some were dropped, these are their numbers in the arrays.
    """
    dropped, labels = getattr(model.data, "missing_row_idx", None), model.data.row_labels
    if dropped is None or not len(dropped):
        return (), labels
    kept, count = len(model.exog), len(dropped)
    labels = np.delete(np.arange(kept + count), dropped) if labels is None else labels
    rows = "1 row" if count == 1 else f"{count:,} rows"
    return (f"statsmodels has dropped {rows} for missing values, and counts the {kept:,} left.",), labels


def _kinds(model: Any) -> list[type]:
    """Return the classes of statsmodels to which a model belongs, its own one first."""
    return [kind for kind in type(model).__mro__ if kind.__module__.startswith("statsmodels.")]


def _family(model: Any) -> str:
    """Return the family of a model; of an own subclass that of the class of statsmodels which it extends."""
    kinds = _kinds(model)
    name = kinds[0].__name__ if kinds else type(model).__name__
    if name in _FAMILIES:
        return _FAMILIES[name]
    if name != "GLM" or not kinds:
        raise TypeError(
            f"from_statsmodels takes models of statsmodels: {_ACCEPTED}, or their results; got {name}."
        )
    family, link = type(model.family).__name__, type(model.family.link).__name__
    # Links of statsmodels 0.13 and older have names in lower case.
    if link.lower() not in [known.lower() for known in _LINKS.get(family, ())]:
        raise TypeError(
            f"from_statsmodels takes {_ACCEPTED}; got GLM with the family {family} and the link {link}."
        )
    return family.lower()


def _response(model: Any, family: str) -> Any:
    """Return the response under its name: numbers, two columns of counts, or classes in their order."""
    import pandas as pd

    y, name = as_float(model.endog, "endog of the model"), model.endog_names
    name = name if isinstance(name, str) else None
    if family in ("multinomial", "ordinal"):
        # The endog are codes. The names of the classes of MNLogit are those that its summary prints.
        known = dict(sorted(model._ynames_map.items())).values() if family == "multinomial" else model.labels
        return pd.Series(pd.Categorical.from_codes(y.astype(int), list(map(str, known))), name=name)
    if family == "poisson":
        return pd.Series(y, name=name)
    y = np.where(np.isnan(y), 0.0, y)  # GLM divides by the number of trials, even if that is 0.
    trials = np.asarray(getattr(model, "n_trials", 1.0))
    if trials.ndim and (trials != 1.0).any():
        return np.rint(np.column_stack([y * trials, (1.0 - y) * trials]))
    return shares_as_counts(pd.Series(y, name=name))


def _weights(model: Any) -> Array | None:
    """Return the weights of the rows: frequencies, times those of variances."""
    given = [getattr(model, name, None) for name in ("freq_weights", "var_weights")]
    found = [np.asarray(weights, np.float64) for weights in given if weights is not None and np.ndim(weights)]
    return None if not found else np.prod(found, axis=0)
