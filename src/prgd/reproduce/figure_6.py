"""Figure 6: margin errors on both synthetic sets, at small and large time scales."""

from __future__ import annotations

from functools import partial

from prgd.reproduce import synthetic
from prgd.reproduce.experiment import Experiment

SETS = ("I", "II")

EXPERIMENT = Experiment(
    name="figure-6",
    title="Margin maximization on both synthetic sets",
    where="Figure 6, Appendix E.1",
    settings=synthetic.Settings(),
    quick=synthetic.QUICK,
    tasks=partial(synthetic.tasks, sets=SETS),
    compute=synthetic.compute,
    draw=partial(synthetic.draw, figure="figure-6", sets=SETS),
    claims=synthetic.claims,
    reading=partial(synthetic.reading, sets=SETS),
    seconds=2.0,
)
