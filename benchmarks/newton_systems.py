"""Newton systems a phase, and passes, row reads and systems to a gap, of progressive-rescaling Newton.

The sets are those that are separable in the folder that PRGD_DATA names, the paper's, and all pairs of
digits, each through the origin and with an intercept. Nothing is timed.

    python benchmarks/newton_systems.py [PREFIX OF A SET ...]   # with prefixes nothing is recorded
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from timing import write_rows

import prgd

LEVELS = (1e-4, 1e-6, 1e-8, 1e-9, 1e-10)
STEPS = 110


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


def follow(problem: prgd.Problem) -> dict[str, Any]:
    """Run to a gap of 1e-12 or the end of the path: systems by phase, and what each gap took."""
    start, phases, reached = problem.passes, [], {}

    def note(state: Any, now: Any, certificate: Any) -> None:
        phases.extend([state.phase] * (now.t > 0 and not state.is_done))
        spent = [problem.passes - start, round(state.row_reads, 1), state.t]
        reached.update({f"{level:.0e}": spent for level in LEVELS if certificate.gap <= level} | reached)

    stop = prgd.any_of(prgd.Gap(1e-12), STEPS)
    result = prgd.run(problem, prgd.algorithms.ProgressiveNewton(), stop=stop, record=None, observe=note)
    systems = [count for _, count in sorted(Counter(phases).items())]
    return {"systems": systems, "reached": reached, "gap": result.certificate.gap}


def main() -> None:
    """Follow the path on all sets, and write the record."""
    rows = []
    for name, load in find_sets():
        if not name.startswith(tuple(sys.argv[1:] or [""])):
            continue
        data = load()
        for intercept in (False, True):
            row = {"set": name, "n": data.X.shape[0], "d": data.X.shape[1], "intercept": intercept}
            rows.append(json.dumps(row | follow(prgd.Problem(data.X, data.y, fit_intercept=intercept))))
            print(rows[-1], flush=True)
    if len(sys.argv) == 1:
        write_rows("newton_systems.json", rows)


if __name__ == "__main__":
    main()
