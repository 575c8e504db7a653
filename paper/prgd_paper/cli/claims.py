"""The command ``prgd claims``. Quick to import."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TextIO

import typer

from prgd.cli import outcome
from prgd.cli.common import Debug, one_line_errors, option
from prgd_paper.claims import Claim, Finding, Judgement, registered
from prgd_paper.claims.registry import OURS_HEAD, choose, crosses, discover, summary


def complete_claim(incomplete: str) -> list[str]:
    """Return the claims that the text may become."""
    return [name for name in all_claims() if name.startswith(incomplete.lower())]


def claims_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Claims by name or by its beginning, e.g. lemma-c; default all.",
            autocompletion=complete_claim,
        ),
    ] = None,
    list_only: Annotated[bool, option(None, "Name the claims without measuring them.", "--list")] = False,
    report: Annotated[
        Path, option(None, "The report whose rows decide the claims of experiments.", metavar="DIR")
    ] = Path("report"),
    json: Annotated[
        str | None,
        option(
            None,
            "Write the verdicts as JSON to FILE; - is standard output, which then holds nothing else.",
            metavar="FILE",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Measure what the paper states, and print a verdict and a figure for each statement.

    Lemmas and theorems are measured on the spot. What the paper says about its figures and tables is read
    from the rows that prgd reproduce left in the folder of the report.
    """
    with one_line_errors(debug, json):
        chosen = choose(all_claims(), names or ())
        if list_only:
            width = max(len(claim.name) for claim in chosen)
            for claim in chosen:
                print(f"{claim.name.ljust(width)}  {claim.where}")
            return
        outcome.check_json(json)
        words = sys.stderr if json == "-" else sys.stdout
        found = print_claims((measured(claim, report) for claim in chosen), words)
        outcome.write_json(json, [claim.to_dict() for claim in found])


def all_claims() -> dict[str, Claim]:
    """Return every claim of the theory and of the experiments, in the order of the paper."""
    from prgd_paper.reproduce import experiment

    discover("prgd_paper.theory.claims")
    experiment.choose()
    return registered()


def measured(claim: Claim, report: Path) -> Claim:
    """Return the claim with its finding; NOT_RUN if the report lacks the rows that it needs."""
    if not claim.needs_rows:
        return claim()
    from prgd_paper.reproduce.make import stored_rows

    found = stored_rows(claim.experiment, report)
    if found is None:
        missing = (
            f"{report} has not all rows that decide: prgd reproduce --only {claim.experiment} computes them."
        )
        return replace(claim, finding=Finding(Judgement.NOT_RUN, missing))
    return claim(*found)


def print_claims(claims: Iterable[Claim], file: TextIO | None = None) -> list[Claim]:
    """Print verdict, figure and sentence of each claim as it is measured, and a summary; return the claims.

    Parameters
    ----------
    claims : iterable of Claim
    file : text stream, optional
        Default: standard output.

    Examples
    --------
    >>> _ = print_claims([all_claims()["lemma-d.2"]()])  # doctest: +ELLIPSIS
    holds                lemma-d.2 (Lemma D.2, Appendix D)
        “For a fixed ...
    """
    out = sys.stdout if file is None else file
    found: list[Claim] = []
    for claim in claims:
        if claim.is_ours and not any(c.is_ours for c in found):
            print(f"{OURS_HEAD}\n", file=out)
        found.append(claim)
        print(_plain_lines(claim), file=out, flush=True)
    if failing := crosses(found):
        print("What does not hold, and why we say so:\n", file=out)
        for c in failing:
            said = f"{c.why} Setting from: {c.source}. Decided by: {c.comparison}."
            print(f"{c.name} ({c.where})\n{_indented(said)}\n", file=out)
    print(f"{summary(found)}; {sum(c.seconds for c in found):.0f} s.", file=out, flush=True)
    if missing := sorted({c.experiment for c in found if c.verdict is Judgement.NOT_RUN}):
        only = f" --only {missing[0]}" if len(missing) == 1 else ""
        print(f"prgd reproduce{only} computes the rows of those not yet run.", file=out, flush=True)
    return found


def _plain_lines(claim: Claim) -> str:
    head = f"{str(claim.verdict).ljust(19)}  {claim.name} ({claim.where})"
    return "\n".join([head, *map(_indented, _words(claim)), ""])


def _words(claim: Claim) -> list[str]:
    """Return what was said, run, asked and found, what decides, and what would change the verdict."""
    parts = (
        ("", claim.quotation),
        ("", claim.statement),
        ("Ran: ", claim.finding.setting),
        ("Asked: ", claim.question),
        ("Decided by: ", claim.comparison and f"{claim.comparison}."),
        ("", claim.sentence),
        ("Would change it: ", claim.finding.would_change),
    )
    return [label + words for label, words in parts if words]


def _indented(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="    ", subsequent_indent="    ")
