"""The constants of Theorem 5.5 and the runs of Theorem 6.1 as the tables that `docs/theory.md` shows.

python docs/theory_tables.py        # the constants and the runs on five data sets
python docs/theory_tables.py 200    # each bound against the infimum found, on 200 random data sets
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from prgd_paper.theory.cylinder import Kind, favorable_cylinder
from prgd_paper.theory.infimum import check_bound, numerical_constants, velocity_infimum
from prgd_paper.theory.samples import random_nondegenerate
from prgd_paper.theory.theorem import theorem_run

from prgd import datasets

KINDS: tuple[Kind, ...] = get_args(Kind)


def examples() -> dict[str, Any]:
    """Return the data sets of the tables: the two rows, the toy, the paper's Dataset I and random ones."""
    return {
        "two rows": np.array([[0.2, 0.1], [0.2, -0.01]]),
        "toy(0.3)": datasets.toy(0.3),
        "synthetic_one(0)": datasets.synthetic_one(0),
        "random_nondegenerate(1)": random_nondegenerate(1),
        "random_nondegenerate(11)": random_nondegenerate(11),
    }


def constants_table() -> str:
    """Return D, H and mu of each kind beside the infimum found, as a Markdown table."""
    rows = []
    for name, data in examples().items():
        found = favorable_cylinder(data)
        g = found.geometry
        label = f"{name}: n = {g.n}, N = {g.n_support}, rho = {found.rho:.3g}"
        for kind in KINDS:
            c = numerical_constants(g) if kind == "numerical" else found[kind]
            value = velocity_infimum(g, c.cylinder).value
            log_mu = c.log_mu / math.log(10.0)
            loose = f"{math.log10(value) - log_mu:.2f}" if value > 0.0 else "not favourable"
            rows.append([label, kind, _short(c.D), _short(c.H), f"{log_mu:.2f}", _short(value), loose])
            label = ""
    return _markdown(["data", "constants", "D", "H", "log10 mu", "inf velocity", "loose by 10^"], rows)


def runs_table(max_phases: int = 1000) -> str:
    """Return what the proof's algorithm does with each kind of constants, as a Markdown table."""
    rows = []
    for name, data in examples().items():
        label = name
        for kind in KINDS:
            found = theorem_run(data, kind, max_phases=max_phases)
            checks, rate = found.statements.items(), found.guaranteed_rate
            printed = [name for name, statement in checks if not statement.printed]
            corrected = [name for name, statement in checks if not statement.corrected]
            fails = [", ".join(some) or ("none" if found.phases else "-") for some in (printed, corrected)]
            error = f"{found.phases[-1].error:.1e}" if found.phases else "-"
            promised = f"{1.0 / rate:.1e}" if rate > 0.0 else "inf"
            counts = [str(found.warm_up_steps), str(len(found.phases))]
            rows.append([label, kind, *counts, error, promised, *fails, found.ending])
            label = ""
    head = ["data", "constants", "warm-up", "phases", "error", "promised steps for a factor e"]
    return _markdown([*head, "fail as printed", "fail as corrected", "ending"], rows)


class Comparison(NamedTuple):
    """How the bound of one kind of constants did on many data sets."""

    fails: int
    tightest: float  # smallest log(infimum) - log_mu over the sets whose infimum is positive
    loosest: float  # largest log(infimum) - log_mu over the same sets


def compare_bounds(count: int) -> dict[str, Comparison]:
    """Compare the three bounds with the infimum found, on the random data sets of seeds 0 to count - 1."""
    found = [favorable_cylinder(random_nondegenerate(seed)).geometry for seed in range(count)]
    compared = {}
    for kind in ("printed", "corrected", "convexity"):
        checks = [check_bound(g, kind, starts=30) for g in found]
        looseness = [check.looseness for check in checks]
        fails = sum(not check.holds for check in checks)
        compared[kind] = Comparison(fails, float(np.nanmin(looseness)), float(np.nanmax(looseness)))
    return compared


def comparison_table(count: int) -> str:
    """Return `compare_bounds` as a Markdown table."""
    rows = [
        [kind, str(c.fails), f"{c.tightest / math.log(10.0):.2f}", f"{c.loosest / math.log(10.0):.2f}"]
        for kind, c in compare_bounds(count).items()
    ]
    fails = f"fails, of {count} random data sets"
    return _markdown(["constants", fails, "loose by 10^, at least", "loose by 10^, at most"], rows)


def _short(value: float) -> str:
    return np.format_float_positional(float(f"{value:.3g}"), trim="-")


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(("| " + " | ".join(line) + " |").replace("|  |", "| |") for line in lines)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the tables; with a number, the comparison on as many random data sets."""
    if arguments:
        print(comparison_table(int(arguments[0])))
    else:
        print(f"{constants_table()}\n\n{runs_table()}")


if __name__ == "__main__":
    main(sys.argv[1:])
