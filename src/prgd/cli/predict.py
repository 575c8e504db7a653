"""The command ``prgd predict``."""

import csv
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd import datasets
from prgd.cli import common, outcome
from prgd.cli.common import argument, complete_file, output_option
from prgd.cli.data import load_data, tell
from prgd.cli.options import from_options, options_of
from prgd.cli.tables import open_design_again, scaled
from prgd.core.checks import unknown
from prgd.core.files import atomic_write
from prgd.core.types import Array
from prgd.datasets.base import ModelFeatures
from prgd.estimators.model import Model
from prgd.maxmargin.batch_result import BatchResult
from prgd.rows.readers.columns import match_names
from prgd.rows.readers.frame import load_frame
from prgd.running.scores import classify


@dataclass(frozen=True)
class PredictOptions(common.FileOptions):
    """Options of ``prgd predict``.

    Parameters
    ----------
    out : Path or None
        CSV file for the columns of DATA (or that of --id), the predictions and the scores. Standard input and
        arrays, which have no columns to copy, get numbers of rows.
    id : str or None
        Column that names the rows in the file of --out, in place of all columns of DATA.
    scores : bool
        Add the score, positive for the second class; of several classes, the score of each. A file of --out
        has them.
    """

    out: Path | None = output_option(None, metavar="FILE", shown_default="standard output")  # noqa: RUF009 - `option` returns a field
    id: str | None = output_option(None, metavar="COLUMN", shown_default="all columns of DATA")
    scores: bool = output_option(False)
    json: str | None = outcome.json_option()


@common.with_options(options_of(PredictOptions))
def predict_command(
    model: Annotated[Path, argument("MODEL", "A file that prgd fit --out wrote.", complete_file)],
    data: common.Data,
    debug: common.Debug = False,
    **given: Any,
) -> None:
    """Predict the class of each row of DATA, which may have labels or not.

    Columns are matched by name if the model and DATA have names: their order does not matter, further
    columns are ignored with a note, and missing ones are an error. Else only their number is compared.

    What prgd fit did to the columns (--formula, --encode, --scale, --missing) is done again. A row that is
    dropped for a missing value has an empty prediction, so that predictions stay beside the rows of DATA.

    A model of many label sets predicts 1 and -1 (or 0, if the fit had it) for each of them, in columns that
    are counted from 0.

    If DATA has labels, the share of them that is predicted right is printed too (on standard error when the
    predictions go to standard output).

    Example: prgd predict model.npz new.csv --id customer --out predictions.csv
    """
    with common.one_line_errors(debug, given["json"]):
        o = from_options(PredictOptions, given)
        common.check_file(o.out)
        outcome.check_json(o.json, o.out)
        fitted, batch = _load_model(model)
        o = replace(o, missing=fitted.recipe.get("missing", "refuse") if o.missing == "refuse" else o.missing)
        dataset = _load(data, o, fitted)
        found = _of_classes(fitted, dataset, o) if batch is None else _of_label_sets(batch, dataset)
        is_table = o.json != "-" and (o.out is not None or sys.stdout.isatty())
        if o.out is not None or not (is_table or o.json == "-"):
            own = [] if o.out is None else _columns(data, o, len(found.predictions[0][1]))
            _write(o.out, [*own, *found.predictions, *(found.scores if o.scores or own else [])])
        if not is_table and found.accuracy:
            common.say(f"accuracy: {found.accuracy}")
        if is_table:
            file = "none is written: give --out FILE" if o.out is None else str(o.out)
            accuracy = [("accuracy", found.accuracy)] if found.accuracy else []
            common.print_table([*found.lines, *accuracy, ("file", file)])
        outcome.write_json(o.json, {"model": str(model), "data": data, **found.facts})


Column = tuple[str, Sequence[Any]]  # the name and the cells


class _Predictions(NamedTuple):
    """Columns of predictions and scores, the accuracy in words, lines of the summary, and facts for JSON."""

    predictions: list[Column]
    scores: list[Column]
    accuracy: str
    lines: list[tuple[str, str]]
    facts: dict[str, Any]


def _of_classes(fitted: Model, dataset: datasets.Dataset, o: PredictOptions) -> _Predictions:
    scores, classes = fitted.decision_function(dataset.X), common.class_names(fitted)
    predictions = [common.class_text(c) for c in classify(scores, fitted.classes).tolist()]
    truth = None if dataset.y is None else [common.class_text(c) for c in dataset.y.tolist()]
    share, accuracy = (None, "") if truth is None else _accuracy(classes, predictions, truth, o)
    placed, scores = _in_place(predictions, scores, dataset.is_kept)
    names = ["score"] if scores.ndim == 1 else [f"score {c}" for c in classes]
    dropped = len(placed) - len(predictions)
    lines = [("rows", f"{len(placed):,}" + f", {dropped:,} of them dropped" * (dropped > 0))]
    lines += [("predictions", ", ".join(f"{c}: {predictions.count(c):,}" for c in classes))]
    facts = {"n": len(placed), "classes": classes, "feature_names": fitted.feature_names}
    facts |= {"predictions": placed, "decision_function": scores, "accuracy": share}
    columns = [*zip(names, np.atleast_2d(scores.T).tolist(), strict=True)]
    return _Predictions([("prediction", placed)], columns, accuracy, lines, facts)


def _of_label_sets(batch: BatchResult, dataset: datasets.Dataset) -> _Predictions:
    scores = batch.decision_function(dataset.X)
    predictions = batch.predict(dataset.X)
    facts, accuracy = {"n": len(scores), "predictions": predictions, "decision_function": scores}, ""
    if dataset.y is not None:
        shares = facts["accuracy"] = batch.score(dataset.X, dataset.y)
        each = ", ".join(f"{share:.6g}" for share in shares)
        accuracy = f"{np.nanmean(shares):.6g} on average; of each label set {each}"
    columns = [
        [(f"{name} {k}", column) for k, column in enumerate(array.T.tolist())]
        for name, array in [("prediction", predictions), ("score", scores)]
    ]
    lines = [("rows", f"{len(scores):,}"), ("label sets", f"{len(batch):,}")]
    return _Predictions(columns[0], columns[1], accuracy, lines, facts)


def _load_model(path: Path) -> tuple[Model, BatchResult | None]:
    """Return the model of a file; of many label sets the first one, which has their features, and all."""
    try:
        return common.load_model(path, "MODEL"), None
    except ValueError:
        with suppress(ValueError):
            batch = BatchResult.load(path)
            return Model(np.array([-1, 1]), batch.results[:1]), batch
        raise


def _accuracy(
    classes: list[str], predictions: list[str], truth: list[str], options: PredictOptions
) -> tuple[float | None, str]:
    """Return the share of labels that are predicted, None if no label is a class of the model, and in words.

    A note tells of labels that are no class of the model, beside others that are.
    """
    if set(classes).isdisjoint(truth):
        return None, f"none: no label of the data is a class of the model ({', '.join(classes)})"
    if others := Counter(label for label in truth if label not in classes):
        shown = ", ".join(list(others)[:10]) + ", ..." * (len(others) > 10)
        tell(
            f"{others.total():,} of {len(truth):,} rows have labels that the model does not know "
            f"({shown}); they count as wrong in the accuracy.",
            options,
        )
    right = sum(a == b for a, b in zip(truth, predictions, strict=True))
    return right / len(truth), f"{right / len(truth):.6g} ({right:,} of {len(truth):,})"


def _in_place(
    predictions: list[str], scores: Array, is_kept: npt.NDArray[np.bool_] | None
) -> tuple[list[str | None], Array]:
    """Return one prediction and score for each row of the data: None and NaN for rows that were dropped."""
    if is_kept is None:
        return [*predictions], scores
    rest = iter(predictions)
    every = np.full((len(is_kept), *scores.shape[1:]), np.nan)
    every[is_kept] = scores
    return [next(rest) if kept else None for kept in is_kept.tolist()], every


def _columns(data: str, options: PredictOptions, n: int) -> list[Column]:
    """Return the columns of DATA, or that of ``--id``, for the file of predictions; else numbers of rows."""
    try:
        frame = load_frame(data, format=options.format, separator=options.separator, decimal=options.decimal)
    except (ValueError, OSError) as error:
        if options.id is not None:
            raise ValueError(f"--id takes a column of a file with a header; {data} is none.") from error
        return [("row", range(n))]
    found = {str(name): np.asarray(frame.columns[name]).tolist() for name in frame.columns}
    if options.id is not None and options.id not in found:
        raise unknown("column", options.id, found)
    return [*found.items()] if options.id is None else [(options.id, found[options.id])]


def _write(out: Path | None, columns: list[Column]) -> None:
    """Write columns as CSV; cells of None and NaN, as of rows that were dropped, are empty."""
    cells = [["" if v is None or v != v else common.class_text(v) for v in own] for _, own in columns]
    with nullcontext(sys.stdout) if out is None else atomic_write(out, "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([name for name, _ in columns])
        writer.writerows(zip(*cells, strict=True))


def _load(data: str, options: PredictOptions, fitted: Model) -> datasets.Dataset:
    """Return the rows with the features of the model, and the labels or None."""
    if "formula" in fitted.recipe:
        dataset = open_design_again(data, options, dict(fitted.recipe))
        return replace(dataset, X=scaled(dataset.X, fitted.recipe))
    d, names = fitted.coef.shape[1], fitted.feature_names
    means = fitted.feature_means
    if options.missing == "mean" and means is None:
        raise ValueError(
            "--missing mean takes the means of the rows that the model was fitted on, and MODEL holds none: "
            "fit it with prgd fit --missing mean, or use --missing drop."
        )
    dataset = load_data(data, options, partial(datasets.load, model=ModelFeatures(d, names, means)))
    if None not in (names, dataset.feature_names) and dataset.feature_names != names:  # a built-in set
        places = match_names(names or (), dataset.feature_names or (), data)
        dataset = replace(dataset, X=dataset.X[:, places])
    if dataset.X.shape[1] != d:
        raise ValueError(
            f"{data} has {dataset.X.shape[1]:,} features, and the model was fitted on {d:,}. "
            "Give the same columns in the same order."
        )
    return replace(dataset, X=scaled(dataset.X, fitted.recipe))
