"""What both estimators share: checks of the data, attributes, prediction, warnings."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, vstack
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from prgd.core.checks import check_integer, check_positive
from prgd.core.errors import NotSeparableWarning
from prgd.core.types import Array, Indices
from prgd.rows import Labels, Rows, as_rows
from prgd.rows.exact import check_exact
from prgd.rows.labels import label_array
from prgd.running.history import Status
from prgd.running.result import Result
from prgd.running.scores import classify, decision

_FLOATS = (np.float64, np.float32)


_warned: set[tuple[str, str, int]] = set()  # texts, files and lines of the warnings that were shown


def _warn_once(warning: Warning) -> None:
    """Warn at the line that called prgd or scikit-learn, and there once, however many folds that line fits.

    Python's own record of what was shown is emptied when filters change, as scikit-learn does in every fit.
    """
    frame, packages = sys._getframe(), ("prgd", "sklearn", "joblib")
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in packages:
        frame = frame.f_back
    place = (str(warning), frame.f_code.co_filename, frame.f_lineno)
    # Filters of other texts, such as those that NumPy sets, say nothing about this warning.
    own = (f for f in warnings.filters if isinstance(warning, f[2]) and re.match(f[1] or "", place[0]))
    action = next((f[0] for f in own), "default")
    if place not in _warned or action not in ("default", "module", "once"):
        _warned.add(place)
        warnings.warn_explicit(warning, None, *place[1:])


class Given(NamedTuple):
    """The rows of a fit, which are those of positive weight among the data as given.

    Attributes
    ----------
    rows : Rows with their labels
    X : array, sparse matrix or None
        The same rows, if they lie in one.
    weights : ndarray or None
        Their weights; None if all are 1.
    kept : ndarray of int or None
        Their indices among the n rows that were given; None for all.
    """

    rows: Rows
    X: Any = None
    weights: Array | None = None
    kept: Indices | None = None
    n: int = 0

    def place(self, result: Result) -> Result:
        """Return the result with a certificate about the data as given, which it checks on."""
        c = result.certificate
        p, K = c.dual_weights, result.terms_per_row
        if self.kept is None:
            return result
        if p is not None:
            p = replace(p, indices=self.kept[p.indices // K] * K + p.indices % K)
        return replace(result, certificate=replace(c, dual_weights=p), n=self.n)


@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One hyperplane for two classes, one for each class against the rest for more.

    Subclasses are dataclasses, since the ``__init__`` of a scikit-learn estimator stores its parameters as
    they are and does nothing else. The fields here are parameters of both.
    """

    fit_intercept: bool = True
    class_weight: Any = None
    warm_start: bool = False
    n_jobs: int | None = None
    verbose: int = 0

    _switches: ClassVar[tuple[str, ...]] = ()
    _counts: ClassVar[tuple[str, ...]] = ()
    _fallback: ClassVar[str]  # what classifies if no hyperplane separates

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearClassifier:
        """Fit the classifier.

        Parameters
        ----------
        X : {array, sparse matrix, data frame} of shape (n, d), or Rows
            float32 and float64 are used in place; other numbers are converted once, exactly: one that has no
            float64 is refused. Rows (`prgd.open_rows`, `prgd.open_cluster`) hold their labels.
        y : array of shape (n,)
            Labels of two or more classes.
        sample_weight : array of shape (n,), optional
            Not negative; a row of weight 0 does not count.

        Returns
        -------
        self
        """
        self._check_parameters()
        given = (self._read_rows if isinstance(X, Rows) else self._read)(X, y, sample_weight)
        self.classes_ = np.array([-1, 1]) if (classes := given.rows.labels.classes) is None else classes
        results, self.coef_, self.intercept_ = self._solve(given)
        is_joint = results[0].multi_class == "joint"
        self.margin_ = np.array([result.margin for result in results])
        self.margin_upper_bound_ = np.array([result.upper_bound for result in results])
        self.gap_ = np.where(self.margin_ > 0.0, [result.gap for result in results], math.inf)
        self.dual_coef_ = csr_array(vstack([result.dual_coef for result in results]))
        self.support_ = np.unique(self.dual_coef_.indices // results[0].terms_per_row).astype(np.int64)
        self.status_ = tuple(result.status for result in results)
        self._warn(self.classes_[1:] if len(results) == 1 else self.classes_, is_joint)
        return self

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Given:
        """Check the data as scikit-learn does, and return the rows of positive weight."""
        X = check_exact(X)  # scikit-learn would round integers and sums of sparse entries without a word
        if y is not None:
            label_array(y)
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
        names = getattr(self, "feature_names_in_", None)
        rows = as_rows(X, n_jobs=self.n_jobs, feature_names=None if names is None else tuple(names.tolist()))
        labels = Labels.coded(codes.astype(np.int32), classes, np.empty(0))
        return Given(rows.with_labels(labels), X, weights, kept, n)

    def _read_rows(self, rows: Rows, *others: Any) -> Given:
        """Take rows that hold their labels, weights and threads."""
        if any(value is not None for value in (*others, self.class_weight, self.n_jobs)):
            raise ValueError(
                "Rows hold their labels, weights and threads: give y, sample_weight and n_jobs to "
                "prgd.open_rows, and leave class_weight out."
            )
        self.n_features_in_ = rows.d
        self.__dict__.pop("feature_names_in_", None)  # an earlier fit may have left them
        if rows.feature_names is not None:
            self.feature_names_in_ = np.array(rows.feature_names, dtype=object)
        return Given(rows)

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
        X = validate_data(self, check_exact(X), accept_sparse="csr", dtype=_FLOATS, reset=False)
        return decision(X, self.coef_, self.intercept_)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class of every row.

        Parameters
        ----------
        X : {array, sparse matrix, data frame} of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return classify(self.decision_function(X), self.classes_)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # skops cannot make a member of an Enum again
        return state | {"status_": tuple(s.name for s in state["status_"])} if "status_" in state else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "status_" in state:
            self.status_ = tuple(Status[name] for name in state["status_"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _drop_weightless(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, Any, Array | None, Indices | None]:
        """Return the rows of positive weight, their labels, their weights, and their indices."""
        if sample_weight is None and self.class_weight is None:
            return X, y, None, None
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weights)
        if kept.size:
            # "balanced" counts only the rows of positive sample weight.
            weights[kept] *= compute_sample_weight(self.class_weight, y[kept])
            kept = np.flatnonzero(weights)
        if not kept.size:
            raise ValueError("The weights are zero everywhere: no row and no class is left.")
        if kept.size == X.shape[0]:
            return X, y, weights, None
        return X[kept], y[kept], weights[kept], kept

    def _check_parameters(self) -> None:
        """Raise ``ValueError`` for a parameter that Python would take for another value, or not at all."""
        for name in ("fit_intercept", "warm_start", *self._switches):
            if not isinstance(value := getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name} must be True or False; got {value!r}.")
        check_positive("tol", float(self.tol) if isinstance(self.tol, Real) else self.tol)
        for name in ("n_jobs", *self._counts):
            value = getattr(self, name)
            if not (name == "n_jobs" and value is None):
                is_count = isinstance(value, Integral) and not isinstance(value, bool)
                check_integer(name, int(value) if is_count else value, minimum=1)

    def _starts(self, count: int, d: int) -> list[Array]:
        """Return the start of each problem: with ``warm_start`` the last solution, if it fits."""
        last = getattr(self, "coef_", None) if self.warm_start else None
        return [] if last is None or last.shape != (count, d) else list(last)

    def _solve(self, given: Given) -> tuple[Sequence[Result], Array, Array]:
        """Return the results that the bounds are about, the coefficients and the intercepts.

        It sets the attributes that only one of the estimators has, and ``n_iter_``.
        """
        raise NotImplementedError  # pragma: no cover - both estimators have their own

    def _warn(self, targets: npt.NDArray[Any], is_joint: bool) -> None:
        """Warn once of the classes that were not separated, and once of gaps that were not certified."""
        errs = np.flatnonzero(self.margin_ <= 0.0)
        # The text does not depend on the rows, so that it is the same for all folds.
        named, call = " from ".join(repr(c) for c in self.classes_.tolist()), "y"
        if is_joint:
            named, call = f"all {self.classes_.size} classes jointly", "y, family='multinomial'"
        elif self.classes_.size > 2:
            named, call = "every class from the rest", "y == c"
        if errs.size:
            proven = np.array([self.margin_upper_bound_[i] <= 0.0 for i in errs])
            verb, advice = "No weights separate" if is_joint else "No hyperplane separates", "explains why"
            if not proven.all():
                verb, advice = "No hyperplane that was tried separates", "decides whether one does"
            _warn_once(
                NotSeparableWarning(
                    f"{verb} {named}, so {self._fallback} is the classifier; "
                    f"prgd.separability(X, {call}) {advice}.",
                    classes=(self.classes_ if is_joint else targets[errs]).tolist(),
                    weights=self.dual_coef_[errs],
                    upper_bound=self.margin_upper_bound_[errs],
                    is_proven=proven,
                )
            )
        late = np.flatnonzero((self.margin_ > 0.0) & (self.gap_ > self.tol))
        if late.size:
            i = late[np.argmax(self.gap_[late])]
            named = f"{targets[i]!r} from the rest" if self.margin_.size > 1 else named
            warnings.warn(
                f"{self.status_[i]} For {named} the largest margin lies "
                f"between {self.margin_[i]:.9g} and {self.margin_upper_bound_[i]:.9g} "
                f"(relative gap {self.gap_[i]:.1e}, tol={self.tol:g}).",
                ConvergenceWarning,
                stacklevel=3,
            )
