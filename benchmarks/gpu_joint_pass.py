"""One pass for all classes jointly on the GPU against one plain read of the same bytes.

    python benchmarks/gpu_joint_pass.py [--share 1.0] [--check] [--sweep] [--out FOLDER]

Read and pass take turns, as in `gpu_pass.py`; a figure is a ratio of medians. ``--check`` compares passes
over small sets of every kind with products in float64. ``--sweep`` measures the best of a family of plans in
place of that of `prgd.rows.gpu.joint`. Several processes compile the kernels first. NumPy, torch and Triton
are enough.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
import triton
from gpu_pass import in_turns, plain_read

from prgd.losses import EXPONENTIAL, LOGISTIC, as_loss
from prgd.rows.gpu.joint import JointKernels, JointPlan, choose_joint_plan
from prgd.rows.gpu.tensor_rows import TensorRows
from prgd.rows.joint_queries import JointTallyAt

K = 10
TARGET = 0.8  # least fraction of the plain read
TOLERANCE = 1e-5
SHAPES = [
    (16_000_000, 64, "float32"),
    (16_000_000, 64, "bfloat16"),
    (4_000_000, 256, "float32"),
    (4_000_000, 256, "bfloat16"),
    (4_000_000, 256, "float16"),
    (2_000_000, 256, "float64"),
    (2_000_000, 512, "float32"),
    (2_000_000, 512, "bfloat16"),
    (1_000_000, 1024, "float32"),
    (1_000_000, 1024, "bfloat16"),
]
REPEATS = 21
SECONDS = 80.0  # of compiling
# kind of pass: loss, by class, products in float64
KINDS = {
    "pass": (EXPONENTIAL, False, False),
    "by_class": (EXPONENTIAL, True, False),
    "logistic": (LOGISTIC, False, False),
    "wide": (EXPONENTIAL, False, True),
}
CHECKS = [
    (n, d, classes, dtype, loss, by_class, weighted, scale)
    for n, d, classes, loss, by_class, weighted, scale in [
        (7, 3, 3, "exponential", False, False, 1.0),
        (1001, 70, 10, "logistic", False, True, 1.0),
        (1001, 70, 10, "exponential", True, True, 1.0),
        (20_000, 256, 10, "exponential", False, False, 1.0),
        (3000, 100, 20, "exponential", True, False, 1e4),
        (3000, 300, 4, "logistic", False, False, 1e4),
    ]
    for dtype in ("float32", "bfloat16", "float16", "float64")
]


def relative_error(found, expected) -> float:
    """Return the largest error of the numbers of a Tally, relative to their sizes; NaN where one is."""
    errors = []
    with np.errstate(invalid="ignore"):
        means = np.where(expected.scalars[:, 3:4] > 0.0, found.mean_rows - expected.mean_rows, 0.0)
        sizes = np.linalg.norm(np.nan_to_num(expected.mean_rows), axis=1)
    errors.append(np.linalg.norm(means, axis=1).max() / sizes.max())
    for ours, theirs in ((found.log_sums, expected.log_sums), (found.margins, expected.margins)):
        a, b = np.array(ours), np.array(theirs)
        finite = np.isfinite(b)
        if (np.isfinite(a) != finite).any():
            return float("nan")
        errors.append(np.abs(a[finite] - b[finite]).max() / max(1.0, np.abs(b[finite]).max()))
    return float(np.max(errors))


def check(case: tuple) -> tuple[str, float]:
    """Return the name and the error of one of `CHECKS`."""
    n, d, classes, dtype, loss, by_class, weighted, scale = case
    rng = np.random.default_rng(n + d)
    X = torch.from_numpy(rng.standard_normal((n, d))).to(getattr(torch, dtype)).cuda()
    s = rng.integers(0, 3, n).astype(float) if weighted else None
    rows = TensorRows(X, rng.permutation(np.arange(n) % classes), s)
    query = JointTallyAt(scale * rng.standard_normal((classes, d)) / d, as_loss(loss), by_class)
    error = relative_error(rows.ask(query), rows._tally_by_products(query, rows.labels))
    return " ".join(map(str, case)), error if dtype != "float64" else error * 1e6


def compile_plan(case: tuple) -> tuple[str, float]:
    """Compile the kernel of a plan for rows of some width and type."""
    d, dtype, kind, plan = case
    start = time.perf_counter()
    X = torch.randn((4096, d), device="cuda").to(getattr(torch, dtype))
    kernels = JointKernels(X, torch.arange(4096, dtype=torch.int32, device="cuda") % K, None, K, 100.0)
    loss, by_class, wide = KINDS[kind]
    kernels.tally(torch.randn((K, d), dtype=torch.float64), loss, by_class, wide=wide, plan=plan)
    torch.cuda.synchronize()
    return str(case), time.perf_counter() - start


def in_processes(work: Callable, cases: list[tuple], jobs: int) -> Iterator[tuple[tuple, object]]:
    """Yield each case with what its work returned or raised; those that take too long are left out."""
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    futures = {pool.submit(work, case): case for case in cases}
    try:
        for future in as_completed(futures, timeout=SECONDS):
            error = future.exception()
            yield futures[future], error if error is not None else future.result()
    except TimeoutError:
        print(f"{sum(not future.done() for future in futures)} of {len(cases)} take too long", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)


def kinds_for(dtype: str, names: str) -> list[str]:
    """Return those kinds of pass that there are for a type of numbers."""
    return [name for name in names.split(",") if name != "wide" or dtype == "float32"]


def plans(d: int, dtype: str) -> list[JointPlan]:
    """Return a family of plans for rows of d numbers; the number of programs is varied apart."""
    rows, widths, warps, stages = (64,), (64, 128, 256), (4,), (1, 2)
    if dtype == "float64":
        rows, widths, stages = (32,), (64,), (1, 2, 3)
    elif d <= 64:
        rows, widths, stages = (64, 128), (64,), (1, 2, 3)
    elif d > 256:
        rows, widths, warps = (16, 32, 64), (128, 256), (4, 8)
    elif dtype == "float32":
        rows = (32, 64)
    size, found = d * getattr(torch, dtype).itemsize, []
    for choice in itertools.product(rows, widths, warps, stages):
        plan = JointPlan(choice[0], choice[1], choice[2], 1, choice[3])
        held = plan.rows * size * (plan.stages - 1 + (dtype == "float32"))
        is_large = plan.rows * size >= 16_384 or d <= 64
        if is_large and held <= 150_000 and plan.rows * 8 >= plan.warps * 32:
            found.append(plan)
    return found


def draw(n: int, d: int, dtype: str) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Return normal rows, the class of largest product with planted vectors, and half of these as w."""
    generator = torch.Generator("cuda").manual_seed(d)
    X = torch.empty((n, d), device="cuda", dtype=getattr(torch, dtype))
    y = torch.empty(n, device="cuda", dtype=torch.int64)
    planted, w = np.random.default_rng(0).standard_normal((2, K, d))
    separators = torch.from_numpy(planted).cuda().float()
    for part, labels in zip(X.split(2**18), y.split(2**18), strict=True):
        part.copy_(torch.randn(part.shape, generator=generator, device="cuda"))
        labels.copy_((part.float() @ separators.T).argmax(dim=1))
    w += planted
    return X, y, w / np.linalg.norm(w)


def timed(
    kernels: JointKernels, kind: str, plan: JointPlan, read: Callable, repeats: int
) -> dict[str, float]:
    """Return the median times of a read and of a pass."""
    loss, by_class, wide = KINDS[kind]
    again = partial(kernels.tally, None, loss, by_class, wide=wide, plan=plan)
    return in_turns({"read": read, kind: again}, repeats)


def sweep(n: int, d: int, dtype: str, swept: list[JointPlan]) -> list[dict]:
    """Return every plan with its fraction of the plain read, the best first."""
    X, y, w = draw(n, d, dtype)
    rows = TensorRows(X, y)
    kernels = rows._joint_kernels_of(rows.labels)
    read, v, found = plain_read(X), torch.from_numpy(w / np.sqrt(d)), []
    for plan in swept:
        for programs in (1, 2, 3, 4, 6):
            trial = replace(plan, programs=programs)
            try:
                kernels.tally(v, EXPONENTIAL, False, plan=trial)
                now = timed(kernels, "pass", trial, read, 5)
            except Exception as problem:  # a plan that does not fit is a row of the table
                found.append({"plan": trial, "problem": f"{type(problem).__name__}: {problem}"[:100]})
                break
            found.append({"plan": trial, "fraction": now["read"] / now["pass"]})
    return sorted(found, key=lambda entry: -entry.get("fraction", 0.0))


def measure(n: int, d: int, dtype: str, kinds: list[str], plan: JointPlan | None) -> dict:
    """Measure passes over one set by a plan, that of the library if none is given."""
    X, y, w = draw(n, d, dtype)
    rows = TensorRows(X, y)
    kernels = rows._joint_kernels_of(rows.labels)
    kernels.plan = plan or kernels.plan
    v = torch.from_numpy(w / np.sqrt(d))
    read = plain_read(X)
    fractions, speeds = {}, []
    for name in kinds:
        loss, by_class, wide = KINDS[name]
        kernels.tally(v, loss, by_class, wide=wide)  # w lies on the device when a pass is timed
        times = timed(kernels, name, kernels.plan, read, REPEATS)
        fractions[name] = times["read"] / times[name]
        speeds.append(X.nbytes / times["read"])
    query = JointTallyAt(v.numpy(), EXPONENTIAL, False)
    error = relative_error(rows.ask(query), rows._tally_by_products(query, rows.labels))
    facts = {"n": n, "d": d, "K": K, "dtype": dtype, "plan": asdict(kernels.plan), "fractions": fractions}
    return {**facts, "read_bytes_per_second": max(speeds), "error": error}


def show(facts: dict) -> bool:
    """Print a line, and the best of the sweep; return whether the target is met."""
    good = facts["fractions"]["pass"] >= TARGET and facts["error"] <= TOLERANCE
    fractions = ", ".join(f"{name} {value:.3f}" for name, value in facts["fractions"].items())
    print(
        f"{facts['n']:>9} x {facts['d']:<5}{facts['dtype']:9s}"
        f"read {facts['read_bytes_per_second'] / 1e12:.2f} TB/s  {fractions}  error {facts['error']:.1e}  "
        f"{tuple(facts['plan'].values())}  {'PASS' if good else 'MISSED'}",
        flush=True,
    )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the rows")
    parser.add_argument("--check", action="store_true", help="compare small sets of every kind with float64")
    parser.add_argument("--sweep", action="store_true", help="compare with other plans: some minutes")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of passes")
    parser.add_argument("--jobs", type=int, default=14, help="processes that compile")
    parser.add_argument("--out", type=Path, help="folder for gpu_joint_pass.json")
    args = parser.parse_args()
    good, start = True, time.perf_counter()
    if args.check:
        for case, found in in_processes(check, CHECKS, args.jobs):
            fine = isinstance(found, tuple) and found[1] <= TOLERANCE
            good &= fine
            print("PASS" if fine else "FAIL", case, found if not fine else f"{found[1]:.1e}", flush=True)
    shapes = [(int(n * args.share), d, dtype) for n, d, dtype in SHAPES]
    best: dict[tuple, JointPlan] = {}
    swept = {(d, dtype): plans(d, dtype) for _, d, dtype in shapes} if args.sweep else {}
    cases = [(d, dtype, "pass", plan) for (d, dtype), family in swept.items() for plan in family]
    ready = compiled(cases, args.jobs)
    print(f"{len(ready)} plans compiled, {time.perf_counter() - start:.0f} s so far", flush=True)
    for n, d, dtype in shapes if args.sweep else []:
        family = [plan for plan in swept[d, dtype] if (d, dtype, "pass", plan) in ready]
        found = sweep(n, d, dtype, family)
        torch.cuda.empty_cache()
        best[d, dtype] = found[0]["plan"]
        for entry in found[:5]:
            told = tuple(asdict(entry["plan"]).values())
            print(
                f"    {d} {dtype} {entry.get('fraction', 0.0):.3f}  {told}  {entry.get('problem', '')}",
                flush=True,
            )
    cases = []
    for _, d, dtype in shapes:
        own = best.get((d, dtype)) or choose_joint_plan(d, K, getattr(torch, dtype).itemsize)
        cases += [(d, dtype, kind, own) for kind in kinds_for(dtype, args.kinds)]
    ready = compiled(cases, args.jobs)
    print(f"{len(ready)} kernels compiled, {time.perf_counter() - start:.0f} s so far", flush=True)
    record: dict = {"device": torch.cuda.get_device_name(0), "torch": torch.__version__}
    record |= {"triton": triton.__version__, "cases": []}
    for n, d, dtype in shapes:
        kinds = [
            kind for kind in kinds_for(dtype, args.kinds) if any(c[:3] == (d, dtype, kind) for c in ready)
        ]
        record["cases"].append(measure(n, d, dtype, kinds, best.get((d, dtype))))
        good &= show(record["cases"][-1])
        torch.cuda.empty_cache()
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            text = json.dumps(record, indent=1) + "\n"
            (args.out / "gpu_joint_pass.json").write_text(text, encoding="utf-8")
    print(f"{time.perf_counter() - start:.0f} s in all")
    return 0 if good else 1


def compiled(cases: list[tuple], jobs: int) -> set[tuple]:
    """Compile kernels in several processes; return the cases for which that was possible."""
    ready = set()
    for case, found in in_processes(compile_plan, cases, jobs) if cases else ():
        if isinstance(found, BaseException):
            print("not compiled:", case, f"{type(found).__name__}: {found}"[:120], flush=True)
        else:
            ready.add(case)
    return ready


if __name__ == "__main__":
    sys.exit(main())
