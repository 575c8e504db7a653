"""Compare `prgd.separability` with the exact oracle on a small design: words, witnesses and rows."""

from collections import Counter
from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from separation import oracle

import prgd
from prgd.regression.families import model_rows


def arguments(case: oracle.Design, index: int) -> tuple[object, np.ndarray, dict]:
    """Return X, y and the options for `separability`; every third X is sparse."""
    X = np.array(case.X, float)
    weight = None if case.sample_weight is None else np.array(case.sample_weight, float)
    options = {"family": case.family, "fit_intercept": case.fit_intercept, "sample_weight": weight}
    return (sp.csr_array(X) if index % 3 == 2 else X), np.array(case.y), options


def disagreements(case: oracle.Design, index: int) -> tuple[oracle.Answer, list[str]]:
    """Return the oracle's answer, and in words all that the answer of prgd has wrong."""
    X, y, options = arguments(case, index)
    true = oracle.solve(case)
    found = prgd.separability(X, y, **options)
    wrong = []
    if found.verdict != true.verdict:
        wrong.append(f"verdict {found.verdict.value}, truly {true.verdict}")
    if list(found.coefficients) != list(true.words):
        return true, [*wrong, f"names {list(found.coefficients)}, truly {list(true.words)}"]
    for name, word in true.words.items():
        if found.coefficients[name] != word:
            end = " (left open)" if found.coefficients[name] == "undecided" else ""
            wrong.append(f"{name}: {found.coefficients[name].value}, truly {word}{end}")
    if found.limiting_rows.tolist() != list(true.limiting):
        wrong.append(f"limiting rows {found.limiting_rows.tolist()}, truly {list(true.limiting)}")
    if not found.check(X, y, sample_weight=options["sample_weight"]):
        wrong.append("its own check fails")
    return true, wrong or _wrong_witnesses(true, found, model_rows(X, y, **options))


def _wrong_witnesses(true: oracle.Answer, found, model) -> list[str]:
    """Check every witness on the rows of the cone as prgd orders them, which must be the oracle's rows."""
    order = model.columns.tolist()  # the column of each name
    rows = [[Fraction(float(value)) for value in row] for row in model.rows.take(model.rows.counted)]
    numbers = model.rows.counted.tolist()
    seen = Counter(tuple(row[j] for j in order) for row in rows)
    if seen != Counter(true.cone.rows):
        return ["the rows of the cone are others"]
    full = dict(zip(numbers, rows, strict=True))
    vectors = {true.cone.rows[i] for i in true.boundary}
    boundary = {i for i, row in full.items() if tuple(row[j] for j in order) in vectors}
    wrong = []
    if sorted(boundary) != sorted(found.boundary_rows.tolist()):
        wrong.append(f"boundary rows {found.boundary_rows.tolist()}, truly {sorted(boundary)}")
    kept = {order[j] for j in true.cone.kept}
    for name, column in zip(model.names, order, strict=True):
        word = true.words[name]
        said = oracle.check_witness(full, boundary, kept, column, word, found.witness(name))
        wrong += [f"{name}, {word}: {said}"] if said else []
    return wrong
