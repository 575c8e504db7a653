"""Designs with empty cells and thresholds, and a reader of the sentences about them that sees only text."""

import operator
import re

import numpy as np
import pandas as pd

import prgd

FAMILIES = ("binomial", "counts", "multinomial", "poisson", "ordinal")
COMPARE = {"=": operator.eq, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


def draw(seed, index):
    """Return data, the columns of a matrix or the right side of a formula, and the family."""
    rng = np.random.default_rng([seed, index, 5])
    family, is_matrix = FAMILIES[index % len(FAMILIES)], rng.random() < 0.2
    n, numbers = int(rng.integers(15, 90)), int(rng.integers(0, 3)) * int(rng.random() < 0.5)
    levels = rng.integers(2, 3 if is_matrix else 5, rng.integers(1, 5 - numbers))
    data = {f"f{k}": rng.integers(count, size=n) for k, count in enumerate(levels)}
    at, y = np.ones(n, bool), rng.integers(3, size=n)
    for name in rng.permutation(list(data))[: rng.integers(1, 4)]:  # a cell that is to have one outcome
        at &= data[name] == rng.integers(2)
    for k in range(numbers):
        data[f"x{k}"] = rng.normal(size=n).round(int(rng.integers(0, 3))).astype([float, np.float32][k])
        at &= (data[f"x{k}"] > 0) | (rng.random() < 0.3)
    y[at] = rng.integers(3)
    if numbers and rng.random() < 0.5:
        y = np.where(data["f0"] == 0, 2 * (data["x0"] > 0.3), y)
    weight = (rng.random(n) > 0.2 * (rng.random() < 0.3)).astype(float)
    y = np.where(weight > 0, y, rng.integers(3, size=n))  # Rows of weight 0 may contradict all others.
    labels = {"binomial": ["no", "yes", "yes"], "multinomial": list("abc")}.get(family, range(3))
    table = pd.DataFrame({"y": np.array(labels)[y], **data, "w": weight})
    table["good"], table["ill"] = (y > 0) * rng.integers(0, 4, n), (y != 2) * rng.integers(0, 3, n)
    for name in [] if is_matrix else [name for name in data if name[0] == "f"]:
        values = table[name].to_numpy()
        table[name] = [values, values > 0, np.array(list("uvwz"))[values]][rng.integers(3)]
    terms = [f"C({name})" if table[name].dtype.kind in "iu" else name for name in data]
    formula = "".join(f"{term}{rng.choice([' + ', ' * '])}" for term in terms)[:-3]
    return table, list(data) if is_matrix else formula, family


def ask(table, model, family):
    """Return the verdict, or None if the response does not suit the family."""
    kept = {"family": "binomial" if family == "counts" else family, "sample_weight": table.w.to_numpy()}
    is_counts = family == "counts"
    try:
        if isinstance(model, list):
            return prgd.separability(table[model], table[["good", "ill"] if is_counts else "y"], **kept)
        formula = f"{'cbind(good, ill)' if is_counts else 'y'} ~ {model}"
        return prgd.separability.from_formula(formula, table, **kept)
    except ValueError as error:
        if not re.search("must hold|weight 0|every row that counts|term that varies", str(error)):
            raise


def holds(values, words):
    """Return which values meet a condition in words: ``g u``, ``x = 1``, ``x > 0.3``."""
    _, relation, value = re.fullmatch(r"(\w+) ([<>=]*) ?(\S+)", words).groups()
    try:
        return COMPARE[relation](values.astype(float), float(value))
    except (KeyError, ValueError):
        return values.astype(str) == value


def falsehoods(table, model, found, family):
    """Return what the sentences of a verdict say wrongly of the data, and rows that they should cover."""
    counts = (table.w > 0) & ((table.good + table.ill > 0) | (family != "counts"))
    wrong, covered = [], set()
    for text, rule in zip(map(str, found.rules), found.rules, strict=True):
        head, where, verb, what = re.fullmatch(r"(.+?) with (.+?) (ha\w+|does not have) (.+)", text).groups()
        at = np.all([holds(table[words.split()[0]], words) for words in where.split(" and ")], axis=0)
        rows, is_never = table[counts & at], text.startswith("none") or verb[0] == "d"
        true = holds(rows[what.split()[0]], what) != is_never
        stated = 1 if " only " in head else int(re.search(r"\d+", head)[0])
        is_exact = ("positive" in head) == (stated < at.sum()) and [*rows.index] == rule.rows.tolist()
        if not (true.all() and stated == len(rows) and is_exact and (at == rule.holds(table)).all()):
            wrong.append(text)
        relation = "!=" if is_never else re.search(r"<=|>=|$", what)[0]
        covered |= {(i, relation, what.split()[-1]) for i in rows.index}
    is_factors, model, own = "x" not in "".join(model), found.model, table.y.astype(str)
    for row in found.separated_rows.tolist() if is_factors else ():
        i = row if model.observations is None else int(model.observations[row])
        enough = {(i, "", "0" if family in ("counts", "poisson") else own[i])}
        if family == "multinomial":
            enough.add((i, "!=", found.classes[model.rivals[row]]))
        elif family == "ordinal":
            is_up = model.rows.take([row])[0, : len(found.classes) - 1].max() > 0
            enough.add((i, "<=" if is_up else ">=", own[i]))
        wrong += [f"row {row} of observation {i} is not covered"] * (not enough & covered)
    return wrong


def trial(seed, index):
    """Return the kind of a design, how it was explained, and what is wrong about that."""
    table, model, family = draw(seed, index)
    found, kind = ask(table, model, family), f"{family}, {'matrix' if isinstance(model, list) else 'formula'}"
    if found is None or not found.separated_rows.size:
        return kind, "no separation", []
    return kind, f"{min(len(found.rules), 5)} rules", falsehoods(table, model, found, family)
