"""The command ``prgd race``. It holds no mathematics, and is quick to import."""

from __future__ import annotations

import json
import re
import shlex
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import prgd
from prgd.algorithms import all_algorithms
from prgd.cli import common, methods, outcome
from prgd.cli.common import data_option, option, output_option, stop_option
from prgd.cli.data import open_data
from prgd.cli.options import Option, from_options, options_of
from prgd.core.checks import check_writable
from prgd.norms import L2, Norm
from prgd.problem import Problem
from prgd.problem.certificate import shown_lower
from prgd.running.history import ROUNDING, Status

if TYPE_CHECKING:
    from prgd_paper.race import Entrant

LABEL = re.compile(r"([^\s=:-][^=:]*?)\s*=\s*(?=[^\s=])")
FILES = ("race.csv", "race.json", "race.png", "race.svg", "race.pdf")


@dataclass(frozen=True)
class RaceOptions(common.MarginOptions):
    """Options of ``prgd race``."""

    loss: str = data_option("exponential", "exponential or logistic.")
    scale: str = data_option("max", "max: step sizes suit rows of any norm; none: eta is taken literally.")
    steps: int = stop_option(5000, "Step limit of each algorithm, its warm-up counted.", minimum=1)
    gap: float | None = stop_option(
        None, "An algorithm ends at this certified relative gap.", metavar="TOL", shown_default="none"
    )
    patience: int | None = methods.patience_option()
    out: Path | None = output_option(  # noqa: RUF009 - `option` returns a field
        None,
        "Folder for race.csv (both bounds of each algorithm), race.json, and the curves (png, svg, pdf).",
        shown_default="nothing is written",
    )
    force: bool = output_option(False, "Replace the files of an earlier race in --out.")
    quiet: bool = output_option(False, "Print errors and warnings only.")


@common.with_options(options_of(RaceOptions))
def race_command(
    data: Annotated[str, option(common.DATA, "As for prgd run: a file or a built-in set.", metavar="DATA")],
    algorithms: Annotated[
        list[str] | None,
        typer.Argument(metavar="ALGORITHM", show_default=False, help=f"{', '.join(all_algorithms())}."),
    ] = None,
    own: Annotated[
        list[str] | None,
        option(
            common.METHOD,
            "An algorithm of yours: a class or a value in a Python file; may be repeated.",
            "--algorithm",
            metavar="FILE.py:NAME",
            show_default=False,
        ),
    ] = None,
    debug: common.Debug = False,
    **given: Any,
) -> None:
    """Race algorithms on one data set for the largest margin, and draw both bounds against steps and time.

    Each ALGORITHM is a name, or in quotes a name with options as prgd run takes them, after a label if you
    like. prgd starts from gd:1000 unless its --warm-up says otherwise; the steps of a warm-up count.

    Example: prgd race ngd prgd dual-acceleration --data synthetic-one:0 --no-intercept --out race

    There PRGD falls exponentially after its warm-up, where NGD closes in like 1/t; dual acceleration, which
    needs no warm-up, is there in fewer steps. On digits:0,1 the radii of prgd outgrow its steps.
    """
    with common.one_line_errors(debug):
        from prgd_paper.race import check_starts, race

        o = from_options(RaceOptions, given)
        entrants = [
            replace(e, rules=tuple(methods.stall_rules(e.algorithm, o.patience)))
            for e in read_entrants([*(algorithms or []), *(own or [])], o.margin_norm)
        ]
        if o.out is not None:
            if not o.force and (there := [name for name in FILES if (o.out / name).exists()]):
                raise ValueError(
                    f"{o.out} has the files of an earlier race ({', '.join(there)}). Give another --out, or "
                    "--force to replace them."
                )
            check_writable(o.out)
        name, rows, *_ = open_data(data, o)
        kind: Any = {"norm": o.margin_norm, "fit_intercept": o.fit_intercept}
        problem = Problem(rows, loss=o.loss, scale=o.scale, **kind)
        check_starts(problem, entrants)
        kind["multi_class"] = "joint" if problem.is_joint else None
        best = prgd.max_margin(rows, tol=1e-9, n_jobs=o.n_jobs, **kind)
        if best.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if not best.certificate.lower > 0.0:
            raise ValueError(f"{name}: there is no margin to race for. {best.status}")
        is_shown = not o.quiet and sys.stderr.isatty()
        found = race(problem, entrants, steps=o.steps, gap=o.gap, progress=is_shown)
        if not found:
            raise KeyboardInterrupt
        known = (
            max(best.certificate.lower, *(finish.certificate.lower for finish in found)),
            min(best.certificate.upper, *(finish.certificate.upper for finish in found)),
        )
        title = _title(name, problem)
        written = [] if o.out is None else _write(o.out, found, known, title, entrants)
        if not o.quiet:
            _print(found, known, title, entrants, written, problem.norm)
        if found[-1].status is Status.INTERRUPTED or len(found) < len(entrants):
            done = len(found) - (found[-1].status is Status.INTERRUPTED)
            common.say(f"Interrupted; {done} of {len(entrants)} algorithms ended.")
            raise typer.Exit(outcome.INTERRUPTED)


def _title(name: str, problem: Problem) -> str:
    """Return the data and the problem of a race in words."""
    intercept = "with an intercept" if problem.fit_intercept else "through the origin"
    title = f"{name}, {problem.n:,} x {problem.d:,}, {intercept}, {problem.loss} loss"
    title += f", {problem.shape[0]} classes jointly" * problem.is_joint
    return title + f", {problem.norm} margin" * (problem.norm != L2())


def _print(
    found: Sequence[Any],
    known: tuple[float, float],
    title: str,
    entrants: Sequence[Any],
    written: list[Path],
    norm: Norm,
) -> None:
    """Print the problem, a line for each algorithm, why some stalled, the best margin, what was written."""
    lines = [
        {
            "algorithm": f.name,
            "status": "converged" if _is_at_rounding(f) else f.status.name.lower().replace("_", " "),
            "margin": f"{shown_lower(f.certificate.lower):.9g}",
            "upper bound": f"{f.certificate.upper:.9g}",
            "gap": f"{f.certificate.gap:.1e}" if f.certificate.lower > 0.0 else "none yet",
            "steps": f"{f.steps:,}",
            "passes": f"{f.passes:,}",
            "seconds": f"{f.seconds:.2f}",
        }
        for f in found
    ]
    print(title)
    # Plain columns fit into 80 characters if names are short, and no number is ever cut off.
    widths = {head: max(len(head), *(len(line[head]) for line in lines)) for head in lines[0]}
    for line in [{head: head for head in widths}, *lines]:
        cells = [
            text.ljust(widths[head]) if head in ("algorithm", "status") else text.rjust(widths[head])
            for head, text in line.items()
        ]
        print("  ".join(cells))
    for f, e in zip(found, entrants, strict=False):
        if f.status is Status.STALLED:
            since, ends = f.steps - e.rules[0].window, (f.certificate.gap, e.algorithm, e.warm_up)
            print(f"{f.name}: {methods.stalled_text(since, *ends, norm, is_race=True)}")
    print(f"best known margin: {known[0]:.9g}, at most {known[1] - known[0]:.1e} below the largest one")
    if written:
        print(f"files: {', '.join(map(str, written))}")


def _is_at_rounding(finish: Any) -> bool:
    """Say whether a run ended by its rules or its limit where rounding keeps the gap."""
    return finish.status in (Status.CONVERGED, Status.MAX_STEPS) and finish.certificate.gap <= ROUNDING


def _write(
    out: Path, found: Sequence[Any], known: tuple[float, float], title: str, entrants: Sequence[Any]
) -> list[Path]:
    """Write rows, record and figures, and return their paths."""
    from prgd_paper.race import figure
    from prgd_paper.report import static
    from prgd_paper.reproduce.store import facts, to_csv, write_whole

    write_whole(out / FILES[0], to_csv(row for finish in found for row in finish.rows))
    record = facts() | {
        "problem": title,
        "best_known_margin": known[0],
        "upper_bound": known[1],
        "algorithms": [
            {
                "name": f.name,
                "algorithm": repr(e.algorithm),
                "warm_up": f"{e.warm_up!r}, {e.warm_up_steps} steps" if e.warm_up_steps else None,
                "status": f.status.name,
                **{name: getattr(f, name) for name in ("steps", "passes", "seconds")},
                "margin": f.certificate.lower,
                "upper_bound": f.certificate.upper,
                "gap": f.certificate.gap,
            }
            for f, e in zip(found, entrants, strict=False)
        ],
    }
    write_whole(out / FILES[1], f"{json.dumps(record, indent=1)}\n".encode())
    static.write(figure(found, known, title), out, is_titled=True)
    return [out / name for name in FILES]


def read_entrants(texts: Iterable[str], margin_norm: str = "l2") -> list[Entrant]:
    """Return the algorithm that each text names, e.g. ``poly=prgd --radius polynomial:0.6``."""
    found = [read_entrant(text, margin_norm) for text in texts]
    if not found:
        raise ValueError(
            "prgd race expects at least one algorithm, e.g. prgd race ngd prgd --data digits:0,1."
        )
    if twice := [name for name, count in Counter(e.name for e in found).items() if count > 1]:
        raise ValueError(f"Two algorithms are called {twice[0]!r}. Give one a label: other={twice[0]}.")
    return found


def read_entrant(text: str, margin_norm: str = "l2") -> Entrant:
    """Return the algorithm of a text ``[LABEL=]NAME [OPTIONS]`` or ``[LABEL=]FILE.py:NAME [OPTIONS]``."""
    from prgd_paper.race import Entrant

    label = LABEL.match(text)
    words = shlex.split(text[label.end() :] if label else text)
    if not words:
        raise ValueError(f"Expected the name of an algorithm; got {text!r}.")
    name, *rest = words
    form = methods.find_form(name)
    given, warm_up = _read_options(name, methods.options_by_field(form), rest)
    method = methods.build_algorithm(name, given, form)
    shown = label[1] if label else " ".join([name.rpartition(":")[2] if ".py:" in name else name, *rest])
    warm_up = warm_up or (
        methods.default_warm_up(margin_norm, given) if isinstance(method, prgd.PRGD) else "0"
    )
    first, steps = (None, 0) if warm_up == "0" else methods.parse_warm_up(warm_up, given)
    return Entrant(shown, method, first, steps)


class _Parser(ArgumentParser):
    """Raise ``ValueError`` where argparse would print and exit."""

    def error(self, message: str) -> NoReturn:
        """Raise the message as an error about the algorithm that was typed, with its options."""
        flags = ", ".join(
            flag for flag in self._option_string_actions if flag not in ("--warmup", "-R", "-T")
        )
        raise ValueError(f"{self.prog}: {message}. In a race it takes {flags}.")


def _read_options(
    name: str, known: dict[str, Option], words: list[str]
) -> tuple[dict[str, methods.Given], Any]:
    """Return the options that were given, by field, and the text of the warm-up."""
    parser = _Parser(prog=name, add_help=False, allow_abbrev=False)
    parser.add_argument("--warm-up", "--warmup")
    for field, o in known.items():
        if o.kind is bool:
            parser.add_argument(*o.flags, dest=field, action="store_true", default=None)
            parser.add_argument(f"--no-{o.flags[0][2:]}", dest=field, action="store_false", default=None)
        else:
            parser.add_argument(*o.flags, dest=field, type=o.kind if o.kind in (int, float) else str)
    if "T" in known:
        parser.add_argument("--every", dest="T", type=int)
    found = vars(parser.parse_args(words))
    warm_up = found.pop("warm_up")
    return {f: (known[f].flags[0], v) for f, v in found.items() if v is not None}, warm_up
