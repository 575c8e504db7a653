"""The command ``prgd predict``."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from prgd.cli.common import OUTPUT, Debug, Label, check_file, one_line_errors, option, print_table, say
from prgd.cli.data import built_in, data_file, label_column
from prgd.cli.model import Model, class_text, write_whole
from prgd.datasets.files import load_features


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

    If DATA has labels, the share of them that is predicted right is printed too (on standard error when the
    predictions go to standard output).

    Example: prgd predict model.npz digits:0,1 --scores --out predictions.csv
    """
    with one_line_errors(debug):
        check_file(out)
        fitted = Model.load(model)
        X, y = _load(data, label, fitted.n_features)
        found = X @ fitted.coef + fitted.intercept
        classes = [class_text(c) for c in fitted.classes.tolist()]
        predictions = [classes[int(score > 0.0)] for score in found.tolist()]

        def write(file: IO[str]) -> None:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["prediction", "score"] if scores else ["prediction"])
            columns = (predictions, found.tolist()) if scores else (predictions,)
            writer.writerows(zip(*columns, strict=True))

        accuracy = [] if y is None else [("accuracy", _accuracy(classes, predictions, y))]
        if out is None:
            write(sys.stdout)
            for name, value in accuracy:
                say(f"{name}: {value}")
        else:
            write_whole(out, "w", write)
            counts = ", ".join(f"{c}: {predictions.count(c):,}" for c in classes)
            rows = [("rows", f"{len(predictions):,}"), ("predictions", counts)]
            print_table([*rows, *accuracy, ("file", str(out))])


def _load(data: str, label: str | None, d: int) -> tuple[Any, Any]:
    """Return X of d features, and the labels or None."""
    dataset = built_in(data, label=label)
    X, y = load_features(data_file(data), d, label=label_column(label)) if dataset is None else dataset
    if X.shape[1] != d:
        raise ValueError(
            f"{data} has {X.shape[1]:,} features, and the model was fitted on {d:,}. "
            "Give the same columns in the same order."
        )
    return X, y


def _accuracy(classes: list[str], predictions: list[str], y: Any) -> str:
    truth = [class_text(c) for c in y.tolist()]
    if set(classes).isdisjoint(truth):
        return f"none: no label of the data is a class of the model ({', '.join(classes)})"
    right = sum(a == b for a, b in zip(truth, predictions, strict=True))
    return f"{right / len(truth):.6g} ({right:,} of {len(truth):,})"
