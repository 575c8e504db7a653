"""Evaluation: the data seen from one w, and all that follows from the Tally of one pass."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prgd.core.arithmetic import UNIT_ROUNDOFF
from prgd.core.lazy import lazy
from prgd.core.types import Array, Intercept
from prgd.losses import EXPONENTIAL
from prgd.problem.joint import Balance, balance
from prgd.rows.tally import SLOPE_MASS, Tally

if TYPE_CHECKING:
    from prgd.problem import Problem


class Evaluation:
    r"""The data seen from one w: the Tally of the pass, and what follows from it without another pass.

    .. math:: p_i \propto -\ell'(\langle w, z_i\rangle), \quad -\nabla L(w) / L(w) \propto Z^\top p

    Made by `Problem.at`. Each quantity is computed when it is first asked for.

    Attributes
    ----------
    w : ndarray of shape ``problem.shape``, read-only
    tally : Tally
    problem : Problem
    v : ndarray of shape ``problem.shape``, or None
        The second direction of the pass.
    """

    def __init__(self, problem: Problem, w: Array, tally: Tally, v: Array | None = None) -> None:
        self.w, self.tally, self.problem, self.v = w, tally, problem, v

    @lazy
    def length(self) -> float:
        """``||w||``."""
        return self.problem.norm(self.w)

    @property
    def is_finite(self) -> bool:
        """Whether w and its loss are within the floating range."""
        return math.isfinite(self.length) and math.isfinite(self.log_loss)

    @lazy
    def log_loss(self) -> float:
        r"""``log L(w)``, minimised over the intercept if the problem has one.

        .. math:: \log L = \tfrac12 (\mathrm{LSE}(-X_+ w) + \mathrm{LSE}(X_- w)) + \log 2 - \log n
        """
        sums, count = self.tally.log_sums, self.tally.count
        if self.problem.fit_intercept:
            return 0.5 * (sums[0] + sums[1]) + math.log(2.0) - math.log(count)
        return sums[0] - math.log(count)

    @lazy
    def dual_vector(self) -> Array:
        r"""``u = Z^T p`` with p the dual weights at w: its dual norm bounds ``gamma_star`` from above."""
        means = self.tally.mean_rows
        return np.asarray(0.5 * (means[0] + means[1]) if self.problem.fit_intercept else means[0])

    @property
    def dual_direction(self) -> Array | None:
        r"""The v of norm 1 with the largest :math:`\langle u, v \rangle`: ``u / ||u||`` in l2, None at u = 0.

        Its margin is often larger than that of w: along NGD it comes to gamma_star at a linear rate where
        every margin row carries weight (docs/exponential.md, E2).
        """
        return self.problem.norm.steepest(self.dual_vector) if 0.0 < self.upper < math.inf else None

    @lazy
    def normalized_gradient(self) -> Array:
        r""":math:`\nabla L(w) / L(w)` (equation of NGD, Section 3)."""
        if self.problem.loss == EXPONENTIAL:
            return -self.dual_vector
        return -self.tally.slope_over_value * self.dual_vector

    @property
    def gradient(self) -> Array:
        r""":math:`\nabla L(w)`; it underflows to 0 at margins above 745, and overflows as L does."""
        gradient = self.normalized_gradient
        if self.log_loss < 700.0:
            return math.exp(self.log_loss) * gradient
        with np.errstate(over="ignore", divide="ignore"):  # log 0 is -inf, and an entry of 0 stays 0
            return np.copysign(np.exp(self.log_loss + np.log(np.abs(gradient))), gradient)

    @lazy
    def _best(self) -> tuple[float, Intercept]:
        # The intercept of largest margin, never that of the loss: they agree only as ||w|| grows.
        return self.problem.coding.best(self.tally.margins)

    @property
    def smallest_margin(self) -> float:
        """The smallest margin of a term, at the best intercept if there is one; not normalized."""
        return self._best[0]

    @property
    def second_margin(self) -> tuple[float, Intercept]:
        """The smallest margin along v at its best intercept, and that intercept; not normalized."""
        return self.problem.coding.best(self.tally.second_margins)

    @property
    def second_gamma(self) -> float:
        """The normalized margin of v, the second direction of the pass; -infinity if the pass has none."""
        return -math.inf if self.v is None else self.second_margin[0] / self.problem.norm(self.v)

    @property
    def gamma(self) -> float:
        r"""The normalized margin of w, whose length does not matter; it is not defined at w = 0.

        .. math:: \gamma(w) = \min_i \langle w, z_i \rangle / \|w\|
        """
        if self.length == 0.0:
            raise ValueError("gamma(w) is not defined at w = 0. Take a step first.")
        return self.smallest_margin / self.length

    @lazy
    def upper(self) -> float:
        """``||Z^T p||_*``: at least ``gamma_star``."""
        return self.problem.norm.dual(self.dual_vector)

    @property
    def gap_split(self) -> tuple[float, float]:
        """``||u|| - gamma(w)`` in two parts: the direction has not converged, and the radius is too soft.

        These are ``(||u|| - <u, w>/||w||, <u, w>/||w|| - gamma(w))`` with ``u`` the dual vector.
        """
        along = float(np.vdot(self.dual_vector, self.w / self.length))
        return self.upper - along, along - self.gamma

    @property
    def intercept(self) -> Intercept:
        """The intercept of largest smallest margin, for K classes jointly K of sum 0; 0 if none is fitted."""
        return self._best[1]

    @property
    def weights_error(self) -> float:
        """Bound the relative error of the dual weights beyond that of the sums of a pass."""
        return 0.0


class JointEvaluation(Evaluation):
    """The data of K classes seen from one W of shape (K, d), with an intercept for each class or none."""

    @property
    def _K(self) -> int:
        return len(self.w)

    @lazy
    def _balance(self) -> Balance:
        return balance(np.reshape(self.tally.log_sums, (self._K, self._K)))

    @lazy
    def log_loss(self) -> float:
        """``log L(W)``, minimised over the intercepts if the problem has them."""
        if not self.problem.fit_intercept:
            return self.tally.log_sums[0] - math.log(self.tally.count)
        rows = self.tally.count / (self._K - 1)  # each row counts once against each other class
        return self._balance.log_loss - math.log(rows)

    @lazy
    def dual_vector(self) -> Array:
        """``sum_ij p_ij (e_y - e_j) x_i^T`` with p the dual weights at W, of shape (K, d)."""
        if not self.problem.fit_intercept:
            return np.asarray(self.tally.mean_rows[0].reshape(self.w.shape))
        mass = self.tally.scalars[:, SLOPE_MASS, None]
        means = self.tally.vector / np.where(mass > 0.0, mass, 1.0)
        parts = (self._balance.flows.reshape(-1, 1) * means).reshape(self._K, *self.w.shape)
        return np.asarray(parts.sum(axis=1) - parts.sum(axis=0))

    @property
    def weights_error(self) -> float:
        """Bound the weight that the pairs must exchange so that flows between classes balance exactly.

        A class whose flow out exceeds the flow into it gets weight from classes of the opposite kind, by
        pairs that always exist: half of the imbalance in all. The flows themselves are rounded, too.
        """
        if not self.problem.fit_intercept:
            return 0.0
        return 2.0 * self._balance.imbalance + 8.0 * (self._K + 2) ** 2 * UNIT_ROUNDOFF
