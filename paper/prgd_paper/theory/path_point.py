r"""The rows seen from one w, as the statements about the path ask: weights, parts of the gap, objectives.

.. math::

    F_\lambda(w) = \mathrm{LSE}(-Zw) + \frac\lambda2 \|w\|^2, \qquad
    G_\lambda(w, p) = F_\lambda(w) - H_1(p) + \frac{\|Z^\top p\|_*^2}{2 \lambda} \ge 0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from prgd.core.threads import lazy
from prgd.norms import L1, L2, Linf, Norm
from prgd_paper.theory import entropies


@dataclass(frozen=True, eq=False)
class PathPoint:
    """One w and what its margins say, in the precision of w: float64, or longdouble.

    Parameters
    ----------
    Z : array of shape (n, d), dense or sparse
        The rows ``z_i = y_i x_i``.
    w : ndarray of shape (d,)
    norm : Norm
        In longdouble an l_p norm.
    groups : array of shape (n,), optional
        The class of each row if an intercept is fitted: each class has a softmax of its own, and smallest
        margins, LSE and entropies are means over classes.
    sample_weight : array of shape (n,), optional

    Examples
    --------
    >>> point = PathPoint(np.array([[2.0, 1.0], [2.0, -1.0]]), np.array([1.0, 0.0]))
    >>> float(point.upper), float(point.gamma), float(point.delta)
    (2.0, 2.0, 0.0)
    >>> bool(point.duality_gap(2.0) == 0.0)  # u = lam w: the minimiser
    True
    """

    Z: Any
    w: entropies.Reals
    norm: Norm = L2()  # noqa: RUF009 - a frozen value
    groups: Any = None
    sample_weight: Any = None

    @lazy
    def margins(self) -> entropies.Reals:
        """``<w, z_i>`` for each row."""
        return np.asarray(self.Z @ self.w)

    @lazy
    def dual_weights(self) -> entropies.Reals:
        """``p = softmax(-Zw)``, of sum 1."""
        return entropies.softmax_weights(-self.margins, self.sample_weight, self.groups)

    @lazy
    def dual_vector(self) -> entropies.Reals:
        """``u = Z^T p``."""
        return np.asarray(self.Z.T @ self.dual_weights)

    @lazy
    def upper(self) -> Any:
        """``U = ||u||_*``, at least gamma_star."""
        return self.dual_length(self.dual_vector)

    @lazy
    def length(self) -> Any:
        """``R = ||w||``."""
        if self.w.dtype != np.longdouble:
            return self.norm(self.w)
        q = self.norm.row_exponent
        return np.linalg.norm(self.w, 1.0 if math.isinf(q) else (math.inf if q == 1.0 else q / (q - 1.0)))

    @lazy
    def smallest_margin(self) -> Any:
        """``min_i <w, z_i>``, the mean of both classes' with groups."""
        counted = np.where(self.sample_weight == 0.0, np.inf, self.margins)
        found = [counted[mask].min() for mask in entropies.classes_of(counted.size, self.groups)]
        return sum(found) / len(found)

    @property
    def gamma(self) -> Any:
        """The normalized margin of w."""
        return self.smallest_margin / self.length

    @lazy
    def delta(self) -> Any:
        """``Delta = H_1 - H_inf``, at least 0."""
        return entropies.entropy_excess(-self.margins, self.sample_weight, self.groups)

    @lazy
    def unsettled(self) -> Any:
        """``U - <u, w> / R``, the first part of the gap."""
        return self.upper - (self.dual_vector @ self.w) / self.length

    def dual_length(self, u: entropies.Reals) -> Any:
        """Return ``||u||_*``."""
        return self.norm.dual(u) if u.dtype != np.longdouble else np.linalg.norm(u, self.norm.row_exponent)

    def entropy(self, order: float = 1.0) -> Any:
        """Return the Rényi entropy of the dual weights."""
        return entropies.renyi_entropy(-self.margins, order, self.sample_weight, self.groups)

    def objective(self, lam: float) -> Any:
        """Return ``F_lam(w)``."""
        return (
            entropies.log_sum_exp(-self.margins, self.sample_weight, self.groups) + 0.5 * lam * self.length**2
        )

    def gradient(self, lam: float) -> entropies.Reals:
        """Return the gradient ``lam w - u`` of ``F_lam`` in l2."""
        return np.asarray(lam * self.w - self.dual_vector)

    def duality_gap(self, lam: float, at: PathPoint | None = None) -> Any:
        r"""Return ``G_lam(w, p)`` for the weights of this point, or of another point.

        At p = p(w) it is :math:`\frac\lambda2 R^2 + \frac{U^2}{2\lambda} - \langle w, u \rangle`, summed as
        :math:`\frac{(U - \lambda R)^2}{2\lambda} + R\,(U - \langle u, w \rangle / R)`, both of which are not
        negative; in l2 it is :math:`\|\nabla F\|^2 / (2 \lambda)`, which does not cancel.
        """
        if at is None or at is self:
            if isinstance(self.norm, L2):
                slope = self.gradient(lam)
                return (slope @ slope) / (2.0 * lam)
            return (self.upper - lam * self.length) ** 2 / (2.0 * lam) + self.length * self.unsettled
        return self.objective(lam) - at.entropy() + at.upper**2 / (2.0 * lam)

    def residual(self, lam: float) -> Any:
        r"""Return the distance of u from :math:`\lambda R\, \partial \|w\|` in the dual norm.

        It is 0 at the minimiser, and the norm of the gradient in l2. A distance eta leaves
        ``|U - lam R| <= eta``, and an unsettled part of at most ``2 eta``, or ``eta^2 / (2 lam R)`` in l2.
        """
        u, target = self.dual_vector, lam * self.length
        if isinstance(self.norm, L1):
            off = np.where(self.w == 0.0, np.maximum(np.abs(u) - target, 0.0), u - target * np.sign(self.w))
            return np.abs(off).max()
        if isinstance(self.norm, Linf):
            is_bound = np.abs(self.w) == self.length
            along = np.where(is_bound, np.maximum(u * np.sign(self.w), 0.0), 0.0)
            return (np.abs(u) - along).sum() + abs(along.sum() - target)
        if not isinstance(self.norm, L2):
            raise ValueError(f"The residual is computed in l2, l1 and linf; got the norm {self.norm}.")
        return np.linalg.norm(self.gradient(lam))

    @lazy
    def rounding(self) -> float:
        """``(d + n + 16) eps`` times the largest margin's size: a bound on the error of margins and sums.

        The size is ``max_i sum_j |z_ij w_j|``: products of d terms, sums over n rows, and a few more
        operations.
        """
        n, d = self.Z.shape
        size = float((abs(self.Z) @ abs(self.w)).max())
        return float((d + n + 16) * float(np.finfo(self.w.dtype).eps) * max(size, 1.0))
