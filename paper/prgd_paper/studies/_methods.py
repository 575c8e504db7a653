"""Who takes part in the race of all methods: every algorithm, in its own norm, with its warm-up and loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from prgd.algorithms import (
    GD,
    NGD,
    PRGD,
    AcceleratedPRGD,
    DualAcceleration,
    LossScaledGD,
    ProgressiveNewton,
    RestartedNGD,
    SteepestDescent,
    all_algorithms,
)
from prgd.datasets import toy
from prgd.problem import Problem
from prgd.schedules import Every, Geometric, Polynomial, PolynomialPhases
from prgd_paper.methods import (
    MDM,
    Adam,
    AdaptiveGD,
    AwayStepFrankWolfe,
    GameDynamics,
    GatedPRGD,
    InsidePRGD,
    LargeStepGD,
    MirrorDescent,
    NormalizedPerceptron,
)

# Families share a colour in the figure.
PLAIN, SCALED, FAST, RESCALED, HULL = "plain", "loss-scaled", "accelerated", "rescaled", "hull"
OTHER = "other"


@dataclass(frozen=True)
class Method:
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


def listed(growth: float, phase: int, alpha: float, beta: float, other_growth: float) -> list[Method]:
    """Return the methods that are written down here.

    Parameters
    ----------
    growth, phase, alpha, beta : the schedules of PRGD in l2, as in `prgd_paper.reproduce.curves.Schedules`.
    other_growth : the ratio of successive radii of PRGD in the other norms.
    """
    exp = PRGD(Geometric(growth), Every(phase))
    poly = PRGD(Polynomial(alpha), PolynomialPhases(phase, beta))
    slower = PRGD(Geometric(other_growth), Every(phase))
    found = [
        Method("GD", GD(), PLAIN),
        Method("large-step GD", LargeStepGD(), PLAIN, loss="logistic"),
        Method("NGD", NGD(), SCALED),
        Method("loss-scaled GD", LossScaledGD(), SCALED),
        Method("adaptive GD", AdaptiveGD(), SCALED),
        Method("dual acceleration", DualAcceleration(), FAST),
        Method("game dynamics", GameDynamics(), FAST),
        Method("restarted NGD", RestartedNGD(), FAST),
        Method("PRGD(exp)", exp, RESCALED, warm_up=GD()),
        Method("PRGD(poly)", poly, RESCALED, warm_up=GD()),
        Method("gated PRGD", GatedPRGD(), RESCALED),
        Method("accelerated PRGD", AcceleratedPRGD(), RESCALED),
        Method("progressive-rescaling Newton", ProgressiveNewton(), RESCALED),
        Method("normalized perceptron", NormalizedPerceptron(), HULL),
        Method("away-step Frank-Wolfe", AwayStepFrankWolfe(), HULL),
        Method("MDM", MDM(), HULL),
    ]
    kinds = {"linf": "sign descent", "l1": "coordinate descent", "lp:3": "l3 descent"}
    for norm, name in (kinds | {"spectral": "spectral descent"}).items():
        # The theorem for matrices is about steps of a given length and cross-entropy.
        is_matrix = norm == "spectral"
        falling, loss = (
            SteepestDescent(normalized=is_matrix, power=0.5),
            "logistic" if is_matrix else "exponential",
        )
        found += [
            Method(name, SteepestDescent(), SCALED, norm),
            Method(f"{name}, falling steps", falling, SCALED, norm, loss),
            Method(f"PRGD, {name}", slower, RESCALED, norm, warm_up=SteepestDescent()),
        ]
        if norm in {"linf", "l1"}:  # in the others `InsidePRGD` has no step of its own
            inside = InsidePRGD(slower.R, slower.T)
            found.append(Method(f"inside PRGD, {name}", inside, RESCALED, norm, warm_up=SteepestDescent()))
    return [
        *found,
        Method("Adam", Adam(), PLAIN, "linf"),
        Method("mirror descent", MirrorDescent(p=3.0), PLAIN, "lp:3"),
        Method("loss-scaled mirror descent", MirrorDescent(p=3.0, loss_scaled=True), SCALED, "lp:3"),
    ]


def unlisted(known: list[Method]) -> list[Method]:
    """Return a method for each algorithm of `prgd.algorithms` that no method runs yet, with its defaults.

    The first norm, loss and start of which its ``init`` makes a state on the toy set are taken.
    """
    run = {type(method.algorithm) for method in known}
    return [_tried(name, kind) for name, kind in all_algorithms().items() if kind not in run]


def _tried(name: str, kind: Any) -> Method:
    X, y = toy(0.3)
    reason = ""
    for norm in ("l2", "linf", "l1"):
        for loss in ("exponential", "logistic"):
            for warm_up in (None, SteepestDescent()):
                method = Method(name, None, OTHER, norm, loss, warm_up)
                try:
                    algorithm = kind()
                    problem = Problem(X, y, norm=norm, loss=loss, n_jobs=1)
                    start = problem.at(np.zeros(problem.shape)).dual_vector if warm_up else np.zeros(2)
                    algorithm.init(problem, start)
                    return Method(name, algorithm, OTHER, norm, loss, warm_up)
                except (TypeError, ValueError) as error:
                    reason = reason or str(error)
    return Method(name, method.algorithm, OTHER, note=reason)
