"""The command ``prgd fit``. It holds no mathematics, and is quick to import."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import prgd
from prgd.certificate import Certificate
from prgd.cli import common
from prgd.cli.common import METHOD, OUTPUT, STOP, option
from prgd.cli.data import open_cluster_data, open_data
from prgd.maxmargin import Round
from prgd.progress import progress_line
from prgd.result import Result, Status
from prgd.rows import Rows
from prgd.rows.readers.file_kinds import load_npy

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
EXIT_CODES = {Status.CERTIFIED: 0, Status.NOT_SEPARABLE: 3, Status.INTERRUPTED: common.INTERRUPTED}


def fit_command(
    data: common.Data,
    label: common.Label = None,
    out_of_core: common.OutOfCore = False,
    max_memory: common.MaxMemory = None,
    cluster: common.Cluster = None,
    threads: common.Threads = None,
    intercept: common.Intercept = True,
    start: Start = None,
    tol: Annotated[float, option(STOP, "Relative gap to certify.", metavar="TOL")] = 1e-6,
    max_passes: MaxPasses = 1000,
    out: Out = None,
    quiet: common.Quiet = False,
    debug: common.Debug = False,
) -> None:
    """Find the hyperplane of largest margin on DATA, and prove it.

    Exit code 0: the gap is certified. 1: not within --max-passes. 3: the data are not separable.
    130: Ctrl-C; the best interval so far is kept. 2: an error.

    Example: prgd fit digits:0,1 --tol 1e-8 --out model.npz
    """
    with common.one_line_errors(debug), ExitStack() as stack:
        common.check_file(out)
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
            result.save(out)
        if not quiet:
            common.print_table(_summary(name, data, rows, result, seconds, out))
        if result.status is Status.INTERRUPTED:
            kept = "nothing was saved; give --out FILE" if out is None else f"{out} holds the best interval"
            common.say(f"Interrupted; {kept}.")
    raise typer.Exit(EXIT_CODES.get(result.status, common.UNDECIDED))


def _fit(
    rows: Rows, intercept: bool, tol: float, max_passes: int, w0: Any, out: Path | None, quiet: bool
) -> Result:
    """Fit with a progress line; if rows are lost on the way, keep the last w beside ``out``."""
    best = Certificate()
    with progress_line(not quiet and sys.stdout.isatty() and "fit") as show:

        def callback(entry: Round) -> None:
            nonlocal best
            best = Certificate(entry.margin, entry.upper_bound)
            show(round(entry.passes), best)

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
    """Return the w of ``--start``, from a ``.npy`` file or a model."""
    if file.suffix != ".npy":
        return common.load_model(file, "--start").coef
    try:
        return load_npy(file)
    except ValueError as error:
        raise ValueError(f"--start expects a .npy file or a model; {error}") from error


def _summary(
    name: str, data: str, rows: Rows, result: Result, seconds: float, out: Path | None
) -> list[tuple[str, str]]:
    """Return the lines of the printed table."""
    negative, positive = common.class_names(result)
    lines = [
        ("data", f"{name}, {rows.n:,} x {rows.d:,}, {type(rows).__name__}"),
        ("classes", f"{negative} (score < 0), {positive} (score > 0)"),
        ("status", str(result.status)),
        *common.bounds(result.certificate, ("no hyperplane found that separates", "none")),
        ("support vectors", f"{result.support.size:,} of {rows.n:,} rows"),
        ("passes over the data", f"{result.passes:.1f}"),
        ("time", f"{seconds:.2f} s"),
    ]
    if out is not None:
        lines.append(("model", str(out)))
    if result.status is Status.NOT_SEPARABLE:
        lines.append(("why", f"prgd separability {data}{'' if result.fit_intercept else ' --no-intercept'}"))
    return lines
