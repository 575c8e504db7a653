"""The runs of GD and NGD that several claims measure, made once."""

from __future__ import annotations

import math
from functools import cache, partial

import numpy as np

from prgd.algorithms import GD, NGD
from prgd.core.types import Array
from prgd.datasets import Dataset, toy
from prgd.problem import Problem
from prgd_paper.claims import Finding
from prgd_paper.theory.orthogonal_dynamics import Trace, follow, orthogonal, seen_from_the_ray
from prgd_paper.theory.sampled_runs import gradient_flow, iterates, log_times
from prgd_paper.theory.samples import random_nondegenerate
from prgd_paper.theory.support import signed_rows

SEEDS = range(20)
GD_ETA, GD_STEPS = 0.5, 10_000  # Every result about GD allows steps up to 1/2; some allow eta = 1.
# P_perp(w) of GD converges like t^-(curvature / gamma_star^2), and that exponent is 3e-5 for seed 3: the
# time at which the limit shows has 20,000 digits.
LAST_LOG_T = 1e6
NGD_ETA, NGD_STEPS = 1.0, 20_000
DRAWN = f"The toy set with gamma_star = 0.3 and random sets that meet the conditions, seeds 0 to {SEEDS[-1]}."
FLOW = f"{GD_STEPS:,} steps, then gradient flow up to log t = {LAST_LOG_T:,.0f}"
gd_finding = partial(Finding, setting=f"{DRAWN} GD from 0 with eta = {GD_ETA:g}, {FLOW}.")
ngd_finding = partial(Finding, setting=f"{DRAWN} NGD from 0 with eta = {NGD_ETA:g}, {NGD_STEPS:,} steps.")
BOTH_ETAS = f"{DRAWN} GD from 0 with eta = {GD_ETA:g} and with eta = 1, {FLOW}."


def sets() -> list[Dataset]:
    """Return the data sets: the toy one and random non-degenerate ones of consecutive seeds."""
    return [toy(0.3), *map(random_nondegenerate, SEEDS)]


def followed(data: Dataset, algorithm: GD | NGD, steps: int) -> Trace:
    """Return the algorithm on one set at times evenly spaced in log t, in the units of the data."""
    problem = Problem(data.X, data.y, scale="none", n_jobs=1)
    return follow(problem, algorithm, orthogonal(data), log_times(steps))


def gd_path(Z: Array, eta: float = GD_ETA) -> tuple[Array, Array]:
    """Return log t and w of GD on some rows: its steps first, then gradient flow in log t, which is as near
    to GD as 1 / GD_STEPS, relative.
    """
    times = log_times(GD_STEPS)
    W = iterates(Problem(Z, scale="none", n_jobs=1), GD(eta), times)
    later = np.geomspace(1.01 * math.log(GD_STEPS), LAST_LOG_T, 300)
    flow = gradient_flow(Z, W[-1], GD_STEPS, later, eta)
    return np.concatenate([np.log(times), later]), np.vstack([W, flow])


@cache
def gd_runs(eta: float = GD_ETA) -> tuple[Trace, ...]:
    """Return GD on every set of `sets`."""
    paths = [(data, *gd_path(signed_rows(data), eta)) for data in sets()]
    return tuple(seen_from_the_ray(orthogonal(data), log_t, W, eta) for data, log_t, W in paths)


@cache
def ngd_runs() -> tuple[Trace, ...]:
    """Return NGD on every set of `sets`."""
    return tuple(followed(data, NGD(NGD_ETA), NGD_STEPS) for data in sets())


def gamma_star(trace: Trace) -> float:
    """Return the largest margin of the set that was followed."""
    return trace.target.geometry.reference.gamma_star
