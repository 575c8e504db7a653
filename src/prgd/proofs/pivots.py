"""stub"""

from typing import NamedTuple

import numpy as np

from prgd.proofs.column_relations import structure_of


class Pivots(NamedTuple):
    kept: list
    aliased: list
    rows: object


def pivot_columns(rows, order, index=None):
    index = rows.counted if index is None else index
    s = structure_of(rows.take(index), [int(j) for j in order], 1000)
    return Pivots(s.columns, s.others, np.sort(index[s.rows]))


def relation(rows, pivots, j):
    s = structure_of(rows.take(rows.counted), [*pivots.kept, *pivots.aliased], 1000)
    r = next(r for r in s.relations if next(iter(r)) == j)
    return {c: -k for c, k in r.items() if c != j}
