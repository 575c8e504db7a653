"""The command line; ``prgd run`` and ``prgd reproduce``. No mathematics here, and quick to import."""

from __future__ import annotations

import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

import prgd
from prgd.checks import check_writable
from prgd.cli.claims import claims_command
from prgd.cli.common import (
    DATA,
    INTERRUPTED,
    METHOD,
    OUTPUT,
    STOP,
    Data,
    Debug,
    Label,
    MaxMemory,
    OutOfCore,
    Quiet,
    Threads,
    one_line_errors,
    open_data,
    option,
    print_table,
    say,
)
from prgd.cli.fit import fit_command, predict_command, separability_command
from prgd.cli.reproduce import reproduce_command
from prgd.cli.train import train_command
from prgd.problem import Problem
from prgd.progress import progress_line
from prgd.result import Result, Status
from prgd.schedules import Every, Times, as_radius, as_times
from prgd.stopping import Stop, any_of

Settings = dict[str, tuple[str, Any]]  # field of an algorithm -> (option, value or None)


class Warmup(NamedTuple):
    """An algorithm and how many of its steps come first."""

    algorithm: Any
    steps: int


class OneLineErrors(TyperGroup):
    """Show a mistake in the command as one line, like any other error."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Parse and run, then exit."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except Exception as error:
            # the class itself moved from click to typer between versions
            if not (hasattr(error, "format_message") and hasattr(error, "exit_code")):
                raise
            path = getattr(getattr(error, "ctx", None), "command_path", "prgd")
            say(f"Error: {error.format_message().rstrip('.')}. Try '{path} --help'.")
            code = error.exit_code
        sys.exit(code)


app = typer.Typer(
    cls=OneLineErrors,
    add_completion=False,
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line (the entry point ``prgd``)."""
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"prgd {prgd.__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Maximum-margin classifiers by progressive norm rescaling, with a certificate."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("fit")(fit_command)
app.command("predict")(predict_command)
app.command("separability")(separability_command)
app.command("reproduce")(reproduce_command)
app.command("claims")(claims_command)
app.command("train")(train_command)


@app.command("run")
def run_command(
    data: Data,
    label: Label = None,
    out_of_core: OutOfCore = False,
    max_memory: MaxMemory = None,
    loss: Annotated[str, option(DATA, "exponential or logistic.", metavar="NAME")] = "exponential",
    intercept: Annotated[bool, option(DATA, "Fit an unpenalised intercept; the paper has none.")] = False,
    scale: Annotated[
        str,
        option(
            DATA,
            "max: step sizes suit rows of any norm; none: eta is taken literally.",
            metavar="NAME",
        ),
    ] = "max",
    threads: Threads = None,
    algorithm: Annotated[
        str, option(METHOD, f"{', '.join(prgd.algorithms.ALGORITHMS)}.", metavar="NAME")
    ] = "prgd",
    eta: Annotated[
        float | None, option(METHOD, "Step size, of the warm-up too.", default="1", metavar="NUMBER")
    ] = None,
    radius: Annotated[
        str | None,
        option(
            METHOD,
            "Radii of prgd: geometric:C, polynomial:A, constant or explicit:R0,R1,...",
            default="geometric:1.2",
            metavar="SCHEDULE",
        ),
    ] = None,
    every: Annotated[
        int | None,
        option(METHOD, "Steps of prgd from one rescaling to the next.", default="5", metavar="N"),
    ] = None,
    phases: Annotated[
        str | None,
        option(
            METHOD,
            "Instead of --every: every:N, polynomial:T0,B or explicit:0,T1,T2,...",
            metavar="SCHEDULE",
            show_default=False,
        ),
    ] = None,
    warmup: Annotated[
        str | None,
        option(
            METHOD,
            "Start where another algorithm ends, e.g. gd:1000; prgd needs one.",
            default="none",
            metavar="NAME:STEPS",
        ),
    ] = None,
    steps: Annotated[
        int,
        option(STOP, "Step limit; a warm-up does not count, resumed parts do.", min=0, metavar="N"),
    ] = 1000,
    gap: Annotated[
        float | None,
        option(
            STOP,
            "Stop when the certified relative gap is at most TOL.",
            default="none",
            metavar="TOL",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        option(
            STOP,
            "Go on from the result.npz of an earlier run (with --warmup: from its warmup-result.npz), "
            "bit for bit as if it had not stopped.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            OUTPUT,
            "Folder for history.csv, warmup.csv, result.npz and gap.png.",
            default="nothing is written",
            metavar="DIR",
        ),
    ] = None,
    record: Annotated[int, option(OUTPUT, "Keep every N-th step in the history.", min=1, metavar="N")] = 1,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Maximise the margin on DATA, and certify how close to the maximum it is.

    Example: prgd run digits:0,1 --warmup gd:1000 --steps 500 --out results
    """
    with one_line_errors(debug):
        if every is not None and phases is not None:
            raise ValueError("--every and --phases both say when to rescale: give one of them.")
        times: Times | None = None if every is None else Every(every)
        if phases is not None:
            times = as_times(phases)
        settings = {
            "eta": ("--eta", eta),
            "R": ("--radius", None if radius is None else as_radius(radius)),
            "T": ("--every" if phases is None else "--phases", times),
        }
        method = _build(algorithm, settings)
        first = None if warmup is None else _parse_warmup(warmup, settings)
        rules: list[Stop | int] = [steps] if gap is None else [prgd.Gap(gap), steps]
        if out is not None:
            check_writable(out)
        earlier = None if resume is None else _load_result(resume, first, steps)
        name, rows = open_data(data, label, out_of_core, max_memory, threads)
        problem = Problem(**rows, loss=loss, fit_intercept=intercept, scale=scale)

        def go(label: str, method: Any, w0: Any, stop: Stop, earlier: Result | None) -> Result:
            with progress_line(not quiet and sys.stdout.isatty(), label) as progress:
                return prgd.run(
                    problem, method, w0, stop=stop, record=record, progress=progress, resume=earlier
                )

        started = time.perf_counter()
        warm = None if first is None else go("warm-up", first.algorithm, None, any_of(first.steps), earlier)
        if warm is None:
            result = go(algorithm, method, None, any_of(*rules), earlier)
        elif warm.status is Status.DIVERGED:
            raise ValueError(
                f"The warm-up {warm.algorithm} left the floating range after step {warm.t}. "
                "Use a smaller --eta, or --scale max."
            )
        elif warm.status is Status.INTERRUPTED:
            result = warm
        else:
            result = go(algorithm, method, warm.w, any_of(*rules), None)
        seconds = time.perf_counter() - started

        title = f"{name}, {problem.n:,} x {problem.d:,}"
        written = [] if out is None else _write(out, warm, result, title)
        if not quiet:
            engine = type(problem.rows).__name__
            print_table(
                [
                    ("data", f"{title}, {engine}"),
                    ("algorithm", repr(method)),
                    *_outcome(warm, result),
                    ("passes over the data", f"{problem.passes:,}"),
                    ("time", f"{seconds:.2f} s"),
                    *([("files", "\n".join(map(str, written)))] if written else []),
                ]
            )
        if result.status is Status.INTERRUPTED:
            say(_how_to_go_on(warm, result, out))
            raise typer.Exit(INTERRUPTED)


def _build(name: str, settings: Settings) -> Any:
    """Return the algorithm of that name with the settings that were given."""
    algorithm = prgd.algorithms.find_algorithm(name)
    known = {field.name for field in fields(algorithm)}
    given = {key: value for key, (_, value) in settings.items() if value is not None}
    for key in given:
        if key not in known:
            flags = " and ".join(flag for other, (flag, _) in settings.items() if other in known)
            raise ValueError(
                f"{settings[key][0]} does not apply to {name}, which takes {flags or 'no settings'}. "
                "Leave it out, or choose another --algorithm."
            )
    return algorithm(**given)


def _parse_warmup(text: str, settings: Settings) -> Warmup:
    name, _, steps = text.partition(":")
    if not steps.isdecimal() or int(steps) < 1:
        raise ValueError(f"--warmup expects NAME:STEPS, e.g. gd:1000; got {text!r}.")
    return Warmup(_build(name, {"eta": settings["eta"]}), int(steps))


def _load_result(file: Path, first: Warmup | None, steps: int) -> Result:
    """Load what to resume: a part of the warm-up where one is asked for, else of the run."""
    if not file.is_file():
        raise FileNotFoundError(f"--resume expects the result.npz of an earlier run; found no file {file}.")
    result = Result.load(file)
    if first is None:
        if result.t >= steps:
            raise ValueError(f"{file} has taken {result.t:,} steps already: give --steps above that.")
    elif result.algorithm != repr(first.algorithm):
        raise ValueError(
            f"{file} holds a run of {result.algorithm}, not of the warm-up {first.algorithm!r}. "
            "Where the warm-up is done, leave --warmup out."
        )
    return result


def _write(out: Path, warm: Result | None, result: Result, title: str) -> list[Path]:
    """Write the files of ``--out`` and return their paths; ``result is warm`` when it ended there."""
    if result is warm:
        files = {"warmup-result.npz": result.save, "warmup.csv": result.history.to_csv}
    else:
        files = {"result.npz": result.save, "history.csv": result.history.to_csv}
        if warm is not None:
            files["warmup.csv"] = warm.history.to_csv
    for name, save in files.items():
        save(out / name)
    written = [out / name for name in files]
    if result is not warm:
        from prgd.plots import save_gap_png

        try:
            save_gap_png(result.history, out / "gap.png", f"{title}\n{result.algorithm}")
            written.append(out / "gap.png")
        except ImportError as error:
            say(f"Warning: gap.png is missing. {error}")
        except KeyboardInterrupt:  # a second Ctrl-C: the numbers are safe already
            say("Warning: gap.png is missing: interrupted while drawing.")
    return written


def _outcome(warm: Result | None, result: Result) -> list[tuple[str, str]]:
    """Return the rows of the table that say what was found."""
    lower, upper, gap = result.certificate.lower, result.certificate.upper, result.certificate.gap
    rows = [("status", str(result.status))]
    if warm is not None:
        rows += [("warm-up", f"{warm.algorithm}, {warm.t:,} steps")]
    return [
        *rows,
        ("steps", f"{0 if result is warm else result.t:,}"),
        (
            "margin, lower bound",
            f"{lower:.9g}" if lower > 0.0 else f"{lower:.9g} (no w separates the data so far)",
        ),
        ("margin, upper bound", f"{upper:.9g}"),
        ("relative gap", f"{gap:.2e}" if lower > 0.0 else "none yet"),
    ]


def _how_to_go_on(warm: Result | None, result: Result, out: Path | None) -> str:
    if out is None:
        return "Interrupted; nothing was saved. Give --out DIR to keep what there is."
    if result is warm:
        return (
            "Interrupted in the warm-up, which was saved. To go on, repeat the command with --resume "
            f"{out / 'warmup-result.npz'}"
        )
    place = "--resume" if warm is None else "--warmup replaced by --resume"
    return (
        "Interrupted; the partial result was saved. To go on, repeat the command with "
        f"{place} {out / 'result.npz'}"
    )
