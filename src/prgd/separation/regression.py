"""A regression as its user wrote it: the design matrix, the response, and the names of the coefficients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from prgd.core.types import Array, Indices
from prgd.separation.decide import decide_model
from prgd.separation.families import ModelRows, Name, model_rows
from prgd.separation.responses import INTERCEPT
from prgd.separation.row_labels import with_labels
from prgd.separation.verdict import Separability


@dataclass(frozen=True, eq=False)
class Regression:
    """A regression as a formula or a model of statsmodels states it.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
        The columns of the design matrix but for an intercept that ``fit_intercept`` adds.
    y : array of shape (n,), array of counts of shape (n, 2), or pandas Series of categories
    names : tuple of str or None
        The names of the columns of X.
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

    def decide(self) -> Separability:
        """Return the verdict on this regression."""
        model = self.model()
        found = decide_model(model)
        found = replace(found, notes=(*self.notes, *found.notes), _read=self.read, _factors=self.factors)
        return with_labels(found, self.row_labels)

    def placed(self, rows: Indices, n: int) -> Regression:
        """Return the same regression among n rows, of which it is these; the others have weight 0."""
        weight = np.zeros(n)
        weight[rows] = 1.0 if self.sample_weight is None else self.sample_weight
        source = np.zeros(n, np.int64)  # Rows that do not count are copies of the first one.
        source[rows] = np.arange(rows.size)
        y = self.y.iloc[source] if hasattr(self.y, "iloc") else self.y[source]
        return replace(self, X=self.X[source], y=y, sample_weight=weight, read=None, row_labels=None)

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
        return replace(model, names=self._renamed(model.names))

    def _renamed(self, names: tuple[Name, ...]) -> tuple[Name, ...]:
        """Return the names of the coefficients with the user's own names for intercept and thresholds."""
        if not self.own_names:
            return names
        if self.family == "ordinal":
            return (*self.own_names, *names[len(self.own_names) :])
        (own,) = self.own_names
        words = ((name, None) if isinstance(name, str) else (name[1], name[0]) for name in names)
        renamed = ((own if name == INTERCEPT else name, cls) for name, cls in words)
        return tuple(name if cls is None else (cls, name) for name, cls in renamed)


def shares_as_counts(y: Any) -> Any:
    """Return shares of successes between 0 and 1 as two columns; other numbers, and labels, as they are.

    Only whether there are successes and failures matters for the verdict.

    Examples
    --------
    >>> shares_as_counts(np.array([0.0, 0.5, 1.0])).tolist()
    [[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
    """
    if ((y >= 0) & (y <= 1)).all() and ((y > 0) & (y < 1)).any():
        return np.column_stack([y > 0, y < 1]).astype(np.float64)
    return y


def factor_levels(spec: Any) -> dict[str, tuple[Any, ...]]:
    """Return the levels of the factors of a design that formulaic, or patsy, has made; None has none."""
    if hasattr(spec, "factor_infos"):
        found = {k.name(): info.categories for k, info in spec.factor_infos.items()}
    else:
        states = getattr(spec, "encoder_state", {})
        found = {str(k): state.get("categories") for k, (_, state) in states.items()}
    return {
        name: tuple(level.item() if isinstance(level, np.generic) else level for level in levels)
        for name, levels in found.items()
        if levels is not None
    }
