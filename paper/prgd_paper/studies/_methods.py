"""Who takes part in the race of all methods: every algorithm, in its own norm, with its warm-up and loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from prgd import algorithms
from prgd.datasets import toy
from prgd.problem import Problem
from prgd.schedules import Every, Geometric, Polynomial, PolynomialPhases
from prgd_paper import methods

# Families share a colour in the figure.
PLAIN, SCALED, FAST, RESCALED, HULL = "plain", "loss-scaled", "accelerated", "rescaled", "hull"
OTHER = "other"


@dataclass(frozen=True)
class Raced:
    """An algorithm of the race, the norm of its margins, its loss, and the method of its warm-up.

    ``note`` says why an algorithm without an entry here could not be run, and is empty if it could.
    """

    name: str
    algorithm: Any
    family: str
    norm: str = "l2"
    loss: str = "exponential"
    warm_up: Any = None
    note: str = ""

    @property
    def is_joint(self) -> bool:
        """Whether the norm is one of matrices: the set has three classes then."""
        return self.norm == "spectral"

    @property
    def slug(self) -> str:
        """The name as files have it."""
        kept = [c if c.isalnum() else "-" for c in self.name.lower().replace("_", ".")]
        return "-".join(part for part in "".join(kept).split("-") if part)


def listed(growth: float, phase: int, alpha: float, beta: float, other_growth: float) -> list[Raced]:
    """Return the methods that are written down here.

    Parameters
    ----------
    growth, phase, alpha, beta : the schedules of PRGD in l2, as in `prgd_paper.reproduce.curves.Schedules`.
    other_growth : the ratio of successive radii of PRGD in the other norms.
    """
    exp = algorithms.PRGD(Geometric(growth), Every(phase))
    poly = algorithms.PRGD(Polynomial(alpha), PolynomialPhases(phase, beta))
    slower = algorithms.PRGD(Geometric(other_growth), Every(phase))
    found = [
        Raced("GD", algorithms.GD(), PLAIN),
        Raced("large-step GD", methods.LargeStepGD(), PLAIN, loss="logistic"),
        Raced("NGD", algorithms.NGD(), SCALED),
        Raced("loss-scaled GD", algorithms.LossScaledGD(), SCALED),
        Raced("adaptive GD", methods.AdaptiveGD(), SCALED),
        Raced("dual acceleration", algorithms.DualAcceleration(), FAST),
        Raced("game dynamics", methods.GameDynamics(), FAST),
        Raced("restarted NGD", methods.RestartedNGD(), FAST),
        Raced("PRGD(exp)", exp, RESCALED, warm_up=algorithms.GD()),
        Raced("PRGD(poly)", poly, RESCALED, warm_up=algorithms.GD()),
        Raced("gated PRGD", methods.GatedPRGD(), RESCALED),
        Raced("progressive-rescaling Newton", algorithms.ProgressiveNewton(), RESCALED),
        Raced("normalized perceptron", methods.NormalizedPerceptron(), HULL),
        Raced("away-step Frank-Wolfe", methods.AwayStepFrankWolfe(), HULL),
        Raced("MDM", methods.MDM(), HULL),
    ]
    kinds = {"linf": "sign descent", "l1": "coordinate descent", "lp:3": "l3 descent"}
    for norm, name in (kinds | {"spectral": "spectral descent"}).items():
        # The theorem for matrices is about steps of a given length and cross-entropy.
        is_matrix = norm == "spectral"
        falling, loss = (
            algorithms.SteepestDescent(normalized=is_matrix, power=0.5),
            "logistic" if is_matrix else "exponential",
        )
        found += [
            Raced(name, algorithms.SteepestDescent(), SCALED, norm),
            Raced(f"{name}, falling steps", falling, SCALED, norm, loss),
            Raced(f"PRGD, {name}", slower, RESCALED, norm, warm_up=algorithms.SteepestDescent()),
        ]
        if norm in {"linf", "l1"}:  # in the others `InsidePRGD` has no step of its own
            inside = methods.InsidePRGD(slower.R, slower.T)
            found.append(
                Raced(f"inside PRGD, {name}", inside, RESCALED, norm, warm_up=algorithms.SteepestDescent())
            )
    return [
        *found,
        Raced("Adam", methods.Adam(), PLAIN, "linf"),
        Raced("mirror descent", methods.MirrorDescent(p=3.0), PLAIN, "lp:3"),
        Raced("loss-scaled mirror descent", methods.MirrorDescent(p=3.0, loss_scaled=True), SCALED, "lp:3"),
    ]


def unlisted(known: list[Raced]) -> list[Raced]:
    """Return a method for each algorithm of `prgd.algorithms` that no method runs yet, with its defaults.

    The first norm, loss and start of which its ``init`` makes a state on the toy set are taken.
    """
    run = {type(method.algorithm) for method in known}
    return [_tried(name, kind) for name, kind in algorithms.all_algorithms().items() if kind not in run]


def _tried(name: str, kind: Any) -> Raced:
    X, y = toy(0.3)
    reason = ""
    for norm in ("l2", "linf", "l1"):
        for loss in ("exponential", "logistic"):
            for warm_up in (None, algorithms.SteepestDescent()):
                method = Raced(name, None, OTHER, norm, loss, warm_up)
                try:
                    algorithm = kind()
                    problem = Problem(X, y, norm=norm, loss=loss, n_jobs=1)
                    start = problem.at(np.zeros(problem.shape)).dual_vector if warm_up else np.zeros(2)
                    algorithm.init(problem, start)
                    return Raced(name, algorithm, OTHER, norm, loss, warm_up)
                except (TypeError, ValueError) as error:
                    reason = reason or str(error)
    return Raced(name, method.algorithm, OTHER, note=reason)
