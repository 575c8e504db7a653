r"""Linear systems: Cholesky's factorisation, conjugate gradients, and the coordinates of the interior point.

The interior point solves systems in :math:`I + Z^\top D Z` over the columns (`Columns`), or over the rows
(`Products`), where ``w = Z^T c`` is held by its coefficients c and the Gram matrix is all that is needed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prgd.core.arithmetic import add_to_diagonal, at_least, dot, namespace
from prgd.core.threads import check_time
from prgd.core.types import Array
from prgd.solvers.costs import NS_CUBE

NEGLIGIBLE_RATIO = 1e-13  # rows whose entry of D is below this fraction of the largest do not change Z^T D Z
_FEW_ENTRIES = 2**16  # entries of Z up to which looking for the rows that count costs more than it saves
_FEW_KEPT = 0.7  # if more rows count, a copy of those that do costs more than it saves
_SHIFTS = (1e-14, 1e-11, 1e-8)  # fractions of the diagonal that are added until a system is definite

Solver = Callable[[Any], Any]


def definite_solver(H: Any) -> Solver:
    """Return ``b -> H^-1 b`` by Cholesky's factorisation, for one matrix of NumPy or torch.

    Raises
    ------
    numpy.linalg.LinAlgError
        If H is not positive definite to rounding.

    Examples
    --------
    >>> definite_solver(np.diag([2.0, 4.0]))(np.array([1.0, 1.0]))
    array([0.5 , 0.25])
    """
    check_time(NS_CUBE * len(H) ** 3)
    if not isinstance(H, np.ndarray):
        torch = namespace(H)
        factors, info = torch.linalg.cholesky_ex(H)
        if int(info):
            raise _not_definite(int(info))
        return lambda b: torch.cholesky_solve(b.reshape(len(b), -1), factors).reshape(b.shape)
    # LAPACK is called directly: the checks of SciPy's functions cost more than a small system.
    from scipy.linalg.lapack import dpotrf, dpotrs

    # H is symmetric, and its transpose has the order of entries that LAPACK takes without a copy by SciPy.
    factor, failure = dpotrf(H.T, lower=True, clean=False)
    if failure:
        raise _not_definite(failure)
    return lambda b: np.asarray(dpotrs(factor, b, lower=True)[0])


def definite_solvers(H: Any) -> Solver:
    """Return ``b -> H^-1 b`` for a batch of matrices; NaN in the place of one that is not definite."""
    torch = namespace(H)
    if torch is np:
        raise TypeError("Batches of matrices are factorised by torch; NumPy takes one after the other.")
    factors, info = torch.linalg.cholesky_ex(H)
    broken = torch.where(info > 0, torch.nan, 0.0)[:, None]
    return lambda b: torch.cholesky_solve(b[..., None], factors)[..., 0] + broken


def _not_definite(order: int) -> np.linalg.LinAlgError:
    return np.linalg.LinAlgError(f"The leading minor of order {order} is not positive definite.")


def shifted_solver(H: Array, first: int = 0) -> Solver:
    """Factorise H, with the least shift of its diagonal that makes it definite to rounding.

    Shifts are added in place, one after the other; the first so many before H is tried.
    """
    diagonal = H.diagonal().copy()
    diagonal[diagonal == 0.0] = 1.0
    for k, shift in enumerate(_SHIFTS):
        if k >= first:
            try:
                return definite_solver(H)
            except np.linalg.LinAlgError:
                pass
        add_to_diagonal(H, shift * diagonal)
    return definite_solver(H)


def conjugate_gradients(
    times: Callable[[Array], Array],
    x: Array,
    r: Array,
    has_ended: Callable[[int, Array, float], bool],
    max_steps: int,
    precondition: Callable[[Array], Array] = lambda r: r,
) -> tuple[Array, int, bool]:
    """Solve a definite system from x, whose residual is r.

    Parameters
    ----------
    times : callable, the product of the matrix and a vector.
    has_ended : callable
        ``has_ended(k, r, square)`` after k steps, where ``square`` is ``<r, precondition(r)>``.
    precondition : callable
        An approximate inverse; as a projection, it keeps x in a subspace.

    Returns
    -------
    tuple of ndarray, int and bool
        The solution, the steps taken, and whether they have ended as asked for. Rounding ends them, too, if
        it leaves no positive curvature.

    Examples
    --------
    >>> H, b = np.diag([1.0, 2.0]), np.ones(2)
    >>> conjugate_gradients(lambda v: H @ v, np.zeros(2), b, lambda k, r, square: square < 1e-20, 9)
    (array([1. , 0.5]), 2, True)
    """
    z = precondition(r)
    q, square = z, float(r @ z)
    for k in range(max_steps):
        check_time()
        if has_ended(k, r, square):
            return x, k, True
        image = times(q)
        curvature = float(q @ image)
        if not curvature > 0.0:
            return x, k, False
        size = square / curvature
        x, r = x + size * q, r - size * image
        z, last = precondition(r), square
        square = float(r @ z)
        q = z + (square / last) * q
    return x, max_steps, has_ended(max_steps, r, square)


class Coordinates(ABC):
    """How directions w are held; rows are divided by their largest norm.

    An upper bound below ``vanished`` counts as zero. If no w separates the rows, the multipliers diverge and
    p comes close to Gordan's weights.
    """

    vanished: float

    @abstractmethod
    def margins(self, x: Any) -> Any:
        """Return ``<w, z_i>`` for every row."""

    @abstractmethod
    def combine(self, v: Any) -> Any:
        """Return ``Z^T v`` in these coordinates."""

    @abstractmethod
    def length(self, x: Any) -> Any:
        """Return ``||w||``; for a batch with an axis of length 1 in the place of the coordinates."""

    @abstractmethod
    def solver(self, D: Any) -> Solver:
        """Return ``r -> (I + Z^T D Z)^-1 r``."""

    def gradient(self, x: Any) -> Any:
        """Return the gradient of ``||w||^2 / 2`` in the coordinates of `combine`."""
        return x

    def bound(self, p: Any) -> Any:
        """Return ``||Z^T p||``, of the shape of `length`."""
        return self.length(self.combine(p))


@dataclass(frozen=True, eq=False)
class Columns(Coordinates):
    """Directions held as they are: systems in d dimensions."""

    Z: Any
    size: float  # the largest row norm
    vanished: float = 1e-9

    def margins(self, x: Any) -> Any:
        """Return ``<w, z_i>`` for every row."""
        return self.Z @ (x / self.size)

    def combine(self, v: Any) -> Any:
        """Return ``Z^T v``."""
        return self.Z.T @ (v / self.size)

    def length(self, x: Any) -> Any:
        """Return ``||w||``."""
        return namespace(x).sqrt(dot(x, x))

    def solver(self, D: Any) -> Solver:
        """Factorise ``I + Z^T D Z`` over the rows that count in it."""
        xp, Z = namespace(D), self.Z
        if Z.shape[0] * Z.shape[1] > _FEW_ENTRIES:
            counts = NEGLIGIBLE_RATIO * xp.amax(D) < D
            if int(xp.count_nonzero(counts)) < _FEW_KEPT * len(Z):
                Z, D = Z[counts], D[counts]
        A = Z * (xp.sqrt(D) / self.size)[:, None]
        H = A.T @ A
        add_to_diagonal(H, 1.0)
        return definite_solver(H)


@dataclass(frozen=True, eq=False)
class Products(Coordinates):
    """Directions held as ``w = Z^T c``: systems in the Gram matrix ``G_ij = y_i <x_i, x_j> y_j``.

    Attributes
    ----------
    G : array of shape (m, m)
        The products ``<z_i, z_j>``, or ``<x_i, x_j>`` if there are signs.
    size : float
        The largest row norm.
    signs : array of shape (m,) or (batch, m), or None
        The labels y_i; with a batch, those of every problem, 0 for a row that a problem leaves out.
    """

    G: Any
    size: float
    signs: Any = None
    vanished: float = 2e-7  # squares of norms are rounded, so that norms have half of the digits

    def margins(self, x: Any) -> Any:
        """Return ``G c``."""
        if self.signs is None:
            return self.G @ (x / self.size**2)
        return self.signs * ((self.signs * x / self.size**2) @ self.G)

    def combine(self, v: Any) -> Any:
        """Return v: the coefficients of ``Z^T v``, in units in which rows are divided by their size."""
        return v

    def length(self, x: Any) -> Any:
        """Return ``sqrt(c^T G c)``, which rounding may make zero."""
        return namespace(x).sqrt(at_least(dot(x, self.margins(x)), 0.0))

    def solver(self, D: Any) -> Solver:
        r"""Factorise :math:`I + S G S` with :math:`S^2 = D`: then c is :math:`S (I + S G S)^{-1} S^{-1} r`.

        Near the path S^-1 r has entries of one size, however far those of D lie apart.
        """
        xp = namespace(D)
        S = xp.sqrt(D)
        T = (S if self.signs is None else S * self.signs) / self.size
        K = T[..., :, None] * self.G
        K *= T[..., None, :]
        add_to_diagonal(K, 1.0)
        solve = definite_solver(K) if K.ndim == 2 else definite_solvers(K)
        inverse = 1.0 / xp.where(S > 0.0, S, 1.0)
        return lambda r: S * solve(r * inverse)
