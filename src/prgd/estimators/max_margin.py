"""MaxMarginClassifier: the certified maximum-margin solver as a scikit-learn classifier."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from prgd.core.errors import NotSeparableError
from prgd.core.types import Array
from prgd.estimators.fitting import Fitting
from prgd.estimators.linear import Given, LinearClassifier
from prgd.running.history import Status
from prgd.running.result import Result


@dataclass(kw_only=True, eq=False, repr=False)
class MaxMarginClassifier(LinearClassifier):
    r"""The linear classifier of largest margin, with a certified gap (`prgd.max_margin`).

    .. math:: \max_{\|w\| = 1, b} \min_i y_i (\langle w, x_i \rangle + b)

    It computes what ``SVC(kernel="linear", C=inf)`` stands for, with a proof. A finite C gives the soft
    margin with squared slacks (`prgd.soft_margin`), and so does the default where classes do not separate.
    Several classes are separated one against the rest, each with a certificate of its own, or jointly.

    Parameters
    ----------
    C : float or "cv"
        Price of the squared slacks, see `prgd.soft_margin`; by default infinite, the hard margin. It means
        what it means in scikit-learn's ``LinearSVC``. ``"cv"`` chooses one by its error on held-out folds.
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
        Relative gap to certify. The hyperplane moves with the root of the gap: the same rows in another
        order give the same one to about 1e-3 at 1e-6, to 1e-5 at 1e-10.
    max_passes : int
        Passes over the data after which the best certified interval of a hard margin is taken, with a
        warning.
    polish : bool
        Solve exactly on the identified support if descent is slow: False is for a study of descent alone,
        which may stall above a gap of 1e-4.
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
    smallest error on 5 held-out folds, of 19 values from 0.005 to 5e6 (divided by the mean squared distance
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
    _fallback = "a soft margin in l2 (C_, results_)"

    C: float | str = math.inf
    fallback: str = "soft"
    tol: float = 1e-6
    max_passes: int = 1000
    polish: bool = True
    norm: Any = "l2"
    multi_class: str = "ovr"

    def _solve(self, given: Given) -> tuple[Sequence[Result], Array, Array]:
        rows, K = given.rows, self.classes_.size
        title = type(self).__name__ if self.verbose else ""
        fitting = Fitting.of(self, tol=float(self.tol), max_passes=index(self.max_passes), title=title)
        starts = self._starts(1 if K == 2 else K, rows.d)
        if starts and K > 2 and self.multi_class == "joint":
            starts = [np.vstack(starts)]
        model = fitting.model(rows, given.X, given.weights, starts)
        model = model.each(given.place)
        if not model.is_separated and model.results[-1].status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # no hyperplane was found yet, and a fallback would take long
        if not model.is_separated and self.fallback == "raise":
            raise self._error(model.hard)
        self.C_, self.results_ = model.results[0].C, model.results
        self.n_iter_ = np.array([math.ceil(result.passes) for result in model.hard])
        self.cosine_ = np.array([result.cosine for result in self.results_])  # those behind coef_
        return model.hard, model.coef, model.intercept

    def _error(self, results: Sequence[Result]) -> NotSeparableError:
        """Return the error that carries the proof for the first class that does not separate."""
        k, result = next((k, r) for k, r in enumerate(results) if not r.margin > 0.0)
        is_joint = result.multi_class == "joint"
        which = "all classes jointly" if is_joint else f"{self.classes_.tolist()[k]!r} from the rest"
        which = "the two classes" if self.classes_.size == 2 else which
        found = (
            "No hyperplane separates" if result.upper_bound <= 0.0 else "Found no hyperplane that separates"
        )
        return NotSeparableError(
            f"{found} {which}, and fallback='raise'. Use fallback='soft'.", weights=result.dual_coef
        )
