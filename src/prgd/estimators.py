"""scikit-learn shells: they check and split the data, and call `prgd.max_margin` or `prgd.run`."""

from __future__ import annotations

import math
import warnings
from operator import index
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, vstack
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from prgd._types import Array
from prgd.algorithms import GD, PRGD
from prgd.certificate import Certificate
from prgd.checks import check_integer
from prgd.errors import NotSeparableWarning
from prgd.loop import run
from prgd.maxmargin import max_margin
from prgd.norms import norm, rescale
from prgd.problem import Problem
from prgd.result import Result, Status
from prgd.schedules import Radius, Times, as_radius, as_times
from prgd.stopping import Gap, any_of

_FLOATS = (np.float64, np.float32)


class _Found(NamedTuple):
    """One class against the rest: its hyperplane and the certificate."""

    coef: Array
    intercept: float
    margin: float
    upper_bound: float
    dual_coef: csr_array[Any]
    n_iter: int
    status: Status
    R_0: float = math.nan


class _LinearClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One hyperplane for two classes, one for each class against the rest for more."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> _LinearClassifier:
        """Fit the classifier.

        Parameters
        ----------
        X : {array, sparse matrix, data frame} of shape (n, d)
            float32 and float64 are used as they lie; other numbers are converted once.
        y : array of shape (n,)
            Labels of two or more classes.
        sample_weight : array of shape (n,), optional
            Not negative; a weight of 0 takes the row away.

        Returns
        -------
        self
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=_FLOATS)
        check_classification_targets(y)
        n = X.shape[0]
        X, y, weights, kept = self._drop_weightless(X, y, sample_weight)
        classes, codes = np.unique(y, return_inverse=True)
        if classes.size < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes; got one class, "
                f"{classes.tolist()[0]!r} (rows of weight 0 do not count)."
            )
        targets = [1] if classes.size == 2 else list(range(classes.size))
        starts = self._starts(len(targets), X.shape[1])
        found: list[_Found] = []
        for target, start in zip(targets, starts, strict=True):
            if found and found[-1].status is Status.INTERRUPTED:
                raise KeyboardInterrupt  # classes are left for which there is nothing
            found.append(self._fit_one(X, codes == target, weights, start))
        self.classes_ = classes
        self.coef_ = np.vstack([f.coef for f in found])
        self.intercept_ = np.array([f.intercept for f in found])
        self.margin_ = np.array([f.margin for f in found])
        self.margin_upper_bound_ = np.array([f.upper_bound for f in found])
        gaps = [Certificate(f.margin, f.upper_bound).gap for f in found]
        self.gap_ = np.where(self.margin_ > 0.0, gaps, math.inf)
        dual = csr_array(vstack([f.dual_coef for f in found]))
        self.dual_coef_ = csr_array((dual.data, kept[dual.indices], dual.indptr), shape=(len(found), n))
        self.support_ = np.unique(self.dual_coef_.indices).astype(np.int64)
        self.n_iter_ = np.array([f.n_iter for f in found])
        self.status_ = tuple(f.status for f in found)
        self._keep(found)
        self._warn(classes[targets])
        return self

    def decision_function(self, X: Any) -> Array:
        """Return ``<coef_, x> + intercept_`` for every row; positive for ``classes_[1]`` of two classes.

        Parameters
        ----------
        X : {array, sparse matrix, data frame} of shape (n, d)

        Returns
        -------
        ndarray of shape (n,), or (n, classes) for more than two.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=_FLOATS, reset=False)
        scores: Array = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class of every row.

        Parameters
        ----------
        X : {array, sparse matrix, data frame} of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        scores = self.decision_function(X)
        found: npt.NDArray[Any] = self.classes_[
            (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        ]
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _drop_weightless(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Array | None, Any]:
        """Return the rows of positive weight, the product of both kinds of weights, and their places."""
        kept = np.arange(X.shape[0])
        if sample_weight is None and self.class_weight is None:
            return X, y, None, kept
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weights)
        if kept.size:
            # "balanced" counts the rows that are there
            weights[kept] *= compute_sample_weight(self.class_weight, y[kept])
            kept = np.flatnonzero(weights)
        if not kept.size:
            raise ValueError("The weights are zero everywhere: no row and no class is left.")
        if kept.size < X.shape[0]:
            X, y, weights = X[kept], y[kept], weights[kept]
        return X, y, weights, kept

    def _starts(self, count: int, d: int) -> list[Array | None]:
        """Return where each problem starts: at the last solution with ``warm_start``, if it has one."""
        last = getattr(self, "coef_", None) if self.warm_start else None
        return [None] * count if last is None or last.shape != (count, d) else list(last)

    def _fit_one(self, X: Any, y: Any, weights: Array | None, start: Array | None) -> _Found:
        """Separate the rows where ``y`` holds from the others."""
        raise NotImplementedError  # pragma: no cover - both estimators have their own

    def _keep(self, found: list[_Found]) -> None:
        """Set what only one of the estimators has."""

    def _warn(self, targets: npt.NDArray[Any]) -> None:
        """Say what was not separated, and what was not certified, in one warning each."""
        errs = np.flatnonzero(self.margin_ <= 0.0)
        if errs.size:
            proven = np.array([self.status_[i] is Status.NOT_SEPARABLE for i in errs])
            named = _listed(self.classes_, targets[errs])
            verdict = f"No hyperplane separates {named}."
            if not proven.all():
                largest = self.margin_upper_bound_[errs].max()
                verdict = f"Found none that separates {named}; its margin would be at most {largest:.3g}."
            warnings.warn(
                NotSeparableWarning(
                    f"{verdict} {self._fallback} prgd.separability explains; the weights of this warning are "
                    "the certificate.",
                    classes=targets[errs].tolist(),
                    weights=self.dual_coef_[errs],
                    upper_bound=self.margin_upper_bound_[errs],
                    is_proven=proven,
                ),
                stacklevel=3,
            )
        late = np.flatnonzero((self.margin_ > 0.0) & (self.gap_ > self.tol))
        if late.size:
            i = late[np.argmax(self.gap_[late])]
            warnings.warn(
                f"{self.status_[i]} For {_listed(self.classes_, targets[late])} the largest margin lies "
                f"between {self.margin_[i]:.9g} and {self.margin_upper_bound_[i]:.9g} "
                f"(relative gap {self.gap_[i]:.1e}, tol={self.tol:g}).",
                ConvergenceWarning,
                stacklevel=3,
            )


def _listed(classes: npt.NDArray[Any], some: npt.NDArray[Any]) -> str:
    """Name the problems: the two classes, or some of several against the rest."""
    if classes.size == 2:
        return " from ".join(repr(c) for c in classes.tolist())
    names = [repr(c) for c in some.tolist()]
    shown = ", ".join(names[:5]) + (f", ... ({len(names)} classes)" if len(names) > 5 else "")
    return f"{shown} from the rest"


class MaxMarginClassifier(_LinearClassifier):
    r"""The linear classifier of largest margin, with a certified gap (`prgd.max_margin`).

    .. math:: \max_{\|w\| = 1, b} \min_i y_i (\langle w, x_i \rangle + b)

    What ``SVC(kernel="linear", C=inf)`` stands for, with a proof. Several classes are separated one
    against the rest, each with a certificate of its own.

    Parameters
    ----------
    fit_intercept : bool
        A true, unpenalised intercept, as SVC has; without it the hyperplane passes through the origin.
    tol : float
        Relative gap to certify.
    max_passes : int
        Readings of the data after which the best certified interval is taken, with a warning.
    polish : bool
        Solve exactly on the identified support where descent is slow.
    class_weight : dict, "balanced" or None
        Multiplies ``sample_weight``. Positive weights do not move the solution: the margin is a smallest
        one, over rows however heavy. Weight 0 takes rows away. Weights count where the classes are
        not separable, see Notes.
    warm_start : bool
        Start from the last solution, if it has as many classes and features.
    n_threads : int, optional
        Default: PRGD_NUM_THREADS, else all cores.
    verbose : int
        1 prints both bounds after each certifying pass.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
    coef_ : ndarray of shape (k, d)
        One row for two classes, else one for each; scaled so that the smallest margin is 1, as SVC does.
    intercept_ : ndarray of shape (k,)
    margin_ : ndarray of shape (k,)
        The smallest distance of a row from the hyperplane: a lower bound on the largest possible. Not
        positive where no separator was found; then ``coef_`` is that of the fallback (Notes).
    margin_upper_bound_ : ndarray of shape (k,)
        No hyperplane has a larger margin: ``||sum_i p_i y_i x_i||`` with the weights of ``dual_coef_``.
    gap_ : ndarray of shape (k,)
        ``(margin_upper_bound_ - margin_) / margin_upper_bound_``; infinite where no separator was found.
    dual_coef_ : csr_array of shape (k, n)
        Weights of the certificate: not negative, of sum 1 (1/2 on each side with an intercept).
    support_ : ndarray of int
        The rows of positive weight in any certificate.
    n_iter_ : ndarray of shape (k,)
        Readings of the data, rounded up.
    status_ : tuple of k `prgd.Status`
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X had column names.

    Notes
    -----
    Where a class is not separable, no margin can be maximised. ``fit`` then warns
    `prgd.NotSeparableWarning`, which carries the proof, and takes for that class scikit-learn's
    ``LogisticRegression(C=10)`` on columns divided by their largest entry: like the margin it has an
    unpenalised intercept, and unlike a soft-margin fit through LIBLINEAR it is deterministic, converges
    on such data, obeys the weights and does not depend on the units of the columns. To choose the
    regularisation yourself, use such a model directly.

    Ctrl-C keeps the best certified interval so far (unless classes are left that were not begun).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = MaxMarginClassifier(tol=1e-9).fit(X, y == 0)
    >>> classifier.margin_.round(6), bool(classifier.gap_[0] <= 1e-9)
    (array([0.817556]), True)
    >>> classifier.status_[0].name, len(classifier.support_)
    ('CERTIFIED', 3)
    """

    _fallback = "The classifier there is a logistic regression instead."

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_passes: int = 1000,
        polish: bool = True,
        class_weight: Any = None,
        warm_start: bool = False,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_passes = max_passes
        self.polish = polish
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_threads = n_threads
        self.verbose = verbose

    def _fit_one(self, X: Any, y: Any, weights: Array | None, start: Array | None) -> _Found:
        result = max_margin(
            X,
            y,
            fit_intercept=self.fit_intercept,
            tol=float(self.tol),
            max_passes=index(self.max_passes),
            polish=self.polish,
            n_threads=self.n_threads,
            verbose=self.verbose,
            w0=start,
        )
        coef, intercept = result.coef, result.intercept
        if result.margin <= 0.0:
            coef, intercept = _logistic_regression(X, y, weights, self.fit_intercept)
        return _Found(
            coef=coef,
            intercept=intercept,
            margin=result.margin,
            upper_bound=result.upper_bound,
            dual_coef=result.dual_coef,
            n_iter=math.ceil(result.passes),
            status=result.status,
        )


def _logistic_regression(X: Any, y: Any, weights: Array | None, fit_intercept: bool) -> tuple[Array, float]:
    """Return the hyperplane of the fallback, in the units of X."""
    scaler = MaxAbsScaler()
    model = LogisticRegression(C=10.0, fit_intercept=fit_intercept, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the caller warns of more than that
        model.fit(scaler.fit_transform(X), y, weights)
    coef = np.asarray(model.coef_[0] / scaler.scale_, dtype=np.float64)
    return coef, float(model.intercept_[0]) if fit_intercept else 0.0


class PRGDClassifier(_LinearClassifier):
    r"""The paper's algorithm as a classifier: a warm-up by gradient descent, then PRGD (Algorithm 1).

    For experiments with the algorithm's own parameters; `MaxMarginClassifier` certifies small gaps
    sooner and on more data. Several classes are separated one against the rest.

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
    n_threads : int, optional
        Default: PRGD_NUM_THREADS, else all cores.
    verbose : int
        1 shows a live line with both bounds, on a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
    coef_ : ndarray of shape (k, d)
        The iterate of largest margin, scaled so that its smallest margin is 1; where no iterate separated
        the rows, the one of smallest loss (Notes).
    intercept_ : ndarray of shape (k,)
    margin_, margin_upper_bound_, gap_ : ndarray of shape (k,)
        The best bounds of all steps on the largest possible margin, and their relative gap (infinite
        where no iterate separated the rows).
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
    feature_names_in_ : ndarray of str, where X had column names.

    Notes
    -----
    Rescaling makes sense where a separator exists: otherwise the minimiser of the loss is finite, and a
    growing norm leads away from it. Where no iterate separates the rows, ``fit`` warns
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

    _fallback = "The classifier there is the iterate of smallest loss instead."

    def __init__(
        self,
        *,
        radius: str | Radius = "geometric:1.2",
        phases: str | Times = "every:5",
        eta: float = 1.0,
        warmup_steps: int = 1000,
        max_iter: int = 1000,
        tol: float = 1e-3,
        loss: str = "exponential",
        fit_intercept: bool = True,
        class_weight: Any = None,
        warm_start: bool = False,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.radius = radius
        self.phases = phases
        self.eta = eta
        self.warmup_steps = warmup_steps
        self.max_iter = max_iter
        self.tol = tol
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_threads = n_threads
        self.verbose = verbose

    def _starts(self, count: int, d: int) -> list[Array | None]:
        directions = super()._starts(count, d)
        return [
            None if w is None or not w.any() or not self.R_0_[i] > 0.0 else rescale(w, self.R_0_[i])
            for i, w in enumerate(directions)
        ]

    def _keep(self, found: list[_Found]) -> None:
        self.R_0_ = np.array([f.R_0 for f in found])

    def _fit_one(self, X: Any, y: Any, weights: Array | None, start: Array | None) -> _Found:
        method = PRGD(
            R=as_radius(self.radius),
            T=as_times(self.phases),
            eta=float(self.eta),
        )
        steps, most = index(self.warmup_steps), index(self.max_iter)
        check_integer("warmup_steps", steps, minimum=1)
        problem = Problem(
            X,
            y,
            loss=self.loss,
            sample_weight=weights,
            fit_intercept=self.fit_intercept,
            n_threads=self.n_threads,
        )
        runs = []
        if start is None:
            runs.append(self._run(problem, GD(eta=method.eta), None, any_of(steps)))
            if runs[0].status is Status.DIVERGED:
                raise ValueError(
                    f"The warm-up {runs[0].algorithm} left the floating range after step {runs[0].t}. "
                    "Use a smaller eta."
                )
            start = runs[0].w
        R_0 = norm(start)
        # at R_0 = 0 the first gradient vanished: a proof that there is no separator
        if R_0 > 0.0 and not (runs and runs[0].status is Status.INTERRUPTED):
            runs.append(self._run(problem, method, start, any_of(Gap(float(self.tol)), most)))
        return _best(problem, runs, R_0)

    def _run(self, problem: Problem, method: Any, w0: Array | None, stop: Any) -> Result:
        with np.errstate(over="ignore", invalid="ignore"):  # a status says so
            return run(problem, method, w0, stop=stop, record=2**62, progress=bool(self.verbose))


def _best(problem: Problem, runs: list[Result], R_0: float) -> _Found:
    """Return the iterate of largest margin, or else of smallest loss, with the best bounds."""
    lower = max((r.certificate for r in runs), key=lambda c: c.lower)
    upper = min((r.certificate for r in runs), key=lambda c: c.upper)
    if lower.lower > 0.0:
        w = cast(Array, lower.w_lower)
        intercept, scale = problem.intercept(w), lower.lower * norm(w)
    else:
        w = min((r.w for r in runs), key=problem.log_loss)
        intercept, scale = 0.0, 1.0
        if problem.fit_intercept:
            plus, minus = problem.tallies(w)
            intercept = 0.5 * (plus.log_sum - minus.log_sum)
    return _Found(
        coef=w / scale,
        intercept=intercept / scale,
        margin=lower.lower,
        upper_bound=upper.upper,
        dual_coef=csr_array(problem.weights(cast(Array, upper.w_upper))[None, :]),
        n_iter=sum(r.t for r in runs),
        status=runs[-1].status,
        R_0=R_0,
    )
