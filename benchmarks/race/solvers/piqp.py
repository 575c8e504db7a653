"""PIQP, a proximal interior-point method, through qpsolvers."""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from __future__ import annotations

from typing import Any

from benchmark_utils.quadratic import QuadraticSolver


class Solver(QuadraticSolver):
    name = "PIQP"
    requirements = ["piqp", "qpsolvers"]
    parameters = {
        "problem": ["primal", "dual"],
        "backend": ["dense", "sparse"],
        "tol": [1e-2, 1e-4, 1e-6, 1e-8, 1e-10],
    }
    solver = "piqp"

    def takes_dense(self) -> bool:
        return self.backend == "dense"

    def settings(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "eps_abs": self.tol,
            "eps_rel": self.tol,
            "eps_duality_gap_abs": self.tol,
            "eps_duality_gap_rel": self.tol,
        }
