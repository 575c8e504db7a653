"""What the benchmarks share: turns, medians, threads, real sets, records, and the facts of the machine."""

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

THREADS = ("PRGD_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def set_threads(threads: int) -> None:
    """Set the threads of prgd and BLAS; call this before NumPy is imported."""
    os.environ.update(dict.fromkeys(THREADS, str(threads)))


def in_turns(
    work: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Return the seconds of each call, in ``rounds`` rounds after one that counts only if it is the last."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for k in range(rounds + 1):
        for name, call in work.items():
            start = clock()
            call()
            if k or not rounds:
                seconds[name].append(clock() - start)
    return seconds


def ratio(seconds: dict[str, list[float]], name: str, to: str) -> float:
    """Return the median over rounds of the time of one competitor over that of another."""
    return median(a / b for a, b in zip(seconds[name], seconds[to], strict=True))


def machine() -> dict[str, Any]:
    """Return what a time depends on beside the code."""
    found: dict[str, Any] = {"cores": os.cpu_count(), "system": platform.system()}
    found |= {"python": platform.python_version(), "load": round(os.getloadavg()[0], 1)}
    return found | {name: os.environ.get(name, "default") for name in THREADS}


def folder() -> Path:
    """Return the folder with the real data sets."""
    if not os.environ.get("PRGD_DATA"):
        raise SystemExit("Set PRGD_DATA to the folder with the real data sets.")
    return Path(os.environ["PRGD_DATA"])


def real(file: str) -> tuple[Any, Any]:
    """Return the rows of a file in that folder, and its two labels as -1 and 1."""
    import numpy as np

    import prgd

    X, y = prgd.datasets.load(folder() / file)
    return narrow(X), np.where(y == np.max(y), 1, -1)


def narrow(X: Any) -> Any:
    """Return sparse rows with 32-bit indices, the only ones that LIBLINEAR takes; dense ones as they are."""
    from scipy.sparse import csr_array

    if not hasattr(X, "indptr"):
        return X
    return csr_array((X.data, X.indices.astype("int32"), X.indptr.astype("int32")), shape=X.shape)


def write(file: Path, record: Any) -> None:
    """Write a record, in a folder that is made if there is none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def write_rows(name: str, rows: list[str]) -> None:
    """Write a record of rows of JSON, each on a line of its own."""
    text = '{"rows": [\n' + ",\n".join(rows) + "\n]}\n"
    (Path(__file__).parent / "records" / name).write_text(text, encoding="utf-8")


def write_table(name: str, text: str) -> None:
    """Replace what stands between the two marks of a table on docs/soft_margin.md."""
    page = Path(__file__).parents[1] / "docs/soft_margin.md"
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, rest = page.read_text(encoding="utf-8").split(begin)
    page.write_text(f"{head}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")
