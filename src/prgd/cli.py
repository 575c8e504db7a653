"""The command line: ``prgd run`` and ``prgd reproduce``. No mathematics here, and quick to import."""

from __future__ import annotations

import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

import prgd
from prgd import datasets
from prgd.checks import check_writable, unknown
from prgd.problem import Problem
from prgd.progress import progress_line
from prgd.result import Result, Status
from prgd.rows.chunks import DEFAULT_MEMORY
from prgd.schedules import Every, Times, parse_phases, parse_radius
from prgd.stopping import Stop, any_of

INTERRUPTED = 130  # what a shell reports for a process ended by Ctrl-C
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

Settings = dict[str, tuple[str, Any]]  # field of an algorithm -> (option, value or None)


class BuiltIn(NamedTuple):
    """A data set that DATA can name: how it is written, who makes it, and from which numbers."""

    form: str
    make: Callable[..., datasets.Dataset]
    kinds: tuple[type, ...]
    least: int


BUILT_IN = {
    "toy": BuiltIn("toy:MARGIN, e.g. toy:0.3", datasets.toy, (float,), 1),
    "synthetic-one": BuiltIn("synthetic-one:SEED, e.g. synthetic-one:0", datasets.synthetic_one, (int,), 1),
    "synthetic-two": BuiltIn("synthetic-two:SEED, e.g. synthetic-two:0", datasets.synthetic_two, (int,), 1),
    "digits": BuiltIn("digits:A,B or digits:A,B,ROWS, e.g. digits:0,1", datasets.digits, (int,) * 3, 2),
    "cancer": BuiltIn("cancer", datasets.cancer, (), 0),
}


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
            _say(f"Error: {error.format_message().rstrip('.')}. Try '{path} --help'.")
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


DATA, METHOD, STOP, OUTPUT = "Data", "Algorithm", "When to stop", "Output"
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def _option(panel: str | None, help: str, *names: str, default: str | None = None, **settings: Any) -> Any:
    """Return an option whose default is shown even where None stands for it."""
    if default is not None:
        help += rf" [dim]\[default: {default}][/dim]"
        settings["show_default"] = False
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


@app.command("run")
def run_command(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            show_default=False,
            help="A file (LIBSVM, CSV, NPZ or Parquet, by its ending) or a built-in set: toy:MARGIN, "
            "synthetic-one:SEED, synthetic-two:SEED, digits:A,B, digits:A,B,ROWS or cancer.",
        ),
    ],
    label: Annotated[
        str | None,
        _option(
            DATA,
            "Label column of a CSV or Parquet file, by name or index.",
            default="y, label, target or class",
            metavar="COLUMN",
        ),
    ] = None,
    out_of_core: Annotated[
        bool,
        _option(DATA, "Read the file (.npy, LIBSVM or Parquet) in parts at every step.", "--out-of-core"),
    ] = False,
    max_memory: Annotated[
        str | None,
        _option(
            DATA,
            "Memory of one part, with --out-of-core.",
            default=f"{DEFAULT_MEMORY // UNITS['M']}M",
            metavar="SIZE",
        ),
    ] = None,
    loss: Annotated[str, _option(DATA, "exponential or logistic.", metavar="NAME")] = "exponential",
    intercept: Annotated[bool, _option(DATA, "Fit an unpenalised intercept; the paper has none.")] = False,
    scale: Annotated[
        str,
        _option(
            DATA,
            "max: step sizes suit rows of any norm; none: eta is taken literally.",
            metavar="NAME",
        ),
    ] = "max",
    threads: Annotated[
        int | None, _option(DATA, "Number of threads.", default="all cores", min=1, metavar="N")
    ] = None,
    algorithm: Annotated[str, _option(METHOD, f"{', '.join(prgd.ALGORITHMS)}.", metavar="NAME")] = "prgd",
    eta: Annotated[
        float | None, _option(METHOD, "Step size, of the warm-up too.", default="1", metavar="NUMBER")
    ] = None,
    radius: Annotated[
        str | None,
        _option(
            METHOD,
            "Radii of prgd: geometric:C, polynomial:A, constant or explicit:R0,R1,...",
            default="geometric:1.2",
            metavar="SCHEDULE",
        ),
    ] = None,
    every: Annotated[
        int | None,
        _option(METHOD, "Steps of prgd from one rescaling to the next.", default="5", metavar="N"),
    ] = None,
    phases: Annotated[
        str | None,
        _option(
            METHOD,
            "Instead of --every: every:N, polynomial:T0,B or explicit:0,T1,T2,...",
            metavar="SCHEDULE",
            show_default=False,
        ),
    ] = None,
    warmup: Annotated[
        str | None,
        _option(
            METHOD,
            "Start where another algorithm ends, e.g. gd:1000; prgd needs one.",
            default="none",
            metavar="NAME:STEPS",
        ),
    ] = None,
    steps: Annotated[
        int,
        _option(STOP, "Step limit; a warm-up does not count, resumed parts do.", min=0, metavar="N"),
    ] = 1000,
    gap: Annotated[
        float | None,
        _option(
            STOP,
            "Stop when the certified relative gap is at most TOL.",
            default="none",
            metavar="TOL",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        _option(
            STOP,
            "Go on from the result.npz of an earlier run (with --warmup: from its warmup-result.npz), "
            "bit for bit as if it had not stopped.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        _option(
            OUTPUT,
            "Folder for history.csv, warmup.csv, result.npz and gap.png.",
            default="nothing is written",
            metavar="DIR",
        ),
    ] = None,
    record: Annotated[int, _option(OUTPUT, "Keep every N-th step in the history.", min=1, metavar="N")] = 1,
    quiet: Annotated[bool, _option(OUTPUT, "Print errors and warnings only.", "--quiet")] = False,
    debug: Debug = False,
) -> None:
    """Maximise the margin on DATA, and certify how close to the maximum it is.

    Example: prgd run digits:0,1 --warmup gd:1000 --steps 500 --out results
    """
    with _one_line_errors(debug):
        if every is not None and phases is not None:
            raise ValueError("--every and --phases both say when to rescale: give one of them.")
        times: Times | None = None if every is None else Every(every)
        if phases is not None:
            times = parse_phases(phases)
        settings = {
            "eta": ("--eta", eta),
            "R": ("--radius", None if radius is None else parse_radius(radius)),
            "T": ("--every" if phases is None else "--phases", times),
        }
        method = _build(algorithm, settings)
        first = None if warmup is None else _parse_warmup(warmup, settings)
        rules: list[Stop | int] = [steps] if gap is None else [prgd.Gap(gap), steps]
        if out is not None:
            check_writable(out)
        earlier = None if resume is None else _load_result(resume, first, steps)
        name, rows = _open(data, label, out_of_core, max_memory, threads)
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
            _print_table(
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
            _say(_how_to_go_on(warm, result, out))
            raise typer.Exit(INTERRUPTED)


@app.command("reproduce")
def reproduce_command(
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Random draws of each synthetic data set.")
    ] = 100,
    jobs: Annotated[
        int | None,
        _option(None, "Processes at a time.", default="all cores", min=1, metavar="N"),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the report.")] = Path("report"),
    debug: Debug = False,
) -> None:
    """Run the paper's experiments again, and report what holds."""
    with _one_line_errors(debug):
        from prgd.reproduce import main as reproduce

        reproduce(seeds=seeds, jobs=_cores() if jobs is None else jobs, out=out)


def _say(line: str) -> None:
    """Print one line on stderr."""
    print(" ".join(line.splitlines()), file=sys.stderr, flush=True)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _one_line_errors(debug: bool) -> Iterator[None]:
    """Turn errors and warnings into one line each on stderr; errors exit with code 2."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _say(f"Warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", prgd.ZeroRowWarning)
        warnings.showwarning = show
        try:
            yield
        except BrokenPipeError:  # the reader of our output left: Typer ends quietly
            raise
        except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
            if debug:
                traceback.print_exc()
            hint = " Try --out-of-core." if isinstance(error, MemoryError) else ""
            _say(f"Error: {error}{hint}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            _say("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None


def _build(name: str, settings: Settings) -> Any:
    """Return the algorithm of that name with the settings that were given."""
    algorithm = prgd.find_algorithm(name)
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


def _parse_size(text: str) -> int:
    """Return a number of bytes.

    Examples
    --------
    >>> _parse_size("64M")
    67108864
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if match is None:
        raise ValueError(f"--max-memory expects a size such as 64M or 2G; got {text!r}.")
    return int(float(match[1]) * UNITS[match[2].upper()])


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


def _open(
    data: str, label: str | None, out_of_core: bool, max_memory: str | None, threads: int | None
) -> tuple[str, dict[str, Any]]:
    """Return the name of the data, and the arguments of `Problem` that hold its rows."""
    if max_memory is not None and not out_of_core:
        raise ValueError("--max-memory is for --out-of-core: add that, or leave --max-memory out.")
    dataset = _built_in(data)
    if dataset is not None:
        for flag, given in (("--label", label is not None), ("--out-of-core", out_of_core)):
            if given:
                raise ValueError(f"{flag} is for files, and {data} is built in. Leave it out.")
        return dataset.name, {"X": dataset.X, "y": dataset.y, "n_threads": threads}
    file = Path(data).expanduser()
    if not file.exists() and (":" in data or not file.suffix):
        raise unknown("file or data set", data.partition(":")[0], BUILT_IN)
    if not out_of_core:
        is_index = label is not None and re.fullmatch(r"-?\d+", label)
        dataset = datasets.load(file, label=int(label) if label and is_index else label)
        return dataset.name, {"X": dataset.X, "y": dataset.y, "n_threads": threads}
    if label is not None and file.suffix.lower() != ".parquet":
        raise ValueError(f"With --out-of-core, --label is for Parquet files only; got {file}. Leave it out.")
    options: dict[str, Any] = {} if label is None else {"label": label}
    if max_memory is not None:
        options["max_memory"] = _parse_size(max_memory)
    return file.stem, {"X": prgd.open_rows(file, n_threads=threads, **options)}


def _built_in(text: str) -> datasets.Dataset | None:
    """Return a built-in data set, e.g. ``digits:0,1``; None where the text names none."""
    name, _, rest = text.partition(":")
    if name not in BUILT_IN:
        return None
    form, make, kinds, least = BUILT_IN[name]
    parts = rest.split(",") if rest else []
    try:
        if not least <= len(parts) <= len(kinds):
            raise ValueError
        numbers = [kind(part) for kind, part in zip(kinds, parts, strict=False)]
    except ValueError:
        raise ValueError(f"Expected {form}; got {text!r}.") from None
    return make(*numbers)


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
            _say(f"Warning: gap.png is missing. {error}")
        except KeyboardInterrupt:  # a second Ctrl-C: the numbers are safe already
            _say("Warning: gap.png is missing: interrupted while drawing.")
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


def _print_table(rows: list[tuple[str, str]]) -> None:
    if not sys.stdout.isatty():
        for name, value in rows:
            print(f"{name}: {value.replace(chr(10), ', ')}")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name, style="bold"), Text(value))
    Console(highlight=False).print(table)
