"""Clarabel, an interior-point method, through qpsolvers."""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from __future__ import annotations

import os
from typing import Any

from benchmark_utils.quadratic import QuadraticSolver


class Solver(QuadraticSolver):
    name = "Clarabel"
    requirements = ["clarabel", "qpsolvers"]
    parameters = {
        "problem": ["primal", "dual"],
        "factorisation": ["faer", "qdldl"],
        "tol": [1e-2, 1e-4, 1e-6, 1e-8, 1e-10],
    }
    solver = "clarabel"

    def takes_dense(self) -> bool:
        return False

    def skip(self, X: Any, y: Any, fit_intercept: bool) -> tuple[bool, str | None]:
        if self.problem == "dual" and self.factorisation == "qdldl" and X.shape[0] > 500:
            return True, "dual: qdldl has no dense blocks and one thread, faer has both"
        return super().skip(X, y, fit_intercept)

    def settings(self) -> dict[str, Any]:
        return {
            "tol_gap_abs": self.tol,
            "tol_gap_rel": self.tol,
            "tol_feas": self.tol,
            "direct_solve_method": self.factorisation,
            "max_threads": int(os.environ.get("OMP_NUM_THREADS", "0")),
        }
