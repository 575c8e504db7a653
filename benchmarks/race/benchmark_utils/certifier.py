"""Not a peer: finds the certificate that all peers are scored by, in a process like theirs."""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from pathlib import Path
from typing import Any

import numpy as np

from benchmark_utils import load
from benchmark_utils.shapes import BaseSolver


class Solver(BaseSolver):
    name = "certificate"
    requirements = ["prgd"]
    parameters = {"tol": [1e-6, 1e-8, 1e-10], "path": [""]}
    rung = "tol"

    def set_objective(self, X: Any, y: Any, fit_intercept: bool) -> None:
        self.given = (X, y, fit_intercept)

    def run(self, _: Any) -> None:
        certify = load.module(load.RACE / "objective.py").certify
        self.found = certify(*self.given, self.tol)

    def get_result(self) -> dict[str, Any]:
        is_separable = self.found.lower > 0.0
        path = Path(self.path)
        if is_separable and (not path.exists() or self.found.gap < self._kept_gap(path)):
            temporary = path.with_suffix(".tmp")
            with temporary.open("wb") as file:
                np.savez(file, w=self.found.w, p=self.found.p, gap=self.found.gap)
            temporary.replace(path)
        return {"w": self.found.w, "is_separable": is_separable, "upper": self.found.upper}

    def _kept_gap(self, path: Path) -> float:
        with np.load(path) as kept:
            return float(kept["gap"])
