"""The command ``prgd separability``."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from prgd.cli import common
from prgd.cli.data import open_data

if TYPE_CHECKING:
    from prgd.separation import Separability


def separability_command(
    data: common.Data,
    label: common.Label = None,
    out_of_core: common.OutOfCore = False,
    max_memory: common.MaxMemory = None,
    threads: common.Threads = None,
    intercept: common.Intercept = True,
    as_json: Annotated[
        bool, common.option(common.OUTPUT, "Print one JSON object instead of words.", "--json")
    ] = False,
    debug: common.Debug = False,
) -> None:
    """Say whether a hyperplane separates the classes of DATA, and prove it.

    Exit code 0: decided, whatever the answer. 1: undecided. 2: an error.

    Example: prgd separability cancer --no-intercept
    """
    with common.one_line_errors(debug):
        _, rows = open_data(data, label, out_of_core, max_memory, threads)
        from prgd.separation import Verdict, separability

        found = separability(rows, fit_intercept=intercept)
        print(json.dumps(_facts(found), indent=1) if as_json else found)
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
        elif name not in ("verdict", "feature_names", "proof"):
            facts[name] = None if isinstance(value, float) and not math.isfinite(value) else value
    return facts
