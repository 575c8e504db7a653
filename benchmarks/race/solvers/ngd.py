"""Plain normalized gradient descent, the paper's baseline."""

from __future__ import annotations

from typing import Any

from benchmark_utils.first_order import FirstOrderSolver


class Solver(FirstOrderSolver):
    name = "NGD"

    def algorithm(self) -> Any:
        import prgd

        return prgd.NGD()
