"""Algorithms of `prgd.run`: one traced run gives the time to every gap."""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from __future__ import annotations

from typing import Any

from .forms import as_form, density
from .shapes import BaseSolver
from .watch import Watch


class FirstOrderSolver(BaseSolver):
    """A subclass gives the algorithm, and the number of warm-up steps of gradient descent before it."""

    requirements = ["prgd", "numpy", "numba"]
    sampling_strategy = "iteration"
    rung = ""
    warm_steps = 0

    def algorithm(self) -> Any:
        raise NotImplementedError

    def set_objective(self, X: Any, y: Any, fit_intercept: bool) -> None:
        form = "dense" if density(X) > 0.3 else "sparse"
        self.X, self.y, self.fit_intercept = as_form(X, form), y, fit_intercept

    def run(self, steps: int) -> None:
        """Take so many steps, those of the warm-up included: benchopt's way."""
        self._go(None, steps)

    def trace(self, watch: Watch) -> None:
        """Run until the watch says stop: the way of this race."""
        watch.start()
        self._go(watch, None)

    def _go(self, watch: Watch | None, steps: int | None) -> None:
        import prgd

        problem = prgd.Problem(self.X, self.y, fit_intercept=self.fit_intercept)
        start, rare = None, 1_000_000_000
        if self.warm_steps:
            most = self.warm_steps if steps is None else min(steps, self.warm_steps)
            rules = [most] if watch is None else [watch, most]
            if watch is not None:
                watch.may_give_up = False
            result = prgd.run(problem, prgd.GD(), stop=prgd.any_of(*rules), record=rare)
            start = self.w = result.w
            is_over = watch.is_over if watch is not None else steps == most
            if is_over:
                return
            if watch is not None:
                watch.may_give_up = True
                watch.begin_phase()
        left = steps - self.warm_steps if steps is not None else None
        result = prgd.run(
            problem, self.algorithm(), start, stop=left if watch is None else watch, record=rare
        )
        best = result.certificate.w
        self.w = result.w if best is None else best

    def get_result(self) -> dict[str, Any]:
        return {"w": self.w}
