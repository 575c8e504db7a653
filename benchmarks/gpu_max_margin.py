"""max_margin on a generated separable set in device memory: seconds, passes and a certificate checked apart.

Rows are standard normal, labelled by a planted w; those with a margin below 1e-3 of the largest row norm are
dropped, so that gamma_star is between 1e-3 and 2e-3 of it. NumPy and torch are enough to run this.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

import prgd
from prgd.rows.gpu import TensorRows

TARGET_SECONDS, TARGET_GAP, TARGET_MARGIN = 30.0, 1e-4, 2e-3
CHUNK = 2**18


def planted(d: int, device: str, seed: int) -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(seed)
    w = torch.randn(d, generator=generator, device=device, dtype=torch.float64)
    return w / w.norm()


def generate(n: int, d: int, device: str, dtype: torch.dtype, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return X and labels; chunk k is drawn from a seed of its own, so that it can be drawn twice."""
    w = planted(d, device, seed)

    def chunk(k: int) -> torch.Tensor:
        generator = torch.Generator(device).manual_seed(1_000_003 * (seed + 1) + k)
        return torch.randn((CHUNK, d), generator=generator, device=device, dtype=torch.float32).to(dtype)

    count = -(-n * 21 // (20 * CHUNK))  # one row in about fifty is dropped
    largest = max(float(torch.linalg.vector_norm(chunk(k), dim=1).max()) for k in range(count))
    X, y = torch.empty((n, d), device=device, dtype=dtype), torch.empty(n, device=device, dtype=torch.int8)
    filled, k = 0, 0
    while filled < n:
        block = chunk(k)
        margins = block.double() @ w
        kept = (margins.abs() >= 1e-3 * largest).nonzero().ravel()[: n - filled]
        X[filled : filled + kept.numel()] = block[kept]
        y[filled : filled + kept.numel()] = torch.sign(margins[kept]).to(torch.int8)
        filled, k = filled + kept.numel(), k + 1
    return X, y


def recheck(X: torch.Tensor, y: torch.Tensor, result: prgd.MaxMarginResult) -> tuple[float, float]:
    """Return both bounds, from the data, coef, intercept and dual weights alone, in float64 chunks."""
    w = torch.from_numpy(result.coef).to(X.device)
    margin = np.inf
    for part, labels in zip(X.split(CHUNK), y.split(CHUNK), strict=True):
        margin = min(margin, float((labels * (part.double() @ w + result.intercept)).min()))
    support = torch.from_numpy(result.support).to(X.device)
    p = torch.from_numpy(result.dual).to(X.device)
    assert float(p.min()) >= 0.0
    assert abs(float(p.sum()) - 1.0) < 1e-12
    if result.fit_intercept:
        assert abs(float(p[y[support] > 0].sum()) - 0.5) < 1e-12
    u = (p * y[support]) @ X[support].double()
    return margin / float(w.norm()), float(u.norm())


def solve(X, y, engine: str, fit_intercept: bool, tol: float, verbose: int) -> dict:
    if X.is_cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    if engine == "numpy":
        result = prgd.max_margin(X.numpy(), y.numpy(), fit_intercept=fit_intercept, tol=tol, verbose=verbose)
    else:
        result = prgd.max_margin(X, y, fit_intercept=fit_intercept, tol=tol, verbose=verbose)
    seconds = time.perf_counter() - start
    margin, upper = recheck(X, y, result)
    largest = TensorRows(X, y).measure().max_norm
    facts = {
        "fit_intercept": fit_intercept,
        "seconds": seconds,
        "passes": result.passes,
        "status": result.status.name,
        "gap": result.gap,
        "gap_rechecked": (upper - margin) / upper,
        "margin": margin,
        "relative_margin": margin / largest,
        "support": len(result.support),
        "working_set": result.history[-1]["working_set"],
        "peak_bytes": torch.cuda.max_memory_allocated() if X.is_cuda else None,
        "history": result.history,
    }
    good = (
        facts["gap_rechecked"] <= tol
        and seconds < TARGET_SECONDS
        and facts["relative_margin"] <= TARGET_MARGIN
    )
    print(
        f"{'intercept' if fit_intercept else 'origin':9s} {seconds:7.2f} s  {result.passes:6.1f} passes  "
        f"gap {result.gap:.2e} (again, in float64: {facts['gap_rechecked']:.2e})  "
        f"gamma/max|x| {facts['relative_margin']:.3e}  support {facts['support']}  "
        f"working set {facts['working_set']:.0f}  {result.status.name}  {'PASS' if good else 'MISSED'}",
        flush=True,
    )
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000_000)
    parser.add_argument("--d", type=int, default=256)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float64"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--engine", default="tensor", choices=["tensor", "numpy"])
    parser.add_argument("--tol", type=float, default=TARGET_GAP)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", default="both", choices=["both", "intercept", "origin"])
    parser.add_argument("--verbose", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    start = time.perf_counter()
    X, y = generate(args.n, args.d, args.device, getattr(torch, args.dtype), args.seed)
    print(f"{args.n} x {args.d} {args.dtype} on {args.device}, drawn in {time.perf_counter() - start:.1f} s")
    cases = {"both": [True, False], "intercept": [True], "origin": [False]}[args.case]
    for case in cases:  # compiles and loads what there is to load
        prgd.max_margin(
            *((X[:4096], y[:4096]) if args.engine == "tensor" else (X[:4096].numpy(), y[:4096].numpy())),
            fit_intercept=case,
            tol=1e-2,
        )
    found = [solve(X, y, args.engine, case, args.tol, args.verbose) for case in cases]
    if args.out:
        facts = {"n": args.n, "d": args.d, "dtype": args.dtype, "device": args.device, "tol": args.tol}
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "gpu_max_margin.json").write_text(json.dumps({**facts, "cases": found}, indent=1))


if __name__ == "__main__":
    main()
