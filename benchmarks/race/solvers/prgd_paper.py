"""The paper's PRGD: Algorithm 1 with its schedules, after its 1,000 warm-up steps, which are on the clock."""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from __future__ import annotations

from typing import Any

from benchmark_utils.first_order import FirstOrderSolver


class Solver(FirstOrderSolver):
    name = "PRGD Algorithm 1"
    parameters = {"schedule": ["exponential", "polynomial"]}
    warm_steps = 1000

    def algorithm(self) -> Any:
        import prgd

        R = (
            prgd.schedules.Geometric(1.2)
            if self.schedule == "exponential"
            else prgd.schedules.Polynomial(1.2)
        )
        return prgd.PRGD(R, prgd.schedules.Every(5))
