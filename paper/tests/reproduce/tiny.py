"""Every experiment with settings that take a second or less, and its rows, computed once."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from prgd_paper.report import static
from prgd_paper.reproduce.experiment import Experiment, choose
from prgd_paper.reproduce.make import reproduce
from prgd_paper.reproduce.store import frame, to_csv, write_whole
from shared import made_once

SYNTHETIC = {"seeds": 2, "steps": 400, "accelerated": 300, "short": 200, "small_scale": 100, "warm_up": 200}
# What differs from the settings of the full run.
CHANGES = {
    "figure-1": {"long_steps": 10, "grid": (6, 5)},
    "figure-2": {"heights": (2.0, 8.0), "angles": 12},
    "figure-3": SYNTHETIC,
    "figure-4": {
        "early": 60, "steps": 300, "ngd_steps": 400, "rank_steps": 200, "warm_up": 100, "rows": (300,),
    },
    "figure-5a": {
        "seeds": 2, "steps": 40, "few": (20, 30), "times": (10, 20, 40), "prgd_etas": (10.0,),
        "alphas": (0.6, 1.2), "betas": (0.6,), "first_phases": (5,), "warm_ups": (10,),
    },
    "figure-6": SYNTHETIC,
    "table-1": {
        "gd_steps": 2000, "flow_from": 500, "ngd_steps": 500, "ngd_from": 50, "dual_steps": 300,
        "dual_from": 30, "proof_steps": 100, "seeds": 1,
    },
    "table-2": {
        "seeds": 2, "warm_up": 200, "gd_limit": 300, "ngd_limit": 500, "limit": 300, "prgd_limit": 200,
    },
    "schedule-sweep": {
        "growths": (1.03, 1.2), "phases": (5, 20), "powers": (0.6, 1.2), "phase_powers": (0.0, 0.6),
        "times": (50, 100), "warm_up": 50,
    },
    "growing-dimension": {"seeds": 2, "n": 30, "dimensions": (2, 10), "steps": 50, "warm_up": 50},
    "gated-schedule": {"steps": 60, "warm_up": 50},
    "any-norm": {
        "seeds": 1, "few": 1, "warm_up": 20, "n": 20, "steps": 30, "dimensions": (5,), "space_steps": 10,
        "space_growths": (1.05,), "digit_rows": 30, "matrix_rows": 16, "sweep_draws": 1,
        "sweep_growths": (4.0, 16.0), "sweep_etas": (3.0,),
    },
    "without-projection": {"seeds": 1, "steps": 60, "warm_up": 50},
    "every-method": {
        "seeds": 1, "steps": 30, "warm_up": 10, "planted": ((20, 3),), "digit_rows": 20, "classes": (12, 3),
        "per_decade": 10,
    },
    "logistic-loss": {
        "seeds": 1, "steps": 100, "accelerated": 50, "short": 60, "small_scale": 60, "warm_up": 100,
    },
}  # fmt: skip


def tiny() -> dict[str, Experiment]:
    """Return the experiments with tiny settings for both the full and the quick run."""
    found = {}
    for e in choose():
        settings = replace(e.settings, **CHANGES.get(e.name, {}))
        found[e.name] = replace(e, settings=settings, quick=settings if e.name in CHANGES else e.quick)
    return found


@cache
def rows_of(name: str) -> pd.DataFrame:
    """Return the rows of an experiment with tiny settings, as drawing reads them: through CSV."""
    e = tiny()[name]
    return frame(to_csv(row for task in e.tasks(e.settings) for row in e.compute(e.settings, task)))


def blank(figure, folder: Path) -> bool:
    """Write empty files in place of the drawings for print, and say that they are current."""
    for end in ("png", "svg", "pdf"):
        write_whole(folder / f"{figure.name}.{end}", b"")
    return True


def report_of_all(factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a report of all tiny experiments, made once for all processes of a test run."""

    def make(out: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(static, "is_current", blank)
            reproduce(list(tiny().values()), quick=True, jobs=2, out=out)

    return made_once(factory, "report", make)
