"""Open what the argument DATA of a command names: a built-in data set, a file, or files on a cluster."""

import csv
import difflib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import numpy as np

import prgd
from prgd import datasets
from prgd.cli.common import FileOptions, RowsOptions, SeparatorOptions, class_text, say
from prgd.cli.options import options_of
from prgd.core.checks import as_option, unknown
from prgd.core.types import Array
from prgd.datasets.base import ModelFeatures
from prgd.rows import Rows, as_rows
from prgd.rows.out_of_core import DEFAULT_MEMORY
from prgd.rows.readers.files import one_label_each, read_labels, sniffed
from prgd.rows.readers.frame import Frame, load_frame
from prgd.rows.readers.text import BROKEN_STREAM, compression, open_stream

Load = Callable[..., datasets.Dataset]
Read = TypeVar("Read", datasets.Dataset, Frame)

ENGINE = ("out_of_core", "max_memory", "n_jobs")  # options of engines, which hold binomial rows alone
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


# A data set that DATA can name: its written form, its maker, the type and the possible counts of its numbers.
BUILT_IN: dict[str, tuple[str, Callable[..., datasets.Dataset], type, tuple[int, ...]]] = {
    "toy": ("toy:MARGIN, e.g. toy:0.3", datasets.toy, float, (1,)),
    "synthetic-one": ("synthetic-one:SEED, e.g. synthetic-one:0", datasets.synthetic_one, int, (1,)),
    "synthetic-two": ("synthetic-two:SEED, e.g. synthetic-two:0", datasets.synthetic_two, int, (1,)),
    "digits": ("digits:A,B or digits:A,B,ROWS, e.g. digits:0,1", datasets.digits, int, (2, 3)),
    "cancer": ("cancer", datasets.cancer, int, (0,)),
}


def built_in(text: str, options: FileOptions | None = None, *for_files: str) -> datasets.Dataset | None:
    """Return a built-in data set, e.g. ``digits:0,1``, or None if the text names none.

    An option for files, one of ``for_files``, is an error beside a built-in data set.
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
    if options is not None:
        refuse(options, for_files, f"files, and {text} is built in. Leave it out.")
    return make(*numbers)


def data_file(data: str) -> Path:
    """Return the path that DATA names, unless the text looks more like the name of a built-in set."""
    file = Path(data).expanduser()
    if not file.exists() and (":" in data or not file.suffix):
        name = data.partition(":")[0]
        if difflib.get_close_matches(name, BUILT_IN, cutoff=0.75):
            raise unknown("file or data set", name, BUILT_IN)
        forms = ", ".join(form.partition(", e.g.")[0] for form, *_ in BUILT_IN.values())
        raise ValueError(f"Unknown file or data set {name!r}. Built-in sets: {forms}.")
    return file


def column(text: str) -> str | int:
    """Return a column as `prgd.datasets.load` takes it: an integer is a position."""
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def columns(text: str | None, option: str) -> list[str | int] | None:
    """Return the columns of ``--features`` or ``--drop``; a name that holds a comma is quoted.

    Examples
    --------
    >>> columns('age,"height, cm",-1', "drop")
    ['age', 'height, cm', -1]
    """
    if text is None:
        return None
    cells = [cell.strip() for cell in next(csv.reader([text], skipinitialspace=True), [])]
    if not cells or "" in cells:
        raise ValueError(f"--{option} expects columns separated by commas, e.g. age,3; got {text!r}.")
    return [column(cell) for cell in cells]


def column_options(options: FileOptions) -> dict[str, Any]:
    """Return the options of columns, which `prgd.open_rows` and `prgd.open_cluster` have too."""
    return {
        "label": None if options.label is None else column(options.label),
        "features": columns(options.features, "features"),
        "drop": columns(options.drop, "drop") or (),
    }


def refuse(options: FileOptions, names: Sequence[str], why: str) -> None:
    """Raise ``ValueError`` if one of these options was given; ``why`` says what it is for."""
    for o in options_of(type(options)):
        if o.name in names and getattr(options, o.name) not in (None, o.default):
            raise ValueError(f"{o.flags[0]} is for {why}")


def load_data(data: str, options: FileOptions, load: Load = datasets.load) -> datasets.Dataset:
    """Return the data set that DATA names, read whole: built in, of a file, or of standard input."""
    found = built_in(data, options, *(f.name for f in fields(FileOptions)))
    if found is None:
        names = ("labels", "format", "separator", "decimal", "missing")
        others = {name: getattr(options, name) for name in names}
        read = partial(load, **column_options(options), **others)
        found = _standard_input(read, options) if data == "-" else read(data_file(data))
    for note in found.notes:
        tell(note, options)
    return found


def check_formula_options(options: SeparatorOptions) -> None:
    """Raise ``ValueError`` for options that say what a formula says."""
    named = "data without --formula: that names the columns. Leave one out."
    refuse(options, ("label", "labels", "features", "drop"), named)
    refuse(options, ENGINE, "binomial data without --formula; got --formula. Leave one out.")
    if not options.fit_intercept:
        raise ValueError("--no-intercept is for data without --formula. Write - 1 in the formula instead.")
    if options.missing not in ("refuse", "drop"):
        raise ValueError(f"--formula takes --missing refuse or drop; got {options.missing}.")


def open_frame(data: str, options: FileOptions, used: Callable[[list[str]], Sequence[str]]) -> Frame:
    """Return the columns of DATA that a formula uses; ``used`` chooses them among all names."""
    if built_in(data) is not None:
        raise ValueError(
            f"A formula needs columns with names, which {data} lacks. Give a CSV or Parquet file."
        )

    def read(file: Path, format: str | None = options.format) -> Frame:
        found = load_frame(file, format=format, separator=options.separator, decimal=options.decimal)
        if data != "-":
            return found
        return replace(found, place=lambda row: found.place(row).replace(str(file), "standard input"))

    found = _standard_input(read, options) if data == "-" else read(data_file(data))
    names = used([str(name) for name in found.columns])
    for name in names:
        if name not in found.columns:
            raise unknown("column", name, map(str, found.columns))
    return found.complete(tuple(dict.fromkeys(names)), drop=options.missing == "drop")


def tell(note: str, options: FileOptions) -> None:
    """Print a note on standard error, unless ``--quiet`` is given."""
    if not getattr(options, "quiet", False):
        say(f"Note: {note}")


class Opened(NamedTuple):
    """What DATA names: rows with labels; if it was read whole, X and what `Model` keeps for other data."""

    name: str
    rows: Rows
    X: Any = None
    feature_means: Array | None = None
    recipe: Mapping[str, Any] = {}
    label_sets: Any = None


def open_data(data: str, options: RowsOptions, *, used_only: bool = False, sets: bool = False) -> Opened:
    """Return the rows of the data set that DATA names; `load_labelled` says what the options are."""
    memory, jobs = _memory(options), options.n_jobs
    if options.out_of_core:
        built_in(data, options, "out_of_core")
        _check_parts(data, options, "--out-of-core")
        file = data_file(data)
        labels = None if options.labels is None else Path(options.labels).expanduser()
        y = None if labels is None else one_label_each(read_labels(labels), labels)
        rows: Rows = prgd.open_rows(file, y, n_jobs=jobs, max_memory=memory, **column_options(options))
        _check_rows(data, rows, rows.labels.classes, options)
        opened = Opened(file.stem, rows)
    else:
        dataset = load_labelled(data, options, used_only=used_only, sets=sets)
        y, Y = (None, dataset.y) if np.ndim(dataset.y) > 1 else (dataset.y, None)
        rows = as_rows(dataset.X, y, None, jobs, dataset.feature_names)
        opened = Opened(dataset.name, rows, dataset.X, dataset.feature_means, label_sets=Y)
    classes = rows.labels.classes
    if classes is not None and 2 < classes.size == rows.n:
        shown = ", ".join(class_text(c) for c in classes[:3].tolist())
        raise ValueError(
            f"The labels must be classes; got {classes.size:,} values, a different label in each row "
            f"({shown}, ...). Name the column of the classes with --label."
        )
    return opened


def load_labelled(
    data: str, options: RowsOptions, *, used_only: bool = False, sets: bool = False
) -> datasets.Dataset:
    """Return the data set that DATA names, read whole, with its labels of two or more classes.

    ``used_only`` leaves out columns that are zero in every row: the indices of a LIBSVM file may leave
    millions of them between others. Several labels for each row are refused unless ``sets``.
    """

    def load(file: Path, **given: Any) -> datasets.Dataset:
        is_npy = (given["format"] or file.suffix.lower()[1:]) == "npy"
        if is_npy and given["labels"] is None:  # It holds rows z_i = y_i x_i.
            given["model"] = ModelFeatures(0)
        return datasets.load(file, **given)

    _memory(options)
    dataset = load_data(data, options, load)
    if dataset.y is not None and not sets:
        one_label_each(dataset.y, options.labels or data)
    if used_only and hasattr(dataset.X, "tocsr"):
        dataset = _with_used_columns(dataset, options)
    _check_rows(data, as_rows(dataset.X, feature_names=dataset.feature_names), dataset.y, options)
    return dataset


def _with_used_columns(dataset: datasets.Dataset, options: FileOptions) -> datasets.Dataset:
    """Return sparse data without the columns that are zero in every row; the others keep their names."""
    X: Any = dataset.X
    n, d = X.shape
    used, places = np.unique(X.indices, return_inverse=True)
    if not 0 < used.size < d:
        return dataset
    tell(f"{d - used.size:,} of {d:,} columns are zero in every row: aliased, and left out.", options)
    named = tuple(dataset.feature_names[j] if dataset.feature_names else f"x{j}" for j in used.tolist())
    columns = type(X)((X.data, places, X.indptr), shape=(n, used.size))
    return replace(dataset, X=columns, feature_names=named)


def _check_rows(data: str, rows: Rows, labels: Any, options: RowsOptions) -> None:
    """Raise ``ValueError`` if an intercept is asked for on rows without labels; print notes on the rows."""
    if labels is None and getattr(options, "fit_intercept", False):
        raise ValueError(
            f"{data} holds no labels. Give a file of them with --labels FILE; or, if its rows are multiplied "
            "by their labels -1 and 1 already, ask for a hyperplane through the origin with --no-intercept."
        )
    tell_ids(rows, options)


def _check_parts(data: str, options: RowsOptions, way: str) -> None:
    """Raise ``ValueError`` for options of files that are read whole."""
    if data == "-":
        raise ValueError(f"{way} reads files more than once, and standard input can be read once. Save it.")
    whole = ("format", "separator", "decimal", "missing")
    refuse(options, whole, f"files that are read whole. Leave it or {way} out.")


_ID = re.compile(r"(.*[_. -])?(id|index|row)|unnamed(: \d+)?", re.IGNORECASE)
_LOOKED_AT = 1000  # rows that tell whether a column numbers the rows


def tell_ids(rows: Rows, options: FileOptions) -> None:
    """Print notes on features of one name, and on those that seem to number the rows.

    The latter have a telling name, and different integers.
    """
    names = rows.feature_names or ()
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        shown = ", ".join(repr(name) for name in repeated)
        tell(
            f"several columns are called {shown}, and all are used as features. Rename them, or leave some "
            "out by position (--drop).",
            options,
        )
    places = [j for j, name in enumerate(names) if _ID.fullmatch(name)]
    if not places or rows.n < 3:
        return
    block = rows.take(np.arange(min(rows.n, _LOOKED_AT)))[:, places]
    values = block.toarray() if hasattr(block, "toarray") else block
    found = [
        names[j]
        for j, column in zip(places, values.T, strict=True)
        if (column == np.round(column)).all() and np.unique(column).size == column.size
    ]
    if found:
        shown = ", ".join(repr(name) for name in found)
        tell(
            f"column {shown} seems to number the rows, and is used as a feature. To leave it out: "
            f"--drop {as_option(found)}",
            options,
        )


def _standard_input(read: Callable[..., Read], options: FileOptions) -> Read:
    """Return the data set of standard input; its format is that of ``--format``, or told by its content."""
    content = sys.stdin.buffer.read()
    if not content.strip():
        raise ValueError("Expected data on standard input, got nothing. Pipe a file into the command.")
    with TemporaryDirectory(prefix="prgd-") as folder:
        if (ending := compression(content)) is not None:
            packed = Path(folder) / f"stdin{ending}"
            packed.write_bytes(content)
            try:
                with open_stream(packed) as stream:
                    content = stream.read()
            except BROKEN_STREAM as error:
                what = f"Expected a whole {ending} file on standard input, got an error ({error})."
                raise ValueError(f"{what} Fetch it again.") from error
        is_table = options.separator is not None or options.decimal != "."
        format = options.format or ("csv" if is_table else sniffed(content[: 2**16]))
        file = Path(folder) / f"stdin.{format}"
        file.write_bytes(content)
        try:
            found = read(file, format=format)
        except ValueError as error:
            raise ValueError(str(error).replace(str(file), "standard input")) from error
    notes = tuple(note.replace(str(file), "standard input") for note in found.notes)
    return replace(found, notes=notes)


@contextmanager
def open_cluster_data(cluster: str, data: str, options: RowsOptions, quiet: bool) -> Iterator[Opened]:
    """Yield the rows of files on a cluster; the address of its dashboard is printed."""
    built_in(data, options, "cluster")
    _check_parts(data, options, "--cluster")
    memory = _memory(options)

    def show(loaded: int, total: int) -> None:
        if not quiet and sys.stderr.isatty():
            end = "\n" if loaded == total else ""
            print(f"\rloaded {loaded:,} of {total:,} partitions", end=end, file=sys.stderr, flush=True)

    with prgd.open_cluster(
        data,
        options.labels,
        client=None if cluster == "local" else cluster,
        **column_options(options),
        n_jobs=options.n_jobs or 1,
        max_memory=memory if options.out_of_core else None,
        progress=show,
    ) as rows:
        if not quiet:
            say(f"dashboard: {rows.dashboard}")
        _check_rows(data, rows, rows.labels.classes, options)
        yield Opened(Path(data).name, rows)


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
