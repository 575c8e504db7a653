"""The command ``prgd predict``."""

from __future__ import annotations

import csv
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from prgd import datasets
from prgd.cli import common, outcome
from prgd.cli.common import argument, output_option
from prgd.cli.complete import complete_data, complete_file
from prgd.cli.data import load_data
from prgd.datasets.files import load_features
from prgd.files import atomic_write
from prgd.model import Model
from prgd.options import from_options, options_of
from prgd.rows.readers.columns import match_names


@dataclass(frozen=True)
class PredictOptions(common.FileOptions):
    """Options of ``prgd predict``."""

    out: Path | None = output_option(  # noqa: RUF009 - `option` returns a field
        None, "CSV file for the predictions.", metavar="FILE", shown_default="standard output"
    )
    scores: bool = output_option(
        False, "Add the score, positive for the second class; of several classes, the score of each."
    )
    json: str | None = outcome.json_option()


@common.with_options(options_of(PredictOptions))
def predict_command(
    model: Annotated[Path, argument("MODEL", "A file that prgd fit --out wrote.", complete_file)],
    data: Annotated[
        str,
        argument(
            "DATA",
            "A file (LIBSVM, CSV, TSV, NPZ, NPY or Parquet; with or without labels), - for standard input, "
            "or a built-in set.",
            complete_data,
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
    with common.one_line_errors(debug, given["json"]):
        options = from_options(PredictOptions, given)
        out = options.out
        common.check_file(out)
        outcome.check_json(options.json, out)
        fitted = common.load_model(model, "MODEL")
        X, y = _load(data, options, fitted)
        scores = fitted.decision_function(X)
        classes = common.class_names(fitted)
        predictions = [common.class_text(c) for c in fitted.classify(scores).tolist()]
        if out is not None or options.json != "-":
            with nullcontext(sys.stdout) if out is None else atomic_write(out, "w") as file:
                writer = csv.writer(file, lineterminator="\n")
                names = ["score"] if scores.ndim == 1 else [f"score {c}" for c in classes]
                writer.writerow(["prediction", *names] if options.scores else ["prediction"])
                columns = (
                    [predictions, *np.atleast_2d(scores.T).tolist()] if options.scores else [predictions]
                )
                writer.writerows(zip(*columns, strict=True))
        found = (
            None if y is None else _Accuracy(classes, predictions, [common.class_text(c) for c in y.tolist()])
        )
        if out is None and found is not None:
            common.say(f"accuracy: {found}")
        elif out is not None and options.json != "-":
            counts = ", ".join(f"{c}: {predictions.count(c):,}" for c in classes)
            rows = [("rows", f"{len(predictions):,}"), ("predictions", counts)]
            rows += [] if found is None else [("accuracy", str(found))]
            common.print_table([*rows, ("file", str(out))])
        facts = {
            "model": str(model),
            "data": data,
            "n": len(predictions),
            "classes": classes,
            "feature_names": fitted.feature_names,
        }
        share = None if found is None else found.share
        facts |= {"predictions": predictions, "decision_function": scores, "accuracy": share}
        outcome.write_json(options.json, facts)


def _load(data: str, options: PredictOptions, fitted: Model) -> datasets.Dataset:
    """Return the rows with the features of the model, and the labels or None."""
    d, names = fitted.d, fitted.feature_names
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


class _Accuracy(NamedTuple):
    """The labels of the data beside the predictions."""

    classes: list[str]
    predictions: list[str]
    truth: list[str]

    @property
    def right(self) -> int:
        return sum(a == b for a, b in zip(self.truth, self.predictions, strict=True))

    @property
    def share(self) -> float | None:
        """The accuracy, None if no label is a class of the model."""
        return None if set(self.classes).isdisjoint(self.truth) else self.right / len(self.truth)

    def __str__(self) -> str:
        if self.share is None:
            return f"none: no label of the data is a class of the model ({', '.join(self.classes)})"
        return f"{self.share:.6g} ({self.right:,} of {len(self.truth):,})"
