"""Time of `prgd.max_margin` in several norms, next to one program over all rows or pairs in a general solver.

The peer is what a modelling language would hand to Clarabel or HiGHS: the margin maximised over the unit ball
with a constraint for each row or pair, at the solver's default tolerances; its set-up is off the clock. All
are run once off the clock (`--repeats 0` counts this run), then in turns, and the median of CPU times counts.
The peer is the fastest method: HiGHS runs dual simplex and interior point, each for 60 s at most. Ratios are
prgd's time over the peer's: below 1 prgd is faster. The peer's w is scored by the same margin; its error is
relative to the upper bound that prgd proves. Real sets are the sparse ones in the folder PRGD_DATA.

    PRGD_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/any_norm.py [--cases CASE ...] [--out FILE]
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.datasets import load_digits
from timing import in_turns, machine, ratio, real, write

import prgd

Data = tuple[Any, np.ndarray]
_HIGHS_SECONDS = 60.0


def _ten_classes() -> Data:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 25))
    return X, (X @ rng.standard_normal((25, 10))).argmax(axis=1)


def _two_classes(n: int, d: int) -> Data:
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    y = np.where(X @ w > 0.0, 1, -1)
    return X + 0.2 * y[:, None] * w / np.linalg.norm(w), y


def _text(n: int, d: int, length: int = 60) -> Data:
    """Return documents of words whose frequencies fall like Zipf's and differ between two topics."""
    rng = np.random.default_rng(0)
    frequency, topic = np.arange(1.0, d + 1.0) ** -0.9, 0.4 * rng.standard_normal(d)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    by_topic = {sign: frequency * np.exp(sign * topic) for sign in (1, -1)}
    words = [rng.choice(d, length, p=by_topic[sign] / by_topic[sign].sum()) for sign in y.tolist()]
    X = sp.csr_array((np.ones(n * length), np.concatenate(words), length * np.arange(n + 1)), shape=(n, d))
    X.sum_duplicates()
    X.data = 1.0 / np.repeat(np.sqrt(np.diff(X.indptr)), np.diff(X.indptr))
    return X, y


# Case: data, norm, and the seconds that the issue allows, if it does.
CASES: dict[str, tuple[Callable[[], Data], Any, float | None]] = {
    "spectral, 500 x 25, 10 classes": (_ten_classes, "spectral", 2.0),
    "digits, ten classes jointly, l2": (lambda: load_digits(return_X_y=True), "l2", 5.0),
    "l2, 500 x 25, 10 classes": (_ten_classes, "l2", None),
    "l1, 5000 x 30": (lambda: _two_classes(5000, 30), "l1", None),
    "linf, 5000 x 30": (lambda: _two_classes(5000, 30), "linf", None),
    "l1, text, 2000 x 5000": (lambda: _text(2000, 5000), "l1", 10.0),
    "linf, text, 2000 x 5000": (lambda: _text(2000, 5000), "linf", 10.0),
    "l_1.5, 5000 x 30": (lambda: _two_classes(5000, 30), 1.5, None),
    "l_3, 5000 x 30": (lambda: _two_classes(5000, 30), 3.0, None),
}
for file in sorted(Path(os.environ.get("PRGD_DATA", "no folder")).glob("*.svm.bz2")):
    for norm in ("l1", "linf"):
        CASES[f"{norm}, {file.name.split('.')[0]}"] = (lambda name=file.name: real(name), norm, 10.0)


def terms(X: Any, y: Any) -> tuple[Any, Any]:
    """Return all rows or pairs as functions of w, and of the intercepts."""
    if y.min() == -1:
        return sp.csr_array(sp.csr_array(X).multiply(y[:, None])), sp.csr_array(y[:, None].astype(float))
    K = int(y.max()) + 1
    i, j = np.nonzero(np.arange(K) != y[:, None])
    factors = np.eye(K)[y[i]] - np.eye(K)[j]
    entries = np.einsum("mk,md->mkd", factors, X[i]).reshape(i.size, -1)
    return sp.csr_array(entries), sp.csr_array(factors)


def peers(X: Any, y: Any, norm: Any) -> dict[str, Callable[[], np.ndarray]]:
    """Return calls that solve the program over all terms, and return w."""
    A, B = terms(X, y)
    (m, D), k = A.shape, B.shape[1]
    free = [(None, None)] * (k + 1)
    if norm in ("l1", "linf"):
        parts = [-A, A, -B] if norm == "l1" else [-A, -B]
        rows = sp.hstack([*parts, np.ones((m, 1))])
        size, limits = rows.shape[1] - k - 1, np.zeros(m)
        cost = -np.eye(1, size + k + 1, size + k)[0]
        bounds = [(-1.0, 1.0)] * D + free
        if norm == "l1":
            ball = np.append(np.ones(size), np.zeros(k + 1))[None]
            rows, limits = sp.vstack([rows, ball]), np.append(limits, 1.0)
            bounds = [(0.0, None)] * size + free

        def linear(method: str) -> np.ndarray:
            options = {"time_limit": _HIGHS_SECONDS}
            x = linprog(cost, rows, limits, bounds=bounds, method=method, options=options).x
            x = np.zeros(rows.shape[1]) if x is None else x
            return x[:D] - x[D : 2 * D] if norm == "l1" else x[:D]

        return {method: partial(linear, method) for method in ("highs-ds", "highs-ipm")}
    # Margins of at least 1 and the smallest square (l2), or the largest margin in the unit ball.
    extra, entries, limits, cones = _ball(norm, D, X.shape[1])
    is_square = norm == "l2"
    last = np.zeros((m, 1)) if is_square else np.ones((m, 1))
    top = sp.hstack([-A, -B, last, sp.csr_array((m, extra))])
    if is_square:
        rows, right, cones = sp.csc_matrix(top), -np.ones(m), []
    else:
        middle = sp.csr_array((entries.shape[0], k + 1))
        rows = sp.csc_matrix(sp.vstack([top, sp.hstack([entries[:, :D], middle, entries[:, D:]])]))
        right = np.concatenate([np.zeros(m), limits])
    n = rows.shape[1]
    square = sp.diags_array(np.append(np.ones(D), np.zeros(n - D))) if is_square else sp.csc_array((n, n))
    cost = np.zeros(n) if is_square else -np.eye(1, n, D + k)[0]
    settings = clarabel.DefaultSettings()
    settings.verbose = False

    def conic() -> np.ndarray:
        every = [clarabel.NonnegativeConeT(m), *cones]
        solver = clarabel.DefaultSolver(sp.csc_matrix(square), cost, rows, right, every, settings)
        return np.array(solver.solve().x)[:D]

    return {"clarabel": conic}


def _ball(norm: Any, D: int, d: int) -> tuple[int, Any, Any, list[Any]]:
    if norm == "spectral":
        K = D // d
        column, row = np.tril_indices(K + d)
        is_w = np.flatnonzero((row < K) & (column >= K))
        at = is_w, row[is_w] * d + column[is_w] - K
        entries = sp.csr_array((np.full(D, -np.sqrt(2.0)), at), shape=(row.size, D))
        return 0, entries, (row == column).astype(float), [clarabel.PSDTriangleConeT(K + d)]
    if norm == "l2":
        return 0, None, None, []
    j = np.arange(D)
    at = np.concatenate([3 * j, 3 * j + 2, np.full(D, 3 * D)]), np.concatenate([D + j, j, D + j])
    values = np.concatenate([-np.ones(2 * D), np.ones(D)])
    limits = np.append(np.tile([0.0, 1.0, 0.0], D), 1.0)
    cones = [clarabel.PowerConeT(1.0 / norm)] * D + [clarabel.NonnegativeConeT(1)]
    return D, sp.csr_array((values, at), shape=(3 * D + 1, 2 * D)), limits, cones


def measure(name: str, repeats: int) -> dict[str, Any]:
    make, norm, target = CASES[name]
    X, y = make()
    joint = "joint" if y.min() == 0 else None
    ours = partial(prgd.max_margin, X, y, norm=norm, multi_class=joint, tol=1e-6)
    others = peers(X, y, norm)
    seconds = in_turns({"prgd": ours, **others}, repeats, time.process_time)
    medians = {who: statistics.median(found) for who, found in seconds.items()}
    best = min(others, key=medians.__getitem__)
    result, w = ours(), others[best]()
    problem = prgd.Problem(X, y, norm=norm, multi_class=joint, fit_intercept=True, scale="none")
    gamma = problem.at(w.reshape(problem.shape)).gamma if w.any() else 0.0
    row: dict[str, Any] = {"case": name, "status": result.status.name, "gap": float(f"{result.gap:.2g}")}
    row |= {who: round(median, 3) for who, median in medians.items()}
    row |= {"ratio to the peer": round(ratio(seconds, "prgd", best), 3)}
    row |= {"error of the peer": float(f"{1.0 - gamma / result.upper_bound:.2g}")}
    return row | ({"target": target, "met": medians["prgd"] <= target} if target else {})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for name in options.cases:
        rows.append(measure(name, options.repeats))
        print("  ".join(f"{k} {v}" for k, v in rows[-1].items()), flush=True)
    if options.out is not None:
        write(options.out, {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
