"""Proposals of the partition of some rows: by columns of one sign, interior point or exact simplex method.

Checks of one pass each decide many data sets at once: rows that cancel, and single features.

A proposal claims nothing. `prgd.separation.search` proves it, or asks again with the rows that contradict it.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from prgd.core.arithmetic import LARGEST, nearest_floats, rounding_factor, shortened
from prgd.core.types import Array, Indices, Mask, RationalVector
from prgd.norms import norm
from prgd.problem.problem import NO_ROWS
from prgd.proofs.exact_simplex import partition_rows
from prgd.proofs.lifted_rows import LiftedRows, balance, largest
from prgd.proofs.modular import IntegerMatrix
from prgd.proofs.weights import Proof, weights_prove
from prgd.rows.blocks import non_finite_entry
from prgd.separation.verdict import Verdict
from prgd.solvers.self_dual import self_dual_path

MAX_COPY_ENTRIES = 2**25  # entries of the largest copy that is made of the data
EXACT_SECONDS = 30.0  # estimated seconds that the exact simplex method may take; nothing is timed
INTERIOR_WIDTH = 5000  # columns up to which the interior point factorises matrices of their size
INTERIOR_WORK = 1e11  # rows times squared columns that a step of the interior point may cost
CLEAR = 1e-2  # a row is clear if the smaller of its weight and its slack is below this fraction of the other
_MAX_EXPONENT = 500  # a proposal's numbers are below this power of two, so that their products are finite
_MAX_CANDIDATES = 1000  # pairs of rows that are checked exactly
_KEY_TOLERANCE = 1e-9  # keys of equal rows differ by rounding only, far less than this fraction
_SPARSE = 0.1  # fraction of the entries up to which rows stay sparse
_PEELED = "Found by columns of one sign"
_LONG = 2**900  # exact entries above this are near the end of the floating range


class Found(NamedTuple):
    """A proven verdict: the direction v or the dual weights p, and the rows on the boundary."""

    verdict: Verdict
    how: str
    v: Array | None = None
    p: Array | None = None
    proof: Proof = Proof()
    boundary: Indices = NO_ROWS


class Proposal(NamedTuple):
    """A partition of some rows into boundary rows and separated ones, not proven yet.

    Attributes
    ----------
    rows : ndarray of int, the indices of these rows.
    boundary : ndarray of bool, which of them lie on the boundary.
    weights : dual weights of these rows, float64 or exact integers.
    direction : a direction v that separates the other rows.
    source : the words for the report that say what found the partition.
    exact : the exact direction of which ``direction`` is the rounding, if it is known.
    hardness : a number for each row, smaller for rows to consider first; None leaves it as it is.
    """

    rows: Indices
    boundary: Mask
    weights: Array | list[int]
    direction: Array
    source: str
    exact: RationalVector | None = None
    hardness: Array | None = None


def fits_interior_point(rows: LiftedRows, count: int) -> bool:
    """Say whether the interior point may take so many of the rows at once."""
    is_cheap = rows.width <= INTERIOR_WIDTH and count * rows.width**2 <= INTERIOR_WORK
    return is_cheap and count * rows.width <= MAX_COPY_ENTRIES


def propose_by_interior_point(rows: LiftedRows, index: Indices, clear: float) -> Proposal | None:
    """Propose the partition of some rows as soon as a point of the self-dual path shows it.

    Parameters
    ----------
    rows : LiftedRows
    index : ndarray of int
    clear : float
        The path ends if for every row the smaller of its weight and its slack is below this fraction of the
        other. Rows of tiny margins seem to lie on the boundary at first; 0 follows the path to its end.

    Returns
    -------
    Proposal, or None if the copy is too large or too expensive, or if the path breaks down at once.
    """
    stored = rows.stored(index)
    if stored is None:
        return None
    peels, core = _peeled(stored)
    Z = stored[core]
    filled = np.flatnonzero(largest(Z, 0)) if core.size else core
    if not filled.size:  # Rows of zeros balance themselves.
        is_zero = np.isin(np.arange(index.size), core)
        direction = _with_peels(np.zeros(rows.width), peels)
        return Proposal(index, is_zero, is_zero / max(core.size, 1), direction, _PEELED)
    if not isinstance(Z, np.ndarray) and Z.nnz > _SPARSE * Z.shape[0] * filled.size:
        Z = Z.toarray()
    if isinstance(Z, np.ndarray) and not fits_interior_point(rows, index.size):
        return None
    Z, row_powers, column_powers = balance(Z[:, filled])
    if non_finite_entry(Z) is not None:  # scaling left the floating range
        return None
    is_separated, point = False, None
    for point in self_dual_path(Z):
        is_separated = point.margins.min() > rounding_factor(rows.width + 4) * norm(point.v)
        if is_separated or (np.minimum(point.p, point.s) < clear * np.maximum(point.p, point.s)).all():
            break
    if point is None:
        return None
    boundary, weights = np.zeros(index.size, np.bool_), np.zeros(index.size)
    boundary[core] = False if is_separated else point.p > point.s
    weights[core], hardness = _times_powers(point.p, row_powers), np.full(index.size, np.inf)
    hardness[core] = np.where(boundary[core], -point.p, point.s)
    direction = np.zeros(rows.width)
    if not boundary[core].all():
        direction[filled] = _times_powers(point.v, column_powers)
    direction = _with_peels(direction, peels)
    source = "Found by interior point" + " after columns of one sign" * bool(peels)
    return Proposal(index, boundary, weights, direction, source, hardness=hardness)


def _peeled(Z: Any) -> tuple[list[tuple[Array, Array]], Indices]:
    """Find columns that have one sign on all rows, and again on the rows in which all of these are zero.

    Returns
    -------
    list of pairs of arrays
        For each round the signs of such columns, 0 for the others, and the rows that these signs, taken as a
        direction, separate.
    ndarray of int
        The rows that are left.
    """
    left, peels = np.arange(Z.shape[0]), []
    while left.size:
        high, low = _dense(Z.max(axis=0)), _dense(Z.min(axis=0))
        signs = np.where(low >= 0.0, np.sign(high), np.where(high <= 0.0, np.sign(low), 0.0))
        margins = Z @ signs
        if not margins.any():
            break
        peels.append((signs, Z[margins > 0.0]))
        left, Z = left[margins == 0.0], Z[margins == 0.0]
    return peels, left


def _with_peels(v: Array, peels: Sequence[tuple[Array, Any]]) -> Array:
    """Add multiples of the signs that make the margins of v positive on the rows that the signs separate."""
    for signs, Z in reversed(peels):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            needed = float(np.max(np.abs(Z @ v) / (Z @ signs), initial=0.0))
        v = v + 2.0 ** (np.frexp(needed)[1] + 1 if needed else 0) * signs
    return v


def _times_powers(values: Array, powers: Any) -> Array:
    """Return a positive multiple of ``values * 2**powers`` in the floating range."""
    top = (np.frexp(values)[1] + powers)[values != 0.0].max(initial=0)
    return np.asarray(np.ldexp(values, powers - max(0, int(top) - _MAX_EXPONENT)))


def propose_exactly(rows: LiftedRows, index: Indices, hardness: Array) -> Proposal | None:
    """Propose the partition of some rows by the exact simplex method; None if it would take too long."""
    n, d = index.size, rows.width
    if n * d > MAX_COPY_ENTRIES // 64:
        return None
    Z = rows.take(index)
    rank = min(n, d)
    # About 5 rank pivots change rank (n + d) integers, whose length grows with the rank; a product of long
    # integers costs their squared number of 30-bit digits. The constants were measured.
    digits = rank * IntegerMatrix.from_floats(Z, by_columns=True).bits / 30.0
    if 5.0 * rank * rank * (n + d) * (2e-6 + 5e-9 * digits * digits) > EXACT_SECONDS:
        return None
    order = np.argsort(hardness[index], kind="stable")
    split = partition_rows(Z, order.tolist(), max_pivots=100 * rank + 100)
    if split is None:
        return None
    boundary, weights, direction = split
    exact, source = shortened(direction), "Found by an exact simplex method"
    return Proposal(index, boundary, weights, nearest_floats(exact), source, exact=exact)


def coarse_direction(v: Array, ranges: Array, bits: int) -> list[Fraction]:
    """Round a direction to ``bits`` bits of its largest entry, each entry measured by its feature's range."""
    size = np.append(ranges, np.ones(v.size - ranges.size))
    size = np.where((size > 0.0) & np.isfinite(size), size, 1.0)
    top = np.frexp(np.abs(v * size).max())[1]
    steps = top - bits - np.frexp(size)[1]
    return [
        Fraction(round(float(np.ldexp(x, -k)))) * Fraction(2) ** int(k) for x, k in zip(v, steps, strict=True)
    ]


def find_cancelling_rows(rows: LiftedRows) -> Found | None:
    """Look for a zero row, or for two rows ``z_i = -z_j``: they rule out strict separation."""
    random = np.random.default_rng(0).standard_normal(rows.width)
    with np.errstate(over="ignore", invalid="ignore"):
        key = rows.margins(random)[rows.counted]
        order = np.argsort(np.abs(key), kind="stable")
        ahead, behind = order[:-1], order[1:]
        near = np.abs(key[ahead] + key[behind]) <= _KEY_TOLERANCE * np.abs(key[ahead])
    candidates = [[i] for i in rows.counted[key == 0.0].tolist()]
    candidates += rows.counted[np.stack([ahead[near], behind[near]], axis=1)].tolist()
    for candidate in candidates[:_MAX_CANDIDATES]:
        index = np.sort(np.array(candidate, np.int64))
        with np.errstate(over="ignore"):
            if rows.take(index).sum(axis=0).any():  # The sum of two numbers is zero only if it is exactly.
                continue  # Among millions of rows many have such keys by chance, and a proof reads all p.
        p = np.zeros(rows.n)
        p[index] = 1.0 / index.size
        proof = Proof(weights=dict.fromkeys(index.tolist(), 1))
        if weights_prove(rows, index, p, proof):
            pair = "are equal but for their labels" if rows.fit_intercept else "have opposite y_i x_i"
            how = f"Row {index[0]} is zero." if index.size == 1 else f"Rows {index[0]} and {index[1]} {pair}."
            return Found(Verdict.UNDECIDED, how, p=p, proof=proof, boundary=index)
    return None


def scan_features(rows: LiftedRows) -> tuple[Array, RationalVector | None, int]:
    """Measure the range of each feature by one pass, and look for one that separates the classes alone.

    Returns
    -------
    ranges : ndarray of shape (d,)
        Largest value less smallest value of each feature.
    direction : vector of fractions or None
        The direction (w, b) of the feature that leaves the widest gap between the classes, if there is a gap.
    features_alone : int
        The number of features that separate alone.
    """
    # The smallest and the largest entry of each column of Z in each class.
    low, high = np.full((2, rows.width), math.inf), np.full((2, rows.width), -math.inf)
    for index, Z in rows.blocks(rows.counted, as_stored=True):
        for k, sign in enumerate((1, -1)):
            part = Z[rows.signs[index] == sign]
            if part.shape[0]:
                low[k] = np.minimum(low[k], _dense(part.min(axis=0)))
                high[k] = np.maximum(high[k], _dense(part.max(axis=0)))
    with np.errstate(over="ignore", invalid="ignore"):
        x_low, x_high = np.minimum(low[0], -high[1]), np.maximum(high[0], -low[1])
        ranges = np.minimum(x_high - x_low, LARGEST)[: rows.d]
        # The smallest margin of each class (axis 1) along the feature and along its negative (axis 0).
        smallest = np.stack([low, -high])
        gaps = smallest.sum(axis=1) if rows.fit_intercept else 2.0 * smallest.min(axis=1)
    gaps = gaps[:, : rows.d]
    way, feature = (int(k) for k in np.unravel_index(np.argmax(gaps), gaps.shape))
    if not gaps[way, feature] > 0.0:
        return ranges, None, 0
    exact = [Fraction(0)] * rows.width
    exact[feature] = Fraction(1 - 2 * way)
    if rows.fit_intercept:
        plus, minus = (Fraction(float(value)) for value in smallest[way, :, feature])
        exact[rows.d] = (minus - plus) / 2
    direction = shortened(exact) if max(abs(x) for x in exact) > _LONG else tuple(exact)
    return ranges, direction, int(np.count_nonzero((gaps > 0.0).any(axis=0)))


def _dense(row: Array) -> Array:
    """Return a row of extremes as a dense vector; those of a CSR array are sparse."""
    return row if isinstance(row, np.ndarray) else row.toarray().ravel()
