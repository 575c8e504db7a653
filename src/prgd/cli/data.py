"""Open what the argument DATA of a command names: a built-in data set, a file, or files on a cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import prgd
from prgd import datasets
from prgd.checks import unknown
from prgd.cli.common import RowsOptions, say
from prgd.rows import Rows, as_rows
from prgd.rows.out_of_core import DEFAULT_MEMORY

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


# A data set that DATA can name: its written form, its maker, the type and the possible counts of its numbers.
BUILT_IN: dict[str, tuple[str, Callable[..., datasets.Dataset], type, tuple[int, ...]]] = {
    "toy": ("toy:MARGIN, e.g. toy:0.3", datasets.toy, float, (1,)),
    "synthetic-one": ("synthetic-one:SEED, e.g. synthetic-one:0", datasets.synthetic_one, int, (1,)),
    "synthetic-two": ("synthetic-two:SEED, e.g. synthetic-two:0", datasets.synthetic_two, int, (1,)),
    "digits": ("digits:A,B or digits:A,B,ROWS, e.g. digits:0,1", datasets.digits, int, (2, 3)),
    "cancer": ("cancer", datasets.cancer, int, (0,)),
}


def built_in(text: str, **file_options: Any) -> datasets.Dataset | None:
    """Return a built-in data set, e.g. ``digits:0,1``, or None if the text names none.

    An option for files that was given (``label="y"``) is an error beside a built-in data set.
    """
    name, _, rest = text.partition(":")
    if name not in BUILT_IN:
        return None
    form, make, kind, counts = BUILT_IN[name]
    try:
        numbers = [kind(part) for part in rest.split(",") if rest]
        if len(numbers) not in counts:
            raise ValueError
    except ValueError:
        raise ValueError(f"Expected {form}; got {text!r}.") from None
    for option, value in file_options.items():
        if value:
            flag = option.replace("_", "-")
            raise ValueError(f"--{flag} is for files, and {text} is built in. Leave --{flag} out.")
    return make(*numbers)


def data_file(data: str) -> Path:
    """Return the path that DATA names, unless the text looks more like the name of a built-in set."""
    file = Path(data).expanduser()
    if not file.exists() and (":" in data or not file.suffix):
        raise unknown("file or data set", data.partition(":")[0], BUILT_IN)
    return file


def label_column(label: str | None) -> str | int | None:
    """Return ``--label`` as `prgd.datasets.load` takes it: an integer is an index."""
    return int(label) if label is not None and re.fullmatch(r"-?\d+", label) else label


def open_data(data: str, options: RowsOptions) -> tuple[str, Rows]:
    """Return the name and the rows of the data set that DATA names."""
    memory, label, threads = _memory(options), options.label, options.threads
    if not options.out_of_core:
        dataset = load_data(data, options)
        return dataset.name, as_rows(dataset.X, dataset.y, None, threads)
    built_in(data, label=label, out_of_core=True)
    file = data_file(data)
    if label is not None and file.suffix.lower() != ".parquet":
        raise ValueError(
            f"With --out-of-core, --label is for Parquet files only; got {file}. Leave --label out."
        )
    rows = prgd.open_rows(file, n_threads=threads, max_memory=memory, label="y" if label is None else label)
    return file.stem, rows


def load_data(data: str, options: RowsOptions) -> datasets.Dataset:
    """Return the data set that DATA names, in memory."""
    _memory(options)
    dataset = built_in(data, label=options.label)
    return datasets.load(data_file(data), label=label_column(options.label)) if dataset is None else dataset


@contextmanager
def open_cluster_data(
    cluster: str, data: str, options: RowsOptions, quiet: bool
) -> Iterator[tuple[str, Rows]]:
    """Yield the name and the rows of files on a cluster; the address of its dashboard is printed."""
    built_in(data, cluster=cluster)
    memory = _memory(options)

    def show(loaded: int, total: int) -> None:
        if not quiet and sys.stderr.isatty():
            end = "\n" if loaded == total else ""
            print(f"\rloaded {loaded:,} of {total:,} partitions", end=end, file=sys.stderr, flush=True)

    with prgd.open_cluster(
        data,
        client=None if cluster == "local" else cluster,
        label="y" if options.label is None else options.label,
        n_threads=options.threads or 1,
        max_memory=memory if options.out_of_core else None,
        progress=show,
    ) as rows:
        if not quiet:
            say(f"dashboard: {rows.dashboard}")
        yield Path(data).name, rows


def _memory(options: RowsOptions) -> int:
    """Return the bound on memory in bytes, of ``--max-memory`` if it was given."""
    if options.max_memory is None:
        return DEFAULT_MEMORY
    if not options.out_of_core:
        raise ValueError("--max-memory is for --out-of-core: add --out-of-core, or leave --max-memory out.")
    return parse_size(options.max_memory)


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
