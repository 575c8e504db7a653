"""Runs seen at chosen times: the iterates there, and gradient flow in log t at times that no loop reaches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.algorithms.base import Algorithm, S, State, can_walk, most_steps, walk
from prgd.core.types import Array
from prgd.problem import Problem

Until = Callable[[Array], bool]  # whether a run ends at this w
Times = Sequence[int] | npt.NDArray[np.int64]


def states(
    problem: Problem, algorithm: Algorithm[S], w0: Array | None = None, times: Iterable[int] | None = None
) -> Iterator[S]:
    """Yield the states of an algorithm at some times, by default at all without end, from ``w0``, else 0.

    Steps alone, without the certificates and records of `prgd.run`.

    Examples
    --------
    >>> import prgd
    >>> found = states(prgd.Problem([[1.0, 2.0]]), prgd.NGD(), times=[0, 1, 100])
    >>> [s.t for s in found]
    [0, 1, 100]
    """
    state: Any = algorithm.init(problem, np.zeros(problem.shape) if w0 is None else w0)
    for t in count() if times is None else times:
        while state.t < t:
            steps = min(int(t) - state.t, most_steps(problem))
            ahead = None
            if steps > 1 and can_walk(problem, algorithm):
                ahead = walk(problem, algorithm, state, np.ones(steps, bool))
            if ahead is None:
                state = algorithm.step(problem.after(state.at), state)
            else:
                state = ahead.state(ahead.steps - 1)
        yield state


def log_times(last: int, count: int = 300, first: int = 2) -> npt.NDArray[np.int64]:
    """Return about ``count`` integer times from first to last, evenly spaced in log t.

    Examples
    --------
    >>> log_times(100, count=5).tolist()
    [2, 5, 14, 38, 100]
    """
    return np.unique(np.geomspace(first, last, count).round().astype(np.int64))


def run_until(
    problem: Problem, algorithm: Any, condition: Callable[[State], bool], max_steps: int, w0: Any = None
) -> tuple[State, bool]:
    """Take steps until a condition on the state is true; return the last state, and whether it is.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.6))
    >>> run_until(problem, prgd.NGD(), lambda state: state.w[0] > 5.0, 100)[0].t
    9
    """
    for state in states(problem, algorithm, w0, range(max_steps + 1)):
        if condition(state):
            return state, True
    return state, False


def iterates(
    problem: Problem,
    algorithm: Any,
    times: Times,
    w0: Any = None,
    *,
    until: Until | None = None,
) -> Array:
    """Run an algorithm and return its iterates at some times.

    Parameters
    ----------
    problem : Problem
    algorithm : Algorithm, e.g. `prgd.NGD`.
    times : increasing integers of at least 0.
    w0 : array of shape (d,), optional
    until : callable, optional
        The run ends at the first of the times at which ``until(w)`` is true.

    Returns
    -------
    ndarray of shape (m, d)
        One row for each time that was reached.

    Examples
    --------
    >>> import prgd
    >>> iterates(prgd.Problem(*prgd.datasets.toy(0.6)), prgd.NGD(), [0, 1]).round(3).tolist()
    [[0.0, 0.0], [0.6, 0.267]]
    """
    found: list[Array] = []
    for state in states(problem, algorithm, None if w0 is None else np.array(w0, dtype=np.float64), times):
        found.append(state.w)
        if until is not None and until(state.w):
            break
    return np.array(found)


def gradient_flow(Z: Any, w: Any, start: float, log_t: Any, eta: float = 1.0) -> Array:
    r"""Return where gradient flow on the mean exponential loss is at some times.

    With :math:`s = \log t` the flow :math:`\dot w = -\eta \nabla L(w)` is

    .. math:: \frac{dw}{ds} = \frac{\eta}{n} \sum_i e^{s - \langle w, z_i \rangle} z_i

    whose exponents stay bounded, so t may be :math:`e^{10^6}`. A step of GD differs from the flow by a share
    of about eta L(w), which falls like 1 / t: from ``start`` on the two differ by about 1 / start, relative.

    Parameters
    ----------
    Z : array of shape (n, d)
        The rows times their labels.
    w : array of shape (d,)
        Where GD is at step ``start``.
    start : float
    log_t : array of shape (m,)
        Logarithms of the times, increasing, from that of ``start`` on.
    eta : float

    Returns
    -------
    ndarray of shape (m, d)

    Examples
    --------
    >>> import prgd
    >>> data = prgd.datasets.toy(0.3)
    >>> w = prgd.run(prgd.Problem(*data, scale="none"), prgd.GD(0.5), stop=2000).w
    >>> far = gradient_flow(data.X * data.y[:, None], w, 2000, [10.0, 1e6], eta=0.5)
    >>> (far / np.linalg.norm(far, axis=1, keepdims=True)).round(3).tolist()
    [[1.0, 0.016], [1.0, 0.0]]
    """
    from scipy.integrate import solve_ivp

    Z, log_t = np.asarray(Z, dtype=np.float64), np.asarray(log_t, dtype=np.float64)

    def velocity(s: float, w: Array) -> Array:
        return np.asarray(eta / len(Z) * (np.exp(s - Z @ w) @ Z))

    def jacobian(s: float, w: Array) -> Array:
        return np.asarray(-eta / len(Z) * ((Z.T * np.exp(s - Z @ w)) @ Z))

    ends = (math.log(start), float(log_t[-1]))
    # The flow is stiff: parts of w are at rest while <w, w_star> grows like log t, and so does its rounding.
    atol = max(1e-9, 1e-13 * ends[1])
    options: dict[str, Any] = {"method": "Radau", "jac": jacobian, "rtol": 1e-9, "atol": atol}
    return np.asarray(solve_ivp(velocity, ends, np.asarray(w, dtype=np.float64), t_eval=log_t, **options).y.T)
