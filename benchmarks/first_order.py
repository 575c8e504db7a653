"""The first-order race of docs/note: passes to certified gaps, on 12 real and 20 generated sets.

The real sets are those in the folder that PRGD_DATA names; each is run through the origin. All methods start
from w = 0 with eta = 1 in units of the largest squared row norm, and have the same number of passes: 20,000
on generated sets, 1,000 to 4,000 on real ones, by their entries. PRGD has 1,000 steps of NGD before it.
Nothing is timed.

    python benchmarks/first_order.py [PREFIX OF A SET ...]   # with prefixes nothing is recorded
"""

import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from newton_systems import find_sets
from prgd_paper.theory.samples import path_problem
from timing import write_rows

import prgd
from prgd.algorithms import NGD, DualAcceleration, ProgressiveNewton, State
from prgd.datasets import synthetic_one, synthetic_two, toy

LEVELS = (1e-3, 1e-6, 1e-9)
WARM_UP = 1_000
SIZES = ((60, 5), (60, 20), (100, 200), (40, 400))


@dataclass(frozen=True, eq=False, kw_only=True)
class TranslatedState(State):
    """State of translated NGD: ``base`` is the pass from which steps of length s are tried."""

    base: Any
    s: float
    wait: int


@dataclass(frozen=True)
class TranslatedNGD:
    """NGD that tries longer steps ``w + s u`` after every ``wait`` plain ones, s doubled while they are good.

    A step is good if ``s ||u_+ - u||^2 <= 2 KL(p_+ || p)``: then the dual weights have the inequality of
    mirror descent for the step s, whatever its length.
    """

    wait: int = 10
    state_type: ClassVar[type[State]] = TranslatedState

    def init(self, problem: prgd.Problem, w0: Any) -> TranslatedState:
        return TranslatedState(t=0, at=(at := problem.at(w0)), base=at, s=2.0, wait=0)

    def step(self, problem: prgd.Problem, s: TranslatedState) -> TranslatedState:
        unit = problem.unit_in(prgd.norms.L2())
        if s.wait < self.wait:
            at = problem.at(s.at.w + unit * s.at.dual_vector)
            return replace(s, t=s.t + 1, at=at, base=at, wait=s.wait + 1)
        size, before, u = s.s * unit, s.base, s.base.dual_vector
        at = problem.at(before.w + size * u)
        moved = before.log_loss - at.log_loss - size * float(at.dual_vector @ u)  # KL(p_+ || p)
        if size * float(np.sum((at.dual_vector - u) ** 2)) <= 2.0 * moved:
            return replace(s, t=s.t + 1, at=at, base=at, s=2.0 * s.s)
        return replace(s, t=s.t + 1, s=max(0.5 * s.s, 1.0), wait=0)


METHODS: dict[str, Any] = {"NGD": NGD(), "PRGD": prgd.PRGD(), "RestartedNGD": prgd.algorithms.RestartedNGD()}
METHODS |= {"mirror": DualAcceleration(), "translation": TranslatedNGD(), "Newton": ProgressiveNewton()}


def sets() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield the kind of each set, its name, and how to load it."""
    generated = ("toy", "synthetic", "digits")
    yield from (("real", name, load) for name, load in find_sets() if not name.startswith(generated))
    made: dict[str, Callable[[], Any]] = {f"toy {g}": partial(toy, g) for g in (0.3, 0.6)}
    for make, name in ((synthetic_one, "I"), (synthetic_two, "II")):
        made |= {f"synthetic {name}, {k}": partial(make, k) for k in range(3)}
    made |= {f"Gaussian {n} x {d}": partial(gaussian, n, d) for n, d in SIZES}
    made |= {path_problem(k).kind: lambda k=k: (path_problem(k, 60).Z, None) for k in range(7, 14)}
    made["three rows, one idle"] = lambda: (np.array([[0.5, 1, 0], [0.5, -1, 0], [0.5, 0.3, 1]]), None)
    yield from (("generated", name, load) for name, load in made.items())


def gaussian(n: int, d: int) -> Any:
    Z = np.random.default_rng([n, d]).standard_normal((n, d))
    Z[:, 0] = abs(Z[:, 0]) + 0.3
    return Z, None


def passes(method: str, data: Any, cap: int) -> tuple[dict[str, float], float]:
    """Return the passes to each certified gap, and the gap at the end."""
    problem, found, rule = prgd.Problem(*data), {}, prgd.Gap(LEVELS[-1])

    def note(state: Any, now: Any, certificate: Any) -> None:
        count = getattr(state, "row_reads", problem.passes)
        for level in LEVELS:
            if certificate.gap <= level:
                found.setdefault(f"{level:.0e}", math.ceil(count))

    run = partial(prgd.run, problem, record=None, observe=note)
    start, steps = None, 110 if method == "Newton" else cap
    if method == "PRGD":
        start, steps = run(NGD(), stop=prgd.any_of(rule, WARM_UP)).w, cap - WARM_UP
    return found, run(METHODS[method], start, stop=prgd.any_of(rule, steps)).gap


def main() -> None:
    """Run all methods on all sets, and write the record."""
    rows = []
    for kind, name, load in sets():
        if not name.startswith(tuple(sys.argv[1:] or [""])):
            continue
        X, y = load()
        cap = 20_000 if kind == "generated" else int(np.clip(1e9 / getattr(X, "nnz", X.size), 1_000, 4_000))
        for method in METHODS:
            reached, gap = passes(method, (X, y), cap)
            found = {"method": method, "cap": cap, "reached": reached, "gap": gap}
            rows.append(json.dumps({"kind": kind, "set": name} | found))
            print(rows[-1], flush=True)
    if len(sys.argv) == 1:
        write_rows("first_order.json", rows)


if __name__ == "__main__":
    main()
