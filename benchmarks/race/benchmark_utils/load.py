"""Find and load the files of the race: solvers, datasets, the objective."""

import hashlib
import importlib.util
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

RACE = Path(__file__).parents[1]
ORDER = [
    "ours",
    "liblinear",
    "libsvm",
    "clarabel",
    "piqp",
    "nnls",
    "logistic",
    "dual_acceleration",
    "ngd",
    "prgd_paper",
]
# Parts of prgd that can change the time of a peer that is built on it, and those of `prgd.max_margin`.
CORE = ("core", "rows", "algorithms", "running", "problem", "losses.py", "norms")
MAX_MARGIN = (*CORE, "maxmargin", "solvers", "proofs", "separation")


def module(path: str | Path) -> ModuleType:
    """Import one file; the folder of the race is importable, as under benchopt."""
    path = Path(path)
    if str(RACE) not in sys.path:
        sys.path.insert(0, str(RACE))
    name = f"race_{path.parent.name}_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def solver_paths() -> dict[str, Path]:
    """Return the files of the peers; ours first, then by the order above, then by name."""
    paths = {path.stem: path for path in sorted((RACE / "solvers").glob("*.py"))}
    return dict(sorted(paths.items(), key=lambda item: ORDER.index(item[0]) if item[0] in ORDER else 99))


def missing(solver: type) -> list[str]:
    """Return the packages that a peer needs and that are not installed."""
    found = []
    for package in solver.requirements:
        try:
            version(package)
        except PackageNotFoundError:
            found.append(package)
    return found


def versions(solver: type) -> dict[str, str]:
    """Return what decides how fast a peer is: versions, and the sources of prgd and of its own file."""
    found = {package: version(package) for package in solver.requirements}
    files = [Path(sys.modules[base.__module__].__file__ or "") for base in solver.__mro__[:-1]]
    files = [file for file in files if RACE in file.parents and file.name != "shapes.py"]
    if "prgd" in solver.requirements:
        import prgd

        package = Path(prgd.__file__).parent
        parts = MAX_MARGIN if getattr(solver, "uses_max_margin", False) else CORE
        for part in parts:
            files += sorted((package / part).glob("*.py")) if (package / part).is_dir() else [package / part]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files if file.is_file()))
    return {**found, "sources": digest.hexdigest()[:12]}


# Data sets


class Data(NamedTuple):
    """A set on disk, as every process of the race reads it."""

    name: str
    path: Path
    fingerprint: str
    n: int
    d: int
    stored: int


def datasets(wanted: list[str] | None, folder: Path) -> list[Data]:
    """Return the sets of PRGD_DATA, else scikit-learn's and generated ones; from small to large.

    Each is parsed once and kept in ``folder``.
    """
    stems = ["files"] if os.environ.get("PRGD_DATA") else ["scikit_learn", "lookalikes"]
    makers: dict[str, Any] = {}
    for stem in stems:
        maker = module(RACE / "datasets" / f"{stem}.py").Dataset
        makers |= {which: maker(which=which) for which in maker.parameters["which"]}
    unknown = [name for name in wanted or [] if name not in makers]
    if unknown:
        raise SystemExit(f"No set is called {', '.join(unknown)}. There are: {', '.join(makers)}.")
    found = [_stored(name, makers[name], folder) for name in wanted or makers]
    return sorted(found, key=lambda data: data.stored)


def _stored(name: str, maker: Any, folder: Path) -> Data:
    key = hashlib.sha256(f"{maker.name} {name} {maker.fingerprint()}".encode()).hexdigest()[:12]
    path = folder / f"{name}-{key}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        data = maker.get_data()
        X, y = data["X"], np.asarray(data["y"])
        if len(np.unique(y)) != 2:
            raise SystemExit(f"{name} has {len(np.unique(y))} classes; the race needs two.")
        X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr} if sp.issparse(X) else {"X": X}
        with path.with_suffix(".tmp").open("wb") as file:
            np.savez(file, y=y, shape=np.array(X.shape), **parts)
        path.with_suffix(".tmp").replace(path)
    with np.load(path) as arrays:
        n, d = arrays["shape"].tolist()
        stored = arrays["data"].size if "data" in arrays else n * d
    return Data(name, path, key, n, d, stored)


def read(path: Path) -> tuple[Any, np.ndarray]:
    with np.load(path) as arrays:
        if "X" in arrays:
            return arrays["X"], arrays["y"]
        parts = (arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"])
        return sp.csr_array(parts, shape=tuple(arrays["shape"])), arrays["y"]
