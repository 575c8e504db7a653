r"""Norms of weight matrices W of shape (K, d), one row for each class: spectral, nuclear and group norms.

The certified ends of the spectral and the nuclear norm do not trust the singular value decomposition that
LAPACK returns. Its factors are taken as any matrices, and what they leave of W is bounded (`distance_above`).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prgd.core.arithmetic import BOUND_FACTOR, EPSILON, SMALLEST, raised, rounding_factor, times_power
from prgd.core.types import Array, Indices
from prgd.norms.base import Norm, largest_entry, norm, raised_norms, raised_sums

_GRID = 2.0**26  # entries are split at the multiples of 2^-26: products of two such parts are exact


@dataclass(frozen=True)
class MatrixNorm(Norm):
    """A norm of matrices."""

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ``ValueError`` unless the shape is that of a matrix."""
        if len(shape) != 2:
            raise ValueError(
                f"The norm {self.name!r} measures weight matrices of shape (classes, features), those of "
                f"joint multiclass problems; got weights of shape {shape}. Add multi_class='joint' if there "
                "are more than two classes, use prgd.max_margin(X, y, multi_class='joint') for two, or use "
                "l2, l1, linf or a number p."
            )


@dataclass(frozen=True)
class SingularNorm(MatrixNorm):
    """The largest singular value, or the sum of them: each is the dual norm of the other."""

    is_rotation_invariant = True
    row_exponent = 2.0
    pair_factor = math.sqrt(2.0)
    is_sum: ClassVar[bool]

    def __call__(self, w: Array) -> float:
        """Return the largest singular value, or the sum of them."""
        return self._values(w)[self.is_sum]

    def dual(self, u: Array) -> float:
        """Return the sum of the singular values, or the largest one."""
        return self._values(u)[not self.is_sum]

    def steepest(self, u: Array) -> Array:
        """Return ``U V^T`` of the singular vectors that count: the leading pair, or all but rounding."""
        self.check_shape(u.shape)
        if not 0.0 < (largest := largest_entry(u)) < math.inf:
            return np.full_like(u, 0.0 * largest)  # NaN unless u is zero
        U, s, Vt = _factors(_scaled(u)[0])
        rank = 1 if self.is_sum else int(np.count_nonzero(s > max(u.shape) * EPSILON * s[0]))
        return U[:, :rank] @ Vt[:rank]

    def above(self, w: Array) -> float:
        """Return the norm, rounded upward."""
        self.check_shape(w.shape)
        return _singular_above(w, self.is_sum)

    def dual_above(self, u: Array) -> float:
        """Return the dual norm, rounded upward."""
        self.check_shape(u.shape)
        return _singular_above(u, not self.is_sum)

    def _values(self, w: Array) -> tuple[float, float]:
        """Return the largest singular value and the sum of all."""
        self.check_shape(w.shape)
        largest = largest_entry(w)
        if not 0.0 < largest < math.inf:
            return largest, largest
        v, exponent = _scaled(w)
        try:
            s = np.linalg.svd(v, compute_uv=False)
        except np.linalg.LinAlgError:
            s = _factors(v)[1]
        return times_power(float(s[0]), exponent), times_power(float(s.sum()), exponent)


@dataclass(frozen=True)
class Spectral(SingularNorm):
    r"""The largest singular value, whose steepest ascent is the orthogonal factor: spectral descent (Muon).

    .. math:: \|W\| = \sigma_1(W), \qquad \|U\|_* = \textstyle\sum_i \sigma_i(U)

    Examples
    --------
    >>> W = np.array([[3.0, 0.0], [0.0, -4.0]])
    >>> round(Spectral()(W), 9), round(Spectral().dual(W), 9)
    (4.0, 7.0)
    """

    name = program = "spectral"
    is_sum = False

    def dual_of_bounds(self, bounds: Array) -> float:
        """Return ``sqrt(min(K, d)) ||bounds||_F``: signs may raise the nuclear norm of a matrix."""
        return raised(self.dual_ratio(bounds.shape) * _length_above(bounds))

    def dual_ratio(self, shape: tuple[int, ...]) -> float:
        """Return ``sqrt(min(K, d))``."""
        self.check_shape(shape)
        return raised(math.sqrt(min(shape)))


@dataclass(frozen=True)
class Nuclear(SingularNorm):
    r"""The sum of the singular values, whose steepest ascent is the matrix of the leading singular vectors.

    .. math:: \|W\| = \textstyle\sum_i \sigma_i(W), \qquad \|U\|_* = \sigma_1(U)

    Examples
    --------
    >>> Nuclear().steepest(np.array([[3.0, 0.0], [0.0, 4.0]])).round(9) + 0.0
    array([[0., 0.],
           [0., 1.]])
    """

    name = program = "nuclear"
    is_sum = True

    def dual_ratio(self, shape: tuple[int, ...]) -> float:
        """Return 1."""
        return 1.0


@dataclass(frozen=True)
class GroupNorm(MatrixNorm):
    r"""The sum of the Euclidean norms of the rows (classes), or of the columns (features).

    .. math:: \|W\| = \textstyle\sum_g \|W_g\|_2, \qquad \|U\|_* = \max_g \|U_g\|_2

    Parameters
    ----------
    axis : {"rows", "columns"}
        ``"rows"``: ``sum_k ||W_k:||_2``; ``"columns"``: ``sum_j ||W_:j||_2``, which selects
        features for all classes at once, where l1 selects them for each class.

    Examples
    --------
    >>> W = np.array([[3.0, 0.0], [4.0, 1.0]])
    >>> GroupNorm("columns")(W), GroupNorm("columns").dual(W)
    (6.0, 5.0)
    """

    program = "second-order cones"

    axis: str

    def __post_init__(self) -> None:
        if self.axis not in ("rows", "columns"):
            raise ValueError(f"GroupNorm needs the axis 'rows' or 'columns'; got {self.axis!r}.")
        is_rows = self.axis == "rows"
        row_exponent, pair_factor = (2.0, 1.0) if is_rows else (math.inf, math.sqrt(2.0))
        vars(self).update(name=self.axis, row_exponent=row_exponent, pair_factor=pair_factor)
        vars(self).update(is_rotation_invariant=is_rows)

    def cone_groups(self, entries: Indices) -> Indices:
        """Return the entries of each row, or of each column."""
        return entries if self.axis == "rows" else entries.T

    def __call__(self, w: Array) -> float:
        """Return the sum of the norms of the groups."""
        return float(self._lengths(w).sum())

    def dual(self, u: Array) -> float:
        """Return the largest norm of a group."""
        return float(self._lengths(u).max(initial=0.0))

    def steepest(self, u: Array) -> Array:
        """Return the first group of largest norm, divided by its norm, and 0 elsewhere."""
        lengths, direction = self._lengths(u), np.zeros_like(u)
        if lengths.any():
            k = int(lengths.argmax())
            group = self._groups(u)[k]
            self._groups(direction)[k] = group / norm(group)
        return direction

    def above(self, w: Array) -> float:
        """Return the sum of the norms of the groups, rounded upward."""
        return float(raised_sums(raised_norms(self._groups(w))))

    def dual_above(self, u: Array) -> float:
        """Return the largest norm of a group, rounded upward."""
        return largest_entry(raised_norms(self._groups(u)))

    def dual_ratio(self, shape: tuple[int, ...]) -> float:
        """Return 1."""
        return 1.0

    def _groups(self, w: Array) -> Array:
        self.check_shape(w.shape)
        return w if self.axis == "rows" else w.T

    def _lengths(self, w: Array) -> Array:
        groups, largest = self._groups(w), largest_entry(w)
        if not 0.0 < largest < math.inf:
            return np.full(len(groups), largest)
        scaled = groups / largest
        lengths: Array = np.sqrt(np.einsum("ij,ij->i", scaled, scaled)) * largest
        return lengths


def _length_above(w: Array) -> float:
    """Return a number that is at least the Frobenius norm."""
    return float(raised_norms(w.ravel()))


def _scaled(w: Array) -> tuple[Array, int]:
    """Return w divided by a power of two, of Frobenius norm between 1/2 and 1, and the exponent.

    Entries below 2^-1074 of the norm underflow: each one is wrong by at most `SMALLEST` then.
    """
    largest = largest_entry(w)
    v = np.ldexp(w, -math.frexp(largest)[1])
    exponent = math.frexp(norm(v))[1]
    return np.ldexp(v, -exponent), exponent + math.frexp(largest)[1]


def _factors(v: Array) -> tuple[Array, Array, Array]:
    """Return the singular value decomposition ``U, s, V^T``."""
    found: tuple[Array, Array, Array]
    try:
        found = np.linalg.svd(v, full_matrices=False)
    except np.linalg.LinAlgError:  # divide and conquer did not converge
        from scipy.linalg import svd

        found = svd(v, full_matrices=False, lapack_driver="gesvd")
    return found


def _singular_above(w: Array, is_sum: bool) -> float:
    r"""Return a number that is at least the nuclear or the spectral norm in exact arithmetic.

    For any matrices A and B and numbers s of which the largest is ``s_1``, with ``E = W - A B`` of rank at
    most ``r = min(K, d)``,

    .. math::

        \|W\|_{nuc} \le \|A\|_F \|B\|_F + \sqrt{r} \|E\|_F, \qquad \|W\| \le \|A\| \|B\| + \|E\|_F, \quad
        \|A\|^2 = \|A^T A\| \le s_1 + \|A^T A - \mathrm{diag}(s)\|_F,

    and the same for ``B B^T``. The factors are ``U diag(s)^(1/2)`` and ``diag(s)^(1/2) V^T``, rounded. If the
    decomposition fails, the bound is the Frobenius norm, times ``sqrt(r)`` for the nuclear norm.
    """
    frobenius, root = _length_above(w), raised(math.sqrt(min(w.shape)))
    if not 0.0 < frobenius < math.inf:
        return frobenius
    loosest = raised(root * frobenius) if is_sum else frobenius
    v, exponent = _scaled(w)
    try:
        U, s, Vt = _factors(v)
    except np.linalg.LinAlgError:
        return loosest
    roots = np.sqrt(s)
    A, B = U * roots, roots[:, None] * Vt
    rest = distance_above(v, A, B) + 2.0 * v.size * SMALLEST
    if is_sum:
        bound = _length_above(A) * _length_above(B) + root * rest
    else:
        squares = (distance_above(np.diag(s), *factors) for factors in ((A.T, A), (B, B.T)))
        bound = largest_entry(s) + max(squares) + rest
    bound = times_power(raised(bound, 6), exponent) + SMALLEST
    return bound if bound < loosest else loosest


def distance_above(C: Array, A: Array, B: Array) -> float:
    r"""Return a number that is at least ``||C - A B||_F``; infinite if rows of A or columns of B are long.

    Both factors are split at the multiples of 2^-26, without rounding: ``A = A_1 + A_2``, ``B = B_1 + B_2``.
    The product of the first parts is exact in any order of summation: all partial sums are multiples of 2^-52
    and, by Cauchy's inequality, at most ``||a_i|| ||b_j|| <= 2``. What is left,
    ``(C - A_1 B_1) - A_1 B_2 - A_2 B``, consists of small numbers, and k + 3 roundings change it by at most

    .. math:: \gamma_{k+3} (\|C - A_1 B_1\|_F + \|A_1\|_F \|B_2\|_F + \|A_2\|_F \|B\|_F)

    in the Frobenius norm, where k is the number of columns of A, if no product underflows (k 2^-1074 each).
    """
    A_1, B_1 = np.rint(A * _GRID) / _GRID, np.rint(B * _GRID) / _GRID
    longest = (A_1**2).sum(axis=1).max() * (B_1**2).sum(axis=0).max()
    if not longest <= 3.0:  # the squares of row and column norms; NaN is refused too
        return math.inf
    A_2, B_2 = A - A_1, B - B_1
    near = C - A_1 @ B_1
    rest = _length_above(near - A_1 @ B_2 - A_2 @ B)
    sizes = (
        _length_above(near) + _length_above(A_1) * _length_above(B_2) + _length_above(A_2) * _length_above(B)
    )
    k = A.shape[1]
    return raised(float(rest + BOUND_FACTOR * (rounding_factor(k + 4) * sizes + 2.0 * k * C.size * SMALLEST)))
