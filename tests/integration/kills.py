"""Kill commands at random moments, let them go on, and compare their files with those of whole runs.

``python tests/integration/kills.py 50`` makes 50 trials each of ``prgd run``, ``fit``, ``reproduce``
and ``train``, with one or two SIGKILL in each. Every command is a process of its own, forked from this one,
which has imported what they need: so the moments fall into the work and the writes, not into imports.
"""

import csv
import importlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import prgd
from prgd.cli.app import app

RUN = ["run", "toy:0.05", "--warmup", "gd:500", "--steps", "1500", "--save-every", "0.02", "--quiet", "--out"]
FIT = ["fit", "DATA", "--tol", "1e-9", "--quiet", "--out"]
REPRODUCE = ["reproduce", "--only", "figure-1", "--quick", "--jobs", "1", "--out"]
TRAIN = [
    *["train", "--epochs", "1", "--device", "cpu", "--threads", "1", "--quiet", "--save-every", "0.05"],
    "--out",
]
TIMES = ("seconds", "time")  # columns that no two runs have in common


def contents(folder: Path) -> dict[str, Any]:
    """Return what a command left, file by file, without times; records and pages of a report have them."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.*")):
        name = str(path.relative_to(folder))
        if path.suffix in (".png", ".svg"):
            found[name] = path.read_bytes()
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8") as file:
                found[name] = [_timeless(row) for row in csv.DictReader(file)]
        elif path.name == "claims.json":
            found[name] = [_timeless(claim) for claim in json.loads(path.read_text(encoding="utf-8"))]
        elif path.suffix == ".npz":
            history = prgd.Result.load(path).history
            found |= {f"{name} {c}": history[c].tobytes() for c in history.columns if c not in TIMES}
            with np.load(path) as arrays:
                found |= {
                    f"{name} {k}": arrays[k].tobytes() for k in arrays.files if k not in ("history", "digest")
                }
        elif path.name == "checkpoint.pt":
            import torch

            found |= _parts(name, torch.load(path, weights_only=True))
    return found


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in TIMES}


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every number, text and tensor in nested dictionaries and lists, under a name of its own."""
    if isinstance(value, dict):
        for key, part in _timeless(value).items():
            yield from _parts(f"{name}.{key}", part)
    elif isinstance(value, list | tuple):
        for k, part in enumerate(value):
            yield from _parts(f"{name}[{k}]", part)
    else:
        yield name, value.numpy().tobytes() if hasattr(value, "numpy") else repr(value)


@dataclass(frozen=True)
class Command:
    """A command that is killed: its arguments, and how it goes on."""

    arguments: Callable[[Path], list[str]]
    resume: Callable[[Path], list[str]]


def _if_any(folder: Path, names: Sequence[str], option: list[str]) -> list[str]:
    return option if any((folder / name).exists() for name in names) else []


COMMANDS = {
    "run": Command(
        lambda f: [*RUN, str(f)],
        lambda f: _if_any(f, ("result.npz", "warmup-result.npz"), ["--resume", str(f)]),
    ),
    "fit": Command(
        lambda f: [a.replace("DATA", str(f.parent / "rows.csv")) for a in FIT] + [str(f / "model.npz")],
        lambda f: ["--force"],
    ),
    "reproduce": Command(lambda f: [*REPRODUCE, str(f)], lambda f: []),
    "train": Command(
        lambda f: [*TRAIN, str(f)],
        lambda f: _if_any(f, ("checkpoint.pt", "checkpoint-previous.pt"), ["--resume"]),
    ),
}


def start(arguments: list[str]) -> int:
    """Start a command in a process of its own, and return the number of the process."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - the process ends soon
        app(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def wait(pid: int, seconds: float = 120.0) -> int | None:
    """Return the exit code of a process, None if it runs longer than so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.0005)


def finish(arguments: list[str]) -> None:
    """Run a command to its end."""
    pid = start(arguments)
    code = wait(pid)
    if code is None:
        os.killpg(pid, signal.SIGKILL)
    if code not in (0, 1):  # 1: a fit that is not certified
        raise AssertionError(f"{' '.join(arguments)}: exit code {code}")


def trial(command: Command, folder: Path, whole: dict[str, Any], moments: Sequence[float]) -> int:
    """Kill a command at each moment, let it go on to its end, compare; return how often it was killed."""
    folder.mkdir()
    kills = 0
    for k, moment in enumerate(moments):
        pid = start(command.arguments(folder) + (command.resume(folder) if k else []))
        if wait(pid, moment) is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            kills += 1
    if not kills:  # The last command ended by itself; there is nothing left to resume.
        return 0
    finish(command.arguments(folder) + command.resume(folder))
    found = contents(folder)
    if wrong := sorted(name for name in whole.keys() | found.keys() if whole.get(name) != found.get(name)):
        raise AssertionError(f"killed after {moments} s in {folder}: {', '.join(wrong[:5])} differ")
    return kills


def kill(name: str, times: int, seed: int, root: Path) -> tuple[int, int]:
    """Kill a command in so many trials; return the number of trials that passed, and of kills."""
    command, rng = COMMANDS[name], np.random.default_rng(seed)
    write_data(root / "rows.csv")
    whole_folder = root / "whole"
    whole_folder.mkdir()
    finish(command.arguments(whole_folder))  # The first time may compile.
    shutil.rmtree(whole_folder)
    whole_folder.mkdir()
    started = time.monotonic()
    finish(command.arguments(whole_folder))
    seconds, whole = time.monotonic() - started, contents(whole_folder)
    passed = kills = 0
    while passed < times:
        moments = (seconds * rng.uniform(0.0, 1.0, size=rng.integers(1, 3))).tolist()
        folder = root / f"trial-{passed}"
        killed = trial(command, folder, whole, moments)
        shutil.rmtree(folder)
        kills += killed
        passed += killed > 0  # A trial in which every process was faster than its kill does not count.
    return passed, kills


def write_data(file: Path) -> None:
    """Write a separable CSV file whose fit takes a while."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((4000, 20))
    y = np.where(X @ rng.standard_normal(20) > 0.0, 1, -1)
    text = "\n".join(
        f"{label}," + ",".join(map(repr, row)) for label, row in zip(y.tolist(), X.tolist(), strict=True)
    )
    file.write_text("y," + ",".join(f"x{j}" for j in range(20)) + "\n" + text + "\n", encoding="utf-8")


def warm(names: Sequence[str]) -> None:
    """Import and compile what the commands need, once for all processes."""
    for module in ("matplotlib.figure", "matplotlib.backends.backend_agg", "pandas"):
        importlib.import_module(module)
    if "train" in names:
        importlib.import_module("prgd_paper.training.command")
    if "reproduce" in names:
        importlib.import_module("prgd_paper.reproduce.make").choose()
        # Workers that are spawned would import everything again, in a trial that lasts a second otherwise.
        fork = multiprocessing.get_context("fork")
        multiprocessing.get_context = lambda kind=None: fork
    problem = prgd.Problem(*prgd.datasets.toy(0.3))
    prgd.run(problem, prgd.PRGD(), prgd.run(problem, prgd.GD(), stop=3).w, stop=3)
    prgd.max_margin(np.eye(3), [1, -1, 1])


def main() -> int:
    """Kill the commands and print how many trials passed."""
    times, names = int(sys.argv[1]), sys.argv[2:] or list(COMMANDS)
    warm(names)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="prgd-kills-") as root:
            passed, kills = kill(name, times, 7, Path(root))
        print(f"{name}: {passed} of {times} trials gave the same bits, {kills} kills", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
