r"""Rigorous checks behind a verdict on separability; no word is said that they have not proven.

The rows are ``z_i = y_i (x_i, 1)``, or ``y_i x_i`` without intercept, and v stands for ``(w, b)``.
Goldman and Tucker: every row is either *separated* (positive for some v with ``Z v >= 0``) or on the
*boundary* (zero for all of them), and two objects prove which:

- a **direction** v with ``Z v >= 0``, positive on the separated rows and exactly zero on the others;
- **weights** p, positive on boundary rows and zero elsewhere, with ``Z^T p = 0``: then
  ``0 = <p, Z v> >= 0`` makes every row of positive weight zero for each such v (Gordan, Stiemke).

Floating-point weights leave a residual. It is *absorbed*: a correction of the weights of some rows, smaller
than they are, is proven to exist by a bound on the inverse of those rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from prgd._types import Array
from prgd.norms import norm
from prgd.proofs.exact import (
    Index,
    Relation,
    Structure,
    Vector,
    exact_dot,
    rank_at_least,
    solve,
    structure,
    vanishes,
    whole_numbers,
)
from prgd.rows import Combine, MarginsAt, Measure, Rows, as_rows
from prgd.rows.blocks import times_signs

UNIT = 2.0**-53  # rounding of float64
TINY = 2.0**-1074  # underflow of one product
SAFE = 1.01  # what the rounding of a bound itself can take away, many times over
BLOCK = 2**20  # entries of a block of rows that is held at a time
MOST_DENSE = 2**25  # entries of the rows that carry a proof
MOST_EXACT = 2**21  # entries that may be multiplied as fractions in one proof


def rounding(terms: int) -> float:
    """Return ``gamma_n = n u / (1 - n u)``: the relative error of a sum of n products, in any order."""
    return terms * UNIT / (1.0 - terms * UNIT)


class LiftedRows:
    """The rows ``z_i = y_i (x_i, 1)`` over any engine, without a copy of the data.

    Parameters
    ----------
    X, y
        As for `prgd.Problem`.
    fit_intercept : bool

    Examples
    --------
    >>> rows = LiftedRows([[1.0, 2.0], [3.0, 4.0]], [1, -1], fit_intercept=True)
    >>> rows.take([0, 1])
    array([[ 1.,  2.,  1.],
           [-3., -4., -1.]])
    >>> rows.margins(np.array([1.0, 0.0, -2.0]))
    array([-1., -1.])
    """

    def __init__(self, X: Any, y: Any, *, fit_intercept: bool) -> None:
        self.rows: Rows = as_rows(X, y)
        labels = self.rows.labels
        if labels.sample_weight.size and not labels.sample_weight.all():
            raise ValueError("Rows of sample weight 0 do not count for separability: leave them out of X.")
        if fit_intercept and min(labels.class_weights) == 0.0:
            raise ValueError(
                "fit_intercept=True needs rows of both classes; got one. Give y, or use fit_intercept=False."
            )
        self.n, self.d = self.rows.n, self.rows.d
        self.fit_intercept = fit_intercept
        self.width = self.d + int(fit_intercept)
        self.signs = labels.signs
        self.max_norm, self.zero_rows = self.rows.ask(Measure())

    def margins(self, v: Array) -> Array:
        """Return ``<v, z_i>`` for every row, rounded."""
        margins = self.rows.ask(MarginsAt(np.ascontiguousarray(v[: self.d])))
        return margins + self.signs * v[self.d] if self.fit_intercept else margins

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p``, rounded."""
        sums = self.rows.ask(Combine.of(p))
        return np.append(sums, p @ self.signs) if self.fit_intercept else sums

    def take(self, index: Sequence[int] | Index) -> Array:
        """Return some of the rows, their numbers in increasing order, as a dense array, exactly."""
        blocks = [Z for _, Z in self.blocks(np.asarray(index, np.int64))]
        return np.concatenate(blocks) if blocks else np.empty((0, self.width))

    def sparse(self, index: Index, most_entries: int) -> Any:
        """Return some of the rows as a CSR array, or None where they have more entries than that."""
        from scipy.sparse import csr_array, vstack

        parts, size = [], 0
        for _, Z in self.blocks(index, as_stored=True):
            parts.append(csr_array(Z))
            size += parts[-1].nnz
            if size > most_entries:
                return None
        return vstack(parts, format="csr")

    def blocks(self, index: Index, *, as_stored: bool = False) -> Iterator[tuple[Index, Any]]:
        """Yield rows in parts that fit in memory, with their numbers, in one reading of the data.

        Dense arrays, or CSR arrays where the rows are stored so and ``as_stored`` asks for them.
        """
        step = max(256 if as_stored else 1, BLOCK // self.width)
        for start, piece in self.rows.pieces():
            first, last = (int(k) for k in np.searchsorted(index, [start, start + piece.n]))
            for k in range(first, last, step):
                part = index[k : min(k + step, last)]
                rows = times_signs(piece.take(part - start), self.signs[part])
                if not (as_stored or isinstance(rows, np.ndarray)):
                    rows = rows.toarray()
                yield part, self._lifted(rows, part)

    def _lifted(self, rows: Any, index: Index) -> Any:
        if not self.fit_intercept:
            return rows
        ones = self.signs[index, None].astype(np.float64)
        if isinstance(rows, np.ndarray):
            return np.hstack([rows, ones])
        from scipy.sparse import csr_array, hstack

        return hstack([rows, csr_array(ones)], format="csr")


class Smallest(NamedTuple):
    """A lower bound of the smallest margin, and the number of rows that needed exact arithmetic."""

    margin: float
    exact_rows: int


def smallest_margin(
    rows: LiftedRows, v: Array, exact: Vector | None = None, index: Index | None = None
) -> Smallest:
    r"""Bound ``min_i <v, z_i>`` from below; a positive answer proves that v separates these rows.

    A margin computed in float64 in any order of summation is within
    :math:`\gamma_{d+1} \sum_j |v_j z_{ij}|` of the true one; rows that this does not settle are computed
    in fractions.

    Parameters
    ----------
    rows : LiftedRows
    v : ndarray of shape (d,) or (d + 1,)
    exact : vector of Fraction, optional
        The true direction, of which ``v`` is the rounding (default: v itself).
    index : ndarray of int, optional
        The rows to look at (default: all).

    Examples
    --------
    >>> rows = LiftedRows([[1.0, 1.0], [-0.1, 0.3]], [1, -1], fit_intercept=False)
    >>> smallest_margin(rows, np.array([1.0, 1 / 3]))
    Smallest(margin=1.4802973661668754e-17, exact_rows=1)
    """
    true = exact or tuple(Fraction(float(value)) for value in v)
    # one term more for the rounding of v itself; what is lost to underflow there is not relative
    relative = rounding(rows.width + 4)
    if not np.isfinite(v).all() or any(
        t != 0 and not 2.0**-900 < abs(f) < 2.0**900 for f, t in zip(v, true, strict=True)
    ):
        relative = math.inf
    with np.errstate(over="ignore", invalid="ignore"):
        margins = rows.margins(v)
        all_rows = index is None
        if index is not None:
            margins = margins[index]
        b = abs(float(v[rows.d])) if rows.fit_intercept else 0.0
        slack = SAFE * (relative * (rows.max_norm * norm(v[: rows.d]) + b) + (rows.width + 1) * TINY)
        # the rows that may hold the smallest margin are looked at one by one
        open_rows = np.flatnonzero(~(margins > np.nanmin(margins, initial=math.inf) + 2.0 * slack))
    chosen = open_rows if all_rows else index[open_rows]  # type: ignore[index]
    least, exact_rows = math.inf, 0
    for _, Z in rows.blocks(chosen.astype(np.int64)):
        with np.errstate(over="ignore", invalid="ignore"):
            margins = Z @ v
            bounds = SAFE * (relative * (np.abs(Z) @ np.abs(v)) + (rows.width + 1) * TINY)
            lower = margins - bounds
            lower -= np.abs(lower) * 2.0 * UNIT
            settled = (lower > 0.0) | (margins < -bounds)
        least = min(least, float(lower[settled].min(initial=math.inf)))
        for i in np.flatnonzero(~settled).tolist():
            if least <= 0.0:  # nothing is left to prove
                least = min(least, float(lower[i]) if lower[i] < 0.0 else -math.inf)
                continue
            exact_rows += 1
            if exact_rows * rows.width > MOST_EXACT:
                return Smallest(-math.inf, exact_rows)
            least = min(least, _rounded_down(exact_dot(Z[i], true)))
    return Smallest(least, exact_rows)


def _rounded_down(value: Fraction) -> float:
    """Return a float64 at most ``value`` and of its sign."""
    try:
        rounded = float(value)
    except OverflowError:
        return float(np.finfo(np.float64).max) if value > 0 else -math.inf
    if rounded > value:
        rounded = math.nextafter(rounded, -math.inf)
    # a positive number below the floating range is still positive
    return TINY if value > 0 and rounded == 0.0 else rounded


def is_zero_on(rows: LiftedRows, v: Sequence[Fraction], index: Index) -> bool:
    """Say whether ``<v, z_i>`` is exactly zero on all these rows."""
    whole = whole_numbers(v)
    return all(vanishes(Z, whole).all() for _, Z in rows.blocks(index))


def obeying(rows: LiftedRows, relations: Sequence[Relation], index: Index) -> Index:
    """Return those of the rows on which every relation ``sum_j k_j z_ij = 0`` holds exactly."""
    if not relations:
        return index
    empty = [j for relation in relations if len(relation) == 1 for j in relation]
    kept = []
    for part, Z in rows.blocks(index):
        good = ~Z[:, empty].any(axis=1)
        for relation in relations:
            columns = list(relation)
            if len(columns) == 1:
                continue
            good &= vanishes(Z[:, columns], whole_numbers([relation[j] for j in columns]))
        kept.append(part[good])
    return np.concatenate(kept) if kept else index


@dataclass(frozen=True, eq=False)
class Proof:
    """What proves a verdict beyond the numbers of the result, all exact.

    Attributes
    ----------
    direction : vector of Fraction, optional
        ``(w, b)`` where ``coef`` and ``intercept``, which are its rounding, do not prove it themselves.
    weights : dict from row to whole number, optional
        Exact weights where the floating-point ones are not enough.
    relations : list of dict from column to Fraction
        ``sum_j k_j z_ij = 0`` on every boundary row: features that depend on others there. The first
        column of each stands in no other.
    """

    direction: Vector | None = None
    weights: dict[int, int] | None = None
    relations: tuple[Relation, ...] = field(default=())


def weights_prove(rows: LiftedRows, boundary: Index, p: Array, proof: Proof) -> bool:
    r"""Say whether the weights prove that no v with ``Z v >= 0`` is positive on a boundary row.

    True when some weights near ``p``, positive where p is, satisfy ``Z^T p = 0`` exactly and the rows of
    positive weight span the boundary rows.

    Parameters
    ----------
    rows : LiftedRows
    boundary : ndarray of int, rows that hold the support of p
    p : ndarray of shape (n,), not negative
    proof : Proof
    """
    support = np.flatnonzero(p).astype(np.int64)
    if not support.size or (p < 0.0).any() or not np.isin(support, boundary).all():
        return False
    if boundary.max() >= rows.n or support.size * rows.width > MOST_DENSE:
        return False
    # each relation has a column of its own, so that they are independent
    own = [next(j for j, k in relation.items() if k) for relation in proof.relations]
    used = [j for relation in proof.relations for j in list(relation)[1:]]
    if len(set(own)) < len(own) or set(own) & set(used) or max([*own, *used], default=0) >= rows.width:
        return False
    spans = support.size == boundary.size
    needs_relations = proof.weights is None or not spans
    if needs_relations and obeying(rows, proof.relations, boundary).size < boundary.size:
        return False
    columns = np.setdiff1d(np.arange(rows.width), own)
    Z = rows.take(support)
    if proof.weights is None:
        return absorbs(Z[:, columns], p[support])
    return (
        sorted(proof.weights) == support.tolist()
        and min(proof.weights.values()) > 0
        and bool(vanishes(Z.T, [proof.weights[int(i)] for i in support]).all())
        and (spans or rank_at_least(Z[:, columns]) == columns.size)
    )


def absorbs(Z: Array, p: Array) -> bool:
    r"""Say whether some ``q > 0`` near ``p`` satisfies ``Z^T q = 0`` exactly and Z has full column rank.

    Correct the weights of r rows B by ``pi_i delta_i`` with ``pi_i`` a power of two near ``p_i``:
    ``G delta = -Z^T p`` with ``G = Z_B^T diag(pi)``. If R nearly inverts G, ``rho = ||I - R G|| < 1``, then
    G is invertible and ``||delta|| <= ||R Z^T p|| / (1 - rho)`` in the largest-entry norm; less than 1/2
    keeps every weight positive. All rounding is bounded, and the residual ``Z^T p`` is summed exactly.

    Parameters
    ----------
    Z : ndarray of shape (s, r)
    p : ndarray of shape (s,), positive

    References
    ----------
    Rump (2010), Verification methods, section 10.

    Examples
    --------
    >>> Z = np.array([[1.0, 0.1], [-1.0, 0.2], [0.3, -0.7], [0.1, 0.3]])
    >>> absorbs(Z, np.array([0.36, 0.43, 0.17, 0.04])), absorbs(np.abs(Z), np.full(4, 0.25))
    (True, False)
    """
    s, r = Z.shape
    if r == 0:
        return True
    balanced = balance(Z, p) if s > r and (p > 0.0).all() else None
    if balanced is None:
        return False
    Z, p = balanced
    basis = independent_rows(Z * p[:, None])
    powers = np.ldexp(1.0, np.frexp(p[basis])[1] - 1)  # p / powers lies in [1, 2)
    G = (Z[basis] * powers[:, None]).T
    try:
        R = np.linalg.inv(G)
    except np.linalg.LinAlgError:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        defect = np.abs(np.eye(r) - R @ G) + rounding(r + 2) * (np.abs(R) @ np.abs(G)) + r * TINY
        rho = SAFE * float(defect.sum(axis=1).max())
        residual = np.array([_size_of_sum(column, p) for column in Z.T])
        delta = SAFE * float((np.abs(R) @ residual).max())
    return rho < 0.5 and delta < 0.5 * (1.0 - rho) / SAFE


def _size_of_sum(a: Array, b: Array) -> float:
    """Return at least ``|sum_i a_i b_i|``, and hardly more: Dekker's products are exact, and so is fsum."""
    split = 2.0**27 + 1.0
    a_high, b_high = split * a - (split * a - a), split * b - (split * b - b)
    a_low, b_low = a - a_high, b - b_high
    product = a * b
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return abs(math.fsum([*product.tolist(), *error.tolist()])) * (1.0 + 4.0 * UNIT)


def balance(Z: Array, p: Array) -> tuple[Array, Array] | None:
    """Scale columns, and rows against their weights, by powers of two; None where that is not exact."""
    with np.errstate(over="ignore", under="ignore"):
        columns = np.frexp(np.abs(Z * p[:, None]).max(axis=0, initial=0.0))[1]
        scaled = np.ldexp(Z, -columns)
        rows = np.frexp(np.abs(scaled).max(axis=1, initial=0.0))[1]
        scaled = np.ldexp(scaled, -rows[:, None])
        back = np.ldexp(np.ldexp(scaled, rows[:, None]), columns)
        weights = np.ldexp(p, rows)
        shift = int(np.frexp(weights.max())[1])
        weights = np.ldexp(weights, -shift)
        exact = np.array_equal(back, Z) and np.array_equal(np.ldexp(np.ldexp(weights, shift), -rows), p)
    # far from underflow, so that products of two entries split exactly
    is_moderate = weights.min() > 2.0**-400 and np.abs(scaled[scaled != 0.0]).min(initial=1.0) > 2.0**-400
    return (scaled, weights) if exact and is_moderate else None


def independent_rows(Z: Array) -> Index:
    """Return as many rows of a tall table as it has columns, independent ones where there are (by LU)."""
    from scipy.linalg import lapack

    _, swaps, _ = lapack.dgetrf(Z)
    order = np.arange(len(Z))
    for k, other in enumerate(swaps):
        order[k], order[other] = order[other], order[k]
    return order[: Z.shape[1]].astype(np.int64)


def column_structure(rows: LiftedRows, index: Index, most_relations: int = 300) -> Structure | None:
    """Find how the columns depend on each other on some rows, from as few of them as will do.

    None where even those are too large.
    """
    few = 4 * rows.width
    used = index if index.size <= few else index[np.linspace(0, index.size - 1, few).astype(np.int64)]
    while used.size * rows.width <= MOST_DENSE // 4:
        Z = rows.take(used)
        order, sizes = _column_order(Z)
        if sizes.size == rows.width and sizes[-1] > 1e-8 * sizes[0]:
            return Structure(order, [], [], Z[:0], [])
        known = structure(Z, order, most_relations)
        disobey = index
        if known.relations is not None:
            disobey = np.setdiff1d(index, obeying(rows, known.relations, index))
        if not disobey.size or used.size == index.size:
            return known
        used = np.union1d(used, disobey[:: max(1, disobey.size // few)])
    return None


def _column_order(Z: Array) -> tuple[list[int], Array]:
    """Return the columns, the most independent ones first, and how much each adds."""
    from scipy.linalg import qr

    balanced = balance(Z, np.ones(len(Z)))
    R, order = qr(Z if balanced is None else balanced[0], mode="r", pivoting=True, check_finite=False)
    return [int(j) for j in order], np.abs(np.diag(R))


def refined_weights(Z: Array, p: Array) -> Array:
    """Return weights near p whose sum ``Z^T p`` is zero to rounding, changing them in proportion."""
    balanced = balance(Z, p)
    if balanced is None:
        return p
    Z, weights = balanced
    factors = np.ones(p.size)
    for _ in range(2):
        Q, R = np.linalg.qr(Z * (weights * factors)[:, None])
        residual = Z.T.astype(np.longdouble) @ (weights * factors).astype(np.longdouble)
        try:
            correction = Q @ np.linalg.solve(R.T, residual.astype(np.float64))
        except np.linalg.LinAlgError:
            return p
        if not (np.abs(correction) < 1.0).all():
            return p
        factors *= 1.0 - correction
    return p * factors


def completed_weights(Z: Array, known: Structure, p: Array) -> list[int] | None:
    """Round the weights of all rows of Z but those of ``known``, and solve for these exactly."""
    basis = np.zeros(len(Z), np.bool_)
    basis[known.rows] = True
    if basis.all() or not basis.any():
        return None
    whole = [round(w) for w in np.minimum(p[~basis] / p.min(), 2.0**40) * 2.0**12]
    solved = solve(Z[known.rows][:, known.columns].T, Z[~basis][:, known.columns].T, [[-w for w in whole]])
    if solved is None:
        return None
    weights = [Fraction(0)] * len(Z)
    for i, w in zip(known.rows, solved[0], strict=True):
        weights[i] = w
    for i, value in zip(np.flatnonzero(~basis).tolist(), whole, strict=True):
        weights[i] = Fraction(value)
    return whole_numbers(weights)


def normalised(p: Array, rows: LiftedRows) -> Array:
    """Return weights of sum 1, with an intercept of sum 1/2 in each class."""
    groups = [rows.signs > 0, rows.signs < 0] if rows.fit_intercept else [rows.signs != 0]
    p = p.copy()
    for group in groups:
        if (total := p[group].sum()) > 0.0:
            p[group] /= total * len(groups)
    return p


def proven_weights(
    rows: LiftedRows, inside: Index, given: Array, known: Structure
) -> tuple[Array, Proof] | None:
    """Turn weights whose sum ``Z^T p`` is near zero into some that `weights_prove` takes, where that works.

    By absorbing the residual, or by rounding the weights and completing them exactly.

    Parameters
    ----------
    rows : LiftedRows
    inside : ndarray of int
        The boundary rows.
    given : ndarray
        The weights of those rows, positive.
    known : Structure
        What `column_structure` found on them.
    """
    Z = rows.take(inside)
    if known.relations is not None:
        proof = Proof(relations=tuple(known.relations))
        for improve in (False, True):
            p = np.zeros(rows.n)
            p[inside] = refined_weights(Z[:, known.columns], given) if improve else given
            p = normalised(p, rows)
            if weights_prove(rows, inside, p, proof):
                return p, proof
    completed = completed_weights(Z, known, given)
    return None if completed is None else whole_weights(rows, inside, completed, known.relations)


def whole_weights(
    rows: LiftedRows, inside: Index, whole: Sequence[int], relations: Sequence[Relation] | None
) -> tuple[Array, Proof] | None:
    """Return whole numbers as weights of sum 1 with their proof, None where they do not balance."""
    total = sum(whole)
    p = np.zeros(rows.n)
    # a positive weight stays positive, however small
    p[inside] = [max(float(Fraction(w, total)), TINY) for w in whole]
    exact = dict(zip(inside.tolist(), whole, strict=True))
    proof = Proof(weights=exact, relations=tuple(relations or ()))
    return (p, proof) if weights_prove(rows, inside, p, proof) else None
