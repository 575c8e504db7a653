"""The shared lists of problems, engines and algorithms: a test is one body over their product."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import prgd
from prgd import datasets
from prgd.rows import ChunkedRows, DenseRows, Rows, SparseRows, open_cluster, open_rows
from prgd.rows.gpu.tensor_rows import TensorRows


def _gaussian() -> datasets.Dataset:
    # separable by construction: rows are pushed away from a planted hyperplane
    rng = np.random.default_rng(5)
    X = rng.standard_normal((211, 7))
    planted = np.full(7, 1.0) / np.sqrt(7.0)
    y = np.where(X @ planted > 0, 1, -1)
    return datasets.Dataset(X + 0.3 * y[:, None] * planted, y, "gaussian")


def three_classes() -> tuple[Any, Any]:
    """Return rows of three classes that a matrix W separates, and their labels."""
    rng = np.random.default_rng(2)
    y = np.arange(24) % 3
    return rng.standard_normal((3, 5))[y] + 0.2 * rng.standard_normal((24, 5)), y


PROBLEMS: dict[str, Callable[[], datasets.Dataset]] = {
    "toy": lambda: datasets.toy(0.3),
    "synthetic-one": lambda: datasets.synthetic_one(0),
    "synthetic-two": lambda: datasets.synthetic_two(0),
    "gaussian": _gaussian,
    "digits": lambda: datasets.digits(0, 1, 50),
}

Build = Callable[[Any, Any, Any, Path], Rows]


def _mapped(X: Any, y: Any, s: Any, folder: Path) -> Rows:
    np.save(folder / "X.npy", X)
    return DenseRows(np.load(folder / "X.npy", mmap_mode="r"), y, s)


def _chunks(X: Any, y: Any, s: Any, folder: Path) -> Rows:
    cut = max(1, len(y) // 3)
    blocks = [
        (X[:cut], y[:cut]),
        (sp.csr_array(X[cut : 2 * cut]), y[cut : 2 * cut]),
        (X[2 * cut :], y[2 * cut :]),
    ]
    return ChunkedRows.from_blocks([b for b in blocks if b[0].shape[0]], s)


def _npy(X: Any, y: Any, s: Any, folder: Path) -> Rows:
    np.save(folder / "rows.npy", X)
    return open_rows(folder / "rows.npy", y, s, max_memory=X.shape[1] * 8 * 20)


def _libsvm(X: Any, y: Any, s: Any, folder: Path) -> Rows:
    # repr of a float reads back exactly
    lines = [
        f"{label:g} " + " ".join(f"{j + 1}:{float(v)!r}" for j, v in enumerate(row) if v != 0)
        for row, label in zip(X, y, strict=True)
    ]
    (folder / "rows.svm").write_text("\n".join(lines) + "\n")
    return open_rows(folder / "rows.svm", None, s, max_memory=1000, cache_dir=folder / "cache")


def _parquet(X: Any, y: Any, s: Any, folder: Path) -> Rows:
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame.assign(y=y).to_parquet(folder / "rows.parquet", row_group_size=37, index=False)
    return open_rows(folder / "rows.parquet", None, s, max_memory=X.shape[1] * 8 * 40)


@cache
def local_client() -> Any:
    """One scheduler and worker for all tests, in threads of this process; conftest closes it."""
    from distributed import Client

    client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
    client.scheduler_comm.interval = 0.0005  # Dask holds messages back for 10 ms: thousands of passes here
    return client


def _cluster(X: Any, y: Any, s: Any, folder: Path) -> Rows:
    from dask.delayed import delayed

    cut = len(y) // 2
    places = [slice(0, cut), slice(cut, cut), slice(cut, None)]
    blocks = [
        (kind(X[at]), y[at], None if s is None else s[at])
        for at, kind in zip(places, [np.asarray, np.asarray, sp.csr_array], strict=True)
    ]
    return open_cluster([delayed(block) for block in blocks], client=local_client())


def _tensor_csr(X: Any, y: Any, s: Any, folder: Path) -> Rows:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR", UserWarning)  # a beta, says torch, once
        return TensorRows(torch.from_numpy(X).to_sparse_csr(), y, s)


def _compiled(rows: DenseRows | SparseRows) -> DenseRows | SparseRows:
    """Let kernels answer all queries, as they do for large rows, instead of NumPy."""
    rows.is_small = False
    return rows


ENGINES: dict[str, Build] = {
    "dense": lambda X, y, s, folder: DenseRows(X, y, s),
    "fortran": lambda X, y, s, folder: DenseRows(np.asfortranarray(X), y, s),
    "strided": lambda X, y, s, folder: DenseRows(np.repeat(X, 2, axis=1)[:, ::2], y, s),
    "mapped": _mapped,
    "sparse": lambda X, y, s, folder: SparseRows(sp.csr_array(X), y, s),
    "sparse-wide-index": lambda X, y, s, folder: SparseRows(_wide(X), y, s),
    "dense-compiled": lambda X, y, s, folder: _compiled(DenseRows(X, y, s)),
    "sparse-compiled": lambda X, y, s, folder: _compiled(SparseRows(sp.csr_array(X), y, s)),
    "chunks": _chunks,
    "npy": _npy,
    "libsvm": _libsvm,
    "parquet": _parquet,
    "cluster": _cluster,
    "tensor": lambda X, y, s, folder: TensorRows(torch.from_numpy(X), y, s),
    "tensor-strided": lambda X, y, s, folder: TensorRows(torch.from_numpy(X.repeat(2, axis=1))[:, ::2], y, s),
    "tensor-csr": _tensor_csr,
}


QUICK_ENGINES = ("dense", "sparse", "chunks", "tensor")


def engines() -> list[Any]:
    """Return the engines as parameters; all but one of each kind are slow, for tests that run algorithms."""
    return [pytest.param(name, marks=() if name in QUICK_ENGINES else pytest.mark.slow) for name in ENGINES]


def _wide(X: Any) -> Any:
    csr = sp.csr_array(X)
    csr.indices = csr.indices.astype(np.int64)
    csr.indptr = csr.indptr.astype(np.int64)
    return csr


@dataclass(frozen=True)
class Entry:
    """An algorithm, whether it needs a warm start, and the gap it reaches on the synthetic sets.

    ``history_tol`` is how closely the margins of all its iterates agree between engines over ``trace`` steps,
    ``norm`` and ``loss`` those of the problems it is run on, ``joint`` whether these may have more than two
    classes, and ``passes`` the number of passes of a step.
    """

    algorithm: Any
    warm: bool = False
    steps: int = 300
    gap: float = 1.0
    history_tol: float = 1e-9
    norm: str = "l2"
    loss: str = "exponential"
    passes: int = 1
    joint: bool = True
    trace: int = 60

    def symmetry(self, d: int, rng: np.random.Generator) -> Any:
        """Return a random matrix that keeps the norm: a rotation for l2, else a signed permutation."""
        if self.norm in ("l2", "spectral"):
            return np.linalg.qr(rng.standard_normal((d, d)))[0]
        return np.eye(d)[rng.permutation(d)] * rng.choice([-1.0, 1.0], d)

    def problem(self, X: Any, y: Any = None, **options: Any) -> prgd.Problem:
        """Return the problem of these rows in the norm and with the loss of the entry, joint for matrices."""
        joint = "joint" if self.norm == "spectral" else None
        return prgd.Problem(X, y, norm=self.norm, loss=self.loss, multi_class=joint, **options)


# methods that gather the rows that carry weight at each step, which takes long on a cluster
HULL: dict[str, Any] = {"passes": 2, "joint": False, "trace": 15}

ALGORITHMS: dict[str, Entry] = {
    "gd": Entry(prgd.GD(), gap=0.9),
    "ngd": Entry(prgd.NGD(), gap=0.9),
    "prgd": Entry(prgd.PRGD(), warm=True, gap=1e-5),
    "loss-scaled-gd": Entry(prgd.algorithms.LossScaledGD(), gap=0.9),
    "dual-acceleration": Entry(prgd.algorithms.DualAcceleration(), steps=2000, gap=1e-3),
    "restarted-ngd": Entry(prgd.algorithms.RestartedNGD(), steps=2000, gap=1e-3),
    "game-dynamics": Entry(prgd.algorithms.GameDynamics(), steps=2000, gap=1e-3),
    "gated-prgd": Entry(prgd.algorithms.GatedPRGD(), gap=1e-3),
    # within a phase few rows carry weight, H is nearly singular and a step multiplies rounding by up to
    # 1e3; where the phase is solved the iterates agree again, to 1e-12
    "progressive-newton": Entry(prgd.algorithms.ProgressiveNewton(), False, 40, 1e-9, 1e-4, joint=False),
    "sign-descent": Entry(prgd.algorithms.SteepestDescent(), gap=0.7, norm="linf"),
    "coordinate-descent": Entry(prgd.algorithms.SteepestDescent(), gap=0.5, norm="l1"),
    "steepest-descent": Entry(
        prgd.algorithms.SteepestDescent(normalized=True, power=0.5), gap=0.45, norm="lp:1.5"
    ),
    "spectral-descent": Entry(prgd.algorithms.SteepestDescent(), gap=0.5, norm="spectral"),
    "prgd-linf": Entry(prgd.PRGD(), warm=True, gap=0.05, norm="linf"),
    "prgd-l1": Entry(prgd.PRGD(), warm=True, gap=1e-6, norm="l1"),
    "inside-prgd": Entry(prgd.algorithms.InsidePRGD(), warm=True, gap=0.05, norm="linf"),
    "adam": Entry(prgd.algorithms.Adam(), gap=0.75, norm="linf"),
    "mirror-descent": Entry(prgd.algorithms.MirrorDescent(p=3.0), gap=0.9, norm="lp:3"),
    "adaptive-gd": Entry(prgd.algorithms.AdaptiveGD(), steps=1000, gap=0.99),
    "large-step-gd": Entry(prgd.algorithms.LargeStepGD(), gap=0.9, loss="logistic"),
    "normalized-perceptron": Entry(prgd.algorithms.NormalizedPerceptron(), gap=1e-9, **HULL),
    "away-step-frank-wolfe": Entry(prgd.algorithms.AwayStepFrankWolfe(), gap=1e-9, **HULL),
    "mdm": Entry(prgd.algorithms.MDM(), gap=1e-9, **HULL),
}

# Names of algorithms, each without an intercept and, for the loss that has one, with it.
CASES = [
    (name, fit_intercept)
    for name, entry in ALGORITHMS.items()
    for fit_intercept in (False, True)
    if entry.loss == "exponential" or not fit_intercept
]


# Algorithms that all tests run on every engine. The others ask the engines nothing else, so only the test of
# trajectories runs them on the engines that are not quick.
EVERYWHERE = ("ngd", "prgd", "game-dynamics", "progressive-newton")


def runs() -> list[Any]:
    """Return engines, algorithms and intercepts; the engines that are not quick are slow."""
    return [
        pytest.param(engine, name, fit, marks=() if engine in QUICK_ENGINES else pytest.mark.slow)
        for engine in ENGINES
        for name, fit in CASES
        if engine in QUICK_ENGINES or name in EVERYWHERE
    ]


def trajectories() -> list[Any]:
    """Return runs and their sets: three sets for the quick engines and the algorithms of all tests, else one.

    The other algorithms take an intercept on the engines that are not quick, if their loss has one.
    """
    found = []
    for engine in ENGINES:
        is_quick = engine in QUICK_ENGINES
        marks = () if is_quick else pytest.mark.slow
        for name, fit in CASES:
            is_everywhere = name in EVERYWHERE
            if is_quick or is_everywhere or fit or (name, True) not in CASES:
                sets = ("toy", "synthetic-one", "gaussian") if is_quick and is_everywhere else ("gaussian",)
                found += [pytest.param(engine, name, fit, one, marks=marks) for one in sets]
    return found


def runs_without_intercept() -> list[Any]:
    """Return the engines and algorithms of `runs`."""
    chosen = [run for run in runs() if not run.values[2]]
    return [pytest.param(*run.values[:2], marks=run.marks) for run in chosen]


def trace(engine: str, entry: Entry) -> int:
    """Return the steps of a trajectory: fewer on a cluster, where each pass takes milliseconds.

    Iterates of Newton's method, whose margins differ by more within a phase, agree at the end of a long one.
    """
    return min(entry.trace, 15) if engine == "cluster" and entry.history_tol < 1e-6 else entry.trace


def start(problem: prgd.Problem, entry: Entry) -> Any:
    """Return the w0 of an entry: a short warm-up where it needs one."""
    return prgd.run(problem, prgd.GD(), stop=50).w if entry.warm else None


def gamma_star(data: datasets.Dataset, entry: Entry) -> float:
    """Return the largest margin of two-dimensional rows in the norm of an entry."""
    if entry.norm in ("l2", "spectral"):  # of (v, -v), the spectral norm is sqrt 2 ||v||, the margin 2 <v, z>
        return float(data.gamma_star) * (1.0 if entry.norm == "l2" else np.sqrt(2.0))
    norm, Z = prgd.norms.as_norm(entry.norm), data.X * data.y[:, None]

    def margin(angle: float) -> float:
        w = np.array([np.cos(angle), np.sin(angle)])
        return float((Z @ w).min()) / norm(w)

    # The margin has one maximum over the separators, which lie on both sides of that of largest l2 margin.
    centre = float(np.arctan2(*data.w_star[::-1]))
    low, high = centre - np.pi / 2.0, centre + np.pi / 2.0
    for _ in range(120):
        a, b = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (a, high) if margin(a) < margin(b) else (low, b)
    return margin(0.5 * (low + high))
