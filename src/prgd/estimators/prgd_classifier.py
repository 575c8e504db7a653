"""PRGDClassifier: Algorithm 1 after a warm-up, as a scikit-learn classifier."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import index
from typing import Any, cast

import numpy as np

from prgd.algorithms import GD, PRGD, SteepestDescent
from prgd.core.checks import check_integer
from prgd.core.types import Array
from prgd.estimators.fitting import problems_of
from prgd.estimators.linear import Given, LinearClassifier
from prgd.norms import L2, as_norm
from prgd.problem import Problem
from prgd.problem.accurate_bounds import weights_at
from prgd.problem.certificate import Certificate
from prgd.rows import Rows
from prgd.running.history import Gap, Status, Stop, any_of
from prgd.running.loop import run
from prgd.running.result import Result
from prgd.schedules import Radius, Times, as_radius, as_times


@dataclass(kw_only=True, eq=False, repr=False)
class PRGDClassifier(LinearClassifier):
    r"""The paper's algorithm as a classifier: a warm-up by gradient descent, then PRGD (Algorithm 1).

    It is meant for experiments with the algorithm's own parameters; `MaxMarginClassifier` certifies small
    gaps sooner and on more data. Several classes are separated one against the rest; `prgd.run`
    on a `prgd.Problem` of more than two classes separates them jointly.

    Parameters
    ----------
    radius : str or Radius
        The radii R_k: a schedule of `prgd.schedules`, or its text such as ``"geometric:1.2"``,
        ``"polynomial:0.6"``, ``"constant"`` or ``"explicit:1,10,100"``.
    phases : str or Times
        The steps T_k at which w is rescaled: a schedule, or its text such as ``"every:5"``,
        ``"polynomial:5,0.6"`` or ``"explicit:0,10,100"``.
    eta : float
        Step size, also of the warm-up, in units of ``1 / max ||x_i||^2``: the paper's on rows of norm at
        most 1.
    norm : {"l2", "l1", "linf"}, number p (3 or "l3") or Norm
        The norm of the margin, of the steps and of the radii (`prgd.norms`); the paper's is l2. In another
        one the warm-up is steepest descent in that norm, and the unit of ``eta`` has its dual norm.
    warmup_steps : int
        Steps of gradient descent from w = 0; the norm they reach is R_0.
    max_iter : int
        Limit on the steps of PRGD.
    tol : float
        Stop when the certified relative gap is at most this.
    loss : {"exponential", "logistic"}
        The logistic loss needs ``fit_intercept=False``: its intercept has no closed form.
    fit_intercept : bool
        An unpenalised intercept; the paper has none.
    class_weight : dict, "balanced" or None
        Multiplies ``sample_weight``. Both weigh the loss: weight 3 on a row is the same as three copies.
        They move the path, and not the direction of largest margin to which it leads.
    warm_start : bool
        Start from the direction of the last solution at its norm R_0, instead of a warm-up, if it has as
        many classes and features.
    n_jobs : int, optional
        Default: PRGD_NUM_THREADS, else all cores.
    verbose : int
        1 shows a live line with both bounds, on a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
    coef_ : ndarray of shape (k, d)
        The iterate of largest margin, scaled so that its smallest margin is 1; if no iterate separated
        the rows, the one of smallest loss (Notes).
    intercept_ : ndarray of shape (k,)
    margin_, margin_upper_bound_, gap_ : ndarray of shape (k,)
        The best bounds of all steps on the largest possible margin, and their relative gap (infinite
        if no iterate separated the rows).
    cosine_ : ndarray of shape (k,)
        A lower bound on the cosine between a row of ``coef_`` and the direction of largest margin; -1 if no
        iterate separated the rows, and in other norms than l2.
    dual_coef_ : csr_array of shape (k, n)
        The weights that prove the upper bound.
    support_ : ndarray of int
        The rows of positive weight.
    n_iter_ : ndarray of shape (k,)
        Steps, those of the warm-up included.
    R_0_ : ndarray of shape (k,)
        The norm after the warm-up.
    status_ : tuple of k `prgd.Status`
    n_features_in_ : int
    feature_names_in_ : ndarray of str, only if X had column names.

    Notes
    -----
    Rescaling makes sense if a separator exists: otherwise the minimiser of the loss is finite, and a
    growing norm leads away from it. If no iterate separates the rows, ``fit`` warns
    `prgd.NotSeparableWarning`, and keeps of both runs the last iterate of smaller loss, with the loss's own
    intercept.

    References
    ----------
    Wang, Min and Wu (2024), Algorithm 1.

    Examples
    --------
    >>> import prgd
    >>> X, y = prgd.datasets.synthetic_one(0)
    >>> classifier = PRGDClassifier(fit_intercept=False, tol=1e-6).fit(X, y)
    >>> classifier.status_[0].name, classifier.score(X, y)
    ('CERTIFIED', 1.0)
    """

    radius: str | Radius = "geometric:1.2"
    phases: str | Times = "every:5"
    eta: float = 1.0
    norm: Any = "l2"
    warmup_steps: int = 1000
    max_iter: int = 1000
    _fallback = "the iterate of smallest loss"

    tol: float = 1e-3
    loss: str = "exponential"

    def _starts(self, count: int, d: int) -> list[Array]:
        norm, directions = as_norm(self.norm), super()._starts(count, d)
        if not all(w.any() and self.R_0_[i] > 0.0 for i, w in enumerate(directions)):
            return []
        return [norm.rescale(w, self.R_0_[i]) for i, w in enumerate(directions)]

    def _solve(self, given: Given) -> tuple[Sequence[Result], Array, Array]:
        every = problems_of(given.rows, given.weights)
        starts = self._starts(len(every), given.rows.d)
        fits: list[tuple[Result, Array, float]] = []
        for k, rows in enumerate(every):
            if fits and fits[-1][0].status is Status.INTERRUPTED:
                raise KeyboardInterrupt  # Some classes have not been begun, and nothing stands for them.
            fits.append(self._fit_one(rows, starts[k] if starts else None))
        results = [given.place(result) for result, _, _ in fits]
        self.n_iter_ = np.array([result.t for result in results])
        self.cosine_ = np.array([result.cosine if result.margin > 0.0 else -1.0 for result in results])
        # If PRGD did not run, the result is that of the warm-up, whose last norm is R_0.
        norm = as_norm(self.norm)
        self.R_0_ = np.array([result.state.get("R_0", norm(result.w)) for result in results])
        return results, np.vstack([coef for _, coef, _ in fits]), np.array([b for _, _, b in fits])

    def _fit_one(self, rows: Rows, start: Array | None) -> tuple[Result, Array, float]:
        """Return the certified result of two classes, and the coefficients and intercept that classify."""
        method = PRGD(R=as_radius(self.radius), T=as_times(self.phases), eta=float(self.eta))
        steps, max_iter = index(self.warmup_steps), index(self.max_iter)
        check_integer("warmup_steps", steps, minimum=1)
        check_integer("max_iter", max_iter, minimum=0)
        problem = Problem(rows, loss=self.loss, norm=self.norm, fit_intercept=self.fit_intercept)
        runs = []
        if start is None:
            first = GD(eta=method.eta) if problem.norm == L2() else SteepestDescent(eta=method.eta)
            warm = self._run(problem, first, None, any_of(steps))
            if warm.status is Status.DIVERGED:
                raise ValueError(
                    f"The warm-up {warm.algorithm} overflowed after step {warm.t}. Use a smaller eta."
                )
            runs, start = [warm], warm.w
        # R_0 = 0 means that the first gradient vanished, which proves that there is no separator.
        if start.any() and not (runs and runs[0].status is Status.INTERRUPTED):
            runs.append(self._run(problem, method, start, any_of(Gap(float(self.tol)), max_iter)))
        return _best(problem, runs)

    def _run(self, problem: Problem, method: Any, w0: Array | None, stop: Stop) -> Result:
        with np.errstate(over="ignore", invalid="ignore"):  # Status.DIVERGED tells of an overflow.
            return run(problem, method, w0, stop=stop, record=None, progress=bool(self.verbose))


def _best(problem: Problem, runs: list[Result]) -> tuple[Result, Array, float]:
    """Return the last run with the best bounds of all, and the iterate of largest margin or smallest loss."""
    certificate = reduce(Certificate.best, (result.certificate for result in runs))
    if certificate.dual_weights is None:
        weights = weights_at(problem, cast(Array, certificate.w_upper))
        certificate = replace(certificate, dual_weights=weights)
    result = replace(runs[-1], t=sum(result.t for result in runs), certificate=certificate)
    if result.margin > 0.0:
        return result, result.coef, result.intercept
    # The last row of a history is that of the last iterate, which is all that these runs record.
    last = problem.at(min(runs, key=lambda result: float(result.history["log_loss"][-1])).w)
    if not problem.fit_intercept:
        return result, last.w, 0.0
    plus, minus = last.tally.log_sums
    return result, last.w, 0.5 * (plus - minus)
