"""The command ``prgd separability``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from prgd.cli import common, outcome
from prgd.cli.data import open_data
from prgd.options import from_options, options_of

if TYPE_CHECKING:
    from prgd.separation import Separability


@dataclass(frozen=True)
class SeparabilityOptions(common.SeparatorOptions):
    """Options of ``prgd separability``."""

    json: str | None = outcome.json_option()


@common.with_options(options_of(SeparabilityOptions))
def separability_command(data: common.Data, debug: common.Debug = False, **given: Any) -> None:
    """Say whether a hyperplane separates the classes of DATA, and prove it.

    Exit code 0: decided, whatever the answer. 1: undecided. 2: an error. 130: Ctrl-C.

    Example: prgd separability cancer --no-intercept
    """
    with common.one_line_errors(debug, given["json"]):
        options = from_options(SeparabilityOptions, given)
        outcome.check_json(options.json)
        name, rows = open_data(data, options)
        from prgd.separation import Verdict, separability

        found = separability(rows, fit_intercept=options.intercept)
        if outcome.is_printed(False, options.json):
            print(found)
        outcome.write_json(options.json, {"data": name, "n": rows.n, **_facts(found)})
        if found.is_interrupted:
            raise KeyboardInterrupt
        if found.verdict is Verdict.UNDECIDED:
            raise typer.Exit(outcome.NOT_CERTIFIED)


def _facts(found: Separability) -> dict[str, Any]:
    """Return the verdict and its proof for ``--json``; of the dual weights only those above 0."""
    facts: dict[str, Any] = {"verdict": str(found.verdict), "is_separable": found.is_separable}
    for name, value in vars(found).items():
        if name == "dual_weights" and value is not None:
            carried = np.flatnonzero(value)
            facts["dual_weights"] = {"rows": carried.tolist(), "values": value[carried].tolist()}
        elif name not in ("verdict", "proof"):
            facts[name] = value
    return facts
