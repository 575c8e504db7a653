"""Write the point sets of docs/explorer/explorer.html, and the trajectories that its test compares it with.

``python docs/write_explorer.py`` replaces what stands between the marks of the page, and writes
paper/tests/explorer/golden.json: every method of the page on every set, run by the library.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from prgd_paper.reproduce.store import write_whole
from prgd_paper.theory.cylinder import favorable_cylinder

import prgd
from prgd import algorithms
from prgd.datasets import synthetic_one, synthetic_two, toy
from prgd.schedules import Every, Geometric, Polynomial, PolynomialPhases

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explorer" / "explorer.html"
GOLDEN = ROOT / "paper" / "tests" / "explorer" / "golden.json"
BEGIN, END = "presets begin\n", "// presets end"

# Multiples of 1/16, so that float64 holds them and the proof has short fractions.
FREEZES = [(6, 14, 1), (6, -1, 1), (12, 4, 1), (-10, 8, -1), (-8, -10, -1), (-14, 4, -1)]
OVERLAP = [
    (10, 6, 1),
    (6, -8, 1),
    (4, 12, 1),
    (-6, 8, 1),
    (-8, -6, -1),
    (-10, 4, -1),
    (2, -10, -1),
    (-4, 14, -1),
]

# The options of the page at its start, and others: each pair is a name and what it changes.
OPTIONS = {"growth": 1.2, "period": 5, "eta": 1.0, "warm": 10, "gate": 4.0, "schedule": "exp"}
VARIANTS = {
    "start": OPTIONS,
    "others": OPTIONS | {"growth": 1.5, "period": 3, "eta": 0.6, "warm": 4, "gate": 2.0, "schedule": "poly"},
}
TIMES = (0, 1, 2, 3, 5, 8, 11, 13, 21, 34, 55, 89, 144, 233, 400)


def presets() -> dict[str, dict[str, Any]]:
    """Return the point sets of the page, with what it says of them and the options that it begins with."""
    return {
        "toy": {
            "title": "The toy set of Section 4",
            "about": "Three points whose largest margin is 0.3, with phases of two steps as in Figure 1b: "
            "NGD stays in the attractor beside the best direction, and PRGD leaves it.",
            "points": _points(toy(0.3)),
            "options": {"growth": 1.5, "period": 2, "warm": 1},
        },
        "one": {
            "title": "Dataset I (on the circle)",
            "about": "Dataset I of Appendix E.1 with seed 0: 100 points on two arcs, whose largest margin "
            "is sin(π/100).",
            "points": _points(synthetic_one(0)),
            "options": {"zoom": 60},
        },
        "two": {
            "title": "Dataset II (in the disk)",
            "about": "Dataset II of Appendix E.1 with seed 0: 100 points in the disk, whose largest margin "
            "is sin(π/100).",
            "points": _points(synthetic_two(0)),
            "options": {"zoom": 60},
        },
        "freezes": {
            "title": "PRGD(exp) freezes",
            "about": "Seen along w*, one support vector pulls fourteen times as hard as the other. With "
            "growth 1.2 the radius outruns the steps, and the direction of PRGD freezes beside w*. Growth "
            "1.05 is slow enough, and gated PRGD waits until its direction has converged.",
            "points": [(a / 16, b / 16, y) for a, b, y in FREEZES],
            "shown": ["ngd", "prgd", "gated", "dual"],
            "options": {"t": 1000},
        },
        "overlap": {
            "title": "No separator",
            "about": "No line through the origin separates these points: the proof, in exact fractions, "
            "stands below the charts. Change the class of a point, or drag it, until the proof goes away.",
            "points": [(a / 16, b / 16, y) for a, b, y in OVERLAP],
            "shown": ["ngd", "prgd", "dual"],
        },
    }


def _points(data: prgd.datasets.Dataset) -> list[tuple[float, float, int]]:
    return [(float(a), float(b), int(y)) for (a, b), y in zip(data.X, data.y, strict=True)]


def methods(options: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    """Return the library's algorithm for each method of the page, and the norm that measures its margins."""
    growth, period, eta = options["growth"], options["period"], options["eta"]
    schedules: dict[str, Any] = {
        "exp": (Geometric(growth), Every(period)),
        "poly": (Polynomial(growth), PolynomialPhases(period, 0.6)),
    }
    return {
        "gd": (algorithms.GD(eta), "l2"),
        "ngd": (algorithms.NGD(eta), "l2"),
        "prgd": (algorithms.PRGD(*schedules[options["schedule"]], eta), "l2"),
        "gated": (algorithms.GatedPRGD(growth=options["gate"], eta=eta), "l2"),
        "dual": (algorithms.DualAcceleration(eta), "l2"),
        "sign": (algorithms.SteepestDescent(eta), "linf"),
        "coordinate": (algorithms.SteepestDescent(eta), "l1"),
    }


def trajectory(problem: prgd.Problem, algorithm: Any, options: dict[str, Any]) -> list[list[float | None]]:
    """Return ``t, w_1, w_2, gamma(w), lower, upper`` at some steps; those of PRGD's warm-up by NGD count."""
    rows: list[list[float | None]] = []
    w0, first, before = None, 0, prgd.Certificate()

    def keep(state: Any, record: Any, certificate: prgd.Certificate) -> None:
        if (t := first + state.t) in TIMES and not (rows and rows[-1][0] == t):
            best = before.best(certificate)
            numbers = (*state.w.tolist(), record.margin, best.lower, best.upper)
            rows.append([t, *(float(x) if math.isfinite(x) else None for x in numbers)])

    if isinstance(algorithm, algorithms.PRGD):
        warm = prgd.run(problem, algorithms.NGD(algorithm.eta), stop=options["warm"], observe=keep)
        w0, first, before = warm.w, warm.t, warm.certificate
    prgd.run(problem, algorithm, w0, stop=TIMES[-1] - first, observe=keep, record=None)
    return rows


def golden() -> Iterator[dict[str, Any]]:
    """Yield what the library computes: for each set its answer, and every method with each of the options."""
    for name, preset in presets().items():
        points = np.array(preset["points"])
        X, y = points[:, :2], points[:, 2]
        problems = {norm: prgd.Problem(X, y, norm=norm) for norm in ("l2", "linf", "l1")}
        is_separable = name != "overlap"
        answer: dict[str, Any] = {}
        if is_separable:
            answer = {
                norm: prgd.max_margin(X, y, norm=norm, fit_intercept=False).certificate.lower
                for norm in problems
            }
            found = favorable_cylinder((X, y))
            answer |= {
                "D": found.convexity.D,
                "mu": found.convexity.mu,
                "n_support": found.geometry.n_support,
            }
        yield {
            "set": name,
            "is_separable": is_separable,
            "answer": answer,
            "runs": {
                variant: {
                    method: trajectory(problems[norm], algorithm, options)
                    for method, (algorithm, norm) in methods(options).items()
                }
                for variant, options in VARIANTS.items()
            },
        }


def main() -> None:
    """Write the sets into the page, and the trajectories beside its test."""
    text = PAGE.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(f"{PAGE} must hold {BEGIN.strip()!r} and {END!r}, each once.")
    lines = [f"  {name}: {json.dumps(preset, ensure_ascii=False)}," for name, preset in presets().items()]
    before, rest = text.split(BEGIN)
    block = "\n".join(["const PRESETS = {", *lines, "};", ""])
    write_whole(PAGE, f"{before}{BEGIN}{block}{END}{rest.split(END)[1]}".encode())
    content = {"variants": VARIANTS, "sets": list(golden())}
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    write_whole(GOLDEN, (json.dumps(content) + "\n").encode())


if __name__ == "__main__":
    main()
