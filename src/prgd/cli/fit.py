"""The command ``prgd fit``. It holds no mathematics, and is quick to import."""

from __future__ import annotations

import math
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer

import prgd
from prgd.cli import common, outcome
from prgd.cli.classes import Problems
from prgd.cli.common import data_option, output_option, stop_option
from prgd.cli.data import open_cluster_data
from prgd.cli.options import from_options, option, options_of
from prgd.core.checks import joint_hint
from prgd.core.files import atomic_write
from prgd.core.values import digest
from prgd.estimators.model import Model
from prgd.maxmargin import Round
from prgd.norms import L2, as_norm
from prgd.problem.certificate import Certificate, quantity_of
from prgd.proofs.overlap import overlap_in_words
from prgd.rows import Fingerprint, Rows
from prgd.rows.readers.file_kinds import load_npy
from prgd.running.history import Status
from prgd.running.progress import progress_line
from prgd.running.result import Result


@dataclass(frozen=True)
class FitOptions(common.MarginOptions):
    """Options of ``prgd fit``."""

    cluster: str | None = data_option(
        None,
        "Spread the files of DATA, which may be a quoted pattern, over the Dask workers at this address "
        "(tcp://HOST:PORT), or over workers started on this machine (local).",
        metavar="ADDRESS",
        shown_default="no cluster",
    )
    multi_class: str = option(
        "ovr",
        "More than two classes: ovr separates each from the rest, joint all of them at once, by a weight "
        "matrix whose margin is the smallest one of a row against another class. Two classes have one "
        "hyperplane either way.",
        metavar="ovr|joint",
    )
    C: float = option(
        math.inf,
        "Fit a soft margin: smaller values allow more violations of the margin.",
        flags=("--C",),
        shown_default="infinity, the hard margin",
    )
    fallback: str = option(
        "soft",
        "If no hyperplane separates the classes: soft fits a soft margin instead, raise only proves it.",
        metavar="soft|raise",
    )
    start: Path | None = option(  # noqa: RUF009 - `option` returns a field
        None,
        "Start from this w: a .npy file, or the model of an earlier fit.",
        metavar="FILE",
        shown_default="a few passes",
    )
    tol: float = stop_option(1e-6, "Relative gap to certify.", metavar="TOL")
    max_passes: int | None = stop_option(
        None,
        "Limit on passes over the data, asked between rounds: the last round may exceed it by a few.",
        minimum=1,
        shown_default="1000; of a soft margin 100000",
    )
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
    json: str | None = outcome.json_option()


@common.with_options(options_of(FitOptions))
def fit_command(data: common.Data, debug: common.Debug = False, **given: Any) -> None:
    """Find the largest margin on DATA, and prove it; of several classes, each against the rest or jointly.

    If no hyperplane separates the classes, the proof is printed, and a soft margin is fitted instead.

    Exit code 0: certified. 1: not within --max-passes. 2: an error. 3: the classes are not separable, with
    --fallback raise. 130: Ctrl-C; the best interval so far is kept.

    A fit that was killed leaves no file, or the one of --out as it was: run it again.

    Example: prgd fit digits:0,1 --tol 1e-8 --out model.npz
    """
    with common.one_line_errors(debug, given["json"]), ExitStack() as stack:
        o = from_options(FitOptions, given)
        _check(o)
        w0 = None if o.start is None else _load_start(o.start)
        if o.cluster is not None:
            rows = open_cluster_data(o.cluster, data, o, not outcome.is_printed(o.quiet, o.json))
            problems = _cluster_problems(*stack.enter_context(rows), o)
        else:
            problems = Problems.open(data, o, o.multi_class == "joint")
        started = time.perf_counter()
        model, is_kept = _model(problems, w0, o)
        seconds = time.perf_counter() - started
        if o.out is not None and not is_kept:
            model.save(o.out)
        if outcome.is_printed(o.quiet, o.json):
            common.print_table(_summary(problems, model, seconds, o))
        outcome.write_json(o.json, _facts(problems.name, model, seconds, o))
        if model.results[-1].status is Status.INTERRUPTED:
            kept = "nothing was saved; give --out FILE" if o.out is None else f"{o.out} holds the best bounds"
            common.say(f"Interrupted; {kept}.")
        code = _exit_code(model)
        if any(model.proofs) and not outcome.is_printed(o.quiet, o.json):
            common.say(f"Warning: {_instead(model)}")
    raise typer.Exit(code)


def _check(o: FitOptions) -> None:
    """Check the options before any work."""
    if o.fallback not in ("soft", "raise"):
        raise ValueError(f"--fallback must be soft or raise; got {o.fallback!r}.")
    if o.multi_class not in ("ovr", "joint"):
        raise ValueError(
            f"--multi-class must be ovr or joint; got {o.multi_class!r}.{joint_hint(o.multi_class)}"
        )
    if not o.C > 0.0:
        raise ValueError(f"--C must be a number above 0; got {o.C:g}. Leave it out for the hard margin.")
    if math.isfinite(o.C) and (as_norm(o.margin_norm) != L2() or o.multi_class == "joint"):
        raise ValueError(
            "--C is for --norm l2 and --multi-class ovr: soft margins are those of one class against the "
            f"rest in l2; got --C {o.C:g}, --norm {o.margin_norm} and --multi-class {o.multi_class}. "
            "Leave --C out."
        )
    common.check_file(o.out)
    outcome.check_json(o.json, o.out)
    if o.out is not None and o.out.exists() and not (o.resume or o.force):
        raise ValueError(
            f"{o.out} exists. Give another --out, --force to replace it, or --resume to keep it if it is "
            "the whole fit of these data."
        )


def _cluster_problems(name: str, rows: Rows, o: FitOptions) -> Problems:
    """Return the problem of rows on a cluster, whose labels cannot be replaced by those of one class."""
    problems = Problems.of(name, rows, o.multi_class == "joint")
    if problems.joint is None and len(problems.makers) > 1:
        raise ValueError(
            f"--cluster separates two classes, or more of them jointly; {name} has {len(problems.makers)}. "
            "Give --multi-class joint, or leave --cluster out."
        )
    return problems


def _model(problems: Problems, w0: Any, o: FitOptions) -> tuple[Model, bool]:
    """Return the model, and whether the file of ``--out`` holds it already."""
    # A fit is deterministic: one that was killed is made again, and one that was not is kept.
    earlier = _earlier(o, problems, w0)
    means = problems.feature_means
    if earlier is not None:
        return replace(earlier, feature_means=means), digest(means) == digest(earlier.feature_means)
    every = list(problems.separations)
    if w0 is not None and len(every) > 1:
        raise ValueError(
            f"--start is for two classes, or --multi-class joint; {problems.name} has {len(every)}. "
            "Leave --start out."
        )
    results, proofs = _solve_all(every, o.C, w0, o), list[Result | None]()
    is_whole = results[-1].status is not Status.INTERRUPTED
    if _needs_soft(results, o) and is_whole:
        C = problems.choose_C(o.intercept)  # one C for all classes, whose scores are compared
        every = list(problems.against_rest)
        # That all classes do not separate jointly has one proof, which is kept with the first class.
        proofs = [*results, *[None] * (len(every) - len(results))]
        results = _solve_all(every, C, None, o)
    if o.out is not None:
        results = [
            replace(r, fingerprint=_fingerprint(rows, w0, o))
            for r, (rows, _) in zip(results, every, strict=True)
        ]
    return Model(problems.classes, tuple(results), tuple(proofs or [None] * len(results)), means), False


def _needs_soft(results: list[Result], o: FitOptions) -> bool:
    """Return whether soft margins are to be fitted, since some classes were not separated."""
    if o.fallback != "soft" or all(result.margin > 0.0 for result in results):
        return False
    if o.cluster is not None and results[0].multi_class == "joint":
        common.say("Warning: the soft margins of several classes are not fitted with --cluster.")
        return False
    return True


def _fingerprint(rows: Rows, w0: Any, o: FitOptions) -> str:
    """Return the hashes of the data and of the options that decide the model."""
    start = None if w0 is None else np.asarray(w0)
    decisive: list[Any] = [start, o.tol, o.max_passes or 1000, o.intercept]
    decisive += [o.C] * math.isfinite(o.C) + [o.fallback] * (o.fallback != "soft")
    norm = as_norm(o.margin_norm)
    decisive += [norm.name] * (norm != L2()) + [o.multi_class] * (o.multi_class != "ovr")
    return f"{rows.ask(Fingerprint())}-{digest(tuple(decisive))}"


def _earlier(o: FitOptions, problems: Problems, w0: Any) -> Model | None:
    """Return the whole model of the same data and options that ``--resume`` finds, None if there is none."""
    if not o.resume or o.force or o.out is None or not o.out.exists():
        return None
    try:
        found = Model.load(o.out)
    except ValueError as error:
        common.say(f"Warning: {error} The fit is made again.")
        return None
    if not found.results[0].fingerprint:
        raise ValueError(
            f"{o.out} was saved without a record of its data, so --resume cannot tell whether it is of "
            "these data. Give --force to replace it."
        )
    if len(found.classes) != len(problems.classes):
        raise ValueError(f"{o.out} is a model of other classes than these data have. Give another --out.")
    every = problems.separations if found.is_joint else problems.against_rest
    for result, (rows, _) in zip(found.results, every, strict=True):
        result.check_fingerprint(_fingerprint(rows, w0, o))
    return None if found.results[-1].status is Status.INTERRUPTED else found


def _solve_all(every: list[tuple[Rows, str]], C: float, w0: Any, o: FitOptions) -> list[Result]:
    """Solve every problem for one C; Ctrl-C keeps the bounds of the last problem, if no other one is left."""
    results: list[Result] = []
    for rows, title in every:
        if results and results[-1].status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # Some classes have not been begun, and nothing stands for them.
        results.append(_solve(rows, C, w0, o, title))
    return results


def _solve(rows: Rows, C: float, w0: Any, o: FitOptions, title: str) -> Result:
    """Solve for one C, with a progress line; if rows are lost, keep the last w beside the file of --out."""
    best = Certificate()
    is_shown = outcome.is_printed(o.quiet, o.json) and sys.stdout.isatty()
    with progress_line(is_shown and f"fit {title}".strip()) as show:

        def callback(entry: Round) -> None:
            nonlocal best
            # Before its proof, the interval of a soft margin may be crossed by rounding.
            lower = min(entry.margin, entry.upper_bound)
            best = Certificate(lower, entry.upper_bound, quantity=quantity_of(C))
            show(round(entry.passes), best)

        is_hard = math.isinf(C)
        solve: Any = prgd.max_margin if is_hard else partial(prgd.soft_margin, C=C)
        is_joint = rows.labels.is_joint
        kind = {"norm": o.margin_norm, "multi_class": "joint" if is_joint else None} if is_hard else {}
        try:
            result: Result = solve(
                rows,
                fit_intercept=o.intercept,
                tol=o.tol,
                max_passes=o.max_passes or (1000 if is_hard else 100_000),
                callback=callback,
                w0=w0,
                **kind,
            )
            return result
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
        return common.load_model(file, "--start").results[0].coef
    try:
        return load_npy(file)
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(f"--start expects a .npy file or a model; {error}") from error


def _exit_code(model: Model) -> int:
    """Return the largest exit code of the results; a soft margin in place of a separator counts as asked."""
    unproven = any(proof is not None and proof.is_separable is None for proof in model.proofs)
    codes = [outcome.exit_code(result) for result in model.results]
    return max(codes + [outcome.NOT_CERTIFIED] * unproven)


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
    pairs = zip(model.targets, model.proofs, strict=True)
    names = [common.class_text(target) for target, proof in pairs if proof and not proof.margin > 0.0]
    which = "the classes" if len(model.results) == 1 else f"{', '.join(names)} from the rest"
    proof = model.proofs[0]
    if proof is not None and proof.multi_class == "joint":
        which = "all classes jointly"
    return f"no hyperplane separates {which}: {_soft(model)} was fitted instead."


def _soft(model: Model) -> str:
    """Return the soft margin in words: whatever was asked, it is in l2, of one class against the rest."""
    which = "" if len(model.results) == 1 else ", of each class against the rest"
    return f"a soft margin in l2{which} (squared hinge, C = {model.results[0].C:.6g})"


def _summary(problems: Problems, model: Model, seconds: float, o: FitOptions) -> list[tuple[str, str]]:
    """Return the lines of the printed table; of several classes, each line about one begins with its name."""
    first, names = model.results[0], common.class_names(model)
    heads = [""] if len(model.results) == 1 else [f"{name}, " for name in names]
    classes = ", ".join(names) + ("; jointly" if model.is_joint else "; each against the rest")
    if len(names) == 2:
        classes = f"{names[0]} (score < 0), {names[1]} (score > 0)"
    lines = [
        ("data", f"{problems.name}, {first.n:,} x {model.d:,}, {common.kind_of(problems.rows)}"),
        ("problem", (model.proofs[0] or first).problem_in_words),
        ("classes", classes),
    ]
    for head, result, proof in zip(heads, model.results, model.proofs, strict=True):
        if proof or not result.margin > 0.0:
            is_about_all = proof is not None and proof.multi_class == "joint"
            lines.append((f"{'' if is_about_all else head}separable", _why(proof or result)))
    if any(model.proofs):
        lines.append(("fitted instead", f"{_soft(model)}; C has the smallest error on folds of the rows"))
    for head, result in zip(heads, model.results, strict=True):
        about = [("status", str(result.status))]
        about += outcome.bounds(result, "no hyperplane was found that separates the classes")
        about += [("support vectors", f"{outcome.support_rows(result).size:,} of {result.n:,} rows")]
        lines += [(f"{head}{name}", words) for name, words in about]
    passes = sum(result.passes for result in [*model.results, *filter(None, model.proofs)])
    lines += [("passes over the data", f"{passes:.1f}"), ("time", f"{seconds:.2f} s")]
    return lines + ([] if o.out is None else [("model", str(o.out))])


def _facts(name: str, model: Model, seconds: float, o: FitOptions) -> dict[str, Any]:
    """Return what ``--json`` writes: of two classes the facts of the result, of more a list of results."""
    results = [
        {"target": target, **outcome.facts_of(result), "proof": proof and outcome.proof_facts(proof)}
        for target, result, proof in zip(model.targets, model.results, model.proofs, strict=True)
    ]
    facts = {"data": name, "classes": model.classes, "seconds": seconds, "model": o.out and str(o.out)}
    return {**facts, **(results[0] if len(results) == 1 else {"results": results})}
