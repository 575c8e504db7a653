"""The command ``prgd separability``."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from prgd.cli import common
from prgd.cli.data import open_data
from prgd.options import from_options, options_of

if TYPE_CHECKING:
    from prgd.separation import Separability


@dataclass(frozen=True)
class SeparabilityOptions(common.SeparatorOptions):
    """Options of ``prgd separability``."""

    json: bool = common.output_option(False, "Print one JSON object instead of words.")


@common.with_options(options_of(SeparabilityOptions))
def separability_command(data: common.Data, debug: common.Debug = False, **given: Any) -> None:
    """Say whether a hyperplane separates the classes of DATA, and prove it.

    Exit code 0: decided, whatever the answer. 1: undecided. 2: an error.

    Example: prgd separability cancer --no-intercept
    """
    with common.one_line_errors(debug):
        options = from_options(SeparabilityOptions, given)
        _, rows = open_data(data, options)
        from prgd.separation import Verdict, separability

        found = separability(rows, fit_intercept=options.intercept)
        print(json.dumps(_facts(found), indent=1) if options.json else found)
        if found.verdict is Verdict.UNDECIDED:
            raise typer.Exit(common.UNDECIDED)


def _facts(found: Separability) -> dict[str, Any]:
    """Return the verdict and its proof as JSON takes them: null for NaN, and only the weights above 0."""
    facts: dict[str, Any] = {"verdict": str(found.verdict), "is_separable": found.is_separable}
    for name, value in vars(found).items():
        if name == "dual_weights" and value is not None:
            carried = np.flatnonzero(value)
            facts["dual_weights"] = {"rows": carried.tolist(), "values": value[carried].tolist()}
        elif isinstance(value, np.ndarray):
            facts[name] = value.tolist()
        elif name not in ("verdict", "proof"):
            facts[name] = None if isinstance(value, float) and not math.isfinite(value) else value
    return facts
