"""Tables whose columns are not all numbers: the features that ``prgd fit`` makes of them, and makes again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from prgd.cli.common import FileOptions
from prgd.cli.data import check_formula_options, column_options, data_file, open_frame, refuse, tell
from prgd.cli.options import options_of
from prgd.datasets.base import Dataset
from prgd.rows.readers.columns import Choice, Columns
from prgd.rows.readers.csv_text import MISSING
from prgd.rows.readers.frame import Frame, load_frame
from prgd.rows.readers.text import is_number

if TYPE_CHECKING:
    from prgd.cli.fit import FitOptions

_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([ T].*)?")


def open_design(data: str, o: FitOptions) -> tuple[Dataset, dict[str, Any]]:
    """Return the rows of ``--formula`` or ``--encode``, and what makes the same features of other data."""
    from prgd.regression.designs import design_again, learnt_by
    from prgd.regression.formula import columns_of, read_formula

    formula = o.formula or ""
    refuse(o, ("out_of_core", "max_memory", "cluster", "labels"), "columns as numbers. Leave one out.")
    if formula:
        check_formula_options(o)
    elif o.missing == "mean":
        raise ValueError("--encode takes --missing refuse or drop; got mean.")

    def used(names: list[str]) -> Sequence[str]:
        nonlocal formula
        if not o.formula:
            chosen = _chosen(data, names, o)
            label, *terms = (f"`{names[j]}`" for j in (chosen.label or 0, *chosen.features))
            formula = f"{label} ~ {' + '.join(terms)}"
        return columns_of(formula, names, False)

    frame = open_frame(data, o, used)
    if misread := _misread(frame, [*frame.columns], o):
        raise ValueError(f"{data}: {misread}")
    read = read_formula(formula, frame.columns, family="multinomial", is_python=False, is_full=o.encode)
    recipe: dict[str, Any] = {"formula": formula, "learnt": learnt_by(read), "is_full": o.encode}
    recipe["has_intercept"] = read.fit_intercept and o.fit_intercept
    again = design_again(formula, frame.columns, recipe["learnt"], is_full=o.encode)
    if read.offset is not None or read.X.shape != again.shape or abs(read.X - again).max() > 0.0:
        advice = "a column is a number in one term and levels in another: give a copy, and no offset."
        raise ValueError(f"Formula {formula!r}: prgd predict could not repeat an offset, or {advice}")
    return _dataset(o, frame, read.X, np.asarray(read.y), read.names), recipe


def open_design_again(data: str, options: FileOptions, recipe: Mapping[str, Any]) -> Dataset:
    """Return the rows of other data with the features of a model, and the response if the data have it."""
    from prgd.regression.designs import design_again
    from prgd.regression.formula import columns_of

    formula, response = recipe["formula"], recipe["formula"].partition("~")[0].strip(" `")

    def used(names: list[str]) -> Sequence[str]:
        every = columns_of(formula, [*dict.fromkeys([*names, response])], False)
        return [name for name in every if name in names or name != response]

    frame = open_frame(data, options, used)
    X = design_again(formula, frame.columns, recipe["learnt"], is_full=recipe["is_full"])
    y = np.asarray(frame.columns[response]) if response in frame.columns else None
    return _dataset(options, frame, X, y, None)


def _dataset(o: FileOptions, frame: Frame, X: Any, y: Any, names: tuple[str, ...] | None) -> Dataset:
    for note in frame.notes:
        tell(note, o)
    rows = np.arange(X.shape[0] + (0 if frame.dropped is None else frame.dropped.size))
    is_kept = None if frame.dropped is None else ~np.isin(rows, frame.dropped)
    return Dataset(X, y, frame.name, feature_names=names, is_kept=is_kept)


def scaled(X: Any, recipe: Mapping[str, Any]) -> Any:
    """Return features divided by the standard deviations of the fit, if that asked for it."""
    from scipy.sparse import diags_array

    return X @ diags_array(1.0 / np.array(recipe["scales"])) if "scales" in recipe else X


def _chosen(data: str, names: Sequence[str], options: FileOptions) -> Choice:
    given = column_options(options)
    features = None if given["features"] is None else tuple(given["features"])
    return Columns(given["label"], features, tuple(given["drop"])).choose(data, names)


def all_at_once(command: str, data: str, o: FitOptions) -> str:
    """Return a sentence on all columns that are no numbers, and the command that takes them; else nothing."""
    frame = load_frame(data_file(data), format=o.format, separator=o.separator, decimal=o.decimal)
    names = [str(name) for name in frame.columns]
    features = [names[j] for j in _chosen(data, names, o).features]
    if misread := _misread(frame, features, o):
        return f" In all {misread}"
    dropped, encoded, holes = dict[str, str](), dict[str, str](), list[str]()
    for name in features:
        values = np.asarray(frame.columns[name])
        cells = (values.astype("M8[s]") if values.dtype.kind == "M" else values).tolist()
        known = [str(v) for v in cells if v == v and str(v).lower() not in MISSING]
        if len(known) < len(cells):
            holes.append(f"{name} ({len(cells) - len(known):,} rows)")
        if values.dtype.kind not in "biuf" and not all(map(is_number, known)):
            is_date, kinds = all(map(_DATE.fullmatch, known)), len(set(known))
            place = dropped if is_date or 2 * kinds > len(cells) else encoded
            place[name] = f"{name} ({'dates' if is_date else f'{kinds:,} texts'})"
    given: dict[str, Any] = {"encode": bool(encoded), "missing": "drop" if holes else o.missing}
    quoted = [f'"{name}"' if "," in name else name for name in dropped]
    if dropped and o.features is None:
        given["drop"] = ",".join([*filter(None, [o.drop]), *quoted])
    elif dropped:
        given["features"] = ",".join(name for name in features if name not in dropped)
    kinds_of = {"text in ": [*dropped.values(), *encoded.values()], "missing values in ": holes}
    found = [f"{kind}{', '.join(some)}" for kind, some in kinds_of.items() if some]
    ways = {"drops rows with missing values": holes, f"leaves {', '.join(dropped)} out": dropped}
    ways[f"makes a column of each text of {', '.join(encoded)}"] = encoded
    done = " and ".join(way for way, some in ways.items() if some)
    line = as_command(command, data, replace(o, **given))
    return f" In all there is {' and '.join(found)}. This {done}: {line}" if found else ""


def _misread(frame: Frame, names: Sequence[str], o: FileOptions) -> str:
    """Return a sentence on the columns whose numbers have the other decimal mark, or nothing."""
    other, found = "," if o.decimal == "." else ".", []
    for name in names:
        cells = [str(v) for v in frame.columns[name] if v == v and str(v).lower() not in MISSING]
        is_text = np.asarray(frame.columns[name]).dtype.kind not in "biufM"
        if (
            is_text
            and any(other in c for c in cells)
            and all(is_number(c.replace(other, ".")) for c in cells)
        ):
            found.append(f"{name} ({next(c for c in cells if other in c)})")
    return (
        ", ".join(found) and f"{', '.join(found)}: numbers with the mark {other!r}. Give --decimal '{other}'."
    )


def as_command(command: str, data: str, o: Any) -> str:
    """Return the command line that gives a dataclass of options its values."""
    words = ["prgd", command, data]
    for option in options_of(type(o)):
        if (value := getattr(o, option.name)) != option.default:
            flag = option.flags[0] if value is not False else f"--no-{option.flags[0][2:]}"
            words += [flag] if isinstance(value, bool) else [flag, str(value)]
    return shlex.join(words)
