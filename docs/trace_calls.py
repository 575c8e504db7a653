"""Follow three calls through the files of the library, as `docs/architecture.md` shows them.

    python docs/trace_calls.py            # print the traces
    python docs/trace_calls.py --write    # write them into docs/architecture.md

A trace lists each function of prgd in the order in which it is first entered, with the depth of the call, and
stops at the kernels. Functions whose name begins with an underscore are left out unless a public one is
reached through them; so are lookups (labels, properties of a few lines) that every step makes.
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


def trace(call: Callable[[], Any]) -> list[tuple[str, list[str]]]:
    """Return the files in the order in which the call enters them, with the functions entered there."""
    visits: list[tuple[str, list[str]]] = []
    seen: set[tuple[str, str]] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event != "call":
            return
        code, path = frame.f_code, Path(frame.f_code.co_filename)
        if SOURCE not in path.parents:
            return
        file, name = str(path.relative_to(SOURCE)), code.co_qualname
        if "<" in name or name.rpartition(".")[2].startswith("__") or (file, name) in seen:
            return
        seen.add((file, name))
        for place, names in visits:
            if place == file:
                names.append(name)
                return
        visits.append((file, [name]))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return visits


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
    optimizer = PRGD(model.parameters(), R="geometric:1.2", T="every:5", lr=0.1)
    loss = torch.exp(-model(torch.ones(1, 2))).mean()
    loss.backward()

    def two_steps() -> None:
        optimizer.step()  # t = T_0: only rescales
        optimizer.step(loss=loss.detach())

    return two_steps


CALLS = {"prgd.run": run, "prgd.max_margin": max_margin, "prgd.deep.PRGD.step": step}


def as_text(visits: list[tuple[str, list[str]]]) -> str:
    """Return a trace as lines of file and functions."""
    width = max(len(file) for file, _ in visits)
    return "\n".join(f"{file:{width}}  {', '.join(names)}" for file, names in visits)


def main() -> None:
    """Print the traces, or write them into the page."""
    text = PAGE.read_text() if PAGE.exists() else ""
    for name, call in CALLS.items():
        call()()  # imports and compiles
        found = as_text(trace(call()))
        print(f"{name}\n{found}\n")
        begin, end = f"<!-- trace {name}: begin -->", f"<!-- trace {name}: end -->"
        if "--write" in sys.argv:
            before, _, rest = text.partition(begin)
            text = f"{before}{begin}\n```text\n{found}\n```\n{end}{rest.partition(end)[2]}"
    if "--write" in sys.argv:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
