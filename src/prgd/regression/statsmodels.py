"""Models and results of statsmodels, read by their class and attributes without importing statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd.core.types import Array
from prgd.regression.result import Separability
from prgd.regression.separability import Regression, factor_levels, shares_as_counts

# The family of each class of models, and for each family of GLM the links for which the verdict holds.
_FAMILIES = {
    "Logit": "binomial",
    "Probit": "binomial",
    "Poisson": "poisson",
    "MNLogit": "multinomial",
    "OrderedModel": "ordinal",
}
_LINKS = {
    "Binomial": ("Logit", "Probit", "CLogLog", "LogLog", "Cauchy"),
    "Poisson": ("Log",),
}
_ACCEPTED = (
    "Logit, Probit, Poisson, MNLogit, OrderedModel, and GLM with the families Binomial (links Logit, Probit, "
    "CLogLog, LogLog, Cauchy) and Poisson (link Log)"
)


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
    X = np.asarray(model.exog, np.float64)
    names = [str(name) for name in model.exog_names]
    y, weight = _response(model, family), _weights(model)
    notes = tuple(
        f"The {word} of the model is ignored: whether a coefficient is infinite does not depend on it."
        for word in ("offset", "exposure")
        if np.any(getattr(model, word, None) is not None) and np.any(getattr(model, word))
    )
    dropped, labels = _labelled_rows(model)
    if type(getattr(model_or_results, "_results", model_or_results)).__name__.startswith(
        ("L1", "Regularized")
    ):
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
    return Regression(
        *features, family, has_intercept, weight, notes, own, _read_again, factor_levels(spec), labels
    )


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

    y, name = np.asarray(model.endog), model.endog_names
    name = name if isinstance(name, str) else None
    if family in ("multinomial", "ordinal"):
        # The endog are codes. The names of the classes of MNLogit are those that its summary prints.
        known = dict(sorted(model._ynames_map.items())).values() if family == "multinomial" else model.labels
        return pd.Series(pd.Categorical.from_codes(y.astype(int), list(map(str, known))), name=name)
    if family == "poisson":
        return pd.Series(y, name=name)
    y = np.where(np.isnan(y), 0.0, y)  # GLM divides by the number of trials, even if that is 0.
    return shares_as_counts(pd.Series(y, name=name))


def _weights(model: Any) -> Array | None:
    """Return the weights of the rows: frequencies, times those of variances, times the numbers of trials."""
    given = [getattr(model, name, None) for name in ("freq_weights", "var_weights", "n_trials")]
    found = [np.asarray(weights, np.float64) for weights in given if weights is not None and np.ndim(weights)]
    return None if not found else np.prod(found, axis=0)
