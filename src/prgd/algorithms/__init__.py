"""Algorithms, one file each. Import a new one here: the command line finds it by name."""

from __future__ import annotations

import re
from typing import Any

from prgd.algorithms.base import Algorithm, State
from prgd.algorithms.dual_acceleration import DualAcceleration
from prgd.algorithms.game_dynamics import GameDynamics
from prgd.algorithms.gated_prgd import GatedPRGD
from prgd.algorithms.gd import GD
from prgd.algorithms.loss_scaled_gd import LossScaledGD
from prgd.algorithms.ngd import NGD
from prgd.algorithms.prgd import PRGD
from prgd.algorithms.progressive_newton import ProgressiveNewton
from prgd.checks import unknown

__all__ = [
    "ALGORITHMS",
    "GD",
    "NGD",
    "PRGD",
    "Algorithm",
    "DualAcceleration",
    "GameDynamics",
    "GatedPRGD",
    "LossScaledGD",
    "ProgressiveNewton",
    "State",
    "find_algorithm",
]


def _name(algorithm: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", algorithm.__name__).lower()


ALGORITHMS: dict[str, Any] = {
    _name(algorithm): algorithm
    for algorithm in (
        GD,
        NGD,
        PRGD,
        LossScaledGD,
        DualAcceleration,
        GameDynamics,
        GatedPRGD,
        ProgressiveNewton,
    )
}


def find_algorithm(name: str) -> Any:
    """Return the algorithm of that name, e.g. ``"dual-acceleration"``; else name the nearest ones."""
    key = name.lower().replace("_", "-")
    if key not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS)
    return ALGORITHMS[key]
