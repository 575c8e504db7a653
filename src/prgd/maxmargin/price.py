"""The C of a soft margin by the error on held-out folds: of classes against the rest, or of a label set."""

import math
import warnings
import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from prgd.core.errors import ZeroRowWarning
from prgd.core.types import Array, Indices
from prgd.problem import Problem
from prgd.solvers.gram_newton import GramIterate, GramNewton
from prgd.solvers.primal_newton import soft_path

FOLDS = 5
# 2 C times the mean squared distance of the rows from their mean, which does not depend on units.
GRID = tuple(10.0 ** (k / 2) for k in range(-4, 15))
MAX_ROWS = 20_000  # distinct rows that choose C; of more, a part is taken
_MAX_EXPONENT = 930  # largest power of two among the C that are tried: C times a square stays in range
_BLOCK_ROWS = 4096  # rows that are hashed together
_TOL = 1e-3  # relative gap of the fits that choose C


def choose_C(X: Any, codes: Indices, s: Array, fit_intercept: bool, n_jobs: int | None = None) -> float:
    """Return the C of smallest error on held-out folds, for all problems of one class against the rest.

    ``s`` are the weights of the rows.

    Rows that are equal lie in the same fold, and a fold depends on what rows hold, not on their order. So
    weights and copies of rows lead to the same C, and nothing is random. Errors are averaged with those of
    the next C on either side, since a single one is noisy; of equal ones that of the smallest C is taken.
    """
    fold, counts = _folds(row_hashes(X), codes)
    unit = _unit(X, s)
    if counts < 2:
        return 0.5 * unit
    kept = fold >= 0
    scale = float(s.sum() / s[kept].sum())  # each of fewer rows counts as much more
    prices, errors = [unit * scale * f for f in GRID], np.zeros(len(GRID))
    options = {"fit_intercept": fit_intercept, "n_jobs": n_jobs, "scale": "none"}
    for k in range(min(FOLDS, counts)):
        train, test = np.flatnonzero(kept & (fold != k)), np.flatnonzero(fold == k)
        errors += _errors(X, codes, s, train, test, prices, options)
    return float(0.5 * unit * GRID[_best(errors, float(s.sum()))])


def choose_label_set_C(
    G: Array, hashes: Indices, Y: Array, fit_intercept: bool, spread: Callable[..., list[Any]]
) -> Array:
    """Return the C of smallest error on held-out folds for each label set, a row of Y.

    Labels are +1 and -1, and 0 for rows that are left out. ``G`` holds the products of the rows, and
    ``hashes`` their hashes: the folds are those of `choose_C`, and every second of its prices is tried.
    ``spread(work, count)`` calls ``work(k)`` for each label set.
    """
    distance = float(np.diag(G).mean() - G.mean())
    prices = [price / distance if distance > 0.0 else price for price in GRID[:-4:2]]
    folds = np.full(Y.shape, -1)
    for fold, y in zip(folds, Y, strict=True):
        fold[y != 0.0], counts = _folds(hashes[y != 0.0], (y[y != 0.0] > 0.0).astype(np.int64))
        fold[:] = fold if counts > 1 else -1  # one row of a class cannot be held out
    errors = np.zeros((len(prices), len(Y)))
    at: dict[tuple[int, int], GramIterate] = {}
    for j, price in enumerate(prices):
        newton = GramNewton(G, price, is_shared=len(Y) > 1)

        def work(k: int, j: int = j, newton: GramNewton = newton) -> None:
            y, fold = Y[k], folds[k]
            for held in range(int(fold.max()) + 1):
                test = fold == held
                found = newton.minimise(y, fit_intercept, (fold >= 0) & ~test, at.get((k, held)), _TOL)
                errors[j, k] += np.count_nonzero((found.products[test] + found.b > 0.0) != (y[test] > 0.0))
                at[k, held] = found

        spread(work, len(Y))
    return np.array([0.5 * prices[_best(own, float(G.shape[0]))] for own in errors.T])


def _best(errors: Array, total: float) -> int:
    """Return the place of the smallest error, each averaged with its neighbours, since one is noisy."""
    ends = np.pad(errors, 1, mode="edge")
    smooth = 0.25 * ends[:-2] + 0.5 * errors + 0.25 * ends[2:]
    # Sums of weights are rounded: errors that differ by less are equal.
    return int(np.argmax(smooth <= smooth.min() + 1e-9 * total))


def _errors(
    X: Any, codes: Indices, s: Array, train: Indices, test: Indices, prices: list[float], options: Any
) -> Array:
    """Return the weight of the held-out rows that are taken for another class, for each of the prices."""
    targets = [1] if codes.max() == 1 else range(codes.max() + 1)
    scores = np.zeros((len(prices), test.size, len(targets)))
    rows, held = X[train], X[test]
    for j, target in enumerate(targets):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZeroRowWarning)
            problem = Problem(rows, codes[train] == target, **options)
        ws, bs = zip(*soft_path(problem, s[train], prices, _TOL), strict=True)
        scores[:, :, j] = (held @ np.stack(ws, axis=1) + np.array(bs)).T
    is_one = len(targets) == 1
    found = (scores[:, :, 0] > 0.0).astype(int) if is_one else scores.argmax(axis=2)
    return np.asarray(((found != codes[test]) * s[test]).sum(axis=1))


def row_hashes(X: Any) -> Indices:
    """Return a number for each row that depends on its entries alone, sparse or dense."""
    from scipy.sparse import csr_array  # slow to load

    hashes: list[int] = []
    for start in range(0, X.shape[0], _BLOCK_ROWS):
        block = csr_array(X[start : start + _BLOCK_ROWS], dtype=np.float64, copy=True)
        block.sum_duplicates()
        block.eliminate_zeros()
        columns, values = block.indices.astype(np.int64), block.data
        for a, b in pairwise(block.indptr.tolist()):
            hashes.append(zlib.crc32(columns[a:b].tobytes() + values[a:b].tobytes()))
    return np.array(hashes, dtype=np.int64)


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
    """Return the 2 C that has no units: 1 by the mean squared distance of the rows from their mean.

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
