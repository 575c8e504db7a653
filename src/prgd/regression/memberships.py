"""Proofs that ``e_j`` or ``-e_j`` is a combination of rows: then v_j has one sign on the cone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from prgd.core.threads import check_time
from prgd.core.types import Array, Indices, RationalVector
from prgd.proofs.column_relations import column_structure, structure_of
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.modular import solve_rational, vanishes
from prgd.proofs.weights import Proof, completed_weights, prove_weights, weights_prove
from prgd.regression.cone import Cone


@dataclass(frozen=True, eq=False)
class Membership:
    """A proof that ``sign e_j`` is a combination of rows: weights that balance them and ``-sign e_j``.

    Attributes
    ----------
    sign : int
    rows : ndarray of int
        Separated rows of positive weight.
    weights : tuple of Fraction, optional
        The weights of these rows; what is left is a combination of boundary rows.
    p : ndarray, optional
        Weights of these rows, of the boundary rows of a basis with both signs, and of ``-sign e_j``.
    proof : Proof, optional
        Weights near p balance those rows exactly.
    """

    sign: int
    rows: Indices
    weights: RationalVector | None = None
    p: Array | None = None
    proof: Proof | None = None


def prove_membership(cone: Cone, j: int, sign: int, index: Indices, q: Array) -> Membership | None:
    """Prove that ``sign e_j`` is a combination of separated rows, of nearly these weights, on N."""
    small = augmented(cone, j, sign, index)
    rest = _completion(cone, j, sign, index, q) if small.n > index.size + 1 else np.empty(0)
    p = np.concatenate([q, np.empty(0) if rest is None else rest, [1.0]])
    known = None if rest is None else column_structure(small, small.counted)
    proven = None if known is None else prove_weights(small, small.counted, p, known)
    return None if proven is None else Membership(sign, index, p=proven[0], proof=proven[1])


def exact_membership(
    cone: Cone, j: int, sign: int, index: Indices, proof: Proof, last: int
) -> Membership | None:
    """Return the membership that exact weights of the `augmented` rows prove, if the last has one."""
    exact = proof.weights or {}
    used = [k for k in range(index.size) if k in exact] if last in exact else []
    weights = tuple(Fraction(exact[k], exact[last]) for k in used)
    member = Membership(sign, index[used], weights=weights)
    return member if used and check_membership(cone, j, member) else None


def passed_signs(cone: Cone) -> dict[int, Membership]:
    """Return memberships of columns whose sign passes from row to row.

    If one coordinate in a separated row has no known sign, and no other term of the row is positive, that
    coordinate has the sign of its factor. A sum of coordinates has a sign if all of its terms have the same.
    """
    from scipy.sparse import csr_array

    index, members = cone.distinct, dict[int, Membership]()
    G, signs = csr_array(cone.functionals(index) if cone.is_whole else (0, cone.size)), np.zeros(cone.size)
    weights, count = dict[int, dict[int, Fraction]](), -1
    while len(weights) > count:
        check_time()
        count = len(weights)
        is_last = (abs(G).sign() @ (signs == 0.0)) == 1.0
        for i in np.flatnonzero(is_last & ((G.multiply(signs) > 0.0).sum(axis=1) == 0)).tolist():
            at = slice(G.indptr[i], G.indptr[i + 1])
            entries = zip(G.indices[at].tolist(), G.data[at].tolist(), strict=True)
            row = {k: Fraction(x) for k, x in entries if x}
            for k in row.keys() - weights.keys():
                parts = [(abs(x / row[k]), weights[other]) for other, x in row.items() if other != k]
                weights[k] = _total([(1 / abs(row[k]), {int(index[i]): Fraction(1)}), *parts])
                signs[k] = 1 if row[k] > 0 else -1
    for j, terms in cone.terms.items():
        both = {int(signs[k] * (1 if x > 0 else -1)) for k, x in terms.items()}
        if both in ({1}, {-1}):
            total = sorted(_total([(abs(x), weights[k]) for k, x in terms.items()]).items())
            rows, values = zip(*total, strict=True)
            members[j] = Membership(both.pop(), np.array(rows, np.int64), values)
    return members


def _total(parts: Sequence[tuple[Fraction, dict[int, Fraction]]]) -> dict[int, Fraction]:
    """Return the weights of a sum of combinations of rows with these factors."""
    total: dict[int, Fraction] = {}
    for factor, weights in parts:
        for i, weight in weights.items():
            total[i] = total.get(i, Fraction(0)) + factor * weight
    return total


def check_membership(cone: Cone, j: int, found: Membership) -> bool:
    """Prove a membership once more from its stored weights."""
    if found.sign not in (1, -1) or not np.isin(found.rows, cone.separated).all():
        return False
    if (np.diff(found.rows) <= 0).any():
        return False
    if found.weights is not None:
        if len(found.weights) != found.rows.size:
            return False
        left = [-x for x in cone.exact_entry(j, found.sign)]
        for z, weight in zip(cone.rows.take(found.rows), found.weights, strict=True):
            left = [x + weight * y for x, y in zip(left, cone.exact_reduced(z), strict=True)]
        return min(found.weights, default=1) > 0 and not any(left)
    small = augmented(cone, j, found.sign, found.rows)
    if found.p is None or found.proof is None or found.p.shape != (small.n,) or not found.p[-1] > 0.0:
        return False
    return weights_prove(small, small.counted, found.p, found.proof)


def weights_of(cone: Cone, j: int, found: Membership | None) -> dict[int, Fraction] | None:
    """Return the exact weights of rows whose combination is ``e_j``, or ``sign e_j`` of a membership.

    None if their numbers are too long.
    """
    target = [Fraction(int(k == j)) * (1 if found is None else found.sign) for k in range(cone.rows.width)]
    weights: dict[int, Fraction] = {}
    if found is not None:
        exact = found.weights if found.weights is not None else _solved_weights(cone, j, found)
        if exact is None:
            return None
        for i, z, weight in zip(found.rows.tolist(), cone.rows.take(found.rows), exact, strict=True):
            weights[i] = weight
            target = [x - weight * Fraction(float(y)) for x, y in zip(target, z, strict=True)]
    if not any(target):
        return weights
    rest = _boundary_combination(cone, target)
    return None if rest is None else weights | rest


def _solved_weights(cone: Cone, j: int, found: Membership) -> RationalVector | None:
    """Return exact weights of the rows of a membership that is proven by absorbing a residual."""
    if found.proof is not None and found.proof.weights is not None:
        integers = [found.proof.weights[k] for k in range(len(found.proof.weights))]
        return tuple(Fraction(w, integers[-1]) for w in integers[: found.rows.size])
    if found.p is None:
        return None
    small = augmented(cone, j, found.sign, found.rows)
    Z = small.take(small.counted)
    known = structure_of(Z, range(small.width), small.width)
    integers = completed_weights(Z, known, found.p) or [0]
    if min(integers) <= 0 or not vanishes(Z.T, integers).all():
        return None
    return tuple(Fraction(w, integers[-1]) for w in integers[: found.rows.size])


def _boundary_combination(cone: Cone, target: Sequence[Fraction]) -> dict[int, Fraction] | None:
    """Return weights of boundary rows whose combination is a vector that is zero on N."""
    chosen = cone.basis_rows
    if chosen is None or cone.structure is None:
        return None
    columns = cone.structure.columns
    # The right-hand side is scaled to integers, which multiply the columns of an identity.
    common = math.lcm(*(x.denominator for x in target))
    integers = [int(x * common) for x in target]
    Z = cone.rows.take(chosen)[:, columns]
    solved = solve_rational(Z.T, np.eye(len(columns)), [[integers[j] for j in columns]])
    if solved is None:
        return None
    return {int(i): a / common for i, a in zip(chosen, solved[0], strict=True) if a}


def augmented(cone: Cone, j: int, sign: int, index: Indices) -> LiftedRows:
    """Return some separated rows and ``-sign e_j`` in coordinates of N if float64 holds all numbers.

    If not, boundary rows of a basis with both signs stand before ``-sign e_j``, unless they are too many.
    """
    parts = [cone.rows.take(index), -sign * np.eye(1, cone.rows.width, j)]
    reduced = cone.exactly_reduced(np.concatenate(parts))
    if reduced is not None:
        return LiftedRows(reduced, None, fit_intercept=False)
    if cone.basis_rows is not None and cone.rows.fits_dense(2 * cone.basis_rows.size):
        basis = cone.rows.take(cone.basis_rows)
        parts[1:1] = [basis, -basis]
    return LiftedRows(np.concatenate(parts), None, fit_intercept=False)


def least_squares(A: Array, b: Array) -> Array | None:
    """Return the shortest least-squares solution, or None if a number leaves the floating range."""
    from scipy.linalg import lstsq  # a pivoted QR decomposition is ten times quicker than singular values

    if not (np.isfinite(A).all() and np.isfinite(b).all()):
        return None
    x = np.asarray(lstsq(A, b, lapack_driver="gelsy", check_finite=False)[0])
    return x if np.isfinite(x).all() else None


def _completion(cone: Cone, j: int, sign: int, index: Indices, q: Array) -> Array | None:
    """Return weights of the boundary rows of the basis, each with both signs, that complete q."""
    if cone.basis_rows is None or not cone.rows.fits_dense(2 * cone.basis_rows.size):
        return None
    left = -(cone.rows.take(index).T @ q)
    left[j] += sign
    a = least_squares(cone.rows.take(cone.basis_rows).T, left)
    if a is None:
        return None
    base = 0.5 * max(float(np.abs(a).max(initial=0.0)), 1.0)
    return np.concatenate([base + np.maximum(a, 0.0), base + np.maximum(-a, 0.0)])
