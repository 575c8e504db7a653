"""The three base classes: benchopt's own when benchopt drives, else the little of them that is used here."""

import sys
from itertools import product
from typing import Any, ClassVar

# benchopt cannot interrupt a run, so iterations of those that might not end are limited while it drives.
MAX_ITERATIONS = 100_000
IS_BENCHOPT = "benchopt" in sys.modules

if IS_BENCHOPT:
    from benchopt import BaseDataset, BaseObjective, BaseSolver
    from benchopt.stopping_criterion import SufficientProgressCriterion

    # The margin does not grow at every look of benchopt, and 3 looks without progress would end a run early.
    PATIENT = SufficientProgressCriterion(patience=10)
else:
    PATIENT = None

    class _Base:
        name: ClassVar[str] = ""
        parameters: ClassVar[dict[str, list[Any]]] = {}

        def __init__(self, **chosen: Any) -> None:
            for key, values in self.parameters.items():
                setattr(self, key, chosen.get(key, values[0] if values else None))

    class BaseDataset(_Base):
        """``get_data()`` returns X and y."""

    class BaseObjective(_Base):
        """``set_data``, ``get_objective`` and ``evaluate_result``."""

    class BaseSolver(_Base):
        """``skip`` and ``set_objective`` off the clock, ``run`` on it, ``get_result`` after."""

        requirements: ClassVar[list[str]] = []
        sampling_strategy: ClassVar[str] = "run_once"

        def skip(self, **objective: Any) -> tuple[bool, str | None]:
            return False, None


class ModelSolver(BaseSolver):
    """A model of scikit-learn; a subclass sets it in ``set_objective``, with the X and y of its fit."""

    requirements: ClassVar[list[str]] = ["scikit-learn"]
    sampling_strategy = "run_once"

    def run(self, _: Any) -> None:
        self.model.fit(self.X, self.y)

    def get_result(self) -> dict[str, Any]:
        w = self.model.coef_
        return {"w": (w.toarray() if hasattr(w, "toarray") else w)[0]}


def ladders(solver: type) -> list[list[dict[str, Any]]]:
    """Return the sweep of a solver: one ladder for each choice of the other parameters.

    Along a ladder only ``solver.rung`` changes, in the order given, from cheap to dear.
    """
    others = {key: values for key, values in solver.parameters.items() if key != solver.rung}
    steps = solver.parameters.get(solver.rung, [None])
    found = []
    for chosen in product(*others.values()):
        fixed = dict(zip(others, chosen, strict=True))
        found.append([fixed | ({solver.rung: step} if solver.rung else {}) for step in steps])
    return found


__all__ = [
    "IS_BENCHOPT",
    "MAX_ITERATIONS",
    "PATIENT",
    "BaseDataset",
    "BaseObjective",
    "BaseSolver",
    "ModelSolver",
    "ladders",
]
