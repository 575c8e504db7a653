"""`soft_margin`: the certified soft margin with the squared hinge, for one C."""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from prgd.core.checks import check_integer, check_positive, checked_price
from prgd.core.errors import ZeroRowWarning
from prgd.core.threads import threads_of
from prgd.core.types import Array
from prgd.maxmargin.solve import Solve, reporter
from prgd.maxmargin.solver import max_margin, solve_hard
from prgd.norms import norm
from prgd.problem import Problem
from prgd.problem.certificate import quantity_of
from prgd.proofs.slacks import extended_problem, soft_weights
from prgd.rows import DenseRows, as_rows
from prgd.running.history import Round, Status
from prgd.running.result import Result
from prgd.solvers.coordinate_descent import row_weights, suits
from prgd.solvers.joint_newton import JointNewton
from prgd.solvers.primal_newton import Iterate, PrimalNewton
from prgd.solvers.working_set import center_and_exponent

_FEW_COLUMNS = 256  # Newton's matrix over so few columns is cheaper than any working set
_DENSE_COLUMNS = 2000  # the same for dense rows, if they are more than twice as many
_MAX_ACTIVE_ROWS = 5000  # rows below margin 1 that a working set may have to hold
_HARD = 30.0  # above this, C ||x||^2 makes the problem nearly a hard margin, and Newton's steps many
_ROUGH = 0.1  # gap at each lower price
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
    multi_class: str | None = None,
    tol: float = 1e-6,
    max_passes: int = 100_000,
    max_seconds: float = math.inf,
    callback: Callable[[Round], None] | None = None,
    verbose: int = 0,
    n_jobs: int | None = None,
    w0: Any = None,
    intercept0: Any = 0.0,
) -> Result:
    r"""Return the soft-margin hyperplane with a certified relative gap of at most ``tol``.

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 + C \sum_i \xi_i^2, \quad
        y_i (\langle w, x_i \rangle + b) \ge 1 - \xi_i

    This is the hard margin of the rows extended by :math:`e_i / \sqrt{2 C}`, and the certificate is an
    interval for that margin, :math:`\gamma_C = 1 / \sqrt{\|w\|^2 + 2 C \sum_i \xi_i^2}` at the optimum,
    proven on the data as given: the objective lies between ``0.5 / upper_bound**2`` and ``0.5 /
    margin**2``. As C grows it nears that of `max_margin`, if the classes separate. Soft margins are those
    in l2: other norms have the hard one. Of K classes jointly, every pair of a row and another class has a
    slack: :math:`\langle w_{y_i} - w_j, x_i \rangle + b_{y_i} - b_j \ge 1 - \xi_{ij}`.

    Parameters
    ----------
    X : array, sparse matrix or Rows
        Dense, CSR, memory-mapped or chunked; float32 or float64.
    y : array of shape (n,), optional
        Labels of two classes, or of more with ``multi_class="joint"``; ``None`` if X holds an engine or rows
        z_i.
    C : float
        Price of the squared slacks, which has no default: which C is good depends on the units of X.
        `prgd.MaxMarginClassifier` finds one where classes do not separate; ``math.inf`` is `max_margin`.
        It is that of scikit-learn's ``LinearSVC``, whose intercept is penalised, unlike the one here. A price
        in ``C / 2 sum xi_i^2``, as other texts write it, is twice this C.
    sample_weight : array of shape (n,), optional
        Weights of the rows, by which C is multiplied: weight 3 is the same as three copies.
    fit_intercept : bool
        Fit a true, unpenalised intercept.
    multi_class : {None, "joint"}
        ``"joint"``: all classes jointly, by a matrix W with a row for each class (Weston and Watkins).
    tol : float
        Relative gap ``(upper_bound - margin) / upper_bound`` to certify. The gap between the objective and
        its lower bound is twice as large, relatively.
    max_passes : int
        Passes over the data after which the best certified interval is returned.
    max_seconds : float
        Seconds after which the best certified interval is returned.
    callback : callable, optional
        Called with each `Round` of the history, whose bounds are proven in the last one; those of the rounds
        before steer the solve, and prove nothing.
    verbose : int
        1 prints each round.
    n_jobs : int, optional
        Threads of the passes over the rows. Default: PRGD_NUM_THREADS, else all cores.
    w0, intercept0 : array of the shape of ``coef``, and float or array of shape (K,), optional
        A warm start, e.g. ``coef`` and ``intercept`` of the result for a smaller C.

    Returns
    -------
    Result
        ``coef`` and ``intercept`` are w and b themselves, not rescaled.

    References
    ----------
    Keerthi and DeCoste (2005), A modified finite Newton method for fast solution of large scale linear SVMs.
    Weston and Watkins (1999), Support vector machines for multi-class pattern recognition.

    Examples
    --------
    >>> import prgd
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]  # no threshold separates these
    >>> result = prgd.soft_margin(X, y, C=0.5)
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
        options: Any = {"fit_intercept": fit_intercept, "tol": tol, "max_passes": max_passes}
        options |= {"multi_class": multi_class}
        return max_margin(rows, **options, max_seconds=max_seconds, callback=report, w0=w0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZeroRowWarning)  # a row of zeros has a slack like others
        problem = Problem(rows, fit_intercept=fit_intercept, multi_class=multi_class, scale="none")
    if multi_class is None:
        problem.labels.check_two()
    if w0 is not None:
        w0 = np.array(w0, dtype=np.float64)
        if w0.shape != problem.shape or not np.isfinite(w0).all():
            raise ValueError(f"w0 must be finite, of shape {problem.shape}; got shape {w0.shape}.")
    b0, shape = np.array(intercept0, dtype=np.float64), problem.shape[:-1]
    if b0.shape not in ((), shape) or not np.isfinite(b0).all() or (b0.any() and not fit_intercept):
        raise ValueError(
            f"intercept0 must be {f'finite, of shape {shape}' if shape else 'a finite number'}, and 0 with "
            f"fit_intercept=False, where the hyperplane passes through the origin; got {intercept0!r}."
        )
    solve = Solve(problem, tol, max_passes, report, C, max_seconds)
    method = SoftMargin(solve, threads_of(n_jobs))
    return solve.run(lambda: method.find(w0, b0 if problem.is_joint else float(b0)))


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
                f"2 C times the squared norm of the largest row is {self.price:.3g}: squares leave the "
                f"floating range. Choose a {other} C (it is {solve.C:.3g}), or {other} sample weights."
            )
        near, center = self.problem, None
        if near.is_joint:
            self.newton: PrimalNewton = JointNewton(near, c)
        else:
            if (X := near.rows.plain_array) is not None:
                center = center_and_exponent(near, near.rows.take)[0]
                if center is not None:  # far from the origin products lose digits that margins need
                    rows = DenseRows(X - center).with_labels(near.labels)
                    near = Problem(rows, fit_intercept=True, scale="none")
            self.newton = PrimalNewton(near, c, center)

    def find(self, w0: Array | None, intercept0: Any) -> Status:
        """Find weights of sparse rows, or of extended rows if Newton's steps are many; else take these."""
        solve, aim, newton, problem = self.solve, 0.5 * self.solve.tol, self.newton, self.problem
        intercept0 = intercept0 if w0 is None else intercept0 + w0 @ newton.center
        solve.pending = lambda: newton.proposal(newton.start(w0, intercept0))
        if w0 is None and not problem.is_joint and problem.rows.is_sparse and suits(problem, is_soft=True):
            found = row_weights(problem, solve.tol, solve.max_passes, solve.C)
            if found is not None:
                solve.count(found.passes)
                w0, intercept0 = found.w, found.b
                solve.prove(w0, intercept0, found.weights)
                if solve.is_certified:
                    return Status.CERTIFIED
        at = newton.start(w0, intercept0)
        if self.price > _HARD and math.prod(problem.shape) > _FEW_COLUMNS:  # steps are many, and expensive
            is_new, is_dense = not at.w.any(), not problem.rows.is_sparse and problem.d <= _DENSE_COLUMNS
            # Few active rows change from one price to the next.
            if is_new and (problem.is_joint or (is_dense and problem.n > 2 * problem.d)):
                raises = math.ceil(math.log10(self.price / _HARD))
                factors = [10.0**-raises, *[10.0] * raises]
                at = newton.follow(at, factors, _ROUGH, solve.max_passes)[-1]
            elif not problem.is_joint and (is_new or np.count_nonzero(at.alpha) <= _MAX_ACTIVE_ROWS):
                at = self._solve_extended(at, aim)
                if solve.is_certified:
                    return Status.CERTIFIED
        return self._prove_steps(at, aim)

    def _prove_steps(self, at: Iterate, aim: float) -> Status:
        """Take Newton's steps until the bounds that they give are proven to be close."""
        solve, problem = self.solve, self.problem
        for _ in range(_MAX_PROOFS):
            before = at
            at = self._newton(at, aim, _MAX_STEPS)
            solve.prove(*self.newton.proposal(at))
            if solve.is_certified:
                return Status.CERTIFIED
            if solve.passes >= solve.max_passes:
                return Status.MAX_PASSES
            if at is before and at.gap > aim:
                break
            # Margins that are updated from step to step keep the rounding of the largest ones.
            at, aim = self.newton.again(at), 0.25 * aim
        # At so large a price rounding hides the slacks from Newton.
        if problem.n <= _MAX_ACTIVE_ROWS and not problem.is_joint:
            self._solve_extended(at, 0.5 * solve.tol, proves=True)
        return Status.CERTIFIED if solve.is_certified else Status.STALLED

    def _newton(self, at: Iterate, aim: float, max_steps: int) -> Iterate:
        def record(now: Iterate) -> bool:
            self.solve.count(self.newton.systems.reads)
            self.newton.systems.reads, plain = 0.0, (now.lower, now.upper, now.gap)
            self.solve.record(int(np.count_nonzero(now.alpha)), plain, partial(self.newton.proposal, now))
            return self.solve.passes >= self.solve.max_passes

        return self.newton.minimise(at, aim, max_steps, record)

    def _solve_extended(self, at: Iterate, aim: float, proves: bool = False) -> Iterate:
        """Solve the extended rows as a hard margin, exactly if it ``proves``; return the better iterate."""
        solve, c = self.solve, self.newton.c
        problem = self.problem if proves else self.newton.problem
        center = 0.0 * self.newton.center if proves else self.newton.center
        max_passes = max(min(int(solve.max_passes - solve.passes), 1000), 1)
        inner = Solve(extended_problem(problem, solve.C), aim, max_passes)
        start = np.concatenate([at.w, np.sqrt(c) * np.maximum(1.0 - at.margins, 0.0)]) if at.w.any() else None
        solve_hard(inner, self.threads, True, start, proves=proves)
        solve.count(1.0 + inner.passes)
        found = inner.certificate
        if found.w is None or not found.lower > 0.0:
            return at
        scale = 1.0 / (found.lower * norm(found.w))
        w, b = found.w[: problem.d] * scale, float(found.intercept) * scale
        if found.dual_weights is not None:
            # The weights of the set are more exact than C times the slacks, which amplifies their rounding.
            solve.prove(w, b - float(w @ center), found.dual_weights, found.exact_w)
            if solve.is_certified:
                return at
        other = self.newton.start(w, b)
        return other if other.objective < at.objective else at
