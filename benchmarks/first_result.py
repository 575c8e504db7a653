"""How long the first result takes: installation, import and first fit, with a cold and a warm kernel cache.

Every measurement is a process of its own, and the cases take turns. "Cold" has an empty NUMBA_CACHE_DIR,
"warm" one that an earlier process has filled. The clock of a fit starts after ``import prgd`` and its data,
and includes all that the fit imports and compiles; the whole process is timed from outside. CPU time (user
and system, all threads) stands beside the wall time, since other programs change it less. LinearSVC of
scikit-learn is the named peer: it is compiled ahead of time.

    python benchmarks/first_result.py [--rounds N] [--against SRC] [--install] [--json FILE]

``--against`` names the ``src`` folder of another state of prgd: both take turns, and ratios are printed.
``--install`` also times ``pip install .`` into a new environment: with an empty cache of pip, which downloads
all packages, and again with the filled one, which downloads none.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer

ROOT = Path(__file__).parents[1]
MAX_COLD_FIT = 2.0  # seconds: the target for the first fit with an empty kernel cache
QUIET = 0.75  # a measurement counts as quiet if the process had this fraction of a core
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")

# The script of a child: it prints the wall and CPU seconds of its imports and of its first fit.
CHILD = """
import json, time
import numpy as np
data = np.load({data!r})
X, y = data["X"], data["y"]
def clocks(): return np.array([time.perf_counter(), time.process_time()])
t_0 = clocks()
{imports}
t_1 = clocks()
{fit}
t_2 = clocks()
print(json.dumps([*(t_1 - t_0), *(t_2 - t_1)]))
"""


@dataclass(frozen=True)
class Case:
    """What a process does: a script of imports and a fit, or a command."""

    name: str
    imports: str = ""
    fit: str = "pass"
    command: tuple[str, ...] = ()
    is_judged: bool = False
    is_peer: bool = False

    def arguments(self, data: Path) -> list[str]:
        """Return the arguments of Python."""
        if self.command:
            return list(self.command)
        return ["-c", CHILD.format(data=str(data), imports=self.imports, fit=self.fit)]


CASES = (
    Case("import prgd", "import prgd"),
    Case("prgd.max_margin(X, y)", "import prgd", "prgd.max_margin(X, y)", is_judged=True),
    Case(
        "MaxMarginClassifier().fit(X, y)",
        "from prgd import MaxMarginClassifier",
        "MaxMarginClassifier().fit(X, y)",
        is_judged=True,
    ),
    Case("prgd fit digits:0,1", command=("-m", "prgd", "fit", "digits:0,1"), is_judged=True),
    Case(
        "LinearSVC().fit(X, y)",
        "from sklearn.svm import LinearSVC",
        "LinearSVC().fit(X, y)",
        is_peer=True,
    ),
)


@dataclass(frozen=True)
class Times:
    """Seconds of a process, or medians over several: wall and CPU of its imports, its fit and all of it."""

    import_wall: float
    import_cpu: float
    fit_wall: float
    fit_cpu: float
    process_wall: float
    process_cpu: float

    @classmethod
    def median(cls, laps: list[Times]) -> Times:
        """Return the median of each number."""
        return cls(*map(statistics.median, zip(*(asdict(lap).values() for lap in laps), strict=True)))


@dataclass(frozen=True)
class Row:
    """A case with one state of the kernel cache; ``fit_range`` is the smallest and the largest fit."""

    case: str
    cache: str
    times: Times
    fit_range: tuple[float, float]
    ratio: float | None  # CPU time of the process divided by that of the other state of prgd

    def target(self, case: Case) -> str:
        """Say whether the first fit met its target."""
        if not case.is_judged or self.cache != "cold":
            return ""
        t = self.times
        is_quiet = t.fit_cpu >= QUIET * t.fit_wall
        verdict = "pass" if (t.fit_wall if is_quiet else t.fit_cpu) <= MAX_COLD_FIT else "FAIL"
        return verdict if is_quiet else f"{verdict}, disturbed"


def measure(case: Case, data: Path, source: Path, cache: Path) -> Times:
    """Run a case in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)}
    before, started = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *case.arguments(data)], env=environment, capture_output=True, text=True, check=False
    )
    wall, after = time.perf_counter() - started, os.times()
    if done.returncode != 0:
        raise RuntimeError(f"{case.name} ended with code {done.returncode}:\n{done.stderr}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    # A command has no clock inside: what counts there is the whole process.
    inside = [0.0, 0.0, wall, cpu] if case.command else json.loads(done.stdout.splitlines()[-1])
    return Times(*inside, wall, cpu)


def measure_all(data: Path, rounds: int, against: Path | None, folder: Path) -> list[Row]:
    """Let all cases take turns, each with an empty cache and then with the one that it filled."""
    sources = {"new": ROOT / "src"} | ({"old": against} if against else {})
    laps: dict[tuple[str, str, str], list[Times]] = {}
    for turn in range(rounds + 1):
        for case in CASES:
            for name, source in sources.items():
                cache = Path(tempfile.mkdtemp(dir=folder))
                for state in ("cold", "warm"):
                    lap = measure(case, data, source, cache)
                    if turn:  # the first turn fills the file system's cache and writes bytecode
                        laps.setdefault((case.name, state, name), []).append(lap)
        print(f"turn {turn} of {rounds} is done", file=sys.stderr, flush=True)
    rows = []
    for case in CASES:
        for state in ("cold", "warm"):
            mine = laps[case.name, state, "new"]
            others = laps.get((case.name, state, "old"))
            ratio = None
            if others and not case.is_peer:
                ratio = statistics.median(
                    a.process_cpu / b.process_cpu for a, b in zip(mine, others, strict=True)
                )
            fits = [lap.fit_wall for lap in mine]
            rows.append(Row(case.name, state, Times.median(mine), (min(fits), max(fits)), ratio))
    return rows


def install(folder: Path) -> dict[str, float]:
    """Return the seconds of ``pip install .`` into new environments, with and without downloads."""
    seconds = {}
    for name in ("downloading all packages", "downloading none"):
        home = folder / name.replace(" ", "-")
        venv.create(home, with_pip=True)
        python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        started = time.perf_counter()
        subprocess.run([*pip, "--cache-dir", str(folder / "pip"), str(ROOT)], check=True)
        seconds[name] = time.perf_counter() - started
    return seconds


def machine_facts() -> dict[str, str]:
    """Return what the times depend on."""
    name, info = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].partition(":")[2].strip() if lines else name
    load = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
    facts = {"CPU": name, "cores": str(os.cpu_count()), "load": load, "Python": platform.python_version()}
    return facts | {package: version(package) for package in PACKAGES}


def print_table(rows: list[Row], console: Console) -> None:
    """Print one line for each case and state of the cache."""
    table = Table(title="Time to the first result, seconds: wall (CPU)", title_justify="left")
    for name in ("case", "kernel cache", "import", "first fit", "range", "process", "old / new CPU", ""):
        table.add_column(name, justify="left" if name in ("case", "kernel cache", "") else "right")
    for row in rows:
        case = next(case for case in CASES if case.name == row.case)
        t = row.times
        table.add_row(
            row.case,
            row.cache,
            "-" if case.command else f"{t.import_wall:.2f} ({t.import_cpu:.2f})",
            "-" if case.fit == "pass" and not case.command else f"{t.fit_wall:.2f} ({t.fit_cpu:.2f})",
            f"{row.fit_range[0]:.2f}-{row.fit_range[1]:.2f}",
            f"{t.process_wall:.2f} ({t.process_cpu:.2f})",
            "-" if row.ratio is None else f"{1.0 / row.ratio:.1f}",
            row.target(case),
        )
    console.print(table)
    console.print(
        f"Medians; the target for the first fit with an empty kernel cache is {MAX_COLD_FIT:g} s. A fit that "
        f"had less than {QUIET:.0%} of a core is judged by its CPU time. X is the breast cancer set, "
        "standardised; a command is timed as a whole process."
    )


def main() -> None:
    """Measure, print and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="processes for each number")
    parser.add_argument("--against", type=Path, help="the src folder of another state of prgd")
    parser.add_argument(
        "--install", action="store_true", help="time pip install too; needs an index of packages"
    )
    parser.add_argument("--json", type=Path, help="write the numbers and the machine there")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    facts, console = machine_facts(), Console(width=None if os.isatty(1) else 140)

    def save(record: dict[str, object]) -> None:
        if options.json:
            options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        X, y = load_breast_cancer(return_X_y=True)
        np.savez(folder / "data.npz", X=(X - X.mean(axis=0)) / X.std(axis=0), y=y)
        against = options.against.resolve() if options.against else None
        rows = measure_all(folder / "data.npz", options.rounds, against, folder)
        print_table(rows, console)
        console.print(", ".join(f"{key} {value}" for key, value in facts.items()))
        record = {"machine": facts, "rounds": options.rounds, "rows": [asdict(row) for row in rows]}
        save(record)  # an installation that fails must not cost the rest
        if options.install:
            seconds = install(folder)
            for what, value in seconds.items():
                console.print(f"pip install . into a new environment, {what}: {value:.1f} s")
            save({**record, "install_seconds": seconds})


if __name__ == "__main__":
    main()
