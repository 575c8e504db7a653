"""The command ``prgd fit``. It holds no mathematics, and is quick to import."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import typer

import prgd
from prgd.certificate import Certificate
from prgd.cli.common import (
    INTERRUPTED,
    METHOD,
    NOT_SEPARABLE,
    OUTPUT,
    STOP,
    UNDECIDED,
    Cluster,
    Data,
    Debug,
    Intercept,
    Label,
    MaxMemory,
    OutOfCore,
    Quiet,
    Threads,
    bounds,
    check_file,
    one_line_errors,
    option,
    print_table,
    say,
)
from prgd.cli.data import open_cluster_data, open_data
from prgd.cli.model import Model, class_text, classes_of
from prgd.maxmargin import MaxMarginResult
from prgd.progress import progress_line
from prgd.result import Status
from prgd.rows import Rows

Start = Annotated[
    Path | None,
    option(
        METHOD,
        "Start from this w: a .npy file, or the model of an earlier fit.",
        default="a few passes",
        metavar="FILE",
    ),
]
Out = Annotated[
    Path | None,
    option(
        OUTPUT,
        "File for the model, an .npz that prgd predict and numpy.load read.",
        default="nothing is written",
        metavar="FILE",
    ),
]
MaxPasses = Annotated[int, option(STOP, "Limit on passes over the data.", "--max-passes", min=1, metavar="N")]
EXIT_CODES = {
    Status.CERTIFIED: 0,
    Status.NOT_SEPARABLE: NOT_SEPARABLE,
    Status.INTERRUPTED: INTERRUPTED,
}


def fit_command(
    data: Data,
    label: Label = None,
    out_of_core: OutOfCore = False,
    max_memory: MaxMemory = None,
    cluster: Cluster = None,
    threads: Threads = None,
    intercept: Intercept = True,
    start: Start = None,
    tol: Annotated[float, option(STOP, "Relative gap to certify.", metavar="TOL")] = 1e-6,
    max_passes: MaxPasses = 1000,
    out: Out = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find the hyperplane of largest margin on DATA, and prove it.

    Exit code 0: the gap is certified. 1: not within --max-passes. 3: the data are not separable.
    130: Ctrl-C; the best interval so far is kept. 2: an error.

    Example: prgd fit digits:0,1 --tol 1e-8 --out model.npz
    """
    with one_line_errors(debug), ExitStack() as stack:
        check_file(out)
        w0 = None if start is None else _load_start(start)
        opening = data, label, out_of_core, max_memory, threads
        if cluster is not None:
            name, rows = stack.enter_context(open_cluster_data(cluster, *opening, quiet))
        else:
            name, rows = open_data(*opening)
        started = time.perf_counter()
        result = _fit(rows, intercept, tol, max_passes, w0, out, quiet)
        seconds = time.perf_counter() - started
        if out is not None:
            Model.of(result, rows).save(out)
        if not quiet:
            print_table(_summary(name, data, rows, result, seconds, out))
        if result.status is Status.INTERRUPTED:
            kept = "nothing was saved; give --out FILE" if out is None else f"{out} holds the best interval"
            say(f"Interrupted; {kept}.")
    raise typer.Exit(EXIT_CODES.get(result.status, UNDECIDED))


def _fit(
    rows: Rows,
    intercept: bool,
    tol: float,
    max_passes: int,
    w0: Any,
    out: Path | None,
    quiet: bool,
) -> MaxMarginResult:
    """Fit with a progress line; if rows are lost on the way, keep the last w beside ``out``."""
    best = Certificate()
    with progress_line(not quiet and sys.stdout.isatty(), "fit") as show:

        def callback(entry: dict[str, float]) -> None:
            nonlocal best
            best = Certificate(entry["margin"], entry["upper_bound"])
            show(SimpleNamespace(t=round(entry["passes"])), best)

        try:
            return prgd.max_margin(
                rows, fit_intercept=intercept, tol=tol, max_passes=max_passes, callback=callback, w0=w0
            )
        except prgd.RowsLostError as error:
            if error.w is None or out is None:
                raise
            kept = out.with_suffix(".start.npy")
            np.save(kept, error.w)
            raise prgd.RowsLostError(f"{error} So far {best}; go on with --start {kept}.") from error


def _load_start(file: Path) -> Any:
    """Return the w in a ``.npy`` file or in a model."""
    if file.suffix != ".npy":
        return Model.load(file).coef
    try:
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"--start expects a .npy file or a model; {file} cannot be read ({error})."
        ) from error


def _summary(
    name: str, data: str, rows: Rows, result: MaxMarginResult, seconds: float, out: Path | None
) -> list[tuple[str, str]]:
    """Return the lines of the printed table."""
    negative, positive = (class_text(c) for c in classes_of(rows).tolist())
    lines = [
        ("data", f"{name}, {rows.n:,} x {rows.d:,}, {type(rows).__name__}"),
        ("classes", f"{negative} (score < 0), {positive} (score > 0)"),
        ("status", str(result.status)),
        *bounds(
            result.margin,
            result.upper_bound,
            result.gap,
            ("no hyperplane found that separates", "none"),
        ),
        ("support vectors", f"{result.support.size:,} of {rows.n:,} rows"),
        ("passes over the data", f"{result.passes:.1f}"),
        ("time", f"{seconds:.2f} s"),
    ]
    if out is not None:
        lines.append(("model", str(out)))
    if result.status is Status.NOT_SEPARABLE:
        lines.append(("why", f"prgd separability {data}{'' if result.fit_intercept else ' --no-intercept'}"))
    return lines
