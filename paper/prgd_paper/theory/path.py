"""The regularisation path, the minimisers of the loss in growing balls, in l2, l1 and l-infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from prgd.core.checks import check_positive
from prgd.core.types import Array
from prgd.norms import L2, Norm, as_norm
from prgd.rows.labels import Labels
from prgd_paper.theory.entropies import Reals
from prgd_paper.theory.newton import minimise_soft_loss, next_start
from prgd_paper.theory.path_point import PathPoint
from prgd_paper.theory.polyhedral_path import POLYHEDRAL, Face, minimise_on_path
from prgd_paper.theory.support import signed_rows

UNSOLVED = 1e-3  # nats of duality gap, far above rounding, at which a minimiser was not found
MAX_HALVINGS = 4  # times that the step to a penalty is halved if its minimiser is not found
MAX_RATIO = 8.0  # penalties further apart get others between them, each solved from the one before


class Path(NamedTuple):
    """Points of the regularisation path: the radius ``R = ||w||`` and w, one row for each penalty."""

    penalty: Array
    R: Array
    w: Array


def regularization_path(
    data: Any, penalties: Iterable[float], *, norm: Norm | str = "l2", fit_intercept: bool = False
) -> Path:
    r"""Return minimisers of the exponential loss in balls, by their multipliers.

    .. math::

        w(\lambda) = \arg\min_w \log L(w) + \frac{\lambda}{2} \|w\|^2
                   = \arg\min_{\|w\| \le R} L(w), \qquad R = \|w(\lambda)\|

    Newton's method, each point from the last one scaled to the new penalty.

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y) or Dataset
    penalties : decreasing positive numbers
        On separable data R is about ``gamma_star / penalty`` for small ones.
    norm : {"l2", "l1", "linf"} or Norm
    fit_intercept : bool
        Whether L is minimised over an intercept, too; l2 only, and data must have labels.

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
    >>> regularization_path(prgd.datasets.toy(0.6), [1e-5], norm="l1").w.round(4).tolist()
    [[60000.0, 0.0]]
    """
    Z, as_given = signed_rows(data), as_norm(norm)
    values = [float(penalty) for penalty in penalties]
    for penalty in values:
        check_positive("each penalty", penalty)
    found = path_points(Z, values, as_given, class_signs(data) if fit_intercept else None)
    points = np.array([point.w.astype(np.float64) for point in found]).reshape(-1, Z.shape[1])
    return Path(np.array(values), np.array([as_given(w) for w in points]), points)


def path_points(
    Z: Array, penalties: Iterable[float], norm: Norm | None = None, groups: Any = None
) -> Iterator[PathPoint]:
    """Yield the minimisers of F at decreasing penalties, in extended precision.

    Parameters
    ----------
    Z : ndarray of shape (n, d), the rows ``z_i = y_i x_i``.
    penalties : decreasing positive numbers
    norm : L2 (by default), L1 or Linf
    groups : array of shape (n,), optional
        The class of each row if an intercept is fitted; l2 only.

    Yields
    ------
    PathPoint, in longdouble; its ``duality_gap`` bounds what F exceeds its minimum by.

    Examples
    --------
    >>> Z = np.array([[2.0, 1.0], [2.0, -0.5], [3.0, 0.0]])
    >>> [bool(point.duality_gap(1e-4) < 1e-15) for point in path_points(Z, [1e-4])]
    [True]
    """
    norm = norm or L2()
    if not isinstance(norm, (L2, *POLYHEDRAL)) or (groups is not None and not isinstance(norm, L2)):
        raise ValueError(
            f"The path is computed in l2, l1 and linf, with an intercept in l2 only; got the norm {norm} "
            f"{'with' if groups is not None else 'without'} an intercept."
        )
    fine, w = Z.astype(np.longdouble), np.zeros(Z.shape[1], np.longdouble)
    last, face = max(norm.dual(z) for z in Z) ** 2, None
    w, face = _minimise(Z, last, norm, last, w, face, groups)
    for penalty in penalties:
        between = int(np.ceil(np.log(max(last / penalty, 1.0)) / np.log(MAX_RATIO)))
        for lam in last * (penalty / last) ** (np.arange(1, between + 1) / max(between, 1)):
            w, face = _minimise(Z, float(lam), norm, last, w, face, groups)
            last = float(lam)
        if not between or last != penalty:
            w, face = _minimise(Z, penalty, norm, last, w, face, groups)
            last = penalty
        yield PathPoint(fine, w, norm, groups)


def _minimise(
    Z: Array, lam: float, norm: Norm, last: float, w: Reals, face: Face | None, groups: Any
) -> tuple[Reals, Face | None]:
    """Return the minimiser at a penalty from w, the minimiser at the one before."""
    if not isinstance(norm, L2):
        return _on_polyhedral_path(Z, lam, norm, last, w, face, MAX_HALVINGS)
    start = next_start(Z, lam, last, w, groups=groups)
    return minimise_soft_loss(Z, lam, start, groups=groups).x, None


def _on_polyhedral_path(
    Z: Array, lam: float, norm: Norm, last: float, w: Reals, face: Face | None, halvings: int
) -> tuple[Reals, Face]:
    """Return the minimiser in l1 or l-infinity; by way of a penalty between the two if it is not found."""
    found = minimise_on_path(Z, lam, norm, w, last, face)
    gap = float(PathPoint(Z.astype(np.longdouble), found[0], norm).duality_gap(lam))
    if gap < UNSOLVED or not halvings or last <= lam:
        return found
    middle = math.sqrt(lam * last)
    w, face = _on_polyhedral_path(Z, middle, norm, last, w, face, halvings - 1)
    return _on_polyhedral_path(Z, lam, norm, middle, w, face, halvings - 1)


def class_signs(data: Any) -> Any:
    """Return the labels of a pair (X, y) or Dataset as signs.

    Raises
    ------
    ValueError
        If there are no labels: an intercept needs them.
    """
    from prgd.datasets import Dataset

    if not isinstance(data, (Dataset, tuple)):
        raise ValueError("An intercept needs labels: give a pair (X, y) or a Dataset, not the rows z_i.")
    X, y = data
    return Labels.read(y, None, X.shape[0]).signs
