"""What a command says of its outcome: the lines of the table, the JSON object and the exit code."""

import json
import math
import sys
from pathlib import Path
from typing import Any

from prgd.cli.options import OUTPUT, option
from prgd.core.checks import check_parent, plain
from prgd.core.files import atomic_write
from prgd.problem.certificate import shown_lower
from prgd.running.history import Status
from prgd.running.result import Result

# One meaning for each code in every command, which docs/command_line.md says in words.
NOT_CERTIFIED, ERROR, NOT_SEPARABLE, INTERRUPTED = 1, 2, 3, 130


def json_option() -> Any:
    """Return the field of the option ``--json``."""
    text = "Write the outcome as JSON to FILE; alone, to standard output, which then holds nothing else."
    return option(None, text, panel=OUTPUT, metavar="FILE", shown_default="no JSON")


def check_json(target: str | None, *others: Path | None, folder: Path | None = None) -> None:
    """Check that the file of ``--json`` can be written, before long work starts; ``folder`` will be made."""
    if target is None or target == "-":
        return
    path = Path(target)
    if path.is_dir() or any(other is not None and path.resolve() == other.resolve() for other in others):
        raise ValueError(f"--json expects - or a file of its own; got {target}. Name another file.")
    if folder is None or path.parent.resolve() != folder.resolve():
        check_parent(path, "--json")


def write_json(target: str | None, facts: Any) -> None:
    """Write what ``--json`` asks for; numbers that are not finite become null."""
    if target is None:
        return
    text = json.dumps(plain(facts, lambda x: x if math.isfinite(x) else None), indent=1, allow_nan=False)
    if target == "-":
        sys.stdout.write(text + "\n")
    else:
        with atomic_write(target, "w") as file:
            file.write(text + "\n")


def is_printed(quiet: bool, target: str | None) -> bool:
    """Say whether the table is printed: not with ``--quiet``, nor if standard output holds JSON."""
    return not quiet and target != "-"


def facts_of(result: Result) -> dict[str, Any]:
    """Return what a Result holds for ``--json``, by the names of its attributes."""
    options = ("fit_intercept", "norm", "multi_class", "scale", "C", "algorithm")
    bounds = ("is_separable", "margin", "upper_bound", "gap", "cosine")
    found = ("feature_names", "coef", "intercept", "support", "dual_weights", "n", "t", "passes")
    return {
        "problem": result.problem_in_words,
        **{name: getattr(result, name) for name in options},
        "status": result.status.name,
        "message": str(result.status),
        **{name: getattr(result, name) for name in (*bounds, *found)},
    }


def exit_code(result: Result, is_certificate_asked: bool = True) -> int:
    """Return the exit code that belongs to the status of a result."""
    if result.status is Status.INTERRUPTED:
        return INTERRUPTED
    if result.is_separable is False:
        return NOT_SEPARABLE
    is_short = is_certificate_asked and result.status is not Status.CERTIFIED
    return NOT_CERTIFIED if is_short or result.status is Status.DIVERGED else 0


def bounds(result: Result, no_separator: str) -> list[tuple[str, str]]:
    """Return the lines of the table with both bounds; ``no_separator`` says why there is no gap."""
    lower, upper = shown_lower(result.margin), result.upper_bound
    name = "margin" if math.isinf(result.C) else "soft margin"
    return [
        (f"{name}, lower bound", f"{lower:.9g}" if lower > 0.0 else f"{lower:.9g} ({no_separator})"),
        (f"{name}, upper bound", f"{upper:.9g}"),
        ("relative gap", f"{result.gap:.2e}" if lower > 0.0 else f"none ({no_separator})"),
        *([("cosine to the exact w", result.cosine_in_words)] if result.cosine > 0.0 else []),
    ]
