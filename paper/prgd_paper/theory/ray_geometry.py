r"""The support vectors seen along the max-margin direction: what decides the centripetal velocity.

Write :math:`w = h w^\star + D v` with a unit vector v orthogonal to :math:`w^\star` in the span of the
data, and :math:`u_i = -P_\perp(z_i)`. Then only :math:`\langle v, u_i \rangle` and the excess margins
:math:`\langle w^\star, z_i \rangle - \gamma^\star` matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.core.errors import NotSeparableError
from prgd.core.types import Array
from prgd_paper.theory.nondegeneracy import assumptions
from prgd_paper.theory.support import EPS, Reference, signed_rows
from prgd_paper.theory.velocity import decompose, direction_error

# A hull of more dimensions or rows than these has too many facets to list.
MAX_FACET_DIMENSIONS, MAX_FACET_ROWS = 5, 100


class Inradius(NamedTuple):
    """The inradius, or a proven lower bound of the inradius if ``is_exact`` is False."""

    value: float
    is_exact: bool


class Facets(NamedTuple):
    """The facets of a convex hull around the origin: outward unit normals, and distances from it."""

    normals: Array
    distances: Array


@dataclass(frozen=True, eq=False)
class Geometry:
    """The rows of a separable data set, split along ``w_star``; made by `geometry`.

    Attributes
    ----------
    Z : ndarray of shape (n, d)
    reference : Reference
    dual_weights : ndarray of shape (n,)
        The proof's alpha, of sum 1: the smallest entry on the support is as large as possible.
    scale : float
        The factor by which rows are divided to have norm at most 1: ``max(1, max_i ||z_i||)``.
    basis : ndarray of shape (d, q)
        Orthonormal, of the span of the data less ``w_star``.
    U : ndarray of shape (n, q)
        The rows ``u_i = -P_perp(z_i)`` in that basis, in the units of Z.
    excess : ndarray of shape (n,)
        ``<w_star, z_i> - gamma_star``: zero on the support.
    is_support : ndarray of bool of shape (n,)
    degenerate : str
        Empty, or how Assumption 5.4 fails.
    """

    Z: Array
    reference: Reference
    dual_weights: Array
    scale: float
    basis: Array
    U: Array
    excess: Array
    is_support: npt.NDArray[np.bool_]
    degenerate: str

    def __repr__(self) -> str:
        return f"Geometry({self.n} rows, {self.n_support} support vectors, {self.U.shape[1]} directions)"

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.Z)

    @property
    def n_support(self) -> int:
        """Number of support vectors: the paper's |I|."""
        return int(self.is_support.sum())

    @property
    def delta(self) -> float:
        """The proof's Delta, ``gamma_sub - gamma_star``: infinite if every row supports."""
        return self.reference.gamma_sub - self.reference.gamma_star


def geometry(data: Any) -> Geometry:
    r"""Split the rows of a separable data set along the max-margin direction.

    .. math:: z_i = \langle z_i, w^\star\rangle\, w^\star - u_i, \qquad u_i = -P_\perp z_i

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y), Dataset, or a Geometry, which is returned

    Returns
    -------
    Geometry

    Raises
    ------
    NotSeparableError
        When there is no separator; ``weights`` are Gordan's.

    References
    ----------
    Definitions 5.1 and 5.3 and the notation of Appendix B of the paper.

    Examples
    --------
    >>> g = geometry([[0.2, 0.1], [0.2, -0.01]])
    >>> g.n_support, g.delta, np.sort(np.abs(g.U[:, 0])).round(12).tolist()
    (2, inf, [0.01, 0.1])
    """
    if isinstance(data, Geometry):
        return data
    Z = signed_rows(data)
    report = assumptions(Z)
    if report.reference is None or report.dual_weights is None:
        raise NotSeparableError(
            "The max-margin direction is needed, and no direction separates the classes. The weights of "
            "this error prove it (Gordan): they average the rows to zero.",
            report.gordan_weights,
        )
    reference = report.reference
    margins, off = decompose(Z, reference.w_star)
    is_support = np.zeros(len(Z), dtype=bool)
    is_support[reference.support] = True
    _, sigma, Vt = np.linalg.svd(off, full_matrices=False)
    basis = Vt[sigma > np.linalg.norm(Z, 2) * max(Z.shape) * EPS].T
    reasons = [check.name for check in report.checks[1:3] if not check.holds]
    return Geometry(
        Z,
        reference,
        report.dual_weights,
        max(1.0, float(np.linalg.norm(Z, axis=1).max())),
        basis,
        -off @ basis,
        np.where(is_support, 0.0, margins - reference.gamma_star),
        is_support,
        " and ".join(reasons),
    )


def margin_errors(g: Geometry, W: Array) -> Array:
    r"""Return ``gamma_star - gamma(w)`` for each row of W, without cancellation near the ray.

    With w at angle theta from the ray, ``gamma_star - gamma(w)`` is the largest over the rows of
    ``2 sin^2(theta/2) m_i - (m_i - gamma_star) + sin(theta) <v, u_i>``, with m_i the margin at w_star.
    """
    off = (W / np.linalg.norm(W, axis=1, keepdims=True)) @ g.basis
    half_square = 0.5 * np.square(direction_error(W, g.reference.w_star))
    margins = g.reference.gamma_star + g.excess
    return np.asarray((np.outer(half_square, margins) - g.excess + off @ g.U.T).max(axis=1))


def require_nondegenerate(data: Any) -> Geometry:
    """Return the `Geometry`; raise if Assumption 5.4 fails or the data lie on one line.

    Examples
    --------
    >>> require_nondegenerate([[0.6, 0.8], [0.6, -0.8]]).n_support
    2
    """
    g = geometry(data)
    if g.degenerate:
        raise ValueError(
            f"The data are degenerate (Assumption 5.4 fails: {g.degenerate}), and no favourable cylinder "
            "exists: along some direction the velocity is not positive, however large D and H. "
            "See prgd_paper.theory.nondegeneracy.assumptions."
        )
    if g.U.shape[1] == 0:
        raise ValueError(
            "The data span one line, so every w in their span lies on the max-margin ray and the cylinder "
            "is empty."
        )
    return g


def lambda_min(data: Any) -> float:
    r"""Return the proof's constant, for rows divided by `Geometry.scale`.

    .. math::

        \lambda_{\min} = \min_{\|v\| = 1, v \perp w^\star} \sum_{i \in I} \langle v, k_i \rangle^2,
        \qquad k_i = \alpha_i u_i, \quad \sum_{i \in I} \alpha_i = 1

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y), Dataset or Geometry

    Returns
    -------
    float

    Notes
    -----
    The paper asks for both :math:`w^\star = \sum \alpha_i z_i` and :math:`\sum \alpha_i = 1`; the first
    gives the sum :math:`1/\gamma^\star`. The sum 1 is meant: Step II needs :math:`\alpha_i \le 1`.

    References
    ----------
    Step II of the proof of Theorem 5.5, Appendix B.

    Examples
    --------
    >>> round(lambda_min([[0.6, 0.8], [0.6, -0.8]]), 12)  # 2 (0.8 / 2)^2
    0.32
    """
    g = require_nondegenerate(data)
    K = g.dual_weights[g.is_support, None] * g.U[g.is_support] / g.scale
    return float(np.linalg.eigvalsh(K.T @ K)[0])


def inradius(data: Any) -> Inradius:
    r"""Return the radius of the largest ball around 0 in the convex hull of the support's ``u_i``.

    .. math:: \rho = \min_{\|v\| = 1, v \perp w^\star} \max_{i \in I} \langle v, u_i \rangle

    It is positive exactly when Assumption 5.4 holds, and it is what the proof bounds from below by
    :math:`\sqrt{\lambda_{\min}} / (2 |I|)`.

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y), Dataset or Geometry

    Returns
    -------
    Inradius
        In the units of Z. The value is exact if the facets can be listed: always when ``|I|`` equals the
        rank of the data (the generic case), and in up to five dimensions off the ray. Else it is the
        larger of the proof's bound and
        :math:`\lambda_{\min}(\sum \alpha_i u_i u_i^\top) / \max_i \|u_i\|` (the
        inequality of Bhatia and Davis: a variance is at most (max - mean)(mean - min)).

    References
    ----------
    Ours; it replaces the estimate of Step II of the proof of Theorem 5.5.

    Examples
    --------
    >>> inradius([[0.2, 0.1], [0.2, -0.01]]).value.__round__(12)
    0.01
    """
    g = require_nondegenerate(data)
    if (found := facets(g)) is not None:
        return Inradius(float(found.distances.min()), True)
    U, alpha = g.U[g.is_support], g.dual_weights[g.is_support]
    by_proof = g.scale * np.sqrt(lambda_min(g)) / (2.0 * g.n_support)
    variance = float(np.linalg.eigvalsh((alpha[:, None] * U).T @ U)[0])
    return Inradius(max(float(by_proof), variance / float(np.linalg.norm(U, axis=1).max())), False)


def facets(g: Geometry) -> Facets | None:
    """Return the facets of the hull of the support's ``u_i``; None if they are too many to list."""
    U = g.U[g.is_support]
    # Copies of a row may differ by rounding, so rows that agree to 12 digits count once.
    _, first = np.unique(np.round(U / np.abs(U).max(), 12), axis=0, return_index=True)
    U = U[first]
    n, q = U.shape
    if q == 1:
        return Facets(np.array([[1.0], [-1.0]]), np.array([U.max(), -U.min()]))
    if n == q + 1:
        # The hull is a simplex. The barycentric coordinates of x are (x, 1) @ inverse; on a facet one is 0.
        inverse = np.linalg.inv(np.column_stack([U, np.ones(n)]))
        lengths = np.linalg.norm(inverse[:q], axis=0)
        return Facets(-(inverse[:q] / lengths).T, inverse[q] / lengths)
    if q > MAX_FACET_DIMENSIONS or n > MAX_FACET_ROWS:
        return None
    from scipy.spatial import ConvexHull

    equations = np.unique(ConvexHull(U).equations, axis=0)
    return Facets(equations[:, :q], -equations[:, q])
