"""Statements E4 to E12 of docs/exponential.md on random problems and real sets: violations and tightness.

Random problems are those of `prgd_paper.theory.path_problems`, each in l2 with and without an intercept, l1
and l-infinity, in extended precision. Real sets are those of the folder that PRGD_DATA names,
and scikit-learn's: E4, E5 and E7 at random w in every norm; E4 to E8 where phases of ProgressiveNewton end,
with its own gate and
with a gate of 1e-6, with and without an intercept; on sets of up to 50,000 entries also E4 to E7 on the
paths in l1 and l-infinity. Their rows are divided by the largest norm.

The campaign runs in pieces; each writes a file into a folder, and the last call gathers them.

    python benchmarks/path_statements.py --seeds 0 40 --pieces FOLDER
    PRGD_DATA=... python benchmarks/path_statements.py --real letter_AB --pieces FOLDER
    python benchmarks/path_statements.py --gather --pieces FOLDER [--out FILE]
"""

# ruff: noqa: E402 - libraries read the number of threads when they are imported
from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PRGD_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import json
import math
import platform
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from prgd_paper.theory.path import path_points
from prgd_paper.theory.path_checks import (
    Reading,
    bound_of_delta,
    gap_on_the_path,
    gate_constants,
    identity_of_the_gap,
    rescaled_gap,
    unsettled_part,
)
from prgd_paper.theory.path_limits import drift_distance, gate_ratios
from prgd_paper.theory.path_point import PathPoint
from prgd_paper.theory.path_problems import path_problem
from prgd_paper.theory.path_survey import (
    SETTINGS,
    any_point_readings,
    limit_readings,
    path_readings,
    point_readings,
    summarise,
)

import prgd
from prgd.algorithms.base import states
from prgd.norms import L1, Linf

RECORD = Path(__file__).parent / "records/path_statements.json"
BZ2 = (
    "basehock fashion_1v9 mnist_0v1 movie_polarity mushrooms pcmac rcv1_vw1500 reuters_earn_acq "
    "reuters_grain spambase"
)
NPZ = "arcene ionosphere letter_AB letter_OQ ma_golub"
FILES = {name: f"{name}.svm.bz2" for name in BZ2.split()} | {name: f"{name}.npz" for name in NPZ.split()}
FILES |= {"endometrial": "separation/endometrial.csv", "silvapulle1981": "separation/silvapulle1981.csv"}
OTHERS = ("digits_01", "digits_04", "cancer")
MAX_STEPS, MAX_PHASES = 120, 10  # of ProgressiveNewton on a real set
MAX_ENTRIES = 50_000  # entries of a real set up to which its paths in l1 and l-infinity are computed


def load(name: str) -> tuple[Any, Any]:
    if name in OTHERS:
        data = prgd.datasets.cancer() if name == "cancer" else prgd.datasets.digits(*map(int, name[-2:]))
    else:
        folder = os.environ.get("PRGD_DATA")
        if folder is None:
            raise SystemExit("Set PRGD_DATA to the folder with the real data sets.")
        label = "HG" if name == "endometrial" else None
        data = prgd.datasets.load(Path(folder) / FILES[name], label=label)
    squares = data.X.multiply(data.X) if hasattr(data.X, "multiply") else data.X**2
    longest = math.sqrt(float(np.asarray(squares.sum(axis=1)).max()))
    return data.X / longest, np.where(data.y == np.max(data.y), 1.0, -1.0)


def signed(X: Any, y: Any) -> Any:
    if hasattr(X, "toarray"):
        from scipy.sparse import csr_array, diags_array

        return csr_array(diags_array(y) @ X)
    return X * y[:, None]


def phase_ends(X: Any, y: Any, fit_intercept: bool, tol: float) -> tuple[list[tuple[float, Any]], float]:
    """Return (lam, w) where phases of ProgressiveNewton end, and the largest margin that was seen."""
    problem = prgd.Problem(X, y, fit_intercept=fit_intercept, scale="none", n_jobs=1)
    walk = islice(states(problem, prgd.algorithms.ProgressiveNewton(tol=tol)), MAX_STEPS)
    found, gamma, last = [], 0.0, next(walk)
    for state in walk:
        if state.phase > last.phase:
            found.append((last.lam, last.w))
            gamma = max(gamma, last.at.gamma)
        last = state
        if state.is_done or len(found) == MAX_PHASES:
            break
    return found, gamma


def newton_readings(X: Any, y: Any) -> Iterator[tuple[str, Reading]]:
    fine = signed(X, y).astype(np.longdouble)
    for setting, fit_intercept in (("l2", False), ("l2 with an intercept", True)):
        groups = y if fit_intercept else None
        for tol in (0.3, 1e-6):
            found, gamma = phase_ends(X, y, fit_intercept, tol)
            last = None
            for lam, w in found:
                point = PathPoint(fine, w.astype(np.longdouble), groups=groups)
                for part in (identity_of_the_gap(point), bound_of_delta(point), unsettled_part(point, lam)):
                    yield from ((setting, reading) for reading in part)
                yield from ((setting, reading) for reading in rescaled_gap(point, lam, 8.0, last or point))
                for least in (0.0, 1.0) if gamma > 0.0 and tol == 0.3 else ():
                    yield from ((setting, reading) for reading in gate_constants(point, lam, gamma, least))
                if tol < 0.3:
                    is_known = gamma > 0.0
                    for reading in gap_on_the_path(point, lam, gamma if is_known else math.inf):
                        if is_known or reading.statement != "E6 bound":
                            yield setting, reading
                last = point


def polyhedral_readings(Z: Any, rng: Any) -> Iterator[tuple[str, Reading]]:
    if math.prod(Z.shape) > MAX_ENTRIES:
        return
    dense = np.asarray(Z.toarray() if hasattr(Z, "toarray") else Z)
    for setting, norm in (("l1", L1()), ("linf", Linf())):
        B = float(abs(dense).max() if setting == "l1" else abs(dense).sum(axis=1).max())
        lams = B**2 * 10.0 ** -np.arange(0.0, 7.0, 1.5)
        found = []
        for lam, point in zip(lams, path_points(dense, lams, norm), strict=True):
            if B * float(point.length) > 1e6:
                break
            found.append((lam, point))
        gamma = max(float(found[-1][1].gamma), 0.0) if found else 0.0
        for lam, point in found:
            yield from ((setting, reading) for reading in point_readings(point, float(lam), gamma, rng))


def real_readings(name: str) -> Iterator[tuple[str, Reading]]:
    X, y = load(name)
    Z = signed(X, y)
    yield from (("random w", reading) for reading in any_point_readings(Z, y, 0))
    yield from newton_readings(X, y)
    yield from polyhedral_readings(Z, np.random.default_rng(18))


def random_readings(seed: int) -> Iterator[tuple[str, Reading]]:
    problem = path_problem(seed)
    for setting in SETTINGS:
        yield from ((setting, reading) for reading in path_readings(problem, setting))
    yield from (("random w", reading) for reading in any_point_readings(problem.Z, problem.signs, seed))
    yield from (("limit", reading) for reading in limit_readings(problem))


def piece(names: list[str], given: Any) -> dict[str, Any]:
    rows, extra, started = [], {"drift": [], "gate": []}, time.process_time()
    for label in names:
        is_real = given.real is not None
        for setting, reading in real_readings(label) if is_real else random_readings(int(label)):
            rows.append([label if is_real else "random", setting, *reading])
            if reading.is_violated:
                print("VIOLATED", label, setting, reading, flush=True)
        problem = None if is_real else path_problem(int(label))
        if problem is not None and problem.idle.size:
            extra["drift"].append(drift_distance(problem))
            if problem.kind == "uniform weights":
                extra["gate"] += [row[2] for row in gate_ratios(problem, 10.0 ** -np.arange(3.0, 10.0, 2.0))]
    return {
        "names": names,
        "is_real": given.real is not None,
        "rows": rows,
        **extra,
        "seconds": time.process_time() - started,
    }


def gather(folder: Path) -> dict[str, Any]:
    pieces = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    tables: dict[str, Any] = {}
    for title, is_real in (("random problems", False), ("real sets", True)):
        rows = [row for p in pieces if p["is_real"] == is_real for row in p["rows"]]
        groups: dict[str, list[Reading]] = {}
        for _, setting, *values in rows:
            groups.setdefault(setting, []).append(Reading(*values))
        every = [name for p in pieces if p["is_real"] == is_real for name in p["names"]]
        if len(set(every)) < len(every):
            raise SystemExit("A problem is in two pieces: gather each piece once.")
        names = sorted({name for p in pieces if p["is_real"] == is_real for name in p["names"]})
        tables[title] = {
            "problems": len(names),
            "readings": len(rows),
            "violations": sum(Reading(*row[2:]).is_violated for row in rows),
            "smallest relative gap that was compared": min(
                (row[6] for row in rows if row[2] == "E6" and row[6] > 10.0 * row[5]), default=math.nan
            ),
            "statements": {
                setting: {
                    key: {field: _short(value) for field, value in summary._asdict().items()}
                    for key, summary in summarise(found).items()
                }
                for setting, found in groups.items()
            },
        }
        if is_real:
            tables[title]["sets"] = names
    random = [p for p in pieces if not p["is_real"]]
    for key in ("drift", "gate"):
        values = [v for p in random for v in p[key]]
        if values:
            ends = {"least": min(values), "median": np.median(values), "most": max(values)}
            tables[key] = {"count": len(values)} | {name: _short(value) for name, value in ends.items()}
    tables["seconds of one core"] = round(sum(p["seconds"] for p in pieces))
    return tables


def _short(value: Any) -> Any:
    return value if isinstance(value, int) else (float(f"{value:.3g}") if math.isfinite(value) else None)


def show(tables: dict[str, Any]) -> None:
    for title in ("random problems", "real sets"):
        table = tables[title]
        print(f"{title}: {table['problems']}, {table['readings']:,} readings, {table['violations']} violated")
        for setting, statements in table["statements"].items():
            for key, s in statements.items():
                print(
                    f"  {setting:22s} {key:16s} {s['readings']:7d} readings, {s['sharp']:7d} sharp, "
                    f"{s['violations']:3d} violated"
                    f"  median {s['median']}  extreme {s['extreme']}  tolerance used {s['used']}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs=2)
    parser.add_argument("--real", nargs="+", choices=[*FILES, *OTHERS])
    parser.add_argument("--gather", action="store_true")
    parser.add_argument("--pieces", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RECORD)
    given = parser.parse_args()
    given.pieces.mkdir(parents=True, exist_ok=True)
    if given.gather:
        tables = {"machine": f"{platform.machine()}, longdouble of {np.finfo(np.longdouble).nmant} bits"}
        tables |= gather(given.pieces)
        show(tables)
        given.out.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")
        return
    names = given.real or [str(seed) for seed in range(*given.seeds)]
    found = piece(names, given)
    stem = "_".join(given.real) if given.real else f"seeds_{given.seeds[0]:05d}"
    (given.pieces / f"{stem}.json").write_text(json.dumps(found, default=float), encoding="utf-8")
    print(stem, len(found["rows"]), "readings", round(found["seconds"], 1), "s")


if __name__ == "__main__":
    main()
