r"""The centripetal velocity: how fast a normalized gradient step brings w nearer to the max-margin ray."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array
from prgd.problem import Problem
from prgd_paper.theory.support import signed_rows

# A part off the ray below this fraction of ||w|| is rounding, and its direction means nothing.
ON_THE_RAY = 8.0 * float(np.finfo(np.float64).eps)
UNIT_NORM_TOL = 1e-8


def decompose(w: Any, w_star: Any) -> tuple[Any, Array]:
    r"""Split w into its length along the max-margin direction and the rest.

    .. math:: w = \langle w, w^\star \rangle w^\star + P_\perp(w)

    Parameters
    ----------
    w : array of shape (d,), or (m, d) for many.
    w_star : array of shape (d,), of norm 1.

    Returns
    -------
    along : float, or array of shape (m,)
        :math:`\langle w, w^\star \rangle`, so that :math:`P(w)` is ``along * w_star``.
    off : ndarray of the shape of w
        :math:`P_\perp(w)`.

    Raises
    ------
    ValueError
        When the dimensions differ, or ``w_star`` does not have norm 1.

    References
    ----------
    Definition 5.1 of the paper.

    Examples
    --------
    >>> along, off = decompose([3.0, 4.0], [1.0, 0.0])
    >>> along, off.tolist()
    (3.0, [0.0, 4.0])
    """
    w, w_star = np.asarray(w, dtype=np.float64), np.asarray(w_star, dtype=np.float64)
    length = float(np.linalg.norm(w_star))
    if w_star.ndim != 1 or not abs(length - 1.0) <= UNIT_NORM_TOL:
        raise ValueError(
            f"w_star must be one vector of norm 1; got shape {w_star.shape} and norm {length:.6g}. "
            "max_margin_reference(Z).w_star is one."
        )
    if w.ndim not in (1, 2) or w.shape[-1] != w_star.size:
        raise ValueError(
            f"w must have shape ({w_star.size},) or (m, {w_star.size}), as w_star has; got {w.shape}."
        )
    along = w @ w_star
    off = w - np.multiply.outer(along, w_star)
    # The projection is repeated: far out on the ray, rounding leaves a part along w_star in the first one.
    off = off - np.multiply.outer(off @ w_star, w_star)
    return (float(along) if w.ndim == 1 else along), off


def direction_error(w: Any, w_star: Any) -> Any:
    r"""Return :math:`\|w/\|w\| - w^\star\|`, without cancellation near the ray.

    With :math:`\theta` the angle between them this is :math:`2 \sin(\theta/2)`; the difference of the
    two unit vectors would lose its digits below about 1e-8 of angle squared.

    Parameters
    ----------
    w : array of shape (d,) or (m, d), not zero.
    w_star : array of shape (d,), of norm 1.

    Returns
    -------
    float, or array of shape (m,)

    References
    ----------
    The directional error of Theorem 6.1 and Lemma A.1.

    Examples
    --------
    >>> round(direction_error([1.0, 1.0], [1.0, 0.0]), 9)  # 2 sin(pi / 8)
    0.765366865
    """
    along, off = decompose(w, w_star)
    angle = np.arctan2(np.linalg.norm(off, axis=-1), along)
    error = 2.0 * np.sin(0.5 * angle)
    return float(error) if np.ndim(error) == 0 else error


def centripetal_velocity(problem: Problem, w: Array, w_star: Any) -> float:
    r"""Return the centripetal velocity at w, by one pass over the rows of any engine.

    .. math::

        \varphi(w) = \Big\langle -\frac{\nabla L(w)}{L(w)},\; -\frac{P_\perp(w)}{\|P_\perp(w)\|} \Big\rangle

    Parameters
    ----------
    problem : Problem
    w : ndarray of shape (d,), off the max-margin ray.
    w_star : array of shape (d,), of norm 1.

    Returns
    -------
    float
        Positive if a normalized gradient step turns w towards ``w_star``; in the units of the rows.

    Raises
    ------
    ValueError
        When the dimensions differ, or w lies on the ray, where there is no direction towards it.

    References
    ----------
    Definition 5.2 of the paper.

    Examples
    --------
    >>> import prgd
    >>> data = prgd.datasets.toy(0.6)
    >>> problem = prgd.Problem(data.X, data.y)
    >>> round(centripetal_velocity(problem, np.array([5.0, 2.0]), data.w_star), 6)
    0.679393
    """
    _, off = decompose(w, w_star)
    length = float(np.linalg.norm(off))
    if not length > ON_THE_RAY * float(np.linalg.norm(w)):
        raise ValueError(
            "The centripetal velocity is not defined on the max-margin ray: P_perp(w) is 0 to rounding."
        )
    return float(problem.at(w).normalized_gradient @ off) / length


def centripetal_velocities(data: Any, W: Any, w_star: Any) -> Array:
    r"""Return the centripetal velocity at many w at once; NaN on the max-margin ray.

    For small problems: it holds all margins, an array of shape (m, n).

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y) or Dataset
        The loss is exponential.
    W : array of shape (m, d).
    w_star : array of shape (d,), of norm 1.

    Returns
    -------
    ndarray of shape (m,)

    References
    ----------
    Definition 5.2 of the paper.

    Examples
    --------
    >>> Z = [[0.6, 0.8], [0.6, -0.8]]
    >>> centripetal_velocities(Z, [[5.0, 2.0], [5.0, -2.0], [5.0, 0.0]], [1.0, 0.0]).round(6)
    array([0.737335, 0.737335,      nan])
    """
    Z = signed_rows(data)
    W = np.atleast_2d(np.asarray(W, dtype=np.float64))
    if W.shape[-1] != Z.shape[1]:
        raise ValueError(
            f"w must have {Z.shape[1]} entries, one for each column of the rows; got {W.shape[-1]}."
        )
    _, off = decompose(W, w_star)
    length = np.linalg.norm(off, axis=1)
    is_off = length > ON_THE_RAY * np.linalg.norm(W, axis=1)
    velocity = np.full(len(W), math.nan)
    inward = off[is_off] / length[is_off, None]
    velocity[is_off] = -np.einsum("md,md->m", _mean_rows(Z, W[is_off]), inward)
    return velocity


class Field(NamedTuple):
    """The velocity field on a grid: ``direction[j, i]`` and ``velocity[j, i]`` are at (x[i], y[j])."""

    x: Array
    y: Array
    direction: Array  # -grad L / ||grad L||, of shape (len(y), len(x), 2)
    velocity: Array  # NaN on the max-margin ray


def velocity_field(data: Any, w_star: Any, x: Any, y: Any) -> Field:
    r"""Return the field of Figure 1(b) on a grid: the direction of descent and the centripetal velocity.

    .. math::

        -\nabla L(w) / \|\nabla L(w)\|, \qquad \varphi(w) = \Big\langle \frac{\nabla L(w)}{L(w)},
        \frac{P_\perp w}{\|P_\perp w\|} \Big\rangle

    Parameters
    ----------
    data : array Z of shape (n, 2), pair (X, y) or Dataset
        Two-dimensional; the loss is exponential.
    w_star : array of shape (2,), of norm 1.
    x, y : arrays of shape (a,) and (b,)
        The grid lines of w_1 and of w_2.

    Returns
    -------
    Field

    Raises
    ------
    ValueError
        When the rows are not two-dimensional.

    References
    ----------
    Figure 1(b) (the gray arrows) and Definition 5.2 of the paper.

    Examples
    --------
    >>> import prgd
    >>> data = prgd.datasets.toy(0.6)
    >>> field = velocity_field(data, data.w_star, [4.0, 5.0], [0.2, 2.0])
    >>> field.velocity.round(2)  # negative below the attractor's line, positive above it
    array([[-0.15, -0.15],
           [ 0.68,  0.68]])
    """
    Z = signed_rows(data)
    if Z.shape[1] != 2:
        raise ValueError(
            f"velocity_field draws the plane: rows must have 2 columns; got {Z.shape[1]}. "
            "In more dimensions use centripetal_velocities."
        )
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    W = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    descent = _mean_rows(Z, W)
    descent /= np.linalg.norm(descent, axis=1, keepdims=True)
    shape = (y.size, x.size)
    velocity = centripetal_velocities(Z, W, w_star).reshape(shape)
    return Field(x, y, descent.reshape(*shape, 2), velocity)


class Attractor(NamedTuple):
    """The strip of w_2 that attracts NGD on the toy problem, and the line within it of zero velocity."""

    lower: float
    line: float
    upper: float
    reached_at_once: bool


def toy_attractor(gamma_star: float) -> Attractor:
    r"""Return the attractor of NGD on the toy problem, as an interval of w_2.

    .. math::

        \frac{\log 2}{4 s} \le w_2 \le \frac{3 \log 2}{4 s}, \qquad
        \varphi = 0 \text{ at } w_2 = \frac{\log 2}{2 s}, \qquad s = \sqrt{1 - \gamma^{\star 2}}

    Parameters
    ----------
    gamma_star : float, strictly between 0 and 1.

    Returns
    -------
    Attractor
        ``reached_at_once``: whether the first step of NGD from 0, with ``eta = 1``, lands inside, as the
        induction of Appendix A.1 begins. It does for :math:`\gamma^\star \le \sqrt{1 - \tfrac34 \log 2}`,
        about 0.693; above that NGD enters later. Once inside it stays, whatever gamma_star.

    References
    ----------
    Section 4 (the green zone) and Step II of the proof of Proposition 4.1, Appendix A.1.

    Examples
    --------
    >>> import prgd
    >>> zone = toy_attractor(0.3)
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.3))
    >>> zone.lower <= float(prgd.run(problem, prgd.NGD(), stop=50).w[1]) <= zone.upper
    True
    """
    if not 0.0 < gamma_star < 1.0:
        raise ValueError(f"gamma_star must lie strictly between 0 and 1; got {gamma_star}.")
    s_squared = 1.0 - gamma_star**2
    quarter = math.log(2.0) / (4.0 * math.sqrt(s_squared))
    return Attractor(quarter, 2.0 * quarter, 3.0 * quarter, s_squared >= 0.75 * math.log(2.0))


def _mean_rows(Z: Array, W: Array) -> Array:
    """Return ``-grad L / L = sum_i p_i z_i`` at each row of W, with ``p = softmax(-Z w)``."""
    exponent = -(W @ Z.T)
    p = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return np.asarray((p / p.sum(axis=1, keepdims=True)) @ Z)
