r"""Rényi entropies of the dual weights, and the difference Delta that the gap of any w contains.

Dual weights are ``p_i ~ q_i exp(a_i)`` with logarithmic weights ``a = -Zw`` and sample weights q (1 if none
are given). With an intercept each class has a softmax of its own, and every entropy is the mean of both
classes'.

Weights are normalised after they are exponentiated: ``exp(a - LSE(a))`` rounds a number of the size of the
margins, and breaks the identities of docs/exponential.md by 2e-6 at margins of 2e5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.checks import check_integer

Reals = npt.NDArray[Any]  # float64, or longdouble where rounding must be smaller
NEAR_ONE = 1e-2  # orders of entropies this near to Shannon's are computed as corrections to it


def classes_of(n: int, groups: Any = None) -> Iterator[npt.NDArray[np.bool_]]:
    """Yield a mask of the rows of each class; of all rows if there are no groups."""
    if groups is None:
        yield np.ones(n, dtype=bool)
        return
    for name in np.unique(groups):
        yield np.asarray(groups) == name


def softmax_weights(log_weights: Any, sample_weight: Any = None, groups: Any = None) -> Reals:
    r"""Return the dual weights of sum 1, :math:`p_i \propto q_i e^{a_i}`, of equal sums in each group.

    Parameters
    ----------
    log_weights : array of shape (n,), -Zw for the weights at w; longdouble stays longdouble.
    sample_weight : array of shape (n,), optional
    groups : array of shape (n,), optional
        The class of each row, if an intercept is fitted.

    Examples
    --------
    >>> softmax_weights([0.0, np.log(3.0)]).round(12).tolist()
    [0.25, 0.75]
    """
    a = _reals(log_weights)
    q = np.ones_like(a) if sample_weight is None else np.asarray(sample_weight, dtype=a.dtype)
    p, masks = np.zeros_like(a), list(classes_of(a.size, groups))
    for mask in masks:
        counted = mask & (q > 0.0)  # rows of sample weight 0 do not count, not even as the largest
        mass = q[counted] * np.exp(a[counted] - a[counted].max())
        p[counted] = mass / (mass.sum() * len(masks))
    return p


def log_sum_exp(log_weights: Any, sample_weight: Any = None, groups: Any = None) -> Any:
    r"""Return :math:`\log \sum_i q_i e^{a_i}`, the mean over groups.

    Examples
    --------
    >>> bool(log_sum_exp([1e5, 1e5]) == 1e5 + np.log(2.0))
    True
    """
    a = _reals(log_weights)
    q = np.ones_like(a) if sample_weight is None else np.asarray(sample_weight, dtype=a.dtype)
    tops = []
    for mask in classes_of(a.size, groups):
        counted = mask & (q > 0.0)
        tops.append(a[counted].max() + np.log((q[counted] * np.exp(a[counted] - a[counted].max())).sum()))
    return sum(tops) / len(tops)


def renyi_entropy(log_weights: Any, order: float = 1.0, sample_weight: Any = None, groups: Any = None) -> Any:
    r"""Return the Rényi entropy of the dual weights, Shannon's for order 1.

    .. math::

        H_r(p) = \frac{1}{1 - r} \log \sum_i p_i^r, \qquad H_1 = -\sum_i p_i \log p_i, \qquad
        H_\infty = -\log \max_i p_i

    With sample weights q it is :math:`-D_r(p \| q) = \frac{1}{1 - r} \log \sum_i q_i (p_i / q_i)^r`.

    Parameters
    ----------
    log_weights : array of shape (n,), -Zw for the weights at w.
    order : float, positive; infinity for the entropy of the largest weight.
    sample_weight, groups : arrays of shape (n,), optional

    Examples
    --------
    >>> uniform = np.zeros(8)
    >>> [round(float(renyi_entropy(uniform, r) / np.log(2.0)), 12) for r in (0.5, 1.0, 8.0, np.inf)]
    [3.0, 3.0, 3.0, 3.0]
    >>> bool(renyi_entropy([0.0, 1.0], 2.0) > renyi_entropy([0.0, 1.0], 8.0))
    True
    """
    if not order > 0.0:
        raise ValueError(f"The order of an entropy must be positive; got {order!r}.")
    a = _reals(log_weights)
    q = np.ones_like(a) if sample_weight is None else np.asarray(sample_weight, dtype=a.dtype)
    counted = q > 0.0
    found = [_entropy(a[mask & counted], order, q[mask & counted]) for mask in classes_of(a.size, groups)]
    return sum(found) / len(found)


def _entropy(a: Reals, order: float, q: Reals) -> Any:
    below = a - a.max()
    mass = q * np.exp(below)
    total = mass.sum()
    if order == 1.0:
        return np.log(total) - (mass * below).sum() / total
    if math.isinf(order):
        return np.log(total)
    if abs(order - 1.0) < NEAR_ONE:  # a logarithm of nearly 1 is divided by nearly 0
        moved = mass / total * np.expm1((order - 1.0) * (below - np.log(total)))
        return np.log1p(moved.sum()) / (1.0 - order)
    # sum q (p/q)^r = sum q e^(r below) / total^r: only ratios to the largest weight are formed.
    return (np.log((q * np.exp(order * below)).sum()) - order * np.log(total)) / (1.0 - order)


def entropy_excess(log_weights: Any, sample_weight: Any = None, groups: Any = None) -> Any:
    r"""Return :math:`\Delta = H_1 - H_\infty`, by which the mean margin exceeds the smallest.

    .. math:: \Delta = \sum_i p_i (\max_j a_j - a_i) = \langle w, Z^\top p \rangle - \min_i \langle w, z_i
        \rangle \qquad (a = -Zw)

    Summed as it stands on the right, nothing cancels (E4 of docs/exponential.md).

    Parameters
    ----------
    log_weights : array of shape (n,)
    sample_weight, groups : arrays of shape (n,), optional

    Examples
    --------
    >>> a = np.array([0.0, -1.0, -4.0])
    >>> bool(abs(entropy_excess(a) - (renyi_entropy(a) - renyi_entropy(a, np.inf))) < 1e-15)
    True
    """
    a = _reals(log_weights)
    p = softmax_weights(a, sample_weight, groups)
    counted = np.ones(a.size, bool) if sample_weight is None else np.asarray(sample_weight) > 0.0
    masks = [mask & counted for mask in classes_of(a.size, groups)]
    return sum((p[mask] * (a[mask].max() - a[mask])).sum() for mask in masks)


def entropy_excess_bound(n: int, sample_weight: Any = None, groups: Any = None) -> float:
    r"""Return the largest Delta of n rows, attained by one row of weight 1 and n - 1 equal others.

    .. math:: \Delta \le W\!\left(\frac{n - 1}{e}\right) < \log n, \qquad
        \Delta \le W\!\left(\frac{Q - q_{\min}}{e\, q_{\min}}\right), \quad Q = \sum_i q_i

    W is Lambert's function. It is attained where the others' margins are larger by :math:`1 + \Delta` (E5 of
    docs/exponential.md). With groups it is the mean of the groups' bounds.

    Parameters
    ----------
    n : int, the number of rows.
    sample_weight : array of shape (n,), optional, positive.
    groups : array of shape (n,), optional

    Examples
    --------
    >>> bound = entropy_excess_bound(5)
    >>> margins = np.array([0.0, *[1.0 + bound] * 4])
    >>> round(bound, 6), round(float(entropy_excess(-margins)), 6), round(math.log(5.0), 6)
    (0.717825, 0.717825, 1.609438)
    """
    from scipy.special import lambertw

    check_integer("n", n, minimum=1)
    q = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if q.shape != (n,) or not (q > 0.0).all():
        raise ValueError(f"Expected {n} positive sample weights; got {q.shape} of minimum {q.min():.3g}.")
    found = []
    for mask in classes_of(n, groups):
        others = (q[mask].sum() - q[mask].min()) / q[mask].min()
        found.append(float(lambertw(others / math.e).real))
    return sum(found) / len(found)


def _reals(a: Any) -> Reals:
    """Return an array of floats, longdouble if it was."""
    a = np.asarray(a)
    return a if a.dtype == np.longdouble else np.asarray(a, dtype=np.float64)
