"""Columns that are combinations of earlier ones up to rounding, such as centimetres and inches.

In exact arithmetic such columns are independent, so no verdict changes; but the user must know, since their
difference is rounding and R's glm leaves them out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from prgd.core.types import Array, Indices
from prgd.proofs.column_relations import largest_entries, triangular_factor
from prgd.proofs.lifted_rows import KeptColumns, LiftedRows, spread
from prgd.separation.advice import listed, sum_in_words
from prgd.separation.coefficients import Coefficients
from prgd.separation.families import ModelRows
from prgd.separation.verdict import Separability

_ROUNDING = 1e-9  # a residual below this fraction of the column counts as rounding
_GLM_TOLERANCE = 1e-11  # residual, as a fraction of the column, below which R's glm reports NA
_SMALL_TERM = 1e-6  # terms below this fraction of the largest are left out of a combination
_MAX_WIDTH = 1500  # columns up to which relations are looked for
_MAX_WORK = 2e11  # rows times squared columns up to which relations are looked for
_FIRST_ROWS = 2  # rows for each column that are asked first
_NOTES = 4  # columns that have a note of their own
_TERMS = 6  # terms of a combination that a note shows


class NearRelation(NamedTuple):
    """A column that is ``sum_k terms[k]`` times earlier ones, but for ``residual`` of its norm."""

    column: int
    terms: dict[int, float]
    residual: float


def near_relations(rows: LiftedRows, basis: Indices) -> list[NearRelation]:
    """Return the columns that are combinations of earlier ones up to rounding, in order.

    Parameters
    ----------
    rows : LiftedRows
        Their columns must be independent.
    basis : ndarray of int
        Some rows on which the columns are independent.

    Examples
    --------
    >>> x = np.array([[0.1], [0.2], [0.3], [0.7]])
    >>> rows = LiftedRows(np.hstack([x, 3.0 * x]), None, fit_intercept=False)
    >>> [(found.column, {k: round(c, 6) for k, c in found.terms.items()})
    ...  for found in near_relations(rows, rows.counted)]
    [(1, {0: 3.0})]
    """
    index, width = rows.counted, rows.width
    if not 1 < width <= _MAX_WIDTH or index.size * width**2 > _MAX_WORK:
        return []
    powers = -np.frexp(largest_entries(rows, index))[1]

    def factor(index: Indices) -> Array:
        return triangular_factor((np.ldexp(Z, powers) for _, Z in rows.blocks(index)), width)

    some = np.union1d(basis, spread(index, _FIRST_ROWS * width))
    if some.size < index.size:
        # A residual is larger on all rows than on some, and a scaled column has norm sqrt(n) at most.
        smallest = np.abs(np.diag(factor(some))).min()
        if smallest > _ROUNDING * math.sqrt(index.size):
            return []
    return _relations_of(factor(index), powers)


def _relations_of(R: Array, powers: Indices) -> list[NearRelation]:
    """Return the relations between the columns of ``R 2^-powers``, R being upper triangular."""
    from scipy.linalg import qr, solve_triangular

    sizes = np.linalg.norm(R, axis=0)
    R = R / sizes
    is_small = np.abs(np.diag(R)) < _ROUNDING
    if not is_small.any():
        return []
    independent = np.flatnonzero(~is_small)
    Q, T = qr(R[:, independent], mode="economic", check_finite=False)
    found = []
    for j in np.flatnonzero(is_small).tolist():
        count = int(np.searchsorted(independent, j))
        before = independent[:count]
        c = solve_triangular(T[:count, :count], Q[:, :count].T @ R[:, j], check_finite=False)
        residual = float(np.linalg.norm(R[:, j] - R[:, before] @ c))
        if residual < _ROUNDING:
            large = np.abs(c) > _SMALL_TERM * np.abs(c).max()
            factors = np.ldexp(c * sizes[j] / sizes[before], powers[before] - powers[j])
            found.append(
                NearRelation(
                    j, dict(zip(before[large].tolist(), factors[large].tolist(), strict=True)), residual
                )
            )
    return found


def with_near_relations(found: Separability, model: ModelRows, evidence: Coefficients) -> Separability:
    """Add a note on each column of a model that is a combination of earlier ones up to rounding."""
    bare = {
        j: name if isinstance(name, str) else name[1]
        for j, name in zip(model.columns.tolist(), model.names, strict=True)
        # The columns of a multinomial model repeat for each class; those of one class hold all observations.
        if isinstance(name, str) or name[0] == model.names[0][0]
    }
    kept = [j for j in evidence.kept if j in bare]
    if not evidence.basis.size or evidence.is_interrupted:
        return found
    try:
        relations = near_relations(KeptColumns(model.rows, kept), evidence.basis)
    except KeyboardInterrupt:  # The verdict is complete without the notes.
        return found
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
    return replace(found, nearly_aliased=names, notes=(*found.notes, *notes))
