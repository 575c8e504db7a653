"""What the commands share: reading data, options, one-line errors, tables. Quick to import."""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import prgd
from prgd import datasets
from prgd.checks import unknown
from prgd.rows.out_of_core import DEFAULT_MEMORY

INTERRUPTED = 130  # what a shell reports for a process ended by Ctrl-C
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


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


DATA, METHOD, STOP, OUTPUT = "Data", "Algorithm", "When to stop", "Output"


def option(panel: str | None, help: str, *names: str, default: str | None = None, **settings: Any) -> Any:
    """Return an option whose default is shown even where None stands for it."""
    if default is not None:
        help += rf" [dim]\[default: {default}][/dim]"
        settings["show_default"] = False
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        show_default=False,
        help="A file (LIBSVM, CSV, NPZ or Parquet, by its ending) or a built-in set: toy:MARGIN, "
        "synthetic-one:SEED, synthetic-two:SEED, digits:A,B, digits:A,B,ROWS or cancer.",
    ),
]
Label = Annotated[
    str | None,
    option(
        DATA,
        "Label column of a CSV or Parquet file, by name or index.",
        default="y, label, target or class",
        metavar="COLUMN",
    ),
]
OutOfCore = Annotated[
    bool, option(DATA, "Read the file (.npy, LIBSVM or Parquet) in parts at every step.", "--out-of-core")
]
MaxMemory = Annotated[
    str | None,
    option(
        DATA,
        "Memory of one part, with --out-of-core.",
        default=f"{DEFAULT_MEMORY // UNITS['M']}M",
        metavar="SIZE",
    ),
]
Cluster = Annotated[
    str | None,
    option(
        DATA,
        "Spread the files of DATA, which may be a quoted pattern, over the Dask workers at this address "
        "(tcp://HOST:PORT), or over workers started on this machine (local).",
        default="no cluster",
        metavar="ADDRESS",
    ),
]
Threads = Annotated[int | None, option(DATA, "Number of threads.", default="all cores", min=1, metavar="N")]
Quiet = Annotated[bool, option(OUTPUT, "Print errors and warnings only.", "--quiet")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def say(line: str) -> None:
    """Print one line on stderr."""
    print(" ".join(line.splitlines()), file=sys.stderr, flush=True)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_line_errors(debug: bool) -> Iterator[None]:
    """Turn errors and warnings into one line each on stderr; errors exit with code 2."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"Warning: {message}")

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
            say(f"Error: {error}{hint}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            say("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None


def parse_size(text: str) -> int:
    """Return a number of bytes.

    Examples
    --------
    >>> parse_size("64M")
    67108864
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if match is None:
        raise ValueError(f"--max-memory expects a size such as 64M or 2G; got {text!r}.")
    return int(float(match[1]) * UNITS[match[2].upper()])


def _check_memory(out_of_core: bool, max_memory: str | None) -> None:
    if max_memory is not None and not out_of_core:
        raise ValueError("--max-memory is for --out-of-core: add that, or leave --max-memory out.")


def open_data(
    data: str, label: str | None, out_of_core: bool, max_memory: str | None, threads: int | None
) -> tuple[str, dict[str, Any]]:
    """Return the name of the data, and the arguments of `Problem` that hold its rows."""
    _check_memory(out_of_core, max_memory)
    dataset = built_in(data)
    if dataset is not None:
        for flag, given in (("--label", label is not None), ("--out-of-core", out_of_core)):
            if given:
                raise ValueError(f"{flag} is for files, and {data} is built in. Leave it out.")
        return dataset.name, {"X": dataset.X, "y": dataset.y, "n_threads": threads}
    file = data_file(data)
    if not out_of_core:
        dataset = datasets.load(file, label=label_column(label))
        return dataset.name, {"X": dataset.X, "y": dataset.y, "n_threads": threads}
    if label is not None and file.suffix.lower() != ".parquet":
        raise ValueError(f"With --out-of-core, --label is for Parquet files only; got {file}. Leave it out.")
    options: dict[str, Any] = {} if label is None else {"label": label}
    if max_memory is not None:
        options["max_memory"] = parse_size(max_memory)
    return file.stem, {"X": prgd.open_rows(file, n_threads=threads, **options)}


@contextmanager
def open_cluster_data(
    cluster: str,
    data: str,
    label: str | None,
    out_of_core: bool,
    max_memory: str | None,
    threads: int | None,
    quiet: bool,
) -> Iterator[tuple[str, Any]]:
    """Give the name and the rows of files on a cluster; says where its dashboard is."""
    if built_in(data) is not None:
        raise ValueError(f"--cluster is for files, and {data} is built in. Leave it out.")
    _check_memory(out_of_core, max_memory)
    options: dict[str, Any] = {} if label is None else {"label": label}
    if out_of_core:
        options["max_memory"] = DEFAULT_MEMORY if max_memory is None else parse_size(max_memory)

    def show(loaded: int, total: int) -> None:
        if not quiet and sys.stderr.isatty():
            end = "\n" if loaded == total else ""
            print(f"\rloaded {loaded:,} of {total:,} partitions", end=end, file=sys.stderr, flush=True)

    rows = prgd.open_cluster(
        data, client=None if cluster == "local" else cluster, n_threads=threads or 1, progress=show, **options
    )
    with rows:
        if not quiet:
            say(f"dashboard: {rows.dashboard}")
        yield Path(data).name, rows


def data_file(data: str) -> Path:
    """Return the path, unless the text looks more like the name of a built-in set."""
    file = Path(data).expanduser()
    if not file.exists() and (":" in data or not file.suffix):
        raise unknown("file or data set", data.partition(":")[0], BUILT_IN)
    return file


def label_column(label: str | None) -> str | int | None:
    """Return ``--label`` as `prgd.datasets.load` takes it: whole numbers are indices."""
    return int(label) if label is not None and re.fullmatch(r"-?\d+", label) else label


def built_in(text: str) -> datasets.Dataset | None:
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


def print_table(rows: list[tuple[str, str]]) -> None:
    """Print names and values: as a table on a terminal, one line each elsewhere."""
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
