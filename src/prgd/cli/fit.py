"""``prgd fit``, ``prgd predict`` and ``prgd separability``. No mathematics here, and quick to import."""

from __future__ import annotations

import csv
import json
import math
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import prgd
from prgd.certificate import Certificate
from prgd.cli.common import (
    INTERRUPTED,
    METHOD,
    OUTPUT,
    STOP,
    Cluster,
    Data,
    Debug,
    Label,
    MaxMemory,
    OutOfCore,
    Quiet,
    Threads,
    one_line_errors,
    open_cluster_data,
    open_data,
    option,
    print_table,
    say,
)
from prgd.cli.model import Model, check_file, classes_of, load_features, write_whole
from prgd.maxmargin import MaxMarginResult
from prgd.problem import as_rows
from prgd.progress import progress_line
from prgd.result import Status
from prgd.rows import Rows

if TYPE_CHECKING:
    from prgd.separation.verdict import Separability

UNDECIDED, NOT_SEPARABLE = 1, 3  # exit codes

Intercept = Annotated[
    bool,
    option(METHOD, "Fit an unpenalised intercept, or pass through the origin.", "--intercept/--no-intercept"),
]


def fit_command(
    data: Data,
    label: Label = None,
    out_of_core: OutOfCore = False,
    max_memory: MaxMemory = None,
    cluster: Cluster = None,
    threads: Threads = None,
    intercept: Intercept = True,
    start: Annotated[
        Path | None,
        option(
            METHOD,
            "Start from this w: a .npy file, or the model of an earlier fit.",
            default="a few passes",
            metavar="FILE",
        ),
    ] = None,
    tol: Annotated[float, option(STOP, "Relative gap to certify.", metavar="TOL")] = 1e-6,
    max_passes: Annotated[
        int, option(STOP, "Limit on readings of the data.", "--max-passes", min=1, metavar="N")
    ] = 1000,
    out: Annotated[
        Path | None,
        option(
            OUTPUT,
            "File for the model, an .npz that prgd predict and numpy.load read.",
            default="nothing is written",
            metavar="FILE",
        ),
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find the hyperplane of largest margin on DATA, and prove it.

    Exit code 0: the gap is certified. 1: not within --max-passes. 3: the data are not separable.
    130: Ctrl-C; the best interval so far is kept. 2: an error.

    Example: prgd fit digits:0,1 --tol 1e-8 --out model.npz
    """
    with one_line_errors(debug):
        if out is not None:
            check_file(out)
        w0 = None if start is None else _load_start(start)
        with ExitStack() as stack:
            if cluster is not None:
                opened = open_cluster_data(cluster, data, label, out_of_core, max_memory, threads, quiet)
                name, rows = stack.enter_context(opened)
            else:
                name, rows = _open_rows(data, label, out_of_core, max_memory, threads)
            started = time.perf_counter()
            result = _fit(rows, intercept, tol, max_passes, w0, out, quiet)
            seconds = time.perf_counter() - started
            if out is not None:
                Model.of(result, rows).save(out)
            if not quiet:
                print_table(_summary(name, data, rows, result, seconds, out))
            if result.status is Status.INTERRUPTED:
                kept = (
                    "nothing was saved; give --out FILE" if out is None else f"{out} holds the best interval"
                )
                say(f"Interrupted; {kept}.")
    codes = {
        Status.CERTIFIED: 0,
        Status.NOT_SEPARABLE: NOT_SEPARABLE,
        Status.INTERRUPTED: INTERRUPTED,
    }
    raise typer.Exit(codes.get(result.status, UNDECIDED))


def _fit(
    rows: Rows,
    intercept: bool,
    tol: float,
    max_passes: int,
    w0: Any,
    out: Path | None,
    quiet: bool,
) -> MaxMarginResult:
    """Fit with a progress line; where rows are lost on the way, keep w beside ``out``."""
    bounds = Certificate()
    with progress_line(not quiet and sys.stdout.isatty(), "fit") as show:

        def callback(entry: dict[str, float]) -> None:
            nonlocal bounds
            bounds = Certificate(entry["margin"], entry["upper_bound"])
            show(SimpleNamespace(t=round(entry["passes"])), bounds)

        try:
            return prgd.max_margin(
                rows, fit_intercept=intercept, tol=tol, max_passes=max_passes, callback=callback, w0=w0
            )
        except prgd.RowsLostError as error:
            if error.w is None or out is None:
                raise
            kept = out.with_suffix(".start.npy")
            np.save(kept, error.w)
            raise prgd.RowsLostError(f"{error} So far {bounds}; go on with --start {kept}.") from error


def _load_start(file: Path) -> Any:
    """Return the w of a ``.npy`` file or of a model."""
    if file.suffix != ".npy":
        return Model.load(file).coef
    try:
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"--start expects a .npy file or a model; {file} cannot be read ({error})."
        ) from error


def predict_command(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", show_default=False, help="A file that prgd fit --out wrote.")
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            show_default=False,
            help="A file (LIBSVM, CSV, NPZ or Parquet; with or without labels) or a built-in set.",
        ),
    ],
    label: Label = None,
    out: Annotated[
        Path | None,
        option(OUTPUT, "CSV file for the predictions.", default="standard output", metavar="FILE"),
    ] = None,
    scores: Annotated[
        bool, option(OUTPUT, "Add the score, positive for the second class.", "--scores")
    ] = False,
    debug: Debug = False,
) -> None:
    """Predict the class of each row of DATA.

    Where DATA has labels, their share that is predicted right is printed too (on standard error when the
    predictions go to standard output).

    Example: prgd predict model.npz digits:0,1 --scores --out predictions.csv
    """
    with one_line_errors(debug):
        if out is not None:
            check_file(out)
        fitted = Model.load(model)
        X, y = load_features(data, label, fitted.n_features)
        found = fitted.score(X)
        predictions = [_text(c) for c in fitted.classes[(found > 0.0).astype(int)].tolist()]

        def write(file: IO[str]) -> None:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["prediction", "score"] if scores else ["prediction"])
            columns = (predictions, found.tolist()) if scores else (predictions,)
            writer.writerows(zip(*columns, strict=True))

        lines = _accuracy(fitted, predictions, y)
        if out is None:
            write(sys.stdout)
            for name, value in lines:
                say(f"{name}: {value}")
        else:
            write_whole(out, "w", write)
            shares = [f"{_text(c)}: {predictions.count(_text(c)):,}" for c in fitted.classes.tolist()]
            print_table(
                [
                    ("rows", f"{len(predictions):,}"),
                    ("predictions", ", ".join(shares)),
                    *lines,
                    ("file", str(out)),
                ]
            )


def separability_command(
    data: Data,
    label: Label = None,
    out_of_core: OutOfCore = False,
    max_memory: MaxMemory = None,
    threads: Threads = None,
    intercept: Intercept = True,
    as_json: Annotated[bool, option(OUTPUT, "Print one JSON object instead of words.", "--json")] = False,
    debug: Debug = False,
) -> None:
    """Say whether a hyperplane separates the classes of DATA, and prove it.

    Exit code 0: decided, whatever the answer. 1: undecided. 2: an error.

    Example: prgd separability cancer --no-intercept
    """
    with one_line_errors(debug):
        _, rows = _open_rows(data, label, out_of_core, max_memory, threads)
        from prgd.separation import Verdict, separability

        found = separability(rows, fit_intercept=intercept)
        print(json.dumps(_facts(found), indent=1) if as_json else found)
        if found.verdict is Verdict.UNDECIDED:
            raise typer.Exit(UNDECIDED)


def _open_rows(
    data: str, label: str | None, out_of_core: bool, max_memory: str | None, threads: int | None
) -> tuple[str, Rows]:
    name, given = open_data(data, label, out_of_core, max_memory, threads)
    return name, as_rows(given["X"], given.get("y"), None, given.get("n_threads"))


# What is printed


def _text(label: Any) -> str:
    """Write a class as its file had it: 1, not 1.0."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _summary(
    name: str, data: str, rows: Rows, result: MaxMarginResult, seconds: float, out: Path | None
) -> list[tuple[str, str]]:
    negative, positive = (_text(c) for c in classes_of(rows).tolist())
    is_found = result.margin > 0.0
    lines = [
        ("data", f"{name}, {rows.n:,} x {rows.d:,}, {type(rows).__name__}"),
        ("classes", f"{negative} (score < 0), {positive} (score > 0)"),
        ("status", str(result.status)),
        (
            "margin, lower bound",
            f"{result.margin:.9g}"
            if is_found
            else f"{result.margin:.9g} (no hyperplane found that separates)",
        ),
        ("margin, upper bound", f"{result.upper_bound:.9g}"),
        ("relative gap", f"{result.gap:.2e}" if is_found else "none"),
        ("support vectors", f"{result.support.size:,} of {rows.n:,} rows"),
        ("passes over the data", f"{result.passes:.1f}"),
        ("time", f"{seconds:.2f} s"),
    ]
    if out is not None:
        lines.append(("model", str(out)))
    if result.status is Status.NOT_SEPARABLE:
        lines.append(("why", f"prgd separability {data}{'' if result.fit_intercept else ' --no-intercept'}"))
    return lines


def _accuracy(model: Model, predictions: list[str], y: Any) -> list[tuple[str, str]]:
    """Return the line with the accuracy; nothing without labels."""
    if y is None:
        return []
    truth, classes = [_text(c) for c in y.tolist()], {_text(c) for c in model.classes.tolist()}
    if classes.isdisjoint(truth):
        return [("accuracy", f"none: no label of the data is a class of the model ({', '.join(classes)})")]
    right = sum(a == b for a, b in zip(truth, predictions, strict=True))
    return [("accuracy", f"{right / len(truth):.6g} ({right:,} of {len(truth):,})")]


def _facts(found: Separability) -> dict[str, Any]:
    """Return the verdict and what proves it as JSON takes it: no NaN, weights of the rows that have some."""
    weights = None
    if found.dual_weights is not None:
        carried = np.flatnonzero(found.dual_weights)
        weights = {"rows": carried.tolist(), "values": found.dual_weights[carried].tolist()}
    numbers = {name: getattr(found, name) for name in ("margin", "lower", "upper", "residual")}
    return {
        "verdict": str(found.verdict),
        "is_separable": found.is_separable,
        "fit_intercept": found.fit_intercept,
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
        "coef": None if found.coef is None else found.coef.tolist(),
        "intercept": found.intercept,
        "features": found.features.tolist(),
        "weights": weights,
        "separated_rows": found.separated_rows.tolist(),
        "boundary_rows": found.boundary_rows.tolist(),
        "how": found.how,
    }
