"""Write the figure and the tables of docs/note/note.md.

The figure is computed here; the tables come from ``python benchmarks/first_order.py`` and
``python benchmarks/newton_systems.py``, whose records are read. A part whose record is
missing stays as it is.

    python docs/note/write_note.py
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from prgd_paper.reproduce.store import write_whole
from prgd_paper.theory.gradient_checks import Frame, real_problem
from prgd_paper.theory.sampled_runs import states
from prgd_paper.theory.samples import PathProblem

import prgd
from prgd.datasets import Dataset

HERE = Path(__file__).parent
RECORDS = HERE.parents[1] / "benchmarks" / "records"
SETS = ((40, 400), (10, 50), (20, 100), (60, 5))  # Gaussian rows and columns; the first is drawn
METHODS = ("NGD", "PRGD", "RestartedNGD", "mirror", "translation", "Newton")
NAMES = ("NGD", "PRGD", "restarted NGD", "dual acceleration", "translation", "Newton")
LEVELS = ("1e-03", "1e-06", "1e-09")


def record(name: str) -> Any:
    """Return a record of the benchmarks, or None if it was not measured."""
    file = RECORDS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else None


def gaussian(n: int, d: int) -> PathProblem:
    """Return Gaussian rows that are separable through the origin, with their solution."""
    Z = np.random.default_rng([n, d]).standard_normal((n, d))
    Z[:, 0] = abs(Z[:, 0]) + 0.3
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    return real_problem(Dataset(Z * y[:, None], y, "Gaussian"), False)


def errors(problem: PathProblem, algorithm: Any, times: Any) -> tuple[Any, Any]:
    """Return the distances of u from gamma_star w_star, over gamma_star, and of w / ||w|| from w_star."""
    u, w = [], []
    for s in states(prgd.Problem(problem.Z, n_jobs=1), algorithm, times=times):
        u.append(float(np.linalg.norm(s.at.dual_vector / problem.gamma_star - problem.w_star)))
        w.append(float(np.linalg.norm(s.w / s.at.length - problem.w_star)))
    return np.array(u), np.array(w)


def exponent(problem: PathProblem) -> float:
    """Return the exponent of Corollary 4."""
    frame, gamma = Frame(problem), float(problem.gamma_star or math.nan)
    return min(frame.limit[0].curvature / gamma**2, frame.kappa / gamma)


def figure() -> str:
    """Draw u and w along GD and NGD on the first set, and return the slopes on all sets."""
    problems = [gaussian(*size) for size in SETS]
    t = np.unique(np.geomspace(1, 1e6, 121).astype(int))
    found = [errors(problem, prgd.GD(), t) for problem in problems]
    canvas = Figure(figsize=(7.2, 2.7), layout="constrained")
    (u, w), predicted = found[0], exponent(problems[0])
    left, right = canvas.subplots(1, 2)
    left.loglog(t, w, "--", color="0.4", label=r"$w_t/\|w_t\| - w_\star$")
    left.loglog(t, u, color="C0", label=r"$u_t/\gamma_\star - w_\star$")
    left.loglog(
        t[60:], 1.6 * u[60] * (t[60:] / t[60]) ** -predicted, ":", color="C3", label=f"slope {-predicted:.2f}"
    )
    left.set(title="gradient descent", xlabel="step t", ylabel="distance")
    steps = np.arange(1, 2501, 10)
    u, w = errors(problems[0], prgd.NGD(), steps)
    right.semilogy(steps, w, "--", color="0.4")
    right.semilogy(steps, u, color="C0")
    right.set(title="normalized gradient descent", xlabel="step t")
    left.legend(frameon=False)
    canvas.savefig(HERE / "u-and-w.png", dpi=200, metadata={"Software": None})
    late, said = t >= 10**4, []
    for (n, d), problem, (u, w) in zip(SETS, problems, found, strict=True):
        slope = np.polyfit(np.log(t[late]), np.log(u[late]), 1)[0]
        said.append(f"{slope:.2f} for {-exponent(problem):.2f} ({n} x {d}; $w$: {w[-1]:.2f})")
    return (
        "![Distances of both directions from the limit along GD and NGD](u-and-w.png)\n\n"
        "**Figure 1.** The direction of the gradient (solid) and of the iterate (dashed) along gradient "
        "descent and "
        "NGD, 40 Gaussian rows in 400 dimensions, $\\eta = 1/B^2$; dotted, the exponent of Corollary 4. "
        "Slopes of "
        "$\\|u_t - \\gamma_\\star w_\\star\\|$ from $t = 10^4$ to $10^6$ along GD, measured for predicted: "
        f"{'; '.join(said)}. In brackets rows and columns, and the iterate's distance after $10^6$ steps. "
        "The slowest mode does not dominate yet, so slopes are steeper."
    )


def race() -> str | None:
    """Return how many sets each method certifies, and after how many passes."""
    if (rows := record("first_order")) is None:
        return None
    lines = ["| sets, gap | " + " | ".join(NAMES) + " |", "|:--|" + "--:|" * len(NAMES)]
    for kind in ("real", "generated"):
        sets = [row["set"] for row in rows if row["kind"] == kind and row["method"] == "NGD"]
        for level in LEVELS:
            cells = []
            for method in METHODS:
                took = [
                    row["reached"].get(level)
                    for row in rows
                    if row["kind"] == kind and row["method"] == method
                ]
                capped = [
                    row["reached"].get(level, row["cap"])
                    for row in rows
                    if row["kind"] == kind and row["method"] == method
                ]
                there = sum(t is not None for t in took)
                cells.append(f"{there} ({np.exp(np.mean(np.log(capped))):,.0f})" if there else "0")
            lines.append(f"| {len(sets)} {kind}, {level.replace('e-0', 'e-')} | " + " | ".join(cells) + " |")
    caption = (
        "**Table 1.** Sets on which a certified relative gap is reached, and in brackets the geometric "
        "mean of the "
        "passes over the rows, where a run that does not get there counts with all its passes: 20,000 "
        "on generated "
        "sets, 1,000 to 4,000 on real ones, through the origin. PRGD has 1,000 steps of NGD before it; "
        "Newton's "
        "products are counted as passes."
    )
    reached: dict[str, set[str]] = {kind: set() for kind in ("first-order", "Newton")}
    for row in rows:
        if row["kind"] == "real" and "1e-06" in row["reached"]:
            reached["Newton" if row["method"] == "Newton" else "first-order"].add(row["set"])
    first, second = (len(names) for names in reached.values())
    said = (
        f"First-order methods certify $10^{{-6}}$ within their passes on {first or 'none'} of the real sets, "
        f"Newton's steps on {second}. So where the curvature $\\mu/B^2$ is small, as on text, images and "
        "letters, only second-order steps are fast. The generated set that no method certifies has a margin "
        "of $2^{-15}$; its longest row has the length 1.4."
    )
    return "\n".join([*lines, "", f"{caption} {said}"])


def newton() -> str | None:
    """Return the Newton systems to a certified gap of 1e-9, beside those of the parameters before."""
    records = [record("newton_systems"), record("newton_systems_before")]
    if None in records:
        return None
    now, before = (
        {
            (row["set"], row["intercept"]): row["reached"]["1e-09"][2]
            for row in rows
            if "1e-09" in row["reached"]
        }
        for rows in records
    )
    both = np.array([(now[key], before[key]) for key in now if key in before], float)
    return (
        f"*Newton.* On {len(now)} of {len(records[0])} problems (the real sets, the paper's, all pairs of "
        f"digits; with and without an intercept) `ProgressiveNewton` takes {min(now.values())} to "
        f"{max(now.values())} systems to a certified $10^{{-9}}$; on the others rounding ends the path "
        "before. With the growth 8 in every phase, a first penalty 64 times as large and phases ended by "
        f"a gradient of 0.3 for 0.5, it took {both[:, 1].mean():.1f} systems in the mean over the "
        f"{len(both)} problems that both solve; now {both[:, 0].mean():.1f}, and on none more "
        f"than {(both[:, 0] / both[:, 1]).max():.2f} times as many. The parameters were chosen on these same "
        "problems."
    )


def main() -> None:
    """Replace what stands between the marks of the note."""
    page = HERE / "note.md"
    text = page.read_text(encoding="utf-8")
    parts: dict[str, Callable[[], str | None]] = {"figure": figure, "race": race, "newton": newton}
    for name, make in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        if (written := make()) is None:
            print(f"nothing to write for {name}: its record is missing")
            continue
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{written}\n{end}{rest.split(end)[1]}"
    write_whole(page, text.encode())


if __name__ == "__main__":
    main()
