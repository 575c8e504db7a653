"""max_margin on generated separable sets in device memory: seconds, passes and certificates checked apart.

Rows are normal, column j with standard deviation ``j**-spectrum``, labelled by a planted w; those with a
margin below 1e-3 of the largest row norm are dropped. Sets with 1 % of their labels flipped, which no
hyperplane separates, follow the separable ones. NumPy and torch are enough to run this.

    python benchmarks/gpu_max_margin.py [--out FOLDER]
    python benchmarks/gpu_max_margin.py --sample 0.01 --device cpu --liblinear [--out FOLDER]

The first line takes the three sets of `SETS`, with and without intercept. The second draws 1 % of the rows of
one set on the CPU, and sets scikit-learn's LinearSVC beside the solver.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from timing import write

import prgd
from prgd.rows import Measure
from prgd.rows.gpu.tensor_rows import TensorRows

# rows, columns, type, spectrum, tolerance, seconds
SETS = [
    (20_000, 4096, "float32", 0.5, 1e-6, 1.0),
    (200_000, 4096, "bfloat16", 0.5, 1e-4, 4.0),
    (10_000_000, 256, "float32", 0.0, 1e-4, 0.8),
]
# Rows, columns and spectrum of float32 sets of which `FLIPPED` labels are flipped, to be decided in a second.
OVERLAPPING = [(1_000_000, 256, 0.0), (1_000_000, 256, 0.5), (200_000, 2048, 0.0)]
FLIPPED, MAX_SECONDS = 0.01, 1.0
REPEATS = 3
CHUNK = 2**18
LIBLINEAR_ITERATIONS = (1000, 50_000)  # scikit-learn's default, and some patience


def planted(d: int, device: str, seed: int) -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(seed)
    w = torch.randn(d, generator=generator, device=device, dtype=torch.float64)
    return w / w.norm()


def generate(
    n: int, d: int, device: str, dtype: torch.dtype, spectrum: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return X and labels; chunk k is drawn from a seed of its own, so that it can be drawn twice."""
    w = planted(d, device, seed)
    size = min(CHUNK, max(n // 4, 1024), 2**28 // d)
    scale = torch.arange(1, d + 1, device=device) ** -spectrum

    def chunk(k: int) -> torch.Tensor:
        generator = torch.Generator(device).manual_seed(1_000_003 * (seed + 1) + k)
        return (torch.randn((size, d), generator=generator, device=device) * scale).to(dtype)

    count = -(-n * 11 // (10 * size))  # one row in about twenty is dropped
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


def recheck(X: torch.Tensor, y: torch.Tensor, result: prgd.Result) -> tuple[float, float]:
    """Return both bounds, from the data, coef, intercept and dual weights alone, in float64 chunks."""
    w = torch.from_numpy(result.coef).to(X.device)
    margin = np.inf
    for part, labels in zip(X.split(CHUNK), y.split(CHUNK), strict=True):
        margin = min(margin, float((labels * (part.double() @ w + result.intercept)).min()))
    support = torch.from_numpy(result.support).to(X.device)
    p = torch.from_numpy(result.dual_weights).to(X.device)
    assert float(p.min()) >= 0.0
    assert abs(float(p.sum()) - 1.0) < 1e-12
    if result.fit_intercept:
        assert abs(float(p[y[support] > 0].sum()) - 0.5) < 1e-12
    u = (p * y[support]) @ X[support].double()
    return margin / float(w.norm()), float(u.norm())


def solve(X, y, engine: str, fit_intercept: bool, tol: float, target: float, verbose: int) -> dict:
    """Solve several times; the median counts."""
    data, seconds = (X.numpy(), y.numpy()) if engine == "numpy" else (X, y), []
    if X.is_cuda:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(REPEATS if X.is_cuda else 1):
        if X.is_cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        result = prgd.max_margin(*data, fit_intercept=fit_intercept, tol=tol, verbose=verbose)
        seconds.append(time.perf_counter() - start)
    margin, upper = recheck(X, y, result)
    largest = TensorRows(X, y).ask(Measure()).max_norm
    facts = {
        "fit_intercept": fit_intercept,
        "seconds": statistics.median(seconds),
        "all_seconds": seconds,
        "passes": result.passes,
        "status": result.status.name,
        "gap": result.gap,
        "gap_rechecked": (upper - margin) / upper,
        "margin": margin,
        "upper_bound": upper,
        "relative_margin": margin / largest,
        "support": len(result.support),
        "working_set": result.history.rows[-1].working_set,
        "peak_bytes": torch.cuda.max_memory_allocated() if X.is_cuda else None,
        "history": result.history.rows,
    }
    good = facts["gap_rechecked"] <= tol and facts["seconds"] <= target
    print(
        f"{'intercept' if fit_intercept else 'origin':9s} {facts['seconds']:7.3f} s (first {seconds[0]:.2f}) "
        f"{result.passes:6.1f} passes  gap {result.gap:.2e} (in float64 again {facts['gap_rechecked']:.2e})  "
        f"gamma/max|x| {facts['relative_margin']:.3e}  support {facts['support']}  "
        f"working set {facts['working_set']:.0f}  {result.status.name}  {'PASS' if good else 'MISSED'}",
        flush=True,
    )
    return facts


def overlapping(n: int, d: int, spectrum: float, device: str, seed: int) -> dict:
    """Flip some labels, and time the proof that no hyperplane separates the classes."""
    X, y = generate(n, d, device, torch.float32, spectrum, seed)
    generator = torch.Generator(device).manual_seed(seed + 1)
    y = torch.where(torch.rand(n, generator=generator, device=device) < FLIPPED, -y, y)
    facts = {"n": n, "d": d, "spectrum": spectrum, "flipped": FLIPPED}
    for case in (False, True):
        seconds = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            result = prgd.max_margin(X, y, fit_intercept=case, tol=1e-4)
            seconds.append(time.perf_counter() - start)
        good = result.status is prgd.Status.NOT_SEPARABLE and statistics.median(seconds) <= MAX_SECONDS
        facts["intercept" if case else "origin"] = {"seconds": seconds, "status": result.status.name}
        print(
            f"{n} x {d}, columns j^-{spectrum:g}, 1 % flipped, {'intercept' if case else 'origin':9s} "
            f"{statistics.median(seconds):7.3f} s (first {seconds[0]:.2f}) {result.passes:6.1f} passes  "
            f"rows with weight {len(result.support)}  {result.status.name}  {'PASS' if good else 'MISSED'}",
            flush=True,
        )
    return facts


def liblinear(X: torch.Tensor, y: torch.Tensor, upper: float, max_iter: int) -> dict:
    """Time LIBLINEAR, through the origin as it penalises an intercept, and measure its margin."""
    import warnings

    import sklearn
    from sklearn.svm import LinearSVC

    model = LinearSVC(
        C=1e6, loss="hinge", dual=True, tol=1e-4, max_iter=max_iter, fit_intercept=False, random_state=0
    )
    rows, labels = X.double().numpy(), y.numpy()  # as it would copy them itself
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it did not converge is in the record
        model.fit(rows, labels)
    seconds = time.perf_counter() - start
    w = model.coef_[0]
    margins = labels * (rows @ w) / np.linalg.norm(w)
    facts = {
        "seconds": seconds,
        "iterations": int(model.n_iter_),
        "max_iter": max_iter,
        "margin": float(margins.min()),
        "gap_to_upper_bound": float((upper - margins.min()) / upper),
        "misclassified": int((margins <= 0.0).sum()),
        "scikit_learn": sklearn.__version__,
    }
    print(
        f"LinearSVC {seconds:7.2f} s  {facts['iterations']} of at most {max_iter} iterations  "
        f"gap to the bound {facts['gap_to_upper_bound']:.2e}  {facts['misclassified']} rows misclassified",
        flush=True,
    )
    return facts


def measure(one: tuple, args: argparse.Namespace) -> dict:
    """Draw one of the sets and solve it, with and without intercept."""
    n, d, dtype, spectrum, tol, target = one
    start, n = time.perf_counter(), int(n * args.sample)
    X, y = generate(n, d, args.device, getattr(torch, dtype), spectrum, args.seed)
    print(f"{n} x {d} {dtype} on {args.device}, drawn in {time.perf_counter() - start:.1f} s; to {tol:g}")
    cases = {"both": [True, False], "intercept": [True], "origin": [False]}[args.case]
    few = X[:4096], y[:4096]
    for case in cases:  # compiles and loads what there is to load
        data = few if args.engine == "tensor" else (few[0].numpy(), few[1].numpy())
        prgd.max_margin(*data, fit_intercept=case, tol=1e-2)
    found = [solve(X, y, args.engine, case, tol, target, args.verbose) for case in cases]
    facts = {"n": n, "d": d, "dtype": dtype, "spectrum": spectrum, "tol": tol, "cases": found}
    if args.liblinear:
        origin = [case["upper_bound"] for case in found if not case["fit_intercept"]]
        facts["linear_svc"] = [liblinear(X.cpu(), y.cpu(), origin[0], most) for most in LIBLINEAR_ITERATIONS]
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--sets", type=int, nargs="+", default=None, help="numbers of SETS; all on a GPU, else 2"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--engine", default="tensor", choices=["tensor", "numpy"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", default="both", choices=["both", "intercept", "origin"])
    parser.add_argument("--sample", type=float, default=1.0, help="share of the rows that are drawn")
    parser.add_argument(
        "--liblinear", action="store_true", help="LinearSVC too, on the CPU, after the solver"
    )
    parser.add_argument("--verbose", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    chosen = args.sets or ([0, 1, 2] if args.device == "cuda" else [2])
    facts = {"torch": torch.__version__, "sets": []}
    overlaps = OVERLAPPING if args.device == "cuda" and not args.sets else []
    facts["device"] = torch.cuda.get_device_name(0) if args.device == "cuda" else "cpu"
    for k in chosen:
        facts["sets"].append(measure(SETS[k], args))
    facts["overlapping"] = [overlapping(*one, args.device, args.seed) for one in overlaps]
    if args.out:
        name = "gpu_max_margin_sample.json" if args.liblinear else "gpu_max_margin.json"
        write(args.out / name, facts)


if __name__ == "__main__":
    main()
