r"""Proofs by dual weights: if ``p >= 0`` and ``Z^T p = 0``, no v separates the rows of positive weight.

Weights in float64 leave a residual. The residual is *absorbed*: a correction of the weights of some rows,
smaller than these weights, is proven to exist by a bound on the inverse of those rows. Where that fails,
the weights are rounded to integers and completed exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from prgd.core.arithmetic import EPSILON, SMALLEST, integer_multiple
from prgd.core.types import Array, Indices, RationalVector
from prgd.proofs.column_relations import ColumnStructure, Relation, rows_obeying
from prgd.proofs.gram_matrices import absorbs, disjoint_columns, gram, gram_factor, weighted
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.modular import independent_rows, null_vector, vanishes

_STATED = 1e-9  # relative error of weights that are stated in float64 beside exact ones


# Entries and weights above 2**-400 are far from underflow, so that products of two of them split exactly.
_FAR_FROM_UNDERFLOW = 2.0**-400


@dataclass(frozen=True, eq=False)
class Proof:
    """The exact objects that prove a verdict beyond the float64 numbers of the result.

    Attributes
    ----------
    direction : vector of Fraction, optional
        ``(w, b)``, given if ``coef`` and ``intercept``, which are its rounding, are not enough.
    weights : dict from row to integer, optional
        Exact dual weights, given if the float64 ones are not enough.
    relations : tuple of dict from column to Fraction
        ``sum_j k_j z_ij = 0`` on every boundary row: features that depend on others there. The first
        column of each relation stands in no other.
    """

    direction: RationalVector | None = None
    weights: dict[int, int] | None = None
    relations: tuple[Relation, ...] = ()


def weights_prove(rows: LiftedRows, boundary: Indices, p: Array, proof: Proof) -> bool:
    r"""Say whether dual weights prove that no v with ``Z v >= 0`` is positive on a boundary row.

    True if some weights near ``p``, positive wherever p is, satisfy ``Z^T p = 0`` exactly and the rows of
    positive weight span the boundary rows.

    Parameters
    ----------
    rows : LiftedRows
    boundary : ndarray of int, rows that include the support of p
    p : ndarray of shape (n,), not negative
    proof : Proof
    """
    support = np.flatnonzero(p).astype(np.int64)
    if not support.size or (p < 0.0).any() or not np.isin(support, boundary).all():
        return False
    Z = rows.stored(support) if np.isin(boundary, rows.counted).all() else None
    if Z is None:
        return False
    # Each relation has a column of its own, which makes the relations independent.
    if not all(any(relation.values()) for relation in proof.relations):
        return False
    own = [next(j for j, k in relation.items() if k) for relation in proof.relations]
    used = [j for relation in proof.relations for j in list(relation)[1:]]
    if len(set(own)) < len(own) or set(own) & set(used) or not {*own, *used} <= set(range(rows.width)):
        return False
    spans = support.size == boundary.size
    if rows_obeying(rows, proof.relations, boundary).size < boundary.size:
        return False
    columns = np.setdiff1d(np.arange(rows.width), own)
    if proof.weights is None:
        return absorbs_residual(Z[:, columns], p[support])
    if not rows.fits_dense(support.size):
        return False
    Z = rows.take(support)
    return (
        sorted(proof.weights) == support.tolist()
        and min(proof.weights.values()) > 0
        and bool(vanishes(Z.T, [proof.weights[int(i)] for i in support]).all())
        and (spans or len(independent_rows(Z[:, columns])) == columns.size)
    )


def is_rounded(p: Array, proof: Proof) -> bool:
    """Say whether weights of sum 1 are numbers, and those of the proof, if it has exact ones, but rounded."""
    if not np.isfinite(p).all():
        return False
    if proof.weights is None:
        return True
    exact, total = np.zeros(p.size), sum(proof.weights.values())
    for i, weight in proof.weights.items():
        if not (0 <= i < p.size and weight > 0):
            return False
        exact[i] = Fraction(weight, total)
    return bool(np.allclose(p, exact, rtol=_STATED, atol=SMALLEST))


def absorbs_residual(Z: Any, p: Array) -> bool:
    r"""Say whether some ``q > 0`` near ``p`` satisfies ``Z^T q = 0`` exactly and Z has full column rank.

    Parameters
    ----------
    Z : ndarray or CSR array of shape (s, r)
    p : ndarray of shape (s,), positive

    Examples
    --------
    >>> Z = np.array([[1.0, 0.1], [-1.0, 0.2], [0.3, -0.7], [0.1, 0.3]])
    >>> p = np.array([0.36, 0.43, 0.17, 0.04])
    >>> absorbs_residual(Z, p), absorbs_residual(np.abs(Z), np.full(4, 0.25))
    (True, False)
    """
    s, r = Z.shape
    if r == 0:
        return True
    A = weighted(Z, p) if s > r and (p > 0.0).all() else None
    return A is not None and absorbs(A)


def refined_weights(Z: Any, p: Array) -> Array:
    """Return weights near p whose sum ``Z^T p`` is zero to rounding, by relative changes of each."""
    A, factors = weighted(Z, p), np.ones(p.size)
    if A is None or not Z.shape[1]:
        return p
    H = gram(A)
    factor = gram_factor(H, disjoint_columns(H), A.shape[1] * EPSILON)
    if factor is None:
        return p
    for _ in range(4):
        residual = A.T @ factors
        correction = A @ factor.solve(residual)
        if not (np.abs(correction) < 1.0).all():
            return p
        factors *= 1.0 - correction
    return p * factors


def completed_weights(Z: Array, known: ColumnStructure, p: Array) -> list[int] | None:
    """Round the weights of all rows of Z except those of ``known``, and solve for these exactly."""
    others = np.setdiff1d(np.arange(len(Z)), known.rows)
    if not (others.size and known.rows.size and p.min() > 0.0):  # weights may have vanished below the range
        return None
    rounded = [round(w) for w in np.minimum(p[others] / p.min(), 2.0**40) * 2.0**12]
    weights = null_vector(Z[:, known.columns].T, known.rows.tolist(), others.tolist(), rounded)
    return None if weights is None else integer_multiple(weights)


def prove_weights(
    rows: LiftedRows, inside: Indices, p: Array, known: ColumnStructure
) -> tuple[Array, Proof] | None:
    """Turn weights whose sum ``Z^T p`` is near zero into weights that `weights_prove` accepts.

    The residual is absorbed after a refinement of the weights, or the weights are rounded and completed
    exactly; None if both fail.

    Parameters
    ----------
    rows : LiftedRows
    inside : ndarray of int
        The boundary rows.
    p : ndarray
        The weights of those rows, positive.
    known : ColumnStructure
        What `column_structure` found on those rows.
    """
    Z = rows.stored(inside)
    if Z is not None and known.relations is not None:
        proof = Proof(relations=tuple(known.relations))
        full = np.zeros(rows.n)
        full[inside] = refined_weights(Z[:, known.columns], p)
        full = rows.normalized_weights(full)
        if weights_prove(rows, inside, full, proof):
            return full, proof
    if not rows.fits_dense(inside.size):
        return None
    Z = rows.take(inside)
    completed = completed_weights(Z, known._replace(rows=np.searchsorted(inside, known.rows)), p)
    return None if completed is None else prove_integer_weights(rows, inside, completed, known.relations)


def prove_integer_weights(
    rows: LiftedRows, inside: Indices, weights: Sequence[int], relations: Sequence[Relation] | None
) -> tuple[Array, Proof] | None:
    """Return integers as weights of sum 1 with their proof, or None if they do not balance the rows."""
    if min(weights) <= 0:
        return None
    total = sum(weights)
    p = np.zeros(rows.n)
    # A positive weight must stay positive, even if it is below the floating range.
    p[inside] = [max(float(Fraction(w, total)), SMALLEST) for w in weights]
    exact = dict(zip(inside.tolist(), weights, strict=True))
    proof = Proof(weights=exact, relations=tuple(relations or ()))
    return (p, proof) if weights_prove(rows, inside, p, proof) else None
