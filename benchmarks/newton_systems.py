"""Newton systems a phase, and passes to a gap, of progressive-rescaling Newton.

The sets are those that are separable in the folder that PRGD_DATA names, the paper's, and all pairs of
digits, each through the origin and with an intercept. Strict complementarity is marked. A row is a margin
row if its margin along the w of `prgd.max_margin` (at a gap of 1e-12, if it comes there) is within 1e-7 of
the smallest. Optimal dual weights need not be unique. Those of the path converge to the ones of largest
entropy, which are positive wherever any optimal ones are; other weights fall like lam. So a margin row
carries no weight if its weight fell to less than a tenth over two late phases, in which lam fell by
64; the last two are left out, since rounding blurs them. Nothing is timed.

    python benchmarks/newton_systems.py [--sets PREFIX ...] [--no-support] [--out FILE]
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
RECORDS = Path(__file__).parent / "records"
STEPS = 110
MARGIN = 1e-7  # relative distance from the smallest margin that counts as none


def find_sets() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each set and how to load it."""
    if folder := os.environ.get("PRGD_DATA"):
        for entry in json.loads((Path(folder) / "MANIFEST.json").read_text(encoding="utf-8")):
            if entry.get("separable_through_origin") == "YES":
                file = Path(folder) / entry["file"]
                yield file.name.split(".")[0], partial(prgd.datasets.load, file)
    yield "toy_0.3", partial(prgd.datasets.toy, 0.3)
    for seed in (0, 1):
        yield f"synthetic_one_{seed}", partial(prgd.datasets.synthetic_one, seed)
        yield f"synthetic_two_{seed}", partial(prgd.datasets.synthetic_two, seed)
    for a, b in combinations(range(10), 2):
        yield f"digits_{a}{b}", partial(prgd.datasets.digits, a, b)


def follow(problem: prgd.Problem) -> tuple[dict[str, Any], Any]:
    """Run to a gap of 1e-12 or the end of the path: systems by phase, passes to each gap, and weights."""
    start, phases, reached, ends = problem.passes, [], {}, {}

    def note(state: Any, now: Any, certificate: Any) -> None:
        if not state.is_done and now.t:
            phases.append(state.phase)
        if not state.is_done:
            ends[state.phase] = state.w
        for level in LEVELS:
            if certificate.gap <= level:
                reached.setdefault(f"{level:.0e}", [problem.passes - start, round(state.row_reads, 1)])

    stop = prgd.any_of(prgd.Gap(1e-12), STEPS)
    result = prgd.run(problem, prgd.algorithms.ProgressiveNewton(), stop=stop, record=None, observe=note)
    counts = Counter(phases)
    systems = [counts[k] for k in sorted(counts)]
    found = {"systems": systems, "reached": reached, "gap": result.certificate.gap}
    return found, [problem.dual_weights(list(ends.values())[k]) for k in (-5, -3)]


def support(data: Any, intercept: bool, early: Any, p: Any) -> dict[str, Any]:
    """Return how many rows lie on the margin, and how many of them carry weight at the end of the path."""
    result = prgd.max_margin(data.X, data.y, fit_intercept=intercept, tol=1e-12)
    margins = prgd.Problem(data.X, data.y, fit_intercept=intercept).margins(result.certificate.w)
    on_margin, carries = margins <= margins.min() * (1.0 + MARGIN), p > 0.1 * early
    return {
        "strict": bool((carries | ~on_margin).all()),
        "margin_rows": int(on_margin.sum()),
        "with_weight": int((on_margin & carries).sum()),
        "weight_off_margin": float(p[~on_margin].sum()),
        "smallest_weight": float(p[on_margin].min() / p.max()),
        "next_margin": float(np.min(margins[~on_margin], initial=np.inf) / margins.min() - 1.0),
        "gap": result.certificate.gap,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=RECORDS / "newton_systems.json", help="JSON file of the rows"
    )
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
            found, (early, late_p) = follow(prgd.Problem(data.X, data.y, fit_intercept=intercept))
            row |= found
            if not options.no_support:
                row["support"] = support(data, intercept, early, late_p)
            late = row["systems"][-5:]
            row["late_mean"] = float(np.mean(late)) if late else None
            rows.append(row)
            print(name, intercept, row["systems"], row["reached"], row.get("support"), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    options.out.write_text(f'{{"rows": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
