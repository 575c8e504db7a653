"""LIBSVM: sequential minimal optimisation, on mirrored rows when without an intercept.

Its kernel cache holds 32-bit numbers, so that small gaps are out of its reach at any tolerance where the
margin is small. Without shrinking it was never faster, so that is not swept.
"""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from __future__ import annotations

from typing import Any

import scipy.sparse as sp
from benchmark_utils.forms import as_form, form_is_pointless, mirrored
from benchmark_utils.shapes import IS_BENCHOPT, MAX_ITERATIONS, BaseSolver


class Solver(BaseSolver):
    name = "LIBSVM"
    requirements = ["scikit-learn"]
    sampling_strategy = "run_once"
    parameters = {
        "form": ["dense", "sparse"],
        "C": [1e10],
        "tol": [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8],
    }
    rung = "tol"

    def skip(self, X: Any, y: Any, fit_intercept: bool) -> tuple[bool, str | None]:
        reason = form_is_pointless(X, self.form)
        return reason is not None, reason

    def set_objective(self, X: Any, y: Any, fit_intercept: bool) -> None:
        from sklearn.svm import SVC

        X = as_form(X, self.form)
        self.X, self.y = (X, y) if fit_intercept else mirrored(X, y)
        max_iter = MAX_ITERATIONS if IS_BENCHOPT else -1
        self.model = SVC(kernel="linear", C=self.C, tol=self.tol, cache_size=2000, max_iter=max_iter)

    def run(self, _: Any) -> None:
        self.model.fit(self.X, self.y)

    def get_result(self) -> dict[str, Any]:
        w = self.model.coef_
        return {"w": (w.toarray() if sp.issparse(w) else w)[0]}
