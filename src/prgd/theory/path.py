"""The regularisation path: the minimisers of the loss in balls of growing radius."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from prgd._types import Array
from prgd.checks import check_positive
from prgd.theory.newton import minimise_log_mean_exp
from prgd.theory.support import signed_rows


class Path(NamedTuple):
    """Points of the regularisation path: the radius ``R = ||w||`` and w, one row for each penalty."""

    penalty: Array
    R: Array
    w: Array


def regularization_path(data: Any, penalties: Iterable[float]) -> Path:
    r"""Return minimisers of the exponential loss in balls, by their multipliers.

    .. math::

        w(\lambda) = \arg\min_w \log L(w) + \frac{\lambda}{2} \|w\|^2
                   = \arg\min_{\|w\| \le R} L(w), \qquad R = \|w(\lambda)\|

    Newton's method with halved steps, each point from the last one scaled to the new penalty.

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y) or Dataset
    penalties : decreasing positive numbers
        On separable data R is about ``gamma_star / penalty`` for small ones.

    Returns
    -------
    Path

    References
    ----------
    Lemma A.2 and Step I of the proof of Proposition 4.1, Appendix A.

    Examples
    --------
    >>> import prgd
    >>> path = regularization_path(prgd.datasets.toy(0.6), [1e-1, 1e-5])
    >>> round(float(path.w[-1, 1]), 4)  # log 2 / (2 sqrt(1 - gamma^2)) = 0.4332
    0.4332
    """
    Z = signed_rows(data)
    w = np.zeros(Z.shape[1])
    values = [float(penalty) for penalty in penalties]
    found = []
    for k, penalty in enumerate(values):
        check_positive("each penalty", penalty)
        w = minimise_log_mean_exp(-Z, penalty, w * (values[k - 1] / penalty) if k else w).x
        found.append(w)
    points = np.array(found).reshape(-1, Z.shape[1])
    return Path(np.array(values), np.linalg.norm(points, axis=1), points)
