"""`soft_margin`: the certified soft margin with the squared hinge, for one C."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from prgd.core.checks import check_integer, check_positive, checked_price
from prgd.core.errors import ZeroRowWarning
from prgd.core.threads import threads_of
from prgd.core.types import Array, Indices
from prgd.maxmargin.solve import Round, Solve, reporter
from prgd.maxmargin.solver import max_margin, solve_hard
from prgd.norms import norm
from prgd.problem import Problem
from prgd.problem.certificate import quantity_of
from prgd.proofs.slacks import soft_weights
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
_MAX_PRICE = 1e100  # C ||x||^2 between the inverse and this keeps squares finite
_MAX_NORM = 1e140  # norms of rows between the inverse and this have squares with all their digits


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
    report = reporter(callback, verbose, quantity_of(C))
    if math.isinf(C):
        return max_margin(
            rows, fit_intercept=fit_intercept, tol=tol, max_passes=max_passes, callback=report, w0=w0
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
    solve = Solve(problem, tol, max_passes, report, C)
    method = SoftMargin(solve, threads_of(n_jobs))
    return solve.run(lambda: method.find(w0, float(intercept0)))


class SoftMargin:
    """Newton's method on the primal, the working set of the extended rows, and proofs of their bounds."""

    def __init__(self, solve: Solve, threads: int) -> None:
        self.solve, self.problem, self.threads = solve, solve.problem, threads
        c, largest = soft_weights(self.problem, solve.C), self.problem.max_norm
        if largest and not 1.0 / _MAX_NORM < largest < _MAX_NORM:
            raise ValueError(
                f"The largest row norm is {largest:.3g}, and squares leave the floating range. Multiply X by "
                "a constant, and divide C by the square of it."
            )
        self.price = float(c.max()) * largest**2  # it does not depend on the units of X
        if self.price and not 1.0 / _MAX_PRICE < self.price < _MAX_PRICE:
            other = "smaller" if self.price > 1.0 else "larger"
            raise ValueError(
                f"C times the squared norm of the largest row is {self.price:.3g}: squares leave the "
                f"floating range. Choose a {other} C (it is {solve.C:.3g}), or {other} sample weights."
            )
        self.newton = PrimalNewton(self.problem, c)
        self._counted = 0.0

    def find(self, w0: Array | None, intercept0: float) -> Status:
        """Take Newton steps; if they are many, solve the extended rows; prove the bounds."""
        solve, at, aim = self.solve, self.newton.start(w0, intercept0), 0.5 * self.solve.tol
        if self._suits_working_set(at):
            at = self._newton(
                at, aim, 0 if self.price > _HARD and not self._has_cheap_columns else _FIRST_STEPS
            )
            if at.gap > aim and self._suits_working_set(at):
                at = self._solve_extended(at, aim)
                if solve.is_certified:
                    return Status.CERTIFIED
        for _ in range(_MAX_PROOFS):
            before = at
            at = self._newton(at, aim, _MAX_STEPS)
            solve.prove(*_proposal(at))
            if solve.is_certified:
                return Status.CERTIFIED
            if solve.passes >= solve.max_passes:
                return Status.MAX_PASSES
            if at is before and at.gap > aim:
                break
            # Margins that are updated from step to step keep the rounding of the largest ones.
            at, aim = self.newton.start(at.w, at.b), 0.25 * aim
        if self.problem.n <= _MAX_ACTIVE_ROWS:  # a price so large that rounding hides the slacks from Newton
            self._solve_extended(at, 0.5 * solve.tol)
        return Status.CERTIFIED if solve.is_certified else Status.STALLED

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
        def record(now: Iterate) -> bool:
            self.solve.count(self.newton.systems.reads - self._counted)
            self._counted, plain = self.newton.systems.reads, (now.lower, now.upper, now.gap)
            self.solve.record(int(np.count_nonzero(now.alpha)), plain, lambda: _proposal(now))
            return self.solve.passes >= self.solve.max_passes

        return self.newton.minimise(at, aim, max_steps, record)

    def _solve_extended(self, at: Iterate, aim: float) -> Iterate:
        """Solve the extended rows as a hard margin, prove its bounds, and return the better iterate."""
        problem, c, solve = self.problem, self.newton.c, self.solve
        extended = Problem(ExtendedRows(problem.rows, c), fit_intercept=problem.fit_intercept, scale="none")

        def record(now: Round) -> None:
            solve.record(now.working_set, (now.margin, now.upper_bound, now.gap))

        max_passes = max(min(int(solve.max_passes - solve.passes), 1000), 1)
        inner = Solve(extended, aim, max_passes, record)
        start = None
        if at.w.any():
            start = np.concatenate([at.w, np.sqrt(c) * np.maximum(1.0 - at.margins, 0.0)])
        solve_hard(inner, self.threads, True, start, proves=False)
        solve.count(1.0 + inner.passes)
        found = inner.certificate
        if found.w is None or not found.lower > 0.0:
            return at
        scale = 1.0 / (found.lower * norm(found.w))
        w, b = found.w[: problem.d] * scale, float(found.intercept) * scale
        if found.dual_weights is not None:
            # The weights of the set are more exact than C times the slacks, which amplifies their rounding.
            solve.prove(w, b, found.dual_weights.indices, found.dual_weights.values)
            if solve.is_certified:
                return at
        other = self.newton.start(w, b)
        return other if other.objective < at.objective else at


def _proposal(at: Iterate) -> tuple[Array, float, Indices, Array]:
    """Return the hyperplane of an iterate, and the weights of its slacks."""
    indices = np.flatnonzero(at.alpha)
    return at.w, at.b, indices, at.alpha[indices]
