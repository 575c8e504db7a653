r"""The coordinates of the interior point: directions by their columns, or by coefficients of the rows.

Systems in :math:`I + Z^\top D Z` are solved over the columns (`Columns`), or over the rows (`Products`),
where ``w = Z^T c`` is held by its coefficients c and the Gram matrix is all that is needed of Z.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from prgd.core.namespace import add_to_diagonal, at_least, dot, namespace
from prgd.solvers.cholesky import definite_solver, definite_solvers

_NEGLIGIBLE = 1e-13  # rows whose entry of D is below this fraction of the largest do not change Z^T D Z
_FEW_ENTRIES = 2**16  # entries of Z up to which looking for the rows that count costs more than it saves
_FEW_KEPT = 0.7  # if more rows count, a copy of those that do costs more than it saves


class Coordinates(Protocol):
    """How directions w are held; rows are divided by their largest norm."""

    @property
    def vanished(self) -> float:
        """An upper bound below this counts as zero.

        If no w separates the rows, the multipliers diverge and p comes close to Gordan's weights.
        """

    def margins(self, x: Any) -> Any:
        """Return ``<w, z_i>`` for every row."""

    def combine(self, v: Any) -> Any:
        """Return ``Z^T v`` in these coordinates."""

    def gradient(self, x: Any) -> Any:
        """Return the gradient of ``||w||^2 / 2`` in the coordinates of `combine`."""

    def length(self, x: Any) -> Any:
        """Return ``||w||``; for a batch with an axis of length 1 in the place of the coordinates."""

    def bound(self, p: Any) -> Any:
        """Return ``||Z^T p||``, of the shape of `length`."""

    def solver(self, D: Any) -> Callable[[Any], Any]:
        """Return ``r -> (I + Z^T D Z)^-1 r``."""


@dataclass(frozen=True, eq=False)
class Columns:
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

    def gradient(self, x: Any) -> Any:
        """Return x."""
        return x

    def length(self, x: Any) -> Any:
        """Return ``||w||``."""
        return namespace(x).sqrt(dot(x, x))

    def bound(self, p: Any) -> Any:
        """Return ``||Z^T p||``."""
        return self.length(self.combine(p))

    def solver(self, D: Any) -> Callable[[Any], Any]:
        """Factorise ``I + Z^T D Z`` over the rows that count in it."""
        xp, Z = namespace(D), self.Z
        if Z.shape[0] * Z.shape[1] > _FEW_ENTRIES:
            counts = _NEGLIGIBLE * xp.amax(D) < D
            if int(xp.count_nonzero(counts)) < _FEW_KEPT * len(Z):
                Z, D = Z[counts], D[counts]
        A = Z * (xp.sqrt(D) / self.size)[:, None]
        H = A.T @ A
        add_to_diagonal(H, 1.0)
        return definite_solver(H)


@dataclass(frozen=True, eq=False)
class Products:
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

    def gradient(self, x: Any) -> Any:
        """Return x."""
        return x

    def length(self, x: Any) -> Any:
        """Return ``sqrt(c^T G c)``, which rounding may make zero."""
        return namespace(x).sqrt(at_least(dot(x, self.margins(x)), 0.0))

    def bound(self, p: Any) -> Any:
        """Return ``||Z^T p||``."""
        return self.length(p)

    def solver(self, D: Any) -> Callable[[Any], Any]:
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
