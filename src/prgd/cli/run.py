"""The command ``prgd run``. It holds no mathematics, and is quick to import."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

import prgd
from prgd.cli import common, methods, outcome
from prgd.cli.common import data_option, output_option, stop_option
from prgd.cli.data import open_data
from prgd.cli.options import from_options, option, options_of
from prgd.core.checks import check_writable
from prgd.norms import L2, as_norm
from prgd.problem import Problem
from prgd.problem.certificate import NO_SEPARATOR
from prgd.running.history import Status, Stop, any_of
from prgd.running.result import Result

RESULT, WARMUP = "result.npz", "warmup-result.npz"
FILES = (RESULT, "history.csv", WARMUP, "warmup.csv", "gap.png")  # what --out holds


@dataclass(frozen=True)
class RunOptions(common.MarginOptions):
    """Options of ``prgd run`` beside those of the algorithms.

    Parameters
    ----------
    loss : str
        exponential or logistic.
    scale : str
        max: step sizes suit rows of any norm; none: eta is taken literally.
    warm_up : str or None
        Start where N steps of another algorithm end; 0 starts at w = 0, which prgd, a rescaling, cannot.
    every : int or None
        Steps of prgd from one rescaling to the next.
    steps : int
        Step limit; a warm-up does not count, resumed parts do.
    gap : float or None
        Stop when the certified relative gap is at most TOL.
    resume : Path or None
        Go on from the folder of an earlier run, or from its result.npz or warmup-result.npz, bit for bit as
        if it had not stopped.
    out : Path or None
        Folder for history.csv, warmup.csv, result.npz and gap.png.
    force : bool
        Replace the files of an earlier run in --out.
    save_every : float
        Seconds between the results so far that are written to --out, for --resume.
    record : int
        Keep every N-th step in the history.
    quiet : bool
        Print errors and warnings only.
    """

    loss: str = data_option("exponential")
    scale: str = data_option("max")
    algorithm: str = option(
        "prgd",
        f"{', '.join(prgd.algorithms.all_algorithms())}, or FILE.py:NAME, a class or a value of yours.",
        metavar="NAME",
        complete=methods.complete_algorithm,
    )
    warm_up: str | None = option(
        None,
        flags=("--warm-up", "--warmup"),
        metavar="NAME:N",
        shown_default=f"{methods.WARM_UP} for prgd (Appendix E.1), "
        f"{methods.STEEPEST_WARM_UP} in other norms; else 0",
    )
    every: int | None = option(None, shown_default="5")
    steps: int = stop_option(1000, minimum=0)
    gap: float | None = stop_option(None, metavar="TOL", shown_default="none")
    patience: int | None = methods.patience_option()
    resume: Path | None = stop_option(None, metavar="PATH")  # noqa: RUF009 - `option` returns a field
    out: Path | None = output_option(None, shown_default="that of --resume; else nothing is written")  # noqa: RUF009 - `option` returns a field
    force: bool = output_option(False)
    save_every: float = output_option(30.0, metavar="SECONDS")
    record: int = output_option(1, minimum=1)
    quiet: bool = output_option(False)
    json: str | None = outcome.json_option()


@common.with_options([*options_of(RunOptions), *methods.algorithm_options()])
def run_command(data: common.Data, debug: common.Debug = False, **given: Any) -> None:
    """Run an algorithm of the paper, or a peer, on DATA; certify how close to the maximum the margin is.

    The problem is that of prgd fit, of more than two classes that of all jointly; the paper's own has no
    intercept: --no-intercept. Exit code 0: the run ended. 1: --gap was not certified. 2: an error. 3: no
    hyperplane separates the classes. 130: Ctrl-C.

    Example: prgd run digits:0,1 --steps 500 --out results
    """
    with common.one_line_errors(debug, given["json"]):
        o = from_options(RunOptions, given)
        settings = methods.given_options({k: v for k, v in given.items() if not hasattr(o, k)}, o.every)
        method = methods.build_algorithm(o.algorithm, settings)
        first, first_steps = _warm_up(o, method, settings)
        goal = [] if o.gap is None else [prgd.Gap(o.gap)]
        stop = any_of(*goal, *methods.stall_rules(method, o.patience), o.steps)
        warm, earlier = _load_start(o.resume, first, first_steps, o.steps)
        out, is_resumed = _folder(o)
        outcome.check_json(o.json, folder=out)
        name, rows, *_ = open_data(data, o)
        problem = Problem(rows, loss=o.loss, norm=o.margin_norm, fit_intercept=o.fit_intercept, scale=o.scale)
        is_printed = outcome.is_printed(o.quiet, o.json)
        is_shown = is_printed and sys.stdout.isatty()
        if out is not None and o.force and not is_resumed:
            for file in FILES:  # None of them may be taken for one of the run that begins.
                (out / file).unlink(missing_ok=True)

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
        if out is not None and warm is not None:  # The run that follows may be killed.
            _write(warm, out / WARMUP, out / "warmup.csv")
        # Where no hyperplane separates, rescaling leads away from the minimiser of the loss, which is finite.
        title = f"{name}, {problem.n:,} x {problem.d:,}"
        if warm is None or warm.status not in (Status.INTERRUPTED, Status.NOT_SEPARABLE):
            start = {"resume": earlier} if warm is None or earlier else {"w0": warm.w}
            result = go(o.algorithm, method, stop, RESULT, **start)
            if out is not None:
                _write(result, out / RESULT, out / "history.csv")
                _draw(out, result, title)
        seconds = time.perf_counter() - started
        written = [] if out is None else [path for part in FILES if (path := out / part).exists()]
        why = str(result.status) if result is warm else methods.status_text(result, method, first)
        if is_printed:
            lines = [("data", f"{title}, {common.kind_of(problem.rows)}")]
            lines += [*_outcome(warm, result, method, why), ("time", f"{seconds:.2f} s")]
            common.print_table(lines + ([("files", "\n".join(map(str, written)))] if written else []))
        outcome.write_json(o.json, _facts(name, warm, result, seconds, written) | {"message": why})
        if result.status is Status.INTERRUPTED:
            common.say(_how_to_go_on(o, out, warm, result, methods.default_warm_up(o.margin_norm, settings)))
        if code := outcome.exit_code(result, is_certificate_asked=o.gap is not None):
            raise typer.Exit(code)


def _folder(o: RunOptions) -> tuple[Path | None, bool]:
    """Return the folder of the files, and whether a run goes on in it; files of another run are an error."""
    out, at = o.out, o.resume
    if out is None and at is not None:
        out = at if at.is_dir() else at.parent if at.name in (RESULT, WARMUP) else None
        if out is None:
            common.say(f"Warning: the steps after {at} are not saved. Give --out DIR to keep them.")
    if out is None:
        return None, False
    is_resumed = at is not None and out.resolve() in (at.resolve(), at.resolve().parent)
    if not (is_resumed or o.force) and (found := [name for name in FILES if (out / name).exists()]):
        raise ValueError(
            f"{out} has the files of an earlier run ({', '.join(found)}). Give another --out, "
            f"--resume {out} to go on from them, or --force to replace them."
        )
    check_writable(out)
    return out, is_resumed


def _load_start(
    at: Path | None, first: Any, first_steps: int, steps: int
) -> tuple[Result | None, Result | None]:
    """Return the results of the warm-up and of the run that ``--resume`` names, None for what is missing.

    Parameters
    ----------
    at : Path or None
        The folder of an earlier run, or a file: of the warm-up if ``first`` is an algorithm, else of the run.
    first : Algorithm or None
        The algorithm of ``--warm-up``.
    first_steps, steps : int
        Steps of the warm-up and of the run.
    """
    if at is None:
        return None, None
    if at.is_dir():
        warm, result = (Result.load(f) if (f := at / name).is_file() else None for name in (WARMUP, RESULT))
    elif at.is_file():
        warm, result = (None, Result.load(at)) if first is None else (Result.load(at), None)
    else:
        raise FileNotFoundError(
            f"--resume expects the {RESULT} of an earlier run, or its folder; found no file {at}."
        )
    if warm is None and result is None:
        raise FileNotFoundError(
            f"--resume found neither {RESULT} nor {WARMUP} in {at}: nothing was saved yet. "
            "Leave --resume out, or name the folder of an earlier run."
        )
    if first is None and result is None:
        raise ValueError(f"{at} holds a run that stopped in its warm-up: give the same --warm-up too.")
    if first is not None:
        if warm is None:
            raise ValueError(f"{at} holds a run without a warm-up: leave --warm-up out.")
        if warm.algorithm != repr(first):
            raise ValueError(
                f"{at} holds a run of {warm.algorithm}, not of the warm-up {first!r}. "
                "If the warm-up is done, leave --warm-up out."
            )
        if warm.t > first_steps or (result is not None and warm.t != first_steps):
            raise ValueError(f"{at} holds {warm.t:,} steps of a warm-up, not {first_steps:,}.")
    if result is not None and result.t > steps:
        raise ValueError(f"{at} has taken {result.t:,} steps already: give --steps of at least that.")
    return warm, result


def _warm_up(o: RunOptions, method: Any, given: Mapping[str, methods.Given]) -> tuple[Any, int]:
    """Return the algorithm and the steps of the warm-up; None and 0 if there is none."""
    needs_start = isinstance(method, prgd.PRGD)
    default = methods.default_warm_up(o.margin_norm, given)
    text = o.warm_up or (default if needs_start and o.resume is None else "0")
    if text != "0":
        return methods.parse_warm_up(text, given)
    if needs_start and o.resume is None:
        raise ValueError(
            f"--algorithm {o.algorithm} rescales w, so it cannot start at w = 0. Leave --warm-up out, or "
            f"give e.g. --warm-up {default}."
        )
    return None, 0


def _write(result: Result, file: Path, history: Path) -> None:
    """Write a result and its history."""
    result.save(file)
    result.history.to_csv(history)


def _draw(out: Path, result: Result, title: str) -> None:
    """Draw the gap; without matplotlib there is no picture, not that of an earlier part of the run either."""
    (out / "gap.png").unlink(missing_ok=True)
    from prgd.plots import save_gap_png

    try:
        save_gap_png(result.history, out / "gap.png", f"{title}\n{result.algorithm}")
    except ImportError as error:
        common.say(f"Warning: gap.png is missing. {error}")
    except KeyboardInterrupt:  # This is a second Ctrl-C, and the numbers are on disk already.
        common.say("Warning: gap.png is missing: interrupted while drawing.")


def _outcome(warm: Result | None, result: Result, method: Any, why: str) -> list[tuple[str, str]]:
    """Return the lines of the table from the problem, in whose units step sizes are, to both bounds."""
    words = f"{result.problem_in_words}; {result.loss} loss"
    if hasattr(method, "eta"):
        unit = _unit(result, method) if result.scale == "max" else "1, as given"
        words += f", step sizes in units of {unit}"
    is_proven = result.is_separable is False
    missing = "no hyperplane separates the classes" if is_proven else NO_SEPARATOR
    passes = result.passes + (0 if warm is None or warm is result else warm.passes)
    return [
        ("problem", words),
        ("algorithm", repr(method)),
        ("status", why),
        ("warm-up", "none, starts at w = 0" if warm is None else f"{warm.algorithm}, {warm.t:,} steps"),
        ("steps", f"{0 if result is warm else result.t:,}"),
        *outcome.bounds(result, missing),
        ("passes over the data", f"{int(passes):,}"),
    ]


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


def _how_to_go_on(o: RunOptions, out: Path | None, warm: Result | None, result: Result, default: str) -> str:
    """Return the sentence that a user reads after Ctrl-C."""
    if out is None:
        return "Interrupted; nothing was saved. Give --out DIR to keep what there is."
    again = "To go on, repeat the command with"
    if result is warm:
        same = "" if o.warm_up else f"--warm-up {default} "
        return f"Interrupted in the warm-up, which was saved. {again} {same}--resume {out / WARMUP}"
    change = "--resume" if o.warm_up is None else "--warm-up replaced by --resume"
    return f"Interrupted; the partial result was saved. {again} {change} {out / 'result.npz'}"
