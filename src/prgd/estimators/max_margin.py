"""MaxMarginClassifier: the certified maximum-margin solver as a scikit-learn classifier."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler

from prgd._types import Array, Mask
from prgd.estimators._common import Fit, LinearClassifier
from prgd.maxmargin import max_margin
from prgd.result import Result


@dataclass(kw_only=True, eq=False, repr=False)
class MaxMarginClassifier(LinearClassifier):
    r"""The linear classifier of largest margin, with a certified gap (`prgd.max_margin`).

    .. math:: \max_{\|w\| = 1, b} \min_i y_i (\langle w, x_i \rangle + b)

    It computes what ``SVC(kernel="linear", C=inf)`` stands for, with a proof. Several classes are separated
    one against the rest, each with a certificate of its own.

    Parameters
    ----------
    fit_intercept : bool
        A true, unpenalised intercept, as SVC has; without it the hyperplane passes through the origin.
    tol : float
        Relative gap to certify.
    max_passes : int
        Passes over the data after which the best certified interval is taken, with a warning.
    polish : bool
        Solve exactly on the identified support if descent is slow.
    class_weight : dict, "balanced" or None
        Multiplies ``sample_weight``. Positive weights do not move the solution: the margin is a smallest
        one over the rows, whatever their weights. Rows of weight 0 do not count. Weights matter if the
        classes are not separable, see Notes.
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
        positive if no separator was found; then ``coef_`` is that of the fallback (Notes).
    margin_upper_bound_ : ndarray of shape (k,)
        No hyperplane has a larger margin: ``||sum_i p_i y_i x_i||`` with the weights of ``dual_coef_``.
    gap_ : ndarray of shape (k,)
        ``(margin_upper_bound_ - margin_) / margin_upper_bound_``; infinite if no separator was found.
    dual_coef_ : csr_array of shape (k, n)
        Weights of the certificate: not negative, of sum 1 (1/2 on each side with an intercept).
    support_ : ndarray of int
        The rows of positive weight in any certificate.
    n_iter_ : ndarray of shape (k,)
        Passes over the data, rounded up.
    status_ : tuple of k `prgd.Status`
    n_features_in_ : int
    feature_names_in_ : ndarray of str, only if X had column names.

    Notes
    -----
    If a class is not separable, no margin can be maximised. ``fit`` then warns
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

    _fallback = "A logistic regression is the classifier instead."

    tol: float = 1e-6
    max_passes: int = 1000
    polish: bool = True

    def _fit_one(self, X: Any, y: Mask, weights: Array | None, start: Array | None) -> Fit:
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
        if result.margin > 0.0:
            return result, result.coef, result.intercept
        return result, *_logistic_regression(X, y, weights, self.fit_intercept)

    def _keep(self, results: Sequence[Result]) -> None:
        self.n_iter_ = np.array([math.ceil(result.passes) for result in results])


def _logistic_regression(X: Any, y: Mask, weights: Array | None, fit_intercept: bool) -> tuple[Array, float]:
    """Return the hyperplane of the fallback in the units of X; its columns are scaled for the fit."""
    scaler = MaxAbsScaler()
    model = LogisticRegression(C=10.0, fit_intercept=fit_intercept, max_iter=1000)
    with warnings.catch_warnings():
        # The caller warns of more than that: the classes are not separable.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(scaler.fit_transform(X), y, weights)
    coef = np.asarray(model.coef_[0] / scaler.scale_, dtype=np.float64)
    return coef, float(model.intercept_[0]) if fit_intercept else 0.0
