"""The engine comparisons on CUDA without pytest: tensors against a float64 oracle in NumPy. Exit status 1 if any fails."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import torch

import prgd
from prgd.rows.gpu import TensorRows

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-5, torch.bfloat16: 1e-4, torch.float16: 1e-5}
failed = 0


def say(name: str, error: float, tolerance: float) -> None:
    global failed
    good = bool(error <= tolerance)  # NaN fails
    failed += not good
    print(f"{'PASS' if good else 'FAIL'}  {name}: {error:.1e} (at most {tolerance:.0e})")


def oracle(Z: np.ndarray, s: np.ndarray, w: np.ndarray, loss: str) -> tuple[float, np.ndarray, float]:
    """Return log sum of the loss, Z^T p and the smallest margin, by the textbook."""
    m = Z @ w
    log_slope = -m if loss == "exponential" else -np.logaddexp(0.0, m)
    value = -m if loss == "exponential" else np.log(np.logaddexp(0.0, -m))
    used = s > 0
    top, slope_top = value[used].max(), log_slope[used].max()
    p = s * np.exp(log_slope - slope_top)
    return float(np.log((s * np.exp(value - top)).sum()) + top), p @ Z / p.sum(), float(m[used].min())


SHAPES = {
    torch.float32: [(1, 3), (33, 7), (777, 100), (5000, 512), (100_000, 65), (400, 4096), (50, 6000)],
    torch.bfloat16: [(1000, 64), (300, 784), (2000, 101), (400, 4096)],
    torch.float64: [(1000, 64), (777, 100)],
    torch.float16: [(1000, 64)],
}
PLAIN, FULL = (False, "exponential", False), (True, "logistic", True)  # weighted, loss, by class


def tallies() -> None:
    rng = np.random.default_rng(0)
    for dtype, shapes in SHAPES.items():
        for n, d in shapes:
            kinds = [PLAIN, FULL] if n > 1 else [PLAIN]
            if n == 777:
                kinds = list(itertools.product((False, True), ("exponential", "logistic"), (False, True)))
            X = torch.from_numpy(rng.standard_normal((n, d))).to(dtype).to(DEVICE)
            y = np.where(np.arange(n) % 3 == 0, 1, -1)
            Z = X.double().cpu().numpy() * y[:, None]
            worst = {"log sum": 0.0, "u": 0.0, "margin": 0.0, "margins": 0.0, "combine": 0.0}
            for weighted, loss, by_class in kinds:
                s = rng.integers(0, 3, n).astype(float) if weighted else np.ones(n)
                s[: min(n, 2)] = 1.0
                rows = TensorRows(X, y if n > 1 else None, s if weighted else None)
                for scale in (1e-3, 1.0, 100.0):
                    w = scale * rng.standard_normal(d) / np.sqrt(d)
                    size = 4.0 * float(np.linalg.norm(w)) * np.sqrt(d)
                    groups = [y > 0, y < 0] if by_class else [np.ones(n, bool)]
                    for tally, group in zip(rows.tallies(w, loss, by_class), groups, strict=True):
                        log_sum, u, margin = oracle(Z, s * group, w, loss)
                        for name, error in {
                            "log sum": abs(tally.log_sum - log_sum) / max(1.0, abs(log_sum)),
                            "u": np.linalg.norm(tally.mean_row - u) / np.linalg.norm(u),
                            "margin": abs(tally.margin - margin) / size,
                        }.items():
                            worst[name] = error if not error <= worst[name] else worst[name]
                    # these are in float64 whatever the storage is
                    off = float(np.abs(rows.margins(w) - Z @ w).max()) / size
                    worst["margins"] = max(worst["margins"], off * TOLERANCE[dtype] / 1e-12)
                p = rng.random(n) * (rng.random(n) < 0.5)
                off = float(np.abs(rows.combine(p) - p @ Z).max()) / n
                worst["combine"] = max(worst["combine"], off * TOLERANCE[dtype] / 1e-12)
            which = max(worst, key=lambda name: worst[name])
            say(f"tallies {n} x {d} {dtype}, worst is {which}", float(worst[which]), TOLERANCE[dtype])


def engines() -> None:
    """Trajectories of float64 tensors against a NumPy engine of the same protocol."""
    data = prgd.datasets.synthetic_one(0)
    X = torch.from_numpy(data.X).to(DEVICE)
    host = TensorRows(torch.from_numpy(data.X), data.y)
    for name, algorithm, warm in [
        ("gd", prgd.GD(), False), ("ngd", prgd.NGD(), False), ("prgd", prgd.PRGD(), True),
        ("dual-acceleration", prgd.DualAcceleration(), False), ("game-dynamics", prgd.GameDynamics(), False),
        ("gated-prgd", prgd.GatedPRGD(), False), ("progressive-newton", prgd.ProgressiveNewton(), False),
    ]:  # fmt: skip
        for fit_intercept in (False, True):
            a = prgd.Problem(host, fit_intercept=fit_intercept)
            b = prgd.Problem(X, data.y, fit_intercept=fit_intercept)
            w0 = prgd.run(a, prgd.GD(), stop=50).w if warm else None
            first, second = (prgd.run(problem, algorithm, w0, stop=60) for problem in (a, b))
            error = np.linalg.norm(first.w - second.w) / np.linalg.norm(first.w)
            say(f"trajectory of {name}, intercept {fit_intercept}", float(error), 1e-10)


def worst_rows() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((10_000, 20)), np.where(rng.random(10_000) < 0.5, 1, -1)
    w, without = rng.standard_normal(20), np.array([3, 17, 400])
    margins = y * (X @ w)
    rows = TensorRows(torch.from_numpy(X).to(DEVICE), y)
    for by_class in (False, True):
        groups = [y > 0, y < 0] if by_class else [np.ones(y.size, bool)]
        for found, group in zip(rows.worst(w, 50, by_class, without), groups, strict=True):
            allowed = np.setdiff1d(np.flatnonzero(group), without)
            expected = allowed[np.argsort(margins[allowed])[:50]]
            say("worst rows", float((found.indices != expected).sum()), 0.0)
            say("smallest margin", abs(found.smallest - margins[group].min()), 1e-12)


def solver() -> None:
    rng = np.random.default_rng(2)
    for n, d, dtype in [(3000, 20, torch.float64), (20_000, 64, torch.float32), (300, 500, torch.float32)]:
        X = rng.standard_normal((n, d))
        w = rng.standard_normal(d)
        y = np.where(X @ w > 0, 1, -1)
        X += 0.1 * y[:, None] * w / np.linalg.norm(w)
        tensor = torch.from_numpy(X).to(dtype).to(DEVICE)
        for fit_intercept in (False, True):
            result = prgd.max_margin(
                tensor, torch.from_numpy(y).to(DEVICE), fit_intercept=fit_intercept, tol=1e-8
            )
            say(f"max_margin {n} x {d} {dtype}, intercept {fit_intercept}: gap", result.gap, 1e-8)
            check = result.check(tensor, torch.from_numpy(y).to(DEVICE))
            say("  its check", 0.0 if check.is_valid else 1.0, 0.0)


if __name__ == "__main__":
    print("on", torch.cuda.get_device_name(0) if DEVICE == "cuda" else "the CPU", "torch", torch.__version__)
    for part in (tallies, worst_rows, engines, solver):
        part()
    print(f"{failed} failed")
    sys.exit(1 if failed else 0)
