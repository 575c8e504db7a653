"""Print claims: a table on a terminal, plain lines where output is piped; JSON on demand."""

from __future__ import annotations

import json as json_module
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from prgd.theory.claims.registry import Claim, Entry, Verdict, choose, run_claims

COLOURS = {Verdict.HOLDS: "green", Verdict.CAVEAT: "yellow", Verdict.FAILS: "red"}


def print_claims(claims: Iterable[Claim], file: TextIO | None = None) -> None:
    """Print verdict, figure and sentence of each claim, and a summary.

    Parameters
    ----------
    claims : iterable of Claim
    file : text stream, optional
        Default: standard output. A table where it is a terminal, else plain lines.

    Examples
    --------
    >>> from prgd.theory.claims import run_claims
    >>> print_claims(run_claims(["lemma-d.2"]))  # doctest: +ELLIPSIS
    holds                lemma-d.2 (Lemma D.2, Appendix D)
        h(x) = ...
    """
    out = sys.stdout if file is None else file
    found = list(claims)
    if out.isatty():
        _print_table(found, out)
    else:
        for claim in found:
            print(_plain_lines(claim), file=out)
    print(_summary(found), file=out)


def main(names: Sequence[str] = (), list_only: bool = False, json: Path | None = None) -> None:
    """Run or list the named claims (default: all); the command ``prgd claims``.

    Parameters
    ----------
    names : sequence of str
        Names or beginnings of names.
    list_only : bool
        Name the claims and their places, without measuring.
    json : path, optional
        Also write the claims there.

    Examples
    --------
    >>> main(["lemma-d.2"], list_only=True)
    lemma-d.2  Lemma D.2, Appendix D
    """
    if list_only:
        _print_list(choose(names))
        return
    if json is not None:
        json.parent.mkdir(parents=True, exist_ok=True)
        json.touch()  # fail before the work, not after
    if sys.stdout.isatty():
        found = run_claims(names, show=_progress)
        print_claims(found)
    else:
        found = run_claims(names, show=lambda claim: print(_plain_lines(claim), flush=True))
        print(_summary(found))
    if json is not None:
        text = json_module.dumps([claim.to_dict() for claim in found], indent=2, allow_nan=False)
        json.write_text(text + "\n", encoding="utf-8")


def _print_list(entries: Iterable[Entry]) -> None:
    entries = list(entries)
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        print(f"{entry.name.ljust(width)}  {entry.where}")


def _progress(claim: Claim) -> None:
    print(f"{claim.name}: {claim.verdict} ({claim.seconds:.1f} s)", file=sys.stderr)


def _figure(claim: Claim) -> str:
    return f"{claim.measured:.4g} {claim.relation} {claim.expected:.4g}"


def _plain_lines(claim: Claim) -> str:
    head = f"{str(claim.verdict).ljust(19)}  {claim.name} ({claim.where})"
    body = [claim.statement, f"measured {_figure(claim)}", claim.sentence]
    lines = [textwrap.fill(part, 108, initial_indent="    ", subsequent_indent="    ") for part in body]
    return "\n".join([head, *lines, ""])


def _summary(claims: Sequence[Claim]) -> str:
    counts = ", ".join(
        f"{sum(c.verdict is verdict for c in claims)} {word}"
        for verdict, word in (
            (Verdict.HOLDS, "hold"),
            (Verdict.CAVEAT, "hold with a caveat"),
            (Verdict.FAILS, "do not hold"),
        )
    )
    return f"{len(claims)} claims: {counts}; {sum(c.seconds for c in claims):.0f} s."


def _print_table(claims: Sequence[Claim], out: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True)
    for name in ("claim", "verdict", "measured", "what was found"):
        table.add_column(name, no_wrap=name == "claim")
    for claim in claims:
        table.add_row(
            Text(claim.name),
            Text(str(claim.verdict), style=COLOURS[claim.verdict]),
            Text(_figure(claim)),
            Text(f"{claim.where}: {claim.statement}\n{claim.sentence}"),
        )
    Console(file=out).print(table)
