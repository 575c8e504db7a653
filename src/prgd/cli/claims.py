"""The command ``prgd claims``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prgd.cli.common import Debug, one_line_errors


def claims_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Claims by name or by its beginning, e.g. lemma-c; default all."
        ),
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="Name the claims without measuring them.")
    ] = False,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the verdicts as JSON.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Measure the paper's lemmas and theorems, and print a verdict and a figure for each."""
    with one_line_errors(debug):
        from prgd.theory.claims import main as run_claims

        run_claims(names or (), list_only, json)
