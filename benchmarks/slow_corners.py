"""Times of `prgd.max_margin` in the corners of dense data that used to be slow, against named peers.

Overlapping classes (Gaussian rows with 5 % of the labels flipped, standardised digits, columns that repeat)
must be proven not separable; the peers, which prove nothing, are LogisticRegression and LinearSVC at their
defaults. Separable Gaussian rows with hundreds to thousands of support vectors are solved to 1e-4 and 1e-6;
the peers are LinearSVC at C = 1e6 and PIQP through qpsolvers (the primal if columns are fewer than rows,
else the dual with its Gram matrix on the clock), if it is installed and has at most 3,000 unknowns. Calls are
timed as a user makes them, the competitors in turns, and the median of the repeats counts. Bounds are those
that were set for two cores.

    python benchmarks/slow_corners.py [--cases CASE ...] [--repeats N] [--threads N] [--out FILE]
"""

# ruff: noqa: E402 - libraries read the number of threads when they are imported
from __future__ import annotations

import argparse
import os
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--cases", nargs="+")
parser.add_argument("--repeats", type=int, default=3)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--large", action="store_true", help="supports of 6,000 and 12,000 vectors, too: minutes")
parser.add_argument("--out", type=Path)
options = parser.parse_args() if __name__ == "__main__" else parser.parse_args([])
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PRGD_NUM_THREADS"):
    os.environ[name] = str(options.threads)

import importlib.util
import json
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import prgd

RECORD = Path(__file__).parent / "records/slow_corners.json"
MAX_UNKNOWNS = 3000  # of a quadratic program


def flipped(n: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    """Return Gaussian rows labelled by a random hyperplane, with 5 % of the labels flipped."""
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    y = np.where(X @ w > 0.0, 1, -1)
    y[rng.choice(n, n // 20, replace=False)] *= -1
    return X, y


def planted(n: int, d: int, push: float = 0.0) -> tuple[Any, Any]:
    """Return Gaussian rows labelled by a random hyperplane, moved away from it."""
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    w /= np.linalg.norm(w)
    y = np.where(X @ w > 0.0, 1, -1)
    return X + push * y[:, None] * w, y


def at_random(n: int, d: int) -> tuple[Any, Any]:
    """Return Gaussian rows with labels by chance; with as many columns, about three quarters carry weight."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.choice([-1, 1], n)


def repeated(n: int, d: int) -> tuple[Any, Any]:
    """Return `flipped` with columns that repeat, a constant one and an empty one."""
    X, y = flipped(n, d)
    return np.hstack([X, X[:, : d // 2], np.ones((n, 1)), np.zeros((n, 1))]), y


def digits(k: int) -> tuple[Any, Any]:
    """Return scikit-learn's digits, standardised: the digit k against the rest."""
    from sklearn.datasets import load_digits
    from sklearn.preprocessing import StandardScaler

    X, t = load_digits(return_X_y=True)
    return StandardScaler().fit_transform(X), np.where(t == k, 1, -1)


class Case(NamedTuple):
    """Data, the tolerance of the gap, whether a hyperplane separates, and the seconds that are allowed."""

    make: Callable[[], tuple[Any, Any]]
    tol: float = 1e-6
    is_separable: bool = True
    bound: float | None = None
    is_large: bool = False


CASES = {
    "flipped 2000 x 200": Case(lambda: flipped(2000, 200), is_separable=False, bound=0.5),
    "flipped 5000 x 500": Case(lambda: flipped(5000, 500), is_separable=False, bound=2.0),
    "repeated columns 2000 x 152": Case(lambda: repeated(2000, 100), is_separable=False),
    "digits, 8 against the rest": Case(lambda: digits(8), is_separable=False),
    "digits, 9 against the rest": Case(lambda: digits(9), is_separable=False),
    "digits, 3 against the rest": Case(lambda: digits(3)),
    "Gaussian 3000 x 1000": Case(lambda: planted(3000, 1000), bound=1.2),
    "Gaussian 3000 x 1000, push 1": Case(lambda: planted(3000, 1000, 1.0), bound=1.2),
    "Gaussian 1000 x 768 to 1e-4": Case(lambda: planted(1000, 768, 1.0), 1e-4),
    "Gaussian 1000 x 768 to 1e-6": Case(lambda: planted(1000, 768, 1.0)),
    "Gaussian 1000 x 768, harder": Case(lambda: planted(1000, 768)),
    "random labels 8000 x 8000": Case(lambda: at_random(8000, 8000), is_large=True),
    "random labels 16000 x 16000": Case(lambda: at_random(16000, 16000), is_large=True),
}


def peers(case: Case, X: Any, y: Any) -> dict[str, Callable[[], Any]]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    if case.is_large:
        return {}
    if not case.is_separable:
        return {
            "LogisticRegression": lambda: LogisticRegression().fit(X, y),
            "LinearSVC": lambda: LinearSVC().fit(X, y),
        }
    found = {"LinearSVC": lambda: LinearSVC(C=1e6, tol=case.tol, max_iter=2000).fit(X, y)}
    if importlib.util.find_spec("qpsolvers") and importlib.util.find_spec("piqp"):
        n, d = X.shape
        if min(n, d) <= MAX_UNKNOWNS:
            found["PIQP"] = lambda: quadratic_program(X, y, case.tol, primal=d < n)
    return found


def quadratic_program(X: Any, y: Any, tol: float, *, primal: bool) -> Any:
    from qpsolvers import Problem, solve_problem

    (n, d), settings = X.shape, {"backend": "dense", "eps_abs": tol, "eps_rel": tol}
    Z = X * y[:, None]
    if primal:
        P = np.eye(d + 1)
        P[d, d] = 0.0
        problem = Problem(P, np.zeros(d + 1), -np.column_stack([Z, y]), -np.ones(n))
    else:
        problem = Problem(Z @ Z.T, -np.ones(n), A=y[None, :].astype(float), b=np.zeros(1), lb=np.zeros(n))
    return solve_problem(problem, solver="piqp", **settings)


def measured(name: str, case: Case, repeats: int) -> dict[str, Any]:
    X, y = case.make()
    result: Any = None

    def ours() -> None:
        nonlocal result
        result = prgd.max_margin(X, y, tol=case.tol)

    runs = {"max_margin": ours, **peers(case, X, y)}
    times: dict[str, list[float]] = {label: [] for label in runs}
    for _ in range(1 if case.is_large else repeats):
        for label, run in runs.items():
            start = time.perf_counter()
            run()
            times[label].append(time.perf_counter() - start)
    is_proven = result.status is prgd.Status.CERTIFIED if case.is_separable else result.upper_bound == 0.0
    if not (is_proven and (case.is_large or result.check(X, y).is_valid)):
        raise SystemExit(f"{name}: {result.status.name} is not what was expected, or its check failed.")
    seconds = {label: statistics.median(values) for label, values in times.items()}
    return {
        "case": name, "n": X.shape[0], "d": X.shape[1], "tol": case.tol, "status": result.status.name,
        "support": int(result.support.size), "seconds": seconds, "bound": case.bound,
    }  # fmt: skip


def line(row: dict[str, Any]) -> str:
    seconds = dict(row["seconds"])
    mine = seconds.pop("max_margin")
    others = ", ".join(f"{label} {value:.3f}" for label, value in seconds.items())
    bound = "" if row["bound"] is None else f"{row['bound']:g}"
    return f"| {row['case']} | {row['status']} | {row['support']} | {mine:.3f} | {bound} | {others} |"


def main() -> None:
    chosen = {name: case for name, case in CASES.items() if options.large or not case.is_large}
    if options.cases:
        chosen = {name: CASES[name] for name in options.cases}
    warnings.simplefilter("ignore")  # peers that reach their limit of iterations say so
    prgd.max_margin(*planted(600, 5, 0.1))  # compiled code is loaded off the clock
    prgd.max_margin(*flipped(400, 5))
    print("| case | outcome | support | max_margin, s | bound, s | peers, s |\n|---|---|---|---|---|---|")
    rows = []
    for name, case in chosen.items():
        rows.append(measured(name, case, options.repeats))
        print(line(rows[-1]), flush=True)
    record = {
        "machine": platform.processor() or platform.machine(), "cores": os.cpu_count(),
        "threads": options.threads, "repeats": options.repeats, "rows": rows,
    }  # fmt: skip
    out = options.out or RECORD
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
