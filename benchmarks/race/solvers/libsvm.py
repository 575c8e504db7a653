"""LIBSVM: sequential minimal optimisation, on mirrored rows when without an intercept.

Its kernel cache holds 32-bit numbers, so that small gaps are out of its reach at any tolerance where the
margin is small. Without shrinking it was never faster, so that is not swept.
"""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from __future__ import annotations

from typing import Any

from benchmark_utils.forms import as_form, form_is_pointless, mirrored
from benchmark_utils.shapes import IS_BENCHOPT, MAX_ITERATIONS, ModelSolver


class Solver(ModelSolver):
    name = "LIBSVM"
    parameters = {
        "form": ["dense", "sparse"],
        "C": [1e10],
        "tol": [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8],
    }
    rung = "tol"

    def skip(self, X: Any, y: Any, fit_intercept: bool) -> tuple[bool, str | None]:
        return form_is_pointless(X, self.form)

    def set_objective(self, X: Any, y: Any, fit_intercept: bool) -> None:
        from sklearn.svm import SVC

        X = as_form(X, self.form)
        self.X, self.y = (X, y) if fit_intercept else mirrored(X, y)
        max_iter = MAX_ITERATIONS if IS_BENCHOPT else -1
        self.model = SVC(kernel="linear", C=self.C, tol=self.tol, cache_size=2000, max_iter=max_iter)
