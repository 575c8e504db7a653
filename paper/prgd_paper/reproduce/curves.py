"""What the experiments share: methods, runs watched at every step, the times that are kept, statistics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.algorithms import GD, NGD, PRGD, DualAcceleration
from prgd.algorithms.base import State
from prgd.core.types import Array
from prgd.problem import Problem
from prgd.problem.certificate import Certificate
from prgd.running.history import Record
from prgd.running.loop import run
from prgd.schedules import Every, Geometric, Polynomial, PolynomialPhases
from prgd_paper.claims.registry import TOO_FEW
from prgd_paper.methods import GameDynamics
from prgd_paper.report.elements import BY_NAME, Band, Line, Mark, Style, floored
from prgd_paper.reproduce.experiment import Row
from prgd_paper.theory.sampled_runs import log_times, states

Interval = tuple[float, float, float]  # a mean, and the ends of its interval


class Method(NamedTuple):
    """An algorithm under its name in the figures, and whether it begins where GD's warm-up ends."""

    name: str
    algorithm: Any
    is_warm: bool = False


@dataclass(frozen=True)
class Schedules:
    """The settings of both kinds of PRGD, as on the synthetic sets (Section 7.1, Appendix E.1).

    PRGD(exp) has ``R_k = R_0 growth^k`` and phases of ``phase`` steps. PRGD(poly) has
    ``R_k = R_0 (k + 1)^alpha`` and ``T_{k+1} - T_k = phase (k + 1)^beta``. Both start from ``warm_up``
    steps of GD. Every method has the step size ``eta``. ``algorithm`` is one of the user's beside them, as
    ``prgd race`` takes it; a hash of its file may follow after #.
    """

    growth: float = 1.2
    phase: int = 5
    alpha: float = 1.2
    beta: float = 0.0
    warm_up: int = 1_000
    eta: float = 1.0
    algorithm: str = ""


def methods(settings: Schedules) -> tuple[Method, ...]:
    """Return the six methods that the experiments compare, and the user's; PRGD has the given schedules."""
    eta, own = settings.eta, settings.algorithm.partition("#")[0]
    mine: list[Method] = []
    if own:
        from prgd_paper.cli.race import read_entrant

        entrant = read_entrant(own)
        mine = [Method(entrant.name, entrant.algorithm, entrant.warm_up_steps > 0)]
    exp = PRGD(Geometric(settings.growth), Every(settings.phase), eta)
    poly = PRGD(Polynomial(settings.alpha), PolynomialPhases(settings.phase, settings.beta), eta)
    return (
        Method("GD", GD(eta)),
        Method("NGD", NGD(eta)),
        Method("PRGD(exp)", exp, is_warm=True),
        Method("PRGD(poly)", poly, is_warm=True),
        Method("dual acceleration", DualAcceleration(eta)),
        Method("game dynamics", GameDynamics(eta)),
        *mine,
    )


def with_own(names: tuple[str, ...], settings: Schedules) -> tuple[str, ...]:
    """Return the names of methods, and that of the user's if there is one."""
    return (*names, methods(settings)[-1].name) if settings.algorithm else names


class Watched(NamedTuple):
    """A run at every step t = 0, 1, ...: the margin, and the best bounds so far."""

    margin: Array
    lower: Array
    upper: Array


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

    def keep(state: State, now: Record, certificate: Certificate) -> None:
        seen[:, now.t] = now.margin, certificate.lower, certificate.upper

    # The history has no bounds but those of iterates: a state that knows another one is observed.
    observe = None if getattr(algorithm, "state_type", State).own_upper is State.own_upper else keep
    history = run(problem, algorithm, w0, stop=steps, observe=observe).history
    if observe is None:
        upper = np.minimum.accumulate(history["upper_bound"])
        seen[:, : len(history)] = history["margin"], upper * (1.0 - history["gap"]), upper
    return Watched(*seen)


def counted_steps(
    problem: Problem, algorithm: Any, warm_up: Any = None, warm_steps: int = 0
) -> Iterator[tuple[int, State]]:
    """Yield t = 0, 1, ... and the states of a run, the steps of a warm-up by another algorithm counted."""
    w = None
    if warm_up is not None:
        for state in islice(states(problem, warm_up), warm_steps + 1):
            yield state.t, state
            w = state.w
    for state in islice(states(problem, algorithm, w), 0 if w is None else 1, None):
        yield (0 if w is None else warm_steps) + state.t, state


def warm_start(problem: Problem, steps: int, eta: float) -> Array:
    """Return w after GD's warm-up from 0."""
    return run(problem, GD(eta), stop=steps, record=()).w


def record_times(steps: int, per_decade: int = 60, first: int = 1) -> npt.NDArray[np.int64]:
    """Return the steps that rows keep: integers, evenly spaced in log t, the last step included.

    Examples
    --------
    >>> record_times(100, per_decade=5).tolist()
    [1, 2, 3, 4, 6, 10, 16, 25, 40, 63, 100]
    """
    return log_times(steps, max(2, math.ceil(per_decade * math.log10(max(steps / first, 2)))) + 1, first)


def curve_rows(seen: Watched, times: Sequence[int] | npt.NDArray[np.int64], **columns: Any) -> list[Row]:
    """Return one row for each time: ``columns``, t, the margin and the best bounds so far."""
    return [
        columns | {"t": int(t), "margin": seen.margin[t], "lower": seen.lower[t], "upper": seen.upper[t]}
        for t in times
    ]


def padded(rows: Iterable[Row], columns: Sequence[str]) -> list[Row]:
    """Return rows of several kinds with the same columns; a cell that a kind does not have is empty.

    Examples
    --------
    >>> padded([{"kind": "fact", "value": 1.0}], ("kind", "t", "value"))
    [{'kind': 'fact', 't': '', 'value': 1.0}]
    """
    return [{column: row.get(column, "") for column in columns} for row in rows]


def lasting_passage(error: Array, level: float) -> int:
    """Return the first step from which the error stays at most ``level``; -1 if it ends above.

    Examples
    --------
    >>> lasting_passage(np.array([3.0, 0.5, 2.0, 1.0, 0.1]), 1.0)
    3
    """
    above = np.flatnonzero(~(error <= level))
    last = int(above[-1]) + 1 if above.size else 0
    return last if last < error.size else -1


def leads_until(ours: Array, other: Array) -> int:
    """Return the last step at which the first error is below the second; -1 if it never is.

    Examples
    --------
    >>> leads_until(np.array([3.0, 1.0, 1.0, 1.0]), np.array([4.0, 2.0, 0.5, 0.2]))
    1
    """
    ahead = np.flatnonzero(ours < other)
    return int(ahead[-1]) if ahead.size else -1


def mean_interval(differences: Any, test_share: float = 0.0) -> Interval:
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


def share_interval(k: int, n: int) -> tuple[float, float]:
    """Return the ends of the 95 % interval of a share, from k of n draws (Clopper and Pearson 1934).

    Examples
    --------
    >>> [round(end, 3) for end in share_interval(17, 20)]
    [0.621, 0.968]
    """
    from scipy.stats import binomtest

    low, high = binomtest(k, n).proportion_ci(0.95, method="exact")
    return float(low), float(high)


def median_interval(values: Any) -> tuple[float, float]:
    """Return the ends of a 95 % interval of the median: two order statistics, whatever the distribution.

    Fewer than six values have no such interval, so that of theirs is everything.

    Examples
    --------
    >>> median_interval(range(1, 21))
    (6.0, 15.0)
    """
    from scipy.special import bdtr

    ordered = np.sort(np.asarray(list(values), dtype=np.float64))
    ordered[np.isnan(ordered)] = math.inf
    # The median is below the k-th smallest value with the probability of fewer than k heads in n tosses.
    k = int(sum(bdtr(j, ordered.size, 0.5) <= 0.025 for j in range(ordered.size // 2)))
    return (float(ordered[k - 1]), float(ordered[-k])) if k else (-math.inf, math.inf)


def ends_in_words(low: float, high: float, form: str) -> str:
    """Return the ends of a 95 % interval, or that there is none.

    Examples
    --------
    >>> ends_in_words(1.5, 2.5, ".1f"), ends_in_words(*median_interval([1.0, 2.0]), ".1f")
    ('1.5 to 2.5 (95 % interval)', 'unknown (too few draws for an interval)')
    """
    if low == -math.inf and high == math.inf:
        return f"unknown ({TOO_FEW})"
    return f"{low:{form}} to {high:{form}} (95 % interval)"


def points(d: Interval) -> str:
    """Return a mean difference and its interval in percentage points.

    Examples
    --------
    >>> points((0.01, -0.005, 0.025))
    '+1.00 points [-0.50, +2.50]'
    """
    if not math.isfinite(d[1]):
        return f"{100 * d[0]:+.2f} points (one split: no interval)"
    return f"{100 * d[0]:+.2f} points [{100 * d[1]:+.2f}, {100 * d[2]:+.2f}]"


def where(rows: Any, **values: Any) -> Any:
    """Return the rows of a data frame that have these values in the columns of these names."""
    for column, value in values.items():
        rows = rows[rows[column] == value]
    return rows


def error_lines(
    curves: Any, error: Any, names: Iterable[str] = (), x: str = "t", styles: Mapping[str, Style] = {}
) -> list[Mark]:
    """Return one line for each method: its error against the column ``x``, where the error is a number.

    Parameters
    ----------
    curves : data frame
        Rows of several methods, with a column ``method``.
    error : Series
        The error of each row.
    names : iterable of str
        The methods (default: all).
    x : str
    styles : mapping of str to Style
        The styles of methods that do not have their own one in this figure.
    """
    lines: list[Mark] = []
    for name in names or curves.method.unique():
        is_shown = (curves.method == name) & error.notna()
        style = styles.get(name, BY_NAME)
        lines.append(Line(name, curves[x][is_shown].to_numpy(), floored(error[is_shown]), style=style))
    return lines


def error_bands(rows: Any, x: str) -> list[Mark]:
    """Return for each method its median ``error`` over seeds and a band of the 5 to 95 % quantiles."""
    marks: list[Mark] = []
    for name in rows.method.unique():
        pivot = where(rows, method=name).pivot(index="seed", columns=x, values="error")
        low, middle, high = floored(np.quantile(pivot.to_numpy(), [0.05, 0.5, 0.95], axis=0))
        at = pivot.columns.to_numpy(dtype=float)
        marks += [Band(name, at, low, high), Line(name, at, middle)]
    return marks


def span(values: Iterable[float], form: str = ",.0f") -> str:
    """Return the smallest and the largest of some numbers in words, or the one number if they look the same.

    Examples
    --------
    >>> span([3000.0, 1.0]), span([2.0, 2.0])
    ('1 to 3,000', '2')
    """
    ordered = sorted(values)
    low, high = format(ordered[0], form), format(ordered[-1], form)
    return low if low == high else f"{low} to {high}"
