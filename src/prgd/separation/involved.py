"""Which observations make a coefficient infinite: those of separated rows in which its column is not zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from prgd._types import Indices
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
