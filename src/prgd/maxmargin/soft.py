"""`soft_margin`: the certified soft margin with the squared hinge, for one C."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prgd.core.checks import check_integer, check_positive, checked_price
from prgd.core.errors import ZeroRowWarning
from prgd.core.threads import threads_of
from prgd.core.types import Array, Indices
from prgd.maxmargin.bounds import Round, result_of_rounds
from prgd.maxmargin.moves import SolverState
from prgd.maxmargin.solver import max_margin, teller
from prgd.norms import norm
from prgd.problem import Problem
from prgd.problem.certificate import SOFT, Certificate, DualWeights, quantity_of
from prgd.proofs.slacks import soft_lower, soft_upper, soft_weights
from prgd.rows import as_rows
from prgd.rows.extended import ExtendedRows
from prgd.running.history import Status
from prgd.running.result import Result
from prgd.solvers.primal_newton import Iterate, PrimalNewton

_FEW_COLUMNS = 256  # Newton's matrix over so few columns is cheaper than any working set
_DENSE_COLUMNS = 2000  # the same for dense rows, if rows below margin 1 are many more than columns
_MAX_ACTIVE_ROWS = 5000  # rows below margin 1 that a working set may have to hold
_FIRST_STEPS = 12  # Newton steps before the extended rows are tried
_HARD = 30.0  # above this, C ||x||^2 makes the problem nearly a hard margin, and Newton's steps many
_MAX_STEPS = 500  # Newton steps between two proofs of the bounds
_MAX_PROOFS = 6  # proofs of the bounds; each asks for a gap a quarter as large
_MODERATE = 1e100  # C ||x||^2 between 1/_MODERATE and _MODERATE keeps squares finite
_LARGEST = 1e140  # norms of rows between 1/_LARGEST and _LARGEST have squares with all their digits


def soft_margin(
    X: Any,
    y: Any = None,
    *,
    C: float | None = None,
    sample_weight: Any = None,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_passes: int = 100_000,
    callback: Callable[[Round], None] | None = None,
    verbose: int = 0,
    n_jobs: int | None = None,
    w0: Any = None,
    intercept0: float = 0.0,
) -> Result:
    r"""Return the soft-margin hyperplane with a certified relative gap of at most ``tol``.

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 + \tfrac{C}{2} \sum_i \xi_i^2, \quad
        y_i (\langle w, x_i \rangle + b) \ge 1 - \xi_i

    This is the hard margin of the rows extended by :math:`e_i / \sqrt{C}`, and the certificate is an
    interval for that margin, :math:`\gamma_C = 1 / \sqrt{\|w\|^2 + C \sum_i \xi_i^2}` at the optimum,
    proven on the data as given: the objective lies between ``0.5 / upper_bound**2`` and ``0.5 /
    margin**2``. As C grows it nears that of `max_margin`, if the classes separate. There are soft
    margins of two classes in l2 only: other norms, and several classes jointly, have the hard one.

    Parameters
    ----------
    X : array, sparse matrix or Rows
        Dense, CSR, memory-mapped or chunked; float32 or float64.
    y : array of shape (n,), optional
        Labels of two classes; ``None`` if X holds an engine or rows z_i.
    C : float
        Price of the squared slacks, which has no default: which C is good depends on the units of X.
        `prgd.MaxMarginClassifier` finds one where classes do not separate; ``math.inf`` is `max_margin`.
        scikit-learn's ``LinearSVC(loss="squared_hinge")`` has no factor 1/2: its C is half of this one. Its
        intercept is penalised, too, which is none of the problem solved here.
    sample_weight : array of shape (n,), optional
        Weights of the rows, by which C is multiplied: weight 3 is the same as three copies.
    fit_intercept : bool
        Fit a true, unpenalised intercept.
    tol : float
        Relative gap ``(upper_bound - margin) / upper_bound`` to certify. The gap between the objective and
        its lower bound is twice as large, relatively.
    max_passes : int
        Passes over the data after which the best certified interval is returned.
    callback : callable, optional
        Called with each `Round` of the history, whose bounds are proven in the last one; those of the rounds
        before steer the solve, and prove nothing.
    verbose : int
        1 prints each round.
    n_jobs : int, optional
        Threads of the passes over the rows. Default: PRGD_NUM_THREADS, else all cores.
    w0, intercept0 : array of shape (d,) and float, optional
        A warm start, e.g. ``coef`` and ``intercept`` of the result for a smaller C.

    Returns
    -------
    Result
        ``coef`` and ``intercept`` are w and b themselves, not rescaled.

    References
    ----------
    Keerthi and DeCoste (2005), A modified finite Newton method for fast solution of large scale linear SVMs.

    Examples
    --------
    >>> import prgd
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]  # no threshold separates these
    >>> result = prgd.soft_margin(X, y, C=1.0)
    >>> result.status.name, result.coef.round(6), round(result.intercept, 6)
    ('CERTIFIED', array([0.333333]), -0.5)
    >>> result.check(X, y).is_valid
    True
    """
    check_positive("tol", tol)
    check_integer("max_passes", max_passes, minimum=1)
    if C is None:
        raise TypeError(
            "soft_margin needs C, the price of squared slacks; which C is good depends on the units of X. "
            "prgd.MaxMarginClassifier().fit(X, y) finds one (C_) if classes do not separate; C=math.inf is "
            "the hard margin."
        )
    C = checked_price(C)
    rows = as_rows(X, y, sample_weight, n_jobs)
    tell = teller(callback, verbose, quantity_of(C))
    if math.isinf(C):
        return max_margin(
            rows, fit_intercept=fit_intercept, tol=tol, max_passes=max_passes, callback=tell, w0=w0
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZeroRowWarning)  # a row of zeros has a slack like others
        problem = Problem(rows, fit_intercept=fit_intercept, scale="none")
    problem.labels.check_two()
    if w0 is not None:
        w0 = np.array(w0, dtype=np.float64)
        if w0.shape != (problem.d,) or not np.isfinite(w0).all():
            raise ValueError(f"w0 must be a finite vector of shape ({problem.d},); got shape {w0.shape}.")
    if not math.isfinite(intercept0) or (intercept0 and not fit_intercept):
        raise ValueError(
            "intercept0 must be a finite number, and 0 with fit_intercept=False, where the hyperplane passes "
            f"through the origin; got {intercept0!r}."
        )
    state = SoftState(problem, C, tol, max_passes, threads_of(n_jobs), tell)
    try:
        status = state.run(w0, float(intercept0))
    except KeyboardInterrupt:
        if state.last is None:
            raise  # no step was taken
        state.prove(state.last)
        status = Status.INTERRUPTED
    return state.result(status)


@dataclass(eq=False)
class SoftState:
    """The state of a solve: Newton's method, the working set of the extended rows, and proven bounds."""

    problem: Problem
    C: float
    tol: float
    max_passes: int
    threads: int
    tell: Callable[[Round], None]
    certificate: Certificate = field(default_factory=lambda: Certificate(quantity=SOFT))
    rounds: list[Round] = field(default_factory=list)
    extra_passes: float = 0.0  # those that Newton's method does not count
    started: float = field(default_factory=time.perf_counter)
    newton: PrimalNewton = field(init=False)
    last: Iterate | None = None  # the last whole step, which an interruption keeps

    def __post_init__(self) -> None:
        c, largest = soft_weights(self.problem, self.C), self.problem.max_norm
        if largest and not 1.0 / _LARGEST < largest < _LARGEST:
            raise ValueError(
                f"The largest row norm is {largest:.3g}, and squares leave the floating range. Multiply X by "
                "a constant, and divide C by the square of it."
            )
        price = float(c.max()) * largest**2  # it does not depend on the units of X
        if price and not 1.0 / _MODERATE < price < _MODERATE:
            other = "smaller" if price > 1.0 else "larger"
            raise ValueError(
                f"C times the squared norm of the largest row is {price:.3g}: squares leave the floating "
                f"range. Choose a {other} C (it is {self.C:.3g}), or {other} sample weights."
            )
        self.newton = PrimalNewton(self.problem, c)

    @property
    def passes(self) -> float:
        """Passes over the rows so far, fractions for parts of them."""
        return self.newton.passes + self.extra_passes

    def run(self, w0: Array | None, intercept0: float) -> Status:
        """Take Newton steps; if they are many, solve the extended rows; prove the bounds."""
        at, aim = self.newton.start(w0, intercept0), 0.5 * self.tol
        if self._suits_working_set(at):
            is_hard = float(self.newton.c.max()) * self.problem.max_norm**2 > _HARD
            at = self._newton(at, aim, 0 if is_hard and not self._has_cheap_columns else _FIRST_STEPS)
            if at.gap > aim and self._suits_working_set(at):
                at = self._solve_extended(at, aim)
                if self.certificate.gap <= self.tol:
                    return Status.CERTIFIED
        for _ in range(_MAX_PROOFS):
            before = at
            at = self._newton(at, aim, _MAX_STEPS)
            self.prove(at)
            if self.certificate.gap <= self.tol:
                return Status.CERTIFIED
            if self.passes >= self.max_passes:
                return Status.MAX_PASSES
            if at is before and at.gap > aim:
                break
            # Margins that are updated from step to step keep the rounding of the largest ones.
            at, aim = self.newton.start(at.w, at.b), 0.25 * aim
        if self.problem.n <= _MAX_ACTIVE_ROWS:  # a price so large that rounding hides the slacks from Newton
            self._solve_extended(at, 0.5 * self.tol)
        return Status.CERTIFIED if self.certificate.gap <= self.tol else Status.STALLED

    @property
    def _has_cheap_columns(self) -> bool:
        n, d = self.problem.n, self.problem.d
        return not self.problem.rows.is_sparse and d <= _DENSE_COLUMNS and n > 2 * d

    def _suits_working_set(self, at: Iterate) -> bool:
        """Say whether columns are many and the rows below margin 1 are few enough for a Gram matrix."""
        d, count = self.problem.d, int(np.count_nonzero(at.alpha)) if at.w.any() else 0
        # Rows of margin below 1 beyond the columns are slacks that no large price takes away: Newton's steps
        # are few then.
        limit = min(2 * d, _MAX_ACTIVE_ROWS) if self._has_cheap_columns else _MAX_ACTIVE_ROWS
        return d > _FEW_COLUMNS and count <= limit

    def _newton(self, at: Iterate, aim: float, max_steps: int) -> Iterate:
        def tell(now: Iterate) -> None:
            self.last = now
            self._record(now.lower, now.upper, now.gap, int(np.count_nonzero(now.alpha)))

        return self.newton.minimise(at, aim, self.max_passes - self.extra_passes, max_steps, tell)

    def _record(self, lower: float, upper: float, gap: float, rows: int) -> None:
        seconds = time.perf_counter() - self.started
        self.rounds.append(Round(self.passes, lower, upper, gap, rows, seconds))
        self.tell(self.rounds[-1])

    def _solve_extended(self, at: Iterate, aim: float) -> Iterate:
        """Solve the extended rows as a hard margin, prove its bounds, and return the better iterate."""
        problem, c = self.problem, self.newton.c
        extended = Problem(ExtendedRows(problem.rows, c), fit_intercept=problem.fit_intercept, scale="none")
        passes = max(int(self.max_passes - self.passes), 1)

        def tell(now: Round) -> None:
            self._record(now.margin, now.upper_bound, now.gap, now.working_set)

        state = SolverState(extended, self.threads, aim, min(passes, 1000), True, tell)
        start = None
        if at.w.any():
            start = np.concatenate([at.w, np.sqrt(c) * np.maximum(1.0 - at.margins, 0.0)])
        state.run(start)
        self.extra_passes += 1.0 + state.passes
        found = state.certificate
        if found.w is None or not found.lower > 0.0:
            return at
        scale = 1.0 / (found.lower * norm(found.w))
        w, b = found.w[: problem.d] * scale, float(found.intercept) * scale
        if found.dual_weights is not None:
            # The weights of the set are more exact than C times the slacks, which amplifies their rounding.
            self._prove(w, b, found.dual_weights.indices, found.dual_weights.values)
            if self.certificate.gap <= self.tol:
                return at
        other = self.newton.start(w, b)
        return other if other.objective < at.objective else at

    def prove(self, at: Iterate) -> None:
        """Prove both bounds of an iterate, and keep the better ones."""
        indices = np.flatnonzero(at.alpha)
        self._prove(at.w, at.b, indices, at.alpha[indices])

    def _prove(self, w: Array, b: float, indices: Indices, p: Array) -> None:
        problem = self.problem
        self.extra_passes += 2.0
        lower = soft_lower(problem, self.C, w, b, self.tol)
        self.certificate = self.certificate.with_lower(lower, w, b)
        signs = problem.labels.at(indices) if problem.fit_intercept else None
        if indices.size and (signs is None or abs(int(signs.sum())) < signs.size):
            weights = DualWeights.normalized(problem, indices, p)
            upper = soft_upper(problem, self.C, weights, self.tol)
            self.certificate = self.certificate.with_upper(upper, weights)
        c = self.certificate
        self._record(c.lower, c.upper, c.gap, indices.size)

    def result(self, status: Status) -> Result:
        """Return the outcome."""
        algorithm = f"soft_margin(C={self.C!r}, tol={self.tol!r})"
        known = self.problem, status, self.certificate, self.rounds, self.passes
        return result_of_rounds(*known, algorithm, self.C)
