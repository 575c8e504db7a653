"""MaxMarginClassifier: the certified maximum-margin solver as a scikit-learn classifier."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.checks import checked_price, joint_hint
from prgd.core.errors import NotSeparableError
from prgd.core.threads import single_blas
from prgd.core.types import Array, Intercept, Mask
from prgd.estimators._choice import choose_C
from prgd.estimators._common import Fit, FitTask, LinearClassifier
from prgd.maxmargin import Round, max_margin, max_margin_batch, soft_margin
from prgd.norms import L2, as_norm
from prgd.problem.certificate import Certificate, quantity_of
from prgd.running.history import Status
from prgd.running.progress import progress_line
from prgd.running.result import Result

_FEW_ENTRIES = 2**20  # numbers in X up to which a fit aims at a smaller gap than asked for
_SMALL_GAP = 1e-10


@dataclass(kw_only=True, eq=False, repr=False)
class MaxMarginClassifier(LinearClassifier):
    r"""The linear classifier of largest margin, with a certified gap (`prgd.max_margin`).

    .. math:: \max_{\|w\| = 1, b} \min_i y_i (\langle w, x_i \rangle + b)

    It computes what ``SVC(kernel="linear", C=inf)`` stands for, with a proof. A finite C gives the soft
    margin with squared slacks (`prgd.soft_margin`), and so does the default where classes do not separate.
    Several classes are separated one against the rest, each with a certificate of its own, or jointly.

    Parameters
    ----------
    C : float
        Price of the squared slacks, see `prgd.soft_margin`; by default infinite, the hard margin. That of
        scikit-learn's ``LinearSVC`` is half as large.
    fallback : {"soft", "raise"}
        What to do with C = inf and classes that do not separate: take a soft margin and warn (Notes), or
        raise `prgd.NotSeparableError`.
    norm : {"l2", "l1", "linf", "spectral", "nuclear", "rows", "columns"}, number p (3 or "l3") or Norm
        The norm of the weights in which the margin is measured (`prgd.norms`): the largest l2 margin is the
        largest distance, that of l1 asks for few features. Norms of matrices need ``multi_class="joint"``.
    multi_class : {"ovr", "joint"}
        More than two classes: each against the rest, or all jointly, with the largest smallest
        ``<w_y - w_j, x> + b_y - b_j`` over rows and other classes j at ``||W|| = 1``. Two classes keep one
        row of weights either way, as scikit-learn's interface asks: W of two rows, and so norms of matrices,
        are for `prgd.max_margin` with ``multi_class="joint"`` then.
    fit_intercept : bool
        A true, unpenalised intercept, as SVC has; without it the hyperplane passes through the origin.
    tol : float
        Relative gap to certify. If X has at most a million numbers, a gap of 1e-10 is aimed at, so that the
        same rows in another order give the same hyperplane.
    max_passes : int
        Passes over the data after which the best certified interval of a hard margin is taken, with a
        warning.
    polish : bool
        Solve exactly on the identified support if descent is slow.
    class_weight : dict, "balanced" or None
        Multiplies ``sample_weight``. Both multiply C. Positive weights do not move a hard margin, which is a
        smallest one over the rows, whatever their weights. Rows of weight 0 do not count.
    warm_start : bool
        Start from the last solution, if it has as many classes and features.
    n_jobs : int, optional
        Default: PRGD_NUM_THREADS, else all cores.
    verbose : int
        1 shows a live line with both bounds while a fit takes long, on a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
    C_ : float
        The C of ``coef_``: infinite for hard margins, and that of the fallback if it was needed.
    coef_ : ndarray of shape (k, d)
        One row for two classes, else one for each. Scores of all classes are on one scale (Notes).
    intercept_ : ndarray of shape (k,)
    margin_ : ndarray of shape (k,), or (1,) if classes are separated jointly
        A lower bound on the largest margin: the smallest distance of a row from the hyperplane, of extended
        rows for a finite C. With C = inf this and the next two, and ``status_``, are about the hard margin,
        also where ``coef_`` is that of the fallback: see ``results_``.
    margin_upper_bound_ : ndarray of the shape of ``margin_``
        No hyperplane has a larger margin: ``||sum_i p_i y_i x_i||_*``, in the dual norm, with the weights of
        ``dual_coef_``.
    gap_ : ndarray of the shape of ``margin_``
        ``(margin_upper_bound_ - margin_) / margin_upper_bound_``; infinite if no separator was found.
    cosine_ : ndarray with a number for each of ``results_``
        A lower bound on the cosine between a row of ``coef_`` (all of it, if classes are separated jointly)
        and that of the exact solution for ``C_``: the largest margin, or the soft margin that is the
        fallback. -1 if nothing is proven, as in other norms than l2.
    dual_coef_ : csr_array of shape (k, n), or (1, n c) if classes are separated jointly
        Weights of the certificate: not negative, of sum 1 (1/2 on each side with an intercept). Where the
        classes do not separate they prove it. Jointly, column ``i c + j`` is row i against class j.
    support_ : ndarray of int
        The rows of positive weight in any certificate.
    results_ : tuple of `prgd.Result`
        The results behind the rows of ``coef_``, with their certificates; one if classes are separated
        jointly. They are those of the soft margins, if these are the fallback.
    n_iter_ : ndarray of the shape of ``margin_``
        Passes over the data, rounded up.
    status_ : tuple of `prgd.Status`, one for each of ``margin_``
    n_features_in_ : int
    feature_names_in_ : ndarray of str, only if X had column names.

    Notes
    -----
    If a class is not separable, ``fit`` warns `prgd.NotSeparableWarning`, which carries the proof, and
    **all** classes get a soft margin of the same C, so that their scores can be compared. C is that of
    smallest error on 5 held-out folds, of 19 values from 0.01 to 1e7 (divided by the mean squared distance
    of the rows from their mean, so that units do not matter, and by the mean weight if it is below 1),
    errors averaged with those of the neighbouring values. Folds depend on what rows hold alone: nothing is
    random, copies of a row share a fold, and weights count as copies would. Of more than 20,000 distinct
    rows a part chooses C.

    If each class of several separates from the rest, rows of ``coef_`` have length 1 and scores are distances
    in the units of X: that was more accurate in 4 of 7 trials, and less in one, than the scale of SVC
    (smallest margin 1), which two classes have, and all classes jointly.

    Scores are no probabilities: ``CalibratedClassifierCV(MaxMarginClassifier()).fit(X, y).predict_proba(X)``.

    The soft margins that are the fallback are always those of one class against the rest in l2.

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

    _switches = ("polish",)
    _counts = ("max_passes",)

    C: float = math.inf
    fallback: str = "soft"
    tol: float = 1e-6
    max_passes: int = 1000
    polish: bool = True
    norm: Any = "l2"
    multi_class: str = "ovr"

    def _is_joint(self) -> bool:
        if self.multi_class not in ("ovr", "joint"):
            hint = joint_hint(self.multi_class)
            raise ValueError(f"multi_class must be 'ovr' or 'joint'; got {self.multi_class!r}.{hint}")
        return self.multi_class == "joint"

    def _fit_all(self, task: FitTask) -> list[Fit]:
        if self.fallback not in ("soft", "raise"):
            raise ValueError(f"fallback must be 'soft' or 'raise'; got {self.fallback!r}.")
        self.C_ = checked_price(self.C)
        if math.isfinite(self.C_) and not self._has_soft(task.is_joint):
            raise ValueError(
                "A finite C is for norm='l2' and multi_class='ovr': soft margins are those of one class "
                f"against the rest in l2; got C={self.C_:g}, norm={self.norm!r} and "
                f"multi_class={self.multi_class!r}. Use C=inf."
            )
        n, d = task.X.shape
        with single_blas(float(n * d * min(n, d))):
            return self._hard_or_soft(task)

    def _hard_or_soft(self, task: FitTask) -> list[Fit]:
        """Separate each class from the rest; fit soft margins if C is finite, or one does not separate."""
        if math.isfinite(self.C_):
            fits = self._fit_each(task, self._fit_soft)
            self.results_ = tuple(result for result, _, _ in fits)
            return fits
        fits = self._hard_fits(task)
        self.results_ = tuple(result for result, _, _ in fits)
        if all(result.margin > 0.0 for result in self.results_):
            return fits if len(fits) == 1 else [self._unit_length(*fit) for fit in fits]
        if fits[-1][0].status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # no hyperplane was found yet, and a fallback would take long
        if self.fallback == "raise":
            raise self._error(task.given.classes[task.targets], task.is_joint)
        options = {"fit_intercept": self.fit_intercept, "n_jobs": self.n_jobs}
        if task.is_joint:  # soft margins are those of one class against the rest
            task = task._replace(targets=list(range(task.given.classes.size)))
        self.C_ = choose_C(task.X, task.codes, task.targets, task.weights, options)
        soft = self._fit_each(task._replace(starts=[None] * len(task.targets)), self._fit_soft)
        self.results_ = tuple(result for result, _, _ in soft)
        if task.is_joint:
            _, coefs, intercepts = zip(*soft, strict=True)
            return [(fits[0][0], np.vstack(coefs), np.array(intercepts))]
        return [(hard, coef, b) for (hard, _, _), (_, coef, b) in zip(fits, soft, strict=True)]

    def _hard_fits(self, task: FitTask) -> list[Fit]:
        """Separate each class from the rest: several of them together, unless they have a start."""
        if task.is_joint:
            starts = [w for w in self._starts(task.given.classes.size, task.X.shape[1]) if w is not None]
            w0 = np.vstack(starts) if starts else None
            result, coef, b = self._fit_one(task.X, task.codes, None, w0, "joint")
            return [(task.given.place(replace(result, classes=task.given.classes)), coef, b)]
        is_alone = len(task.targets) == 1 or as_norm(self.norm) != L2()
        if is_alone or not self.polish or task.starts[0] is not None:
            return self._fit_each(task, self._fit_one)
        batch = max_margin_batch(
            task.X,
            task.codes[:, None] == task.targets,
            fit_intercept=self.fit_intercept,
            tol=self._inner_tol(task.X),
            max_passes=index(self.max_passes),
            n_jobs=self.n_jobs,
            progress=type(self).__name__ if self.verbose else False,
        )
        results = [replace(result, classes=np.array([False, True])) for result in batch]
        return [(task.given.place(self._judged(result)), result.coef, result.intercept) for result in results]

    def _fit_one(
        self, X: Any, y: Any, weights: Array | None, start: Array | None, multi_class: str | None = None
    ) -> Fit:
        with self._progress() as tell:
            result = max_margin(
                X,
                y,
                norm=self.norm,
                multi_class=multi_class,
                fit_intercept=self.fit_intercept,
                tol=self._inner_tol(X),
                max_passes=index(self.max_passes),
                polish=self.polish,
                n_jobs=self.n_jobs,
                callback=tell,
                w0=start,
            )
        return self._judged(result), result.coef, result.intercept

    def _fit_soft(self, X: Any, y: Mask, weights: Array | None, start: Array | None) -> Fit:
        """Fit the soft margin of the rows in ``y`` against the others."""
        with self._progress(self.C_) as tell:
            result = soft_margin(
                X,
                y,
                C=self.C_,
                sample_weight=weights,
                fit_intercept=self.fit_intercept,
                tol=self._inner_tol(X),
                n_jobs=self.n_jobs,
                callback=tell,
                w0=start,
            )
        return self._judged(result), result.coef, result.intercept

    def _inner_tol(self, X: Any) -> float:
        """Return the gap to aim at: smaller than ``tol`` for few numbers, which costs little.

        The hyperplane moves with the square root of the gap, so that two fits of the same rows in another
        order agree to about 1e-3 at a gap of 1e-6.
        """
        is_small = X.shape[0] * X.shape[1] <= _FEW_ENTRIES
        return min(float(self.tol), _SMALL_GAP) if is_small else float(self.tol)

    def _judged(self, result: Result) -> Result:
        """Return the result, certified if its gap is that which was asked for."""
        is_late = result.status in (Status.STALLED, Status.MAX_PASSES)
        if is_late and result.margin > 0.0 and result.gap <= self.tol:
            return replace(result, status=Status.CERTIFIED)
        return result

    @contextmanager
    def _progress(self, C: float = math.inf) -> Iterator[Callable[[Round], None]]:
        """Yield a function that shows the bounds of a round in a live line, if ``verbose`` asks for it."""
        with progress_line(type(self).__name__ if self.verbose else False) as show:
            # Bounds between two proofs are plainly computed, and may cross by a rounding.
            yield lambda now: show(
                math.ceil(now.passes),
                Certificate(now.margin, max(now.margin, now.upper_bound), quantity=quantity_of(C)),
            )

    def _error(self, targets: npt.NDArray[Any], is_joint: bool) -> NotSeparableError:
        """Return the error that carries the proof for the first class that does not separate."""
        k, result = next((k, r) for k, r in enumerate(self.results_) if not r.margin > 0.0)
        which = "the two classes" if len(targets) == 1 else f"{targets.tolist()[k]!r} from the rest"
        which = "all classes jointly" if is_joint else which
        found = (
            "No hyperplane separates" if result.upper_bound <= 0.0 else "Found no hyperplane that separates"
        )
        advice = "Use fallback='soft', or choose a finite C."
        if not self._has_soft(is_joint):
            advice = "Use fallback='soft', which is one class against the rest in l2."
        return NotSeparableError(f"{found} {which}, and fallback='raise'. {advice}", weights=result.dual_coef)

    def _has_soft(self, is_joint: bool) -> bool:
        """Whether a finite C is for such problems."""
        return as_norm(self.norm) == L2() and not is_joint

    def _fallback(self, is_joint: bool) -> str:
        if self._has_soft(is_joint):
            soft = "A soft margin is the classifier instead; C_ is its C, and C=... saves the search for it."
        else:
            soft = (
                "A soft margin in l2, of each class against the rest, is the classifier instead; C_ is its C."
            )
        return f"{soft} status_, margin_ and gap_ are still about the hard margin; results_ has the soft one."

    def _keep(self, results: Sequence[Result]) -> None:
        self.n_iter_ = np.array([math.ceil(result.passes) for result in results])
        self.cosine_ = np.array([result.cosine for result in self.results_])  # those behind coef_

    def _unit_length(self, result: Result, coef: Array, intercept: Intercept) -> Fit:
        """Return the fit with coefficients of length 1, so that its scores are distances."""
        length = as_norm(self.norm)(coef)
        return result, coef / length, intercept / length
