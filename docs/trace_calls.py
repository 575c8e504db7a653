"""Follow calls through the files of the library: three of them are shown in `docs/architecture.md`.

    python docs/trace_calls.py            # print the traces
    python docs/trace_calls.py --write    # write them into docs/architecture.md
    python docs/trace_calls.py --count    # print how many files each call of COUNTED enters, and which

A trace lists the files in the order in which the call first enters them, with the functions entered there.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import prgd

SOURCE = Path(prgd.__file__).parent
PAPER = Path(__file__).parents[1] / "paper/prgd_paper"
LAZY = "lazy.__get__"
PAGE = Path(__file__).with_name("architecture.md")


class Trace:
    """Files in the order of their first entry, the functions entered there, and who called whom.

    Attributes
    ----------
    files : list of str
        All files that are entered; ``visits`` leaves out those with special methods and lambdas alone.
    """

    def __init__(self, call: Callable[[], Any]) -> None:
        self.files: list[str] = []
        self.visits: dict[str, list[str]] = {}
        self.edges: set[tuple[str, str]] = set()
        sys.setprofile(self._note)
        try:
            call()
        finally:
            sys.setprofile(None)

    def _note(self, frame: Any, event: str, _: Any) -> None:
        if event != "call" or (file := _file(frame)) is None:
            return
        if file not in self.files and frame.f_code.co_name != "<module>":
            self.files.append(file)
        caller, name = frame.f_back, frame.f_code.co_qualname
        # Libraries lie in between, and so does the descriptor of attributes that are computed once.
        while caller is not None and (_file(caller) is None or caller.f_code.co_qualname == LAZY):
            caller = caller.f_back
        # A local function that another file calls is work given away, not a way back.
        if caller is not None and _file(caller) != file and "<locals>" not in name and name != LAZY:
            self.edges.add((str(_file(caller)), file))
        if "<" in name or name.rpartition(".")[2].startswith("__"):
            return
        names = self.visits.setdefault(file, [])
        if name not in names:
            names.append(name)

    def returns_to(self) -> list[tuple[str, str]]:
        """Return the pairs of files that call each other, directly or through others."""
        reach = {file: {b for a, b in self.edges if a == file} for file in self.visits}
        for middle in reach:
            for targets in reach.values():
                if middle in targets:
                    targets |= reach[middle]
        return [(a, b) for a in reach for b in reach[a] if a < b and a in reach.get(b, ())]

    def __str__(self) -> str:
        width = max(len(file) for file in self.visits)
        return "\n".join(f"{file:{width}}  {', '.join(names)}" for file, names in self.visits.items())


def _file(frame: Any) -> str | None:
    return _name_of(frame.f_code.co_filename)


@cache
def _name_of(filename: str) -> str | None:
    path = Path(filename)
    if SOURCE in path.parents:
        return str(path.relative_to(SOURCE))
    return f"prgd_paper/{path.relative_to(PAPER)}" if PAPER in path.parents else None


Call = Callable[[], Any]


def run() -> Call:
    """Take two steps of Algorithm 1: a rescaling and a projected step."""
    problem = prgd.Problem([[3.0, 4.0], [-3.0, 4.0]], [1, -1])
    return lambda: prgd.run(problem, prgd.PRGD(), [1.0, 0.0], stop=2)


def max_margin() -> Call:
    """Solve a set that needs more than one round of the working set."""
    X, y = _rows(2000, 5)
    return lambda: prgd.max_margin(X, y)


def step() -> Call:
    """Rescale, then take one loss-scaled and projected step, on a model of one layer."""
    import torch

    from prgd.deep import PRGD

    model = torch.nn.Linear(2, 1, bias=False)
    optimizer = PRGD(model.parameters(), R="geometric:1.2", T="every:5", warm_up=0, lr=0.1)
    loss = torch.exp(-model(torch.ones(1, 2))).mean()
    loss.backward()

    def two_steps() -> None:
        optimizer.step()  # t = T_0: only rescales
        optimizer.step(loss=loss.detach())

    return two_steps


def _rows(n: int, d: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] > 0.0, 1, -1)
    X[:, 0] += 0.3 * y
    return X, y


def run_from_arrays() -> Call:
    """Take two steps of Algorithm 1 on arrays."""
    arrays = [[3.0, 4.0], [-3.0, 4.0]], [1, -1]
    return lambda: prgd.run(prgd.Problem(*arrays), prgd.PRGD(), [1.0, 0.0], stop=2)


def separability() -> Call:
    """Decide whether rows of two classes, of which a few have the wrong label, can be separated."""
    X, y = _rows(300, 5)
    y[:9] *= -1
    return lambda: prgd.separability(X, y)


def ten_classes() -> Call:
    """Fit ten classes that overlap: each gets a soft margin."""
    from prgd.estimators import MaxMarginClassifier

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 6)), rng.integers(0, 10, 400)
    X[np.arange(400), y % 6] += 1.0
    return lambda: MaxMarginClassifier().fit(X, y)


def reproduce_figure() -> Call:
    """Make Figure 3 from few steps, with the work of its processes done in this one."""
    import prgd_paper.reproduce  # noqa: F401 - first, since its rooms import each other
    from prgd_paper.reproduce import pool

    from prgd.cli.app import app

    class Here:
        def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
            done: Future[Any] = Future()
            done.set_result(call(*arguments))
            return done

    folder = tempfile.mkdtemp()
    arguments = ["reproduce", "--only", "figure-3", "--quick", "--jobs", "1", "--out", folder]

    def reproduce() -> None:
        try:
            with mock.patch.object(pool, "_executor", return_value=nullcontext(Here())):
                app(arguments)
        except SystemExit as stop:
            if stop.code:
                raise

    return reproduce


# Calls whose files are counted, and at most how many files each may enter.
COUNTED = {
    "prgd.run": (run_from_arrays, 20),
    "prgd.max_margin": (max_margin, 25),
    "prgd.separability": (separability, 30),
    "MaxMarginClassifier.fit, ten classes": (ten_classes, 45),
    "prgd reproduce --only figure-3 --quick": (reproduce_figure, 60),
}
CALLS = {"prgd.run": run, "prgd.max_margin": max_margin, "prgd.deep.PRGD.step": step}


def files_of(name: str) -> list[str]:
    """Return the files that a call of `COUNTED` enters, after imports and compilation."""
    make = COUNTED[name][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make()()
        return Trace(make()).files


def main() -> None:
    """Print the traces, or write them into the page."""
    if "--count" in sys.argv:
        for name, (_, max_files) in COUNTED.items():
            found = files_of(name)
            print(f"{name}: {len(found)} files, at most {max_files}", *found, sep="\n    ")
        return
    text = PAGE.read_text() if PAGE.exists() else ""
    for name, call in CALLS.items():
        call()()  # imports and compiles
        found = Trace(call())
        print(f"{name}\n{found}\n")
        begin, end = f"<!-- trace {name}: begin -->", f"<!-- trace {name}: end -->"
        if "--write" in sys.argv:
            before, _, rest = text.partition(begin)
            text = f"{before}{begin}\n```text\n{found}\n```\n{end}{rest.partition(end)[2]}"
    if "--write" in sys.argv:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
