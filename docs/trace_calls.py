"""Follow three calls through the files of the library, as `docs/architecture.md` shows them.

    python docs/trace_calls.py            # print the traces
    python docs/trace_calls.py --write    # write them into docs/architecture.md

A trace lists the files in the order in which the call first enters them, with the functions entered there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import prgd

SOURCE = Path(prgd.__file__).parent
PAGE = Path(__file__).with_name("architecture.md")


class Trace:
    """Files of prgd in the order of their first entry, the functions entered there, and who called whom."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.visits: dict[str, list[str]] = {}
        self.edges: set[tuple[str, str]] = set()
        sys.setprofile(self._note)
        try:
            call()
        finally:
            sys.setprofile(None)

    def _note(self, frame: Any, event: str, _: Any) -> None:
        file = _file(frame)
        if event != "call" or file is None:
            return
        caller, name = frame.f_back, frame.f_code.co_qualname
        while caller is not None and _file(caller) is None:  # decorators and libraries lie in between
            caller = caller.f_back
        # A local function that another file calls is work given away, not a way back.
        if caller is not None and _file(caller) != file and "<locals>" not in name:
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
    path = Path(frame.f_code.co_filename)
    return str(path.relative_to(SOURCE)) if SOURCE in path.parents else None


Call = Callable[[], Any]


def run() -> Call:
    """Take two steps of Algorithm 1: a rescaling and a projected step."""
    problem = prgd.Problem([[3.0, 4.0], [-3.0, 4.0]], [1, -1])
    return lambda: prgd.run(problem, prgd.PRGD(), [1.0, 0.0], stop=2)


def max_margin() -> Call:
    """Solve a set that needs more than one round of the working set."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 5))
    y = np.where(X[:, 0] > 0.0, 1, -1)
    X[:, 0] += 0.3 * y
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


CALLS = {"prgd.run": run, "prgd.max_margin": max_margin, "prgd.deep.PRGD.step": step}


def main() -> None:
    """Print the traces, or write them into the page."""
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
