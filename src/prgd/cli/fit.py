"""The command ``prgd fit``. It holds no mathematics, and is quick to import."""

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import typer

import prgd
from prgd.cli import common, outcome
from prgd.cli.common import data_option, output_option, stop_option
from prgd.cli.data import Opened, open_cluster_data, open_data
from prgd.cli.label_sets import fit_label_sets
from prgd.cli.options import from_options, option, options_of
from prgd.cli.tables import all_at_once, open_design, scaled
from prgd.core.checks import CellError
from prgd.core.files import atomic_write
from prgd.estimators.fitting import Fitting
from prgd.estimators.model import Model
from prgd.proofs.hyperplanes import overlap_in_words
from prgd.rows import as_rows
from prgd.rows.readers.npy import load_npy
from prgd.running.history import Status
from prgd.running.result import Result

_SCALED = ("", ""), ("columns as given (not scaled)", "columns divided by their standard deviations")
# keys of JSON that say whether a hyperplane separates the classes, and prove it
PROVING = ("status", "message", "is_separable", "margin", "upper_bound", "support", "dual_weights")


@dataclass(frozen=True)
class FitOptions(common.MarginOptions):
    """Options of ``prgd fit``.

    Parameters
    ----------
    cluster : str or None
        Spread the files of DATA, which may be a quoted pattern, over the Dask workers at this address
        (tcp://HOST:PORT), or over workers started on this machine (local).
    multi_class : str
        More than two classes: ovr separates each from the rest, joint all of them at once, by a weight matrix
        whose margin is the smallest one of a row against another class. Two classes have one hyperplane
        either way.
    C : str or None
        Fit a soft margin: smaller values allow more violations of the margin; cv chooses by held-out folds.
    fallback : str
        If no hyperplane separates the classes: soft fits a soft margin instead, raise only proves it.
    start : Path or None
        Start from this w: a .npy file, or the model of an earlier fit.
    tol : float
        Relative gap to certify.
    max_passes : int or None
        Limit on passes over the data, asked between rounds: the last round may exceed it by a few.
    formula : str or None
        Label and features as in R: 'sick ~ age + C(stage)'. Arithmetic, factors, log, exp, poly, scale and
        the like are known. prgd predict makes the same features again.
    encode : bool
        Make a feature of 0 and 1 of each text in a column of texts.
    scale : bool
        Divide each feature by its standard deviation; margins and bounds are about the divided ones.
    out : Path or None
        File for the model, an .npz that prgd predict and numpy.load read.
    force : bool
        Replace the file of --out.
    quiet : bool
        Print errors and warnings only.
    """

    cluster: str | None = data_option(None, metavar="ADDRESS", shown_default="no cluster")
    formula: str | None = data_option(None, metavar="FORMULA", shown_default="all columns, as numbers")
    encode: bool = data_option(False)
    scale: bool = data_option(False)
    multi_class: str = option("ovr", metavar="ovr|joint")
    C: str | None = option(
        None, metavar="NUMBER|cv", flags=("--C",), shown_default="infinity, the hard margin"
    )
    fallback: str = option("soft", metavar="soft|raise")
    start: Path | None = option(None, metavar="FILE", shown_default="a few passes")  # noqa: RUF009 - `option` returns a field
    tol: float = stop_option(1e-06, metavar="TOL")
    max_passes: int | None = stop_option(None, minimum=1, shown_default="1000; of a soft margin 100000")
    out: Path | None = output_option(None, metavar="FILE", shown_default="nothing is written")  # noqa: RUF009 - `option` returns a field
    force: bool = output_option(False)
    quiet: bool = output_option(False)
    json: str | None = outcome.json_option()


@common.with_options(options_of(FitOptions))
def fit_command(data: common.Data, debug: common.Debug = False, **given: Any) -> None:
    """Find the largest margin on DATA, and prove it; of several classes, each against the rest or jointly.

    If no hyperplane separates the classes, the proof is printed, and a soft margin is fitted instead.

    A file of --labels may hold many label sets, a column of 1, -1 and 0 (left out) for each: all of them are
    fitted, and --out keeps them.

    Exit code 0: certified. 1: not within --max-passes. 2: an error. 3: the classes are not separable, with
    --fallback raise. 130: Ctrl-C; the best interval so far is kept.

    A fit that was killed leaves no file, or the one of --out as it was: run it again.

    Example: prgd fit digits:0,1 --tol 1e-8 --out model.npz
    """
    with common.one_line_errors(debug, given["json"]), ExitStack() as stack:
        o = from_options(FitOptions, given)
        is_printed = outcome.is_printed(o.quiet, o.json)
        passes = o.max_passes or Fitting.max_passes, o.max_passes or Fitting.max_soft_passes
        title = "fit" if is_printed and sys.stdout.isatty() else ""
        limits = {"max_passes": passes[0], "max_soft_passes": passes[1], "C": common.price_of(o.C)}
        fitting = Fitting.of(o, norm=o.margin_norm, title=title, **limits)
        _check_files(o)
        w0 = None if o.start is None else _load_start(o.start)
        if o.cluster is not None:
            opened = stack.enter_context(open_cluster_data(o.cluster, data, o, not is_printed))
            fitting = _on_cluster(fitting, opened)
        else:
            opened, o = _opened(data, o)
            if opened.label_sets is not None:
                raise typer.Exit(fit_label_sets(opened, o))
            fitting = replace(fitting, fit_intercept=o.fit_intercept)
        started = time.perf_counter()
        model = _fitted(fitting, opened, w0, o.out)
        if o.cluster is not None and fitting.fallback != o.fallback and not model.is_separated:
            common.say("Warning: the soft margins of several classes are not fitted with --cluster.")
        model = replace(model, feature_means=opened.feature_means, recipe=opened.recipe)
        seconds = time.perf_counter() - started
        if o.out is not None:
            model.save(o.out)
        if is_printed:
            common.print_table(_summary(opened, model, seconds, o))
        outcome.write_json(o.json, _facts(opened.name, model, seconds, o))
        if model.results[-1].status is Status.INTERRUPTED:
            kept = "nothing was saved; give --out FILE" if o.out is None else f"{o.out} holds the best bounds"
            common.say(f"Interrupted; {kept}.")
        if model.proofs and not is_printed:
            common.say(f"Warning: {_instead(model)}")
        unproven = any(proof.is_separable is None for proof in model.proofs)
        codes = [outcome.exit_code(result) for result in model.results]
        raise typer.Exit(max(codes + [outcome.NOT_CERTIFIED] * unproven))


def _check_files(o: FitOptions) -> None:
    """Check the files that are written before any work."""
    common.check_file(o.out)
    outcome.check_json(o.json, o.out)
    if o.out is not None and o.out.exists() and not o.force:
        raise ValueError(f"{o.out} exists. Give another --out, or --force to replace it.")


def _opened(data: str, o: FitOptions) -> tuple[Opened, FitOptions]:
    """Return the rows of DATA, and the options with the intercept of a formula."""
    if o.formula is None and not o.encode:
        try:
            opened = open_data(data, o, sets=True)
        except CellError as error:
            said = "" if data == "-" else all_at_once("fit", data, o)
            raise ValueError(f"{error}{said}") from error
        recipe: dict[str, Any] = {}
    else:
        dataset, recipe = open_design(data, o)
        o = replace(o, fit_intercept=recipe["has_intercept"])
        rows = as_rows(dataset.X, dataset.y, None, o.n_jobs, dataset.feature_names)
        opened = Opened(dataset.name, rows, dataset.X)
    if o.scale:
        if opened.X is None:
            raise ValueError("--scale is for files that are read whole. Leave it or --out-of-core out.")
        from sklearn.preprocessing import StandardScaler  # takes seconds to import

        recipe["scales"] = StandardScaler(with_mean=False).fit(opened.X).scale_.tolist()
        X = scaled(opened.X, recipe)
        rows = as_rows(X, None, None, o.n_jobs, opened.rows.feature_names).with_labels(opened.rows.labels)
        opened = opened._replace(X=X, rows=rows)
    recipe |= {"missing": o.missing} if o.missing != "refuse" else {}
    return opened._replace(recipe=recipe), o


def _on_cluster(fitting: Fitting, opened: Opened) -> Fitting:
    """Return the fit of rows on a cluster, whose labels cannot be replaced by those of one class."""
    if not opened.rows.labels.is_joint:
        return fitting
    if fitting.multi_class != "joint":
        raise ValueError(
            f"--cluster separates two classes, or more of them jointly; {opened.name} has "
            f"{len(opened.rows.labels.class_weights)}. Give --multi-class joint, or leave --cluster out."
        )
    return replace(fitting, fallback="raise")


def _fitted(fitting: Fitting, opened: Opened, w0: Any, out: Path | None) -> Model:
    """Fit the model; if rows are lost, keep the last w beside the file of ``--out``."""
    classes = opened.rows.labels.classes
    if w0 is not None and classes is not None and classes.size > 2 and fitting.multi_class != "joint":
        raise ValueError(
            f"--start is for two classes, or --multi-class joint; {opened.name} has {classes.size}. "
            "Leave --start out."
        )
    try:
        return fitting.model(opened.rows, opened.X, starts=[] if w0 is None else [w0])
    except prgd.RowsLostError as error:
        if error.w is None or out is None:
            raise
        kept = out.with_suffix(".start.npy")
        with atomic_write(kept) as file:
            np.save(file, error.w)
        raise prgd.RowsLostError(f"{str(error).rstrip('.')}; go on with --start {kept}.") from error


def _load_start(file: Path) -> Any:
    """Return the w of ``--start``, from a ``.npy`` file or a model."""
    if file.suffix != ".npy":
        return common.load_model(file, "--start").results[0].coef
    try:
        return load_npy(file)
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(f"--start expects a .npy file or a model; {error}") from error


# What is said


def _why(proof: Result) -> str:
    """Return in words whether a hyperplane separates, and how that is proven."""
    if proof.margin > 0.0:
        return f"yes, with a margin from {proof.margin:.9g} to {proof.upper_bound:.9g}"
    if proof.is_separable is None:
        return f"no hyperplane was found that separates them; its margin is at most {proof.upper_bound:.3g}"
    if proof.multi_class == "joint":
        return (
            f"no, proven: positive weights on {proof.support.size} pairs of a row and another class average "
            "(e_y - e_j) x_i to zero, so no weights separate all classes"
        )
    return f"no, proven: {overlap_in_words(proof.support.size, proof.fit_intercept)}"


def _instead(model: Model) -> str:
    """Return what was fitted where classes are not separable."""
    which = "the classes"
    if model.proofs[0].multi_class == "joint":
        which = "all classes jointly"
    elif len(model.results) > 1:
        pairs = zip(common.class_names(model), model.proofs, strict=True)
        which = f"{', '.join(name for name, proof in pairs if not proof.margin > 0.0)} from the rest"
    return f"no hyperplane separates {which}: {_soft(model)} was fitted instead."


def _soft(model: Model) -> str:
    """Return the soft margin in words: whatever was asked, it is in l2, of one class against the rest."""
    which = "" if len(model.results) == 1 else ", of each class against the rest"
    return f"a soft margin in l2{which} (squared hinge, C = {model.results[0].C:.6g})"


def _summary(opened: Opened, model: Model, seconds: float, o: FitOptions) -> list[tuple[str, str]]:
    """Return the lines of the printed table; of several classes, each line about one begins with its name."""
    first, names = model.results[0], common.class_names(model)
    heads = [f"{name}, " for name in names]
    classes = ", ".join(names) + ("; jointly" if model.is_joint else "; each against the rest")
    if len(names) == 2:
        classes = f"{names[0]} (score < 0), {names[1]} (score > 0)"
    lines = [
        ("data", f"{opened.name}, {first.n:,} x {model.coef.shape[1]:,}, {common.kind_of(opened.rows)}"),
        ("problem", model.hard[0].problem_in_words.replace(*_SCALED["scales" in model.recipe])),
        ("classes", classes),
    ]
    for head, proof in zip(heads if len(model.hard) > 1 else [""], model.hard, strict=True):
        if model.proofs or not proof.margin > 0.0:
            lines.append((f"{head}separable", _why(proof)))
    if model.proofs:
        lines.append(("fitted instead", f"{_soft(model)}; C has the smallest error on folds of the rows"))
    for head, result in zip(heads if len(model.results) > 1 else [""], model.results, strict=True):
        about = [("status", str(result.status))]
        about += outcome.bounds(result, "no hyperplane was found that separates the classes")
        # Weights of classes that are separated jointly are those of pairs, several of a row.
        support = np.unique(result.support // result.terms_per_row)
        about += [("support vectors", f"{support.size:,} of {result.n:,} rows")]
        lines += [(f"{head}{name}", words) for name, words in about]
    passes = sum(result.passes for result in [*model.results, *model.proofs])
    lines += [("passes over the data", f"{passes:.1f}"), ("time", f"{seconds:.2f} s")]
    return lines + ([] if o.out is None else [("model", str(o.out))])


def _facts(name: str, model: Model, seconds: float, o: FitOptions) -> dict[str, Any]:
    """Return what ``--json`` writes: of two classes the facts of the result, of more a list of results."""
    proofs = [{k: v for k, v in outcome.facts_of(proof).items() if k in PROVING} for proof in model.proofs]
    targets = model.classes[-len(model.results) :].tolist() if not model.is_joint else [None]
    results = [
        {"target": target, **outcome.facts_of(result), "proof": proof}
        for target, result, proof in zip_longest(targets, model.results, proofs)
    ]
    facts = {"data": name, "classes": model.classes, "seconds": seconds, "model": o.out and str(o.out)}
    return {**facts, **(results[0] if len(results) == 1 else {"results": results})}
