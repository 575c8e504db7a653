"""How labels turn rows into the terms of a problem: two classes, or all classes jointly.

A term is what has a margin and a dual weight: a row ``z_i = y_i x_i`` of two classes, or a pair of a row and
another class, ``x_i (x) (e_y - e_j)``, number ``i K + j``, of K classes. Terms of one group share a softmax
if the problem has intercepts: the rows of each class, or the pairs of each two classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from prgd.core.types import Array, Indices, Intercept
from prgd.losses import Loss
from prgd.norms import norm
from prgd.problem.evaluation import Evaluation, JointEvaluation
from prgd.problem.joint import balance, best_intercept, circulation
from prgd.rows import (
    AccurateAt,
    Combine,
    JointAccurateAt,
    JointMarginsAt,
    JointSmallestAt,
    JointTallyAt,
    Labels,
    MarginsAt,
    Query,
    Rows,
    SmallestAt,
    TallyAt,
)
from prgd.rows.queries import Accurate, Smallest
from prgd.rows.tally import Tally


def balanced_intercept(smallest: Sequence[float]) -> float:
    """Return the intercept that gives both classes the same smallest margin; 0 for one group of rows."""
    if len(smallest) == 1:
        return 0.0
    plus, minus = smallest
    return 0.5 * (minus - plus)


@dataclass(frozen=True, eq=False)
class Coding(ABC):
    """The terms of a problem over rows of d columns.

    Attributes
    ----------
    labels : Labels
    d : int
    by_class : bool
        Whether the problem has intercepts, so that terms form groups.
    """

    labels: Labels
    d: int
    by_class: bool

    evaluation: ClassVar[type[Evaluation]]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of w."""

    @property
    @abstractmethod
    def n_terms(self) -> int:
        """Number of terms, of which those of a row and its own class do not exist."""

    @abstractmethod
    def tally_at(self, w: Array, loss: Loss, v: Array | None = None) -> Query[Tally]:
        """Return the query of the pass of a step, with a second direction v."""

    @abstractmethod
    def margins_at(self, w: Array) -> Query[Array]:
        """Return the query for the margins of all terms, without intercepts."""

    @abstractmethod
    def smallest_at(
        self, w: Array, max_rows: int, without: Indices, near: Intercept | None
    ) -> Query[tuple[Smallest, ...]]:
        """Return the query for the terms of smallest margin in each group."""

    @abstractmethod
    def accurate_at(self, w: Array, intercept: Intercept) -> Query[Accurate]:
        """Return the query for the margins of all terms with proven bounds on their errors."""

    @abstractmethod
    def groups(self) -> list[Any]:
        """Return an index of each group into the margins of all terms."""

    @abstractmethod
    def best(self, smallest: Sequence[float]) -> tuple[float, Intercept]:
        """Return the smallest margin at the best intercept, and that intercept, from those of the groups."""

    @abstractmethod
    def at_intercept(self, margins: Array, intercept: Intercept) -> Array:
        """Return the margins of all terms with an intercept added."""

    @abstractmethod
    def log_weights(self, margins: Array, loss: Loss) -> Array:
        """Return the logarithm of the weight that the loss gives each term."""

    @abstractmethod
    def balanced(self, log_weights: Array, mass: Array) -> Array:
        """Return dual weights of sum 1 proportional to ``mass exp(log_weights)`` in each group."""

    @abstractmethod
    def normalized(self, indices: Indices, p: Array) -> Array:
        """Return weights of terms divided by their sum; with intercepts, groups balance."""

    @abstractmethod
    def combine(self, rows: Rows, p: Array) -> Array:
        """Return the dual vector of weights of all terms; only rows that carry weight are read."""

    @abstractmethod
    def rows_of(self, terms: Indices) -> Indices:
        """Return the row of each term."""

    @abstractmethod
    def reach(self, w: Array) -> float:
        """Return the largest ``sum of ||w_k||_2`` over the vectors that the margin of a term needs."""


class Binary(Coding):
    """Rows ``z_i = y_i x_i`` of two classes."""

    evaluation = Evaluation

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of w."""
        return (self.d,)

    @property
    def n_terms(self) -> int:
        """Number of rows."""
        return self.labels.signs.size

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


class Joint(Coding):
    """Pairs of a row and another class, of K classes."""

    evaluation = JointEvaluation

    @property
    def K(self) -> int:
        """Number of classes."""
        return cast(Array, self.labels.classes).size

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of W."""
        return (self.K, self.d)

    @property
    def n_terms(self) -> int:
        """Number of pairs, those of a row and its own class included, which do not exist."""
        return self.K * self.labels.codes.size

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
        largest = counted.max()
        if self.by_class:
            groups = self.groups()
            sums = [np.logaddexp.reduce(counted[group], initial=-np.inf) for group in groups]
            b = balance(np.reshape(sums, (self.K, self.K))).intercept
            counted = counted + (b - b[self.labels.codes][:, None])
            largest = counted.max()
        p = np.exp(counted - largest).ravel()
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
