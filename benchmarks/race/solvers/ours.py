"""``prgd.max_margin`` at its defaults; a run counts for a gap only if it also certified that gap."""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from __future__ import annotations

from typing import Any

from benchmark_utils.forms import as_form, form_is_pointless
from benchmark_utils.shapes import BaseSolver


class Solver(BaseSolver):
    name = "prgd"
    requirements = ["prgd", "numpy", "scipy", "numba"]
    sampling_strategy = "run_once"
    parameters = {"form": ["sparse", "dense"], "tol": [1e-2, 1e-4, 1e-6]}
    rung = "tol"
    test_config = {"form": "dense"}  # benchopt test has dense rows, for which the sparse form is skipped
    uses_max_margin = True

    def skip(self, X: Any, y: Any, fit_intercept: bool) -> tuple[bool, str | None]:
        return form_is_pointless(X, self.form)

    def set_objective(self, X: Any, y: Any, fit_intercept: bool) -> None:
        self.X, self.y, self.fit_intercept = as_form(X, self.form), y, fit_intercept

    def run(self, _: Any) -> None:
        import prgd

        self.result = prgd.max_margin(self.X, self.y, fit_intercept=self.fit_intercept, tol=self.tol)

    def get_result(self) -> dict[str, Any]:
        # "certified": the worst of this and of the true gap is what counts
        return {"w": self.result.coef, "certified": self.result.gap}
