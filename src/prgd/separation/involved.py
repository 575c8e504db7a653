"""Which observations make a coefficient infinite, and which reference levels have one outcome alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Indices
from prgd.separation.families import ModelRows, Name

_KEPT = 5  # observations of each coefficient whose numbers are kept


class Involved(NamedTuple):
    """The observations that are involved in an infinite coefficient: how many, and the first of them."""

    total: int
    first: tuple[int, ...]


def rows_involved(model: ModelRows, separated: Indices, names: Sequence[Name]) -> dict[Name, Involved]:
    """Return for some coefficients the observations of separated rows whose column is not zero.

    This takes one pass over the separated rows.

    Examples
    --------
    >>> from prgd.separation.families import model_rows
    >>> model = model_rows([[0.0, 1.0], [0.0, 2.0], [1.0, 2.0]], [0, 1, 1])
    >>> rows_involved(model, np.array([2]), ["x0", "(Intercept)"])
    {'x0': Involved(total=1, first=(2,)), '(Intercept)': Involved(total=1, first=(2,))}
    """
    if not names:
        return {}
    columns = dict(zip(model.names, model.columns.tolist(), strict=True))
    wanted = np.array([columns[name] for name in names])
    counts = np.zeros(wanted.size, np.int64)
    last = np.full(wanted.size, -1)  # the observation that was counted last, whose rows two blocks may share
    first: list[list[int]] = [[] for _ in names]
    for part, Z in model.rows.blocks(separated, as_stored=True):
        at, k = Z[:, wanted].nonzero()
        if model.observations is None:
            at = part[at]
        else:  # An observation may have several rows.
            at, k = np.divmod(np.unique(model.observations[part[at]] * wanted.size + k), wanted.size)
            at, k = at[fresh := at != last[k]], k[fresh]
            np.maximum.at(last, k, at)
        for j in [j for j, found in enumerate(first) if len(found) < _KEPT]:
            first[j] += at[k == j][: _KEPT - len(first[j])].tolist()
        counts += np.bincount(k, minlength=wanted.size)
    return {
        name: Involved(count, tuple(found))
        for name, count, found in zip(names, counts.tolist(), first, strict=True)
    }


def observations_of(model: ModelRows, rows: Indices) -> Involved:
    """Return the observations that some rows come from."""
    found = np.unique(rows if model.observations is None else model.observations[rows])
    return Involved(found.size, tuple(found[:_KEPT].tolist()))


def single_outcome_references(
    model: ModelRows, factors: Mapping[str, Sequence[Any]], infinite: Sequence[Name], separated: Indices
) -> dict[str, tuple[Any, Any]]:
    """Return factors whose reference level has one outcome alone: that level, and another to take instead.

    All other levels, which must have columns of their own, are then infinite relative to the reference, in
    a binomial or Poisson model with an intercept. The level to take has fewest separated rows, since another
    one of one outcome is no better.

    Examples
    --------
    >>> from prgd.separation.families import model_rows
    >>> names = "g[T.b]", "g[T.c]"
    >>> X = [[0, 0], [0, 0], [1, 0], [0, 1]]
    >>> model = model_rows(X, [0, 0, 3, 1], family="poisson", feature_names=names)
    >>> single_outcome_references(model, {"g": ["a", "b", "c"]}, names, np.array([0, 1]))
    {'g': ('a', 'b')}
    """
    found: dict[str, tuple[Any, Any]] = {}
    if model.family not in ("binomial", "poisson") or not model.fit_intercept:
        return found
    places = dict(zip(model.names, model.columns.tolist(), strict=True))
    for factor, levels in factors.items():
        named = {level: f"{factor}[T.{level}]" for level in levels}
        others = [level for level in levels if named[level] in places]
        if len(others) != len(levels) - 1 or not all(named[level] in infinite for level in others):
            continue
        columns = [places[named[level]] for level in others]
        signs: set[float] = set()
        for _, Z in model.rows.blocks(model.rows.counted, as_stored=True):
            at = np.ones(Z.shape[0], bool)
            at[Z[:, columns].nonzero()[0]] = False
            constant = Z[:, model.columns[:1]]  # the sign of y, or of both if there are both
            constant = constant if isinstance(constant, np.ndarray) else constant.toarray()
            signs.update(np.sign(constant[at, 0]).tolist())
        if len(signs) == 1:
            (reference,) = [level for level in levels if named[level] not in places]
            involved = rows_involved(model, separated, [named[level] for level in others])
            found[factor] = reference, min(others, key=lambda level: involved[named[level]].total)
    return found
