"""The runs of GD and NGD that several claims measure, made once."""

from __future__ import annotations

from functools import cache

from prgd.algorithms import GD, NGD
from prgd.datasets import Dataset, toy
from prgd.problem import Problem
from prgd.theory.orthogonal_dynamics import Trace, follow, orthogonal
from prgd.theory.sampled_runs import log_times
from prgd.theory.samples import random_nondegenerate

# These random sets are non-degenerate, off the mean, and have an orthogonal part of GD that converges at
# least like 1/t. It converges like t^-(curvature / gamma_star^2), far slower for most random sets.
SEEDS = (46, 117, 541, 810)
GD_ETA, GD_STEPS = 0.5, 60_000  # Every result about GD allows steps up to 1/2.
NGD_ETA, NGD_STEPS = 1.0, 20_000


def sets() -> list[Dataset]:
    """Return the data sets: the toy one and four random non-degenerate ones."""
    return [toy(0.3), *(random_nondegenerate(seed) for seed in SEEDS)]


def followed(data: Dataset, algorithm: GD | NGD, steps: int) -> Trace:
    """Return the algorithm on one set at times evenly spaced in log t, in the units of the data."""
    problem = Problem(data.X, data.y, scale="none", n_threads=1)
    return follow(problem, algorithm, orthogonal(data), log_times(steps))


@cache
def gd_runs() -> tuple[Trace, ...]:
    """Return GD on every set of `sets`."""
    return tuple(followed(data, GD(GD_ETA), GD_STEPS) for data in sets())


@cache
def ngd_runs() -> tuple[Trace, ...]:
    """Return NGD on every set of `sets`."""
    return tuple(followed(data, NGD(NGD_ETA), NGD_STEPS) for data in sets())


def gamma_star(trace: Trace) -> float:
    """Return the largest margin of the set that was followed."""
    return trace.target.geometry.reference.gamma_star
