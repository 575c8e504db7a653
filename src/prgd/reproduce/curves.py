"""What the experiments share: runs watched at every step, the times that are kept, and small statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.algorithms import GD, NGD, PRGD, DualAcceleration, GameDynamics
from prgd.certificate import Certificate
from prgd.loop import run
from prgd.problem import Problem
from prgd.reproduce.experiment import Row
from prgd.result import Record
from prgd.schedules import Every, Geometric, Polynomial, PolynomialPhases

WARM_UP = 1000  # steps of GD before PRGD: Appendix E.1


class Method(NamedTuple):
    """An algorithm under its name in the figures, and whether it begins where GD's warm-up ends."""

    name: str
    algorithm: Any
    is_warm: bool = False


GD_, NGD_ = Method("GD", GD()), Method("NGD", NGD())
EXP = Method("PRGD(exp)", PRGD(Geometric(1.2), Every(5)), is_warm=True)
POLY = Method("PRGD(poly)", PRGD(Polynomial(1.2), Every(5)), is_warm=True)
# Section 7.1's choice for digits; T_0 = 5 is ours, the paper gives none
POLY_DIGITS = Method("PRGD(poly)", PRGD(Polynomial(0.6), PolynomialPhases(5, 0.6)), is_warm=True)
DUAL, GAME = Method("dual acceleration", DualAcceleration()), Method("game dynamics", GameDynamics())
SYNTHETIC = (GD_, NGD_, EXP, POLY, DUAL, GAME)
DIGITS = (GD_, NGD_, Method("NGD, warm start", NGD(), is_warm=True), EXP, POLY_DIGITS, DUAL, GAME)
GAUSSIAN = (GD_, NGD_, EXP, POLY_DIGITS, DUAL, GAME)


class Watched(NamedTuple):
    """A run at every step t = 0, 1, ...: the margin, and the best bounds so far."""

    margin: Array
    lower: Array
    upper: Array
    w: Array


def watch(problem: Problem, algorithm: Any, w0: Any, steps: int) -> Watched:
    """Run an algorithm and keep the margin and both certified bounds at every step.

    Examples
    --------
    >>> import prgd
    >>> seen = watch(prgd.Problem(*prgd.datasets.toy(0.3)), NGD(), None, 4)
    >>> seen.margin.shape, bool(seen.lower[-1] <= 0.3 <= seen.upper[-1])
    ((5,), True)
    """
    seen = np.full((3, steps + 1), math.nan)

    def keep(now: Record, certificate: Certificate) -> None:
        seen[:, now.t] = now.margin, certificate.lower, certificate.upper

    result = run(problem, algorithm, w0, stop=steps, record=2**62, progress=keep)
    return Watched(seen[0], seen[1], seen[2], result.w)


def warm_start(problem: Problem, steps: int = WARM_UP, eta: float = 1.0) -> Array:
    """Return w after GD's warm-up from 0."""
    return run(problem, GD(eta), stop=steps, record=2**62).w


def record_times(steps: int, per_decade: int = 60, first: int = 1) -> npt.NDArray[np.int64]:
    """Return the steps that rows keep: evenly spaced in log t, whole, the last one included.

    Examples
    --------
    >>> record_times(100, per_decade=5).tolist()
    [1, 2, 3, 4, 6, 10, 16, 25, 40, 63, 100]
    """
    count = max(2, math.ceil(per_decade * math.log10(max(steps / first, 2)))) + 1
    return np.unique(np.geomspace(first, steps, count).round().astype(np.int64))


def curve_rows(seen: Watched, times: Sequence[int] | npt.NDArray[np.int64], **columns: Any) -> list[Row]:
    """Return one row a time: ``columns``, t, the margin and the best bounds so far."""
    return [
        columns | {"t": int(t), "margin": seen.margin[t], "lower": seen.lower[t], "upper": seen.upper[t]}
        for t in times
    ]


def lasting_passage(error: Array, level: float) -> int:
    """Return the first step from which the error stays at most ``level``; -1 where it ends above.

    Examples
    --------
    >>> lasting_passage(np.array([3.0, 0.5, 2.0, 1.0, 0.1]), 1.0)
    3
    """
    above = np.flatnonzero(~(error <= level))
    if above.size == 0:
        return 0
    last = int(above[-1]) + 1
    return last if last < error.size else -1


def leads_until(ours: Array, other: Array) -> int:
    """Return the last step at which the first error is below the second; -1 where it never is.

    Examples
    --------
    >>> leads_until(np.array([3.0, 1.0, 1.0, 1.0]), np.array([4.0, 2.0, 0.5, 0.2]))
    1
    """
    ahead = np.flatnonzero(ours < other)
    return int(ahead[-1]) if ahead.size else -1


def mean_interval(differences: Any, test_share: float = 0.0) -> tuple[float, float, float]:
    """Return mean and 95 % interval of paired differences over random splits.

    Parameters
    ----------
    differences : array of shape (m,)
    test_share : float
        Rows for testing over rows for training: splits share rows, so the variance of the mean is
        ``s^2 (1/m + test_share)``; 0 for independent draws.

    References
    ----------
    Nadeau and Bengio (2003), Inference for the generalization error.

    Examples
    --------
    >>> [round(value, 3) for value in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    from scipy.special import stdtrit

    d = np.asarray(differences, dtype=np.float64)
    mean = float(d.mean())
    if d.size < 2:
        return mean, -math.inf, math.inf
    half = float(stdtrit(d.size - 1, 0.975) * d.std(ddof=1) * math.sqrt(1.0 / d.size + test_share))
    return mean, mean - half, mean + half


def band(table: Any, value: str) -> tuple[Array, Array, Array]:
    """Return the median and the 5 and 95 % quantiles of a table with one row a seed and one column a time."""
    pivot = table.pivot(index="seed", columns="t", values=value).to_numpy()
    low, middle, high = np.quantile(pivot, [0.05, 0.5, 0.95], axis=0)
    return middle, low, high
