"""The command ``prgd separability``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from prgd.cli import common, outcome
from prgd.cli.common import data_option
from prgd.cli.data import ENGINE, check_formula_options, load_labelled, open_data, open_frame, refuse
from prgd.cli.options import from_options, options_of
from prgd.core.checks import TextError, unknown
from prgd.running.progress import stage_line, tell_stage

if TYPE_CHECKING:
    from prgd.regression import Separability


@dataclass(frozen=True)
class SeparabilityOptions(common.SeparatorOptions):
    """Options of ``prgd separability``.

    Parameters
    ----------
    formula : str or None
        A regression over the columns of DATA, as in R: 'y ~ age + C(stage)'; counts: 'cbind(successes,
        failures) ~ age'. Arithmetic, factors, log, exp, poly and the like are known; other Python code is
        not run.
    formula_python : bool
        Run whatever Python code --formula holds, with your rights: for formulas that you trust.
    family : str
        The model: binomial, multinomial, ordinal or poisson.
    weights : str or None
        Column of weights or counts of the rows, with --formula.
    fit : str or None
        Fit the model too, and print its table: infinite estimates and their one-sided intervals, or with
        firth the estimates by Firth's penalty.
    csv : str or None
        Write the table of --fit as CSV to FILE.
    quiet : bool
        Print errors and warnings only.
    """

    formula: str | None = data_option(None, metavar="FORMULA", shown_default="all columns, as numbers")
    formula_python: bool = data_option(False)
    family: str = data_option("binomial", metavar="NAME")
    weights: str | None = data_option(None, metavar="COLUMN", shown_default="all 1")
    fit: str | None = data_option(None, metavar="[firth]", shown_default="no fit")
    json: str | None = outcome.json_option()
    csv: str | None = common.output_option(None, metavar="FILE", shown_default="no CSV")
    quiet: bool = common.output_option(False)


@common.with_options(options_of(SeparabilityOptions))
def separability_command(data: common.Data, debug: common.Debug = False, **given: Any) -> None:
    """Say which coefficients of a regression are infinite, since the classes separate, and prove it.

    Exit code 0: decided, whatever the answer. 1: undecided. 2: an error. 130: Ctrl-C.

    Example: prgd separability data.csv --formula "HG ~ NV + PI + EH"
    """
    with common.one_line_errors(debug, given["json"]):
        options = from_options(SeparabilityOptions, given)
        outcome.check_json(options.json)
        from prgd.regression.families import FAMILIES
        from prgd.regression.summary import facts
        from prgd.separation import Verdict

        if options.family not in FAMILIES:
            raise unknown("family", options.family, FAMILIES)
        if options.csv is not None and options.fit is None:
            raise ValueError("--csv writes the table of --fit: give --fit too, or leave --csv out.")
        with stage_line(not options.quiet and "separability"):
            try:
                said, found = _decided(data, options)
            except TextError as error:
                raise ValueError(
                    f"{error} Or give --formula 'y ~ age + stage': text columns are factors there."
                ) from error
        is_printed = outcome.is_printed(options.quiet, options.json)
        if is_printed:
            print(found)
        said |= {"formula": options.formula, **facts(found)}
        if options.fit is not None:
            fitted = found.fit(None if options.fit == "limit" else options.fit)
            said["fit"] = fitted.facts()
            if options.csv is not None:
                fitted.to_csv(options.csv)
            if is_printed:
                print(f"\n{fitted}")
        outcome.write_json(options.json, said)
        if found.is_interrupted:
            raise KeyboardInterrupt
        if found.verdict is Verdict.UNDECIDED:
            raise typer.Exit(outcome.NOT_CERTIFIED)


def _decided(data: str, options: SeparabilityOptions) -> tuple[dict[str, Any], Separability]:
    """Return what JSON says about the data, and the verdict."""
    from prgd.regression import separability
    from prgd.regression.formula import columns_of, read_formula
    from prgd.regression.separability import Regression

    tell_stage(f"reading {data}")
    if options.formula is not None:
        check_formula_options(options)
        weights = () if options.weights is None else (options.weights,)
        formula, trust = options.formula, options.formula_python
        frame = open_frame(data, options, lambda names: (*columns_of(formula, names, trust), *weights))
        given: dict[str, Any] = {"family": options.family, "sample_weight": options.weights}
        model = read_formula(formula, frame.columns, is_python=trust, **given)
        said: dict[str, Any] = {"data": frame.name, "n": len(frame.columns)}
        if frame.kept is not None and frame.dropped is not None:
            said["dropped_rows"] = frame.dropped.tolist()
            model = model.placed(frame.kept, frame.kept.size + frame.dropped.size)
        return said, replace(model, notes=(*frame.notes, *model.notes)).decide()
    if options.weights is not None:
        raise ValueError("--weights names a column of a regression: give --formula too, or leave it out.")
    if options.family == "binomial":
        name, rows, *_ = open_data(data, options, used_only=True)
        return {"data": name, "n": rows.n}, separability(rows, fit_intercept=options.fit_intercept)
    refuse(options, ENGINE, f"binomial data without --formula; got --family {options.family}. Leave one out.")
    dataset = load_labelled(data, options, used_only=True)
    found = Regression(
        dataset.X, dataset.y, dataset.feature_names, options.family, options.fit_intercept
    ).decide()
    return {"data": dataset.name, "n": dataset.X.shape[0]}, found
