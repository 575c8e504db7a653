"""scikit-learn's logistic regression at ever larger C; it nears the maximum margin like 1 / log C."""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from __future__ import annotations

from typing import Any

from benchmark_utils.forms import as_form, density
from benchmark_utils.shapes import ModelSolver


class Solver(ModelSolver):
    name = "logistic regression"
    parameters = {
        "method": ["lbfgs", "newton-cholesky"],
        "tol": [1e-8],
        "C": [1e4, 1e6, 1e8, 1e10, 1e12],
    }
    rung = "C"

    def skip(self, X: Any, y: Any, fit_intercept: bool) -> tuple[bool, str | None]:
        if self.method == "newton-cholesky" and X.shape[1] > 1000:
            return True, f"newton-cholesky: a Hessian of {X.shape[1]} features"
        return False, None

    def set_objective(self, X: Any, y: Any, fit_intercept: bool) -> None:
        from sklearn.linear_model import LogisticRegression

        # newton-cholesky forms X^T D X, by BLAS where X is dense
        form = "dense" if density(X) > 0.3 or self.method == "newton-cholesky" else "sparse"
        self.X, self.y = as_form(X, form), y
        self.model = LogisticRegression(
            C=self.C, tol=self.tol, max_iter=1_000_000, fit_intercept=fit_intercept, solver=self.method
        )
