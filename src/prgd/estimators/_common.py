"""What both estimators share: checks of the data, one class against the rest, prediction, warnings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, vstack
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from prgd.core.checks import check_integer, check_positive
from prgd.core.errors import NotSeparableWarning
from prgd.core.types import Array, Indices, Intercept, Mask
from prgd.rows.exact import check_exact
from prgd.rows.labels import label_array
from prgd.running.history import Status
from prgd.running.result import Result

# The certified result, and the coefficients and the intercept that classify: those of the result, or of a
# fallback if the margin is not positive.
Fit = tuple[Result, Array, Intercept]
_FLOATS = (np.float64, np.float32)


class Given(NamedTuple):
    """What the rows of a fit are among the data as given: rows of weight 0 are left out of them."""

    kept: Indices
    n: int
    classes: npt.NDArray[Any]
    feature_names: tuple[str, ...] | None

    def place(self, result: Result) -> Result:
        """Return the result with a certificate about the data as given, which it checks on."""
        c = result.certificate
        p = c.dual_weights
        if p is not None:
            K = result.terms_per_row
            indices = self.kept[p.indices // K] * K + p.indices % K
            c = replace(c, dual_weights=replace(p, indices=indices))
        return replace(result, certificate=c, n=self.n, feature_names=self.feature_names)


class FitTask(NamedTuple):
    """The problems of a fit: the rows, and the classes to separate from the rest, or jointly.

    Attributes
    ----------
    codes : ndarray of int of shape (n,), the class of each row
    targets : list of int, the class of each problem; [1] if all classes are separated jointly
    is_joint : bool
    starts : list, a direction for each problem or None
    """

    X: Any
    codes: Indices
    targets: list[int]
    weights: Array | None
    starts: list[Array | None]
    given: Given
    is_joint: bool = False


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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearClassifier:
        """Fit the classifier.

        Parameters
        ----------
        X : {array, sparse matrix, data frame} of shape (n, d)
            float32 and float64 are used in place; other numbers are converted once, exactly: one that has no
            float64 is refused.
        y : array of shape (n,)
            Labels of two or more classes.
        sample_weight : array of shape (n,), optional
            Not negative; a row of weight 0 does not count.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_exact(X)  # scikit-learn would round integers and long doubles without a word
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
        is_joint = self._is_joint() and classes.size > 2
        targets = [1] if classes.size == 2 or is_joint else list(range(classes.size))
        starts = self._starts(len(targets), X.shape[1])
        names = getattr(self, "feature_names_in_", None)
        given = Given(kept, n, classes, None if names is None else tuple(names.tolist()))
        fits = self._fit_all(FitTask(X, codes, targets, weights, starts, given, is_joint))
        results, coefs, intercepts = zip(*fits, strict=True)
        self.classes_, self.coef_, self.intercept_ = classes, np.vstack(coefs), np.hstack(intercepts)
        self.margin_ = np.array([result.margin for result in results])
        self.margin_upper_bound_ = np.array([result.upper_bound for result in results])
        self.gap_ = np.where(self.margin_ > 0.0, [result.gap for result in results], math.inf)
        self.dual_coef_ = csr_array(vstack([result.dual_coef for result in results]))
        carried = self.dual_coef_.indices // (classes.size if is_joint else 1)
        self.support_ = np.unique(carried).astype(np.int64)
        self.status_ = tuple(result.status for result in results)
        self._keep(results)
        self._warn(classes[targets], is_joint)
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
        check_exact(X)
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
        codes = (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        found: npt.NDArray[Any] = self.classes_[codes]
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _drop_weightless(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Array | None, Any]:
        """Return the rows of positive weight, their labels, their weights, and their indices."""
        kept = np.arange(X.shape[0])
        if sample_weight is None and self.class_weight is None:
            return X, y, None, kept
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weights)
        if kept.size:
            # "balanced" counts only the rows of positive sample weight.
            weights[kept] *= compute_sample_weight(self.class_weight, y[kept])
            kept = np.flatnonzero(weights)
        if not kept.size:
            raise ValueError("The weights are zero everywhere: no row and no class is left.")
        if kept.size < X.shape[0]:
            X, y, weights = X[kept], y[kept], weights[kept]
        return X, y, weights, kept

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

    def _starts(self, count: int, d: int) -> list[Array | None]:
        """Return the start of each problem: with ``warm_start`` the last solution, if it fits."""
        last = getattr(self, "coef_", None) if self.warm_start else None
        return [None] * count if last is None or last.shape != (count, d) else list(last)

    def _is_joint(self) -> bool:
        """Whether more than two classes are separated jointly, and not each from the rest."""
        return False

    def _fit_all(self, task: FitTask) -> list[Fit]:
        """Separate each of the classes from the others."""
        return self._fit_each(task, self._fit_one)

    def _fit_each(self, task: FitTask, fit_one: Callable[..., Fit]) -> list[Fit]:
        """Solve one problem after the other."""
        fits: list[Fit] = []
        for target, start in zip(task.targets, task.starts, strict=True):
            if fits and fits[-1][0].status is Status.INTERRUPTED:
                raise KeyboardInterrupt  # Some classes have not been begun, and nothing stands for them.
            result, coef, intercept = fit_one(task.X, task.codes == target, task.weights, start)
            fits.append((task.given.place(result), coef, intercept))
        return fits

    def _fit_one(self, X: Any, y: Mask, weights: Array | None, start: Array | None) -> Fit:
        """Separate the rows in ``y`` from the others."""
        raise NotImplementedError  # pragma: no cover - both estimators have their own

    def _keep(self, results: Sequence[Result]) -> None:
        """Set ``n_iter_`` and the attributes that only one of the estimators has."""
        raise NotImplementedError  # pragma: no cover - both estimators have their own

    def _fallback(self, is_joint: bool) -> str:
        """Return the sentence on what classifies if no hyperplane separates."""
        raise NotImplementedError  # pragma: no cover - both estimators have their own

    def _warn(self, targets: npt.NDArray[Any], is_joint: bool) -> None:
        """Warn once of the classes that were not separated, and once of gaps that were not certified."""
        errs = np.flatnonzero(self.margin_ <= 0.0)
        if errs.size:
            proven = np.array([self.margin_upper_bound_[i] <= 0.0 for i in errs])
            named = _listed(self.classes_, targets[errs], is_joint)
            verdict = f"{'No weights separate' if is_joint else 'No hyperplane separates'} {named}."
            call = "y" if self.classes_.size == 2 else f"y == {targets[errs].tolist()[0]!r}"
            call = "y, family='multinomial'" if is_joint else call
            advice = (
                f"prgd.separability(X, {call}) explains why none does; the weights of this warning are the "
                "certificate."
            )
            if not proven.all():
                best, largest = self.margin_[errs].max(), self.margin_upper_bound_[errs].max()
                verdict = (
                    f"No hyperplane that was tried separates {named}: the best margin found is {best:.3g}. "
                    f"Whether one does is not decided here; no margin is larger than {largest:.3g}."
                )
                advice = f"prgd.separability(X, {call}) decides it."
            warnings.warn(
                NotSeparableWarning(
                    f"{verdict} {self._fallback(is_joint)} {advice}",
                    classes=(self.classes_ if is_joint else targets[errs]).tolist(),
                    weights=self.dual_coef_[errs],
                    upper_bound=self.margin_upper_bound_[errs],
                    is_proven=proven,
                ),
                stacklevel=3,
            )
        late = np.flatnonzero((self.margin_ > 0.0) & (self.gap_ > self.tol))
        if late.size:
            i, named = late[np.argmax(self.gap_[late])], _listed(self.classes_, targets[late], is_joint)
            warnings.warn(
                f"{self.status_[i]} For {named} the largest margin lies "
                f"between {self.margin_[i]:.9g} and {self.margin_upper_bound_[i]:.9g} "
                f"(relative gap {self.gap_[i]:.1e}, tol={self.tol:g}).",
                ConvergenceWarning,
                stacklevel=3,
            )


def _listed(classes: npt.NDArray[Any], some: npt.NDArray[Any], is_joint: bool) -> str:
    """Return the names of the problems: the two classes, all jointly, or some of several against the rest."""
    if classes.size == 2:
        return " from ".join(repr(c) for c in classes.tolist())
    if is_joint:
        return f"all {classes.size} classes jointly"
    names = [repr(c) for c in some.tolist()]
    shown = ", ".join(names[:5]) + (f", ... ({len(names)} classes)" if len(names) > 5 else "")
    return f"{shown} from the rest"
