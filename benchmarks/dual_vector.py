"""The dual vector of NGD: Theorem E1 on 1,050 random problems; certificates with and without u on real sets.

Random problems are those of `prgd_paper.theory.claims.dual_vector`: every one in l2, a third with an
intercept and a third in l_1.5. Real sets are the separable ones of the folder that PRGD_DATA names
(its MANIFEST.json says which are): steps through the origin from w = 0 until a certified relative gap of
1e-4 and 1e-6, with the
margin of the dual vector and without it, and the largest share of E1's bound along NGD. Sets that are on
record are not run again unless ``--force`` says so. Nothing is timed.

    python benchmarks/dual_vector.py [--problems N] [--sets SET ...] [--force] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from prgd_paper.studies.second_direction import BestBounds
from prgd_paper.theory.claims.dual_vector import MODES, measure
from prgd_paper.theory.dual_vector import divergence
from real_sets import separable_sets

import prgd
from prgd.algorithms.base import states
from prgd.algorithms.gd import GD
from prgd.schedules import Polynomial, PolynomialPhases

RECORD = Path(__file__).parent / "records" / "dual_vector.json"
LEVELS = (1e-4, 1e-6)
WARM_UP = 1_000
# The most steps of a method, by the numbers that are stored: a pass of the largest sets takes milliseconds.
CAPS = ((250_000, 20_000), (1_000_000, 5_000), (math.inf, 2_000))
POWER = 0.6  # of both schedules of PRGD(poly), as in Section 7.1 on real data
METHODS: dict[str, Any] = {
    "NGD": prgd.NGD(),
    "PRGD(poly)": prgd.PRGD(Polynomial(POWER), PolynomialPhases(5, POWER)),
    "dual acceleration": prgd.algorithms.DualAcceleration(),
    "restarted NGD": prgd.algorithms.RestartedNGD(),
}


def random_problems(count: int) -> list[dict[str, Any]]:
    """Return violations and tightness of E1 by mode and kind of problem."""
    found: dict[tuple[str, str], list[Any]] = {}
    for seed in range(count):
        third = {1: ("l2 with an intercept", 200), 2: ("l_1.5", 40)}.get(seed % 3)
        for mode, size in (("l2", 200), *((third,) if third else ())):
            run = measure(seed, mode, max_size=size)
            if run is not None:
                found.setdefault((mode, run.kind), []).append(run.run)
        if seed % 100 == 99:
            print(f"{seed + 1} of {count} random problems", flush=True)
    rows = []
    for (mode, kind), runs in found.items():
        tight = [run.worst.tightness for run in runs if not math.isnan(run.worst.tightness)]
        violations = sum(run.worst.is_violated or run.growth > 0.0 for run in runs)
        row = {"mode": mode, "kind": kind, "runs": len(runs), "violations": violations}
        rows.append(row | {"tightness": [round(float(f(tight)), 3) for f in (np.median, np.max)]})
    return rows


def real_set(name: str, file: Path) -> dict[str, Any]:
    """Return the steps of every method on one set, and the largest share of E1's bound along NGD."""
    data = prgd.datasets.load(file)
    stored = data.X.nnz if hasattr(data.X, "nnz") else data.X.size
    cap = next(steps for limit, steps in CAPS if stored <= limit)
    row: dict[str, Any] = {"set": name, "n": data.X.shape[0], "d": data.X.shape[1], "cap": cap, "steps": {}}
    solved = prgd.max_margin(data.X, data.y, fit_intercept=False, tol=1e-9).certificate
    for method, algorithm in METHODS.items():
        problem = prgd.Problem(data.X, data.y)
        best, shares = BestBounds(problem, LEVELS), []
        if solved.dual_weights is None:
            raise SystemExit(f"{name}: max_margin proves no upper bound by weights.")
        p = solved.dual_weights.dense(problem.n)
        target, distance = problem.norm.dual(problem.combine(p)), 2.0 * divergence(p) / problem.unit
        for t, at in _passes(problem, algorithm, cap, method == "PRGD(poly)"):
            best.see(t, at)
            if method == "NGD" and t:
                shares.append(t * (at.upper**2 - target**2) / distance)
            if LEVELS[-1] in best.without_second:
                break
        row["steps"][method] = {
            f"{level:.0e}": [found.get(level) for found in (best.with_second, best.without_second)]
            for level in LEVELS
        }
        row["steps"][method]["gaps"] = [float(f"{best.certified_gap(has):.2g}") for has in (True, False)]
        if shares:
            row["share of E1's bound"] = round(max(shares), 3)
        print(name, method, row["steps"][method], flush=True)
    return row


def _passes(problem: prgd.Problem, algorithm: Any, cap: int, is_warm: bool) -> Any:
    """Yield steps and passes up to the cap; GD's warm-up, if there is one, counts."""
    w, before = None, 0
    if is_warm:
        before = WARM_UP
        for state in islice(states(problem, GD()), before + 1):
            yield state.t, state.at
            w = state.w
    for state in islice(states(problem, algorithm, w), 1 if is_warm else 0, cap - before + 1):
        yield before + state.t, state.at


def _text(record: dict[str, Any]) -> str:
    """Return the record with one line for each row."""
    parts = []
    for name, value in record.items():
        rows = ",\n ".join(json.dumps(row) for row in value) if isinstance(value, list) else json.dumps(value)
        parts.append(f'"{name}": ' + (f"[\n {rows}\n]" if isinstance(value, list) else rows))
    return "{" + ",\n".join(parts) + "}\n"


def main() -> None:
    """Measure what is missing from the record, and keep it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=1050, help="random problems of E1; 0 for none")
    parser.add_argument("--sets", nargs="+", metavar="SET", help="names of data sets; default all")
    parser.add_argument("--force", action="store_true", help="run again what is on record")
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    kept = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    record: dict[str, Any] = {"problems": 0, "modes": list(MODES), "random": [], "real": []} | kept
    sets = separable_sets()
    if unknown := set(options.sets or ()) - set(sets):
        parser.error(f"no separable set is called {', '.join(sorted(unknown))}; there are {', '.join(sets)}")
    if options.problems and (options.force or record["problems"] != options.problems):
        record["problems"], record["random"] = options.problems, random_problems(options.problems)
        options.out.write_text(_text(record), encoding="utf-8")
    for name in options.sets or sets:
        if options.force or all(row["set"] != name for row in record["real"]):
            rows = [row for row in record["real"] if row["set"] != name]
            record["real"] = sorted([*rows, real_set(name, sets[name])], key=lambda row: row["n"] * row["d"])
            options.out.write_text(_text(record), encoding="utf-8")
    for row in record["random"]:
        print(f"{row['mode']:22} {row['kind']:26} {row['violations']} of {row['runs']}, {row['tightness']}")


if __name__ == "__main__":
    main()
