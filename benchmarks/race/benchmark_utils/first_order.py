"""Algorithms of `prgd.run`: one watched run gives the time to every gap."""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from collections.abc import Callable
from typing import Any

from .forms import as_form, density
from .shapes import MAX_ITERATIONS, PATIENT, BaseSolver
from .watch import Caller, Watch


class FirstOrderSolver(BaseSolver):
    """A subclass gives the algorithm, and the number of warm-up steps of gradient descent before it."""

    requirements = ["prgd", "numpy", "numba"]
    sampling_strategy = "callback"
    stopping_criterion = PATIENT
    rung = ""
    warm_steps = 0

    def algorithm(self) -> Any:
        raise NotImplementedError

    def set_objective(self, X: Any, y: Any, fit_intercept: bool) -> None:
        form = "dense" if density(X) > 0.3 else "sparse"
        self.X, self.y, self.fit_intercept = as_form(X, form), y, fit_intercept

    def run(self, callback: Callable[[], bool]) -> None:
        """Call back at each step, those of the warm-up included, until the answer is no: benchopt's way."""
        self._go(Caller(callback, self._take, MAX_ITERATIONS))

    def trace(self, watch: Watch) -> None:
        """Run until the watch says stop: the way of this race."""
        watch.start()
        self._go(watch)

    def _take(self, w: Any) -> None:
        self.w = w

    def _go(self, watch: Watch | Caller) -> None:
        import prgd

        problem = prgd.Problem(self.X, self.y, fit_intercept=self.fit_intercept)
        start, rare = None, 1_000_000_000
        if self.warm_steps:
            watch.may_give_up = False
            result = prgd.run(problem, prgd.GD(), stop=prgd.any_of(watch, self.warm_steps), record=rare)
            start = self.w = result.w
            if watch.is_over:
                return
            watch.may_give_up = True
            watch.begin_phase()
        result = prgd.run(problem, self.algorithm(), start, stop=watch, record=rare)
        best = result.certificate.w
        self.w = result.w if best is None else best

    def get_result(self) -> dict[str, Any]:
        return {"w": self.w}
