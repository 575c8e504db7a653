"""The comparisons of the engine tests on a device, without pytest: tensors against a float64 oracle in NumPy.

    python benchmarks/gpu_suite.py [--jobs 6]

Most of the time goes into compiling kernels, so the parts run in processes of their own. Exit status 1 if any
check fails. NumPy and torch (and Triton, on CUDA) are enough; without CUDA it runs on the CPU.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from fractions import Fraction
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
import torch

import prgd
from prgd.losses import LOSSES
from prgd.rows import Combine, MarginsAt, SmallestAt, TallyAt
from prgd.rows.gpu.tensor_rows import TensorRows
from prgd.rows.tally import SECOND

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {"float64": 1e-11, "float32": 1e-5, "bfloat16": 1e-4, "float16": 1e-5}
PLAIN, FULL = (False, "exponential", False), (True, "logistic", True)  # weighted, loss, by class
# below one tile, more tiles than programs, columns that are no power of two, pairs and odd columns
TALLIES = [
    (1, 3, "float32", PLAIN),
    (33, 7, "float32", FULL),
    (100_000, 65, "float32", PLAIN),
    (777, 100, "float32", (True, "exponential", True)),
    (5000, 784, "float32", PLAIN),
    (400, 4096, "float32", PLAIN),
    (50, 6000, "float32", PLAIN),
    (20_000, 64, "bfloat16", PLAIN),
    (1000, 64, "bfloat16", FULL),
    (2000, 101, "bfloat16", PLAIN),
    (300, 784, "bfloat16", PLAIN),
    (400, 4096, "bfloat16", PLAIN),
    (9001, 4096, "bfloat16", (True, "exponential", True)),
    (9001, 4096, "float32", (False, "exponential", True)),
    (100_001, 64, "bfloat16", (False, "exponential", True)),
    (100_001, 64, "float32", (False, "exponential", True)),
    (20_001, 784, "bfloat16", (False, "exponential", True)),
    (777, 100, "float64", FULL),
    (1000, 64, "float16", PLAIN),
]


class Check(NamedTuple):
    name: str
    error: float
    tolerance: float

    def __str__(self) -> str:
        verdict = "PASS" if self.error <= self.tolerance else "FAIL"  # NaN fails
        return f"{verdict}  {self.name}: {self.error:.1e} (at most {self.tolerance:.0e})"


def oracle(Z: np.ndarray, s: np.ndarray, w: np.ndarray, loss: str) -> tuple[float, np.ndarray, float]:
    """Return log sum of the loss, Z^T p and the smallest margin, by the textbook."""
    m = Z @ w
    log_slope = -m if loss == "exponential" else -np.logaddexp(0.0, m)
    value = -m if loss == "exponential" else np.log(np.logaddexp(0.0, -m))
    used = s > 0
    top, slope_top = value[used].max(), log_slope[used].max()
    p = s * np.exp(log_slope - slope_top)
    return float(np.log((s * np.exp(value - top)).sum()) + top), p @ Z / p.sum(), float(m[used].min())


def tallies(n: int, d: int, dtype: str, kind: tuple[bool, str, bool]) -> Iterator[Check]:
    rng = np.random.default_rng(n + d)
    weighted, loss, by_class = kind
    X = torch.from_numpy(rng.standard_normal((n, d))).to(getattr(torch, dtype)).to(DEVICE)
    y = np.where(np.arange(n) % 3 == 0, 1, -1)
    Z = X.double().cpu().numpy() * y[:, None]
    s = rng.integers(0, 3, n).astype(float) if weighted else np.ones(n)
    s[: min(n, 2)] = 1.0
    rows = TensorRows(X, y if n > 1 else None, s if weighted else None)
    found: dict[str, list[float]] = {"log sum": [], "u": [], "margin": [], "second margin": []}
    differences = 0
    groups = [y > 0, y < 0] if by_class else [np.ones(n, bool)]
    for scale in (1e-3, 1.0, 100.0):  # the last one takes products in float64
        w = scale * rng.standard_normal(d) / np.sqrt(d)
        size = 4.0 * float(np.linalg.norm(w)) * np.sqrt(d)
        v = rng.standard_normal(d)
        v /= np.linalg.norm(v)
        tally = rows.ask(TallyAt(w, LOSSES[loss], by_class))
        both = rows.ask(TallyAt(w, LOSSES[loss], by_class, second=v))
        differences += int(
            (both.scalars[:, :SECOND] != tally.scalars).sum() + (both.vector != tally.vector).sum()
        )
        for g, group in enumerate(groups):
            second = (Z @ v)[(s * group) > 0].min()
            found["second margin"].append(abs(both.second_margins[g] - second) / (4.0 * np.sqrt(d)))
            log_sum, u, margin = oracle(Z, s * group, w, loss)
            found["log sum"].append(abs(tally.log_sums[g] - log_sum) / max(1.0, abs(log_sum)))
            found["u"].append(float(np.linalg.norm(tally.mean_rows[g] - u) / np.linalg.norm(u)))
            found["margin"].append(abs(tally.margins[g] - margin) / size)
    case = f"{n} x {d} {dtype} {loss}{', weighted' * weighted}{', by class' * by_class}"
    for name, list_of_errors in found.items():
        yield Check(f"{case}: {name}", float(np.max(list_of_errors)), TOLERANCE[dtype])
    yield Check(f"{case}: numbers that a second direction changes", float(differences), 0.0)
    # these are in float64 whatever the storage is
    yield Check(f"{case}: margins", float(np.abs(rows.ask(MarginsAt(w)) - Z @ w).max()) / size, 1e-12)
    p = rng.random(n) * (rng.random(n) < 0.5)
    yield Check(f"{case}: combine", float(np.abs(rows.ask(Combine.of(p)) - p @ Z).max()) / n, 1e-12)


def trajectories() -> Iterator[Check]:
    """Float64 rows on the device against float64 rows on the host."""
    data = prgd.datasets.synthetic_one(0)
    X = torch.from_numpy(data.X).to(DEVICE)
    for name, make in prgd.algorithms.all_algorithms().items():
        algorithm = make()
        loss = "logistic" if name == "large-step-gd" else "exponential"
        for fit_intercept in (False, True) if loss == "exponential" else (False,):
            a = prgd.Problem(torch.from_numpy(data.X), data.y, fit_intercept=fit_intercept, loss=loss)
            b = prgd.Problem(X, data.y, fit_intercept=fit_intercept, loss=loss)
            w0 = prgd.run(a, prgd.GD(), stop=50).w if name in ("prgd", "inside-prgd") else None
            first, second = (prgd.run(problem, algorithm, w0, stop=60) for problem in (a, b))
            error = np.linalg.norm(first.w - second.w) / np.linalg.norm(first.w)
            yield Check(f"trajectory of {name}, intercept {fit_intercept}", float(error), 1e-10)


def smallest_rows() -> Iterator[Check]:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((10_000, 20)), np.where(rng.random(10_000) < 0.5, 1, -1)
    w, without = rng.standard_normal(20), np.array([3, 17, 400])
    margins = y * (X @ w)
    rows = TensorRows(torch.from_numpy(X).to(DEVICE), y)
    for by_class in (False, True):
        groups = [y > 0, y < 0] if by_class else [np.ones(y.size, bool)]
        for found, group in zip(rows.ask(SmallestAt(w, 50, by_class, without)), groups, strict=True):
            allowed = np.setdiff1d(np.flatnonzero(group), without)
            expected = allowed[np.argsort(margins[allowed])[:50]]
            yield Check(
                f"rows of smallest margin, by class {by_class}", float((found.indices != expected).sum()), 0.0
            )
            yield Check("their smallest margin", abs(found.smallest - margins[group].min()), 1e-12)


def sparse() -> Iterator[Check]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 80)) * (rng.random((500, 80)) < 0.1)
    y, w = np.where(rng.random(500) < 0.5, 1, -1), rng.standard_normal(80)
    rows = TensorRows(torch.from_numpy(X).to_sparse_csr().to(DEVICE), y)
    log_sum, u, margin = oracle(X * y[:, None], np.ones(500), w, "exponential")
    tally = rows.ask(TallyAt(w, LOSSES["exponential"]))
    yield Check("CSR: log sum", abs(tally.log_sums[0] - log_sum) / abs(log_sum), 1e-12)
    yield Check("CSR: u", float(np.abs(tally.mean_rows[0] - u).max()), 1e-12)
    yield Check("CSR: margin", abs(tally.margins[0] - margin), 1e-12)


def solver(n: int, d: int, dtype: str, fit_intercept: bool) -> Iterator[Check]:
    rng = np.random.default_rng(2)
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    y = np.where(X @ w > 0, 1, -1)
    X += 0.1 * y[:, None] * w / np.linalg.norm(w)
    tensor = torch.from_numpy(X).to(getattr(torch, dtype)).to(DEVICE)
    labels = torch.from_numpy(y).to(DEVICE)
    result = prgd.max_margin(tensor, labels, fit_intercept=fit_intercept, tol=1e-8)
    case = f"max_margin {n} x {d} {dtype}, intercept {fit_intercept}"
    yield Check(f"{case}: gap", result.gap, 1e-8)
    yield Check(f"{case}: gap checked again", result.check(tensor, labels).certificate.gap, 1.001e-8)


def certificates(n: int, d: int, dtype: str, fit_intercept: bool, offset: float) -> Iterator[Check]:
    """Both ends of certificates against exact arithmetic on their witnesses; the errors are 0 or 1."""
    rng = np.random.default_rng(n + d)
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    y = np.where(X @ w > 0, 1, -1)
    tensor = torch.from_numpy(X + 0.3 * y[:, None] * w / np.linalg.norm(w) + offset)
    tensor = tensor.to(getattr(torch, dtype)).to(DEVICE)
    rows = [
        [Fraction(v) * sign for v in row]
        for row, sign in zip(tensor.double().tolist(), y.tolist(), strict=True)
    ]
    result = prgd.max_margin(tensor, y, fit_intercept=fit_intercept)
    problem = prgd.Problem(tensor, y, fit_intercept=fit_intercept)
    steps = prgd.run(problem, prgd.NGD(), stop=64).certificate
    case = f"certificate {n} x {d} {dtype}, intercept {fit_intercept}, offset {offset:g}"
    yield Check(f"{case}: gap", result.gap, 1e-6)
    for name, c in (("max_margin", result.certificate), ("run", steps)):
        v = [Fraction(x) for x in c.w.tolist()]
        margins = [sum(a * b for a, b in zip(v, z, strict=True)) for z in rows]
        groups = [[m for m, sign in zip(margins, y, strict=True) if sign in signs] for signs in ((1,), (-1,))]
        smallest = (min(groups[0]) + min(groups[1])) / 2 if fit_intercept else min(margins)
        length = sum(x * x for x in v)
        is_below = c.lower <= 0.0 or Fraction(c.lower) ** 2 * length <= smallest**2
        yield Check(f"{case}: lower end of {name} is at most its margin", float(not is_below), 0.0)
    p = [Fraction(x) for x in result.certificate.dual_weights.values.tolist()]
    carried = [(q, rows[i], y[i]) for q, i in zip(p, result.support.tolist(), strict=True)]
    sums = {sign: sum(q for q, _, s in carried if s == sign) for sign in (1, -1)}
    scale = {s: 1 / (2 * sums[s]) if fit_intercept else 1 / sum(p) for s in (1, -1)}
    u = [sum(q * scale[s] * z[j] for q, z, s in carried) for j in range(d)]
    is_above = Fraction(result.upper_bound) ** 2 >= sum(x * x for x in u)
    yield Check(f"{case}: upper end is at least its vector", float(not is_above), 0.0)
    yield Check(f"{case}: run contains max_margin", float(steps.upper < result.margin), 0.0)


PARTS = [
    *[(tallies, case) for case in TALLIES],
    (smallest_rows, ()),
    (sparse, ()),
    (trajectories, ()),
    (solver, (3000, 20, "float64", True)),
    (solver, (20_000, 64, "float32", False)),
    (solver, (20_000, 64, "float32", True)),
    (certificates, (300, 8, "float64", True, 1e9)),
    (certificates, (2000, 16, "float32", True, 0.0)),
    (certificates, (2000, 16, "float32", False, 0.0)),
    (certificates, (2000, 16, "bfloat16", True, 0.0)),
    (certificates, (900, 8, "float32", True, 1000.0)),
]


def run_part(index: int) -> list[Check] | str:
    """Return the checks of a part, or the traceback of what broke it."""
    part, options = PARTS[index]
    try:
        return list(part(*options))
    except Exception:
        return f"FAIL  {part.__name__}{options}\n{traceback.format_exc()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=6, help="processes")
    args = parser.parse_args()
    place = torch.cuda.get_device_name(0) if DEVICE == "cuda" else "the CPU"
    print(f"on {place}, torch {torch.__version__}", flush=True)
    start, count, failed = time.perf_counter(), 0, 0
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for answer in as_completed([pool.submit(run_part, index) for index in range(len(PARTS))]):
            found = answer.result()
            lines = [found] if isinstance(found, str) else [str(check) for check in found]
            count, failed = count + len(lines), failed + sum(line.startswith("FAIL") for line in lines)
            print("\n".join(lines), flush=True)
    print(f"{count - failed} of {count} checks passed, in {time.perf_counter() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
