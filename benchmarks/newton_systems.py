"""Newton systems a phase, and passes to a gap, of progressive-rescaling Newton.

The sets are those that are separable in the folder that PRGD_DATA names, the paper's, and all pairs of
digits, each through the origin and with an intercept. Strict complementarity is marked. It is decided from
`prgd.max_margin` at a gap of 1e-9: a row whose margin is within 1e-7 of the smallest (relative to it) is a
margin row, and it carries weight if its dual weight is above 1e-7 of the largest one. Optimal dual weights
need not be unique, so a "no" may be one of several solutions. Nothing is timed.

    python benchmarks/newton_systems.py [--out FILE] [--no-support] [--sets PREFIX ...]
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import prgd

LEVELS = (1e-4, 1e-6, 1e-8, 1e-10)
STEPS = 110
MARGIN, WEIGHT = 1e-7, 1e-7


def find_sets() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each set and how to load it."""
    if folder := os.environ.get("PRGD_DATA"):
        for entry in json.loads((Path(folder) / "MANIFEST.json").read_text(encoding="utf-8")):
            if entry.get("separable_through_origin") == "YES":
                yield entry["file"].split(".")[0], partial(prgd.datasets.load, Path(folder) / entry["file"])
    yield "toy_0.3", partial(prgd.datasets.toy, 0.3)
    for seed in (0, 1):
        yield f"synthetic_one_{seed}", partial(prgd.datasets.synthetic_one, seed)
        yield f"synthetic_two_{seed}", partial(prgd.datasets.synthetic_two, seed)
    for a, b in combinations(range(10), 2):
        yield f"digits_{a}{b}", partial(prgd.datasets.digits, a, b)


def follow(problem: prgd.Problem) -> dict[str, Any]:
    """Run to a gap of 1e-12 or the end of the path: systems by phase, passes and row reads to each gap."""
    start, phases, reached = problem.passes, [], {}

    def note(state: Any, now: Any, certificate: Any) -> None:
        if not state.is_done and now.t:
            phases.append(state.phase)
        for level in LEVELS:
            if certificate.gap <= level:
                reached.setdefault(f"{level:.0e}", [problem.passes - start, round(state.row_reads, 1)])

    stop = prgd.any_of(prgd.Gap(1e-12), STEPS)
    result = prgd.run(problem, prgd.algorithms.ProgressiveNewton(), stop=stop, record=None, observe=note)
    counts = Counter(phases)
    systems = [counts[k] for k in sorted(counts)]
    return {"systems": systems, "reached": reached, "gap": result.certificate.gap}


def support(data: Any, intercept: bool) -> dict[str, Any]:
    """Return how many rows lie on the margin and how many of them carry weight."""
    result = prgd.max_margin(data.X, data.y, fit_intercept=intercept, tol=1e-9)
    weights = result.certificate.dual_weights
    if weights is None:
        return {"strict": None, "gap": result.certificate.gap}
    problem = prgd.Problem(data.X, data.y, fit_intercept=intercept)
    margins = problem.margins(result.certificate.w)
    p = weights.dense(problem.n)
    on_margin = margins <= margins.min() * (1.0 + MARGIN)
    carries = p > WEIGHT * p.max()
    return {
        "strict": bool((carries | ~on_margin).all()),
        "margin_rows": int(on_margin.sum()),
        "with_weight": int((on_margin & carries).sum()),
        "smallest_weight": float(p[on_margin].min() / p.max()),
        "next_margin": float(margins[~on_margin].min() / margins.min() - 1.0)
        if not on_margin.all()
        else None,
        "gap": result.certificate.gap,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--sets", nargs="+", metavar="PREFIX", help="sets whose names begin so; default all")
    parser.add_argument("--no-support", action="store_true", help="leave strict complementarity undecided")
    options = parser.parse_args()
    rows = []
    for name, load in find_sets():
        if options.sets and not name.startswith(tuple(options.sets)):
            continue
        data = load()
        for intercept in (False, True):
            row = {"set": name, "n": data.X.shape[0], "d": data.X.shape[1], "intercept": intercept}
            row |= follow(prgd.Problem(data.X, data.y, fit_intercept=intercept))
            if not options.no_support:
                row["support"] = support(data, intercept)
            late = row["systems"][-5:]
            row["late_mean"] = float(np.mean(late)) if late else None
            rows.append(row)
            print(name, intercept, row["systems"], row["reached"], row.get("support"), flush=True)
            if options.out:
                options.out.parent.mkdir(parents=True, exist_ok=True)
                options.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
