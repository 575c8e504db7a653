"""The command ``prgd fit``. It holds no mathematics, and is quick to import."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

import prgd
from prgd.certificate import Certificate
from prgd.cli import common
from prgd.cli.common import data_option, output_option, stop_option
from prgd.cli.data import open_cluster_data, open_data
from prgd.files import atomic_write
from prgd.history import Status
from prgd.maxmargin import Round
from prgd.options import from_options, option, options_of
from prgd.progress import progress_line
from prgd.result import Result
from prgd.rows import Fingerprint, Rows
from prgd.rows.readers.file_kinds import load_npy
from prgd.values import digest

EXIT_CODES = {
    Status.CERTIFIED: 0,
    Status.NOT_SEPARABLE: 3,
    Status.QUASI_SEPARABLE: 3,
    Status.INTERRUPTED: common.INTERRUPTED,
}


@dataclass(frozen=True)
class FitOptions(common.SeparatorOptions):
    """Options of ``prgd fit``."""

    cluster: str | None = data_option(
        None,
        "Spread the files of DATA, which may be a quoted pattern, over the Dask workers at this address "
        "(tcp://HOST:PORT), or over workers started on this machine (local).",
        metavar="ADDRESS",
        shown_default="no cluster",
    )
    start: Path | None = option(  # noqa: RUF009 - `option` returns a field
        None,
        "Start from this w: a .npy file, or the model of an earlier fit.",
        metavar="FILE",
        shown_default="a few passes",
    )
    tol: float = stop_option(1e-6, "Relative gap to certify.", metavar="TOL")
    max_passes: int = stop_option(1000, "Limit on passes over the data.", minimum=1)
    out: Path | None = output_option(  # noqa: RUF009 - `option` returns a field
        None,
        "File for the model, an .npz that prgd predict and numpy.load read.",
        metavar="FILE",
        shown_default="nothing is written",
    )
    resume: bool = output_option(
        False, "Keep the file of --out if it holds the whole fit of these data and options; else fit."
    )
    force: bool = output_option(False, "Replace the file of --out.")
    quiet: bool = output_option(False, "Print errors and warnings only.")


@common.with_options(options_of(FitOptions))
def fit_command(data: common.Data, debug: common.Debug = False, **given: Any) -> None:
    """Find the hyperplane of largest margin on DATA, and prove it.

    Exit code 0: the gap is certified. 1: not within --max-passes. 3: the data are not separable.
    130: Ctrl-C; the best interval so far is kept. 2: an error.

    A fit that was killed leaves no file, or the one of --out as it was: run it again.

    Example: prgd fit digits:0,1 --tol 1e-8 --out model.npz
    """
    with common.one_line_errors(debug), ExitStack() as stack:
        options = from_options(FitOptions, given)
        out = options.out
        common.check_file(out)
        if out is not None and out.exists() and not (options.resume or options.force):
            raise ValueError(
                f"{out} exists. Give another --out, --force to replace it, or --resume to keep it if it is "
                "the whole fit of these data."
            )
        w0 = None if options.start is None else _load_start(options.start)
        if options.cluster is not None:
            name, rows = stack.enter_context(open_cluster_data(options.cluster, data, options, options.quiet))
        else:
            name, rows = open_data(data, options)
        started = time.perf_counter()
        # A fit is deterministic: one that was killed is made again, and one that was not is kept.
        fingerprint = "" if out is None else _fingerprint(rows, w0, options)
        earlier = _earlier(options, fingerprint)
        result = earlier or replace(_fit(rows, w0, options), fingerprint=fingerprint)
        seconds = time.perf_counter() - started
        if out is not None and earlier is None:
            result.save(out)
        if not options.quiet:
            common.print_table(_summary(name, data, rows, result, seconds, out))
        if result.status is Status.INTERRUPTED:
            kept = "nothing was saved; give --out FILE" if out is None else f"{out} holds the best interval"
            common.say(f"Interrupted; {kept}.")
    raise typer.Exit(EXIT_CODES.get(result.status, common.UNDECIDED))


def _fingerprint(rows: Rows, w0: Any, o: FitOptions) -> str:
    """Return the hashes of the data and of the options that decide the model."""
    start = None if w0 is None else np.asarray(w0)
    return f"{rows.ask(Fingerprint())}-{digest((start, o.tol, o.max_passes, o.intercept))}"


def _earlier(o: FitOptions, fingerprint: str) -> Result | None:
    """Return the whole model of the same data and options that ``--resume`` finds, None if there is none."""
    if not o.resume or o.force or o.out is None or not o.out.exists():
        return None
    try:
        found = Result.load(o.out)
    except ValueError as error:
        common.say(f"Warning: {error} The fit is made again.")
        return None
    if not found.fingerprint:
        raise ValueError(
            f"{o.out} does not say of which data it is, so --resume cannot keep it. "
            "Give --force to replace it."
        )
    found.check_fingerprint(fingerprint)
    return None if found.status is Status.INTERRUPTED else found


def _fit(rows: Rows, w0: Any, o: FitOptions) -> Result:
    """Fit with a progress line; if rows are lost on the way, keep the last w beside the file of ``--out``."""
    best = Certificate()
    with progress_line(not o.quiet and sys.stdout.isatty() and "fit") as show:

        def callback(entry: Round) -> None:
            nonlocal best
            best = Certificate(entry.margin, entry.upper_bound)
            show(round(entry.passes), best)

        try:
            return prgd.max_margin(
                rows, fit_intercept=o.intercept, tol=o.tol, max_passes=o.max_passes, callback=callback, w0=w0
            )
        except prgd.RowsLostError as error:
            if error.w is None or o.out is None:
                raise
            kept = o.out.with_suffix(".start.npy")
            with atomic_write(kept) as file:
                np.save(file, error.w)
            raise prgd.RowsLostError(f"{error} So far {best}; go on with --start {kept}.") from error


def _load_start(file: Path) -> Any:
    """Return the w of ``--start``, from a ``.npy`` file or a model."""
    if file.suffix != ".npy":
        return common.load_model(file, "--start").coef
    try:
        return load_npy(file)
    except (ValueError, FileNotFoundError) as error:
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
    if result.is_separable is False:
        lines.append(("why", f"prgd separability {data}{'' if result.fit_intercept else ' --no-intercept'}"))
    return lines
