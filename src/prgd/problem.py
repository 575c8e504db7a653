"""Problem and Evaluation: what a method may ask of the data, and all that follows from one pass at w."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from prgd._types import Array, Indices
from prgd.errors import ZeroRowWarning
from prgd.lazy import lazy
from prgd.losses import EXPONENTIAL, Loss, as_loss
from prgd.namespace import like
from prgd.norms import Norm, as_norm
from prgd.rows import Combine, Fingerprint, MarginsAt, Measure, Query, Rows, SmallestAt, TallyAt, as_rows
from prgd.rows.base import Block, M
from prgd.rows.blocks import times_signs
from prgd.rows.labels import Labels
from prgd.rows.queries import Smallest
from prgd.tally import Tally

NO_ROWS: Indices = np.empty(0, np.int64)


def balanced_intercept(smallest: Sequence[float]) -> float:
    """Return the intercept that gives both classes the same smallest margin; 0 for one group of rows."""
    if len(smallest) == 1:
        return 0.0
    plus, minus = smallest
    return 0.5 * (minus - plus)


class Evaluation:
    """The data seen from one w: the Tally of the pass, and what follows from it without another pass.

    Made by `Problem.at`. Each quantity is computed when it is first asked for.

    Attributes
    ----------
    w : ndarray of shape (d,), read-only
    tally : Tally
    problem : Problem
    """

    def __init__(self, problem: Problem, w: Array, tally: Tally) -> None:
        self.w, self.tally, self.problem = w, tally, problem

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
    def smallest_margin(self) -> float:
        """``min_i <w, z_i>``, at the best intercept if there is one; not normalized."""
        # The midpoint between the classes, never the intercept of the loss: they agree only as ||w|| grows.
        margins = self.tally.margins
        return sum(margins) / len(margins)

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
        along = float(self.dual_vector @ (self.w / self.length))
        return self.upper - along, along - self.gamma

    @property
    def intercept(self) -> float:
        """The intercept that gives both classes the same smallest margin; 0 without an intercept."""
        return balanced_intercept(self.tally.margins)


class Problem:
    r"""Minimise ``L(w) = mean_i l(<w, z_i>)``, with ``z_i = y_i x_i``, and measure margins.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Rows
        Dense (float32 or float64, any order, mapped or not), any SciPy sparse format, a torch tensor, or an
        engine of `prgd.rows`. Never copied if it is float32 or float64 already.
    y : array of shape (n,), optional
        Labels of two classes; the larger one is +1. ``None``: the rows are z_i already.
    loss : Loss or {"exponential", "logistic"}
    norm : Norm or {"l2"}
        The norm in which margins are measured.
    sample_weight : array of shape (n,), optional
        Weight 3 on a row is the same as three copies of it; rows of weight 0 do not count.
    fit_intercept : bool
        Minimise over an unpenalised intercept b too, by its closed form (exponential loss only).
    scale : {"max", "none"}
        The paper asks for rows of norm at most 1 and ``eta <= 1``. ``"max"`` measures step sizes in
        units of ``1 / max ||x_i||^2``, which is the paper's algorithm on the scaled rows; ``"none"``
        takes ``eta`` literally. Margins are in the units of X either way.
    n_threads : int, optional
        Threads of a pass over the rows. Default: PRGD_NUM_THREADS, else all cores.

    Attributes
    ----------
    passes : int
        Passes over the rows so far, counted by `ask`; products of a few rows (`combine`) do not count.
    max_norm : float
        The largest row norm.
    unit : float
        The unit of step sizes.

    Examples
    --------
    >>> problem = Problem([[3.0, 4.0], [-3.0, 4.0]], [1, -1])
    >>> problem.at([1.0, 0.0]).gamma, problem.max_norm
    (3.0, 5.0)
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        loss: Loss | str = "exponential",
        norm: Norm | str = "l2",
        sample_weight: Any = None,
        fit_intercept: bool = False,
        scale: str = "max",
        n_threads: int | None = None,
    ) -> None:
        self.loss, self.norm = as_loss(loss), as_norm(norm)
        self.fit_intercept = bool(fit_intercept)
        if self.fit_intercept and self.loss != EXPONENTIAL:
            raise ValueError(
                "fit_intercept=True needs loss='exponential': only there the unpenalised intercept "
                f"has a closed form; got loss={loss!r}. Use fit_intercept=False, or add a constant "
                "column to X."
            )
        if scale not in ("max", "none"):
            raise ValueError(f"scale must be 'max' or 'none'; got {scale!r}.")
        self.scale = scale
        self.rows: Rows = as_rows(X, y, sample_weight, n_threads)
        self.labels = self.rows.labels
        self.n, self.d, self.classes = self.rows.n, self.rows.d, self.labels.classes
        if self.fit_intercept and min(self.labels.class_weights) == 0.0:
            raise ValueError(
                "fit_intercept=True needs rows of positive weight in both classes; got one class. Give y, or "
                "use fit_intercept=False if the rows are y_i x_i already."
            )
        self.passes = 0
        self.max_norm, zero_rows = self.rows.ask(Measure(), self.labels)
        self.unit = self._step_unit()
        if zero_rows and not self.fit_intercept:
            warnings.warn(
                f"{zero_rows} of {self.n} rows are zero: their margin is 0 for every w, so there is "
                "no positive margin through the origin. Remove them, or use fit_intercept=True.",
                ZeroRowWarning,
                stacklevel=2,
            )

    def _step_unit(self) -> float:
        if self.scale == "none" or self.max_norm == 0.0:
            return 1.0
        if not 1e-150 < self.max_norm < 1e150:
            raise ValueError(
                f"The largest row norm is {self.max_norm:.3g}: its square overflows or underflows. "
                "Multiply X by a constant, or use scale='none' and choose eta yourself."
            )
        return 1.0 / self.max_norm**2

    def __repr__(self) -> str:
        options = f"loss={str(self.loss)!r}, fit_intercept={self.fit_intercept}, scale={self.scale!r}"
        return f"Problem({self.n} x {self.d} {type(self.rows).__name__}, {options})"

    @property
    def facts(self) -> dict[str, Any]:
        """What a `Result` says of its problem, by the names of the fields of the Result."""
        solved = {"fit_intercept": self.fit_intercept, "loss": str(self.loss), "norm": self.norm.name}
        data = {"n": self.n, "classes": self.classes, "feature_names": self.rows.feature_names}
        return {"problem": repr(self), "scale": self.scale, **solved, **data}

    @lazy
    def fingerprint(self) -> str:
        """Hashes of the rows, labels and weights, by one pass that is not counted.

        Rows of the same numbers have the same fingerprint on every engine.
        """
        return str(self.rows.ask(Fingerprint(), self.labels))

    def with_labels(self, labels: Labels) -> Problem:
        """Return the problem of other labels, of both classes, over the same rows, not measured again."""
        other = copy(self)
        other.__dict__.pop("fingerprint", None)
        other.rows = self.rows.with_labels(labels)
        other.labels, other.classes, other.passes = other.rows.labels, labels.classes, 0
        return other

    def ask(self, query: Query[M]) -> M:
        """Answer a query by one pass over the rows, with the labels of this problem."""
        self.passes += 1
        return self.rows.ask(query, self.labels)

    def at(self, w: Any) -> Evaluation:
        """Return the Evaluation at ``w``, by one pass; the problem keeps nothing, so a caller holds it."""
        if not (isinstance(w, np.ndarray) and w.dtype == np.float64 and not w.flags.writeable):
            w = np.array(w, dtype=np.float64)
            w.flags.writeable = False
        if w.shape != (self.d,):
            raise ValueError(f"w must have shape ({self.d},); got {w.shape}.")
        return Evaluation(self, w, self.ask(TallyAt(w, self.loss, self.fit_intercept)))

    def margins(self, w: Array, intercept: float | None = None) -> Array:
        """Return ``y_i (<w, x_i> + b)`` for every row, by one pass.

        By default b gives both classes the same smallest margin (0 without an intercept).
        """
        margins = self.ask(MarginsAt(w))
        if not self.fit_intercept:
            return margins
        if intercept is None:
            intercept = balanced_intercept(self.smallest_of(margins))
        return margins + intercept * self.labels.signs

    def counted(self, margins: Array) -> Array:
        """Return the margins, infinite for rows of weight 0, which do not count."""
        weight = self.labels.sample_weight
        return np.where(weight == 0.0, np.inf, margins) if weight.size else margins

    def smallest_of(self, margins: Array) -> list[float]:
        """Return the smallest of the margins that count, of each class with an intercept."""
        counted = self.counted(margins)
        return [float(counted[group].min()) for group in self.labels.groups(self.fit_intercept)]

    def smallest(
        self, w: Array, max_rows: int, without: Indices = NO_ROWS, near: float | None = None
    ) -> tuple[Smallest, ...]:
        """Return the rows of smallest ``<w, z_i>`` (of each class, with an intercept), by one pass.

        With ``near`` the margins ``y_i (<w, x_i> + near)`` are computed instead, by compensated products, and
        are lower bounds of the exact ones.
        """
        return self.ask(SmallestAt(w, max_rows, self.fit_intercept, np.sort(without), near=near))

    def near(self, w: Array, width: float) -> Indices:
        """Return the rows with a margin within ``width`` of the smallest (of their class), by one pass.

        Rows of weight 0 are left out.
        """
        margins = self.counted(self.ask(MarginsAt(w)))
        for group in self.labels.groups(self.fit_intercept):
            margins[group] -= margins[group].min()
        return np.flatnonzero(margins <= width)

    def dual_weights(self, w: Array) -> Array:
        """Return the p of the certificate at w, of sum 1 (of 1/2 in each class), by one pass.

        p_i is proportional to ``s_i (-l'(m_i))``.
        """
        p: Array = self.loss.log_slope(self.ask(MarginsAt(w)))
        sample_weight = self.labels.sample_weight
        if sample_weight.size:
            p[sample_weight == 0.0] = -np.inf
        groups = self.labels.groups(self.fit_intercept)
        for group in groups:
            part = np.exp(p[group] - p[group].max())
            if sample_weight.size:
                part *= sample_weight[group]
            p[group] = part / (part.sum() * len(groups))
        return p

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p``; only rows that carry weight are read."""
        return self.rows.ask(Combine.of(p), self.labels)

    def take(self, indices: Indices, center: Array | None = None) -> Block:
        """Return the rows ``y_i (x_i - center)`` of these ascending indices, as a float64 or CSR array."""
        return self._signed(self.rows.take(indices), indices, center)

    def gather(self, indices: Indices, center: Array | None = None) -> Block:
        """Return the same rows where the solver computes with them: on a GPU if all rows lie there."""
        return self._signed(self.rows.gather(indices), indices, center)

    def _signed(self, block: Block, indices: Indices, center: Array | None) -> Block:
        if center is not None:
            block -= like(block, center)
        return times_signs(block, self.labels.at(indices))
