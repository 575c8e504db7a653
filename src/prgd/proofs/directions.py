"""Proofs by a direction v: bounds on its margins that include all rounding, and exact zero margins."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from prgd.core.arithmetic import (
    EPSILON,
    SMALLEST,
    error_bound,
    exact_dot,
    literal_fractions,
    nearest_floats,
    root_up,
    round_down,
    rounding_factor,
    shortened,
)
from prgd.core.types import Array, Indices, RationalVector
from prgd.norms import norm
from prgd.proofs.column_relations import rows_obeying
from prgd.proofs.lifted_rows import LiftedRows

MAX_EXACT_ENTRIES = 2**21  # entries that may be multiplied as fractions in one proof
# Between these sizes the rounding of an entry of v is relative; outside, underflow or overflow adds to it.
_SMALLEST_ENTRY, _LARGEST_ENTRY = 2.0**-900, 2.0**900


class SmallestMargin(NamedTuple):
    """A lower bound of the smallest margin, and the number of rows that needed exact arithmetic."""

    margin: float
    exact_rows: int


def smallest_margin(
    rows: LiftedRows, v: Array, exact: RationalVector | None = None, index: Indices | None = None
) -> SmallestMargin:
    r"""Bound ``min_i <v, z_i>`` from below; a positive answer proves that v separates these rows.

    A margin computed in float64 in any order of summation is within
    :math:`\gamma_{d+1} \sum_j |v_j z_{ij}|` of the true one; rows whose sign this leaves open are computed
    in fractions.

    Parameters
    ----------
    rows : LiftedRows
    v : ndarray of shape (d,) or (d + 1,)
    exact : vector of Fraction, optional
        The true direction, of which ``v`` is the rounding (default: v itself).
    index : ndarray of int, optional
        The rows to bound (default: all that count).

    Examples
    --------
    >>> rows = LiftedRows([[1.0, 1.0], [-0.1, 0.3]], [1, -1], fit_intercept=False)
    >>> smallest_margin(rows, np.array([1.0, 1 / 3]))
    SmallestMargin(margin=1.4802973661668754e-17, exact_rows=1)
    """
    true = exact or literal_fractions(v)
    relative = _relative_error(rows, v, true)
    smallest, exact_rows = math.inf, 0
    for _, Z in rows.blocks(_candidates(rows, v, relative, index), as_stored=True):
        with np.errstate(over="ignore", invalid="ignore"):
            margins = Z @ v
            bounds = error_bound(rows.width + 1, relative, abs(Z) @ np.abs(v))
            lower = margins - bounds
            lower -= np.abs(lower) * EPSILON
            sign_is_known = (lower > 0.0) | (margins < -bounds)
        smallest = min(smallest, float(lower[sign_is_known].min(initial=math.inf)))
        for i in np.flatnonzero(~sign_is_known).tolist():
            if smallest <= 0.0:  # nothing is left to prove
                smallest = min(smallest, float(lower[i]) if lower[i] < 0.0 else -math.inf)
                continue
            exact_rows += 1
            if exact_rows * rows.width > MAX_EXACT_ENTRIES:
                return SmallestMargin(-math.inf, exact_rows)
            z = Z[i] if isinstance(Z, np.ndarray) else Z[[i]].toarray()[0]
            smallest = min(smallest, round_down(exact_dot(z, true)))
    return SmallestMargin(smallest, exact_rows)


def margin_below(smallest: float, w: Array) -> float:
    """Return a lower bound of ``smallest / ||w||``, which is not negative if smallest is not.

    A quotient in the subnormal range is rounded by more than a fraction of it, so the answer is the next
    smaller float64.
    """
    # The computed norm is within (d + 8) units in the last place, if it is not subnormal itself.
    slack = (w.size + 8) * EPSILON
    length = norm(w) * (1.0 + slack if smallest > 0.0 else 1.0 - slack)
    # SMALLEST stands for any positive number up to it.
    if smallest in (0.0, SMALLEST) or not _SMALLEST_ENTRY < length < math.inf:
        return 0.0 if smallest >= 0.0 else -math.inf
    margin = math.nextafter(smallest / length, -math.inf)
    return max(margin, 0.0) if smallest > 0.0 else margin


def _relative_error(rows: LiftedRows, v: Array, true: Sequence[Fraction]) -> float:
    """Return the relative error of a margin; infinite if rounding an entry of v was not relative."""
    is_relative = np.isfinite(v).all() and all(
        t == 0 or _SMALLEST_ENTRY < abs(f) < _LARGEST_ENTRY for f, t in zip(v, true, strict=True)
    )
    # A sum of `width` products; the further terms cover the sign, the intercept and the rounding of v.
    return rounding_factor(rows.width + 4) if is_relative else math.inf


def _candidates(rows: LiftedRows, v: Array, relative: float, index: Indices | None) -> Indices:
    """Return the rows that may hold the smallest margin, by one pass and a bound that all rows share."""
    if index is None and rows.counted.size < rows.n:
        index = rows.counted
    with np.errstate(over="ignore", invalid="ignore"):
        margins = rows.margins(v)
        if index is not None:
            margins = margins[index]
        w, b = rows.split(v)
        slack = error_bound(rows.width + 1, relative, rows.max_norm * norm(w) + abs(b))
        # The negation keeps rows whose margin is NaN.
        near = np.flatnonzero(~(margins > np.nanmin(margins, initial=math.inf) + 2.0 * slack))
    return (near if index is None else index[near]).astype(np.int64)


def exact_lower(rows: LiftedRows, v: RationalVector, square: Fraction | None = None) -> float:
    """Return a lower bound of ``min_i <v, z_i> / ||w||`` for ``v = (w, b)``, -inf if it is not positive.

    ``square`` is ``||w||^2`` if v does not hold all of w.
    """
    v = shortened(v) if square is None else v
    rounded = nearest_floats(v)
    index = _candidates(rows, rounded, _relative_error(rows, rounded, v), None)
    square = sum((x * x for x in v[: rows.d]), Fraction(0)) if square is None else square
    if square == 0 or index.size * rows.width > MAX_EXACT_ENTRIES:
        return -math.inf
    margin = min(exact_dot(z, v) for _, Z in rows.blocks(index) for z in Z) / Fraction(root_up(square))
    if margin <= 0:
        return -math.inf
    stated = round_down(margin)
    return stated if stated <= margin else 0.0  # a positive margin below the floating range


def separates(rows: LiftedRows, v: RationalVector, separated: Indices, boundary: Indices) -> bool:
    """Say whether a direction is positive on the separated rows, and exactly zero on the boundary rows."""
    is_positive = smallest_margin(rows, nearest_floats(v), v, separated).margin > 0.0
    zero = {j: value for j, value in enumerate(v) if value}
    return is_positive and rows_obeying(rows, [zero], boundary).size == boundary.size
