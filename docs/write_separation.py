"""Run the examples of `docs/separation.md`, and write what they print, and the times measured, into the page.

    python docs/write_separation.py            # print the page
    python docs/write_separation.py --write    # write it

Blocks of Python share their names from top to bottom, and lines of a shell that begin with ``prgd`` are run
too. A block ``text`` right after a block is what it prints; warnings are lines of it, without their place.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("separation.md")
RECORD = Path(__file__).parents[1] / "benchmarks/records/separation_coefficients.json"
BLOCK = re.compile(r"```(python|sh)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
BEGIN, END = "<!-- separation_coefficients: begin -->\n", "<!-- separation_coefficients: end -->"


def outputs(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Run the blocks of a page in an empty folder; yield each with what it prints."""
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, kind, *_: print(f"{kind.__name__}: {message}")
        for block in BLOCK.finditer(text):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                if block[1] == "python":
                    exec(compile(block[2], PAGE.name, "exec"), names)  # noqa: S102
                else:
                    _run_commands(block[2])
            yield block, "\n".join(line.rstrip() for line in printed.getvalue().splitlines())


def _run_commands(lines: str) -> None:
    from prgd.cli.app import app

    for line in lines.splitlines():
        if line.startswith("prgd "):
            with contextlib.suppress(SystemExit):  # as every command ends; an error prints nothing here
                app(shlex.split(line, comments=True)[1:])


def times() -> str:
    """Return the times measured by benchmarks/separation_coefficients.py as a table."""
    if not RECORD.exists():
        return "*Not measured yet.*\n"
    record = json.loads(RECORD.read_text())
    rows = [
        "| set | rows x columns | infinite | separability, s | check, s | HiGHS, s | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in record["sets"]:
        words = one["coefficients"]
        infinite = sum(words.get(word, 0) for word in ("+inf", "-inf", "either"))
        is_whole = one["highs_decided"] == one["highs_needed"]
        highs = f"{one['highs_total_seconds']:,.3g}" if is_whole else f"({one['highs_total_seconds']:,.0f})"
        cells = [
            one["set"],
            f"{one['n']:,} x {one['d']:,}",
            f"{infinite:,} of {sum(words.values()):,}",
            f"{one['seconds']:.2f}",
            f"{one['check_seconds']:.2f}",
            highs,
            f"{one['ratio']:.2g}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*rows, "", f"Geometric mean of the ratios: {record['geometric_mean']:.2g}.", ""])


def written(text: str) -> str:
    """Return the page with what its examples print, and with the times measured."""
    parts, end = [], 0
    for block, printed in outputs(text):
        parts += [text[end : block.start()], f"```{block[1]}\n{block[2]}```\n"]
        parts += [f"\n```text\n{printed}\n```\n"] * bool(printed)
        end = block.end()
    before, _, rest = "".join([*parts, text[end:]]).partition(BEGIN)
    return before + BEGIN + times() + END + rest.partition(END)[2]


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "120")
    page = written(PAGE.read_text())
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page)
    else:
        print(page)
