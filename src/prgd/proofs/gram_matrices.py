r"""Gram matrices: proofs that columns are independent, and floats that show how others depend on them.

With ``a_i = p_i z_i`` the rows of A, ``H = A^T A`` and ``r = Z^T p``, the weights ``q_i = p_i (1 - a_i . H^-1
r)`` balance the rows exactly, and all are positive if ``r . H^-1 r < 1``. A factorisation in floats that
succeeds although a multiple of the identity is subtracted from H bounds the smallest eigenvalue of H from
below (Rump, 2006, Verification of positive definiteness). Columns that share no row, such as the dummies of a
factor, are eliminated first: their part of H is diagonal, and only what is left is factorised as a dense one.
"""

from typing import Any, NamedTuple

import numpy as np

from prgd.core.arithmetic import BOUND_FACTOR, EPSILON, LARGEST, SMALLEST, rounding_factor
from prgd.core.threads import check_time
from prgd.core.types import Array, Indices
from prgd.proofs.lifted_rows import MAX_DENSE_ENTRIES, dense, largest, times_powers, values_of

# Squares of larger numbers are not rounded to multiples of the smallest float.
_FAR_FROM_UNDERFLOW = 2.0**-400
_SHIFT, _TINY_PIVOT = 1e-11, 1e-6  # fractions of a column's square: the shift, pivots of dependent columns
_CROWDED = 8  # columns that meet so many times as many columns as most do are not eliminated first


def gram(A: Any) -> Any:
    """Return ``A^T A`` of a dense or CSR array, CSR if it is sparse."""
    return A.T @ A if isinstance(A, np.ndarray) else (A.T @ A).tocsr()


def disjoint_columns(H: Any) -> Indices:
    """Return columns whose products with each other are zero in a Gram matrix; none if it is dense."""
    if isinstance(H, np.ndarray) or not H.nnz:
        return np.empty(0, np.int64)
    degrees = np.diff(H.indptr)
    is_open = degrees <= _CROWDED * np.median(degrees)
    found = []
    for j in np.flatnonzero(is_open).tolist():
        if is_open[j]:
            is_open[H.indices[H.indptr[j] : H.indptr[j + 1]]] = False
            found.append(j)
    return np.array(found, np.int64)


class GramFactor(NamedTuple):
    """Factors of a Gram matrix: columns ``first`` are eliminated, the others have Cholesky's factor."""

    first: Indices
    diagonal: Array
    rest: Indices
    between: Any
    factor: Array

    def solve(self, b: Array) -> Array:
        """Return the solution of one right-hand side, or of each column of several."""
        from scipy.linalg.lapack import dpotrs

        x, h = np.empty_like(b), self.diagonal.reshape(-1, *[1] * (b.ndim - 1))
        begun = b[self.first] / h
        if self.rest.size:
            x[self.rest] = dpotrs(self.factor, b[self.rest] - self.between.T @ begun, lower=True)[0]
            begun -= (self.between @ x[self.rest]) / h
        x[self.first] = begun
        return x


def gram_factor(H: Any, first: Indices, shift: float = 0.0) -> GramFactor | None:
    """Factorise H plus a multiple of the identity; None if that is not positive definite to rounding.

    Parameters
    ----------
    H : ndarray or CSR array of shape (r, r)
    first : ndarray of int
        What `disjoint_columns` returns.
    shift : float
        The multiple, which may be negative.
    """
    from scipy.linalg.lapack import dpotrf

    check_time()
    h = H.diagonal()[first] + shift
    if not (h > 0.0).all():
        return None
    rest = np.setdiff1d(np.arange(H.shape[0]), first)
    B, S = H[first][:, rest], H[rest][:, rest]
    S = dense(S)
    if first.size and rest.size:
        root = B.multiply(1.0 / np.sqrt(h)[:, None]).tocsr()
        S -= (root.T @ root).toarray()
    S.flat[:: rest.size + 1] += shift
    factor, failure = dpotrf(S.T, lower=True, clean=False, overwrite_a=True) if rest.size else (S, 0)
    if failure or not np.isfinite(factor.diagonal()).all():
        return None
    return GramFactor(first, h, rest, B, factor)


def dependent_columns(H: Any) -> tuple[Indices, Array] | None:
    """Return columns of a Gram matrix that depend on others to rounding, as combinations of these.

    In Cholesky's factor of a shifted matrix a column that depends on those before it has a tiny pivot.
    """
    found = gram_factor(H, disjoint_columns(H), _SHIFT)
    if found is None:
        return None
    place = np.flatnonzero(found.factor.diagonal() ** 2 < _TINY_PIVOT)
    own = found.rest[place]
    if not own.size or own.size * H.shape[0] > MAX_DENSE_ENTRIES:
        return None if own.size else (own, np.empty((H.shape[0], 0)))
    found.factor[place, place] = LARGEST**0.5  # The other columns do not need these.
    return own, found.solve(dense(H[:, own]))


def weighted(Z: Any, p: Array) -> Any:
    """Return ``p_i Z_ij 2**c_j`` with columns of norms near 1; None if it leaves the floating range."""
    with np.errstate(all="ignore"):
        A = times_weights(Z, p)
        for size in (largest, lambda A, axis: np.sqrt((A**2).sum(axis=axis))):
            A = times_powers(A, 0, -np.frexp(np.asarray(size(A, 0)))[1])
        sizes = np.abs(values_of(A))
        smallest = float(sizes.min(initial=1.0, where=sizes > 0.0))
    # A product that underflowed would be zero where the entry is not.
    is_whole = np.count_nonzero(sizes) == np.count_nonzero(values_of(Z)) and np.isfinite(sizes).all()
    return A if is_whole and smallest > _FAR_FROM_UNDERFLOW else None


def times_weights(Z: Any, p: Array) -> Any:
    """Multiply the rows of a dense or CSR array by numbers."""
    if isinstance(Z, np.ndarray):
        return Z * p[:, None]
    return type(Z)((Z.data * np.repeat(p, np.diff(Z.indptr)), Z.indices, Z.indptr), shape=Z.shape)


def absorbs(A: Any, slack: float = 1.0) -> bool:
    """Prove that A has full column rank, and for r its column sums that ``r . H^-1 r < 1``.

    Parameters
    ----------
    A : ndarray or CSR array of shape (n, r)
        What `weighted` returns: each entry is within two roundings of the true one.
    slack : float
        0 leaves r out and proves the rank alone.
    """
    n, r = A.shape
    H, sizes = gram(A), abs(A)
    first = disjoint_columns(H)
    unit = rounding_factor(n + 6)
    sums, totals = np.asarray(A.sum(axis=0)).ravel(), np.asarray(sizes.sum(axis=0)).ravel()
    residual = BOUND_FACTOR * (np.abs(sums) + unit * totals)
    needed = slack * float(residual @ residual)
    # The rounding of H is below a fraction of |A|^T |A|, whose norm its largest row sum bounds.
    rounding = unit * float((sizes.T @ np.asarray(sizes.sum(axis=1)).ravel()).max(initial=0.0))
    # That of Cholesky's factors is below a fraction of the trace, that of the elimination before another.
    trace = float(H.diagonal().sum())
    rounding += (rounding_factor(r + 4) + 3.0 * rounding_factor(first.size + 10)) * trace
    shift = 2.0 * BOUND_FACTOR * (needed + rounding + 4.0 * EPSILON + n * r * SMALLEST)
    return shift < 1.0 and gram_factor(H, first, -shift) is not None
