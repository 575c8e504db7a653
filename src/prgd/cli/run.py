"""The command ``prgd run``. It holds no mathematics, and is quick to import."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

import prgd
from prgd.cli import common, outcome
from prgd.cli.algorithm_options import (
    STEEPEST_WARM_UP,
    WARM_UP,
    Given,
    algorithm_options,
    build_named,
    default_warm_up,
    given_options,
    parse_warm_up,
)
from prgd.cli.common import data_option, output_option, stop_option
from prgd.cli.complete import complete_algorithm
from prgd.cli.data import open_data
from prgd.cli.options import from_options, option, options_of
from prgd.cli.run_folder import RESULT, WARMUP, check_free, clear, folder_of, is_of, load_start
from prgd.cli.standstill import patience_option, stall_rules, status_text
from prgd.core.checks import check_writable
from prgd.norms import L2, as_norm
from prgd.problem import Problem
from prgd.problem.certificate import NO_SEPARATOR
from prgd.running.history import Status
from prgd.running.result import Result
from prgd.running.stopping import Stop, any_of


@dataclass(frozen=True)
class RunOptions(common.MarginOptions):
    """Options of ``prgd run`` beside those of the algorithms."""

    loss: str = data_option("exponential", "exponential or logistic.")
    scale: str = data_option("max", "max: step sizes suit rows of any norm; none: eta is taken literally.")
    algorithm: str = option(
        "prgd",
        f"{', '.join(prgd.algorithms.all_algorithms())}, or FILE.py:NAME, a class or a value of yours.",
        metavar="NAME",
        complete=complete_algorithm,
    )
    warm_up: str | None = option(
        None,
        "Start where N steps of another algorithm end; 0 starts at w = 0, which prgd, a rescaling, cannot.",
        flags=("--warm-up", "--warmup"),
        metavar="NAME:N",
        shown_default=f"{WARM_UP} for prgd (Appendix E.1), {STEEPEST_WARM_UP} in other norms; else 0",
    )
    every: int | None = option(None, "Steps of prgd from one rescaling to the next.", shown_default="5")
    steps: int = stop_option(1000, "Step limit; a warm-up does not count, resumed parts do.", minimum=0)
    gap: float | None = stop_option(
        None, "Stop when the certified relative gap is at most TOL.", metavar="TOL", shown_default="none"
    )
    patience: int | None = patience_option(common.STOP)
    resume: Path | None = stop_option(  # noqa: RUF009 - `option` returns a field
        None,
        "Go on from the folder of an earlier run, or from its result.npz or warmup-result.npz, bit for "
        "bit as if it had not stopped.",
        metavar="PATH",
    )
    out: Path | None = output_option(  # noqa: RUF009 - `option` returns a field
        None,
        "Folder for history.csv, warmup.csv, result.npz and gap.png.",
        shown_default="that of --resume; else nothing is written",
    )
    force: bool = output_option(False, "Replace the files of an earlier run in --out.")
    save_every: float = output_option(
        30.0, "Seconds between the results so far that are written to --out, for --resume.", metavar="SECONDS"
    )
    record: int = output_option(1, "Keep every N-th step in the history.", minimum=1)
    quiet: bool = output_option(False, "Print errors and warnings only.")
    json: str | None = outcome.json_option()


@common.with_options([*options_of(RunOptions), *algorithm_options()])
def run_command(data: common.Data, debug: common.Debug = False, **given: Any) -> None:
    """Run an algorithm of the paper, or a peer, on DATA; certify how close to the maximum the margin is.

    The problem is that of prgd fit, of more than two classes that of all jointly; the paper's own has no
    intercept: --no-intercept. Exit code 0: the run ended. 1: --gap was not certified. 2: an error. 3: no
    hyperplane separates the classes. 130: Ctrl-C.

    Example: prgd run digits:0,1 --steps 500 --out results
    """
    with common.one_line_errors(debug, given["json"]):
        o = from_options(RunOptions, given)
        o = replace(o, out=folder_of(o.resume)) if o.resume is not None and o.out is None else o
        out, algorithm = o.out, o.algorithm
        settings = given_options({k: v for k, v in given.items() if not hasattr(o, k)}, o.every)
        method = build_named(algorithm, settings)
        first, first_steps = _warm_up(o, method, settings)
        goal = [] if o.gap is None else [prgd.Gap(o.gap)]
        stop = any_of(*goal, *stall_rules(method, o.patience), o.steps)
        warm, earlier = (
            (None, None) if o.resume is None else load_start(o.resume, first, first_steps, o.steps)
        )
        outcome.check_json(o.json, folder=out)
        if out is not None:
            is_resumed = o.resume is not None and is_of(out, o.resume)
            if not is_resumed and not o.force:
                check_free(out)
            check_writable(out)
        elif o.resume is not None:
            common.say(f"Warning: the steps after {o.resume} are not saved. Give --out DIR to keep them.")
        name, rows = open_data(data, o)
        problem = Problem(rows, loss=o.loss, norm=o.margin_norm, fit_intercept=o.intercept, scale=o.scale)
        is_printed = outcome.is_printed(o.quiet, o.json)
        is_shown = is_printed and sys.stdout.isatty()
        if out is not None and o.force and not is_resumed:
            clear(out)

        def go(name: str, method: Any, stop: Stop, file: str, **start: Any) -> Result:
            """Run one algorithm; ``start`` has ``w0`` or ``resume``."""
            start |= {"record": o.record, "progress": is_shown and name, "save_every": o.save_every}
            return prgd.run(problem, method, stop=stop, save=None if out is None else out / file, **start)

        started = time.perf_counter()
        if first is not None and earlier is None:
            warm = result = go("warm-up", first, any_of(first_steps), WARMUP, resume=warm)
            if warm.status is Status.DIVERGED:
                raise ValueError(
                    f"The warm-up {warm.algorithm} overflowed after step {warm.t}. "
                    "Use a smaller --eta, or --scale max."
                )
            if out is not None:
                _write_warmup(out, warm)
        # Where no hyperplane separates, rescaling leads away from the minimiser of the loss, which is finite.
        if warm is None or warm.status not in (Status.INTERRUPTED, Status.NOT_SEPARABLE):
            start = {"resume": earlier} if warm is None or earlier else {"w0": warm.w}
            result = go(algorithm, method, stop, RESULT, **start)
        seconds = time.perf_counter() - started
        title = f"{name}, {problem.n:,} x {problem.d:,}"
        written = [] if out is None else _write(out, warm, result, title)
        why = str(result.status) if result is warm else status_text(result, method, first)
        if is_printed:
            lines = [("data", f"{title}, {common.kind_of(problem.rows)}"), *_problem(result, method)]
            lines += [*_outcome(warm, result, why), ("time", f"{seconds:.2f} s")]
            common.print_table(lines + ([("files", "\n".join(map(str, written)))] if written else []))
        outcome.write_json(o.json, _facts(name, warm, result, seconds, written) | {"message": why})
        if result.status is Status.INTERRUPTED:
            common.say(_how_to_go_on(o, warm, result, default_warm_up(o.margin_norm, settings)))
        if code := outcome.exit_code(result, is_certificate_asked=o.gap is not None):
            raise typer.Exit(code)


def _warm_up(o: RunOptions, method: Any, given: Mapping[str, Given]) -> tuple[Any, int]:
    """Return the algorithm and the steps of the warm-up; None and 0 if there is none."""
    needs_start = isinstance(method, prgd.PRGD)
    default = default_warm_up(o.margin_norm, given)
    text = o.warm_up or (default if needs_start and o.resume is None else "0")
    if text != "0":
        return parse_warm_up(text, given)
    if needs_start and o.resume is None:
        raise ValueError(
            f"--algorithm {o.algorithm} rescales w, so it cannot start at w = 0. Leave --warm-up out, or "
            f"give e.g. --warm-up {default}."
        )
    return None, 0


def _write_warmup(out: Path, warm: Result) -> None:
    """Write the files of a warm-up before the run that follows, which may be killed."""
    warm.save(out / WARMUP)
    warm.history.to_csv(out / "warmup.csv")


def _write(out: Path, warm: Result | None, result: Result, title: str) -> list[Path]:
    """Write the files of ``--out``, return their paths; ``result is warm`` if the warm-up was interrupted."""
    if result is warm:
        written = [out / WARMUP, out / "warmup.csv"]
    else:
        result.save(out / RESULT)
        result.history.to_csv(out / "history.csv")
        written = [out / RESULT, out / "history.csv"]
        written += [] if warm is None else [out / WARMUP, out / "warmup.csv"]
    if result is not warm:
        from prgd.plots import save_gap_png

        try:
            save_gap_png(result.history, out / "gap.png", f"{title}\n{result.algorithm}")
            written.append(out / "gap.png")
        except ImportError as error:
            common.say(f"Warning: gap.png is missing. {error}")
        except KeyboardInterrupt:  # This is a second Ctrl-C, and the numbers are on disk already.
            common.say("Warning: gap.png is missing: interrupted while drawing.")
    return written


def _outcome(warm: Result | None, result: Result, why: str) -> list[tuple[str, str]]:
    """Return the lines of the table with the status, the steps and both bounds."""
    is_proven = result.is_separable is False
    missing = "no hyperplane separates the classes" if is_proven else NO_SEPARATOR
    return [
        ("status", why),
        (
            "warm-up",
            "none, starts at w = 0" if warm is None else f"{warm.algorithm}, {warm.t:,} steps",
        ),
        ("steps", f"{0 if result is warm else result.t:,}"),
        *outcome.bounds(result, missing),
        ("passes over the data", f"{_passes(warm, result):,}"),
    ]


def _passes(warm: Result | None, result: Result) -> int:
    """Return the passes of warm-up and run, parts that were resumed included."""
    parts = [result] if warm is None or warm is result else [warm, result]
    return int(sum(part.passes for part in parts))


def _problem(result: Result, method: Any) -> list[tuple[str, str]]:
    """Return the lines with the problem and the algorithm, whose step sizes have a unit of their own."""
    words = f"{result.problem_in_words}; {result.loss} loss"
    if hasattr(method, "eta"):
        unit = _unit(result, method) if result.scale == "max" else "1, as given"
        words += f", step sizes in units of {unit}"
    return [("problem", words), ("algorithm", repr(method))]


def _unit(result: Result, method: Any) -> str:
    """Return the unit of step sizes in words, which is one in the norm of the steps."""
    margin = as_norm(result.norm)
    norm, power = method.step_unit if hasattr(method, "step_unit") else (getattr(method, "norm", None), 2.0)
    norm = margin if norm is None else norm
    length = "||x_i||" if norm == L2() and result.multi_class is None else "||z_i||_*"
    steps = f" (steps in {norm.name})" if norm != margin else ""
    return f"1 / max {length}{f'^{power:g}' * (power != 1.0)}{steps}"


def _facts(
    name: str, warm: Result | None, result: Result, seconds: float, written: list[Path]
) -> dict[str, Any]:
    """Return what ``--json`` writes."""
    warm_up = None if warm is None else {"algorithm": warm.algorithm, "t": warm.t}
    facts = outcome.facts_of(result) | {"t": 0 if result is warm else result.t, "loss": result.loss}
    files = {"seconds": seconds, "files": [str(path) for path in written]}
    return {"data": name, **facts, "classes": result.classes, "warm_up": warm_up, **files}


def _how_to_go_on(o: RunOptions, warm: Result | None, result: Result, default: str) -> str:
    out = o.out
    if out is None:
        return "Interrupted; nothing was saved. Give --out DIR to keep what there is."
    again = "To go on, repeat the command with"
    if result is warm:
        same = "" if o.warm_up else f"--warm-up {default} "
        return f"Interrupted in the warm-up, which was saved. {again} {same}--resume {out / WARMUP}"
    change = "--resume" if o.warm_up is None else "--warm-up replaced by --resume"
    return f"Interrupted; the partial result was saved. {again} {change} {out / 'result.npz'}"
