"""The common score: how far the margin of w is below the largest one, and the certificate of that one."""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from benchmark_utils.shapes import BaseObjective


class Objective(BaseObjective):
    """Relative gap ``(gamma_star - gamma(w)) / gamma_star``, by NumPy alone."""

    name = "Maximum margin"
    parameters = {"fit_intercept": [False, True]}
    min_benchopt_version = "1.6"
    test_dataset_name = "scikit-learn"  # benchopt test runs every solver on the first of its sets

    def set_data(self, X: Any, y: np.ndarray, gamma_star: float | None = None) -> None:
        """Take the rows, divided by the largest norm among them so that C means the same on every set."""
        self.X, self.y = scaled(X), signs(y)
        if gamma_star is None:
            gamma_star = certify(self.X, self.y, self.fit_intercept, 1e-8).upper
        self.gamma_star = gamma_star

    def get_objective(self) -> dict[str, Any]:
        return {"X": self.X, "y": self.y, "fit_intercept": self.fit_intercept}

    def evaluate_result(self, w: np.ndarray, **more: Any) -> dict[str, float]:
        margin = gamma(self.X, self.y, w, self.fit_intercept)
        gap = (self.gamma_star - margin) / self.gamma_star if self.gamma_star > 0.0 else math.inf
        return {"value": gap, "margin": margin, **more}

    def get_one_result(self) -> dict[str, Any]:
        return {"w": np.asarray(self.X.T @ self.y).ravel()}


def scaled(X: Any) -> Any:
    squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)
    return X / math.sqrt(float(np.max(squares)))


def signs(y: np.ndarray) -> np.ndarray:
    return np.where(y == np.max(y), 1.0, -1.0)


def gamma(X: Any, y: np.ndarray, w: np.ndarray, fit_intercept: bool) -> float:
    """Return the margin of w, at the best intercept where there is one: no peer loses by its own."""
    length = float(np.linalg.norm(w))
    if not 0.0 < length < math.inf:
        return -1.0  # no direction does worse on rows of norm at most 1
    values = np.asarray(X @ (w / length)).ravel()
    if fit_intercept:
        return float(values[y > 0].min() - values[y < 0].max()) / 2.0
    return float((y * values).min())


def upper_bound(X: Any, y: np.ndarray, p: np.ndarray, fit_intercept: bool) -> float:
    """Return the bound on every margin that weights prove: ``||Z^T p||`` for p >= 0 of sum 1.

    With an intercept the sum is 1/2 in each class: half the distance between two points of the hulls.
    """
    if p.min() < 0.0:
        return math.inf
    p = p.copy()
    groups = [y > 0, y < 0] if fit_intercept else [np.ones(len(y), bool)]
    for group in groups:
        p[group] /= p[group].sum() * len(groups)
    return float(np.linalg.norm(np.asarray(X.T @ (y * p)).ravel()))


class Certificate(NamedTuple):
    """``lower <= gamma_star <= upper``, both recomputed here from w and p."""

    lower: float
    upper: float
    w: np.ndarray
    p: np.ndarray

    @property
    def gap(self) -> float:
        return (self.upper - self.lower) / self.upper if self.upper > 0.0 else math.inf


def check(X: Any, y: np.ndarray, fit_intercept: bool, w: np.ndarray, p: np.ndarray) -> Certificate:
    return Certificate(gamma(X, y, w, fit_intercept), upper_bound(X, y, p, fit_intercept), w, p)


def certify(X: Any, y: np.ndarray, fit_intercept: bool, tol: float) -> Certificate:
    """Let prgd find w and p, and measure them here."""
    import prgd

    result = prgd.max_margin(X, y, fit_intercept=fit_intercept, tol=tol)
    p = np.asarray(result.dual_coef.todense()).ravel()
    return check(X, y, fit_intercept, np.asarray(result.coef), p)
