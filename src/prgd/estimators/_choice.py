"""The choice of C where classes do not separate: the smallest error on folds of the rows."""

from __future__ import annotations

import math
import warnings
import zlib
from typing import Any

import numpy as np

from prgd.core.errors import ZeroRowWarning
from prgd.core.types import Array, Indices
from prgd.problem import Problem
from prgd.solvers.newton_systems import WholeSums
from prgd.solvers.primal_newton import soft_path

FOLDS = 5
# C times the mean squared distance of the rows from their mean, which does not depend on units.
GRID = tuple(10.0 ** (k / 2) for k in range(-4, 15))
MAX_ROWS = 20_000  # distinct rows that choose C; of more, a part is taken
_MAX_EXPONENT = 930  # largest power of two among the C that are tried: C times a square stays in range
_TOL = 1e-3  # relative gap of the fits that choose C


def choose_C(X: Any, codes: Indices, targets: list[int], weights: Array | None, options: Any) -> float:
    """Return the C of smallest error on held-out folds, for all problems of one class against the rest.

    Rows that are equal lie in the same fold, and a fold depends on what rows hold, not on their order. So
    weights and copies of rows lead to the same C, and nothing is random. Errors are averaged with those of
    the next C on either side, since a single one is noisy; of equal ones that of the smallest C is taken.
    """
    s = np.ones(len(codes)) if weights is None else weights
    hashes = row_hashes(X)
    fold, counts = _folds(hashes, codes)
    unit = _unit(X, s)
    if counts < 2:
        return unit
    kept = fold >= 0
    scale = float(s.sum() / s[kept].sum())  # of fewer rows each counts as much more
    errors = np.zeros(len(GRID))
    for k in range(min(FOLDS, counts)):
        train, test = np.flatnonzero(kept & (fold != k)), np.flatnonzero(fold == k)
        errors += _errors(X, codes, targets, s, (train, test), unit * scale, options)
    ends = np.pad(errors, 1, mode="edge")
    smooth = 0.25 * ends[:-2] + 0.5 * errors + 0.25 * ends[2:]
    # Sums of weights are rounded: errors that differ by less are equal.
    return float(unit * GRID[int(np.argmax(smooth <= smooth.min() + 1e-9 * float(s.sum())))])


def _errors(
    X: Any,
    codes: Indices,
    targets: list[int],
    s: Array,
    split: tuple[Indices, Indices],
    unit: float,
    options: Any,
) -> Array:
    """Return the weight of the held-out rows that are taken for another class, for each C of the grid."""
    train, test = split
    prices = [unit * f for f in GRID]
    scores = np.zeros((len(GRID), test.size, len(targets)))
    rows, held, whole = X[train], X[test], WholeSums()
    for j, target in enumerate(targets):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZeroRowWarning)
            problem = Problem(rows, codes[train] == target, scale="none", **options)
        ws, bs = zip(*soft_path(problem, s[train], prices, _TOL, whole), strict=True)
        scores[:, :, j] = (held @ np.stack(ws, axis=1) + np.array(bs)).T
    is_one = len(targets) == 1
    found = (scores[:, :, 0] > 0.0).astype(int) if is_one else scores.argmax(axis=2)
    return np.asarray(((found != codes[test]) * s[test]).sum(axis=1))


def row_hashes(X: Any) -> Indices:
    """Return a number for each row that depends on its entries alone, sparse or dense."""
    hashes = np.empty(X.shape[0], np.int64)
    if hasattr(X, "indptr"):
        for i in range(X.shape[0]):
            part = slice(X.indptr[i], X.indptr[i + 1])
            hashes[i] = _hash(X.indices[part], X.data[part])
        return hashes
    everywhere = zlib.crc32(np.arange(X.shape[1], dtype=np.int64).tobytes())
    for i, row in enumerate(X):
        (columns,) = row.nonzero()
        # The sum of two texts one after the other goes on from that of the first.
        is_full = columns.size == row.size
        start = everywhere if is_full else zlib.crc32(columns.astype(np.int64).tobytes())
        values = row if is_full else row[columns]
        hashes[i] = zlib.crc32(values.astype(np.float64).tobytes(), start)
    return hashes


def _hash(columns: Any, values: Any) -> int:
    filled = values != 0.0
    columns, values = columns[filled], values[filled]
    order = np.argsort(columns, kind="stable")
    text = columns[order].astype(np.int64).tobytes() + values[order].astype(np.float64).tobytes()
    return zlib.crc32(text)


def _folds(hashes: Indices, codes: Indices) -> tuple[Indices, int]:
    """Return the fold of each row, -1 for rows left out, and the distinct rows of the smallest class.

    Distinct rows of a class are dealt out one after the other, in the order of their hashes.
    """
    fold, smallest = np.full(hashes.size, -1), hashes.size
    total = sum(np.unique(hashes[codes == code]).size for code in np.unique(codes))
    for code in np.unique(codes):
        mine = np.flatnonzero(codes == code)
        distinct, place = np.unique(hashes[mine], return_inverse=True)
        count = distinct.size if total <= MAX_ROWS else max(2, distinct.size * MAX_ROWS // total)
        smallest = min(smallest, count)
        fold[mine] = np.where(place < count, place % FOLDS, -1)
    if smallest < FOLDS:
        fold[fold >= smallest] %= max(smallest, 1)
    return fold, smallest


def _unit(X: Any, s: Array) -> float:
    """Return the C that has no units: 1 by the mean squared distance of the rows from their mean.

    It is divided by the mean weight if that is below 1. Larger weights are copies of rows, which the error on
    held-out rows weighs against the length of w.
    """
    (spread, exponent), weight = _spread(X, s), float(s[s > 0.0].mean())
    # Powers of two are counted apart: squares of the rows may lie outside of the floating range.
    (a, first), (b, second) = math.frexp(spread), math.frexp(min(1.0, weight))
    power = -(first + second + 2 * exponent)
    if abs(power) > _MAX_EXPONENT:
        raise ValueError(
            f"Rows lie about {math.ldexp(math.sqrt(spread), exponent):.3g} from their mean, and the mean "
            f"weight is {weight:.3g}: the C of a soft margin, which is divided by the square of the one "
            "and by the other, leaves the floating range. Rescale X, e.g. by StandardScaler, or the weights."
        )
    return math.ldexp(1.0 / (a * b), power)


def _spread(X: Any, s: Array) -> tuple[float, int]:
    """Return the mean squared distance m of the rows from their mean, and e, as ``m * 4**e``.

    The mean is subtracted before squares are taken, which would cancel far from the origin.
    """
    largest = float(abs(X).max())
    if largest == 0.0:
        return 1.0, 0
    exponent, total = math.frexp(largest)[1], float(s.sum())
    if hasattr(X, "indptr"):
        values, columns = np.ldexp(X.data.astype(np.float64), -exponent), X.indices
        weights = np.repeat(s, np.diff(X.indptr))
        mean = np.bincount(columns, weights * values, X.shape[1]) / total
        stored = np.bincount(columns, weights, X.shape[1])
        is_full = np.bincount(columns, minlength=X.shape[1]) == X.shape[0]
        zeros = np.where(is_full, 0.0, np.maximum(total - stored, 0.0))  # the weight of entries not stored
        spread = float(weights @ (values - mean[columns]) ** 2 + zeros @ mean**2) / total
    else:
        X = np.ldexp(X.astype(np.float64), -exponent)
        spread = float((s @ (X - (s @ X) / total) ** 2).sum()) / total
    return (spread, exponent) if spread > 0.0 else (1.0, 0)
