"""LIBLINEAR: dual coordinate descent on the hinge loss at large C.

It penalises its intercept, less so with a larger ``intercept_scaling``, which also makes it slower.
"""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from __future__ import annotations

from typing import Any

from benchmark_utils.forms import as_form, form_is_pointless
from benchmark_utils.shapes import IS_BENCHOPT, MAX_ITERATIONS, ModelSolver


class Solver(ModelSolver):
    name = "LIBLINEAR"
    mark = "penalises its intercept"
    parameters = {
        "intercept_scaling": [1.0, 10.0, 3.0, 100.0],
        "form": ["sparse", "dense"],
        "C": [1e8, 1e4],
        "tol": [3e-2, 1e-2, 3e-4, 1e-4, 3e-6, 1e-6, 1e-7, 1e-8],
    }
    rung = "tol"
    test_config = {"form": "dense"}  # benchopt test has dense rows, for which the sparse form is skipped

    def skip(self, X: Any, y: Any, fit_intercept: bool) -> tuple[bool, str | None]:
        if self.intercept_scaling != 1.0 and not fit_intercept:
            return True, "without an intercept there is nothing to scale"
        if self.intercept_scaling != 1.0 and self.parameters["C"][0] != self.C:
            return True, "the smaller C is tried at scaling 1 only"
        return form_is_pointless(X, self.form)

    def set_objective(self, X: Any, y: Any, fit_intercept: bool) -> None:
        from sklearn.svm import LinearSVC

        self.X, self.y = as_form(X, self.form), y
        self.model = LinearSVC(
            loss="hinge",
            dual=True,
            C=self.C,
            tol=self.tol,
            max_iter=MAX_ITERATIONS if IS_BENCHOPT else 2_000_000_000,
            fit_intercept=fit_intercept,
            intercept_scaling=self.intercept_scaling,
            random_state=0,
        )
