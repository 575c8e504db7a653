r"""The regularisation path, the minimisers of the loss in growing balls, in l2, l1 and l-infinity.

In l1 and l-infinity an interior point finds the face of the ball on which w lies. On that face ``w = T x``
and ``||w|| = <t, x>`` are linear in fewer coordinates x: the signed entries of w that are not zero (l1), or
the norm and the entries below it (l-infinity). There the objective is smooth, and Newton's method ends in
extended precision. The duality gap of the point says how near the minimum is, whatever found it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from prgd.core.checks import check_positive
from prgd.core.types import Array, Mask
from prgd.norms import L1, L2, Linf, Norm, as_norm
from prgd.rows.labels import Labels
from prgd_paper.theory.entropies import Reals, log_sum_exp, minimise_soft_loss, next_start
from prgd_paper.theory.path_point import PathPoint
from prgd_paper.theory.support import signed_rows

_LAST_GAP = 1e-13  # the interior point ends at this duality gap and residual, in nats
_MAX_FACES = 12  # faces on which Newton's method is tried


class Face(NamedTuple):
    """A face of the ball: the sign of w where the norm binds, and which entries are coordinates of their own.

    In l1 the free entries are those that are not zero. In l-infinity the free entries are those below the
    norm, and all others are the norm times their sign.
    """

    norm: Norm
    signs: Array
    is_free: Mask

    @property
    def transform(self) -> tuple[Array, Array]:
        """T of shape (d, k) and t of shape (k,) with ``w = T x`` and ``||w|| = <t, x>`` on the face."""
        own = np.eye(self.signs.size)[:, self.is_free]
        if isinstance(self.norm, L1):
            return own, self.signs[self.is_free]
        T = np.column_stack([np.where(self.is_free, 0.0, self.signs), own])
        return T, np.eye(1, T.shape[1])[0]

    def coordinates(self, w: Reals) -> Reals:
        """Return x of a w on the face."""
        own = w[self.is_free]
        return own if isinstance(self.norm, L1) else np.append(np.abs(w).max(), own)

    def corrected(self, w: Reals, u: Reals) -> Face:
        """Return the face with the entries of w and u that violate optimality moved; equal if none does."""
        free, signs, u = self.is_free.copy(), self.signs.copy(), u.astype(np.float64)
        R, U = self.norm(w.astype(np.float64)), self.norm.dual(u)
        if isinstance(self.norm, L1):
            inner = float(np.abs(u[free]).mean()) if free.any() else 0.0
            enters = ~free & (np.abs(u) > inner * (1.0 + 1e-12))
            free &= np.where(free, signs * w.astype(np.float64) > 0.0, False)
            free |= enters
            signs = np.where(enters, np.sign(u), signs)
        else:
            bound = ~free
            leaves = bound & (signs * u < -1e-12 * U)
            reaches = free & (np.abs(w.astype(np.float64)) >= R * (1.0 - 1e-15))
            signs = np.where(reaches, np.sign(w.astype(np.float64)), signs)
            free = (free & ~reaches) | leaves
            if free.all():
                free[int(np.abs(w).argmax())] = False
        return Face(self.norm, signs, free)


def minimise_on_path(
    Z: Array, lam: float, norm: Norm, w: Reals, last: float, face: Face | None
) -> tuple[Reals, Face]:
    r"""Minimise :math:`\mathrm{LSE}(-Zw) + \frac\lambda2 \|w\|^2` in l1 or l-infinity.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
    lam : float, positive.
    norm : L1 or Linf
    w : ndarray of shape (d,), the minimiser at the penalty ``last``.
    last : float
    face : Face of w, optional
        Tried first, before the interior point.

    Returns
    -------
    w : ndarray of shape (d,), longdouble
    face : Face of the ball that holds w.

    Examples
    --------
    >>> Z = np.array([[1.0, 0.5], [0.2, 1.0]])
    >>> w, face = minimise_on_path(Z, 1e-3, L1(), np.zeros(2), 1.0, None)
    >>> point = PathPoint(Z.astype(np.longdouble), w, L1())
    >>> bool(point.duality_gap(1e-3) < 1e-12), face.is_free.tolist()
    (True, [True, True])
    """
    fine = Z.astype(np.longdouble)
    best: tuple[Any, Reals, Face] | None = None
    start = w * (last / lam)
    if face is not None:
        T, t = face.transform
        start = T @ next_start(Z @ T, lam, last, face.coordinates(w), form=t)
        best = _on_faces(Z, fine, lam, start, face, 2)
    if best is None or best[0] > _allowed(fine, best[1], norm):
        near, new = _interior_point(Z, lam, norm, start.astype(np.float64))
        inner = near.astype(np.longdouble)
        found = _on_faces(Z, fine, lam, inner, new, _MAX_FACES)
        plain = (PathPoint(fine, inner, norm).duality_gap(lam), inner, new)
        best = min((c for c in (best, found, plain) if c is not None), key=lambda c: c[0])
    return best[1].astype(np.longdouble), best[2]


def _allowed(fine: Any, w: Reals, norm: Norm) -> float:
    """Return the duality gap that rounding leaves.

    Margins of size M are rounded to ``e = (n + d) eps M``, weights to 2 e, relative, and u to 2 e times the
    longest row B; w itself is rounded, too. The gap grows linearly in u off the face, so that it keeps 4 e
    B R; a factor of 4 is left for Newton's method, which ends where its steps do not shrink any more.
    """
    size = max(1.0, float((np.abs(fine) @ np.abs(w)).max()))
    reach = max(norm.dual(z) for z in fine.astype(np.float64)) * norm(w.astype(np.float64))
    return float(16.0 * (sum(fine.shape) + 16) * np.finfo(np.longdouble).eps * size * max(reach, 1.0))


def _on_faces(
    Z: Array, fine: Any, lam: float, start: Reals, face: Face, tries: int
) -> tuple[Any, Reals, Face] | None:
    """Return the smallest duality gap, its w and its face, by Newton's method on a face and neighbours."""
    best = None
    for _ in range(tries):
        T, t = face.transform
        if not t.size:
            return best
        x = minimise_soft_loss(Z @ T, lam, face.coordinates(start), form=t)
        w = T.astype(np.longdouble) @ x
        point = PathPoint(fine, w, face.norm)
        gap = point.duality_gap(lam)
        if best is None or gap < best[0]:
            best = (gap, w, face)
        if gap <= _allowed(fine, w, face.norm):
            break
        new = face.corrected(w, point.dual_vector)
        if np.array_equal(new.is_free, face.is_free) and np.array_equal(new.signs, face.signs):
            break
        face, start = new, w
    return best


def _interior_point(Z: Array, lam: float, norm: Norm, start: Array) -> tuple[Array, Face]:
    """Return w near the minimiser and its face, from an exponential cone program in the step from a start.

    Bounds v on the entries of w, one each in l1 and a common one in l-infinity, have the sum ``||w||``.
    """
    import clarabel
    from scipy.sparse import csc_array

    (n, d), margins, is_l1 = Z.shape, Z @ start, isinstance(norm, L1)
    eye = np.eye(d)
    E = eye if is_l1 else np.ones((d, 1))
    k = E.shape[1]
    # The unknowns are the step, the value, u and v. Of each row (-<w, z_i> - value, 1, u_i) is in the
    # exponential cone, and the sum of u is at most 1.
    A = np.zeros((2 * d + 1 + 3 * n, d + 1 + n + k))
    A[: 2 * d, :d], A[: 2 * d, -k:] = np.vstack([eye, -eye]), -np.vstack([E, E])
    A[2 * d, d + 1 : -k] = 1.0
    A[2 * d + 1 :: 3, : d + 1] = np.column_stack([Z, np.ones(n)])
    A[2 * d + 3 :: 3, d + 1 : -k] = -np.eye(n)
    of_cones = np.column_stack([-margins - log_sum_exp(-margins), np.ones(n), np.zeros(n)])
    limits = np.concatenate([-start, start, [1.0], of_cones.ravel()])
    P = np.zeros((A.shape[1], A.shape[1]))
    P[-k:, -k:] = lam
    cones = [clarabel.NonnegativeConeT(2 * d + 1), *[clarabel.ExponentialConeT()] * n]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _LAST_GAP
    costs = np.eye(1, A.shape[1], d)[0]
    found = clarabel.DefaultSolver(csc_array(P), costs, csc_array(A), limits, cones, settings).solve()
    w = start + np.array(found.x[:d])
    slack, y = (np.array(part[: 2 * d]).reshape(2, d) for part in (found.s, found.z))
    # Of a slack and its multiplier, the one that is larger in its own units stays away from 0.
    if is_l1:
        return w, Face(norm, np.sign(w), (slack > y / lam)[0] | (slack > y / lam)[1])
    is_bound: Mask = y * d / lam > slack
    signs = np.where(is_bound[0], 1.0, np.where(is_bound[1], -1.0, np.sign(w)))
    is_free = ~(is_bound[0] | is_bound[1])
    if is_free.all():
        is_free[int(np.abs(w).argmax())] = False
    return w, Face(norm, signs, is_free)


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
    if not isinstance(norm, (L1, L2, Linf)) or (groups is not None and not isinstance(norm, L2)):
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
    return minimise_soft_loss(Z, lam, start, groups=groups), None


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
