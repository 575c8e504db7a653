"""How labels turn rows into the terms of a problem, and what one pass over them gives: an Evaluation.

A term is what has a margin and a dual weight: a row ``z_i = y_i x_i`` of two classes, or a pair of a row and
another class, ``x_i (x) (e_y - e_j)``, number ``i K + j``, of K classes (`prgd.problem.joint`). Terms of one
group share a softmax if the problem has intercepts: the rows of each class, or the pairs of each two classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from prgd.core.threads import lazy
from prgd.core.types import Array, Indices, Intercept
from prgd.losses import EXPONENTIAL, Loss
from prgd.norms import norm
from prgd.rows import AccurateAt, Combine, Labels, MarginsAt, Query, Rows, SmallestAt, TallyAt
from prgd.rows.queries import Accurate, Smallest
from prgd.rows.tally import Tally

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
        every margin row carries weight (docs/note/note.md).
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


def balanced_intercept(smallest: Sequence[float]) -> float:
    """Return the intercept that gives both classes the same smallest margin; 0 for one group of rows."""
    if len(smallest) == 1:
        return 0.0
    plus, minus = smallest
    return 0.5 * (minus - plus)


@dataclass(frozen=True, eq=False)
class Coding:
    """The terms of a problem of two classes: rows ``z_i = y_i x_i`` of d columns.

    Attributes
    ----------
    labels : Labels
    d : int
    by_class : bool
        Whether the problem has an intercept, so that the rows of each class form a group.
    """

    labels: Labels
    d: int
    by_class: bool

    evaluation: ClassVar[type[Evaluation]] = Evaluation

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of w."""
        return (self.d,)

    def tally_at(self, w: Array, loss: Loss, v: Array | None = None) -> Query[Tally]:
        """Return the query of the pass of a step, with a second direction v."""
        return TallyAt(w, loss, self.by_class, v)

    def margins_at(self, w: Array) -> Query[Array]:
        """Return the query for the margins of all rows, without an intercept."""
        return MarginsAt(w)

    def smallest_at(
        self, w: Array, max_rows: int, without: Indices, near: Intercept | None
    ) -> Query[tuple[Smallest, ...]]:
        """Return the query for the rows of smallest margin, of each class with an intercept."""
        return SmallestAt(w, max_rows, self.by_class, without, near=None if near is None else float(near))

    def accurate_at(self, w: Array, intercept: Intercept) -> Query[Accurate]:
        """Return the query for the margins of all rows with proven bounds on their errors."""
        return AccurateAt(w, float(intercept) if self.by_class else 0.0)

    def groups(self) -> list[Any]:
        """Return the rows of each class, or all of them."""
        return self.labels.groups(self.by_class)

    def best(self, smallest: Sequence[float]) -> tuple[float, Intercept]:
        """Return the mean of the smallest margins of the classes, and the intercept that makes them equal."""
        return sum(smallest) / len(smallest), balanced_intercept(smallest)

    def at_intercept(self, margins: Array, intercept: Intercept) -> Array:
        """Return the margins with ``y_i b`` added."""
        return margins + intercept * self.labels.signs if self.by_class else margins

    def log_weights(self, margins: Array, loss: Loss) -> Array:
        """Return ``log(-l'(m_i))``."""
        return np.asarray(loss.log_slope(margins))

    def balanced(self, log_weights: Array, mass: Array) -> Array:
        """Return weights of sum 1, of 1/2 in each class with an intercept."""
        p, groups = np.empty_like(log_weights), self.groups()
        for group in groups:
            part = np.exp(log_weights[group] - log_weights[group].max())
            if mass.size:
                part *= mass[group]
            p[group] = part / (part.sum() * len(groups))
        return p

    def normalized(self, indices: Indices, p: Array) -> Array:
        """Divide weights by their sum; with an intercept, by twice the sum of their class."""
        p, signs = p.copy(), self.labels.at(indices) if self.by_class else None
        groups: list[Any] = [slice(None)] if signs is None else [signs > 0, signs < 0]
        for group in groups:
            p[group] /= p[group].sum() * len(groups)
        return p

    def combine(self, rows: Rows, p: Array) -> Array:
        """Return ``Z^T p``."""
        return rows.ask(Combine.of(p), self.labels)

    def rows_of(self, terms: Indices) -> Indices:
        """Return the terms, which are rows."""
        return terms

    def reach(self, w: Array) -> float:
        """Return ``||w||_2``."""
        return norm(w)
