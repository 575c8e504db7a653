"""Published methods beyond the paper's own, one file each: ``prgd.algorithms`` finds them by entry point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prgd.algorithms import discover

if TYPE_CHECKING:  # At run time `discover` finds these names; a type checker needs them in writing.
    from prgd_paper.methods.adam import Adam as Adam
    from prgd_paper.methods.adaptive_gd import AdaptiveGD as AdaptiveGD
    from prgd_paper.methods.away_step_frank_wolfe import AwayStepFrankWolfe as AwayStepFrankWolfe
    from prgd_paper.methods.game_dynamics import GameDynamics as GameDynamics
    from prgd_paper.methods.gated_prgd import GatedPRGD as GatedPRGD
    from prgd_paper.methods.inside_prgd import InsidePRGD as InsidePRGD
    from prgd_paper.methods.large_step_gd import LargeStepGD as LargeStepGD
    from prgd_paper.methods.mdm import MDM as MDM
    from prgd_paper.methods.mirror_descent import MirrorDescent as MirrorDescent
    from prgd_paper.methods.normalized_perceptron import NormalizedPerceptron as NormalizedPerceptron
    from prgd_paper.methods.restarted_ngd import RestartedNGD as RestartedNGD

METHODS = discover(__name__)
globals().update({method.__name__: method for method in METHODS.values()})
