"""The runs of GD and NGD that several claims measure, made once."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.algorithms import GD, NGD
from prgd.datasets import Dataset, toy
from prgd.problem import Problem
from prgd.theory.orthogonal_dynamics import Orthogonal, Trace, follow, orthogonal
from prgd.theory.ray_geometry import margin_errors
from prgd.theory.sampled_runs import log_times
from prgd.theory.samples import random_nondegenerate
from prgd.theory.velocity import direction_error

# These random sets are non-degenerate, off the mean, and have an orthogonal part of GD that converges at
# least like 1/t. It converges like t^-(curvature / gamma_star^2), far slower for most random sets.
SEEDS = (46, 117, 541, 810)
GD_ETA, GD_STEPS = 0.5, 60_000  # Every result about GD allows steps up to 1/2.
NGD_ETA, NGD_STEPS = 1.0, 20_000


class Followed(NamedTuple):
    """One run: the data, the point v_star, the trace, and both errors along it."""

    data: Dataset
    target: Orthogonal
    trace: Trace
    direction: Array  # ||w/||w|| - w_star||
    margin: Array  # gamma_star - gamma(w)


def sets() -> list[Dataset]:
    """Return the data sets: the toy one and four random non-degenerate ones."""
    return [toy(0.3), *(random_nondegenerate(seed) for seed in SEEDS)]


@cache
def gd_runs() -> tuple[Followed, ...]:
    """Return GD on every set of `sets`."""
    return tuple(_followed(data, GD(GD_ETA), log_times(GD_STEPS)) for data in sets())


@cache
def ngd_runs() -> tuple[Followed, ...]:
    """Return NGD on every set of `sets`."""
    return tuple(_followed(data, NGD(NGD_ETA), log_times(NGD_STEPS)) for data in sets())


def _followed(data: Dataset, algorithm: GD | NGD, times: npt.NDArray[np.int64]) -> Followed:
    problem = Problem(data.X, data.y, scale="none", n_threads=1)
    target = orthogonal(data)
    trace = follow(problem, algorithm, target, times.tolist())
    direction = direction_error(trace.w, target.geometry.reference.w_star)
    return Followed(data, target, trace, direction, margin_errors(target.geometry, trace.w))
