r"""Intercepts of joint multiclass problems: numbers of K classes, from sums over pairs of classes.

A problem of K classes has an unpenalised intercept b_k for each. Margins of class k against class j change by
``b_k - b_j``, so all of them follow from K x K numbers of a pass:

- the exponential loss ``sum_kj S_kj exp(b_j - b_k)`` is smallest where the flow out of each class equals the
  flow into it. That is the balancing of a matrix (Osborne 1960), a convex problem in K variables;
- the smallest margin ``min_kj (g_kj + b_k - b_j)`` is at most the mean of g over every cycle of classes, and
  the best intercept reaches the smallest of these means (Karp 1978).

The dual weights of an upper bound must balance too: for each class k, the pairs of rows of class k carry as
much weight as the pairs against class k. `circulation` makes them do so exactly.
"""

import math
from typing import NamedTuple

import numpy as np

from prgd.core.arithmetic import UNIT_ROUNDOFF, common_integers, two_sum
from prgd.core.types import Array, Indices, Intercept

_SWEEPS = 60  # steps of Newton's or sweeps of Osborne's iteration
_BALANCED = 4.0 * UNIT_ROUNDOFF  # flows whose sums differ by less, relative to all flows, are balanced
_REFINEMENTS = 3  # times that the best intercepts are found, each of what rounding left
_GRID = 2.0**52  # weights are integers of at most this size, before they balance


class Balance(NamedTuple):
    """The intercepts of smallest exponential loss.

    Attributes
    ----------
    intercept : ndarray of shape (K,), of sum 0
    flows : ndarray of shape (K, K)
        The fraction of the loss that pairs of class k against class j have; their sum is 1.
    log_loss : float
        Logarithm of the sum over all pairs.
    imbalance : float
        Sum over the classes of the absolute difference of the flows out of it and into it.
    """

    intercept: Array
    flows: Array
    log_loss: float
    imbalance: float


def _at(log_sums: Array, b: Array) -> Balance:
    exponents = log_sums + (b[None, :] - b[:, None])
    largest = float(exponents.max())
    if not math.isfinite(largest):
        return Balance(b, np.full_like(log_sums, math.nan), largest, math.nan)
    flows = np.exp(exponents - largest)
    total = float(flows.sum())
    flows /= total
    differences = flows.sum(axis=1) - flows.sum(axis=0)
    return Balance(b, flows, largest + math.log(total), float(np.abs(differences).sum()))


def balance(log_sums: Array) -> Balance:
    """Minimise ``log sum_kj exp(log_sums_kj + b_j - b_k)`` over b; the diagonal is -inf.

    Examples
    --------
    >>> found = balance(np.array([[-np.inf, 3.0], [1.0, -np.inf]]))
    >>> found.intercept, round(found.log_loss - 2.0, 6)  # the mean of both, and log 2
    (array([ 0.5, -0.5]), 0.693147)
    """
    # The intercepts of the smallest largest exponent are a start that no scale of the sums spoils.
    even = best_intercept(-log_sums)[1] if np.isfinite(log_sums).any() else np.zeros(len(log_sums))
    now = best = _at(log_sums, even)
    size = float(np.abs(log_sums[np.isfinite(log_sums)]).max(initial=0.0))  # exponents are rounded so much
    for _ in range(_SWEEPS):
        if not best.imbalance > _BALANCED * (len(log_sums) + size):
            break
        trial = _at(log_sums, _newton(now))
        # Osborne's sweeps never raise the loss, and bring Newton's steps into their range.
        if not trial.imbalance < 0.5 * now.imbalance:
            trial = _at(log_sums, _osborne(log_sums, now.intercept))
        now = trial
        best = now if now.imbalance < best.imbalance else best
    return best


def _osborne(log_sums: Array, b: Array) -> Array:
    """Return the intercepts after one sweep that balances class by class."""
    b = b.copy()
    for k in range(b.size):
        out = np.logaddexp.reduce(log_sums[k] + b)
        into = np.logaddexp.reduce(log_sums[:, k] - b)
        if math.isfinite(out) and math.isfinite(into):
            b[k] = 0.5 * (out - into)
    return np.asarray(b - b.mean())


def _newton(at: Balance) -> Array:
    """Return the intercepts after a Newton step on the logarithm of the loss."""
    both = at.flows + at.flows.T
    slope = at.flows.sum(axis=0) - at.flows.sum(axis=1)
    hessian = np.diag(both.sum(axis=1)) - both - np.outer(slope, slope)
    hessian += np.ones_like(hessian) / at.flows.size  # the sum of the intercepts stays
    step = np.linalg.lstsq(hessian, -slope, rcond=None)[0]
    largest = float(np.abs(step).max())
    return np.asarray(at.intercept + step * min(1.0, 1.0 / largest if largest > 0.0 else 1.0))


def best_intercept(margins: Array) -> tuple[float, Array]:
    """Return the largest ``min_kj (g_kj + b_k - b_j)`` over b, and such a b of mean 0.

    Parameters
    ----------
    margins : ndarray of shape (K, K)
        The smallest margin g_kj of class k against class j; infinite on the diagonal and for no rows.

    Examples
    --------
    >>> best_intercept(np.array([[np.inf, 3.0], [1.0, np.inf]]))
    (2.0, array([-0.5,  0.5]))
    """
    K = len(margins)
    known = np.isfinite(margins)
    if np.isneginf(margins).any() or np.isnan(margins).any():
        return -math.inf, np.zeros(K)
    if not known.any():
        return math.inf, np.zeros(K)
    mean, _ = smallest_mean_cycle(margins)
    if math.isinf(mean):  # no cycle of classes: any margin can be reached, which one row a class excludes
        return math.inf, np.zeros(K)
    b = np.zeros(K)
    for _ in range(K):  # shortest paths with lengths that have no negative cycle
        b = np.minimum(b, np.min(b[:, None] + (margins - mean), axis=0))
    b -= b.mean()
    with np.errstate(invalid="ignore"):
        reached = np.where(known, margins + (b[:, None] - b[None, :]), math.inf)
    return float(reached.min()), b


def refined_intercept(margins: Array, near: Intercept) -> tuple[float, Array]:
    """Return a lower bound of the largest ``min_kj (g_kj + b_k - b_j)`` over b, and ``near + b``.

    The errors of `best_intercept` are roundings of the largest margin; here they are those of the result.

    Examples
    --------
    >>> lower, b = refined_intercept(np.array([[np.inf, 1e16], [2.0 - 1e16, np.inf]]), np.zeros(2))
    >>> round(lower, 12), b
    (1.0, array([-5.e+15,  5.e+15]))
    """
    K, b = len(margins), [np.asarray(near, dtype=np.float64)]
    for _ in range(_REFINEMENTS):
        known, (best, step) = np.isfinite(margins), best_intercept(margins)
        if not math.isfinite(best):
            return best, np.asarray(near)
        b.append(step)
        with np.errstate(over="ignore", invalid="ignore"):
            change, rounding = two_sum(step[:, None], -step)
            total, more = two_sum(margins, change)
            sizes, moved = np.abs(margins) + np.abs(change), total + (rounding + more)
            moved -= 4.0 * UNIT_ROUNDOFF * (np.abs(moved) + UNIT_ROUNDOFF * sizes)
        if not math.isfinite(least := float(moved[known].min())):
            return -math.inf, np.asarray(near)
        # Margins that rounding cannot bring near the smallest are on no cycle of smallest mean.
        most = least + abs(least) + 64 * K**3 * UNIT_ROUNDOFF * float(sizes[known].max())
        margins = np.where(known, np.minimum(moved, most), math.inf)
    return least, np.array([math.fsum(parts) for parts in zip(*b, strict=True)])


def smallest_mean_cycle(lengths: Array) -> tuple[float, list[int]]:
    """Return the smallest mean length of a cycle, and its nodes in order; infinite and none if there is none.

    Karp's algorithm: the shortest walks of K steps hold the cycle.

    Examples
    --------
    >>> smallest_mean_cycle(np.array([[np.inf, 1.0, 9.0], [3.0, np.inf, 2.0], [0.0, 8.0, np.inf]]))
    (1.0, [0, 1, 2])
    """
    K = len(lengths)
    walks, before = [np.zeros(K)], []  # the shortest walk of m steps to each class, from anywhere
    for _ in range(K):
        longer = walks[-1][:, None] + lengths
        before.append(np.argmin(longer, axis=0))
        walks.append(np.min(longer, axis=0))
    steps = np.arange(K)[:, None]
    last, others = walks[K], np.array(walks[:K])
    with np.errstate(invalid="ignore"):
        means = np.where(np.isfinite(others), (last - others) / (K - steps), -math.inf).max(axis=0)
    means[~np.isfinite(last)] = math.inf
    node = int(np.argmin(means))
    mean = float(means[node])
    if math.isinf(mean):
        return mean, []
    walk: list[int] = []
    while node not in walk:  # backwards, until a class comes again
        walk.append(node)
        node = int(before.pop()[node])
    return mean, walk[walk.index(node) :][::-1]


def circulation(pairs: Indices, p: Array, own: Indices, K: int) -> Array:
    """Return weights near p that balance exactly: multiples of one power of two, as float64 numbers.

    Parameters
    ----------
    pairs : ndarray of int
        Numbers ``i K + j`` of the pairs.
    p : ndarray of float
        Positive weights that balance up to rounding.
    own : ndarray of int
        The class of the row of each pair.

    Raises
    ------
    ValueError
        If the pairs cannot carry the difference: a class has no pair that leads to another one.

    Examples
    --------
    >>> circulation(np.array([1, 2]), np.array([0.5, 0.4999999999999999]), np.array([0, 1]), 2)
    array([0.5, 0.5])
    """
    against = (pairs % K).astype(np.int64)
    unit = math.ldexp(1.0, math.frexp(float(p.max()))[1]) / _GRID
    integers = [round(v) for v in (p / unit).tolist()]
    out = _excess(integers, own, against, K)
    heaviest: dict[tuple[int, int], int] = {}
    for q in np.argsort(p, kind="stable").tolist():
        heaviest[int(own[q]), int(against[q])] = q
    while any(out):
        # A class with more weight out than in gets weight from one with less, over classes in between.
        # Pairs need not connect all classes, so that the nearest one is taken.
        source = out.index(min(out))
        path = _path(heaviest, source, out)
        target = path[0][1]
        amount = min(-out[source], out[target])
        for arc in path:
            integers[heaviest[arc]] += amount
        out[source], out[target] = out[source] + amount, out[target] - amount
    if max(integers) > 2.0 * _GRID:  # weights far from balance have grown beyond the digits of float64
        return circulation(pairs, np.array(integers, dtype=np.float64) * unit, own, K)
    return np.array(integers, dtype=np.float64) * unit


def _excess(integers: list[int], own: Indices, against: Indices, K: int) -> list[int]:
    """Return the weight of the pairs of each class less that of the pairs against it."""
    out = [0] * K
    for value, k, j in zip(integers, own.tolist(), against.tolist(), strict=True):
        out[k] += value
        out[j] -= value
    return out


def _path(arcs: dict[tuple[int, int], int], source: int, out: list[int]) -> list[tuple[int, int]]:
    """Return the fewest arcs, the last one first, from a class to one with more weight out than in."""
    before, queue = {source: -1}, [source]
    for k in queue:
        if out[k] > 0:
            break
        for j in range(len(out)):
            if (k, j) in arcs and j not in before:
                before[j] = k
                queue.append(j)
    else:
        raise ValueError(f"No pairs lead from class {source} to one that needs weight: they cannot balance.")
    path = []
    while k != source:
        path.append((before[k], k))
        k = before[k]
    return path


def is_balanced(pairs: Indices, p: Array, own: Indices, K: int) -> bool:
    """Say whether weights balance exactly: each class has as much weight out as in."""
    integers = p if p.dtype == object else common_integers(p)[0]
    return not any(_excess([int(v) for v in integers], own, (pairs % K).astype(np.int64), K))
