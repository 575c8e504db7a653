"""Joint problems of K classes: pairs of a row and another class as terms, and what one pass gives."""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from prgd.core.arithmetic import UNIT_ROUNDOFF
from prgd.core.threads import lazy
from prgd.core.types import Array, Indices, Intercept
from prgd.losses import Loss
from prgd.norms import norm
from prgd.problem.coding import Coding, Evaluation
from prgd.problem.intercepts import Balance, balance, best_intercept, circulation
from prgd.rows import Combine, JointAccurateAt, JointMarginsAt, JointSmallestAt, JointTallyAt, Query, Rows
from prgd.rows.queries import Accurate, Smallest
from prgd.rows.tally import SLOPE_MASS, Tally


class JointEvaluation(Evaluation):
    """The data of K classes seen from one W of shape (K, d), with an intercept for each class or none."""

    @lazy
    def _balance(self) -> Balance:
        return balance(np.reshape(self.tally.log_sums, (len(self.w), len(self.w))))

    @lazy
    def log_loss(self) -> float:
        """``log L(W)``, minimised over the intercepts if the problem has them."""
        if not self.problem.fit_intercept:
            return self.tally.log_sums[0] - math.log(self.tally.count)
        rows = self.tally.count / (len(self.w) - 1)  # each row counts once against each other class
        return self._balance.log_loss - math.log(rows)

    @lazy
    def dual_vector(self) -> Array:
        """``sum_ij p_ij (e_y - e_j) x_i^T`` with p the dual weights at W, of shape (K, d)."""
        if not self.problem.fit_intercept:
            return np.asarray(self.tally.mean_rows[0].reshape(self.w.shape))
        mass = self.tally.scalars[:, SLOPE_MASS, None]
        means = self.tally.vector / np.where(mass > 0.0, mass, 1.0)
        parts = (self._balance.flows.reshape(-1, 1) * means).reshape(-1, *self.w.shape)
        return np.asarray(parts.sum(axis=1) - parts.sum(axis=0))

    @property
    def weights_error(self) -> float:
        """Bound the weight that the pairs must exchange so that flows between classes balance exactly.

        A class whose flow out exceeds the flow into it gets weight from classes of the opposite kind, by
        pairs that always exist: half of the imbalance in all. The flows themselves are rounded, too.
        """
        if not self.problem.fit_intercept:
            return 0.0
        return 2.0 * self._balance.imbalance + 8.0 * (len(self.w) + 2) ** 2 * UNIT_ROUNDOFF


class Joint(Coding):
    """The terms of a joint problem: pairs of a row and another class, of K classes."""

    evaluation = JointEvaluation

    @property
    def K(self) -> int:
        """Number of classes."""
        return cast(Array, self.labels.classes).size

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of W."""
        return (self.K, self.d)

    def tally_at(self, w: Array, loss: Loss, v: Array | None = None) -> Query[Tally]:
        """Return the query of the pass of a step, which takes no second direction."""
        return JointTallyAt(w, loss, self.by_class)

    def margins_at(self, w: Array) -> Query[Array]:
        """Return the query for the margins of all pairs, without intercepts, of shape (n, K)."""
        return JointMarginsAt(w)

    def smallest_at(
        self, w: Array, max_rows: int, without: Indices, near: Intercept | None
    ) -> Query[tuple[Smallest, ...]]:
        """Return the query for the pairs of smallest margin, of each two classes with intercepts."""
        b = np.zeros(self.K) if near is None else np.asarray(near)
        return JointSmallestAt(w, max_rows, self.by_class, without, b, is_accurate=near is not None)

    def accurate_at(self, w: Array, intercept: Intercept) -> Query[Accurate]:
        """Return the query for the margins of all pairs with proven bounds on their errors."""
        return JointAccurateAt(w, np.asarray(intercept) if self.by_class else np.zeros(self.K))

    def groups(self) -> list[Any]:
        """Return the pairs of each two classes, or all of them, of margins of shape (n, K)."""
        if not self.by_class:
            return [slice(None)]
        codes, every = self.labels.codes, range(self.K)
        return [(codes == k, j) for k in every for j in every]

    def best(self, smallest: Sequence[float]) -> tuple[float, Intercept]:
        """Return the smallest mean of the margins along a cycle of classes, and intercepts that reach it."""
        if not self.by_class:
            return smallest[0], np.zeros(self.K)
        return best_intercept(np.reshape(smallest, (self.K, self.K)))

    def at_intercept(self, margins: Array, intercept: Intercept) -> Array:
        """Return the margins with ``b_y - b_j`` added."""
        b = np.asarray(intercept)
        return margins + (b[self.labels.codes][:, None] - b) if self.by_class else margins

    def log_weights(self, margins: Array, loss: Loss) -> Array:
        """Return ``log(-l'(s_i)) + s_i - m_ij`` with the soft margin ``s_i = -log sum_j exp(-m_ij)``."""
        soft = -np.logaddexp.reduce(-margins, axis=1)
        return np.asarray((loss.log_slope(soft) + soft)[:, None] - margins)

    def balanced(self, log_weights: Array, mass: Array) -> Array:
        """Return weights of all pairs, of sum 1; with intercepts, flows between classes balance."""
        counted = log_weights.copy()
        if mass.size:
            with np.errstate(divide="ignore"):  # rows of weight 0 have no weight in the logarithm either
                counted += np.log(mass)[:, None]
        if self.by_class:
            groups = self.groups()
            sums = [np.logaddexp.reduce(counted[group], initial=-np.inf) for group in groups]
            b = balance(np.reshape(sums, (self.K, self.K))).intercept
            counted = counted + (b - b[self.labels.codes][:, None])
        p = np.exp(counted - counted.max()).ravel()
        return np.asarray(p / p.sum())

    def normalized(self, indices: Indices, p: Array) -> Array:
        """Divide weights by their sum; with intercepts, let them balance exactly."""
        p = p / p.sum()
        if not self.by_class:
            return p
        own, _ = self.labels.pair_classes(indices)
        # The correction of the balance changes the sum, and the division that of the last bits.
        p = circulation(indices, p, own, self.K)
        return circulation(indices, p / p.sum(), own, self.K)

    def combine(self, rows: Rows, p: Array) -> Array:
        """Return ``sum_ij p_ij (e_y - e_j) x_i^T``."""
        weights = p.reshape(-1, self.K)
        at, own = np.arange(len(weights)), self.labels.codes
        factors = -weights
        factors[at, own] = weights.sum(axis=1) - weights[at, own]
        return np.stack([rows.ask(Combine.of(c), self.labels) for c in factors.T])

    def rows_of(self, terms: Indices) -> Indices:
        """Return the row of each pair."""
        return terms // self.K

    def reach(self, w: Array) -> float:
        """Return twice the largest ``||w_k||_2``."""
        return 2.0 * max(norm(row) for row in w)
