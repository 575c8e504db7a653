"""Compare `prgd.separability` with the exact oracle on random small designs, on all cores.

``python tests/separation/oracle_trial.py --designs 20000`` prints how often each word occurred in each family
and every disagreement with the number that repeats it: ``--seed S --case K`` tries one design and prints it.
It exits with 1 if there was a disagreement. With ``--hard`` the numbers invite rounding; words that are left
undecided, and weights whose exact numbers are not found, are counted then and are no disagreements.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path

if __name__ in ("__main__", "__mp_main__"):  # one thread in each process, set before NumPy is loaded
    for variable in ("PRGD_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    sys.path[0:1] = [str(Path(__file__).resolve().parents[1])]

import numpy as np
import scipy.sparse as sp
from separation import oracle
from separation.small_designs import KINDS, design, hard_design

import prgd
from prgd.regression.families import model_rows

SHOWN = 20  # disagreements that are printed
LEFT_OPEN = ("(left open)", "this one ['above']", "this one ['below']")  # ends of what is no wrong answer
_PART = 100  # designs that a process tries before it reports


@dataclass
class Outcome:
    """How often each word and each verdict occurred in each kind of model, and what disagreed."""

    counts: Counter = field(default_factory=Counter)
    wrong: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.counts += other.counts
        self.wrong += other.wrong


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


def try_designs(numbers: range, seed: int, hard: bool = False) -> Outcome:
    outcome = Outcome()
    for index in numbers:
        case, kind = (hard_design if hard else design)(seed, index), KINDS[index % len(KINDS)]
        try:
            true, wrong = disagreements(case, index)
        except Exception as error:  # any error is a finding of the trial
            outcome.counts[kind, "error"] += 1
            outcome.wrong.append((index, f"{type(error).__name__}: {error}"))
            continue
        outcome.counts[kind, "designs"] += 1
        outcome.counts.update((kind, word) for word in true.words.values())
        outcome.counts[kind, true.verdict] += 1
        if hard:
            outcome.counts[kind, "left open"] += sum(text.endswith(LEFT_OPEN) for text in wrong)
            wrong = [text for text in wrong if not text.endswith(LEFT_OPEN)]
        outcome.wrong += [(index, text) for text in wrong]
    return outcome


def table(counts: Counter) -> list[str]:
    words: tuple[str, ...] = ("designs", "separable", "quasi-separable", "not separable")
    words += ("finite", "+inf", "-inf", "either", "aliased", "left open", "error")
    lines = [f"{'':12}" + "".join(f"{word:>16}" for word in words)]
    for kind in KINDS:
        lines.append(f"{kind:12}" + "".join(f"{counts[kind, word]:16}" for word in words))
    total = [sum(counts[kind, word] for kind in KINDS) for word in words]
    return [*lines, f"{'all':12}" + "".join(f"{count:16}" for count in total)]


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--designs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hard", action="store_true", help="floating-point numbers that invite rounding")
    parser.add_argument("--case", type=int, help="try one design of the seed and print it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="default: one per core")
    options = parser.parse_args(given)
    if options.case is not None:
        case = (hard_design if options.hard else design)(options.seed, options.case)
        true, wrong = disagreements(case, options.case)
        print(case, true.words, *(wrong or ["all agree"]), sep="\n")
        return int(bool(wrong))
    parts = [range(k, min(k + _PART, options.designs)) for k in range(0, options.designs, _PART)]
    outcome = Outcome()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for part in pool.imap(partial(try_designs, seed=options.seed, hard=options.hard), parts):
            for index, text in part.wrong[: max(0, SHOWN - len(outcome.wrong))]:
                print(f"--seed {options.seed} --case {index}: {text}", flush=True)
            outcome.add(part)
            if sys.stderr.isatty():
                done = sum(outcome.counts[kind, "designs"] for kind in KINDS)
                print(f"{done} of {options.designs} designs", end="\r", file=sys.stderr, flush=True)
    print(*table(outcome.counts), f"disagreements: {len(outcome.wrong)}", sep="\n")
    return int(bool(outcome.wrong))


if __name__ == "__main__":
    sys.exit(main())
