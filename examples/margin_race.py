"""Draw the README's picture: margin error against steps on the paper's first synthetic set.

Usage: python examples/margin_race.py docs/images/margin_race.png
"""

import sys

from matplotlib.figure import Figure

import prgd

data = prgd.datasets.synthetic_one(0)
problem = prgd.Problem(data.X, data.y)
warm = prgd.run(problem, prgd.GD(), stop=1000)
runs = [
    ("GD", prgd.GD(), None, "#999999"),
    ("NGD", prgd.NGD(), None, "#E69F00"),
    ("dual acceleration", prgd.algorithms.DualAcceleration(), None, "#009E73"),
    ("PRGD, after 1,000 warm-up steps of GD", prgd.PRGD(), warm, "#0072B2"),
]

figure = Figure(figsize=(8, 3.6), layout="constrained")
axes = figure.add_subplot()
for name, algorithm, start, colour in runs:
    first = start.t if start else 0
    result = prgd.run(problem, algorithm, start.w if start else None, stop=3000 - first)
    history = result.history.to_dataframe().query("t > 0")
    error = (data.gamma_star - history.margin).clip(lower=1e-17)
    axes.semilogy(history.t + first, error, color=colour, label=name, linewidth=1.6)
axes.set(
    xlabel="steps, warm-up included (one reading of the data each)",
    ylabel="margin error",
    title="Synthetic dataset I of the paper, seed 0",
    ylim=(1e-17, 1),
)
axes.grid(alpha=0.25)
axes.legend(loc="center right", frameon=False)
figure.savefig(sys.argv[1], dpi=150)
