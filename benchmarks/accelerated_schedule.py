"""Accelerated PRGD on 100 random sets, held against Theorem E13 of docs/exponential.md.

For each set: steps to a relative margin error of 1e-2, 1e-3 and 1e-4 beside the bound, the largest excess at
the end of a phase over log n, and the exponent of the error against steps. Nothing is timed.

    python benchmarks/accelerated_schedule.py [--sets N] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from prgd_paper.theory.claims.schedule import KINDS, LEVELS, Measured, measured

RECORD = Path(__file__).parent / "records/accelerated_schedule.json"


def row(seed: int, run: Measured) -> dict[str, Any]:
    """Return what is kept of a run."""
    fit = run.fit
    return {
        "seed": seed,
        "kind": run.kind,
        "shape": run.shape,
        "gamma_star / max_norm": round(run.gamma, 4),
        "steps": run.steps,
        "bounds": run.bounds,
        "excess / log n": float(f"{run.excess:.3g}"),
        "margin error / bound": float(f"{run.margin:.3g}"),
        "rate": fit.rate,
        "exponent": round(fit.fits["t^-a"].constant, 3),
        "interval": None if math.isnan(fit.interval[0]) else [round(end, 3) for end in fit.interval],
    }


def main() -> None:
    """Measure all sets, print a summary by kind, and keep the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RECORD)
    given = parser.parse_args()
    rows = [row(seed, measured(seed)) for seed in range(given.sets)]
    within = sum(all(t <= bound for t, bound in zip(r["steps"], r["bounds"], strict=True)) for r in rows)
    ended = sum(r["excess / log n"] <= 1.0 and r["margin error / bound"] <= 1.0 for r in rows)
    print(f"{within} of {len(rows)} sets reach {LEVELS} within the bound, {ended} end every phase within it.")
    for kind in KINDS:
        mine = [r for r in rows if r["kind"] == kind]
        ratios = [np.divide(r["steps"], r["bounds"]) for r in mine]
        powers = [r["exponent"] for r in mine]
        print(
            f"{kind:28} steps / bound {np.min(ratios):.2f} to {np.max(ratios):.2f}, "
            f"excess / log n up to {max(r['excess / log n'] for r in mine):.2f}, "
            f"exponent {min(powers):.2f} to {max(powers):.2f}, median {np.median(powers):.2f}"
        )
    lines = ",\n ".join(json.dumps(r) for r in rows)  # a line for each set
    given.out.write_text(f'{{"levels": {list(LEVELS)},\n"rows": [\n {lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
