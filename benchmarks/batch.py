"""Many label sets over the same rows: `prgd.max_margin_batch` against a loop over scikit-learn's LinearSVC.

Rows are normal, column j with standard deviation ``j**-0.5`` as activations have it, and each label set is
the side of a planted hyperplane. Every answer is checked again in float64, from the data, coef, intercept and
dual weights alone.

    python benchmarks/batch.py [--full] [--out FOLDER]
    python benchmarks/batch.py --probes [--label-sets N]
    python benchmarks/batch.py --device cuda [--dtype bfloat16] [--out FOLDER]

On a CPU: 1,000 x 768 rows and 30 label sets, 300 with ``--full``; the answers to 1e-4 must take at most half
of the time of LinearSVC at its defaults, and those to 1e-6 at most the whole. With ``--probes`` 2,000 x 4,096
rows and 50 label sets with noise: held-out accuracy, and seconds of the processor. On a GPU: 32 blocks of
1,000 x 4,096 with 300 label sets each, to 1e-4 within 20 s; NumPy and torch are enough to run it.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
from timing import write

import prgd
from prgd.core.threads import cores

ROWS, COLUMNS, LABEL_SETS, SPECTRUM = 1000, 768, 300, 0.5
TARGETS = {1e-4: 0.5, 1e-6: 1.0}  # tolerance: time at most, as a fraction of that of LinearSVC
DEVICE_BLOCKS, DEVICE_COLUMNS, DEVICE_TOL, DEVICE_SECONDS = 32, 4096, 1e-4, 20.0


def recheck(X: np.ndarray, Y: np.ndarray, batch: prgd.BatchResult) -> np.ndarray:
    """Return the gaps, from the data, coef, intercept and dual weights alone, in float64."""
    margins = Y * (X @ batch.coef.T + batch.intercept)
    lower = margins.min(axis=0) / np.linalg.norm(batch.coef, axis=1)
    P = np.zeros(Y.shape)
    for k, result in enumerate(batch):
        P[result.support, k] = result.dual_weights
    assert P.min() >= 0.0
    for sign in (1, -1):
        assert np.abs(np.where(sign == Y, P, 0.0).sum(axis=0) - 0.5).max() < 1e-12
    upper = np.linalg.norm((P * Y).T @ X, axis=1)
    return (upper - lower) / upper


def on_cpu(label_sets: int, seed: int) -> dict:
    """Time both tolerances and LinearSVC, one label set after the other, on the same data."""
    import warnings

    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, COLUMNS)) * np.arange(1, COLUMNS + 1.0) ** -SPECTRUM
    Y = np.sign(X @ rng.standard_normal((COLUMNS, label_sets)))
    prgd.max_margin_batch(X, Y[:, :2])  # compiles what there is to compile
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of iterations that did not converge
        for y in Y.T:
            LinearSVC().fit(X, y)
    seconds = time.perf_counter() - start
    print(f"{ROWS} x {COLUMNS}, {label_sets} label sets, {cores()} cores")
    print(f"LinearSVC       {seconds:8.2f} s  {seconds / label_sets * 1e3:6.1f} ms each")
    facts = {"cores": cores(), "label_sets": label_sets, "linear_svc_seconds": seconds, "batches": []}
    for tol, target in TARGETS.items():
        start = time.perf_counter()
        batch = prgd.max_margin_batch(X, Y, tol=tol)
        taken = time.perf_counter() - start
        worst = float(recheck(X, Y, batch).max())
        support = statistics.median(len(result.support) for result in batch)
        good = worst <= tol and float(batch.gap.max()) <= tol and taken <= target * seconds
        print(
            f"batch to {tol:<6g} {taken:7.2f} s  {taken / label_sets * 1e3:6.1f} ms each, "
            f"{taken / seconds:.2f} of LinearSVC (at most {target:g})  largest gap {worst:.1e}  "
            f"support {support:.0f}  "
            f"{'PASS' if good else 'MISSED'}"
        )
        facts["batches"].append({"tol": tol, "seconds": taken, "largest_gap": worst, "support": support})
    return facts


def probes(label_sets: int, seed: int) -> dict:
    """Compare hard and soft probes with LinearSVC, of which every fifth label set stands for five."""
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((3000, 4096)) * np.arange(1, 4097.0) ** -SPECTRUM
    clean = X @ rng.standard_normal((4096, label_sets))
    Y = clean + 0.5 * clean.std(axis=0) * rng.standard_normal(clean.shape) > 0.0
    train, test, some = slice(0, 2000), slice(2000, None), Y[:, ::5]
    prgd.max_margin_batch(X[:200], Y[:200, :2])  # compiles what there is to compile
    prgd.max_margin_batch(X[:200], Y[:200, :2], C="cv")
    start = time.process_time()
    models = [LinearSVC().fit(X[train], y) for y in some[train].T]
    whole = (time.process_time() - start) * label_sets / len(models)
    right = [model.score(X[test], y) for model, y in zip(models, some[test].T, strict=True)]
    facts = {"LinearSVC": {"seconds": whole, "ratio": 1.0, "accuracy": float(np.mean(right))}}
    for C in (np.inf, 1.0, "cv"):
        start = time.process_time()
        batch = prgd.max_margin_batch(X[train], Y[train], C=C)
        seconds = time.process_time() - start
        right = batch.score(X[test], Y[test])
        facts[f"C={C}"] = {"seconds": seconds, "ratio": seconds / whole, "accuracy": float(right.mean())}
    for name, found in facts.items():
        print(f"{name:9}", {key: round(value, 3) for key, value in found.items()})
    return facts


def on_device(blocks: int, label_sets: int, columns: int, dtype: str, device: str, seed: int) -> dict:
    """Time all blocks in one call, rows and labels on the device."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    scale = torch.arange(1, columns + 1, device=device) ** -SPECTRUM
    X, Y = [], []
    for _ in range(blocks):
        x = torch.randn((ROWS, columns), generator=generator, device=device) * scale
        w = torch.randn((columns, label_sets), generator=generator, device=device)
        X.append(x.to(getattr(torch, dtype)))
        Y.append(torch.sign(X[-1].float() @ w))
    rows = X
    if device == "cpu":  # the code of the device, tried without one
        from prgd.rows.gpu.tensor_rows import TensorRows

        rows = [TensorRows(x) for x in X]
        for one in rows:
            one.is_on_device = True
    prgd.max_margin_batch(rows[0], Y[0], tol=DEVICE_TOL, progress=False)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        batch = prgd.max_margin_batch(rows, Y, tol=DEVICE_TOL, progress=False)
        seconds.append(time.perf_counter() - start)
    worst = max(
        float(recheck(x.double().cpu().numpy(), y.double().cpu().numpy(), batch.of_block(b)).max())
        for b, (x, y) in enumerate(zip(X, Y, strict=True))
    )
    names, counts = np.unique([status.name for status in batch.status], return_counts=True)
    taken = min(seconds)
    good = worst <= DEVICE_TOL and float(batch.gap.max()) <= DEVICE_TOL and taken <= DEVICE_SECONDS
    together = sum(result.passes == 1.0 for result in batch)
    print(
        f"{blocks} blocks of {ROWS} x {columns} {dtype}, {label_sets} label sets each, on {device}: "
        f"{taken:.2f} s (all: {', '.join(f'{s:.2f}' for s in seconds)})  largest gap {worst:.1e}  "
        f"{dict(zip(names.tolist(), counts.tolist(), strict=True))}, {together} of them together  "
        f"{'PASS' if good else 'MISSED'}"
    )
    name = torch.cuda.get_device_name(0) if device == "cuda" else device
    facts = {"device": name, "torch": torch.__version__, "dtype": dtype, "blocks": blocks, "rows": ROWS}
    facts |= {"columns": columns, "label_sets": label_sets, "tol": DEVICE_TOL, "all_seconds": seconds}
    return facts | {"seconds": taken, "largest_gap": worst, "together": together}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", action="store_true", help="300 label sets on the CPU instead of 30")
    parser.add_argument("--label-sets", type=int, help="another number of label sets")
    parser.add_argument("--probes", action="store_true", help="accuracy and time of 2,000 x 4,096 probes")
    parser.add_argument("--device", help="rows as tensors on this device, e.g. cuda")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16", "float64"])
    parser.add_argument("--blocks", type=int, default=DEVICE_BLOCKS)
    parser.add_argument("--columns", type=int, default=DEVICE_COLUMNS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.probes:
        facts = probes(args.label_sets or 50, args.seed)
    elif args.device:
        sets = args.label_sets or LABEL_SETS
        facts = on_device(args.blocks, sets, args.columns, args.dtype, args.device, args.seed)
    else:
        facts = on_cpu(args.label_sets or (LABEL_SETS if args.full else LABEL_SETS // 10), args.seed)
    if args.out:
        name = (
            f"gpu_batch_{args.dtype}.json" if args.device else "probes.json" if args.probes else "batch.json"
        )
        write(args.out / name, facts)


if __name__ == "__main__":
    main()
