"""Figure 6: margin errors on both synthetic sets, at small and large time scales; computed in `synthetic`."""

from prgd_paper.figures._synthetic import experiment

EXPERIMENT = experiment(
    "figure-6",
    sets=("I", "II"),
    order=6,
    title="Margin maximization on both synthetic sets",
    where="Figure 6, Appendix E.1",
)
