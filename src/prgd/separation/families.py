"""The rows whose cone decides which coefficients of a regression are infinite, for each family of models."""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    rows: LiftedRows
    family: str
    names: tuple[Name, ...]
    columns: Indices
    observations: Indices | None = None
