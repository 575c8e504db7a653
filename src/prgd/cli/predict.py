"""The command ``prgd predict``."""

from __future__ import annotations

import csv
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from prgd import datasets
from prgd.cli import common
from prgd.cli.common import argument, output_option
from prgd.cli.data import load_data
from prgd.datasets.files import load_features
from prgd.files import atomic_write
from prgd.options import from_options, options_of
from prgd.result import Result
from prgd.rows.readers.columns import match_names


@dataclass(frozen=True)
class PredictOptions(common.FileOptions):
    """Options of ``prgd predict``."""

    out: Path | None = output_option(  # noqa: RUF009 - `option` returns a field
        None, "CSV file for the predictions.", metavar="FILE", shown_default="standard output"
    )
    scores: bool = output_option(False, "Add the score, positive for the second class.")


@common.with_options(options_of(PredictOptions))
def predict_command(
    model: Annotated[Path, argument("MODEL", "A file that prgd fit --out wrote.")],
    data: Annotated[
        str,
        argument(
            "DATA",
            "A file (LIBSVM, CSV, TSV, NPZ, NPY or Parquet; with or without labels), - for standard input, "
            "or a built-in set.",
        ),
    ],
    debug: common.Debug = False,
    **given: Any,
) -> None:
    """Predict the class of each row of DATA.

    Columns are matched by name if the model and DATA have names: their order does not matter, further
    columns are ignored with a note, and missing ones are an error. Else only their number is compared.

    If DATA has labels, the share of them that is predicted right is printed too (on standard error when the
    predictions go to standard output).

    Example: prgd predict model.npz digits:0,1 --scores --out predictions.csv
    """
    with common.one_line_errors(debug):
        options = from_options(PredictOptions, given)
        out, scores = options.out, options.scores
        common.check_file(out)
        fitted = common.load_model(model, "MODEL")
        X, y = _load(data, options, fitted)
        found = (X @ fitted.coef + fitted.intercept).tolist()
        classes = common.class_names(fitted)
        predictions = [classes[score > 0.0] for score in found]
        with nullcontext(sys.stdout) if out is None else atomic_write(out, "w") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["prediction", "score"] if scores else ["prediction"])
            writer.writerows(zip(*((predictions, found) if scores else (predictions,)), strict=True))
        accuracy = [] if y is None else [("accuracy", _accuracy(classes, predictions, y))]
        if out is None:
            for name, value in accuracy:
                common.say(f"{name}: {value}")
        else:
            counts = ", ".join(f"{c}: {predictions.count(c):,}" for c in classes)
            rows = [("rows", f"{len(predictions):,}"), ("predictions", counts)]
            common.print_table([*rows, *accuracy, ("file", str(out))])


def _load(data: str, options: PredictOptions, fitted: Result) -> datasets.Dataset:
    """Return the rows with the features of the model, and the labels or None."""
    d, names = fitted.coef.size, fitted.feature_names
    dataset = load_data(data, options, partial(load_features, n_features=d, feature_names=names))
    if None not in (names, dataset.feature_names) and dataset.feature_names != names:  # a built-in set
        places = match_names(names or (), dataset.feature_names or (), data)
        return replace(dataset, X=dataset.X[:, places])
    if dataset.X.shape[1] != d:
        raise ValueError(
            f"{data} has {dataset.X.shape[1]:,} features, and the model was fitted on {d:,}. "
            "Give the same columns in the same order."
        )
    return dataset


def _accuracy(classes: list[str], predictions: list[str], y: Any) -> str:
    truth = [common.class_text(c) for c in y.tolist()]
    if set(classes).isdisjoint(truth):
        return f"none: no label of the data is a class of the model ({', '.join(classes)})"
    right = sum(a == b for a, b in zip(truth, predictions, strict=True))
    return f"{right / len(truth):.6g} ({right:,} of {len(truth):,})"
