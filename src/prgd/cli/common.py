"""What the commands share: options, one-line errors, the printed table. Quick to import."""

import errno
import inspect
import math
import os
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

import prgd
from prgd.cli import options, outcome
from prgd.core.checks import check_parent, printable
from prgd.core.checks import class_text as class_text
from prgd.core.files import OtherFileError
from prgd.estimators.model import Model
from prgd.rows.out_of_core import DEFAULT_MEMORY

Command = Callable[..., None]
# panels of --help
DATA, METHOD, STOP, OUTPUT = options.DATA, options.METHOD, options.STOP, options.OUTPUT


def option(panel: str | None, help: str, *names: str, default: str | None = None, **settings: Any) -> Any:
    """Return an option; ``default`` is the text that --help shows if None stands for the default."""
    if default is not None:
        help += rf" [dim]\[default: {default}][/dim]"
        settings["show_default"] = False
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


def argument(metavar: str, help: str, complete: Callable[[str], list[str]]) -> Any:
    """Return a required argument, which a shell completes by ``complete``."""
    return typer.Argument(metavar=metavar, show_default=False, help=help, autocompletion=complete)


def with_options(added: Sequence[options.Option]) -> Callable[[Command], Command]:
    """Return a decorator that puts the options of dataclasses in the place of a command's ``**keywords``."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters = [*own, *map(_parameter, added)]
        if taken := [name for name, count in Counter(p.name for p in parameters).items() if count > 1]:
            raise TypeError(f"The command itself has the options {', '.join(taken)}: rename these fields.")
        # Typer reads the options from the signature.
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        # Rich breaks lines where the docstring does, unless a paragraph is one line.
        command.__doc__ = "\n\n".join(" ".join(p.split()) for p in (command.__doc__ or "").split("\n\n"))
        return command

    return decorate


def _parameter(o: options.Option) -> Parameter:
    kind: Any = o.kind if o.kind in (bool, int, float, Path) else str
    has_no = o.default is True or (o.kind is bool and o.default is None)
    flags = [f"{flag}/--no-{flag[2:]}" for flag in o.flags] if has_no else o.flags
    help = o.help.replace("[", r"\[")  # Square brackets are markup to rich.
    shown = option(
        o.panel,
        help,
        *flags,
        default=o.shown_default or None,
        min=o.minimum,
        metavar=o.metavar,
        autocompletion=o.complete,
    )
    kind = kind | None if o.default is None else kind
    return Parameter(o.name, Parameter.KEYWORD_ONLY, default=o.default, annotation=Annotated[kind, shown])


def complete_data(incomplete: str) -> list[str]:
    """Return the built-in data sets and the files that the text may become."""
    from prgd.cli.data import BUILT_IN

    names = [name if counts == (0,) else f"{name}:" for name, (_, _, _, counts) in BUILT_IN.items()]
    return [name for name in names if name.startswith(incomplete)] + complete_file(incomplete)


def complete_file(incomplete: str) -> list[str]:
    """Return the files and folders that the text may become; hidden ones if the text asks for them."""
    folder, _, start = incomplete.rpartition("/")
    place = Path(f"{folder}/" if folder or incomplete.startswith("/") else ".").expanduser()
    if not place.is_dir():
        return []
    prefix = incomplete[: len(incomplete) - len(start)]
    found = [f for f in place.iterdir() if f.name.startswith(start) and (start or not f.name.startswith("."))]
    return [f"{prefix}{f.name}{'/' if f.is_dir() else ''}" for f in sorted(found)]


Data = Annotated[
    str,
    argument(
        "DATA",
        "A file (LIBSVM, CSV, TSV, NPZ, NPY or Parquet, by its ending), - for standard input, or a built-in "
        "set: toy:MARGIN, "
        "synthetic-one:SEED, synthetic-two:SEED, digits:A,B, digits:A,B,ROWS or cancer.",
        complete_data,
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


# fields of the dataclasses whose options these panels show
data_option, stop_option, output_option = (partial(options.option, panel=p) for p in (DATA, STOP, OUTPUT))


@dataclass(frozen=True)
class FileOptions:
    """Options of every command that reads a file.

    Parameters
    ----------
    label : str or None
        Label column of a CSV, TSV or Parquet file, by name or by position from 0 (-1: the last).
    labels : str or None
        Labels of the rows, apart from DATA: a .npy file, or text with one label on each line, or the label
        sets of prgd fit, separated by commas.
    features : str or None
        Columns to use, by name or by position from 0, separated by commas.
    drop : str or None
        Columns to leave out, given as for --features.
    format : str or None
        csv, tsv, libsvm, npz, npy or parquet.
    separator : str or None
        What separates the cells of a text table: a character, or tab.
    decimal : str
        Decimal mark of a text table: . or ',' as in 0,5.
    missing : str
        Empty cells, NA, NaN and ?: refuse them, drop their rows, or take the mean of their column.
    """

    label: str | None = data_option(
        None, metavar="COLUMN", shown_default="y, label, target or class; without a header the last"
    )
    labels: str | None = data_option(None, metavar="FILE")
    features: str | None = data_option(None, metavar="COLUMN,...", shown_default="all but the label")
    drop: str | None = data_option(None, metavar="COLUMN,...")
    format: str | None = data_option(
        None, metavar="NAME", shown_default="by the ending of the name; standard input by its content"
    )
    separator: str | None = data_option(
        None,
        metavar="CHARACTER",
        shown_default="tab, semicolon, comma, | or spaces, whichever the first line has",
    )
    decimal: str = data_option(".", metavar="CHARACTER")
    missing: str = data_option("refuse", metavar="refuse|drop|mean")


@dataclass(frozen=True)
class RowsOptions(FileOptions):
    """Options of every command that makes passes over the rows of DATA.

    Parameters
    ----------
    out_of_core : bool
        Read the file (.npy, LIBSVM or Parquet) in parts at every step.
    max_memory : str or None
        Memory of the parts that are held at a time, with --out-of-core.
    n_jobs : int or None
        Number of threads.
    """

    out_of_core: bool = data_option(False)
    max_memory: str | None = data_option(None, metavar="SIZE", shown_default=f"{DEFAULT_MEMORY >> 20}M")
    n_jobs: int | None = data_option(
        None, flags=("--jobs", "--threads"), minimum=1, shown_default="all cores"
    )


@dataclass(frozen=True)
class SeparatorOptions(RowsOptions):
    """Options of every command that asks for a hyperplane between the classes.

    Parameters
    ----------
    fit_intercept : bool
        Fit an unpenalised intercept, or pass through the origin.
    """

    fit_intercept: bool = options.option(True, flags=("--intercept",))


@dataclass(frozen=True)
class MarginOptions(SeparatorOptions):
    """Options of every command that asks for the largest margin.

    Parameters
    ----------
    margin_norm : str
        Norm of the margin: l2, l1, linf or a number p (3 or l3); of more than two classes jointly also
        spectral, nuclear, rows or columns.
    """

    margin_norm: str = options.option("l2", flags=("--norm",), metavar="NORM")


def say(line: str) -> None:
    """Print one line on standard error."""
    print(printable(" ".join(line.splitlines())), file=sys.stderr, flush=True)


@contextmanager
def one_line_errors(debug: bool, json: str | None = None) -> Iterator[None]:
    """Turn errors and warnings into one line each on standard error; an error exits with code 2.

    If ``json``, the value of ``--json``, is - , the error goes to standard output too, as JSON.
    """

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"Warning: {in_options(str(message))}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", prgd.ZeroRowWarning)
        warnings.showwarning = show
        try:
            yield
        except BrokenPipeError:  # The reader of our output has left, and Typer ends quietly.
            raise
        except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
            if debug:
                print(printable(traceback.format_exc()), file=sys.stderr)
            text = in_options(str(error))
            # Errors of other files than standard output have their names, or a sentence of their own.
            is_full = isinstance(error, OSError) and error.args[:1] == (errno.ENOSPC,) and not error.filename
            if is_full:
                text = f"Cannot write standard output: {os.strerror(errno.ENOSPC)}. Make room, and run again."
            if isinstance(error, MemoryError):
                text += " Try --out-of-core: rows stay in their file then."
            say(f"Error: {text}")
            if json == "-" and not is_full:
                outcome.write_json(json, {"error": text})
            raise typer.Exit(outcome.ERROR) from None
        except KeyboardInterrupt:
            say("Interrupted.")
            raise typer.Exit(outcome.INTERRUPTED) from None


# Parts of messages for Python users, and the words for users of the command line that mean the same.
_WORDS = (
    (r"Give y, or use fit_intercept=False", "Use --no-intercept"),
    (r"\bfit_intercept=True\b", "--intercept"),
    (r"\bfit_intercept=False\b", "--no-intercept"),
    (r"^tol of Gap must", "--gap must"),
    (r"^w0 must", "The w of --start must"),
    (
        r"Add multi_class='joint' if there are more than two classes, use "
        r"prgd\.max_margin\(X, y, multi_class='joint'\) for two, or use",
        "More than two classes have such weights in prgd run, and in prgd fit with --multi-class joint, "
        "two only in Python, by prgd.max_margin. Or use",
    ),
    (r"max_margin\(\.\.\., multi_class='joint'\)", "prgd fit --multi-class joint"),
    (r" or math\.inf, or a value of prgd\.norms, such as Lp\(1\.5\)", ", or inf"),
    (r", or math\.inf for the hard margin; got (.*)\.$", r"; got \1. Leave it out for the hard margin."),
    (r"\bA finite C\b", "--C"),
    (r"Use C=inf\.", "Leave --C out."),
    (r"\bn_jobs\b", "--jobs"),
    (r"\bto X\b", "to the data"),
    (r"\bchoose eta yourself", "choose --eta yourself"),
    (r"\bstep size \(eta\)", "step size (--eta)"),
    (r"\bMultiply X\b", "Multiply the data"),
    (r"(--\w[\w-]*(?: ',')?) \(\w+=[^)]*\)", r"\1"),  # an option, and after it the Python argument
    (r"^y must hold the labels of classes", "The labels must be classes"),
    (r"^y must", "The labels must"),
    (r"^Y must", "The label sets must"),
    (
        r"Keep the rows of two classes, or separate one class from the rest; .* jointly\.",
        "Keep the rows of two classes, or use --family multinomial; prgd fit takes several classes.",
    ),
    (r"^y (has|mixes)\b", r"The label column \1"),
    (r"Is this the label column\?|Name the label column\.", "Name the column of the classes with --label."),
    (r"\brows of X\b", "rows"),
    (r" \(astype\(float\)\)", ""),
    (r"^X (must|has)\b", r"The data \1"),
    (r" Use X\.reshape\(-1, 1\) for a single feature\.", ""),
)
# Arguments whose options have their names: "scale='max'" is "--scale max", and "tol must" is "--tol must".
_SAME = r"(loss|scale|family|norm|fallback|tol|eta|C|multi_class|save_every|max_memory)"
_OPTIONS = re.compile(rf"\b{_SAME}='?([\w:.]+)'?|^{_SAME}(?= must)|\b(max_memory)\b")


def in_options(message: str) -> str:
    """Return a message of the library with the names of options in place of Python arguments.

    Examples
    --------
    >>> in_options("fit_intercept=True needs loss='exponential'.")
    '--intercept needs --loss exponential.'
    """
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    return _OPTIONS.sub(_as_option, message)


def _as_option(match: re.Match[str]) -> str:
    name, value, *alone = match.groups()
    option = f"--{(name or alone[0] or alone[1]).replace('_', '-')}"
    return option if value is None else f"{option} {value}"


def check_file(path: Path | None) -> None:
    """Check that the file of ``--out`` can be written, before long work starts."""
    if path is not None:
        if path.is_dir():
            raise ValueError(f"--out expects a file; {path} is a folder. Name a file in it.")
        check_parent(path, "--out")


def load_model(path: Path, argument: str) -> Model:
    """Return the model that ``prgd fit --out`` saved, or the result of ``prgd run --out``."""
    if not path.is_file():
        raise FileNotFoundError(f"{argument} expects a file that prgd fit --out wrote; found none at {path}.")
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    try:
        if not is_archive:
            raise OtherFileError(f"{path} is none.")
        model = Model.load(path)
    except OtherFileError as error:
        order = " MODEL comes first: prgd predict MODEL DATA." if argument == "MODEL" else ""
        raise ValueError(f"{argument} expects a file that prgd fit --out wrote; {error}{order}") from error
    if bad := [result for result in model.results if not model.proofs and not result.margin > 0.0]:
        advice = (
            "prgd fit without --fallback raise fits a soft margin to such data."
            if bad[0].is_separable is False
            else "No iterate separates the classes so far: give prgd run more --steps, or use prgd fit."
        )
        raise ValueError(f"{path}: holds no classifier to predict with. {bad[0].status} {advice}")
    return model


def price_of(C: str | None) -> float | str:
    """Return what ``--C`` stands for: a number, cv, or infinity if it was left out."""
    try:
        return math.inf if C is None else C if C == "cv" else float(C)
    except ValueError:
        raise ValueError(f"--C must be a positive number or cv; got {C!r}.") from None


def class_names(model: Model) -> list[str]:
    """Return the classes as text; of two, the one of negative scores first."""
    return [class_text(c) for c in model.classes.tolist()]


_KINDS = {
    "DenseRows": "dense",
    "SparseRows": "sparse",
    "ChunkedRows": "read in parts",
    "ClusterRows": "on a cluster",
    "TensorRows": "on a GPU",
}


def kind_of(rows: Any) -> str:
    """Return in words how the rows are held; the name of its class for an engine of the user."""
    name = type(rows).__name__
    return _KINDS.get(name, name)


def print_table(rows: list[tuple[str, str]]) -> None:
    """Print names and values: as a table on a terminal, else as one line each."""
    rows = [(printable(name), printable(value)) for name, value in rows]
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
