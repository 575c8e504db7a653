"""Figure 3: margin errors on one synthetic set, at small and large time scales; computed in `synthetic`."""

from prgd_paper.figures._synthetic import experiment

EXPERIMENT = experiment(
    "figure-3",
    sets=("I",),
    order=3,
    title="Margin maximization on a synthetic set",
    where="Figure 3, Section 7.1",
    rows_of="figure-6",
)
