"""The runs of GD and NGD that several claims look at, made once."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.algorithms import GD, NGD
from prgd.datasets import Dataset, toy
from prgd.problem import Problem
from prgd.theory.geometry import Geometry
from prgd.theory.orthogonal import Orthogonal, Trace, follow, orthogonal
from prgd.theory.samples import random_nondegenerate
from prgd.theory.velocity import direction_error

# Non-degenerate, off the mean, and with GD's orthogonal part converging at least like 1/t: it converges
# like t^-(curvature / gamma_star^2), which for most random sets takes longer than anybody waits.
SEEDS = (46, 117, 541, 810)
GD_ETA, GD_STEPS = 0.5, 60_000  # every result about GD allows steps up to 1/2
NGD_ETA, NGD_STEPS = 1.0, 20_000


class Followed(NamedTuple):
    """One run: the data, the point v_star, the trace, and both errors along it."""

    data: Dataset
    target: Orthogonal
    trace: Trace
    direction: Array  # ||w/||w|| - w_star||
    margin: Array  # gamma_star - gamma(w)


def log_times(last: int, count: int = 300, first: int = 2) -> npt.NDArray[np.int64]:
    """Return about ``count`` whole times from first to last, equally far apart in log t."""
    return np.unique(np.geomspace(first, last, count).round().astype(np.int64))


def sets() -> list[Dataset]:
    """Return the data sets: the toy one and four random non-degenerate ones."""
    return [toy(0.3), *(random_nondegenerate(seed) for seed in SEEDS)]


def margin_errors(g: Geometry, W: Array) -> Array:
    r"""Return ``gamma_star - gamma(w)`` for each row of W, without cancellation near the ray.

    With w at angle theta from the ray, ``gamma_star - gamma(w)`` is the largest over the rows of
    ``2 sin^2(theta/2) m_i - (m_i - gamma_star) + sin(theta) <v, u_i>``, with m_i the margin at w_star.
    """
    off = (W / np.linalg.norm(W, axis=1, keepdims=True)) @ g.basis
    half_square = 0.5 * np.square(direction_error(W, g.reference.w_star))
    margins = g.reference.gamma_star + g.excess
    return np.asarray((np.outer(half_square, margins) - g.excess + off @ g.U.T).max(axis=1))


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
