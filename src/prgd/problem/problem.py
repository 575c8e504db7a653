"""Problem: what a method may ask of the data, for a loss and a norm."""

from __future__ import annotations

import warnings
from contextlib import suppress
from copy import copy
from typing import Any

import numpy as np

from prgd.core.arithmetic import LARGEST, like
from prgd.core.checks import joint_hint, parse
from prgd.core.errors import ZeroRowWarning
from prgd.core.threads import lazy
from prgd.core.types import Array, Indices, Intercept
from prgd.losses import EXPONENTIAL, LOSSES, Loss
from prgd.norms import L2, Norm, as_norm
from prgd.problem.coding import Coding, Evaluation
from prgd.problem.joint import Joint
from prgd.rows import Fingerprint, LargestRow, Measure, Query, Rows, as_rows
from prgd.rows.base import Block, M
from prgd.rows.blocks import times_signs
from prgd.rows.labels import Labels
from prgd.rows.queries import Smallest

NO_ROWS: Indices = np.empty(0, np.int64)


class Problem:
    r"""Minimise ``L(w) = mean_i l(<w, z_i>)``, with ``z_i = y_i x_i``, and measure margins.

    .. math::

        L(w) = \frac1n \sum_i \ell(\langle w, z_i\rangle), \qquad \gamma(w) = \min_i \langle w, z_i\rangle /
        \|w\|

    With K > 2 classes w is a matrix W of shape (K, d), and all classes are separated jointly: the margin of a
    row is the smallest ``<w_y - w_j, x_i>`` over the other classes j, and the loss is the sum of
    ``exp(-<w_y - w_j, x_i>)`` over them, or cross-entropy (``loss="logistic"``).

    Parameters
    ----------
    X : array, sparse matrix, data frame or Rows
        Dense (float32 or float64, any order, mapped or not), any SciPy sparse format, a torch tensor, or an
        engine of `prgd.rows`. Never copied if it is float32 or float64 already.
    y : array of shape (n,), optional
        Labels of two classes, of which the larger one is +1, or of more. ``None``: the rows are z_i already.
    loss : Loss or {"exponential", "logistic"}
    norm : Norm, {"l2", "l1", "linf", "spectral", "nuclear", "rows", "columns"} or a number p (3 or "l3")
        The norm in which margins are measured (`prgd.norms`); those of matrices are for more than two
        classes.
    sample_weight : array of shape (n,), optional
        Weight 3 on a row is the same as three copies of it; rows of weight 0 do not count.
    fit_intercept : bool
        Minimise over an unpenalised intercept b too (one for each of K classes; exponential loss only).
    scale : {"max", "none"}
        The paper asks for rows of norm at most 1 and ``eta <= 1``. ``"max"`` measures step sizes in
        units of ``1 / max ||z_i||_*^2``, in the dual norm, which is the paper's algorithm on the scaled rows;
        ``"none"`` takes ``eta`` literally. Margins are in the units of X either way.
    multi_class : {None, "joint"}
        ``"joint"``: a matrix W with a row for each class also for two classes.
    n_jobs : int, optional
        Threads of a pass over the rows. Default: PRGD_NUM_THREADS, else all cores.

    Attributes
    ----------
    shape : tuple of int
        Shape of w: (d,) for two classes, (K, d) for a joint problem.
    is_joint : bool
        Whether w is a matrix with a row for each class.
    passes : int
        Passes over the rows so far, counted by `ask`; products of a few rows (`combine`) do not count.
    max_norm : float
        The largest Euclidean norm of a row.
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
        norm: Norm | str | float = "l2",
        sample_weight: Any = None,
        fit_intercept: bool = False,
        scale: str = "max",
        multi_class: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.loss: Loss = loss if isinstance(loss, Loss) else parse(loss, LOSSES, "loss")
        self.norm = as_norm(norm)
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
        if multi_class not in (None, "joint"):
            raise ValueError(
                f"multi_class must be None or 'joint'; got {multi_class!r}.{joint_hint(multi_class)}"
            )
        self.rows: Rows = as_rows(X, y, sample_weight, n_jobs)
        self.labels = self.rows.labels
        if multi_class is not None and not self.labels.is_joint:
            self.labels = self.labels.jointly()
            # Engines bound the rounding of sums by their own labels; those of a cluster stay in its parts.
            with suppress(TypeError):
                self.rows = self.rows.with_labels(self.labels)
        self.n, self.d, self.classes = self.rows.n, self.rows.d, self.labels.classes
        self._take_coding()
        self.norm.check_shape(self.shape)
        if self.fit_intercept and min(self.labels.class_weights) == 0.0:
            raise ValueError(
                "fit_intercept=True needs rows of positive weight in both classes; got one class. Give y, or "
                "use fit_intercept=False if the rows are y_i x_i already."
                if not self.is_joint
                else "fit_intercept=True needs rows of positive weight in every class; one has none. Leave "
                "the rows of that class out."
            )
        self.passes = 0
        self.max_norm, zero_rows = self.rows.ask(Measure(), self.labels)
        self._largest_rows = {2.0: self.max_norm}  # the largest ||x_i||_q by q
        self.unit = self.unit_in(self.norm)
        if zero_rows and not self.fit_intercept:
            warnings.warn(
                f"{zero_rows} of {self.n} rows are zero: their margin is 0 for every w, so there is "
                "no positive margin through the origin. Remove them, or use fit_intercept=True.",
                ZeroRowWarning,
                stacklevel=2,
            )

    def _take_coding(self) -> None:
        self.is_joint = self.labels.is_joint
        kind = Joint if self.is_joint else Coding
        self.coding: Coding = kind(self.labels, self.d, self.fit_intercept)
        self.shape = self.coding.shape

    def unit_in(self, norm: Norm) -> float:
        """Return the unit of steps that are steepest in a norm, ``1 / max ||z_i||_*^2``; 1 unless scaled."""
        if self.scale == "none" or self.max_norm == 0.0:
            return 1.0
        if not 1e-150 < self.max_norm < 1e150:
            raise ValueError(
                f"The largest row norm is {self.max_norm:.3g}: its square overflows or underflows. "
                "Multiply X by a constant, or use scale='none' and choose eta yourself."
            )
        q, factor = norm.row_exponent, norm.pair_factor if self.is_joint else 1.0
        if q not in self._largest_rows:
            self._largest_rows[q] = float(self.rows.ask(LargestRow(q), self.labels))
        return float(1.0 / (factor * self._largest_rows[q]) ** 2)

    def __repr__(self) -> str:
        return self.described()

    def described(self, has_loss: bool = True) -> str:
        """Return the size and the options; the loss is left out for a solver, which minimises none."""
        options = f"fit_intercept={self.fit_intercept}, scale={self.scale!r}"
        options = f"loss={self.loss.name!r}, {options}" if has_loss else options
        if self.norm != L2():
            options += f", norm={self.norm.name!r}"
        joint = f", {self.shape[0]} classes jointly" if self.is_joint else ""
        return f"Problem({self.n} x {self.d} {type(self.rows).__name__}{joint}, {options})"

    @property
    def n_terms(self) -> int:
        """Number of rows; jointly of pairs of a row and a class, its own included, which has no margin."""
        return self.n * self.shape[0] if self.is_joint else self.n

    @property
    def facts(self) -> dict[str, Any]:
        """What a `Result` says of its problem, by the names of the fields of the Result."""
        solved: dict[str, Any] = {"fit_intercept": self.fit_intercept, "loss": self.loss.name}
        solved |= {"norm": self.norm.name, "multi_class": "joint" if self.is_joint else None}
        data = {"n": self.n, "classes": self.classes, "feature_names": self.rows.feature_names}
        return {"problem": repr(self), "scale": self.scale, **solved, **data}

    @property
    def unit_roundoff(self) -> float:
        """Unit roundoff of the least precise sums of the pass of a step."""
        return self.rows.joint_unit_roundoff if self.is_joint else self.rows.unit_roundoff

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
        other._take_coding()
        return other

    def ask(self, query: Query[M]) -> M:
        """Answer a query by one pass over the rows, with the labels of this problem."""
        self.passes += 1
        return self.rows.ask(query, self.labels)

    def at(self, w: Any, v: Any = None) -> Evaluation:
        """Return the Evaluation at ``w``, by one pass; the problem keeps nothing, so a caller holds it.

        The same pass finds the smallest margin along a second direction ``v``, if one is given: that of the
        last dual vector is often larger than that of w (docs/note/note.md), and `prgd.run` asks for it
        (`after`). Joint problems take none.
        """
        w, v = self._read_only("w", w), None if v is None else self._read_only("v", v)
        if v is not None and self.is_joint:
            raise ValueError("A joint problem takes no second direction v; ask problem.at(v) for its margin.")
        return self.coding.evaluation(self, w, self.ask(self.coding.tally_at(w, self.loss, v)), v)

    def after(self, last: Evaluation) -> Problem:
        """Return this problem as a step from ``last`` sees it: passes take its dual direction as their v.

        Everything else is shared, the count of passes included. An algorithm that calls ``problem.at(w)``
        therefore gets the certificates of the dual vector without asking for them.
        """
        step = object.__new__(_ProblemOfStep)
        step.__dict__ = self.__dict__
        step.problem, step.last = self, last
        return step

    def _read_only(self, name: str, w: Any) -> Array:
        """Return a direction that nobody can write to: itself, or else a copy."""
        if not (isinstance(w, np.ndarray) and w.dtype == np.float64 and not w.flags.writeable):
            w = np.array(w, dtype=np.float64)
            w.flags.writeable = False
        if w.shape != self.shape:
            raise ValueError(f"{name} must have shape {self.shape}; got {w.shape}.")
        return np.asarray(w)

    def margins(self, w: Array, intercept: Intercept | None = None) -> Array:
        """Return ``y_i (<w, x_i> + b)`` for every row, by one pass; of K classes those of shape (n, K).

        By default b is the intercept of largest smallest margin (0 without an intercept). The margin of a row
        against its own class is infinite.
        """
        margins = self.ask(self.coding.margins_at(w))
        if self.fit_intercept and intercept is None:
            intercept = self.coding.best(self.smallest_of(margins))[1]
        return self.coding.at_intercept(margins, 0.0 if intercept is None else intercept)

    def counted(self, margins: Array) -> Array:
        """Return the margins, infinite for rows of weight 0, which do not count."""
        weight = self.labels.sample_weight
        if not weight.size:
            return margins
        return np.where((weight == 0.0).reshape(-1, *[1] * (margins.ndim - 1)), np.inf, margins)

    def smallest_of(self, margins: Array) -> list[float]:
        """Return the smallest of the margins that count, of each group of terms with an intercept."""
        counted = self.counted(margins)
        return [float(counted[group].min(initial=np.inf)) for group in self.coding.groups()]

    def smallest(
        self, w: Array, max_rows: int, without: Indices = NO_ROWS, near: Intercept | None = None
    ) -> tuple[Smallest, ...]:
        """Return the terms of smallest ``<w, z_i>`` (of each group, with an intercept), by one pass.

        With ``near`` the margins at this intercept are computed instead, by compensated products, and are
        lower bounds of the exact ones.
        """
        return self.ask(self.coding.smallest_at(w, max_rows, np.sort(without), near))

    def near(self, w: Array, width: float) -> Indices:
        """Return the rows with a margin within ``width`` of the smallest (of their class), by one pass.

        Rows of weight 0 are left out.
        """
        margins = self.counted(self.ask(self.coding.margins_at(w)))
        for group in self.coding.groups():
            margins[group] -= margins[group].min(initial=LARGEST)  # a group of no terms stays infinite
        return np.flatnonzero(margins <= width)

    def dual_weights(self, w: Array) -> Array:
        """Return the p of the certificate at w, of sum 1 (of 1/2 in each class), by one pass.

        p_i is proportional to ``s_i (-l'(m_i))``. Of K classes p has a number for every pair.
        """
        log_weights = self.coding.log_weights(self.ask(self.coding.margins_at(w)), self.loss)
        mass = self.labels.sample_weight
        if mass.size:
            log_weights[mass == 0.0] = -np.inf
        return self.coding.balanced(log_weights, mass)

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p``; only rows that carry weight are read."""
        return self.coding.combine(self.rows, p)

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


class _ProblemOfStep(Problem):
    """A problem during the step that follows an Evaluation; see `Problem.after`."""

    __slots__ = ("last", "problem")

    problem: Problem
    last: Evaluation

    def at(self, w: Any, v: Any = None) -> Evaluation:
        """Return the Evaluation at ``w``, with a second direction unless the problem is joint.

        It would double the products of a joint pass, which are most of its time.
        """
        if v is None and not self.is_joint:
            v = self.last.dual_direction
        return self.problem.at(w, v)
