"""Algorithms, one file each: a file in this folder is found by its presence.

The stem of the file is the algorithm's name on the command line (``dual_acceleration.py`` is
``dual-acceleration``), and the file defines one dataclass of that name without underscores, in any case
(``DualAcceleration``). The fields of the dataclass are the options of ``prgd run --algorithm NAME``.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from prgd.algorithms.base import Algorithm as Algorithm
from prgd.algorithms.base import State as State
from prgd.checks import unknown

if TYPE_CHECKING:  # At run time `_discover` finds these names; a type checker needs them in writing.
    from prgd.algorithms.accelerated_prgd import AcceleratedPRGD as AcceleratedPRGD
    from prgd.algorithms.adam import Adam as Adam
    from prgd.algorithms.adaptive_gd import AdaptiveGD as AdaptiveGD
    from prgd.algorithms.away_step_frank_wolfe import AwayStepFrankWolfe as AwayStepFrankWolfe
    from prgd.algorithms.dual_acceleration import DualAcceleration as DualAcceleration
    from prgd.algorithms.game_dynamics import GameDynamics as GameDynamics
    from prgd.algorithms.gated_prgd import GatedPRGD as GatedPRGD
    from prgd.algorithms.gd import GD as GD
    from prgd.algorithms.inside_prgd import InsidePRGD as InsidePRGD
    from prgd.algorithms.large_step_gd import LargeStepGD as LargeStepGD
    from prgd.algorithms.loss_scaled_gd import LossScaledGD as LossScaledGD
    from prgd.algorithms.mdm import MDM as MDM
    from prgd.algorithms.mirror_descent import MirrorDescent as MirrorDescent
    from prgd.algorithms.ngd import NGD as NGD
    from prgd.algorithms.normalized_perceptron import NormalizedPerceptron as NormalizedPerceptron
    from prgd.algorithms.prgd import PRGD as PRGD
    from prgd.algorithms.progressive_newton import ProgressiveNewton as ProgressiveNewton
    from prgd.algorithms.restarted_ngd import RestartedNGD as RestartedNGD
    from prgd.algorithms.steepest_descent import SteepestDescent as SteepestDescent


def _discover() -> dict[str, Any]:
    """Return the algorithm of each file in this folder, by its name on the command line."""
    found = {}
    for stem in (module.name for module in iter_modules(__path__)):
        if stem == "base" or stem.startswith("_"):
            continue
        module = import_module(f"{__name__}.{stem}")
        classes = [value for value in vars(module).values() if isinstance(value, type)]
        named = [value for value in classes if value.__name__.lower() == stem.replace("_", "").lower()]
        if len(named) != 1:
            raise ImportError(
                f"{module.__file__} must define one algorithm whose class name is "
                f"{stem.replace('_', '')!r} in any case, as the file is named; found {len(named)}."
            )
        found[stem.replace("_", "-")] = named[0]
    return found


ALGORITHMS: dict[str, Any] = _discover()
globals().update({algorithm.__name__: algorithm for algorithm in ALGORITHMS.values()})


def find_algorithm(name: str) -> Any:
    """Return the algorithm of that name, e.g. ``"dual-acceleration"``, in any case.

    Raises
    ------
    ValueError
        If there is no such algorithm; the message names the nearest ones.
    """
    key = name.lower().replace("_", "-")
    if key not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS)
    return ALGORITHMS[key]
