"""Write the tables and figures of docs/exponential.md from rows and records.

First ``prgd reproduce --only exponential`` and ``python benchmarks/newton_systems.py``, whose record is read
here, then ``python docs/write_exponential.py [FOLDER OF THE REPORT]``. A part whose rows or record is
missing stays as it is.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from prgd_paper.report import elements as fig
from prgd_paper.report import static
from prgd_paper.report.elements import Figure, Line, Style, Table
from prgd_paper.reproduce.make import stored_rows
from prgd_paper.reproduce.store import write_whole
from prgd_paper.studies.exponential import EXPERIMENT
from prgd_paper.theory.path import path_points
from prgd_paper.theory.samples import path_problem
from prgd_paper.theory.support import max_margin_reference, signed_rows
from write_every_method import as_markdown, cell_text

from prgd.datasets import digits

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "records"
IMAGES = ROOT / "docs" / "images"
PENALTIES = np.geomspace(1.0, 1e-9, 46)
STRICT, IDLE = 17, 11  # seeds of path_problem: support that does not span, and a margin row without weight
SIZE = 12
GAPS = ("1e-06", "1e-08")


def record(name: str) -> Any:
    """Return a record of the benchmarks, or None if it was not measured."""
    file = RECORDS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def steps(report: Path) -> str | None:
    """Return the steps to certified gaps with and without u, on the paper's sets."""
    rows = stored_rows(EXPERIMENT.name, report)
    return None if rows is None else "\n\n".join(map(as_markdown, EXPERIMENT.tables(*rows)))


def systems() -> str | None:
    """Return the Newton systems of each phase on every set, pairs of digits but two together."""
    if (found := record("newton_systems")) is None:
        return None
    lines = [_systems_line(row) for row in found["rows"] if not _is_pair(row)]
    for intercept in (False, True):
        pairs = [row for row in found["rows"] if _is_pair(row) and row["intercept"] == intercept]
        if pairs:
            counts = [sum(row["systems"]) / len(row["systems"]) for row in pairs]
            line = {"set": f"{len(pairs)} pairs of digits", "intercept": "yes" if intercept else "no"}
            strict = [row["support"]["strict"] for row in pairs if row.get("support")]
            line["strict"] = f"yes on {sum(map(bool, strict))} of {len(strict)}"
            late = float(np.mean([row["late_mean"] for row in pairs]))
            line["systems in each phase"] = (
                f"{np.mean(counts):.2f} in the mean; {late:.2f} in the last five phases"
            )
            lines.append(line | {f"passes to {level}": _pair_passes(pairs, level) for level in GAPS})
    caption = (
        "Newton systems in each phase of `ProgressiveNewton` (rho = 8), and passes to a certified gap. "
        "Strict: whether every margin row carries weight in the dual solution that was found, with margin "
        "rows and those that carry weight."
    )
    numbers = tuple(f"passes to {level}" for level in GAPS)
    return as_markdown(Table.of(caption, lines, numbers=numbers))


def _is_pair(row: dict[str, Any]) -> bool:
    return row["set"].startswith("digits_") and row["set"] not in ("digits_01", "digits_04")


def _systems_line(row: dict[str, Any]) -> dict[str, str]:
    line = {"set": row["set"], "intercept": "yes" if row["intercept"] else "no", "strict": "not decided"}
    if (support := row.get("support")) and support["strict"] is not None:
        counts = f"{support['margin_rows']:,} rows, {support['with_weight']:,} with weight"
        line["strict"] = f"{'yes' if support['strict'] else 'no'} ({counts})"
    line["systems in each phase"] = " ".join(map(str, row["systems"]))
    reached = row["reached"]
    return line | {f"passes to {k}": str(reached[k][0]) if k in reached else "-" for k in GAPS}


def _pair_passes(rows: list[dict[str, Any]], level: str) -> str:
    found = [row["reached"][level][0] for row in rows if level in row["reached"]]
    return f"{np.mean(found):.1f} ({len(found)} sets)" if found else "-"


def systems_picture(path: Path) -> str | None:
    """Draw the Newton systems of each phase as a map, one row for each set; return what it shows."""
    if (found := record("newton_systems")) is None:
        return None
    canvas = Canvas(figsize=(8.2, 3.9), layout="constrained")
    for k, title in enumerate(("Through the origin", "With an intercept")):
        rows = [row for row in found["rows"] if row["intercept"] == bool(k) and not _is_pair(row)][::-1]
        last = max(len(row["systems"]) for row in rows)
        counts = [row["systems"] + [math.nan] * (last - len(row["systems"])) for row in rows]
        axes = canvas.add_subplot(1, 2, k + 1)
        image = axes.imshow(counts, cmap="cividis", aspect="auto", origin="lower")
        names = [f"{row['set']}{' *' if (row.get('support') or {}).get('strict') else ''}" for row in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.set_xticks(range(0, last, 2), [str(phase + 1) for phase in range(0, last, 2)])
        axes.set(title=title, xlabel="phase")
        middle = 0.5 * (float(np.nanmin(counts)) + float(np.nanmax(counts)))
        for j, line in enumerate(rows):
            for i, value in enumerate(line["systems"]):
                colour = "black" if value > middle else "white"
                axes.text(i, j, str(value), ha="center", va="center", color=colour, fontsize=8)
        canvas.colorbar(image, ax=axes, label="systems")
    canvas.savefig(path, dpi=120, metadata={"Software": None})
    return (
        "Newton systems in each phase, one row for each set: several in the first phases, one in most of the "
        "last ones. A star marks sets on which every margin row carries weight."
    )


def path_figure() -> Figure:
    """Draw the gap on the path against its bound, and what remains of w beside its asymptote."""
    sets = {"digits 0 and 1": signed_rows(digits(0, 1))}
    for seed, name in ((STRICT, "planted, strict"), (IDLE, "planted, not strict")):
        sets[name] = path_problem(seed, SIZE).Z
    panels, rest, x = [], [], 1.0 / PENALTIES
    for (name, Z), colour in zip(sets.items(), (fig.BLUE, fig.GREEN, fig.VERMILLION), strict=True):
        unit, reference = float(np.linalg.norm(Z, axis=1).max()) ** 2, max_margin_reference(Z)
        lams, gamma = unit * PENALTIES, reference.gamma_star
        points = list(path_points(Z, lams))
        gap = np.array([float((point.upper - point.gamma) / point.upper) for point in points])
        bound = lams * np.array([float(point.delta) for point in points]) / gamma**2
        crude = lams * math.log(len(Z)) / gamma**2
        off = [point.w - gamma / lam * reference.w_star for lam, point in zip(lams, points, strict=True)]
        lengths = math.sqrt(unit) * np.array([float(np.linalg.norm(part)) for part in off])
        rest.append(Line(name, x, lengths, 1.8, False, style=Style(colour)))
        if len(panels) < 2:
            lines = [
                Line("λ log n / gamma_star²", x, crude, 1.4, False, style=Style(fig.GREY, "dot")),
                Line("λ Δ / gamma_star²", x, bound, 1.6, False, style=Style(fig.ORANGE, "dash")),
                Line("gap of w(λ)", x, gap, 2.0, False, style=Style(fig.BLACK)),
            ]
            lowest = 10.0 ** math.floor(math.log10(gap.min()))
            panels.append(fig.log_log(f"E6, {name}", lines, "B² / λ", "relative gap", lowest, 1e2))
    label = "B ||w - gamma_star w_star / λ||"
    panels.append(fig.Panel("E9 and E11", tuple(rest), "B² / λ", label, x_log=True))
    alt = (
        "Left and middle, the relative gap on the regularisation path against B² / λ on logarithmic axes: it "
        "falls like λ, and meets the bound λ Δ / gamma_star². Right, what remains of w beside gamma_star "
        "w_star / λ: bounded under strict complementarity, for the digits only late on the path, and growing "
        "like log(1 / λ) where a margin row carries no weight."
    )
    title = "The gap on the path and its bound, and the rest of w"
    return Figure("exponential-path", title, alt, tuple(panels))


def figures(report: Path) -> str | None:
    """Save the figures beside the page, and return the lines that show them."""
    rows = stored_rows(EXPERIMENT.name, report)
    if rows is None:
        return None
    parts = []
    for figure in (*EXPERIMENT.draw(*rows), path_figure()):
        static.save(figure, report / "figures")
        image = f"{figure.name}.png"
        shutil.copyfile(report / "figures" / image, IMAGES / image)
        parts.append(f"![{cell_text(figure.title)}](images/{image})\n\n{cell_text(figure.alt)}")
    if (shown := systems_picture(IMAGES / "exponential-systems.png")) is not None:
        parts.append(f"![Newton systems in each phase](images/exponential-systems.png)\n\n{shown}")
    return "\n\n".join(parts)


def main(report: Path = Path("report")) -> None:
    """Replace what stands between the marks of the page."""
    page = ROOT / "docs" / "exponential.md"
    text = page.read_text(encoding="utf-8")
    parts: dict[str, Callable[[], str | None]] = {
        "figures": lambda: figures(report),
        "steps": lambda: steps(report),
        "systems": systems,
    }
    for name, make in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"{page} must hold {begin} and {end}, each once.")
        if (written := make()) is None:
            print(f"nothing to write for {name}: its rows or records are missing")
            continue
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{written}\n{end}{rest.split(end)[1]}"
    write_whole(page, text.encode())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
