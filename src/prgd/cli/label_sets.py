"""``prgd fit`` of many label sets over the same rows. This file holds no mathematics."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from prgd.cli import common, outcome
from prgd.cli.data import Opened, refuse
from prgd.maxmargin.batch import max_margin_batch

if TYPE_CHECKING:
    from prgd.cli.fit import FitOptions

# The options of one label for each row that `max_margin_batch` or its file does not have.
_OTHERS = ("margin_norm", "multi_class", "start", "scale", "missing", "max_passes")


def fit_label_sets(opened: Opened, o: FitOptions) -> int:
    """Fit every label set, write the files and print the table; return the exit code."""
    refuse(o, _OTHERS, f"one label for each row; {o.labels or opened.name} has several. Leave it out.")
    is_printed, started = outcome.is_printed(o.quiet, o.json), time.perf_counter()
    options: Any = {"fit_intercept": o.fit_intercept, "tol": o.tol, "n_jobs": o.n_jobs}
    options["progress"] = "fit" if is_printed else False
    batch = max_margin_batch(opened.rows, opened.label_sets, C=common.price_of(o.C), **options)
    (without,) = np.nonzero(~(batch.margin > 0.0))
    if without.size:
        instead = "; soft margins are fitted instead, each with a C of held-out folds"
        which = f"label sets {without.tolist()} (counted from 0)"
        common.say(f"Warning: no hyperplane separates the {which}{instead * (o.fallback == 'soft')}.")
    if without.size and o.fallback == "soft":
        soft = max_margin_batch(opened.rows, opened.label_sets[:, without], C="cv", **options)
        results = list(batch)
        for k, result in zip(without.tolist(), soft, strict=True):
            results[k] = result
        batch = replace(batch, results=tuple(results))
    seconds, first = time.perf_counter() - started, batch[0]
    if o.out is not None:
        batch.save(o.out)
    lines = [
        ("data", f"{opened.name}, {first.n:,} x {opened.rows.d:,}, {common.kind_of(opened.rows)}"),
        ("problem", f"of each label set: {first.problem_in_words}"),
        ("label sets", repr(batch).partition("(")[2][:-1]),
        ("margins, lower bounds", f"{batch.margin.min():.9g} to {batch.margin.max():.9g}"),
        ("relative gaps", f"at most {batch.gap.max():.2e}"),
        ("time", f"{seconds:.2f} s"),
        *([] if o.out is None else [("model", str(o.out))]),
    ]
    if is_printed:
        common.print_table(lines)
    facts = {"data": opened.name, "seconds": seconds, "model": o.out and str(o.out)}
    outcome.write_json(o.json, {**facts, "results": [outcome.facts_of(result) for result in batch]})
    return max(outcome.exit_code(result) for result in batch)
