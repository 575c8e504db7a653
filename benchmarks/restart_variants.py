"""Variants of restarted NGD: momentum and rules of restart, by the steps to relative gaps down to 1e-9.

Momentum is j / (j + a) after j steps without a restart, or constant. Rules of restart: none; the norm of u
has grown; the same, but no sooner than after half of the last phase, or after all of it (`RestartedNGD`, with
a = 3); the gap of u has grown, with the same delay; and the test on the gradient, <u, w_t - w_{t-1}> < 0. The
gap is that of the best margins of w and u and of the smallest norm of u, as computed; nothing is timed.

    python benchmarks/restart_variants.py [--steps N] [--seeds N] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from prgd_paper.studies.every_method import planted
from prgd_paper.theory import signed_rows
from prgd_paper.theory.dual_vector import diameter

from prgd import datasets

RECORD = Path(__file__).parent / "records" / "restart_variants.json"
LEVELS = (1e-4, 1e-6, 1e-9)
SIZES = ((100, 5), (200, 10), (200, 20), (50, 30), (100, 200))  # rows and columns of the Gaussian sets


class Seen(NamedTuple):
    """What a rule of restart may look at."""

    has_grown: bool  # the norm of u
    gap_has_grown: bool  # of u, a step late
    uphill: bool  # <u, w_t - w_{t-1}> < 0
    age: int
    last_age: int


RULES: dict[str, Callable[[Seen], bool]] = {
    "no restart": lambda seen: False,
    "||u|| has grown": lambda seen: seen.has_grown,
    "... after half of the last phase": lambda seen: seen.has_grown and 2 * seen.age >= seen.last_age,
    "... after the length of the last phase": lambda seen: seen.has_grown and seen.age >= seen.last_age,
    "gap of u has grown, after the last length": lambda seen: (
        seen.gap_has_grown and seen.age >= seen.last_age
    ),
    "test on the gradient": lambda seen: seen.uphill,
}
VARIANTS = [(f"j/(j+{a})", rule, float(a), 1.0) for a in (1, 2, 3) for rule in RULES]
VARIANTS += [("0.99", "no restart", 0.99, 1.0)]
VARIANTS += [("j/(j+3), eta = 4/D^2", "... after the length of the last phase", 3.0, 0.0)]


def groups(seeds: int) -> dict[str, list[Any]]:
    """Return the sets, of rows of norm at most 1, by group."""
    found: dict[str, list[Any]] = {
        "digits": [datasets.digits(0, 1), datasets.digits(0, 4), datasets.digits(0, 1, 300)],
        "Gaussian": [planted(seed, n, d, 0.3) for seed in range(seeds) for n, d in SIZES],
        "synthetic": [
            make(s) for s in range(seeds) for make in (datasets.synthetic_one, datasets.synthetic_two)
        ],
    }
    rows = {name: [signed_rows(data) for data in sets] for name, sets in found.items()}
    return {name: [Z / np.linalg.norm(Z, axis=1).max() for Z in sets] for name, sets in rows.items()}


def passages(Z: Any, a: float, rule: str, eta: float, steps: int) -> tuple[list[int], int]:
    """Return the first steps with a gap of at most each of LEVELS (else the last step), and the restarts."""
    w = g = step = np.zeros(Z.shape[1])
    v = None
    eta = eta or 4.0 / diameter(Z) ** 2
    lower, upper, size, gap, restarts, age, last_age = -np.inf, np.inf, np.inf, np.inf, 0, 0, 0
    found: list[int] = []
    for t in range(steps + 1):
        margins = Z @ w
        p = np.exp(margins.min() - margins)
        u = Z.T @ (p / p.sum())
        new_size = float(np.linalg.norm(u))
        new_gap = gap
        if v is not None:
            second = float((Z @ v).min())
            lower, new_gap = max(lower, second, margins.min() / np.linalg.norm(w)), size - second
        upper = min(upper, new_size)
        while len(found) < len(LEVELS) and upper - lower <= LEVELS[len(found)] * upper:
            found.append(t)
        if len(found) == len(LEVELS):
            break
        v = u / new_size
        if RULES[rule](Seen(new_size > size, new_gap > gap, float(u @ step) < 0.0, age, last_age)):
            g, restarts, age, last_age = np.zeros_like(g), restarts + 1, 0, age
        size, gap = new_size, new_gap
        g = (a if a < 1.0 else age / (age + a)) * (g + u)
        step = eta * (g + u)
        w, age = w + step, age + 1
    return found + [steps] * (len(LEVELS) - len(found)), restarts


def main() -> None:
    """Measure all variants, print a line for each, and keep the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    sets, rows = groups(options.seeds), []
    for momentum, rule, a, eta in VARIANTS:
        row: dict[str, Any] = {"momentum": momentum, "restart": rule}
        for name, group in sets.items():
            runs = [passages(Z, a, rule, eta, options.steps) for Z in group]
            steps = np.array([found for found, _ in runs])
            row[name] = {
                "steps": np.exp(np.log(np.maximum(steps, 1)).mean(axis=0)).round().astype(int).tolist(),
                "missed": (steps == options.steps).sum(axis=0).tolist(),
                "restarts": int(np.median([restarts for _, restarts in runs])),
            }
        rows.append(row)
        print(momentum, "|", rule, "|", {name: row[name] for name in sets}, flush=True)
    sizes = {name: len(group) for name, group in sets.items()}
    head = {"steps": options.steps, "levels": LEVELS, "sets": sizes}
    body = ",\n ".join(json.dumps(row) for row in rows)
    options.out.write_text(f'{json.dumps(head)[:-1]},\n"rows": [\n {body}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
