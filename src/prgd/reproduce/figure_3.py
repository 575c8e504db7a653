"""Figure 3: margin errors on one synthetic set, at small and large time scales."""

from __future__ import annotations

from functools import partial

from prgd.reproduce import synthetic
from prgd.reproduce.experiment import Experiment

SETS = ("I",)


EXPERIMENT = Experiment(
    name="figure-3",
    title="Margin maximization on a synthetic set",
    where="Figure 3, Section 7.1",
    settings=synthetic.Settings(),
    quick=synthetic.QUICK,
    tasks=partial(synthetic.tasks, sets=SETS),
    compute=synthetic.compute,
    draw=partial(synthetic.draw, figure="figure-3", sets=SETS),
    claims=synthetic.claims,
    reading=partial(synthetic.reading, sets=SETS),
    seconds=2.0,
    rows_of="figure-6",
)
