"""Every experiment with settings that take a second or less, and its rows, computed once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pandas as pd
from prgd_paper.figures import _synthetic as synthetic
from prgd_paper.figures import figure_1, figure_2, figure_4, figure_5a, table_1, table_2
from prgd_paper.reproduce.experiment import Experiment, choose
from prgd_paper.reproduce.store import frame, to_csv
from prgd_paper.studies import (
    any_norm,
    every_method,
    exponential,
    gated_schedule,
    growing_dimension,
    logistic_loss,
    schedule_sweep,
    without_projection,
)

SYNTHETIC = synthetic.Settings(seeds=2, steps=400, accelerated=300, short=200, small_scale=100, warm_up=200)
SETTINGS = {
    "figure-1": figure_1.Settings(long_steps=10, grid=(6, 5)),
    "figure-2": figure_2.Settings(heights=(2.0, 8.0), angles=12),
    "figure-3": SYNTHETIC,
    "figure-4": figure_4.Settings(
        early=60, steps=300, ngd_steps=400, rank_steps=200, warm_up=100, rows=(300,)
    ),
    "figure-5a": figure_5a.Settings(
        seeds=2,
        steps=40,
        few=(20, 30),
        times=(10, 20, 40),
        prgd_etas=(10.0,),
        alphas=(0.6, 1.2),
        betas=(0.6,),
        first_phases=(5,),
        warm_ups=(10,),
    ),
    "figure-6": SYNTHETIC,
    "table-1": table_1.Settings(
        gd_steps=2000,
        flow_from=500,
        ngd_steps=500,
        ngd_from=50,
        dual_steps=300,
        dual_from=30,
        proof_steps=100,
        seeds=1,
    ),
    "table-2": table_2.Settings(seeds=2, warm_up=200, gd_limit=300, ngd_limit=500, limit=300, prgd_limit=200),
    "schedule-sweep": schedule_sweep.Settings(
        growths=(1.03, 1.2),
        phases=(5, 20),
        powers=(0.6, 1.2),
        phase_powers=(0.0, 0.6),
        times=(50, 100),
        warm_up=50,
    ),
    "growing-dimension": growing_dimension.Settings(seeds=2, n=30, dimensions=(2, 10), steps=50, warm_up=50),
    "gated-schedule": gated_schedule.Settings(steps=60, warm_up=50),
    "any-norm": any_norm.Settings(
        seeds=1,
        few=1,
        warm_up=20,
        n=20,
        steps=30,
        dimensions=(5,),
        space_steps=10,
        space_growths=(1.05,),
        digit_rows=30,
        matrix_rows=16,
        sweep_draws=1,
        sweep_growths=(4.0, 16.0),
        sweep_etas=(3.0,),
    ),
    "without-projection": without_projection.Settings(seeds=1, steps=60, warm_up=50),
    "every-method": every_method.Settings(
        seeds=1, steps=30, warm_up=10, planted=((20, 3),), digit_rows=20, classes=(12, 3), per_decade=10
    ),
    "exponential": exponential.Settings(
        seeds=1, steps=150, short=60, warm_up=30, newton=6, digit_rows=(40,), per_decade=10
    ),
    "logistic-loss": logistic_loss.Settings(
        seeds=1, steps=100, accelerated=50, short=60, small_scale=60, warm_up=100
    ),
}


def tiny() -> dict[str, Experiment]:
    """Return the experiments with tiny settings for both the full and the quick run."""
    return {
        e.name: replace(e, settings=SETTINGS.get(e.name, e.settings), quick=SETTINGS.get(e.name, e.quick))
        for e in choose()
    }


@cache
def rows_of(name: str) -> pd.DataFrame:
    """Return the rows of an experiment with tiny settings, as drawing reads them: through CSV."""
    e = tiny()[name]
    return frame(to_csv(row for task in e.tasks(e.settings) for row in e.compute(e.settings, task)))
