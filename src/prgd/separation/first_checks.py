"""Checks of one pass each that decide many data sets at once: rows that cancel, and single features."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from prgd.core.arithmetic import LARGEST, shortened
from prgd.core.types import Array, RationalVector
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.weights import Proof, weights_prove
from prgd.separation.verdict import Found, Verdict

_MAX_CANDIDATES = 1000  # pairs of rows that are checked exactly
_KEY_TOLERANCE = 1e-9  # keys of equal rows differ by rounding only, far less than this fraction
_LONG = 2**900  # exact entries above this are near the end of the floating range


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
    """Measure the range of each feature, and look for one that separates the classes alone.

    Returns
    -------
    ranges : ndarray of shape (d,)
        Largest value less smallest value of each feature.
    direction : vector of fractions or None
        The direction (w, b) of the feature that leaves the widest gap between the classes, if there is a gap.
    features_alone : int
        The number of features that separate alone.
    """
    low, high = _extremes(rows)
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


def _extremes(rows: LiftedRows) -> tuple[Array, Array]:
    """Return the smallest and the largest entry of each column of Z in each class, by one pass."""
    low, high = np.full((2, rows.width), math.inf), np.full((2, rows.width), -math.inf)
    for index, Z in rows.blocks(rows.counted, as_stored=True):
        for k, sign in enumerate((1, -1)):
            part = Z[rows.signs[index] == sign]
            if part.shape[0]:
                low[k] = np.minimum(low[k], _dense(part.min(axis=0)))
                high[k] = np.maximum(high[k], _dense(part.max(axis=0)))
    return low, high


def _dense(row: Array) -> Array:
    """Return a row of extremes as a dense vector; those of a CSR array are sparse."""
    return row if isinstance(row, np.ndarray) else row.toarray().ravel()
