"""The rows whose cone decides which coefficients of a regression are infinite, for each family of models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from prgd._types import Indices
from prgd.proofs.lifted_rows import LiftedRows

Name = str | tuple[str, str]  # the name of a coefficient; ``(class, name)`` if each class has its own


@dataclass(frozen=True, eq=False)
class ModelRows:
    """The rows z_i of the recession cone ``{v : z_i . v >= 0}`` of a model, and what they stand for.

    Attributes
    ----------
    rows : LiftedRows
    family : str
    names : tuple of names
        The names of the coefficients, in the order in which R decides which of them are aliased: the
        intercept first.
    columns : ndarray of int
        The column of z_i that belongs to each name.
    observations : ndarray of int or None
        The observation that each row comes from; None if row i is observation i.
    fit_intercept : bool
    """

    rows: LiftedRows
    family: str
    names: tuple[Name, ...]
    columns: Indices
    observations: Indices | None = None
    fit_intercept: bool = True


def model_rows(
    X: Any, y: Any = None, *, family: str = "binomial", fit_intercept: bool = True, sample_weight: Any = None
) -> ModelRows:
    """Return the rows of a model."""
    rows = LiftedRows(X, y, fit_intercept=fit_intercept)
    names = rows.rows.feature_names or tuple(f"x{j}" for j in range(rows.d))
    columns = np.arange(rows.d)
    if fit_intercept:
        names, columns = ("(Intercept)", *names), np.concatenate([[rows.d], columns])
    return ModelRows(rows, family, tuple(names), columns.astype(np.int64), fit_intercept=fit_intercept)


def limiting_rows(model: ModelRows, boundary: Indices) -> Indices:
    """Return the observations that keep at least one boundary row."""
    return boundary if model.observations is None else np.unique(model.observations[boundary])
