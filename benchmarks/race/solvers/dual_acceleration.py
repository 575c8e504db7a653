"""Dual acceleration of Ji, Srebro and Telgarsky (2021)."""

from __future__ import annotations

from typing import Any

from benchmark_utils.first_order import FirstOrderSolver


class Solver(FirstOrderSolver):
    name = "dual acceleration"

    def algorithm(self) -> Any:
        import prgd

        return prgd.algorithms.DualAcceleration()
